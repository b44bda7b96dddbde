#include "client/fetch_sink.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/digest.h"
#include "compiler/base/status.h"

namespace kiln::client {
namespace {

constexpr size_t kDigestDigits = 16;
constexpr absl::string_view kPartSuffix = ".part";

absl::Status FileError(absl::string_view what, const std::string& path) {
  const int error = errno;
  const std::string text = absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(text);
  return absl::FailedPreconditionError(text);
}

class StringSink : public FetchSink {
 public:
  explicit StringSink(std::string* bytes) : bytes_(bytes) { bytes_->clear(); }

  int64_t size() const override { return static_cast<int64_t>(bytes_->size()); }
  bool Continues(absl::string_view digest, int64_t total_bytes) const override {
    return bytes_->empty() || (digest == digest_ && size() <= total_bytes);
  }
  absl::Status Restart() override {
    bytes_->clear();
    return absl::OkStatus();
  }
  absl::Status Begin(absl::string_view digest) override {
    digest_ = std::string(digest);
    return absl::OkStatus();
  }
  absl::Status Append(absl::string_view bytes) override {
    bytes_->append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  absl::Status Finish() override {
    const std::string actual = Sha256Hex(*bytes_);
    if (actual == digest_) return absl::OkStatus();
    bytes_->clear();
    return absl::DataLossError(absl::StrCat("the fetched bytes hash to ", actual, ", not to ",
                                            digest_, " as announced; fetch again"));
  }

 private:
  std::string* const bytes_;
  std::string digest_;
};

class FileSink : public FetchSink {
 public:
  explicit FileSink(std::string path) : path_(std::move(path)) {}
  ~FileSink() override { Close(); }

  absl::Status FindPart();
  int64_t size() const override { return size_; }
  bool Continues(absl::string_view digest, int64_t total_bytes) const override;
  absl::Status Restart() override;
  absl::Status Begin(absl::string_view digest) override;
  absl::Status Append(absl::string_view bytes) override;
  absl::Status Finish() override;

 private:
  std::string PartPath(absl::string_view digits) const {
    return absl::StrCat(path_, ".", digits, kPartSuffix);
  }
  absl::Status Adopt(const std::string& part, absl::string_view digits);
  void Close();

  const std::string path_;
  std::string digest_digits_;  // of the part file that is there
  std::string digest_;         // whole; empty before Begin()
  std::optional<Hasher> hasher_;
  int64_t size_ = 0;
  int fd_ = -1;
};

absl::Status FileSink::FindPart() {
  namespace fs = std::filesystem;
  const fs::path target(path_);
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot write into ", folder.string(), ": ", error.message()));
  }
  const std::string prefix = target.filename().string() + ".";
  for (const fs::directory_entry& entry : entries) {
    const std::string name = entry.path().filename().string();
    if (name.size() != prefix.size() + kDigestDigits + kPartSuffix.size()) continue;
    if (!absl::StartsWith(name, prefix) || !absl::EndsWith(name, kPartSuffix)) continue;
    return Adopt(entry.path().string(), name.substr(prefix.size(), kDigestDigits));
  }
  return absl::OkStatus();
}

absl::Status FileSink::Adopt(const std::string& part, absl::string_view digits) {
  const int fd = open(part.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return FileError("open", part);
  fd_ = fd;
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    Close();
    return absl::FailedPreconditionError(absl::StrCat(
        part, " is being written by another process; wait for it or choose another path"));
  }
  hasher_.emplace();
  digest_digits_ = std::string(digits);
  std::vector<char> buffer(1 << 18);
  ssize_t got = 0;
  while ((got = read(fd, buffer.data(), buffer.size())) > 0) {
    hasher_->Update(absl::string_view(buffer.data(), static_cast<size_t>(got)));
    size_ += got;
  }
  return got < 0 ? FileError("read", part) : absl::OkStatus();
}

bool FileSink::Continues(absl::string_view digest, int64_t total_bytes) const {
  if (size_ == 0) return true;
  return digest.substr(0, kDigestDigits) == digest_digits_ && size_ <= total_bytes;
}

absl::Status FileSink::Restart() {
  if (fd_ >= 0) unlink(PartPath(digest_digits_).c_str());
  Close();
  size_ = 0;
  digest_digits_.clear();
  return absl::OkStatus();
}

absl::Status FileSink::Begin(absl::string_view digest) {
  digest_ = std::string(digest);
  const std::string digits(digest.substr(0, kDigestDigits));
  if (fd_ >= 0 && digits == digest_digits_) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(Restart());
  const std::string part = PartPath(digits);
  fd_ = open(part.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd_ < 0) return FileError("create", part);
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0) return FileError("lock", part);
  hasher_.emplace();
  digest_digits_ = digits;
  return absl::OkStatus();
}

absl::Status FileSink::Append(absl::string_view bytes) {
  hasher_->Update(bytes);
  while (!bytes.empty()) {
    const ssize_t wrote = write(fd_, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return FileError("write", PartPath(digest_digits_));
    bytes.remove_prefix(static_cast<size_t>(wrote));
    size_ += wrote;
  }
  return absl::OkStatus();
}

absl::Status FileSink::Finish() {
  const std::string part = PartPath(digest_digits_);
  const std::string actual = hasher_->FinishHex();
  if (actual != digest_) {
    KILN_RETURN_IF_ERROR(Restart());
    return absl::DataLossError(absl::StrCat("the fetched bytes hash to ", actual, ", not to ",
                                            digest_, " as announced; fetch again"));
  }
  if (fsync(fd_) != 0) return FileError("sync", part);
  if (rename(part.c_str(), path_.c_str()) != 0) return FileError("rename", part);
  Close();
  return absl::OkStatus();
}

void FileSink::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
  hasher_.reset();
}

}  // namespace

std::unique_ptr<FetchSink> NewStringSink(std::string* bytes) {
  return std::make_unique<StringSink>(bytes);
}

absl::StatusOr<std::unique_ptr<FetchSink>> NewFileSink(const std::string& path) {
  auto sink = std::make_unique<FileSink>(path);
  KILN_RETURN_IF_ERROR(sink->FindPart());
  return std::unique_ptr<FetchSink>(std::move(sink));
}

}  // namespace kiln::client

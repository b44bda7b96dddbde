#include "worker/blob_cache.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/digest.h"
#include "compiler/base/status.h"

namespace kiln::worker {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxBlobBytes = int64_t{1} << 30;

bool ReadFile(const std::string& path, std::string* bytes) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return false;
  in.seekg(0, std::ios::end);
  std::streamoff size = in.tellg();
  if (size < 0) return false;
  in.seekg(0);
  bytes->resize(static_cast<size_t>(size));
  in.read(bytes->data(), size);
  return in.gcount() == size;
}

}  // namespace

BlobCache::Pin& BlobCache::Pin::operator=(Pin&& other) noexcept {
  if (this == &other) return *this;
  Unpin();
  cache_ = std::exchange(other.cache_, nullptr);
  digest_ = std::move(other.digest_);
  path_ = std::move(other.path_);
  return *this;
}

void BlobCache::Pin::Unpin() {
  if (cache_ == nullptr) return;
  std::lock_guard<std::mutex> lock(cache_->mutex_);
  auto found = cache_->entries_.find(digest_);
  if (found != cache_->entries_.end() && found->second.pins > 0) --found->second.pins;
  cache_->EvictLocked();
  cache_ = nullptr;
}

absl::StatusOr<std::unique_ptr<BlobCache>> BlobCache::Open(std::string directory,
                                                           int64_t limit_bytes, Link* link) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("cannot create the cache folder ", directory, ": ", error.message()));
  }
  if (::access(directory.c_str(), R_OK | W_OK | X_OK) != 0) {
    return absl::UnavailableError(
        absl::StrCat("the cache folder ", directory, " is not writable; give another --work-dir"));
  }
  std::unique_ptr<BlobCache> cache(new BlobCache(std::move(directory), limit_bytes, link));
  KILN_RETURN_IF_ERROR(cache->Adopt());
  return cache;
}

absl::Status BlobCache::Adopt() {
  struct Found {
    fs::file_time_type used;
    std::string digest;
    int64_t bytes;
  };
  std::vector<Found> found;
  std::error_code error;
  for (fs::directory_iterator it(directory_, error), end; !error && it != end;
       it.increment(error)) {
    std::string name = it->path().filename().string();
    std::error_code ignored;
    if (!IsSha256Hex(name)) {
      fs::remove(it->path(), ignored);  // a temporary file of a run that was cut
      continue;
    }
    found.push_back(
        {it->last_write_time(ignored), name, static_cast<int64_t>(it->file_size(ignored))});
  }
  if (error) return absl::UnavailableError(absl::StrCat(directory_, ": ", error.message()));
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.used < b.used; });
  std::lock_guard<std::mutex> lock(mutex_);
  for (const Found& file : found) {
    uses_.push_back(file.digest);
    entries_[file.digest] = Entry{file.bytes, 0, std::prev(uses_.end())};
    stats_.bytes += file.bytes;
  }
  EvictLocked();
  return absl::OkStatus();
}

absl::StatusOr<BlobCache::Pin> BlobCache::Get(const std::string& digest) {
  std::string bytes;
  absl::StatusOr<Pin> cached = Cached(digest, &bytes);
  if (!absl::IsNotFound(cached.status())) return cached;
  return Fetch(digest, &bytes);
}

absl::StatusOr<std::string> BlobCache::Read(const std::string& digest) {
  std::string bytes;
  absl::StatusOr<Pin> cached = Cached(digest, &bytes);
  if (absl::IsNotFound(cached.status())) cached = Fetch(digest, &bytes);
  KILN_RETURN_IF_ERROR(cached.status());
  return bytes;
}

absl::Status BlobCache::Add(const std::string& digest, absl::string_view bytes) {
  return Store(digest, bytes).status();
}

BlobCacheStats BlobCache::stats() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

absl::StatusOr<BlobCache::Pin> BlobCache::Cached(const std::string& digest, std::string* bytes) {
  if (!IsSha256Hex(digest)) {
    return absl::InvalidArgumentError(absl::StrCat("'", digest, "' is not a blob digest"));
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = entries_.find(digest);
    if (found == entries_.end()) {
      ++stats_.misses;
      return absl::NotFoundError("not cached");
    }
    ++found->second.pins;
    uses_.splice(uses_.end(), uses_, found->second.use);
  }
  Pin pin(this, digest, PathOf(digest));
  if (ReadFile(pin.path(), bytes) && Sha256Hex(*bytes) == digest) {
    std::lock_guard<std::mutex> lock(mutex_);
    ++stats_.hits;
    return pin;
  }
  Forget(digest);
  std::lock_guard<std::mutex> lock(mutex_);
  ++stats_.corrupt;
  ++stats_.misses;
  return absl::NotFoundError("the cached file was damaged");
}

absl::StatusOr<BlobCache::Pin> BlobCache::Fetch(const std::string& digest, std::string* bytes) {
  bytes->clear();
  KILN_RETURN_IF_ERROR(link_->GetBlob(digest, 0, [&](absl::string_view chunk) {
    if (static_cast<int64_t>(bytes->size() + chunk.size()) > kMaxBlobBytes) {
      return absl::DataLossError(
          absl::StrCat("blob ", digest, " is longer than ", kMaxBlobBytes, " bytes"));
    }
    bytes->append(chunk.data(), chunk.size());
    return absl::OkStatus();
  }));
  if (Sha256Hex(*bytes) != digest) {
    return absl::DataLossError(absl::StrCat("the ", bytes->size(), " bytes that came for blob ",
                                            digest, " do not match it"));
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stats_.fetched_bytes += static_cast<int64_t>(bytes->size());
  }
  return Store(digest, *bytes);
}

absl::StatusOr<BlobCache::Pin> BlobCache::Store(const std::string& digest,
                                                absl::string_view bytes) {
  std::string temporary;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    temporary = absl::StrCat(directory_, "/tmp.", next_temporary_++);
  }
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  std::error_code error;
  if (out) fs::rename(temporary, PathOf(digest), error);
  if (!out || error) {
    fs::remove(temporary, error);
    return absl::ResourceExhaustedError(absl::StrCat("cannot write ", bytes.size(),
                                                     " bytes into the cache folder ", directory_,
                                                     ": is the disk full?"));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  auto [entry, added] = entries_.try_emplace(digest);
  if (added) {
    entry->second.use = uses_.insert(uses_.end(), digest);
    entry->second.bytes = static_cast<int64_t>(bytes.size());
    stats_.bytes += entry->second.bytes;
  }
  ++entry->second.pins;
  EvictLocked();
  return Pin(this, digest, PathOf(digest));
}

void BlobCache::Forget(const std::string& digest) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = entries_.find(digest);
  if (found == entries_.end()) return;
  std::error_code ignored;
  fs::remove(PathOf(digest), ignored);
  stats_.bytes -= found->second.bytes;
  uses_.erase(found->second.use);
  entries_.erase(found);
}

void BlobCache::EvictLocked() {
  for (auto it = uses_.begin(); it != uses_.end() && stats_.bytes > limit_bytes_;) {
    auto found = entries_.find(*it);
    if (found->second.pins > 0) {
      ++it;
      continue;
    }
    std::error_code ignored;
    fs::remove(PathOf(*it), ignored);
    stats_.bytes -= found->second.bytes;
    entries_.erase(found);
    it = uses_.erase(it);
  }
}

}  // namespace kiln::worker

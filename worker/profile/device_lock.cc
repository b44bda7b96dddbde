#include "worker/profile/device_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "worker/elapsed.h"

namespace kiln::worker {
namespace {

constexpr auto kTryAgain = std::chrono::milliseconds(50);
// Others only lock it. With a umask, too: flock needs no more than that it can be opened.
constexpr mode_t kMode = 0444;

// For reading, which is enough for a lock: the file may be another user's.
int OpenLockFile(const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const int fd = ::open(path.c_str(), kFlags);
    if (fd >= 0 || errno != ENOENT) return fd;
    const int made = ::open(path.c_str(), kFlags | O_CREAT | O_EXCL, kMode);
    if (made >= 0) (void)::fchmod(made, kMode);
    if (made >= 0 || errno != EEXIST) return made;
  }
  return -1;
}

// The process that holds a lock on the file, as /proc/locks tells: "1: FLOCK  ADVISORY  WRITE 4711
// 08:01:131 0 EOF". 0 where it does not (of another container).
int HolderOf(const struct stat& file) {
  std::ifstream in("/proc/locks");
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() < 6 || words[1] != "FLOCK") continue;
    const std::vector<std::string> parts = absl::StrSplit(words[5], ':');
    int pid = 0;
    uint64_t inode = 0;
    if (parts.size() == 3 && absl::SimpleAtoi(parts[2], &inode) && inode == file.st_ino &&
        absl::SimpleAtoi(words[4], &pid) && pid > 0) {
      return pid;
    }
  }
  return 0;
}

// "kiln-runner, process 4712 of process 4711".
std::string Describe(int pid) {
  if (pid == 0) return "a process that cannot be seen from here";
  std::string name, status;
  std::getline(std::ifstream(absl::StrCat("/proc/", pid, "/comm")), name);
  std::string text = absl::StrCat(name, name.empty() ? "" : ", ", "process ", pid);
  std::ifstream in(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t"));
    if (words.size() == 2 && words[0] == "PPid:") {
      absl::StrAppend(&text, " of process ", words[1]);
    }
  }
  return text;
}

}  // namespace

DeviceLock::~DeviceLock() {
  if (fd_ >= 0) ::close(fd_);
}

DeviceLock::DeviceLock(DeviceLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

DeviceLock& DeviceLock::operator=(DeviceLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

absl::StatusOr<DeviceLock> DeviceLock::Take(const std::string& folder, const std::string& id,
                                            const std::string& name, double wait_seconds) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string path =
      absl::StrCat(folder, "/kiln-device-", absl::StrReplaceAll(id, {{":", "-"}, {"/", "-"}}));
  DeviceLock lock(OpenLockFile(path));
  struct stat file = {};
  if (lock.fd_ < 0 || ::fstat(lock.fd_, &file) != 0 || !S_ISREG(file.st_mode)) {
    return absl::UnavailableError(absl::StrCat(
        "cannot lock ", name, " by ", path, ": ",
        lock.fd_ < 0 ? std::strerror(errno) : "it is no file", "; remove what lies there"));
  }
  while (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
    if (SecondsSince(begin) >= wait_seconds) {
      return absl::FailedPreconditionError(
          absl::StrCat(name, " (", id, ") is measured on by ", Describe(HolderOf(file)),
                       "; submit to its coordinator, end it, or name other GPUs with --devices"));
    }
    std::this_thread::sleep_for(kTryAgain);
  }
  return lock;
}

}  // namespace kiln::worker

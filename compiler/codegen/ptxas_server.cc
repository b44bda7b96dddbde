#include "compiler/codegen/ptxas_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "compiler/base/status.h"
#include "compiler/codegen/temporary_folder.h"

extern "C" {
extern const char kiln_ptxas_preload[];
extern const char kiln_ptxas_preload_end[];
}

namespace kiln::codegen {
namespace {

// That glibc take memory in huge pages where the system lets it: ptxas takes some tens of MB for a
// moment, and a tenth of its time would be page faults.
constexpr char kHugePages[] = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864";
constexpr int kStartMs = 10000;   // until a server is up; it takes some 40
constexpr int kTries = 3;         // servers in a row that do not serve
constexpr int kPaysAfter = 8;     // runs of the process for each server: a start is two or three
constexpr int kAstray = SIGUSR1;  // ends a fork that cannot go to its folder (ptxas_preload.c)
constexpr char kPreload[] = "LD_PRELOAD=/proc/self/fd/3";

// A descriptor of ours, above those that a process starts with.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 10)) {
    if (fd >= 0) close(fd);
  }
  Descriptor(Descriptor&& other) : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int operator*() const { return fd_; }

 private:
  int fd_ = -1;
};

// What a process begins with, besides its command and this process's environment.
class Start {
 public:
  explicit Start(const std::string& folder) {
    Note(posix_spawn_file_actions_init(&actions_));
    Note(posix_spawn_file_actions_addchdir_np(&actions_, folder.c_str()));
    for (char** entry = environ; *entry != nullptr; ++entry) environment_.push_back(*entry);
    if (std::getenv("GLIBC_TUNABLES") == nullptr) Set(kHugePages);
  }
  ~Start() { posix_spawn_file_actions_destroy(&actions_); }
  Start(const Start&) = delete;
  Start& operator=(const Start&) = delete;

  void Set(const char* entry) { environment_.push_back(const_cast<char*>(entry)); }
  void Open(const char* path, int flags, int as) {
    Note(posix_spawn_file_actions_addopen(&actions_, as, path, flags, 0600));
  }
  void Share(int descriptor, int as) {
    Note(posix_spawn_file_actions_adddup2(&actions_, descriptor, as));
  }
  absl::StatusOr<pid_t> Run(const PtxasCommand& command) {
    std::vector<char*> argv = {const_cast<char*>(command.path.c_str())};
    for (const std::string& arg : command.args) argv.push_back(const_cast<char*>(arg.c_str()));
    argv.push_back(nullptr);
    environment_.push_back(nullptr);
    pid_t pid = -1;
    if (error_ == 0) {
      Note(posix_spawn(&pid, argv[0], &actions_, nullptr, argv.data(), environment_.data()));
    }
    if (error_ == 0) return pid;
    return absl::UnavailableError(
        absl::StrCat("cannot start ", command.path, ": ", std::strerror(error_)));
  }

 private:
  void Note(int error) { error_ = error_ == 0 ? error : error_; }

  int error_ = 0;  // the first
  posix_spawn_file_actions_t actions_;
  std::vector<char*> environment_;
};

absl::StatusOr<int> Wait(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return absl::UnavailableError("nobody knows how ptxas ended");
  }
  return status;
}

// ptxas_preload.c as a file of memory; -1 where the system has none.
int PreloadFile() {
  static const Descriptor* const file = [] {
    auto* made = new Descriptor(memfd_create("kiln-ptxas-preload", MFD_CLOEXEC));
    const ssize_t size = kiln_ptxas_preload_end - kiln_ptxas_preload;
    if (**made >= 0 && write(**made, kiln_ptxas_preload, size) != size) *made = Descriptor();
    return made;
  }();
  return **file;
}

// One ptxas that serves.
class Server {
 public:
  // Null where it cannot.
  static std::unique_ptr<Server> Begin(const PtxasCommand& command);
  // Nothing of it runs then, unless somebody stopped or killed it.
  ~Server() {
    if (owner_ != getpid()) return;
    kill(pid_, SIGKILL);
    Wait(pid_).IgnoreError();
  }

  // The wait status of a run; nullopt when the server is gone.
  std::optional<int> Run(const std::string& folder) {
    if (send(*socket_, folder.data(), folder.size(), MSG_NOSIGNAL) < 0) return std::nullopt;
    const std::optional<int> status = Answer();
    has_served_ = has_served_ || status.has_value();
    return status;
  }
  bool HasServed() const { return has_served_; }

 private:
  Server(pid_t pid, Descriptor socket) : pid_(pid), socket_(std::move(socket)) {}
  std::optional<int> Answer() {
    int status = 0;
    ssize_t size = -1;
    do {
      size = recv(*socket_, &status, sizeof(status), 0);
    } while (size < 0 && errno == EINTR);
    if (size != sizeof(status)) return std::nullopt;
    return status;
  }

  const pid_t pid_;
  const pid_t owner_ = getpid();
  Descriptor socket_;
  bool has_served_ = false;
};

std::unique_ptr<Server> Server::Begin(const PtxasCommand& command) {
  const absl::StatusOr<TemporaryFolder> folder = TemporaryFolder::Make();
  int ends[2];
  if (!folder.ok() || PreloadFile() < 0 || std::getenv("LD_PRELOAD") != nullptr ||
      socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return nullptr;
  }
  Descriptor ours(ends[0]), theirs(ends[1]);
  if (*ours < 0 || *theirs < 0) return nullptr;
  folder->Write(kPtxasInput, "");
  Start start(folder->Path());
  start.Set(kPreload);
  start.Open("/dev/null", O_RDONLY, 0);
  start.Open(kPtxasPrinted, O_WRONLY | O_CREAT | O_TRUNC, 1);
  start.Share(1, 2);
  start.Share(PreloadFile(), 3);
  start.Share(*theirs, 4);
  const absl::StatusOr<pid_t> pid = start.Run(command);
  if (!pid.ok()) return nullptr;
  theirs = Descriptor();
  std::unique_ptr<Server> server(new Server(*pid, std::move(ours)));
  pollfd answer = {.fd = *server->socket_, .events = POLLIN, .revents = 0};
  const bool serves = poll(&answer, 1, kStartMs) == 1 && server->Answer() == 0;
  // What it says before it opens its input would be in nobody's log.
  return serves && folder->Read(kPtxasPrinted).empty() ? std::move(server) : nullptr;
}

// The servers that nobody uses now, at most one a core.
class Pool {
 public:
  // Null where a server does not pay yet, and where there can be none.
  std::unique_ptr<Server> Take(const PtxasCommand& command) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<Idle> others;  // of the process that this is a fork of
    {
      absl::MutexLock lock(&mutex_);
      if (std::exchange(owner_, getpid()) != getpid()) {
        others.swap(idle_);
        servers_ = 0;
      }
      ++runs_;
      for (auto idle = idle_.begin(); idle != idle_.end(); ++idle) {
        if (idle->first.path != command.path || idle->first.args != command.args) continue;
        std::unique_ptr<Server> server = std::move(idle->second);
        idle_.erase(idle);
        return server;
      }
      if (failures_ >= kTries || runs_ / kPaysAfter <= servers_) return nullptr;
      ++servers_;
    }
    std::unique_ptr<Server> server = Server::Begin(command);
    if (server == nullptr) Forget(/*failed=*/true);
    return server;
  }

  void Give(const PtxasCommand& command, std::unique_ptr<Server> server)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    std::unique_ptr<Server> oldest;  // ends without the lock, as all do
    absl::MutexLock lock(&mutex_);
    failures_ = 0;
    idle_.emplace_back(command, std::move(server));
    if (idle_.size() <= std::max(1u, std::thread::hardware_concurrency())) return;
    oldest = std::move(idle_.front().second);
    idle_.erase(idle_.begin());
    --servers_;
  }

  // One that was taken is gone. What ended it has most likely ended the others.
  void Lost(bool served) ABSL_LOCKS_EXCLUDED(mutex_) {
    End();
    Forget(/*failed=*/!served);
  }

  void End() ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<Idle> idle;
    absl::MutexLock lock(&mutex_);
    idle.swap(idle_);
    servers_ -= static_cast<int64_t>(idle.size());
  }

 private:
  using Idle = std::pair<PtxasCommand, std::unique_ptr<Server>>;

  void Forget(bool failed) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    --servers_;
    failures_ += failed ? 1 : 0;
  }

  absl::Mutex mutex_;
  pid_t owner_ ABSL_GUARDED_BY(mutex_) = getpid();
  int64_t runs_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t servers_ ABSL_GUARDED_BY(mutex_) = 0;  // idle and taken
  int failures_ ABSL_GUARDED_BY(mutex_) = 0;     // in a row
  std::vector<Idle> idle_ ABSL_GUARDED_BY(mutex_);
};

Pool& ThePool() {
  static Pool* const pool = [] {
    std::atexit([] { ThePool().End(); });  // else whoever adopts them has to reap them
    return new Pool;
  }();
  return *pool;
}

}  // namespace

absl::StatusOr<int> RunPtxasOnce(const std::string& folder, const PtxasCommand& command) {
  Start start(folder);
  start.Open("/dev/null", O_RDONLY, 0);
  start.Open(kPtxasPrinted, O_WRONLY | O_CREAT | O_TRUNC, 1);
  start.Share(1, 2);
  KILN_ASSIGN_OR_RETURN(const pid_t pid, start.Run(command));
  return Wait(pid);
}

absl::StatusOr<int> RunPtxasIn(const std::string& folder, const PtxasCommand& command) {
  if (std::unique_ptr<Server> server = ThePool().Take(command)) {
    if (const std::optional<int> status = server->Run(folder)) {
      ThePool().Give(command, std::move(server));
      if (!WIFSIGNALED(*status) || WTERMSIG(*status) != kAstray) return *status;
    } else {
      ThePool().Lost(server->HasServed());
    }
  }
  return RunPtxasOnce(folder, command);
}

}  // namespace kiln::codegen

#include "client/tunectl/embedded_farm.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "compiler/base/status.h"

namespace kiln::tunectl {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kStartLimit = absl::Seconds(30);
constexpr absl::Duration kStopLimit = absl::Seconds(5);
constexpr absl::Duration kPoll = absl::Milliseconds(10);
constexpr absl::Duration kWorkerEndLimit = absl::Seconds(20);
constexpr int kStoreAttempts = 20;
// Exit codes of kiln-coordinator.
constexpr int kCoordinatorFailed = 1;
constexpr int kStoreInUse = 3;
constexpr int kCannotListen = 4;
constexpr int kLostStore = 5;
constexpr int kDamagedStore = 6;
constexpr char kRuntimePrefix[] = "kiln-tune-";

absl::Status SystemError(absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(what, ": ", std::strerror(errno)));
}

// ---- one child ----

struct Child {
  std::string name;
  std::string log;
  pid_t pid = -1;
};

// Runs between fork and exec: only async-signal-safe calls.
[[noreturn]] void BecomeChild(char* const* argv, int log_fd, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(126);
  setpgid(0, 0);  // the terminal's Ctrl-C is for tunectl alone
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null_fd = open("/dev/null", O_RDONLY);
  dup2(null_fd, STDIN_FILENO);
  dup2(log_fd, STDOUT_FILENO);
  dup2(log_fd, STDERR_FILENO);
  execv(argv[0], argv);
  const char message[] = "cannot execute the program\n";
  (void)!write(STDERR_FILENO, message, sizeof(message) - 1);
  _exit(127);
}

absl::StatusOr<Child> Spawn(const std::string& name, const std::string& log,
                            const std::vector<std::string>& arguments) {
  std::error_code ignored;
  fs::rename(log, log + ".1", ignored);  // of the tune before: it may say why that one failed
  const int log_fd = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (log_fd < 0) return SystemError(absl::StrCat("cannot write the log ", log));
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) BecomeChild(argv.data(), log_fd, parent);
  close(log_fd);
  if (pid < 0) return SystemError(absl::StrCat("cannot start ", name));
  return Child{name, log, pid};
}

std::string LogTail(const std::string& path) {
  std::ifstream stream(path);
  std::ostringstream text;
  text << stream.rdbuf();
  std::string tail = text.str();
  if (tail.size() > 2000) tail = tail.substr(tail.size() - 2000);
  return tail.empty() ? "(its log is empty)" : tail;
}

std::string EndText(int status) {
  if (WIFSIGNALED(status)) return absl::StrCat("was ended by signal ", WTERMSIG(status));
  return absl::StrCat("ended with code ", WEXITSTATUS(status));
}

absl::Status DeathStatus(const Child& child, int status) {
  return absl::UnavailableError(absl::StrCat(child.name, " ", EndText(status), "; the end of ",
                                             child.log, ":\n", LogTail(child.log)));
}

// What the coordinator's exit code says of the store, as tunectl would say it itself. kAborted: in
// use by another one, which may be about to end.
absl::Status CoordinatorEnd(const Child& child, int status) {
  const absl::Status death = DeathStatus(child, status);
  if (!WIFEXITED(status)) return death;
  switch (WEXITSTATUS(status)) {
    case kStoreInUse:
      return absl::AbortedError(death.message());
    case kDamagedStore:
      return absl::DataLossError(death.message());
    case kCoordinatorFailed:
    case kCannotListen:
    case kLostStore:
      return absl::FailedPreconditionError(death.message());
    default:
      return death;
  }
}

void EndChild(const Child& child) {
  if (child.pid <= 0) return;
  kill(child.pid, SIGTERM);
  const absl::Time limit = absl::Now() + kStopLimit;
  while (absl::Now() < limit) {
    if (waitpid(child.pid, nullptr, WNOHANG) != 0) return;
    absl::SleepFor(kPoll);
  }
  kill(child.pid, SIGKILL);
  waitpid(child.pid, nullptr, 0);
}

// ---- files ----

absl::StatusOr<std::string> FindBinary(const std::string& name) {
  std::vector<std::string> folders;
  if (const char* given = std::getenv("KILN_BIN_DIR"); given != nullptr) folders = {given};
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error).parent_path();
  folders.push_back(self.string());
  folders.push_back((self / "../libexec/kiln").lexically_normal().string());
  if (const char* path = std::getenv("PATH"); path != nullptr) {
    for (const absl::string_view folder : absl::StrSplit(path, ':', absl::SkipEmpty())) {
      folders.emplace_back(folder);
    }
  }
  for (const std::string& folder : folders) {
    const std::string candidate = absl::StrCat(folder, "/", name);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return absl::NotFoundError(absl::StrCat("there is no ", name, " beside tunectl or in $PATH; ",
                                          "install Kiln's server programs, or set KILN_BIN_DIR"));
}

std::string RuntimeRoot() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  // A socket's path has at most 107 bytes.
  if (runtime != nullptr && std::strlen(runtime) < 60 && access(runtime, W_OK) == 0) return runtime;
  return "/tmp";
}

// Folders of tunes that were killed: theirs to clean up, but they could not.
void RemoveStaleFolders(const std::string& root) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, error)) {
    const std::string name = entry.path().filename().string();
    if (!absl::StartsWith(name, kRuntimePrefix)) continue;
    const std::vector<std::string> parts = absl::StrSplit(name, '-');
    int32_t pid = 0;
    struct stat info = {};
    if (parts.size() < 4 || !absl::SimpleAtoi(parts[2], &pid)) continue;
    if (kill(pid, 0) == 0 || errno != ESRCH) continue;
    if (lstat(entry.path().c_str(), &info) != 0 || info.st_uid != getuid()) continue;
    fs::remove_all(entry.path(), error);
  }
}

absl::StatusOr<std::string> MakeRuntimeFolder() {
  const std::string root = RuntimeRoot();
  RemoveStaleFolders(root);
  std::string name = absl::StrCat(root, "/", kRuntimePrefix, getpid(), "-XXXXXX");
  if (mkdtemp(name.data()) == nullptr) {  // mode 0700
    return SystemError(absl::StrCat("cannot create a private folder in ", root));
  }
  return name;
}

absl::StatusOr<int> LockStore(const EmbeddedOptions& options) {
  const std::string path = options.store + "/tune.lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return SystemError(absl::StrCat("cannot open ", path));
  bool said = false;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (!options.wait_for_store || options.cancel.cancelled()) {
      close(fd);
      if (options.cancel.cancelled()) return absl::CancelledError("interrupted");
      return absl::FailedPreconditionError(
          absl::StrCat("another tunectl tune uses the store ", options.store,
                       "; wait for it, or give another one with --store"));
    }
    if (!said) {
      std::fprintf(stderr, "tunectl: another tune uses the store %s; waiting for it\n",
                   options.store.c_str());
      said = true;
    }
    absl::SleepFor(absl::Milliseconds(50));
  }
  return fd;
}

// The worker of a tune that was killed ends with it, but may need a moment to let go of its folder.
absl::Status AwaitWorkerFolder(const EmbeddedOptions& options, const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  const std::string path = folder + "/lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return SystemError(absl::StrCat("cannot open ", path));
  const absl::Time limit = absl::Now() + kWorkerEndLimit;
  absl::Status status;
  bool said = false;
  while (status.ok() && flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (!said) {
      std::fprintf(stderr,
                   "tunectl: the worker of an earlier tune still uses the store %s; "
                   "waiting for it to end\n",
                   options.store.c_str());
      said = true;
    }
    absl::SleepFor(absl::Milliseconds(50));
    if (options.cancel.cancelled()) status = absl::CancelledError("interrupted");
    if (absl::Now() > limit) {
      status = absl::FailedPreconditionError(
          absl::StrCat("the worker of an earlier tune does not let go of the store ", options.store,
                       " after ", absl::FormatDuration(kWorkerEndLimit),
                       "; end that kiln-worker, or give another store with --store"));
    }
  }
  close(fd);  // and with it the lock: tune.lock keeps other tunes out
  return status;
}

bool Accepts(const std::string& socket_path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket_path.c_str(), sizeof(address.sun_path) - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool ok = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return ok;
}

// ---- the farm ----

class ChildFarm : public EmbeddedFarm {
 public:
  explicit ChildFarm(EmbeddedOptions options) : options_(std::move(options)) {}
  ~ChildFarm() override;

  absl::Status Launch();
  const std::string& address() const override { return address_; }
  absl::Status StartWorkers(const std::vector<std::string>& devices) override;
  void OnDeath(std::function<void(const absl::Status&)> on_death) override;

 private:
  absl::Status Prepare();
  absl::Status LaunchCoordinator();
  absl::Status LaunchWorker(const std::string& device);
  // OK when it serves; kAborted when the store is in use still.
  absl::Status AwaitCoordinator();
  void Watch(const std::function<void(const absl::Status&)>& on_death);

  const EmbeddedOptions options_;
  std::string folder_;
  std::string address_;
  int lock_fd_ = -1;
  Child coordinator_;
  std::vector<Child> workers_;
  std::atomic<bool> stopping_{false};
  std::thread watcher_;
};

absl::Status ChildFarm::Prepare() {
  std::error_code error;
  for (const char* sub : {"", "/farm", "/logs"}) {
    fs::create_directories(options_.store + sub, error);
    if (error) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot create ", options_.store, sub, ": ", error.message()));
    }
  }
  chmod(options_.store.c_str(), 0700);
  KILN_ASSIGN_OR_RETURN(lock_fd_, LockStore(options_));
  KILN_ASSIGN_OR_RETURN(folder_, MakeRuntimeFolder());
  address_ = absl::StrCat("unix:", folder_, "/kiln.sock");
  return absl::OkStatus();
}

absl::Status ChildFarm::AwaitCoordinator() {
  const absl::Time limit = absl::Now() + kStartLimit;
  while (absl::Now() < limit) {
    if (options_.cancel.cancelled()) return absl::CancelledError("interrupted");
    if (Accepts(folder_ + "/kiln.sock")) return absl::OkStatus();
    int status = 0;
    if (waitpid(coordinator_.pid, &status, WNOHANG) == coordinator_.pid) {
      coordinator_.pid = -1;
      return CoordinatorEnd(coordinator_, status);
    }
    absl::SleepFor(kPoll);
  }
  return absl::UnavailableError(absl::StrCat("kiln-coordinator does not answer after ",
                                             absl::FormatDuration(kStartLimit), "; see ",
                                             coordinator_.log));
}

absl::Status ChildFarm::LaunchCoordinator() {
  KILN_ASSIGN_OR_RETURN(const std::string binary, FindBinary("kiln-coordinator"));
  absl::Status status;
  // The coordinator of a tune that was killed may need a moment to let go of the store.
  for (int attempt = 0; attempt < kStoreAttempts; ++attempt) {
    KILN_ASSIGN_OR_RETURN(
        coordinator_, Spawn("kiln-coordinator", options_.store + "/logs/coordinator.log",
                            {binary, "--listen", address_, "--store", options_.store + "/farm"}));
    status = AwaitCoordinator();
    if (!absl::IsAborted(status)) return status;
    absl::SleepFor(absl::Milliseconds(250));
  }
  return absl::FailedPreconditionError(status.message());
}

absl::Status ChildFarm::LaunchWorker(const std::string& device) {
  KILN_ASSIGN_OR_RETURN(const std::string binary, FindBinary("kiln-worker"));
  const bool cpu = device == "cpu";
  const std::string folder = options_.store + (cpu ? "/worker" : "/worker-" + device);
  KILN_RETURN_IF_ERROR(AwaitWorkerFolder(options_, folder));
  std::vector<std::string> arguments = {binary,
                                        "--coordinator",
                                        address_,
                                        "--name",
                                        cpu ? "tune" : "tune-" + device,
                                        "--devices",
                                        device,
                                        "--work-dir",
                                        folder,
                                        "--drain-seconds",
                                        "0",
                                        "--die-with-parent"};
  if (options_.compile_slots > 0) {
    arguments.push_back("--compile-slots");
    arguments.push_back(absl::StrCat(options_.compile_slots));
  }
  if (options_.with_company) arguments.push_back("--with-company");
  const std::string log = options_.store + (cpu ? "/logs/worker.log" : "/logs/worker-gpu.log");
  KILN_ASSIGN_OR_RETURN(const Child worker, Spawn("kiln-worker", log, arguments));
  workers_.push_back(worker);
  return absl::OkStatus();
}

absl::Status ChildFarm::Launch() {
  KILN_RETURN_IF_ERROR(Prepare());
  KILN_RETURN_IF_ERROR(LaunchCoordinator());
  return options_.worker ? StartWorkers(options_.devices) : absl::OkStatus();
}

absl::Status ChildFarm::StartWorkers(const std::vector<std::string>& devices) {
  for (const std::string& device : devices) KILN_RETURN_IF_ERROR(LaunchWorker(device));
  return absl::OkStatus();
}

void ChildFarm::Watch(const std::function<void(const absl::Status&)>& on_death) {
  while (!stopping_) {
    std::vector<const Child*> children = {&coordinator_};
    for (const Child& worker : workers_) children.push_back(&worker);
    for (const Child* child : children) {
      siginfo_t info = {};
      // WNOWAIT: the destructor still finds the child to reap.
      if (waitid(P_PID, static_cast<id_t>(child->pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
          info.si_pid == 0) {
        continue;
      }
      const int status =
          info.si_code == CLD_EXITED ? (info.si_status & 0xff) << 8 : info.si_status & 0x7f;
      if (stopping_) return;
      on_death(child == &coordinator_ ? CoordinatorEnd(*child, status)
                                      : DeathStatus(*child, status));
      return;
    }
    absl::SleepFor(absl::Milliseconds(100));
  }
}

void ChildFarm::OnDeath(std::function<void(const absl::Status&)> on_death) {
  watcher_ = std::thread([this, on_death = std::move(on_death)] { Watch(on_death); });
}

ChildFarm::~ChildFarm() {
  stopping_ = true;
  if (watcher_.joinable()) watcher_.join();
  for (const Child& worker : workers_) EndChild(worker);
  EndChild(coordinator_);
  std::error_code error;
  if (!folder_.empty()) fs::remove_all(folder_, error);
  if (lock_fd_ >= 0) close(lock_fd_);
}

}  // namespace

absl::StatusOr<std::string> DefaultStore() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return absl::StrCat(cache, "/kiln");
  const char* const home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return absl::StrCat(home, "/.cache/kiln");
  return absl::FailedPreconditionError(
      "neither XDG_CACHE_HOME nor HOME is set; give a folder with --store");
}

bool IsTuneStore(const std::string& folder) {
  std::error_code ignored;
  return fs::is_directory(folder + "/farm", ignored);
}

absl::StatusOr<std::unique_ptr<EmbeddedFarm>> EmbeddedFarm::Start(const EmbeddedOptions& options) {
  std::error_code ignored;
  if (fs::is_directory(options.store + "/meta", ignored) && !IsTuneStore(options.store)) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.store, " is the store of a kiln-coordinator, or a backup of one, not of `tunectl ",
        "tune`; ask that coordinator with --server, or start one with kiln-coordinator --store ",
        options.store));
  }
  if (!options.worker && !IsTuneStore(options.store)) {
    return absl::NotFoundError(absl::StrCat("there is no store of `tunectl tune` in ",
                                            options.store,
                                            "; look at --store, or tune something there first"));
  }
  auto farm = std::make_unique<ChildFarm>(options);
  KILN_RETURN_IF_ERROR(farm->Launch());
  return std::unique_ptr<EmbeddedFarm>(std::move(farm));
}

}  // namespace kiln::tunectl

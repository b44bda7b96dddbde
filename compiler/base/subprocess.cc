#include "compiler/base/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"

extern char** environ;

namespace kiln {
namespace {

constexpr char kParentVariable[] = "KILN_CHILD_PARENT";
constexpr char kMemoryVariable[] = "KILN_CHILD_MEMORY";

#ifdef KILN_SANITIZER
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

absl::Status ErrnoStatus(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

void EncodeLength(size_t length, unsigned char out[4]) {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<unsigned char>(length >> (8 * i));
}

int64_t DecodeLength(const unsigned char in[4]) {
  int64_t length = 0;
  for (int i = 0; i < 4; ++i) length |= static_cast<int64_t>(in[i]) << (8 * i);
  return length;
}

absl::Status OversizeFrame(int64_t length) {
  return absl::DataLossError(
      absl::StrCat("a frame of ", length, " bytes is announced; the limit is ", kMaxFrameBytes));
}

absl::Status WriteAll(int fd, const char* data, size_t size) {
  while (size > 0) {
    ssize_t n = ::send(fd, data, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return ErrnoStatus("write to the peer process");
    data += n;
    size -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

// The number of bytes read: less than `size` only at the end of the stream.
absl::StatusOr<size_t> ReadAll(int fd, char* data, size_t size) {
  size_t done = 0;
  while (done < size) {
    ssize_t n = ::read(fd, data + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("read from the peer process");
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

// Only async-signal-safe calls.
void AppendNumber(char* line, size_t* length, uint64_t value, unsigned base) {
  char digits[24];
  int n = 0;
  do {
    digits[n++] = "0123456789abcdef"[value % base];
    value /= base;
  } while (value != 0);
  while (n > 0) line[(*length)++] = digits[--n];
}

void FatalSignal(int signal, siginfo_t* info, void*) {
  char line[96];
  size_t length = 0;
  for (const char* c = "fatal signal "; *c != 0; ++c) line[length++] = *c;
  AppendNumber(line, &length, static_cast<uint64_t>(signal), 10);
  for (const char* c = " at address 0x"; *c != 0; ++c) line[length++] = *c;
  AppendNumber(line, &length, reinterpret_cast<uint64_t>(info->si_addr), 16);
  line[length++] = '\n';
  [[maybe_unused]] ssize_t ignored = ::write(STDERR_FILENO, line, length);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void InstallFatalHandlers() {
  if (kSanitized) return;
  static char stack[64 << 10];
  stack_t alternate = {};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof(stack);
  ::sigaltstack(&alternate, nullptr);
  for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) {
    struct sigaction action = {};
    action.sa_sigaction = FatalSignal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND | SA_NODEFER;
    ::sigaction(signal, &action, nullptr);
  }
}

std::vector<std::string> DefaultEnvironment() {
  static constexpr absl::string_view kNames[] = {"PATH",
                                                 "HOME",
                                                 "TMPDIR",
                                                 "LANG",
                                                 "LD_LIBRARY_PATH",
                                                 "KILN_CUDA_PATH",
                                                 "CUDA_HOME",
                                                 "CUDA_VISIBLE_DEVICES",
                                                 "ASAN_OPTIONS",
                                                 "UBSAN_OPTIONS",
                                                 "TSAN_OPTIONS"};
  std::vector<std::string> result;
  for (absl::string_view name : kNames) {
    const char* value = std::getenv(std::string(name).c_str());
    if (value != nullptr) result.push_back(absl::StrCat(name, "=", value));
  }
  return result;
}

// A descriptor above the numbers that the child's file actions overwrite.
int MoveHigh(int fd) {
  int high = ::fcntl(fd, F_DUPFD_CLOEXEC, 16);
  ::close(fd);
  return high;
}

class SpawnRecipe {
 public:
  SpawnRecipe() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
  }
  ~SpawnRecipe() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  void Describe(const SubprocessOptions& options, int channel, int output) {
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDERR_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, channel, kChildChannelFd);
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, kChildChannelFd + 1);
    if (!options.working_directory.empty()) {
      ::posix_spawn_file_actions_addchdir_np(&actions_, options.working_directory.c_str());
    }
    sigset_t none;
    ::sigemptyset(&none);
    sigset_t all;
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }

  int Run(pid_t* pid, std::vector<std::string> argv, std::vector<std::string> environment) {
    std::vector<char*> argv_pointers;
    for (std::string& argument : argv) argv_pointers.push_back(argument.data());
    argv_pointers.push_back(nullptr);
    std::vector<char*> environment_pointers;
    for (std::string& entry : environment) environment_pointers.push_back(entry.data());
    environment_pointers.push_back(nullptr);
    return ::posix_spawn(pid, argv[0].c_str(), &actions_, &attributes_, argv_pointers.data(),
                         environment_pointers.data());
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

ExitStatus DecodeWaitStatus(int status) {
  if (WIFSIGNALED(status)) return {.signalled = true, .code = WTERMSIG(status)};
  return {.signalled = false, .code = WEXITSTATUS(status)};
}

int PollTimeout(Subprocess::Clock::time_point deadline) {
  auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Subprocess::Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1000 * 3600));
}

}  // namespace

// Keeps the head and the tail of a stream.
struct Subprocess::Output {
  size_t head_limit = 0;
  size_t tail_limit = 0;
  std::string head;
  std::string tail;
  uint64_t left_out = 0;

  void Add(absl::string_view text) {
    size_t to_head = std::min(text.size(), head_limit - std::min(head_limit, head.size()));
    head.append(text.data(), to_head);
    text.remove_prefix(to_head);
    tail.append(text.data(), text.size());
    if (tail.size() <= 2 * tail_limit) return;
    Trim();
  }
  void Trim() {
    if (tail.size() <= tail_limit) return;
    left_out += tail.size() - tail_limit;
    tail.erase(0, tail.size() - tail_limit);
  }
  std::string Take() {
    Trim();
    std::string text = std::move(head);
    if (left_out > 0) absl::StrAppend(&text, "\n... ", left_out, " bytes left out ...\n");
    text += tail;
    head.clear();
    tail.clear();
    left_out = 0;
    return text;
  }
};

absl::Status FrameChannel::Write(absl::string_view frame) {
  if (static_cast<int64_t>(frame.size()) > kMaxFrameBytes) {
    return OversizeFrame(static_cast<int64_t>(frame.size()));
  }
  unsigned char header[4];
  EncodeLength(frame.size(), header);
  KILN_RETURN_IF_ERROR(WriteAll(fd_, reinterpret_cast<const char*>(header), sizeof(header)));
  return WriteAll(fd_, frame.data(), frame.size());
}

absl::StatusOr<std::optional<std::string>> FrameChannel::Read() {
  unsigned char header[4];
  KILN_ASSIGN_OR_RETURN(size_t got, ReadAll(fd_, reinterpret_cast<char*>(header), sizeof(header)));
  if (got == 0) return std::optional<std::string>();
  if (got < sizeof(header)) return absl::DataLossError("the stream ended inside a frame's length");
  int64_t length = DecodeLength(header);
  if (length > kMaxFrameBytes) return OversizeFrame(length);
  std::string frame(static_cast<size_t>(length), '\0');
  KILN_ASSIGN_OR_RETURN(got, ReadAll(fd_, frame.data(), frame.size()));
  if (got < frame.size()) return absl::DataLossError("the stream ended inside a frame");
  return std::optional<std::string>(std::move(frame));
}

bool HasParentChannel() {
  struct stat facts = {};
  return ::fstat(kChildChannelFd, &facts) == 0 && S_ISSOCK(facts.st_mode);
}

void EnterChild() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const char* parent = std::getenv(kParentVariable);
  int64_t parent_pid = 0;
  if (parent != nullptr && absl::SimpleAtoi(parent, &parent_pid) && ::getppid() != parent_pid) {
    std::_Exit(1);
  }
  rlimit no_core = {0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  const char* memory = std::getenv(kMemoryVariable);
  uint64_t bytes = 0;
  if (memory != nullptr && absl::SimpleAtoi(memory, &bytes) && bytes > 0 && !kSanitized) {
    rlimit limit = {bytes, bytes};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  std::set_new_handler([] {
    constexpr absl::string_view kLine = "out of memory: the child's limit is reached\n";
    [[maybe_unused]] ssize_t ignored = ::write(STDERR_FILENO, kLine.data(), kLine.size());
    ::_exit(kOutOfMemoryExitCode);
  });
  InstallFatalHandlers();
}

std::string ExitStatus::ToString() const {
  if (!signalled) return absl::StrCat("exit code ", code);
  return absl::StrCat("signal ", code, " (", ::strsignal(code), ")");
}

absl::StatusOr<std::unique_ptr<Subprocess>> Subprocess::Spawn(const SubprocessOptions& options) {
  KILN_CHECK(!options.argv.empty());
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return ErrnoStatus("socketpair");
  }
  int pipes[2];
  if (::pipe2(pipes, O_CLOEXEC) != 0) {
    absl::Status status = ErrnoStatus("pipe");
    ::close(sockets[0]);
    ::close(sockets[1]);
    return status;
  }
  std::unique_ptr<Subprocess> child(new Subprocess());
  child->channel_ = MoveHigh(sockets[0]);
  child->output_fd_ = MoveHigh(pipes[0]);
  child->wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  child->output_ = std::make_unique<Output>();
  child->output_->head_limit = options.output_head_bytes;
  child->output_->tail_limit = options.output_tail_bytes;
  int remote_channel = MoveHigh(sockets[1]);
  int remote_output = MoveHigh(pipes[1]);

  std::vector<std::string> environment =
      options.environment.empty() ? DefaultEnvironment() : options.environment;
  environment.push_back(absl::StrCat(kParentVariable, "=", ::getpid()));
  if (options.memory_bytes > 0) {
    environment.push_back(absl::StrCat(kMemoryVariable, "=", options.memory_bytes));
  }
  SpawnRecipe recipe;
  recipe.Describe(options, remote_channel, remote_output);
  int error = recipe.Run(&child->pid_, options.argv, std::move(environment));
  ::close(remote_channel);
  ::close(remote_output);
  if (error != 0) {
    child->pid_ = -1;
    return absl::UnavailableError(
        absl::StrCat("cannot start ", options.argv[0], ": ", std::strerror(error)));
  }
  child->pid_fd_ = static_cast<int>(::syscall(SYS_pidfd_open, child->pid_, 0));
  if (options.file_bytes > 0) {
    rlimit limit = {static_cast<rlim_t>(options.file_bytes),
                    static_cast<rlim_t>(options.file_bytes)};
    ::prlimit(child->pid_, RLIMIT_FSIZE, &limit, nullptr);
  }
  ::fcntl(child->channel_, F_SETFL, O_NONBLOCK);
  ::fcntl(child->output_fd_, F_SETFL, O_NONBLOCK);
  return child;
}

Subprocess::~Subprocess() {
  Kill();
  for (int fd : {channel_, output_fd_, wake_fd_, pid_fd_}) {
    if (fd >= 0) ::close(fd);
  }
}

void Subprocess::DrainOutput() {
  char buffer[16 << 10];
  // Bounded, so that a flood cannot keep the caller here past its deadline.
  for (int i = 0; i < 64 && output_fd_ >= 0; ++i) {
    ssize_t n = ::read(output_fd_, buffer, sizeof(buffer));
    if (n > 0) {
      output_->Add(absl::string_view(buffer, static_cast<size_t>(n)));
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) {
      ::close(output_fd_);
      output_fd_ = -1;
    }
    return;
  }
}

absl::Status Subprocess::WaitReady(short events, Clock::time_point deadline) {
  while (true) {
    pollfd fds[4] = {{channel_, events, 0},
                     {output_fd_, POLLIN, 0},
                     {wake_fd_, POLLIN, 0},
                     {pid_fd_, POLLIN, 0}};
    int n = ::poll(fds, 4, PollTimeout(deadline));
    if (n < 0 && errno != EINTR) return ErrnoStatus("poll");
    if (n < 0) continue;
    if (fds[2].revents != 0) {
      ClearInterrupt();
      return absl::CancelledError("interrupted");
    }
    if (fds[1].revents != 0) DrainOutput();
    if (fds[0].revents != 0) return absl::OkStatus();
    // An orphan may hold the channel open after the child's death: only this tells then.
    if (fds[3].revents != 0) return absl::UnavailableError("the child died");
    if (Clock::now() >= deadline) return absl::DeadlineExceededError("the child did not answer");
  }
}

absl::Status Subprocess::Send(absl::string_view frame, Clock::time_point deadline) {
  if (channel_ < 0) return absl::UnavailableError("the channel is closed");
  if (static_cast<int64_t>(frame.size()) > kMaxFrameBytes) {
    return OversizeFrame(static_cast<int64_t>(frame.size()));
  }
  unsigned char header[4];
  EncodeLength(frame.size(), header);
  std::string bytes(reinterpret_cast<const char*>(header), sizeof(header));
  bytes.append(frame.data(), frame.size());
  size_t done = 0;
  while (done < bytes.size()) {
    KILN_RETURN_IF_ERROR(WaitReady(POLLOUT, deadline));
    ssize_t n = ::send(channel_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (n > 0) done += static_cast<size_t>(n);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return ErrnoStatus("the child closed its end");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Subprocess::Receive(Clock::time_point deadline) {
  if (channel_ < 0) return absl::UnavailableError("the channel is closed");
  unsigned char header[4];
  std::string frame;
  size_t done = 0;
  bool in_header = true;
  while (in_header || done < frame.size()) {
    KILN_RETURN_IF_ERROR(WaitReady(POLLIN, deadline));
    char* to = in_header ? reinterpret_cast<char*>(header) + done : frame.data() + done;
    size_t want = (in_header ? sizeof(header) : frame.size()) - done;
    ssize_t n = ::read(channel_, to, want);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n <= 0 && in_header && done == 0) {
      return absl::UnavailableError("the child closed its end");
    }
    if (n <= 0) return absl::DataLossError("the child's message ends early");
    done += static_cast<size_t>(n);
    if (!in_header || done < sizeof(header)) continue;
    int64_t length = DecodeLength(header);
    if (length > kMaxFrameBytes) return OversizeFrame(length);
    frame.resize(static_cast<size_t>(length));
    in_header = false;
    done = 0;
  }
  DrainOutput();
  return frame;
}

void Subprocess::Interrupt() {
  uint64_t one = 1;
  [[maybe_unused]] ssize_t ignored = ::write(wake_fd_, &one, sizeof(one));
}

void Subprocess::ClearInterrupt() {
  uint64_t count = 0;
  [[maybe_unused]] ssize_t ignored = ::read(wake_fd_, &count, sizeof(count));
}

std::optional<ExitStatus> Subprocess::WaitExit(Clock::time_point deadline) {
  auto pause = std::chrono::microseconds(50);
  while (!exit_.has_value()) {
    siginfo_t peek = {};
    int error = ::waitid(P_PID, static_cast<id_t>(pid_), &peek, WEXITED | WNOHANG | WNOWAIT);
    if (error == 0 && peek.si_pid == pid_) {
      ReapGroup();
      break;
    }
    if (error != 0 && errno == ECHILD) {
      exit_ = ExitStatus{.signalled = true, .code = SIGKILL};
      break;
    }
    DrainOutput();
    if (Clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(5000));
  }
  return exit_;
}

bool Subprocess::CloseAndWait(Clock::time_point deadline) {
  if (channel_ >= 0) ::close(channel_);
  channel_ = -1;
  return pid_ > 0 && WaitExit(deadline).has_value();
}

// The child is dead but not reaped: its number, and so its group's, cannot have been reused yet.
void Subprocess::ReapGroup() {
  ::kill(-pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  exit_ = DecodeWaitStatus(status);
  // Orphans of the group reach this process only where it is a subreaper; elsewhere ECHILD at once.
  for (int i = 0; i < 200; ++i) {
    pid_t got = ::waitpid(-pid_, nullptr, WNOHANG);
    if (got < 0) return;
    if (got == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

ExitStatus Subprocess::Kill() {
  if (pid_ <= 0) return exit_.value_or(ExitStatus{});
  if (!exit_.has_value()) {
    siginfo_t peek = {};
    bool dead = ::waitid(P_PID, static_cast<id_t>(pid_), &peek, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                peek.si_pid == pid_;
    // A child that died of its own keeps its own status; a signal would change nothing.
    if (!dead) ::kill(-pid_, SIGKILL);
    WaitExit(Clock::time_point::max());
  }
  DrainOutput();
  pid_ = -1;
  return *exit_;
}

std::string Subprocess::TakeOutput() {
  DrainOutput();
  return output_->Take();
}

}  // namespace kiln

// A child process that can be killed: exec'd (never forked out of a threaded process), spoken to in
// length-prefixed frames over a socket pair, with limits, its output captured, and its whole
// process group killed at the end.
//
// The parent half is Subprocess. The child half is EnterChild() + FrameChannel: every Kiln child
// calls EnterChild() first thing in main(), which arms the death signal and the memory limit.
#ifndef KILN_COMPILER_BASE_SUBPROCESS_H_
#define KILN_COMPILER_BASE_SUBPROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// The descriptor on which a child finds its end of the socket pair.
inline constexpr int kChildChannelFd = 3;
// No frame may be longer; a longer announced length means that the peer is broken.
inline constexpr int64_t kMaxFrameBytes = int64_t{1} << 30;
// The exit code of a child whose operator new ran into the memory limit.
inline constexpr int kOutOfMemoryExitCode = 97;

// Blocking length-prefixed frames (4-byte little-endian length, then the bytes) on a descriptor
// that it does not own. For the child side, which has one thread and nothing else to do.
class FrameChannel {
 public:
  explicit FrameChannel(int fd) : fd_(fd) {}

  absl::Status Write(absl::string_view frame);
  // nullopt at a clean end of file. kDataLoss: the stream ended inside a frame, or the length is
  // above kMaxFrameBytes.
  absl::StatusOr<std::optional<std::string>> Read();

 private:
  int fd_;
};

// False when nobody holds the other end: the program was started by hand.
bool HasParentChannel();

// To be called first in a child's main(). Arms SIGKILL on the death of the parent's spawning
// thread, exits at once if the parent is gone already, forbids core files, applies the memory limit
// that the parent asked for, makes a failing operator new end the process with
// kOutOfMemoryExitCode, and installs handlers that print one line (signal and address) on a fatal
// signal before dying of it.
void EnterChild();

struct SubprocessOptions {
  std::vector<std::string> argv;  // argv[0] is the path to execute
  // The whole environment. Empty: PATH, HOME, TMPDIR, LANG, LD_LIBRARY_PATH and the sanitizers'
  // options of this process, nothing else, so that no secret of the parent reaches the child.
  std::vector<std::string> environment;
  std::string working_directory;        // empty = inherit
  int64_t memory_bytes = 0;             // RLIMIT_AS; 0 = none; ignored under a sanitizer
  int64_t file_bytes = 0;               // RLIMIT_FSIZE; 0 = none
  size_t output_head_bytes = 64 << 10;  // of stdout + stderr: what is kept of the start ...
  size_t output_tail_bytes = 64 << 10;  // ... and of the end
};

// How a process ended.
struct ExitStatus {
  bool signalled = false;
  int code = 0;  // exit code, or the signal's number
  // "exit code 3", "signal 11 (Segmentation fault)".
  std::string ToString() const;
};

// One child. All calls from one thread, the one that called Spawn(), and that thread must outlive
// the child: the kernel delivers the death signal when the *spawning thread* ends. Interrupt()
// alone may be called from any thread.
class Subprocess {
 public:
  using Clock = std::chrono::steady_clock;

  static absl::StatusOr<std::unique_ptr<Subprocess>> Spawn(const SubprocessOptions& options);
  // Kills and reaps.
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  pid_t pid() const { return pid_; }

  // Sends one frame / receives one. Output of the child is drained meanwhile, so that a flood of
  // stderr cannot block it. Errors: kDeadlineExceeded; kCancelled after Interrupt(); kUnavailable
  // when the child closed its end or died; kDataLoss for a truncated or oversize frame. After any
  // error the stream is out of step: Kill() the child.
  absl::Status Send(absl::string_view frame, Clock::time_point deadline);
  absl::StatusOr<std::string> Receive(Clock::time_point deadline);

  // Makes the current or the next Send/Receive return kCancelled at once. Any thread.
  void Interrupt();
  // Forgets an Interrupt() that has not been consumed.
  void ClearInterrupt();

  // Closes the channel, so that a well-behaved child ends by itself; true when it did in time.
  bool CloseAndWait(Clock::time_point deadline);

  // SIGKILL to the whole group, then reaps the child and, where this process is their reaper, its
  // orphans. The status is the child's own if it had died before. Idempotent.
  ExitStatus Kill();

  // Waits until the child is dead, at most until `deadline`, and does not kill it.
  std::optional<ExitStatus> WaitExit(Clock::time_point deadline);

  // What the child printed since the last call: head, "... N bytes left out ...", tail.
  std::string TakeOutput();

 private:
  Subprocess() = default;
  absl::Status WaitReady(short events, Clock::time_point deadline);
  void DrainOutput();
  void ReapGroup();
  struct Output;

  pid_t pid_ = -1;
  int channel_ = -1;
  int output_fd_ = -1;
  int wake_fd_ = -1;
  int pid_fd_ = -1;
  std::optional<ExitStatus> exit_;
  std::unique_ptr<Output> output_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_BASE_SUBPROCESS_H_

// A persistent child that is started when needed, spoken to in protobuf frames, and replaced when
// it dies. Shared by the compile and the profile executor.
#ifndef KILN_WORKER_CHILD_H_
#define KILN_WORKER_CHILD_H_

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/base/subprocess.h"
#include "kiln/v1/child.pb.h"

namespace kiln::worker {

struct ChildOptions {
  std::string binary;                  // path
  std::vector<std::string> arguments;  // after argv[0]
  std::string working_directory;
  int64_t memory_bytes = 0;  // 0 = no limit
  int64_t file_bytes = 0;
  double start_seconds = 60;  // until its hello has arrived
  // Told of each child that had to be killed or died by itself, with a short reason.
  std::function<void(const std::string& reason)> on_death;
};

// Why a child is no more.
struct ChildDeath {
  ExitStatus exit;
  std::string output;  // what it printed last, at most 2 KiB
  // A SIGKILL that this process did not send: the kernel's memory killer or an operator.
  bool killed_from_outside = false;
  bool out_of_memory = false;
  std::string Describe() const;
};

// Threads: all calls from the slot's thread but Interrupt() and ClearInterrupt(), from any.
class Child {
 public:
  using Clock = Subprocess::Clock;

  explicit Child(ChildOptions options) : options_(std::move(options)) {}
  ~Child();

  // Spawns unless one runs, and waits for its hello. kUnavailable: it does not start; the message
  // says what it printed. kCancelled after Interrupt().
  absl::Status Start();
  bool running() const { return process_ != nullptr; }
  pid_t pid() const { return process_ == nullptr ? -1 : process_->pid(); }
  const v1::ChildHello& hello() const { return hello_; }

  // Errors as in Subprocess; kDataLoss also for bytes that are not the message.
  absl::Status Send(const google::protobuf::MessageLite& message, Clock::time_point deadline);
  absl::Status Receive(google::protobuf::MessageLite* message, Clock::time_point deadline);

  // Ends the child after a failed Send or Receive. `because` is that call's status: a child that
  // had not died by itself is killed, and then the death is ours.
  ChildDeath Bury(const absl::Status& because);
  // Buries an idle child that has died, so that it is no zombie until the next request.
  void Tend();
  // Lets an idle child end by itself, so that a fresh one serves the next request.
  void Retire();

  // Makes the current or next call return kCancelled. Stays in force until ClearInterrupt().
  void Interrupt();
  void ClearInterrupt();

 private:
  bool interrupted();
  absl::Status StartOnce(bool* killed_from_outside);

  ChildOptions options_;
  v1::ChildHello hello_;
  std::mutex mutex_;  // process_ is written under it, and read under it by Interrupt()
  bool interrupted_ = false;
  std::unique_ptr<Subprocess> process_;
};

// A deadline `seconds` from now; seconds <= 0 means never.
Subprocess::Clock::time_point DeadlineIn(double seconds);

// The last `bytes` of `text`, cut at a line where possible.
std::string Tail(const std::string& text, size_t bytes);
// What is no UTF-8 becomes "?": protobuf takes nothing else for a string, and the receiver of one
// would not understand the whole message.
std::string AsText(const std::string& bytes);

}  // namespace kiln::worker

#endif  // KILN_WORKER_CHILD_H_

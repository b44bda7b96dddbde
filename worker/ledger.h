// What a worker holds: leases that wait, leases that run, results that the coordinator has not
// acknowledged. Pure bookkeeping: no clock, no thread, no network; the agent guards it with its
// mutex.
//
// Life of a task here: Add -> (NextCompile | NextProfile) -> finished -> Acknowledge. A compile
// task is handed out candidate by candidate, so that its candidates spread over the slots; a
// profile task belongs to one slot as a whole, because its candidates may have to interleave.
#ifndef KILN_WORKER_LEDGER_H_
#define KILN_WORKER_LEDGER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kiln/v1/work.pb.h"

namespace kiln::worker {

// A task that this worker holds. Slots read `task` while they run it; everything else belongs to
// the ledger.
struct HeldTask {
  v1::Task task;
  std::vector<std::optional<v1::CandidateResult>> results;
  size_t next_candidate = 0;  // compile: the first that no slot has taken
  int in_flight = 0;          // candidates (compile) or 1 (profile) that a slot works on
  bool started = false;
  bool dropped = false;     // revoked: its outcome interests nobody
  std::string released;     // set: no further candidate is begun, and this is why
  std::string unavailable;  // why a device did not measure all of it; empty = it did
  std::map<std::string, double> seconds;
  // Profile kinds, once a slot has run it: TaskResult says what they are.
  std::string device;
  int64_t began_ns = 0;
  int64_t ended_ns = 0;
};
using HeldTaskPtr = std::shared_ptr<HeldTask>;

// One candidate of a compile task.
struct CompileItem {
  HeldTaskPtr held;
  int index = 0;
};

class Ledger {
 public:
  enum class Added { kNew, kKnown, kFinished };

  // A lease arrives. A task of kind TASK_EMPTY, or without candidates, ends at once. kKnown: this
  // worker holds the task already and takes over the newer epoch. kFinished: its result waits for
  // acknowledgement; it is offered again under the new epoch.
  Added Add(const v1::Task& task);

  // The next piece of work, oldest lease first; null when there is none.
  std::optional<CompileItem> NextCompile();
  // Of the tasks that `fits` takes (none = all): one that names this device or none, where there is
  // one, else one that names another.
  HeldTaskPtr NextProfile(absl::string_view device = "",
                          const std::function<bool(const v1::Task& task)>& fits = nullptr);

  // A slot is done with a candidate of a compile task. True when the task has now ended (its result
  // waits to be sent).
  bool FinishCandidate(const CompileItem& item, v1::CandidateResult result);
  // A slot gives a candidate back unrun.
  bool ReturnCandidate(const CompileItem& item);
  // A slot is done with a profile task; candidates without a result are reported as not run.
  bool FinishProfile(const HeldTaskPtr& held, std::vector<v1::CandidateResult> results);

  // No further candidate of the task is begun; what waits is reported as not run, and the whole
  // task as released with `reason` when no candidate of it has a result.
  // True when the task has ended by that.
  bool Release(const HeldTaskPtr& held, absl::string_view reason);

  // Forgets leases without reporting anything: the coordinator took them away. Returns those that a
  // slot still works on, for the caller to interrupt.
  std::vector<HeldTaskPtr> Revoke(absl::string_view task);

  // The result is durable: forget it. False when it was not waiting.
  bool Acknowledge(absl::string_view task);

  // Results that were not sent on the present stream, at most about `max_bytes` but at least one.
  std::vector<v1::TaskResult> TakeUnsent(size_t max_bytes);
  // A new stream begins: everything unacknowledged is to be offered again.
  void MarkAllUnsent();

  // Tasks held: waiting and running, not finished ones.
  std::vector<v1::RunningTask> Held() const;
  std::vector<HeldTaskPtr> HeldTasks() const;
  size_t unacknowledged() const { return results_.size(); }
  bool has_unsent() const { return unsent_ > 0; }
  bool idle() const { return held_.empty(); }
  int waiting_compile() const;
  int waiting_profile() const;

 private:
  struct Waiting {
    v1::TaskResult result;
    bool sent = false;
  };

  bool EndIfDone(const HeldTaskPtr& held);
  void RemoveFromQueues(const HeldTaskPtr& held);

  std::map<std::string, HeldTaskPtr, std::less<>> held_;
  std::deque<HeldTaskPtr> compile_queue_;  // tasks with a candidate that no slot has taken
  std::deque<HeldTaskPtr> profile_queue_;
  std::list<Waiting> results_;
  size_t unsent_ = 0;
};

// True for the kinds that a compile slot runs.
bool IsCompileKind(v1::TaskKind kind);

}  // namespace kiln::worker

#endif  // KILN_WORKER_LEDGER_H_

// A whole farm in one thread and in simulated time: the real core on a memory store, modelled
// workers, and a network that can delay, repeat, lose and break. The same seed gives the same run.
#ifndef KILN_TESTS_UTIL_IN_PROCESS_FARM_H_
#define KILN_TESTS_UTIL_IN_PROCESS_FARM_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/base/clock.h"
#include "compiler/base/rng.h"
#include "coordinator/core/core.h"
#include "coordinator/core/loop.h"
#include "coordinator/store/blob_store.h"
#include "coordinator/store/meta_store.h"
#include "tests/util/fake_space.h"

namespace kiln::testing {

// Chances, each for one occasion; 0 = never.
struct Faults {
  double worker_crash = 0;  // at the end of a task: the process is gone, another one starts later
  double stream_break = 0;  // at a message: both ends see it, the worker attaches again
  double lost_message = 0;  // at a message: it vanishes
  double repeated_result = 0;    // at a result: it is sent twice
  double worker_stall = 0;       // at a task: the worker says nothing for several heartbeats
  double lost_blob = 0;          // at a profile task: the worker cannot find its inputs
  double coordinator_crash = 0;  // at a turn
  // The coordinator crashes in this turn (counted from 1), at this point of it.
  int crash_at_turn = 0;
  enum class Point { kBeforeCommit, kAfterCommit, kAmidSends };
  Point crash_point = Point::kBeforeCommit;
};

struct FakeWorkerOptions {
  int compile_slots = 2;
  int profile_slots = 1;
  std::string build = "build-1";
  v1::ArchRecord arch = FakeArch();
  double start_seconds = 0;
  bool tells_times = true;  // when its tasks began and ended, and on which device
};

// A task to measure that a worker did to its end.
struct DeviceSpan {
  std::string device;  // "<worker>/<device>"
  std::string sweep;
  int64_t began_ns = 0, ended_ns = 0;
};

class InProcessFarm {
 public:
  struct Options {
    uint64_t seed = 1;  // of delays and faults, not of the space
    SpaceModel space;
    Faults faults;
    core::Options core;
    std::vector<FakeWorkerOptions> workers = {{}, {}};
    double coordinator_restart_seconds = 1;
    double worker_restart_seconds = 1;
  };

  explicit InProcessFarm(const Options& options);
  ~InProcessFarm();

  // Asks now; the answer is there after Run... has passed its time.
  core::RequestId Submit(const v1::SweepSpec& spec);
  core::RequestId Ask(core::Event event);  // `request` inside is filled in
  const absl::StatusOr<core::ReplyBody>* ReplyTo(core::RequestId request) const;

  // Goes on until `done`, at most `seconds` of simulated time. False when that was not enough.
  bool RunUntil(const std::function<bool()>& done, double seconds);
  void RunFor(double seconds);

  // Submits, runs to the end, and returns the stored outcome; a request that a crash swallowed is
  // asked again, as a client would. kDeadlineExceeded when the sweep does not end.
  absl::StatusOr<v1::GetSweepResponse> RunSweep(const v1::SweepSpec& spec, double seconds = 3600);

  // The stored state, or NOT_FOUND.
  absl::StatusOr<v1::GetSweepResponse> Stored(const std::string& sweep);

  void CrashCoordinator();
  bool up() const { return core_ != nullptr; }
  int turns() const { return turns_; }
  core::CoreStats stats() const { return core_->Stats(); }
  store::MetaStore* meta() { return meta_.get(); }
  store::BlobStore* blobs() { return blobs_.get(); }
  SimulatedClock* clock() { return &clock_; }
  Faults* faults() { return &options_.faults; }
  int64_t leases_seen() const { return leases_seen_; }
  int compiles(const std::string& config) const;  // that workers began
  const std::vector<DeviceSpan>& spans() const { return spans_; }

  // What no run may do; empty when all is well. Checked as the run goes.
  const std::vector<std::string>& violations() const { return violations_; }
  // Watches a sweep from now on; events are kept in order, over restarts too.
  void Watch(const std::string& sweep);
  const std::vector<v1::SweepEvent>& events() const { return events_; }

 private:
  struct WorkerNode;
  struct Moment;

  double Delay();
  bool Chance(double p) { return p > 0 && rng_.Uniform() < p; }
  void At(double seconds, std::function<void()> what);
  void StartCoordinator();
  void Post(core::Event event);
  void Turn();
  void Deliver(core::Effects effects, bool amid);
  void CheckLease(const v1::Task& task);
  void NoteAck(const v1::Acknowledge& ack);

  void Attach(WorkerNode* node);
  void Detach(WorkerNode* node, bool tell);
  void FromWorker(WorkerNode* node, v1::WorkerMessage message);
  void ToWorker(uint64_t connection, v1::CoordinatorMessage message, bool close);
  void OnMessage(WorkerNode* node, const v1::CoordinatorMessage& message);
  void StartTasks(WorkerNode* node);
  void FinishTask(WorkerNode* node, uint64_t life, const std::string& id);
  void TellTimes(WorkerNode* node, const v1::Task& task, v1::TaskResult* result);
  v1::TaskResult Execute(WorkerNode* node, const v1::Task& task, bool* dies);
  void CompileOne(WorkerNode* node, const FakeSpace& space, const v1::SweepInputs& inputs,
                  const std::string& config, v1::CandidateResult* out);
  void ProfileOne(WorkerNode* node, const FakeSpace& space, const v1::Task& task,
                  const v1::TaskCandidate& candidate, v1::CandidateResult* out);
  void KillWorker(WorkerNode* node);
  void Beat(WorkerNode* node, uint64_t life);

  Options options_;
  Rng rng_;
  Rng times_;  // of what workers tell of times: changes no schedule
  SimulatedClock clock_;
  FakeExpander expander_;
  std::unique_ptr<store::MetaStore> meta_;
  std::unique_ptr<store::BlobStore> blobs_;
  std::unique_ptr<core::Core> core_;
  uint64_t term_ = 0;
  uint64_t life_ = 0;  // of the coordinator
  std::vector<core::Event> pending_;
  bool turn_planned_ = false;
  int turns_ = 0;

  std::vector<std::unique_ptr<WorkerNode>> nodes_;
  std::unordered_map<uint64_t, WorkerNode*> connections_;
  uint64_t next_id_ = 1;
  std::map<core::RequestId, absl::StatusOr<core::ReplyBody>> replies_;

  std::vector<Moment> agenda_;  // a heap
  uint64_t agenda_order_ = 0;

  std::set<std::string> acknowledged_;  // tasks whose result was taken
  std::map<std::string, uint64_t> newest_epoch_;
  std::map<std::string, int> compiles_;
  int64_t leases_seen_ = 0;
  std::vector<DeviceSpan> spans_;
  std::vector<std::string> violations_;
  std::string watched_;
  core::WatchId watch_ = 0;
  std::vector<v1::SweepEvent> events_;
};

// A farm without workers yet, in whose space some candidates do not compile and some are wrong.
InProcessFarm::Options FaultySpace(uint64_t seed);

// How many seeds a law is tried with: `usual` times the environment's KILN_TEST_SCALE.
int Seeds(int usual);

}  // namespace kiln::testing

#endif  // KILN_TESTS_UTIL_IN_PROCESS_FARM_H_

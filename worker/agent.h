// The worker agent: holds one stream to the coordinator for life, runs leases in slots, and is the
// only party that reports the end of a task. It decides nothing about kernels.
//
// Threads: Run() is the stream's reader; a writer thread for each attachment; one thread a slot.
// Slots outlive attachments: while the coordinator is away they work on, keep their results, and
// retry blob calls.
#ifndef KILN_WORKER_AGENT_H_
#define KILN_WORKER_AGENT_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/blob_cache.h"
#include "worker/executor.h"
#include "worker/ledger.h"
#include "worker/link.h"
#include "worker/metrics.h"

namespace kiln::worker {

struct AgentOptions {
  std::string name;
  int compile_slots = 1;
  int profile_slots = 1;
  std::vector<std::string> devices;  // of the profile slots, for messages: "gpu0"
  // They are of several kinds: each is opened before the worker attaches, and gets its own tasks.
  bool mixed_devices = false;
  // The profile slots' device shares this machine's cores with the compilers (the CPU itself): then
  // nothing is compiled while something is measured, and the two take turns.
  bool exclusive_measurement = true;
  double drain_seconds = 30;          // running tasks get this long after Drain()
  double acknowledge_seconds = 10;    // then their results get this long to be acknowledged
  double heartbeat_seconds = 1;       // upper bound; the coordinator may ask for more frequent ones
  double backoff_min_seconds = 0.05;  // reconnect: doubles from here ...
  // ... to here, each time with full jitter. A restarted coordinator waits a few seconds for the
  // workers that hold its leases: this must stay well below.
  double backoff_max_seconds = 1;
  uint64_t seed = 0;  // of the jitter; 0 = random
};

class Agent {
 public:
  // `link`, `cache` and `metrics` must outlive the agent.
  Agent(AgentOptions options, Link* link, BlobCache* cache, Metrics* metrics,
        CompileFactory make_compile, ProfileFactory make_profile);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Starts the slots, attaches, and serves until a drain has ended. kUnavailable when the first
  // child of a kind does not start: then nothing was attached. OK after a drain.
  absl::Status Run();

  // Begins to drain: waiting tasks are released, running ones finish or, after drain_seconds, are
  // stopped and released; then Run() returns. Any thread; a second call stops running tasks at
  // once.
  void Drain(const std::string& reason);

 private:
  using Clock = std::chrono::steady_clock;
  struct Slot;

  // Slots (agent_slots.cc).
  absl::Status StartSlots();
  // What a worker that compiles nothing measures: what its own build compiled elsewhere.
  absl::StatusOr<std::string> OwnBuild();
  void StopSlots();
  void CompileLoop(Slot* slot);
  void ProfileLoop(Slot* slot);
  void RunCompileItem(Slot* slot, const CompileItem& item);
  void RunProfileTask(Slot* slot, const HeldTaskPtr& held);
  absl::StatusOr<v1::CandidateResult> CompileOne(Slot* slot, const HeldTaskPtr& held, int index,
                                                 std::map<std::string, double>* seconds);
  absl::StatusOr<ProfileOutcome> ProfileAll(Slot* slot, const HeldTaskPtr& held,
                                            std::map<std::string, double>* seconds);
  absl::StatusOr<std::shared_ptr<const v1::SweepInputs>> Inputs(const HeldTaskPtr& held);
  // Runs `call` until it gives something else than kUnavailable or kDeadlineExceeded, with backoff.
  absl::Status Persist(const HeldTaskPtr& held, const std::function<absl::Status()>& call);
  bool Unwanted(const HeldTaskPtr& held);
  bool UnwantedLocked(const HeldTaskPtr& held) const;  // with mutex_ held
  std::string QuarantineOf(Slot* slot);
  // The gate between compiling and measuring; see exclusive_measurement.
  bool MayCompileLocked() const;
  absl::Status BeginMeasuring(const HeldTaskPtr& held);
  void EndMeasuring();
  void NoteStarted(const HeldTaskPtr& held);
  void NoteEnded(const HeldTaskPtr& held);
  void UpdateGaugesLocked();

  // Stream (agent.cc).
  absl::Status Serve();
  bool SendRegister(Stream* stream);
  void WriteLoop(Stream* stream);
  absl::Status Handle(const v1::CoordinatorMessage& message);
  void OnLeases(const v1::Leases& leases);
  void OnDrop(const std::string& task, const std::string& why);
  void ReleaseWaitingLocked(const std::string& reason);
  void DrainWatch();
  void InterruptLocked(const HeldTaskPtr& held);
  void FillHeartbeatLocked(v1::Heartbeat* heartbeat);
  // A profile slot's device is out; its reason travels with the next message.
  void QuarantineLocked(Slot* slot, const std::string& reason);
  std::string DeviceOf(const Slot& slot) const;
  bool AllQuarantinedLocked(const v1::Task& task) const;  // that could run it
  bool IsFor(const v1::Task& task, const Slot& slot) const;
  void DescribeSlotsLocked(v1::Register* fixed) const;
  std::vector<std::string> Missing(const Slot& slot) const;  // what it does without, a line each
  std::vector<v1::QuarantinedDevice> QuarantinedLocked() const;
  void Sleep(double seconds);
  double Backoff(int attempt);

  const AgentOptions options_;
  Link* const link_;
  BlobCache* const cache_;
  Metrics* const metrics_;
  const CompileFactory make_compile_;
  const ProfileFactory make_profile_;
  const std::string instance_;

  std::mutex mutex_;
  std::condition_variable work_;     // slots: work arrived, or stopping
  std::condition_variable outbox_;   // writer: something to send
  std::condition_variable changed_;  // drain, sleepers
  Ledger ledger_;
  std::map<std::string, Clock::time_point> started_;
  std::vector<std::unique_ptr<Slot>> slots_;
  v1::Register registration_;  // the fixed part
  std::map<std::string, std::shared_ptr<const v1::SweepInputs>> inputs_;
  int compiling_ = 0;      // candidates being compiled
  int compile_turns_ = 0;  // candidates that may still begin before the next measurement
  int measure_waiting_ = 0;
  bool measuring_ = false;
  Stream* stream_ = nullptr;  // the attachment, for Cancel()
  bool welcomed_ = false;
  bool attached_once_ = false;
  double heartbeat_seconds_;
  bool draining_ = false;
  bool drain_now_ = false;   // running tasks are to stop
  bool drain_said_ = false;  // the coordinator was told on this attachment
  bool health_said_ = true;  // it knows which devices are quarantined
  bool finished_ = false;    // Run() is to return
  bool stopping_ = false;    // slots are to end
  std::string drain_reason_;
  std::mt19937_64 random_;
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_AGENT_H_

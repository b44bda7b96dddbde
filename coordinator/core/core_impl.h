// The state machine behind Core. Internal to this folder; one .cc file for each group of methods.
#ifndef KILN_COORDINATOR_CORE_CORE_IMPL_H_
#define KILN_COORDINATOR_CORE_CORE_IMPL_H_

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/core/account.h"
#include "coordinator/core/core.h"
#include "coordinator/core/misses.h"
#include "coordinator/core/state.h"

namespace kiln::core {

class Core::Impl {
 public:
  Impl(const Options& options, uint64_t term, store::FarmState state, Time now);

  void Handle(Event event, Time now);
  Effects EndTurn(Time now);
  CoreStats Stats() const;

 private:
  // -- core.cc: the start --
  void RestoreCandidate(Sweep* sweep, v1::CandidateRow row);
  void RestoreTask(Sweep* sweep, v1::TaskRow row);

  // -- requests.cc: what clients ask --
  void On(Submit& event);
  void NoteAsked(Sweep* sweep);
  void On(Lookup& event);
  void On(Expanded& event);
  void On(Cancel& event);
  void On(ListMisses& event);
  void On(ClearMisses& event);
  void On(GetSweep& event);
  void On(ListBars& event);
  void On(LiftBars& event);
  void On(ListActive& event);
  void On(ListWorkers& event);
  void On(Watch& event);
  void On(Unwatch& event);
  absl::Status Admit(const v1::SweepSpec& spec) const;
  bool ResolveArch(const v1::SweepSpec& spec, v1::ArchRecord* arch) const;
  bool ResolveKnownArch(const std::string& target, v1::ArchRecord* arch) const;
  void RememberArch(const v1::ArchRecord& arch);
  void StartOrWait(PendingSubmit pending);
  void StartExpansion(PendingSubmit pending);
  void RetryArchWaits();
  void ExpireArchWaits();
  std::string ArchMissText(const std::string& target) const;
  std::string NoTargetText(const std::string& target) const;
  void AnswerLookup(const PendingSubmit& pending, Expanded& event);
  void CountMiss(const PendingSubmit& pending, const std::string& id, const std::string& reason);
  void DropMiss(const std::string& problem_key, const v1::SweepSpec& spec);
  void AnswerSubmit(const PendingSubmit& pending, Expanded& event);
  void ReplyStatus(RequestId request, absl::Status status);
  void ReplySubmit(const PendingSubmit& pending, v1::SubmitSweepResponse response, bool created);

  // -- sweeps.cc: the life of a sweep --
  Sweep* CreateSweep(const PendingSubmit& pending, Expanded& event);
  Sweep* CreateEmptySweep(const v1::SweepSpec& spec);
  Sweep* AddSweep(v1::SweepRow row, v1::SweepStatusRow status);
  void IndexCandidate(Sweep* sweep, int ordinal);
  void Advance(Sweep* sweep);
  void AdvanceSearch(Sweep* sweep);
  void AdvanceRace(Sweep* sweep);
  void AdvanceFinals(Sweep* sweep);
  void AdvanceEmpty(Sweep* sweep);
  bool CheckBudgets(Sweep* sweep);
  bool FindTools(const v1::ArchRecord& arch, Tools* tools) const;
  bool PinBuild(Sweep* sweep);
  void CheckBuildGone(Sweep* sweep);
  void StartOver(Sweep* sweep);
  void Propose(Sweep* sweep);
  std::vector<search::Point> Points(const Sweep& sweep) const;
  void MakeCompileTasks(Sweep* sweep);
  bool ReuseCompiled(Sweep* sweep, int ordinal);
  static std::string Toolchain(const Sweep& sweep);
  static std::string IndexKey(const Sweep& sweep, int ordinal);
  void Remember(const std::string& index_key, v1::CompileIndexRow::Entry entry);
  void Forget(const std::string& index_key);
  void StopCompiling(Sweep* sweep, int ordinal);
  int TaskSize(Pool pool, size_t left, int batch) const;
  void MakeScreenTasks(Sweep* sweep);
  void MakeTasks(Sweep* sweep, v1::TaskKind kind, std::vector<std::deque<int>> lots, int batch,
                 int samples);
  void StartRound(Sweep* sweep);
  void SpendBudget(Sweep* sweep);
  std::vector<int> Survivors(const Sweep& sweep) const;
  void DecideWinner(Sweep* sweep);
  struct Choice;
  Choice Choose(const Sweep& sweep) const;
  void KeepWinner(Sweep* sweep, v1::Winner winner, const Tools& tools);
  int CanonicalTwin(const Sweep& sweep, int ordinal) const;
  void Finish(Sweep* sweep, v1::SweepState state, const std::string& message);
  void Fail(Sweep* sweep, int ordinal, v1::Failure failure);
  void TakeArtifact(Sweep* sweep, int ordinal, const v1::Artifact& artifact);
  void SetState(Sweep* sweep, int ordinal, v1::CandidateState state);
  void SettleTwins(Sweep* sweep, int failed);
  static std::string FailureText(const Sweep& sweep);
  void MarkDirty(Sweep* sweep);
  void WakePeers();

  // -- proofs.cc: finalists at a ragged shape, and beside their plain code --
  bool WantsProof(const Sweep& sweep, int ordinal, ProofKind kind) const;
  void CompileForProof(Sweep* sweep, int ordinal, ProofKind kind);
  void CompileForProofsAhead(Sweep* sweep, std::vector<int> finalists);
  bool Prove(Sweep* sweep, int ordinal);
  bool ProveOne(Sweep* sweep, int ordinal, ProofKind kind);
  void TakeProofResult(Task* task, v1::TaskResult& result);
  void TakeProofFailure(Task* task, int ordinal, v1::Failure failure);
  void NoProofFor(Task* task, const std::string& why);
  void DropProof(Task* task, const Proof& now);

  // -- range_sweeps.cc: sweeps over a range of sizes --
  Sweep* CreateRangeSweep(const PendingSubmit& pending, Expanded& event);
  void ReattachRanges();
  void AdvanceRange(Sweep* sweep);
  void AskForSize(Sweep* sweep, RangeStep step, int64_t size);
  void StartAtSize(const PendingSubmit& pending, Expanded& event);
  void TellRanges(Sweep* ended);
  void TakeAtSize(Sweep* range, int64_t size, const Sweep& ended);
  void NoteWinner(Sweep* range, int64_t size, const std::string& config, const std::string& sweep);
  void NoteFailure(Sweep* range, int64_t size, const std::string& why);
  void NoteRefusal(Sweep* range, int64_t size, const std::string& why);
  void TakeComparison(Sweep* range, int64_t size, const Sweep& ended);
  void TakeProof(Sweep* range, int64_t size, const Sweep& ended);
  void EndTuning(Sweep* range);
  void EndComparison(Sweep* range);
  void EndProof(Sweep* range);
  void FinishRange(Sweep* range);

  // -- tasks.cc: tasks, leases, results --
  Task* NewTask(Sweep* sweep, v1::TaskKind kind, std::vector<int> ordinals, int samples);
  void DropTask(Task* task);
  void MakeReady(Task* task, bool front);
  void Lease(Task* task, Worker* worker);
  static std::string DeviceOf(const Task& task);
  v1::Task TaskMessage(const Task& task, const Worker& worker) const;
  void Unlease(Task* task);
  bool Accepts(const Task& task, const Worker& worker, uint64_t epoch) const;
  void TakeResult(Worker* worker, v1::TaskResult& result, int64_t sent_ns);
  void TakeCompileResult(Task* task, const v1::CandidateResult& result);
  void TakeProfileResult(Task* task, const Worker& worker, v1::CandidateResult& result);
  void TakeFinalsResult(Task* task, const Worker& worker, v1::TaskResult& result);
  bool TakeFailure(Task* task, int ordinal, const v1::Failure& failure);
  void StoreMeasurement(Sweep* sweep, int ordinal, v1::Measurement measurement, int round_mark,
                        const std::string& round);
  void TakeSeconds(Sweep* sweep, const v1::TaskResult& result);
  void TakeRelease(Task* task, const std::string& reason);
  void KeepRest(Task* task, const std::vector<int>& rest, const std::string& reason);
  bool LostInputs(Task* task, const std::string& reason);
  void CompileAgain(Sweep* sweep, const std::vector<int>& ordinals);
  void LoseWorker(Worker* worker, const std::string& why);
  void TaskLost(Task* task, const std::string& why, bool blamed);
  void GiveUp(Task* task, const std::string& why);
  void FailTask(Task* task, const std::string& why);
  // Why the result cannot be taken at its word; empty = it can.
  std::string Objection(const Task& task, const v1::TaskResult& result) const;
  void TakeRefused(Task* task, const std::string& why);
  void BackOff(Task* task, int times);
  void Revoke(Task* task, const std::string& reason);
  void ExpireLeases();
  void WakeBackoffs();
  void ReleaseHeld();

  // -- workers.cc: streams --
  void On(WorkerAttached& event);
  void On(WorkerSaid& event);
  void On(WorkerDetached& event);
  void On(Tick& event);
  void On(Stopping& event);
  void Register(ConnectionId connection, v1::Register& message);
  void Heartbeat(Worker* worker, const v1::Heartbeat& message);
  absl::Status CheckRegister(const v1::Register& message) const;
  void Adopt(Worker* worker, const v1::Register& message, v1::Welcome* welcome);
  void ForgetWorker(Worker* worker);
  void ForgetLostWorkers();
  v1::CoordinatorMessage* MessageTo(Worker* worker, int kind);
  void Reject(ConnectionId connection, const std::string& reason);
  v1::WorkerInfo Describe(const Worker& worker) const;
  bool Alive(const Worker& worker) const;
  bool CanCompile(const Worker& worker, const std::string& arch) const;
  bool CanProfile(const Worker& worker, const v1::ArchRecord& arch) const;
  bool Eligible(const Worker& worker, const Sweep& sweep, Pool pool) const;
  bool HasRoom(const Worker& worker, const Sweep& sweep, Pool pool) const;
  int Capacity(const Worker& worker, Pool pool) const;
  int Slots(Pool pool) const;

  // -- schedule.cc: who gets the next lease --
  void Schedule();
  void ScheduleSuspects(Pool pool);
  void SchedulePool(Pool pool);
  Sweep* SweepToStayWith(const Worker& worker, const std::vector<Sweep*>& able) const;
  Sweep* PickSweep(Pool pool, const Worker& worker, const std::vector<Sweep*>& sweeps,
                   const std::map<std::string, int>& user_running) const;
  Task* PopReady(std::deque<std::string>* queue, int* count, const Worker& worker);

  // -- lanes.cc: where the time goes --
  Situation SituationOf(const Sweep& sweep) const;
  void NoteSituations();
  Lane* LaneOf(Sweep* sweep, const Worker& worker, const std::string& device, bool own);
  void AccountTask(const Worker& worker, const Task& task, const v1::TaskResult& result,
                   int64_t sent_ns);
  std::vector<int64_t> OpenLeases(const Sweep& sweep, const Worker& worker) const;
  std::vector<std::pair<Lane*, int64_t>> OpenLanes(const Sweep& sweep, const Worker& worker,
                                                   Lanes* lanes) const;
  void LoseLanes(Worker* worker);
  void BackLanes(Worker* worker);
  Lanes LanesNow(const Sweep& sweep) const;
  void CloseLanes(Sweep* sweep);
  void FillAccount(const Sweep& sweep, const Lanes& lanes, v1::SweepStatusRow* row) const;

  // -- view.cc: what others see --
  std::string WaitReason(const Sweep& sweep) const;
  v1::SweepProgress Progress(const Sweep& sweep) const;
  double ShareOfRange(const Sweep& sweep) const;
  v1::SweepSummary Summary(const Sweep& sweep) const;
  v1::GetSweepResponse Describe(const Sweep& sweep, bool with_candidates) const;
  void PublishSweep(Sweep* sweep);
  void FlushSweep(Sweep* sweep);

  void Observe(Observation::Kind kind, std::string label, double value = 1) {
    out_.observations.push_back({kind, std::move(label), value});
  }
  Sweep* FindSweep(const std::string& digest) {
    auto it = sweeps_.find(digest);
    return it == sweeps_.end() ? nullptr : it->second.get();
  }

  // Who compiles (compile key, toolchain) at this moment.
  struct Compiling {
    std::string sweep;
    int ordinal = 0;
  };

  const Options options_;
  const uint64_t term_;
  Time now_;
  Effects out_;

  uint64_t next_epoch_ = 0;
  uint64_t next_task_ = 1;
  uint64_t next_job_ = 1;
  bool farm_dirty_ = false;

  std::map<std::string, std::unique_ptr<Sweep>> sweeps_;  // active ones, by digest
  std::vector<Sweep*> dirty_;
  std::vector<std::string> gone_;  // finished in this turn
  std::unordered_map<std::string, std::unique_ptr<Task>> tasks_;
  std::set<std::pair<int64_t, std::string>> backoffs_;  // (not before, task)
  std::map<std::string, std::unique_ptr<Worker>> workers_;
  std::unordered_map<ConnectionId, Worker*> connections_;   // null until registered
  std::unordered_map<ConnectionId, size_t> lease_message_;  // of this turn: index into out_.sends
  std::unordered_map<ConnectionId, size_t> ack_message_;
  std::unordered_map<ConnectionId, size_t> revoke_message_;
  std::unordered_map<WatchId, std::string> watches_;
  std::map<uint64_t, PendingSubmit> jobs_;
  std::list<PendingSubmit> arch_waits_;

  // -- bars.cc: programs that took children with them --
  int Kills(const std::string& key) const;
  void AddKill(const std::string& key, const v1::Failure& failure, const Sweep& sweep,
               const Cand& cand);
  static bool Barred(const v1::KillRow& row) { return row.count() > kKillsAllowed; }
  absl::StatusOr<std::string> FindBar(const std::string& prefix) const;

  static constexpr int kKillsAllowed = 1;  // of children, by one binary or compilation
  std::unordered_map<std::string, v1::KillRow> kills_;
  std::unordered_map<std::string, Compiling> compiling_;                  // by index key
  std::unordered_map<std::string, v1::CompileIndexRow::Entry> compiled_;  // recent, by index key
  std::list<std::string> compiled_order_;

  Misses misses_;
  std::vector<v1::ArchRow> known_archs_;    // that workers have reported, also earlier ones
  std::set<std::string> absent_;            // of the message being handled: see WorkerSaid
  std::set<std::string> expected_workers_;  // of the last incarnation, not yet back
  int64_t held_until_ns_ = 0;               // 0 = nothing is held any more
  CoreStats stats_;
};

// The same bytes for equal messages, so that they may be named by their digest.
std::string SerializeDeterministic(const google::protobuf::Message& message);

}  // namespace kiln::core

#endif  // KILN_COORDINATOR_CORE_CORE_IMPL_H_

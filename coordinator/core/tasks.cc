// Tasks, their leases, and what comes back.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/core/core_impl.h"
#include "proto/conditions.h"

namespace kiln::core {
namespace {

constexpr int kIdDigits = 12;
constexpr double kMaxBackoffSeconds = 10;
// A worker that tells nothing of a task this much longer than it may take has lost it.
constexpr double kHardFactor = 2, kHardSeconds = 60;
constexpr char kLostInputs[] = "lost inputs";
constexpr double kFarTimes = 1.25;  // of two medians of the same code, one of which is off

const char* KindName(v1::TaskKind kind) {
  switch (kind) {
    case v1::TASK_COMPILE:
      return "compile";
    case v1::TASK_SCREEN:
      return "screen";
    case v1::TASK_RACE:
      return "race";
    case v1::TASK_FINALS:
      return "finals";
    case v1::TASK_EMPTY:
      return "empty";
    case v1::TASK_COMPILE_RAGGED:
      return "compile-ragged";
    case v1::TASK_CHECK_RAGGED:
      return "check-ragged";
    case v1::TASK_COMPILE_PLAIN:
      return "compile-plain";
    case v1::TASK_CHECK_PLAIN:
      return "check-plain";
    default:
      return "other";
  }
}

bool ValidTiming(const v1::Measurement& measurement) {
  return std::isfinite(measurement.median_ns()) && measurement.median_ns() > 0 &&
         !measurement.samples_ns().empty();
}

// Times of a config by itself that the finals do not bear out: whoever looks at it is told.
void NoteFarTimes(double finals_ns, v1::Measurement* again) {
  const double times = again->median_ns() / finals_ns;
  if (times < kFarTimes && times > 1 / kFarTimes) return;
  std::string* const conditions = again->mutable_conditions();
  absl::StrAppend(
      conditions, conditions->empty() ? "" : "; ", kDisturbed,
      absl::StrFormat("the finals said %.4g us of the same code, this is %.3g times as long",
                      finals_ns * 1e-3, times));
}

v1::Failure MakeFailure(v1::Failure::Stage stage, std::string message, std::string worker) {
  v1::Failure failure;
  failure.set_stage(stage);
  failure.set_message(std::move(message));
  failure.set_worker(std::move(worker));
  return failure;
}

}  // namespace

Task* Core::Impl::NewTask(Sweep* sweep, v1::TaskKind kind, std::vector<int> ordinals, int samples) {
  auto task = std::make_unique<Task>();
  task->row.set_id(absl::StrCat(sweep->digest().substr(0, kIdDigits), "-", next_task_++));
  farm_dirty_ = true;
  task->row.set_sweep(sweep->digest());
  task->row.set_kind(kind);
  task->row.set_round(sweep->status.round());
  task->row.set_samples(samples);
  task->sweep = sweep;
  for (int ordinal : ordinals) {
    task->row.add_ordinals(ordinal);
    if (IsProof(kind)) continue;
    sweep->cands[ordinal].task = task.get();
    sweep->queued.erase(ordinal);
    sweep->to_screen.erase(ordinal);
    if (sweep->cands[ordinal].suspect) task->row.set_attempt(options_.max_task_losses - 1);
  }
  out_.batch.tasks.push_back(task->row);
  sweep->tasks.insert(task->row.id());
  ++sweep->open[task->pool()];
  Task* raw = task.get();
  tasks_.emplace(task->row.id(), std::move(task));
  MakeReady(raw, false);
  return raw;
}

void Core::Impl::MakeReady(Task* task, bool front) {
  task->state = Task::State::kReady;
  task->ready_ns = now_.mono_ns;
  ++stats_.ready_tasks;
  const Pool pool = task->pool();
  task->suspect = pool != kEmptyPool && task->row.attempt() >= options_.max_task_losses - 1;
  if (task->suspect) {
    task->sweep->suspects[pool].push_back(task->row.id());
    ++task->sweep->suspect_count[pool];
    return;
  }
  auto& queue = task->sweep->ready[pool];
  if (front) {
    queue.push_front(task->row.id());
  } else {
    queue.push_back(task->row.id());
  }
  ++task->sweep->ready_count[pool];
}

// Takes the task out of whatever state it is in; the caller puts it into another or drops it.
void Core::Impl::Unlease(Task* task) {
  Sweep* sweep = task->sweep;
  if (task->state == Task::State::kReady) {
    --(task->suspect ? sweep->suspect_count : sweep->ready_count)[task->pool()];
    --stats_.ready_tasks;
  } else if (task->state == Task::State::kBackoff) {
    backoffs_.erase({task->not_before_ns, task->row.id()});
  } else if (task->state == Task::State::kLeased) {
    task->worker->leased.erase(task);
    --task->worker->busy[task->pool()];
    if (task->suspect) task->worker->exclusive = false;
    --sweep->running[task->pool()];
    --stats_.leased_tasks;
    task->worker = nullptr;
    const int running = std::accumulate(sweep->running.begin(), sweep->running.end(), 0);
    if (running == 0) sweep->idle_since_ns = now_.mono_ns;
  }
  task->state = Task::State::kHeld;
}

void Core::Impl::DropTask(Task* task) {
  Sweep* sweep = task->sweep;
  Unlease(task);
  for (int ordinal : task->row.ordinals()) {
    if (sweep->cands[ordinal].task == task) sweep->cands[ordinal].task = nullptr;
  }
  out_.batch.deleted_tasks.push_back({sweep->digest(), task->row.id()});
  sweep->tasks.erase(task->row.id());
  --sweep->open[task->pool()];
  tasks_.erase(task->row.id());
}

void Core::Impl::Revoke(Task* task, const std::string& reason) {
  if (task->state != Task::State::kLeased || task->worker->connection == 0) return;
  v1::Revoke* revoke = MessageTo(task->worker, v1::CoordinatorMessage::kRevoke)->mutable_revoke();
  revoke->add_tasks(task->row.id());
  revoke->set_reason(reason);
}

void Core::Impl::Lease(Task* task, Worker* worker) {
  Sweep* sweep = task->sweep;
  const Pool pool = task->pool();
  // A first lease needs no row: nothing else can hold the task. Any later one makes older epochs
  // stale, and that has to survive a restart.
  const bool first = task->epoch == 0 && !task->row_stored_before;
  task->epoch = (term_ << 32) + ++next_epoch_;
  if (!first) {
    task->row.set_min_epoch(task->epoch);
    out_.batch.tasks.push_back(task->row);
  }
  task->state = Task::State::kLeased;
  --stats_.ready_tasks;
  ++stats_.leased_tasks;
  ++stats_.leases_granted;
  task->worker = worker;
  task->leased_ns = now_.mono_ns;
  task->deadline_ns = now_.mono_ns + SecondsToNs(options_.lease_seconds);
  const v1::Task message = TaskMessage(*task, *worker);
  task->hard_deadline_ns =
      now_.mono_ns + SecondsToNs(kHardFactor * message.limit_seconds() + kHardSeconds);
  worker->leased.insert(task);
  ++worker->busy[pool];
  worker->exclusive |= task->suspect;
  if (pool == kProfilePool && worker->measuring != sweep->digest()) {
    worker->measuring = sweep->digest();
    worker->measuring_since_ns = now_.mono_ns;
  }
  if (sweep->status.first_lease_seconds() == 0) {  // the time budget runs from here
    sweep->status.set_first_lease_seconds(std::max(sweep->elapsed_seconds(now_.mono_ns), 1e-9));
    sweep->status_dirty = true;
  }
  if (sweep->idle_since_ns != 0) {
    (*sweep->status.mutable_seconds())["idle"] += NsToSeconds(now_.mono_ns - sweep->idle_since_ns);
    sweep->idle_since_ns = 0;
  }
  const double waited = NsToSeconds(now_.mono_ns - task->ready_ns);
  (*sweep->status.mutable_seconds())["queue"] += waited;
  ++sweep->running[pool];
  sweep->last_lease_ns[pool] = now_.mono_ns;
  const v1::CandidateState state = pool == kCompilePool ? v1::COMPILING : v1::PROFILING;
  for (int ordinal : task->row.ordinals()) {
    if (!IsProof(task->row.kind())) SetState(sweep, ordinal, state);
  }
  sweep->publish = true;
  *MessageTo(worker, v1::CoordinatorMessage::kLeases)->mutable_leases()->add_tasks() = message;
  Observe(Observation::Kind::kLease, KindName(task->row.kind()), waited);
}

// The one that measured all candidates of the task last; empty: there is none.
std::string Core::Impl::DeviceOf(const Task& task) {
  std::string device;
  for (int ordinal : task.row.ordinals()) {
    const std::string last = task.sweep->cands[ordinal].last_device();
    if (last.empty() || (!device.empty() && last != device)) return "";
    device = last;
  }
  return device;
}

v1::Task Core::Impl::TaskMessage(const Task& task, const Worker& worker) const {
  const Sweep& sweep = *task.sweep;
  v1::Task out;
  out.set_id(task.row.id());
  out.set_epoch(task.epoch);
  out.set_sweep(sweep.digest());
  out.set_kind(task.row.kind());
  out.set_round(task.row.round());
  out.set_attempt(task.row.attempt());
  out.set_inputs_digest(sweep.row.inputs_digest());
  out.set_lease_seconds(options_.lease_seconds);
  if (!sweep.compares()) out.set_best_ns(sweep.best_ns);  // else nobody stops early
  out.set_samples(task.row.samples());
  if (task.pool() == kProfilePool) {
    out.set_arch(sweep.row.arch().name());
    out.set_device_model(sweep.row.arch().device_model());
  }
  const std::string device_prefix = absl::StrCat(worker.name(), "/");
  if (task.row.kind() == v1::TASK_RACE || task.row.kind() == v1::TASK_CHECK_PLAIN) {
    const std::string device = DeviceOf(task);
    if (absl::StartsWith(device, device_prefix)) {
      out.set_device(device.substr(device_prefix.size()));
    }
  }
  for (int ordinal : task.row.ordinals()) {
    const v1::Candidate& candidate = sweep.cands[ordinal].row.candidate();
    v1::TaskCandidate* add = out.add_candidates();
    add->set_config(candidate.config());
    const std::array<Proof, kProofKinds>& proofs = sweep.cands[ordinal].proofs;
    if (ProofOf(task.row.kind()) == kRaggedProof) {
      add->set_artifact_digest(proofs[kRaggedProof].artifact.digest());
      continue;
    }
    add->set_plain_digest(proofs[kPlainProof].artifact.digest());
    if (task.pool() == kProfilePool) add->set_expected_ns(candidate.hint().predicted_ns());
    add->set_artifact_digest(candidate.artifact().digest());
    for (const v1::Measurement& m : candidate.measurements()) {
      if (m.numbers_checked() && absl::StartsWith(m.device(), device_prefix)) {
        add->set_numbers_checked(true);
      }
    }
  }
  const double each =
      task.pool() == kCompilePool ? options_.compile_limit_seconds : options_.profile_limit_seconds;
  out.set_limit_seconds(each * std::max(1, task.row.ordinals_size()));
  return out;
}

bool Core::Impl::Accepts(const Task& task, const Worker& worker, uint64_t epoch) const {
  if (task.state == Task::State::kLeased) return task.epoch == epoch && task.worker == &worker;
  if (task.epoch != 0) return task.epoch == epoch;
  return task.row_stored_before && epoch >= task.row.min_epoch() && (epoch >> 32) < term_;
}

void Core::Impl::TakeResult(Worker* worker, v1::TaskResult& result, int64_t sent_ns) {
  auto it = tasks_.find(result.task());
  const bool stale = it == tasks_.end() || !Accepts(*it->second, *worker, result.epoch());
  if (worker->connection != 0) {
    v1::Acknowledge* ack =
        MessageTo(worker, v1::CoordinatorMessage::kAcknowledge)->mutable_acknowledge();
    ack->add_tasks(result.task());
    if (stale) ack->add_stale(result.task());
  }
  if (stale) {
    ++stats_.stale_results;
    Observe(Observation::Kind::kStaleResult, "");
    return;
  }
  Task* task = it->second.get();
  Sweep* sweep = task->sweep;
  MarkDirty(sweep);
  if (task->state == Task::State::kLeased) {
    Observe(Observation::Kind::kTaskDone, KindName(task->row.kind()),
            NsToSeconds(now_.mono_ns - task->leased_ns));
  }
  AccountTask(*worker, *task, result, sent_ns);
  Unlease(task);
  TakeSeconds(sweep, result);
  if (!result.released().empty()) return TakeRelease(task, result.released());
  const std::string objection = Objection(*task, result);
  if (!objection.empty()) {
    return TakeRefused(task, absl::StrCat(worker->name(), " ", objection));
  }
  ++stats_.tasks_done;
  switch (task->row.kind()) {
    case v1::TASK_EMPTY:
      sweep->status.set_empty_done(sweep->status.empty_done() + 1);
      sweep->status_dirty = true;
      sweep->publish = true;
      return DropTask(task);
    case v1::TASK_FINALS:
      return TakeFinalsResult(task, *worker, result);
    default:
      break;
  }
  const bool progress = std::any_of(result.candidates().begin(), result.candidates().end(),
                                    [](const v1::CandidateResult& r) { return !r.not_run(); });
  if (!progress) return TakeRelease(task, "the worker ran none of the candidates");
  sweep->kept_waiting[task->pool()].clear();
  if (IsProof(task->row.kind())) return TakeProofResult(task, result);
  std::map<std::string, v1::CandidateResult*> by_config;
  for (v1::CandidateResult& r : *result.mutable_candidates()) by_config[r.config()] = &r;
  const std::vector<int> ordinals(task->row.ordinals().begin(), task->row.ordinals().end());
  std::vector<int> rest = ordinals;
  for (int ordinal : ordinals) {
    auto found = by_config.find(sweep->cands[ordinal].config());
    if (found == by_config.end() || found->second->not_run()) continue;
    sweep->cands[ordinal].suspect = false;
    if (task->row.kind() == v1::TASK_COMPILE) {
      TakeCompileResult(task, *found->second);
    } else {
      TakeProfileResult(task, *worker, *found->second);
    }
    if (sweep->terminal()) return;  // the task is gone with its sweep
    rest.erase(std::remove(rest.begin(), rest.end(), ordinal), rest.end());
  }
  if (!rest.empty() && !result.unavailable().empty()) {
    KeepRest(task, rest, result.unavailable());
  } else {
    DropTask(task);
  }
  for (int ordinal : ordinals) IndexCandidate(sweep, ordinal);
}

// The device cannot measure now: what it did not reach waits as a task that was released does.
void Core::Impl::KeepRest(Task* task, const std::vector<int>& rest, const std::string& reason) {
  for (int ordinal : task->row.ordinals()) task->sweep->cands[ordinal].task = nullptr;
  task->row.clear_ordinals();
  for (int ordinal : rest) {
    task->row.add_ordinals(ordinal);
    task->sweep->cands[ordinal].task = task;
  }
  TakeRelease(task, reason);
}

// A worker that runs other code, or none of ours, may answer anything.
std::string Core::Impl::Objection(const Task& task, const v1::TaskResult& result) const {
  if (task.row.kind() == v1::TASK_EMPTY) return "";
  const auto in_task = [&](const std::string& config) {
    auto found = task.sweep->by_config.find(config);
    if (found == task.sweep->by_config.end()) return false;
    const auto& ordinals = task.row.ordinals();
    return std::find(ordinals.begin(), ordinals.end(), found->second) != ordinals.end();
  };
  bool known = false;
  std::string unknown;
  for (const v1::CandidateResult& r : result.candidates()) {
    if (r.not_run()) continue;
    if (in_task(r.config())) {
      known = true;
    } else if (unknown.empty()) {
      unknown =
          absl::StrCat("answered with the config '", r.config(), "', which is not in the task");
    }
    if (task.pool() == kCompilePool && absent_.count(r.artifact().digest()) > 0) {
      return absl::StrCat("reported the artifact ", r.artifact().digest(),
                          " but never sent its bytes");
    }
  }
  return known ? "" : unknown;
}

// An answer that is none costs an attempt, as a lost worker does, and the task waits longer each
// time.
void Core::Impl::TakeRefused(Task* task, const std::string& why) {
  Observe(Observation::Kind::kReleased, KindName(task->row.kind()));
  task->row.set_attempt(task->row.attempt() + 1);
  out_.batch.tasks.push_back(task->row);
  if (task->row.attempt() >= options_.max_task_losses) return GiveUp(task, why);
  for (int ordinal : task->row.ordinals()) IndexCandidate(task->sweep, ordinal);
  BackOff(task, task->row.attempt());
}

void Core::Impl::BackOff(Task* task, int times) {
  const double seconds = std::min(kMaxBackoffSeconds, options_.release_backoff_seconds *
                                                          std::pow(2.0, std::min(16, times - 1)));
  task->state = Task::State::kBackoff;
  task->not_before_ns = now_.mono_ns + SecondsToNs(seconds);
  backoffs_.insert({task->not_before_ns, task->row.id()});
}

void Core::Impl::TakeSeconds(Sweep* sweep, const v1::TaskResult& result) {
  auto& seconds = *sweep->status.mutable_seconds();
  for (const auto& [stage, value] : result.seconds()) {
    if (!std::isfinite(value) || value < 0) continue;
    seconds[stage] += value;
    Observe(Observation::Kind::kStageSeconds, stage, value);
  }
  if (!result.seconds().empty()) sweep->status_dirty = true;
}

void Core::Impl::TakeCompileResult(Task* task, const v1::CandidateResult& result) {
  Sweep* sweep = task->sweep;
  const int ordinal = sweep->by_config.at(result.config());
  Cand& cand = sweep->cands[ordinal];
  cand.row.mutable_candidate()->set_attempts(cand.row.candidate().attempts() + 1);
  StopCompiling(sweep, ordinal);
  v1::CompileIndexRow::Entry entry;
  entry.set_compiler_build(Toolchain(*sweep));
  if (result.has_failure()) {
    const bool again = TakeFailure(task, ordinal, result.failure());
    const v1::Failure::Stage stage = result.failure().stage();
    const bool deterministic = stage == v1::Failure::ELABORATE || stage == v1::Failure::COMPILE;
    if (again || !deterministic || result.failure().killed_child()) return;
    *entry.mutable_failure() = result.failure();
  } else if (result.artifact().digest().empty()) {
    return Fail(
        sweep, ordinal,
        MakeFailure(v1::Failure::COMPILE, "the worker sent neither artifact nor failure", ""));
  } else {
    TakeArtifact(sweep, ordinal, result.artifact());
    *entry.mutable_artifact() = result.artifact();
  }
  Remember(IndexKey(*sweep, ordinal), entry);
  v1::CompileIndexRow row;
  row.set_compile_key(cand.row.compile_key());
  *row.add_entries() = std::move(entry);
  out_.batch.compiled.push_back(std::move(row));
}

// True when the candidate gets another chance.
bool Core::Impl::TakeFailure(Task* task, int ordinal, const v1::Failure& failure) {
  Sweep* sweep = task->sweep;
  Cand& cand = sweep->cands[ordinal];
  if (failure.killed_child()) {
    const std::string key = task->pool() == kCompilePool
                                ? IndexKey(*sweep, ordinal)
                                : cand.row.candidate().artifact().binary_digest();
    AddKill(key, failure, *sweep, cand);
    cand.alone = true;
    if (Kills(key) <= kKillsAllowed) return true;
  }
  Fail(sweep, ordinal, failure);
  return false;
}

void Core::Impl::TakeProfileResult(Task* task, const Worker& worker, v1::CandidateResult& result) {
  Sweep* sweep = task->sweep;
  const int ordinal = sweep->by_config.at(result.config());
  Cand& cand = sweep->cands[ordinal];
  cand.row.mutable_candidate()->set_attempts(cand.row.candidate().attempts() + 1);
  sweep->to_store.insert(ordinal);
  if (result.has_failure()) {
    TakeFailure(task, ordinal, result.failure());
    return;
  }
  if (!ValidTiming(result.measurement())) {
    return Fail(sweep, ordinal,
                MakeFailure(v1::Failure::RUN, "the worker sent no valid timing", worker.name()));
  }
  const bool screen = task->row.kind() == v1::TASK_SCREEN;
  if (screen && !result.measurement().numbers_checked() &&
      sweep->row.spec().check().reference() != v1::CheckPolicy::NONE) {
    return Fail(sweep, ordinal,
                MakeFailure(v1::Failure::CHECK, "the worker timed it without checking its numbers",
                            worker.name()));
  }
  const int mark = screen ? 1 : task->row.round() + 1;
  StoreMeasurement(sweep, ordinal, std::move(*result.mutable_measurement()), mark,
                   screen ? "screen" : absl::StrCat("race-", task->row.round()));
}

void Core::Impl::StoreMeasurement(Sweep* sweep, int ordinal, v1::Measurement measurement,
                                  int round_mark, const std::string& round) {
  Cand& cand = sweep->cands[ordinal];
  measurement.set_config(cand.config());
  measurement.set_round(round);
  if (sweep->best_ns == 0 || measurement.median_ns() < sweep->best_ns) {
    sweep->best_ns = measurement.median_ns();
    sweep->best_config = cand.config();
  }
  *cand.row.mutable_candidate()->add_measurements() = std::move(measurement);
  cand.row.set_screened_round(std::max(cand.row.screened_round(), round_mark));
  SetState(sweep, ordinal, v1::CANDIDATE_DONE);
}

// Paired samples need all finalists in one task: unless every one of them was measured, the round
// is run again with those that are left.
void Core::Impl::TakeFinalsResult(Task* task, const Worker& worker, v1::TaskResult& result) {
  Sweep* sweep = task->sweep;
  std::vector<std::pair<int, v1::Measurement>> measured;
  std::map<int, v1::Measurement> fresh;
  bool failures = false;
  for (v1::CandidateResult& r : *result.mutable_candidates()) {
    auto found = sweep->by_config.find(r.config());
    if (found == sweep->by_config.end() || r.not_run()) continue;
    Cand& cand = sweep->cands[found->second];
    if (cand.task != task) continue;
    cand.row.mutable_candidate()->set_attempts(cand.row.candidate().attempts() + 1);
    sweep->to_store.insert(found->second);
    if (r.has_failure()) {
      failures = true;
      TakeFailure(task, found->second, r.failure());
    } else if (!ValidTiming(r.measurement())) {
      failures = true;
      Fail(sweep, found->second,
           MakeFailure(v1::Failure::RUN, "the worker sent no valid timing", worker.name()));
    } else {
      measured.emplace_back(found->second, std::move(*r.mutable_measurement()));
      if (!ValidTiming(r.fresh())) continue;
      v1::Measurement& again = fresh[found->second] = std::move(*r.mutable_fresh());
      again.set_config(cand.config());
      again.set_round("fresh");
      NoteFarTimes(measured.back().second.median_ns(), &again);
    }
  }
  const std::vector<int> finalists(task->row.ordinals().begin(), task->row.ordinals().end());
  if (!failures && measured.size() < finalists.size()) {
    return TakeRelease(task, "the worker did not run all finalists");
  }
  DropTask(task);
  if (failures) {
    for (int ordinal : finalists) IndexCandidate(sweep, ordinal);
    return;
  }
  for (auto& [ordinal, measurement] : measured) {
    StoreMeasurement(sweep, ordinal, std::move(measurement), sweep->status.round() + 2, "finals");
  }
  Finale& finale = sweep->finale.emplace(Finale{finalists, std::move(fresh), sweep->row.arch()});
  for (const v1::ArchRecord& own : worker.info.archs()) {
    if (own.device_model() == finale.arch.device_model()) finale.arch = own;
  }
  DecideWinner(sweep);
}

// The worker could not do it, through no fault of the candidates. That costs no attempt, but it
// ends.
void Core::Impl::TakeRelease(Task* task, const std::string& reason) {
  Sweep* sweep = task->sweep;
  Observe(Observation::Kind::kReleased, KindName(task->row.kind()));
  task->row.set_releases(task->row.releases() + 1);
  out_.batch.tasks.push_back(task->row);
  const bool not_here = absl::StartsWith(reason, kNotMeasuredHere);
  // Once may be anything: a worker that ends, a device that another sweep takes.
  if (not_here || task->row.releases() > 1) sweep->kept_waiting[task->pool()] = reason;
  if (task->row.releases() > options_.max_releases) {
    const std::string why = absl::StrCat("released ", task->row.releases(),
                                         " times by workers; the last one said: ", reason);
    return not_here ? FailTask(task, why) : GiveUp(task, why);
  }
  if (absl::StrContains(reason, kLostInputs)) {
    if (LostInputs(task, reason)) return;
  }
  for (int ordinal : task->row.ordinals()) IndexCandidate(sweep, ordinal);
  BackOff(task, task->row.releases());
}

// The blobs that a task needs are gone: put the inputs again, compile the candidates again. True
// when the task is gone, because its candidates have to be compiled first.
bool Core::Impl::LostInputs(Task* task, const std::string& reason) {
  Sweep* sweep = task->sweep;
  out_.blobs.push_back({sweep->row.inputs_digest(), SerializeDeterministic(sweep->row.inputs())});
  out_.pins.push_back({sweep->row.inputs_digest(), absl::StrCat("sweep:", sweep->digest())});
  const bool proof = IsProof(task->row.kind());
  if (proof && task->pool() == kCompilePool) return false;
  const std::vector<int> ordinals(task->row.ordinals().begin(), task->row.ordinals().end());
  std::vector<int> gone;
  for (int ordinal : ordinals) {
    const std::string& digest = sweep->cands[ordinal].row.candidate().artifact().digest();
    if (!digest.empty() && absl::StrContains(reason, digest)) gone.push_back(ordinal);
  }
  if (proof) {
    DropProof(task, Proof());
    if (gone.empty()) return true;
    CompileAgain(sweep, gone);
    sweep->finale.reset();  // the finals are run again with what comes of it
    return true;
  }
  const bool only_inputs = absl::StrContains(reason, sweep->row.inputs_digest());
  if (gone.empty() && !only_inputs && task->pool() == kProfilePool) gone = ordinals;
  if (gone.empty()) return false;
  DropTask(task);
  CompileAgain(sweep, gone);
  for (int ordinal : ordinals) IndexCandidate(sweep, ordinal);
  return true;
}

void Core::Impl::CompileAgain(Sweep* sweep, const std::vector<int>& ordinals) {
  for (int ordinal : ordinals) {
    Cand& cand = sweep->cands[ordinal];
    Forget(IndexKey(*sweep, ordinal));
    sweep->index.erase(cand.row.compile_key());
    cand.row.mutable_candidate()->clear_artifact();
    SetState(sweep, ordinal, v1::QUEUED);
    IndexCandidate(sweep, ordinal);
  }
}

// The worker is gone with all that it held. It works its leases off in order, so those beyond its
// slots had not begun and bear no blame.
void Core::Impl::LoseWorker(Worker* worker, const std::string& why) {
  LoseLanes(worker);
  std::vector<Task*> lost(worker->leased.begin(), worker->leased.end());
  std::sort(lost.begin(), lost.end(),
            [](const Task* a, const Task* b) { return a->epoch < b->epoch; });
  std::array<int, kPools> begun{};
  std::vector<bool> blamed;
  for (const Task* task : lost) {
    const int slots =
        task->pool() == kCompilePool ? worker->info.compile_slots() : worker->info.profile_slots();
    blamed.push_back(begun[task->pool()]++ < slots);
  }
  // The last first: each goes to the front of its queue.
  for (size_t i = lost.size(); i-- > 0;) {
    Revoke(lost[i], "the lease has expired");
    TaskLost(lost[i], why, blamed[i]);
  }
}

void Core::Impl::TaskLost(Task* task, const std::string& why, bool blamed) {
  Observe(Observation::Kind::kLeaseExpired, KindName(task->row.kind()));
  Unlease(task);
  MarkDirty(task->sweep);
  for (int ordinal : task->row.ordinals()) IndexCandidate(task->sweep, ordinal);
  if (!blamed) return MakeReady(task, true);
  task->row.set_attempt(task->row.attempt() + 1);
  out_.batch.tasks.push_back(task->row);
  if (task->row.attempt() < options_.max_task_losses) return MakeReady(task, true);
  GiveUp(task, absl::StrCat("the worker was lost each time it was run, the last time with nothing "
                            "else on it (",
                            why, ")"));
}

// None of its candidates did anything, so that there is nobody to find among them.
void Core::Impl::FailTask(Task* task, const std::string& why) {
  Sweep* sweep = task->sweep;
  if (IsProof(task->row.kind())) return NoProofFor(task, why);
  const std::vector<int> ordinals(task->row.ordinals().begin(), task->row.ordinals().end());
  DropTask(task);
  for (int ordinal : ordinals) Fail(sweep, ordinal, MakeFailure(v1::Failure::RUN, why, ""));
}

// A task that nobody survives: find out which candidate it is, or give the one up.
void Core::Impl::GiveUp(Task* task, const std::string& why) {
  Sweep* sweep = task->sweep;
  if (task->row.kind() == v1::TASK_EMPTY) return MakeReady(task, false);
  if (IsProof(task->row.kind())) return NoProofFor(task, why);
  const std::vector<int> ordinals(task->row.ordinals().begin(), task->row.ordinals().end());
  const v1::TaskKind kind = task->row.kind();
  DropTask(task);
  if (ordinals.size() == 1) {
    Fail(sweep, ordinals[0],
         MakeFailure(kind == v1::TASK_COMPILE ? v1::Failure::COMPILE : v1::Failure::RUN, why, ""));
    return;
  }
  for (int ordinal : ordinals) {
    sweep->cands[ordinal].alone = sweep->cands[ordinal].suspect = true;
    IndexCandidate(sweep, ordinal);
  }
  if (kind == v1::TASK_FINALS) {
    sweep->status.set_phase(v1::SweepStatusRow::RACE);
    sweep->status.set_round(sweep->status.round() + 1);
    sweep->status_dirty = true;
  }
}

void Core::Impl::ExpireLeases() {
  for (const auto& [name, worker] : workers_) {
    if (now_.mono_ns - worker->last_seen_ns >= SecondsToNs(options_.lease_seconds)) {
      LoseWorker(worker.get(), absl::StrCat("no sign of life from ", name));
      continue;
    }
    std::vector<Task*> expired;
    for (Task* task : worker->leased) {
      if (task->deadline_ns <= now_.mono_ns || task->hard_deadline_ns <= now_.mono_ns) {
        expired.push_back(task);
      }
    }
    std::sort(expired.begin(), expired.end(),
              [](const Task* a, const Task* b) { return a->epoch < b->epoch; });
    for (Task* task : expired) {
      Revoke(task, "the lease has expired");
      if (task->hard_deadline_ns <= now_.mono_ns) {
        TaskLost(task, absl::StrCat(name, " ran it far over its limit"), true);
        continue;
      }
      // The worker lives but does not know of the lease.
      Observe(Observation::Kind::kLeaseExpired, KindName(task->row.kind()));
      Unlease(task);
      MarkDirty(task->sweep);
      TakeRelease(task, absl::StrCat(name, " does not name it in its heartbeats"));
    }
  }
}

void Core::Impl::WakeBackoffs() {
  while (!backoffs_.empty() && backoffs_.begin()->first <= now_.mono_ns) {
    Task* task = tasks_.at(backoffs_.begin()->second).get();
    backoffs_.erase(backoffs_.begin());
    MakeReady(task, false);
    MarkDirty(task->sweep);
  }
}

void Core::Impl::ReleaseHeld() {
  held_until_ns_ = 0;
  std::vector<Task*> held;
  for (const auto& [id, task] : tasks_) {
    if (task->state == Task::State::kHeld) held.push_back(task.get());
  }
  std::sort(held.begin(), held.end(), [](const Task* a, const Task* b) {
    return std::make_pair(a->row.id().size(), a->row.id()) <
           std::make_pair(b->row.id().size(), b->row.id());
  });
  for (Task* task : held) {
    MakeReady(task, false);
    MarkDirty(task->sweep);
  }
}

}  // namespace kiln::core

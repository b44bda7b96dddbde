// The life of a sweep: propose, compile, screen, race, finals, winner.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <compare>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/cuda_toolkit.h"
#include "compiler/base/digest.h"
#include "compiler/base/status.h"
#include "coordinator/core/core_impl.h"
#include "coordinator/core/identity.h"
#include "coordinator/search/race.h"

namespace kiln::core {
namespace {

constexpr int kMaxRounds = 10;
constexpr int kMinWindow = 64;  // proposals that may be under way
constexpr size_t kRememberMax = 20'000;
constexpr int kTasksASlot = 2;         // that what is left to measure is cut into, at least
constexpr int kMinEmptyWindow = 2048;  // open empty tasks
constexpr int kMaxEmptyWindow = 32'768;

std::unique_ptr<search::Searcher> SearcherFor(const v1::SweepSpec& spec) {
  search::SearchLimits limits;
  limits.top_k = spec.top_k();
  limits.max_candidates = spec.max_candidates();
  limits.seed = spec.seed();
  const bool all = spec.objective() != v1::SweepSpec::TUNE;
  auto searcher = search::NewSearcher(all ? "exhaustive" : spec.strategy(), limits);
  KILN_CHECK(searcher.ok());
  return *std::move(searcher);
}

v1::Failure KilledTwice(const v1::KillRow& row) {
  v1::Failure failure = row.failure();
  failure.clear_killed_child();
  failure.clear_worker();
  std::string text =
      absl::StrCat("not run: this program took ", row.count(),
                   " child processes with it before (tunectl bars lists and lifts that)");
  if (row.has_failure()) {
    absl::StrAppend(&text, ", the last time so: ", row.failure().message());
  } else {
    failure.set_stage(v1::Failure::RUN);
    failure.set_witness(row.last());
  }
  failure.set_message(std::move(text));
  return failure;
}

}  // namespace

std::string SerializeDeterministic(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

void Core::Impl::MarkDirty(Sweep* sweep) {
  if (sweep->dirty) return;
  sweep->dirty = true;
  dirty_.push_back(sweep);
}

Sweep* Core::Impl::AddSweep(v1::SweepRow row, v1::SweepStatusRow status) {
  auto sweep = std::make_unique<Sweep>();
  sweep->searcher = SearcherFor(row.spec());
  sweep->row = std::move(row);
  sweep->status = std::move(status);
  sweep->started_ns = sweep->idle_since_ns = now_.mono_ns;
  SituationTimes before{};
  for (const auto& [situation, ns] : sweep->status.situation_ns()) {
    before[situation % kSituations] += ns;
    sweep->base_ns += ns;
    if ((situation & kHasCompiled) != 0) sweep->has_compiled = true;
  }
  if (sweep->base_ns == 0) sweep->base_ns = SecondsToNs(sweep->status.elapsed_seconds());
  sweep->timeline = Timeline(sweep->base_ns, before);
  for (const v1::LaneRow& lane : sweep->status.lanes()) {
    sweep->lanes.emplace(lane.device(), Lane(lane));
  }
  for (int64_t& lease : sweep->last_lease_ns) lease = now_.mono_ns;
  Sweep* raw = sweep.get();
  sweeps_[raw->digest()] = std::move(sweep);
  MarkDirty(raw);
  return raw;
}

Sweep* Core::Impl::CreateSweep(const PendingSubmit& pending, Expanded& event) {
  v1::SweepRow row;
  row.set_digest(event.sweep);
  *row.mutable_spec() = pending.spec;
  *row.mutable_inputs() = std::move(event.expansion.inputs);
  *row.mutable_arch() = row.inputs().arch();
  row.mutable_arch()->set_memory_bytes(pending.arch.memory_bytes());
  row.mutable_arch()->set_power_watts(pending.arch.power_watts());
  row.mutable_arch()->set_driver(pending.arch.driver());
  row.set_kernel_digest(event.expansion.kernel_digest);
  row.set_problem_key(event.problem_key);
  row.set_spec_digest(pending.spec_digest);
  row.set_inputs_digest(event.inputs_digest);
  row.set_submitted_unix_ms(now_.wall_ms);
  row.set_legal_configs(event.expansion.legal_configs);
  for (std::string& note : event.expansion.notes) row.add_notes(std::move(note));

  v1::SweepStatusRow status;
  status.set_digest(event.sweep);
  status.set_state(v1::RUNNING);
  status.set_phase(v1::SweepStatusRow::SEARCH);
  status.set_submitted_unix_ms(now_.wall_ms);
  status.set_before_ns(now_.mono_ns - pending.asked_ns);
  if (event.stored_before) out_.batch.reset_sweeps.push_back(event.sweep);
  out_.batch.sweeps.push_back(row);
  out_.pins.push_back({event.inputs_digest, absl::StrCat("sweep:", event.sweep)});

  Sweep* sweep = AddSweep(std::move(row), std::move(status));
  sweep->status_dirty = true;
  sweep->superseded = std::move(event.superseded);
  for (size_t i = 0; i < event.expansion.candidates.size(); ++i) {
    v1::Hint& hint = event.expansion.candidates[i];
    const int ordinal = static_cast<int>(sweep->cands.size());
    if (!sweep->by_config.emplace(hint.config(), ordinal).second) continue;
    Cand cand;
    cand.row.set_ordinal(ordinal);
    cand.row.set_compile_key(event.compile_keys[i]);
    cand.row.mutable_candidate()->set_config(hint.config());
    *cand.row.mutable_candidate()->mutable_hint() = std::move(hint);
    sweep->cands.push_back(std::move(cand));
    sweep->to_store.insert(ordinal);
    if (i < event.compiled.size() && event.compiled[i].entries_size() > 0) {
      sweep->index.emplace(event.compile_keys[i], std::move(event.compiled[i]));
    }
  }
  return sweep;
}

Sweep* Core::Impl::CreateEmptySweep(const v1::SweepSpec& spec) {
  v1::SweepRow row;
  Hasher hasher;
  hasher.UpdateField("empty");
  hasher.UpdateField(absl::StrCat(next_task_++, " ", term_));
  farm_dirty_ = true;
  row.set_digest(hasher.FinishHex());
  *row.mutable_spec() = spec;
  row.set_submitted_unix_ms(now_.wall_ms);
  v1::SweepStatusRow status;
  status.set_digest(row.digest());
  status.set_state(v1::RUNNING);
  status.set_submitted_unix_ms(now_.wall_ms);
  out_.batch.sweeps.push_back(row);
  Sweep* sweep = AddSweep(std::move(row), std::move(status));
  sweep->status_dirty = true;
  return sweep;
}

void Core::Impl::SetState(Sweep* sweep, int ordinal, v1::CandidateState state) {
  v1::Candidate* candidate = sweep->cands[ordinal].row.mutable_candidate();
  --sweep->counts[candidate->state()];
  ++sweep->counts[state];
  candidate->set_state(state);
  sweep->to_publish.insert(ordinal);
  sweep->publish = true;
  if (state != v1::COMPILING && state != v1::PROFILING) sweep->to_store.insert(ordinal);
}

// Puts a candidate where it belongs, if no lease holds it.
void Core::Impl::IndexCandidate(Sweep* sweep, int ordinal) {
  Cand& cand = sweep->cands[ordinal];
  if (!cand.row.proposed() || cand.failed() || cand.twin() || cand.state() == v1::SKIPPED) return;
  const bool settled = cand.measured() || sweep->compile_only();
  if (cand.task != nullptr && cand.task->state == Task::State::kLeased) return;
  const v1::CandidateState state = !cand.compiled() ? v1::QUEUED
                                   : settled        ? v1::CANDIDATE_DONE
                                                    : v1::COMPILED;
  if (cand.state() != state) SetState(sweep, ordinal, state);
  if (cand.task != nullptr) return;
  if (state == v1::QUEUED) sweep->queued.insert(ordinal);
  if (state == v1::COMPILED) sweep->to_screen.insert(ordinal);
}

void Core::Impl::Advance(Sweep* sweep) {
  if (sweep->terminal()) return;
  if (IsEmptySweep(sweep->row.spec())) return AdvanceEmpty(sweep);
  if (sweep->row.spec().has_range()) return AdvanceRange(sweep);
  if (!CheckBudgets(sweep)) return;
  if (!PinBuild(sweep)) return;
  switch (sweep->status.phase()) {
    case v1::SweepStatusRow::RACE:
      return AdvanceRace(sweep);
    case v1::SweepStatusRow::FINALS:
      return AdvanceFinals(sweep);
    default:
      return AdvanceSearch(sweep);
  }
}

void Core::Impl::AdvanceEmpty(Sweep* sweep) {
  const int64_t total = sweep->row.spec().max_candidates();
  if (sweep->status.empty_done() >= total) {
    return Finish(sweep, v1::DONE, absl::StrCat(total, " empty tasks done"));
  }
  int capacity = 0;
  for (const auto& [name, worker] : workers_) capacity += Capacity(*worker, kEmptyPool);
  const int64_t window = std::clamp(2 * capacity, kMinEmptyWindow, kMaxEmptyWindow);
  int64_t open = static_cast<int64_t>(sweep->tasks.size());
  if (open > window * 3 / 4) return;
  for (; open < window && sweep->status.empty_issued() < total; ++open) {
    NewTask(sweep, v1::TASK_EMPTY, {}, 0);
    sweep->status.set_empty_issued(sweep->status.empty_issued() + 1);
    sweep->status_dirty = true;
  }
}

// False when the sweep has just ended.
bool Core::Impl::CheckBudgets(Sweep* sweep) {
  const v1::SweepSpec& spec = sweep->row.spec();
  const double elapsed = sweep->elapsed_seconds(now_.mono_ns);
  if (spec.deadline_seconds() > 0 && elapsed > spec.deadline_seconds()) {
    Finish(sweep, v1::FAILED,
           absl::StrCat("the deadline of ", spec.deadline_seconds(), " s has passed"));
    return false;
  }
  const double begun = sweep->status.first_lease_seconds();
  if (spec.max_seconds() > 0 && begun > 0 && elapsed - begun > spec.max_seconds() &&
      !sweep->status.budget_spent()) {
    SpendBudget(sweep);
  }
  return true;
}

// No new work: what is being measured is finished, the rest is skipped, and the best go to finals.
void Core::Impl::SpendBudget(Sweep* sweep) {
  sweep->status.set_budget_spent(true);
  sweep->status_dirty = true;
  if (sweep->status.phase() != v1::SweepStatusRow::SEARCH) return;
  std::vector<Task*> drop;
  for (const std::string& id : sweep->tasks) {
    Task* task = tasks_.at(id).get();
    const bool measuring = task->pool() == kProfilePool && task->state == Task::State::kLeased;
    if (!measuring) drop.push_back(task);
  }
  for (Task* task : drop) {
    Revoke(task, "the sweep's budget is spent");
    DropTask(task);
  }
  for (int i = 0; i < static_cast<int>(sweep->cands.size()); ++i) {
    Cand& cand = sweep->cands[i];
    if (!cand.row.proposed() || cand.task != nullptr || cand.failed() || cand.twin()) continue;
    StopCompiling(sweep, i);
    const bool done = cand.measured() || (sweep->compile_only() && cand.compiled());
    if (!done && cand.state() != v1::SKIPPED) SetState(sweep, i, v1::SKIPPED);
  }
  sweep->queued.clear();
  sweep->to_screen.clear();
}

std::string Core::Impl::Toolchain(const Sweep& sweep) {
  const v1::SweepStatusRow& status = sweep.status;
  if (status.assembler().empty()) return status.compiler_build();
  return absl::StrCat(status.compiler_build(), " / ", status.assembler());
}

std::string Core::Impl::IndexKey(const Sweep& sweep, int ordinal) {
  return absl::StrCat(sweep.cands[ordinal].row.compile_key(), "|", Toolchain(sweep));
}

void Core::Impl::Remember(const std::string& index_key, v1::CompileIndexRow::Entry entry) {
  if (!compiled_.emplace(index_key, std::move(entry)).second) return;
  compiled_order_.push_back(index_key);
  if (compiled_order_.size() <= kRememberMax) return;
  compiled_.erase(compiled_order_.front());
  compiled_order_.pop_front();
}

void Core::Impl::Forget(const std::string& index_key) {
  if (compiled_.erase(index_key) > 0) compiled_order_.remove(index_key);
}

// The toolchain that serves the device best. False while no worker can compile for it.
bool Core::Impl::FindTools(const v1::ArchRecord& arch, Tools* tools) const {
  // (somebody can also measure, code for a GPU is assembled, slots) by toolchain; the best, ties by
  // name.
  struct Service {
    bool measures = false, assembles = false;
    int slots = 0;
    auto operator<=>(const Service&) const = default;
  };
  const bool gpu = absl::StartsWith(arch.name(), "sm_");
  std::map<std::pair<std::string, std::string>, Service> found;
  for (const auto& [name, worker] : workers_) {
    if (!CanCompile(*worker, arch.name()) || worker->draining) continue;
    Service& service = found[{worker->info.compiler_build(), worker->info.assembler()}];
    service.assembles = gpu && worker->info.assembler() != kDriverAssembles;
    service.slots += worker->info.compile_slots();
    for (const auto& [other_name, other] : workers_) {
      service.measures |=
          other->info.compiler_build() == worker->info.compiler_build() && CanProfile(*other, arch);
    }
  }
  const std::pair<const std::pair<std::string, std::string>, Service>* best = nullptr;
  for (const auto& entry : found) {
    if (best == nullptr || entry.second > best->second) best = &entry;
  }
  if (best == nullptr) return false;
  *tools = {best->first.first, best->first.second};
  return true;
}

// Pins the sweep to the build that serves it best. False while no worker can compile for it.
bool Core::Impl::PinBuild(Sweep* sweep) {
  if (!sweep->status.compiler_build().empty()) return true;
  Tools tools;
  if (!FindTools(sweep->row.arch(), &tools)) return false;
  sweep->status.set_compiler_build(tools.compiler_build);
  sweep->status.set_assembler(tools.assembler);
  sweep->status_dirty = true;
  return true;
}

// A sweep whose build has left the farm while another one is there starts over with that one, after
// a wait: results of two builds never meet in one sweep.
void Core::Impl::CheckBuildGone(Sweep* sweep) {
  if (sweep->status.compiler_build().empty() || sweep->terminal()) return;
  bool here = false;
  bool other = false;
  for (const auto& [name, worker] : workers_) {
    if (!CanCompile(*worker, sweep->row.arch().name())) continue;
    (worker->info.compiler_build() == sweep->status.compiler_build() ? here : other) = true;
  }
  if (here || !other) {
    sweep->build_missing_ns = 0;
  } else if (sweep->build_missing_ns == 0) {
    sweep->build_missing_ns = now_.mono_ns;
  } else if (now_.mono_ns - sweep->build_missing_ns > SecondsToNs(options_.build_wait_seconds)) {
    StartOver(sweep);
  }
}

void Core::Impl::StartOver(Sweep* sweep) {
  const std::vector<std::string> ids(sweep->tasks.begin(), sweep->tasks.end());
  for (const std::string& id : ids) {
    Task* task = tasks_.at(id).get();
    Revoke(task, "the sweep starts over with another compiler build");
    DropTask(task);
  }
  for (int i = 0; i < static_cast<int>(sweep->cands.size()); ++i) {
    Cand& cand = sweep->cands[i];
    if (!cand.row.proposed()) continue;
    StopCompiling(sweep, i);
    v1::Candidate clean;
    clean.set_config(cand.config());
    *clean.mutable_hint() = cand.row.candidate().hint();
    clean.set_state(cand.state());
    *cand.row.mutable_candidate() = std::move(clean);
    cand.row.set_proposed(false);
    cand.row.set_screened_round(0);
    cand.row.set_out_raced(false);
    cand.alone = false;
    cand.proofs = {};
    SetState(sweep, i, v1::CANDIDATE_STATE_UNSPECIFIED);
  }
  sweep->finale.reset();
  sweep->queued.clear();
  sweep->to_screen.clear();
  sweep->by_binary.clear();
  sweep->index.clear();
  sweep->proposals = 0;
  sweep->best_ns = 0;
  sweep->best_config.clear();
  sweep->build_missing_ns = 0;
  sweep->status.set_phase(v1::SweepStatusRow::SEARCH);
  sweep->status.set_round(0);
  sweep->status.set_message(absl::StrCat("started over: compiler build ",
                                         sweep->status.compiler_build(), " has left the farm"));
  sweep->status.clear_compiler_build();
  sweep->status.clear_assembler();
  sweep->status_dirty = true;
  MarkDirty(sweep);
}

std::vector<search::Point> Core::Impl::Points(const Sweep& sweep) const {
  std::vector<search::Point> points;
  points.reserve(sweep.cands.size());
  for (const Cand& cand : sweep.cands) {
    search::Point point;
    point.config = cand.config();
    point.predicted_ns = cand.row.candidate().hint().predicted_ns();
    const Cand* shown = &cand;
    if (cand.twin()) {
      shown = &sweep.cands[sweep.by_config.at(cand.row.candidate().same_binary_as())];
    }
    if (!cand.row.proposed()) {
      point.state = search::Point::State::kUntried;
    } else if (cand.failed() || shown->failed()) {
      point.state = search::Point::State::kFailed;
    } else if (shown->measured()) {
      point.state = search::Point::State::kMeasured;
      point.time_ns = shown->median_ns();
    } else {
      point.state = search::Point::State::kPending;
    }
    points.push_back(std::move(point));
  }
  return points;
}

void Core::Impl::Propose(Sweep* sweep) {
  if (sweep->status.budget_spent()) return;
  const auto& counts = sweep->counts;
  const int pending =
      counts[v1::QUEUED] + counts[v1::COMPILING] + counts[v1::COMPILED] + counts[v1::PROFILING];
  const int window = std::max(
      {kMinWindow, sweep->row.spec().top_k(), 2 * options_.compile_batch * Slots(kCompilePool)});
  if (pending > window / 2) return;
  for (int ordinal : sweep->searcher->Next(Points(*sweep), window - pending)) {
    Cand& cand = sweep->cands[ordinal];
    cand.row.set_proposed(true);
    cand.row.set_proposal(sweep->proposals++);
    SetState(sweep, ordinal, v1::QUEUED);
    sweep->queued.insert(ordinal);
  }
}

void Core::Impl::AdvanceSearch(Sweep* sweep) {
  for (;;) {
    Propose(sweep);
    MakeCompileTasks(sweep);
    MakeScreenTasks(sweep);
    const auto& counts = sweep->counts;
    if (counts[v1::QUEUED] + counts[v1::COMPILING] + counts[v1::COMPILED] + counts[v1::PROFILING] >
        0) {
      return;
    }
    // Nothing is under way. If the searcher has no further wish either, this part is over.
    if (sweep->status.budget_spent()) break;
    if (sweep->searcher->Next(Points(*sweep), 1).empty()) break;
  }
  if (!sweep->compile_only()) return StartRound(sweep);
  const int compiled = sweep->counts[v1::CANDIDATE_DONE];
  const std::string message = absl::StrCat(
      compiled, " compiled, ", sweep->counts[v1::CANDIDATE_FAILED], " failed",
      sweep->status.budget_spent()
          ? absl::StrCat(", ", sweep->counts[v1::SKIPPED], " skipped: the time budget is spent")
          : "");
  Finish(sweep, compiled > 0 ? v1::DONE : v1::FAILED, message);
}

// Takes a compile result that is known already, or leaves the candidate to whoever compiles the
// same at this moment. True when the candidate needs no task now.
bool Core::Impl::ReuseCompiled(Sweep* sweep, int ordinal) {
  Cand& cand = sweep->cands[ordinal];
  const std::string key = IndexKey(*sweep, ordinal);
  auto killed = kills_.find(key);
  if (killed != kills_.end() && Barred(killed->second)) {
    Fail(sweep, ordinal, KilledTwice(killed->second));
    return true;
  }
  const v1::CompileIndexRow::Entry* entry = nullptr;
  auto recent = compiled_.find(key);
  if (recent != compiled_.end()) entry = &recent->second;
  auto stored = sweep->index.find(cand.row.compile_key());
  if (entry == nullptr && stored != sweep->index.end()) {
    for (const auto& e : stored->second.entries()) {
      if (e.compiler_build() == Toolchain(*sweep)) entry = &e;
    }
  }
  if (entry != nullptr) {
    Observe(Observation::Kind::kCompileReused, "");
    const v1::CompileIndexRow::Entry known = *entry;
    if (known.has_failure()) {
      Fail(sweep, ordinal, known.failure());
    } else {
      TakeArtifact(sweep, ordinal, known.artifact());
    }
    return true;
  }
  auto [it, mine] = compiling_.try_emplace(key, Compiling{sweep->digest(), ordinal});
  if (mine || (it->second.sweep == sweep->digest() && it->second.ordinal == ordinal)) return false;
  sweep->waits_for_peer = true;
  return true;
}

// The candidate is no longer being compiled; others may wait for what came of it.
void Core::Impl::StopCompiling(Sweep* sweep, int ordinal) {
  auto it = compiling_.find(IndexKey(*sweep, ordinal));
  if (it == compiling_.end() || it->second.sweep != sweep->digest() ||
      it->second.ordinal != ordinal) {
    return;
  }
  compiling_.erase(it);
  WakePeers();
}

void Core::Impl::WakePeers() {
  for (const auto& [digest, sweep] : sweeps_) {
    if (!sweep->waits_for_peer) continue;
    sweep->waits_for_peer = false;
    MarkDirty(sweep.get());
  }
}

void Core::Impl::MakeCompileTasks(Sweep* sweep) {
  std::deque<int> todo;
  const std::vector<int> queued(sweep->queued.begin(), sweep->queued.end());
  for (int ordinal : queued) {
    if (!ReuseCompiled(sweep, ordinal)) todo.push_back(ordinal);
  }
  MakeTasks(sweep, v1::TASK_COMPILE, {std::move(todo)}, options_.compile_batch, 0);
}

// How many of `left` candidates go into the next task. Where several devices measure, tasks become
// smaller towards the end, so that none has a long one left when the others are done. (A worker's
// compilers share their tasks.)
int Core::Impl::TaskSize(Pool pool, size_t left, int batch) const {
  const int slots = Slots(pool);
  const int parts = pool == kProfilePool && slots > 1 ? kTasksASlot * slots : slots;
  return std::clamp((static_cast<int>(left) + parts - 1) / parts, 1, batch);
}

// Screens are cut from what is compiled only when a slot is about to want one, so that they are
// large when compilers are ahead and immediate when they are not.
void Core::Impl::MakeScreenTasks(Sweep* sweep) {
  const int slots = Slots(kProfilePool);
  while (!sweep->to_screen.empty() && sweep->ready_count[kProfilePool] < slots) {
    const int batch = TaskSize(kProfilePool, sweep->to_screen.size(), options_.screen_batch);
    std::vector<int> ordinals;
    for (int ordinal : sweep->to_screen) {
      if (sweep->cands[ordinal].alone && !ordinals.empty()) continue;
      ordinals.push_back(ordinal);
      if (static_cast<int>(ordinals.size()) == batch || sweep->cands[ordinal].alone) break;
    }
    NewTask(sweep, v1::TASK_SCREEN, ordinals, options_.screen_samples);
  }
}

// Of one lot each, always of the one that has most left, so that the tasks of all lots end
// together. Candidates that took a child with them are alone in their task, so that the next loss
// has one suspect.
void Core::Impl::MakeTasks(Sweep* sweep, v1::TaskKind kind, std::vector<std::deque<int>> lots,
                           int batch, int samples) {
  const Pool pool = PoolOf(kind);
  size_t left = 0;
  for (const std::deque<int>& lot : lots) left += lot.size();
  int size = TaskSize(pool, left, batch);
  while (left > 0) {
    std::deque<int>& lot = *std::max_element(
        lots.begin(), lots.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    std::vector<int> group;
    while (!lot.empty() && static_cast<int>(group.size()) < size) {
      const bool alone = sweep->cands[lot.front()].alone;
      if (alone && !group.empty()) break;
      group.push_back(lot.front());
      lot.pop_front();
      if (alone) break;
    }
    left -= group.size();
    NewTask(sweep, kind, group, samples);
    if (pool == kProfilePool) size = TaskSize(pool, left, batch);
  }
}

void Core::Impl::TakeArtifact(Sweep* sweep, int ordinal, const v1::Artifact& artifact) {
  Cand& cand = sweep->cands[ordinal];
  *cand.row.mutable_candidate()->mutable_artifact() = artifact;
  sweep->queued.erase(ordinal);
  sweep->has_compiled = true;
  out_.pins.push_back({artifact.digest(), absl::StrCat("sweep:", sweep->digest())});
  const std::string& binary = artifact.binary_digest();
  auto killed = kills_.find(binary);
  if (!sweep->compile_only() && killed != kills_.end() && Barred(killed->second)) {
    return Fail(sweep, ordinal, KilledTwice(killed->second));
  }
  if (sweep->compile_only()) return SetState(sweep, ordinal, v1::CANDIDATE_DONE);
  if (!binary.empty()) {
    auto [it, first] = sweep->by_binary.try_emplace(binary, ordinal);
    const Cand& other = sweep->cands[it->second];
    if (!first && it->second != ordinal) {
      Observe(Observation::Kind::kEqualBinary, "");
      cand.row.mutable_candidate()->set_same_binary_as(other.config());
      if (other.failed()) return Fail(sweep, ordinal, other.row.candidate().failure());
      return SetState(sweep, ordinal, v1::SKIPPED);
    }
  }
  SetState(sweep, ordinal, cand.measured() ? v1::CANDIDATE_DONE : v1::COMPILED);
  if (!cand.measured() && cand.task == nullptr) sweep->to_screen.insert(ordinal);
}

void Core::Impl::Fail(Sweep* sweep, int ordinal, v1::Failure failure) {
  Cand& cand = sweep->cands[ordinal];
  Observe(Observation::Kind::kCandidateFailed, v1::Failure::Stage_Name(failure.stage()));
  StopCompiling(sweep, ordinal);
  sweep->queued.erase(ordinal);
  sweep->to_screen.erase(ordinal);
  *cand.row.mutable_candidate()->mutable_failure() = std::move(failure);
  SetState(sweep, ordinal, v1::CANDIDATE_FAILED);
  if (!cand.twin()) SettleTwins(sweep, ordinal);
}

// Equal binaries share their fate.
void Core::Impl::SettleTwins(Sweep* sweep, int failed) {
  const Cand& first = sweep->cands[failed];
  if (!first.compiled()) return;
  for (int i = 0; i < static_cast<int>(sweep->cands.size()); ++i) {
    Cand& cand = sweep->cands[i];
    if (cand.failed() || cand.row.candidate().same_binary_as() != first.config()) continue;
    *cand.row.mutable_candidate()->mutable_failure() = first.row.candidate().failure();
    SetState(sweep, i, v1::CANDIDATE_FAILED);
  }
}

// Those that are still in the race.
std::vector<int> Core::Impl::Survivors(const Sweep& sweep) const {
  std::vector<int> in;
  for (int i = 0; i < static_cast<int>(sweep.cands.size()); ++i) {
    const Cand& cand = sweep.cands[i];
    if (cand.measured() && !cand.failed() && !cand.row.out_raced()) in.push_back(i);
  }
  return in;
}

void Core::Impl::StartRound(Sweep* sweep) {
  std::vector<int> in = Survivors(*sweep);
  if (in.empty()) {
    // Everybody who was still in has failed: those who were too slow come back.
    for (int i = 0; i < static_cast<int>(sweep->cands.size()); ++i) {
      Cand& cand = sweep->cands[i];
      if (!cand.row.out_raced() || cand.failed()) continue;
      cand.row.set_out_raced(false);
      SetState(sweep, i, v1::CANDIDATE_DONE);
      in.push_back(i);
    }
  }
  if (in.empty()) {
    return Finish(sweep, v1::FAILED, FailureText(*sweep));
  }
  std::vector<search::Lap> laps;
  for (int ordinal : in) {
    const Cand& cand = sweep->cands[ordinal];
    laps.push_back({ordinal, cand.median_ns(), cand.samples()});
  }
  const bool last = sweep->status.budget_spent() || sweep->status.round() >= kMaxRounds;
  search::RacePlan plan = search::PlanRound(last ? kMaxRounds : sweep->status.round(), laps,
                                            options_.screen_samples, options_.max_finalists);
  if (sweep->compares()) plan = {.finals = true, .survivors = in};
  const std::set<int> keep(plan.survivors.begin(), plan.survivors.end());
  for (int ordinal : in) {
    if (keep.count(ordinal) > 0) continue;
    sweep->cands[ordinal].row.set_out_raced(true);
    SetState(sweep, ordinal, v1::SKIPPED);
  }
  sweep->status_dirty = true;
  if (plan.finals) {
    sweep->status.set_phase(v1::SweepStatusRow::FINALS);
    return AdvanceFinals(sweep);
  }
  sweep->status.set_phase(v1::SweepStatusRow::RACE);
  sweep->status.set_round(plan.round);
  AdvanceRace(sweep);
}

std::string Core::Impl::FailureText(const Sweep& sweep) {
  if (sweep.status.budget_spent() && sweep.counts[v1::CANDIDATE_FAILED] == 0) {
    return "the time budget was spent before any candidate was measured";
  }
  for (const Cand& cand : sweep.cands) {
    if (!cand.failed()) continue;
    return absl::StrCat("no candidate is left of ", sweep.proposals, "; the first failed in ",
                        v1::Failure::Stage_Name(cand.row.candidate().failure().stage()), ": ",
                        cand.row.candidate().failure().message());
  }
  return "no candidate could be measured";
}

void Core::Impl::AdvanceRace(Sweep* sweep) {
  MakeCompileTasks(sweep);
  std::map<std::string, std::deque<int>> todo;  // by the device that measured them last
  bool waiting = false;
  for (int ordinal : Survivors(*sweep)) {
    const Cand& cand = sweep->cands[ordinal];
    if (cand.row.screened_round() > sweep->status.round()) continue;
    waiting = true;
    if (cand.compiled() && cand.task == nullptr) todo[cand.last_device()].push_back(ordinal);
  }
  if (!waiting) return StartRound(sweep);
  std::vector<std::deque<int>> lots;
  for (auto& [device, ordinals] : todo) lots.push_back(std::move(ordinals));
  const int samples = options_.screen_samples << std::min(3, sweep->status.round());
  MakeTasks(sweep, v1::TASK_RACE, std::move(lots), options_.screen_batch, samples);
}

void Core::Impl::AdvanceFinals(Sweep* sweep) {
  if (sweep->finale) return DecideWinner(sweep);
  MakeCompileTasks(sweep);
  const std::vector<int> in = Survivors(*sweep);
  if (in.empty()) return StartRound(sweep);
  for (int ordinal : in) {
    if (!sweep->cands[ordinal].compiled() || sweep->cands[ordinal].task != nullptr) return;
  }
  NewTask(sweep, v1::TASK_FINALS, in, sweep->row.spec().measurement().max_samples());
  CompileForProofsAhead(sweep, in);
}

void Core::Impl::Finish(Sweep* sweep, v1::SweepState state, const std::string& message) {
  CloseLanes(sweep);
  const std::vector<std::string> ids(sweep->tasks.begin(), sweep->tasks.end());
  for (const std::string& id : ids) {
    Task* task = tasks_.at(id).get();
    Revoke(task, "the sweep has ended");
    DropTask(task);
  }
  for (int i = 0; i < static_cast<int>(sweep->cands.size()); ++i) {
    const v1::CandidateState now = sweep->cands[i].state();
    StopCompiling(sweep, i);
    const bool open =
        now == v1::QUEUED || now == v1::COMPILING || now == v1::COMPILED || now == v1::PROFILING;
    if (open) SetState(sweep, i, v1::SKIPPED);
  }
  if (sweep->idle_since_ns != 0) {
    (*sweep->status.mutable_seconds())["idle"] += NsToSeconds(now_.mono_ns - sweep->idle_since_ns);
    sweep->idle_since_ns = 0;
  }
  sweep->status.set_state(state);
  sweep->status.set_message(message);
  sweep->status.set_finished_unix_ms(now_.wall_ms);
  sweep->status_dirty = sweep->publish = true;
  out_.unpins.push_back({"", absl::StrCat("sweep:", sweep->digest())});
  Observe(Observation::Kind::kSweepDone, v1::SweepState_Name(state),
          sweep->elapsed_seconds(now_.mono_ns));
  MarkDirty(sweep);
  TellRanges(sweep);
}

}  // namespace kiln::core

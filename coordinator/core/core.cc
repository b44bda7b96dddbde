#include "coordinator/core/core.h"

#include <algorithm>
#include <utility>

#include "compiler/base/status.h"
#include "coordinator/core/core_impl.h"

namespace kiln::core {

// Rebuilds memory from rows. Open tasks are held back: a worker may still run them, and will say so
// when it attaches again.
Core::Impl::Impl(const Options& options, uint64_t term, store::FarmState state, Time now)
    : options_(options), term_(term), now_(now), misses_(options_, std::move(state.miss_counts)) {
  next_task_ = std::max<uint64_t>(1, state.farm.next_task());
  for (v1::KillRow& row : state.kills) kills_[row.key()] = std::move(row);
  known_archs_ = std::move(state.archs);
  for (const v1::WorkerRow& row : state.workers) expected_workers_.insert(row.name());
  bool held = false;
  for (store::SweepRecord& record : state.active) {
    Sweep* sweep = AddSweep(std::move(record.row), std::move(record.status));
    for (v1::CandidateRow& row : record.candidates) RestoreCandidate(sweep, std::move(row));
    for (v1::TaskRow& row : record.tasks) {
      RestoreTask(sweep, std::move(row));
      held = true;
    }
    for (int i = 0; i < static_cast<int>(sweep->cands.size()); ++i) IndexCandidate(sweep, i);
    sweep->to_store.clear();
    sweep->to_publish.clear();
    out_.pins.push_back({sweep->row.inputs_digest(), "sweep:" + sweep->digest()});
  }
  ReattachRanges();
  if (expected_workers_.empty()) {
    if (held) ReleaseHeld();
  } else {
    held_until_ns_ = now.mono_ns + SecondsToNs(options_.reattach_seconds);
  }
}

void Core::Impl::RestoreCandidate(Sweep* sweep, v1::CandidateRow row) {
  const int ordinal = static_cast<int>(sweep->cands.size());
  KILN_CHECK(row.ordinal() == ordinal);
  Cand cand;
  cand.row = std::move(row);
  v1::Candidate* candidate = cand.row.mutable_candidate();
  sweep->by_config[candidate->config()] = ordinal;
  ++sweep->counts[candidate->state()];
  if (cand.row.proposed()) sweep->proposals = std::max(sweep->proposals, cand.row.proposal() + 1);
  const std::string& binary = candidate->artifact().binary_digest();
  if (cand.compiled() && !cand.twin() && !binary.empty()) sweep->by_binary.emplace(binary, ordinal);
  sweep->has_compiled |= cand.compiled();
  if (cand.compiled()) {
    out_.pins.push_back({candidate->artifact().digest(), "sweep:" + sweep->digest()});
  }
  for (const v1::Measurement& m : candidate->measurements()) {
    if (sweep->best_ns != 0 && m.median_ns() >= sweep->best_ns) continue;
    sweep->best_ns = m.median_ns();
    sweep->best_config = candidate->config();
  }
  sweep->cands.push_back(std::move(cand));
}

void Core::Impl::RestoreTask(Sweep* sweep, v1::TaskRow row) {
  if (IsProof(row.kind())) {  // what it was for went with the last incarnation
    out_.batch.deleted_tasks.push_back({sweep->digest(), row.id()});
    return;
  }
  auto task = std::make_unique<Task>();
  task->row = std::move(row);
  task->sweep = sweep;
  task->state = Task::State::kHeld;
  task->row_stored_before = true;
  for (int ordinal : task->row.ordinals()) {
    sweep->cands[ordinal].task = task.get();
    if (task->row.kind() == v1::TASK_COMPILE) {
      compiling_[IndexKey(*sweep, ordinal)] = {sweep->digest(), ordinal};
    }
  }
  sweep->tasks.insert(task->row.id());
  ++sweep->open[task->pool()];
  tasks_.emplace(task->row.id(), std::move(task));
}

void Core::Impl::Handle(Event event, Time now) {
  now_ = now;
  std::visit([this](auto& e) { On(e); }, event);
}

Effects Core::Impl::EndTurn(Time now) {
  now_ = now;
  std::vector<Sweep*> touched;
  while (!dirty_.empty()) {
    std::vector<Sweep*> batch;
    batch.swap(dirty_);
    for (Sweep* sweep : batch) {
      sweep->dirty = false;
      Advance(sweep);
      touched.push_back(sweep);
    }
  }
  Schedule();
  NoteSituations();
  misses_.FlushIfDue(now, &out_.batch);
  for (const auto& [digest, sweep] : sweeps_) FlushSweep(sweep.get());
  for (Sweep* sweep : touched) {
    auto it = sweeps_.find(sweep->digest());
    if (it != sweeps_.end() && it->second->terminal()) gone_.push_back(it->first);
  }
  for (const std::string& digest : gone_) sweeps_.erase(digest);
  gone_.clear();
  if (farm_dirty_) {
    out_.batch.farm.emplace().set_next_task(next_task_);
    farm_dirty_ = false;
  }
  lease_message_.clear();
  ack_message_.clear();
  revoke_message_.clear();
  return std::exchange(out_, Effects());
}

CoreStats Core::Impl::Stats() const {
  CoreStats stats = stats_;
  stats.active_sweeps = static_cast<int64_t>(sweeps_.size());
  stats.misses = misses_.size();
  for (const auto& [name, worker] : workers_) stats.workers += worker->connection != 0;
  return stats;
}

Core::Core(const Options& options, uint64_t term, store::FarmState state, Time now)
    : impl_(std::make_unique<Impl>(options, term, std::move(state), now)) {}
Core::~Core() = default;

void Core::Handle(Event event, Time now) { impl_->Handle(std::move(event), now); }
Effects Core::EndTurn(Time now) { return impl_->EndTurn(now); }
CoreStats Core::Stats() const { return impl_->Stats(); }

}  // namespace kiln::core

// Sweeps over a range of sizes: each asks for sweeps at one size and draws from their results
// (core/range.h). All that it knows is in its status row; after a restart it asks again for what is
// missing, and joins what still runs.
#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/core_impl.h"
#include "coordinator/core/identity.h"
#include "coordinator/core/range.h"
#include "proto/dispatch.h"

namespace kiln::core {
namespace {

constexpr int kProofs = 3;  // times that a size is measured at which the object seems to be slower
constexpr int kMends = 3;   // times that the steps are set anew for it

RangeStep StepOf(v1::SweepStatusRow::Phase phase) {
  return phase == v1::SweepStatusRow::PROVE             ? RangeStep::kProve
         : phase == v1::SweepStatusRow::COMPARE_WINNERS ? RangeStep::kCompare
                                                        : RangeStep::kTune;
}

bool Known(const v1::RangePoint& point, RangeStep step) {
  if (point.refused()) return true;
  switch (step) {
    case RangeStep::kTune:
      return !point.tuned() || !point.winner().empty() || !point.failure().empty();
    case RangeStep::kCompare:
      return !point.times().empty();
    case RangeStep::kProve:
      return point.dispatched_ns() > 0;
  }
  return true;
}

std::string AtText(const v1::ShapeRange& range, int64_t size) {
  return absl::StrCat("at ", range.name(), "=", size);
}

// The candidate that was measured for a config; null: it failed.
const Cand* MeasuredFor(const Sweep& sweep, const std::string& config) {
  auto found = sweep.by_config.find(config);
  if (found == sweep.by_config.end()) return nullptr;
  const Cand* cand = &sweep.cands[found->second];
  if (cand->twin()) cand = &sweep.cands[sweep.by_config.at(cand->row.candidate().same_binary_as())];
  const bool timed = !cand->failed() && !cand->row.candidate().measurements().empty() &&
                     cand->row.candidate().measurements().rbegin()->round() == "finals";
  return timed ? cand : nullptr;
}

std::string WhyNot(const Sweep& sweep, const std::string& config) {
  auto found = sweep.by_config.find(config);
  if (found == sweep.by_config.end()) return "it was not tried";
  const v1::Failure& failure = sweep.cands[found->second].row.candidate().failure();
  if (failure.message().empty()) return sweep.status.message();
  return absl::StrCat(v1::Failure::Stage_Name(failure.stage()), ": ", failure.message());
}

}  // namespace

Sweep* Core::Impl::CreateRangeSweep(const PendingSubmit& pending, Expanded& event) {
  event.expansion.candidates.clear();
  Sweep* sweep = CreateSweep(pending, event);
  sweep->status.set_phase(v1::SweepStatusRow::TUNE_POINTS);
  *sweep->status.mutable_range() = EmptyTable(sweep->row.spec().range());
  return sweep;
}

// After a restart: what still runs for a range may end before the range could ask for it again.
void Core::Impl::ReattachRanges() {
  for (const auto& [digest, sweep] : sweeps_) {
    Sweep* range = sweep->row.parent().empty() ? nullptr : FindSweep(sweep->row.parent());
    if (range == nullptr) continue;
    const v1::SweepSpec& spec = sweep->row.spec();
    const RangeStep step = spec.has_dispatch() ? RangeStep::kProve
                           : sweep->compares() ? RangeStep::kCompare
                                               : RangeStep::kTune;
    const auto found = spec.runtime_values().find(range->row.spec().range().name());
    int64_t size = 0;
    if (step != StepOf(range->status.phase()) || found == spec.runtime_values().end() ||
        !absl::SimpleAtoi(found->second, &size)) {
      continue;
    }
    range->asked.insert(size);
    range->at_size[digest] = size;
  }
}

void Core::Impl::AdvanceRange(Sweep* sweep) {
  const double deadline = sweep->row.spec().deadline_seconds();
  if (deadline > 0 && sweep->elapsed_seconds(now_.mono_ns) > deadline) {
    return Finish(sweep, v1::FAILED, absl::StrCat("the deadline of ", deadline, " s has passed"));
  }
  const RangeStep step = StepOf(sweep->status.phase());
  bool all = true;
  for (const v1::RangePoint& point : sweep->status.range().points()) {
    if (Known(point, step)) continue;
    all = false;
    if (sweep->asked.count(point.size()) == 0) AskForSize(sweep, step, point.size());
  }
  if (!all) return;
  sweep->status_dirty = sweep->publish = true;
  switch (step) {
    case RangeStep::kTune:
      return EndTuning(sweep);
    case RangeStep::kCompare:
      return EndComparison(sweep);
    case RangeStep::kProve:
      return EndProof(sweep);
  }
}

void Core::Impl::AskForSize(Sweep* sweep, RangeStep step, int64_t size) {
  sweep->asked.insert(size);
  PendingSubmit pending;
  pending.asked_ns = now_.mono_ns;
  pending.spec = SpecAt(sweep->row, sweep->status.range(), step, size);
  pending.spec_digest = SpecDigest(pending.spec);
  pending.arch = sweep->row.arch();
  pending.range = sweep->digest();
  pending.step = step;
  pending.size = size;
  StartExpansion(std::move(pending));
}

// The expansion of a sweep at one size is there: a stored winner answers it, it runs already, or it
// starts now.
void Core::Impl::StartAtSize(const PendingSubmit& pending, Expanded& event) {
  Sweep* range = FindSweep(pending.range);
  if (range == nullptr || range->terminal() || StepOf(range->status.phase()) != pending.step) {
    return;
  }
  if (!event.status.ok()) {
    if (absl::IsUnavailable(event.status)) {  // asked again at the next tick
      range->asked.erase(pending.size);
      return;
    }
    const std::string text(event.status.message());
    const std::string why = text.substr(0, text.find('\n'));
    const v1::ShapeRange& given = range->row.spec().range();
    const bool end = pending.size == given.low() || pending.size == given.high();
    if (pending.step == RangeStep::kTune && absl::IsInvalidArgument(event.status)) {
      return NoteFailure(range, pending.size, why);
    }
    if (pending.step == RangeStep::kCompare && absl::IsInvalidArgument(event.status)) {
      // A list of configs is taken as it is, so that it is the size which the kernel does not take.
      if (!end) return NoteRefusal(range, pending.size, why);
      return Finish(range, v1::FAILED,
                    absl::StrCat("the kernel does not take ", given.name(), "=", pending.size,
                                 ", an end of the range: ", why,
                                 ". Give ends that it takes; sizes between may be refused"));
    }
    return Finish(range, v1::FAILED,
                  absl::StrCat(AtText(range->row.spec().range(), pending.size), ": ",
                               event.status.message()));
  }
  if (event.winner.has_value()) {
    return NoteWinner(range, pending.size, event.winner->config(), event.winner->sweep_digest());
  }
  Sweep* sweep = FindSweep(event.sweep);
  if (sweep != nullptr && sweep->terminal()) {  // it ended in this turn
    if (sweep->status.state() != v1::CANCELLED) return TakeAtSize(range, pending.size, *sweep);
    range->asked.erase(pending.size);
    return;
  }
  if (sweep == nullptr) {
    sweep = CreateSweep(pending, event);
    sweep->row.set_parent(pending.range);
    out_.batch.sweeps.back().set_parent(pending.range);
  }
  range->at_size[sweep->digest()] = pending.size;
}

// A sweep has ended: tells the ranges that wait for it, and ends those that it had started.
void Core::Impl::TellRanges(Sweep* ended) {
  const bool cancelled = ended->status.state() == v1::CANCELLED;
  for (const auto& [digest, range] : sweeps_) {
    if (range->terminal()) continue;
    auto found = range->at_size.find(ended->digest());
    if (found == range->at_size.end()) continue;
    const int64_t size = found->second;
    range->at_size.erase(found);
    for (const auto& [stage, seconds] : ended->status.seconds()) {
      (*range->status.mutable_seconds())[stage] += seconds;
    }
    if (cancelled && ended->row.parent() != digest) {  // it was another range's: ask again
      range->asked.erase(size);
      MarkDirty(range.get());
      continue;
    }
    TakeAtSize(range.get(), size, *ended);
  }
  if (!ended->row.spec().has_range()) return;
  std::vector<Sweep*> own;
  for (const auto& [digest, sweep] : sweeps_) {
    const bool only = sweep->row.parent() == ended->digest() && !sweep->status.asked();
    if (only && !sweep->terminal()) own.push_back(sweep.get());
  }
  for (Sweep* sweep : own) Finish(sweep, v1::CANCELLED, "the sweep of its range has ended");
}

void Core::Impl::TakeAtSize(Sweep* range, int64_t size, const Sweep& ended) {
  const v1::SweepStatusRow& status = ended.status;
  switch (StepOf(range->status.phase())) {
    case RangeStep::kTune:
      if (ended.winner.has_value()) {
        return NoteWinner(range, size, ended.winner->config(), ended.digest());
      }
      return NoteFailure(range, size, status.message());
    case RangeStep::kCompare:
      return TakeComparison(range, size, ended);
    case RangeStep::kProve:
      return TakeProof(range, size, ended);
  }
}

void Core::Impl::NoteWinner(Sweep* range, int64_t size, const std::string& config,
                            const std::string& sweep) {
  v1::RangePoint* point = PointAt(range->status.mutable_range(), size);
  point->set_winner(config);
  point->set_sweep(sweep);
  range->asked.erase(size);
  range->status_dirty = range->publish = true;
  MarkDirty(range);
}

void Core::Impl::NoteFailure(Sweep* range, int64_t size, const std::string& why) {
  PointAt(range->status.mutable_range(), size)->set_failure(why.empty() ? "no winner" : why);
  range->asked.erase(size);
  range->status_dirty = range->publish = true;
  MarkDirty(range);
}

void Core::Impl::NoteRefusal(Sweep* range, int64_t size, const std::string& why) {
  Refuse(size, why, range->status.mutable_range());
  range->asked.erase(size);
  range->status_dirty = range->publish = true;
  MarkDirty(range);
}

// Configs that failed leave the comparison for good: what one object runs is right at every size
// that was looked at.
void Core::Impl::TakeComparison(Sweep* range, int64_t size, const Sweep& ended) {
  v1::RangeTable* table = range->status.mutable_range();
  range->asked.erase(size);
  range->status_dirty = range->publish = true;
  MarkDirty(range);
  const std::string at = AtText(range->row.spec().range(), size);
  if (ended.status.state() == v1::CANCELLED) {
    return Finish(range, v1::FAILED, absl::StrCat("the comparison ", at, " was cancelled"));
  }
  Samples samples;
  const std::vector<std::string> compared(table->compared().begin(), table->compared().end());
  for (const std::string& config : compared) {
    const Cand* cand = MeasuredFor(ended, config);
    if (cand == nullptr) {
      Drop(config, absl::StrCat(at, ": ", WhyNot(ended, config)), table);
      continue;
    }
    const auto& times = cand->row.candidate().measurements().rbegin()->samples_ns();
    samples[config] = {times.begin(), times.end()};
  }
  if (table->compared().empty()) {
    return Finish(range, v1::FAILED,
                  absl::StrCat("no config works at every size; the last one failed ",
                               *table->dropped().rbegin()));
  }
  NoteTimes(*table, samples, range->row.spec().seed(), PointAt(table, size));
}

void Core::Impl::TakeProof(Sweep* range, int64_t size, const Sweep& ended) {
  v1::RangeTable* table = range->status.mutable_range();
  range->asked.erase(size);
  range->status_dirty = range->publish = true;
  MarkDirty(range);
  const std::string dispatch(kDispatchConfig);
  const Cand* whole = MeasuredFor(ended, dispatch);
  const Cand* single = MeasuredFor(ended, table->single());
  const std::string at = AtText(range->row.spec().range(), size);
  if (whole == nullptr || single == nullptr) {
    return Finish(
        range, v1::FAILED,
        absl::StrCat(whole == nullptr ? "the object that dispatches" : table->single(), " failed ",
                     at, ": ", WhyNot(ended, whole == nullptr ? dispatch : table->single())));
  }
  const v1::Artifact& artifact = whole->row.candidate().artifact();
  if (range->status.artifact().digest() != artifact.digest()) {
    // Another toolchain made it, or it is the first: what was measured of others does not count.
    for (v1::RangePoint& other : *table->mutable_points()) other.clear_dispatched_ns();
    *range->status.mutable_artifact() = artifact;
    out_.pins.push_back({artifact.digest(), absl::StrCat("sweep:", range->digest())});
  }
  range->tools = {ended.status.compiler_build(), ended.status.assembler()};
  v1::RangePoint* point = PointAt(table, size);
  NoteProof(*whole->row.candidate().measurements().rbegin(),
            *single->row.candidate().measurements().rbegin(), range->row.spec().seed(), point);
  // What is slow each time is slow; what was disturbed once is not.
  if (ProvedSlower(*point) && ++range->proofs[size] < kProofs) point->clear_dispatched_ns();
}

void Core::Impl::EndTuning(Sweep* range) {
  v1::RangeTable* table = range->status.mutable_range();
  StartComparison(table);
  if (table->compared().empty()) {
    const v1::RangePoint& first = table->points(0);
    return Finish(
        range, v1::FAILED,
        absl::StrCat("no size has a winner; ", AtText(range->row.spec().range(), first.size()),
                     ": ", first.failure()));
  }
  range->status.set_phase(v1::SweepStatusRow::COMPARE_WINNERS);
  range->status.set_wave(0);
  AdvanceRange(range);
}

void Core::Impl::EndComparison(Sweep* range) {
  v1::RangeTable* table = range->status.mutable_range();
  if (Refine(table, range->status.wave()) > 0) {
    range->status.set_wave(range->status.wave() + 1);
    return AdvanceRange(range);
  }
  SetDispatch(range->row.spec().range(), table);
  range->status.set_phase(v1::SweepStatusRow::PROVE);
  AdvanceRange(range);
}

void Core::Impl::EndProof(Sweep* range) {
  if (range->mends == kMends || !Mend(range->row.spec().range(), range->status.mutable_range())) {
    return FinishRange(range);
  }
  ++range->mends;
  range->proofs.clear();
  AdvanceRange(range);
}

void Core::Impl::FinishRange(Sweep* range) {
  const v1::RangeTable& table = range->status.range();
  v1::Winner winner;
  winner.set_problem_key(range->row.problem_key());
  winner.set_sweep_digest(range->digest());
  winner.set_config(std::string(kDispatchConfig));
  *winner.mutable_artifact() = range->status.artifact();
  const v1::RangePoint& last = *table.points().rbegin();
  winner.mutable_measurement()->set_config(winner.config());
  winner.mutable_measurement()->set_median_ns(last.dispatched_ns());
  winner.mutable_measurement()->set_round("finals");
  winner.mutable_measurement()->set_numbers_checked(range->row.spec().check().reference() !=
                                                    v1::CheckPolicy::NONE);
  *winner.mutable_arch() = range->row.arch();
  *winner.mutable_range() = table;
  KeepWinner(range, std::move(winner), range->tools);
  std::vector<std::string> notes = {RefusedText(range->row.spec().range(), table),
                                    SlowerText(table)};
  std::erase(notes, "");
  Finish(range, v1::DONE, absl::StrJoin(notes, "; "));
}

}  // namespace kiln::core

// What others see of the core's state.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/core/core_impl.h"
#include "coordinator/core/text.h"

namespace kiln::core {

namespace {

std::string RoundName(const Sweep& sweep, int compiled) {
  if (sweep.terminal()) return "";
  switch (sweep.status.phase()) {
    case v1::SweepStatusRow::RACE:
      return absl::StrCat("race-", sweep.status.round());
    case v1::SweepStatusRow::FINALS:
      return "finals";
    case v1::SweepStatusRow::TUNE_POINTS:
      return "tune";
    case v1::SweepStatusRow::COMPARE_WINNERS:
      return "compare";
    case v1::SweepStatusRow::PROVE:
      return "prove";
    default:
      return compiled > 0 && !sweep.compile_only() ? "screen" : "compile";
  }
}

constexpr size_t kMaxReason = 1000;  // bytes of a worker's words

// A comparison of a range takes about as long as this many candidates of a sweep do.
constexpr double kOfAComparison = 8;
constexpr double kMostWeight = 16;

// Of the candidates that were skipped, those that nothing is known of.
int NotRun(const Sweep& sweep) {
  const auto unknown = [&](const Cand& cand) {
    const bool tried = sweep.compile_only() ? cand.compiled() : cand.measured();
    return cand.state() == v1::SKIPPED && !tried && !cand.twin();
  };
  return static_cast<int>(std::count_if(sweep.cands.begin(), sweep.cands.end(), unknown));
}

double SecondsLeft(double share, double elapsed) {
  return share > 0 ? elapsed / share * std::max(0.0, 1 - share) : -1;
}

}  // namespace

// Why nothing of a sweep runs at the moment; its own message otherwise.
std::string Core::Impl::WaitReason(const Sweep& sweep) const {
  for (const Pool pool : {kProfilePool, kCompilePool}) {
    const std::string& reason = sweep.kept_waiting[pool];
    if (!reason.empty()) return Cut(reason, kMaxReason);
  }
  if (sweep.running[0] + sweep.running[1] + sweep.running[2] > 0) return sweep.status.message();
  const std::string& arch = sweep.row.arch().name();
  if (sweep.row.spec().template_() == "empty") return sweep.status.message();
  if (sweep.row.spec().has_range()) {  // waits if one of its parts does and none runs
    std::string reason;
    for (const auto& [digest, size] : sweep.at_size) {
      auto part = sweeps_.find(digest);
      if (part == sweeps_.end()) continue;
      const auto& running = part->second->running;
      if (running[kCompilePool] + running[kProfilePool] > 0) return sweep.status.message();
      if (reason.empty()) reason = WaitReason(*part->second);
    }
    return reason.empty() ? sweep.status.message() : reason;
  }
  constexpr char kRemedy[] = "; start kiln-worker there ('tunectl workers' lists those attached)";
  if (sweep.status.compiler_build().empty()) {
    return absl::StrCat("waits for a worker that compiles for ", arch, kRemedy);
  }
  for (Pool pool : {kCompilePool, kProfilePool}) {
    if (sweep.ready_count[pool] + sweep.suspect_count[pool] == 0) continue;
    bool able = false;
    for (const auto& [name, worker] : workers_) {
      able |= Eligible(*worker, sweep, pool) && Alive(*worker);
    }
    if (able) continue;
    return absl::StrCat("waits for a worker with compiler build ", sweep.status.compiler_build(),
                        pool == kCompilePool ? " that compiles for " : " that measures on ",
                        pool == kCompilePool ? arch : sweep.row.arch().device_model(), kRemedy);
  }
  return sweep.status.message();
}

// Of the work that a range is known to need; to tune for a size is many measurements of its kind.
double Core::Impl::ShareOfRange(const Sweep& sweep) const {
  const v1::SweepSpec& spec = sweep.row.spec();
  const int candidates = spec.max_candidates() > 0 ? spec.max_candidates() : spec.top_k();
  const double weight = std::clamp(candidates / kOfAComparison, 1.0, kMostWeight);
  double tuning = 0;
  for (const auto& [digest, size] : sweep.at_size) {
    auto part = sweeps_.find(digest);
    if (part == sweeps_.end() || part->second->compares() || part->second->proposals == 0) continue;
    const auto& counts = part->second->counts;
    const int settled =
        counts[v1::CANDIDATE_DONE] + counts[v1::CANDIDATE_FAILED] + counts[v1::SKIPPED];
    tuning += static_cast<double>(settled) / part->second->proposals;
  }
  return ShareDone(sweep.status.range(), weight, tuning);
}

v1::SweepProgress Core::Impl::Progress(const Sweep& sweep) const {
  v1::SweepProgress out;
  const auto& counts = sweep.counts;
  out.set_state(sweep.status.state());
  out.set_queued(counts[v1::QUEUED]);
  out.set_compiling(counts[v1::COMPILING]);
  out.set_compiled(counts[v1::COMPILED]);
  out.set_profiling(counts[v1::PROFILING]);
  out.set_done(counts[v1::CANDIDATE_DONE]);
  out.set_failed(counts[v1::CANDIDATE_FAILED]);
  out.set_skipped(counts[v1::SKIPPED]);
  int total = sweep.proposals;
  if (sweep.row.spec().template_() == "empty") {
    total = sweep.row.spec().max_candidates();
    out.set_done(static_cast<int>(sweep.status.empty_done()));
    out.set_profiling(sweep.running[kEmptyPool]);
    out.set_queued(total - out.done() - out.profiling());
  }
  if (sweep.row.spec().has_range()) {
    int done = 0;
    CountSizes(sweep.status.range(), &done, &total);
    out.set_done(done);
    out.set_profiling(static_cast<int>(sweep.at_size.size()));
    out.set_queued(total - done - out.profiling());
  }
  out.set_total(total);
  if (sweep.terminal()) out.set_not_run(NotRun(sweep));
  out.set_best_config(sweep.best_config);
  out.set_best_ns(sweep.best_ns);
  const double elapsed = sweep.elapsed_seconds(now_.mono_ns);
  out.set_elapsed_seconds(elapsed);
  const int settled = out.done() + out.failed() + out.skipped();
  const double share = sweep.row.spec().has_range() ? ShareOfRange(sweep)
                       : total > 0                  ? static_cast<double>(settled) / total
                                                    : 0;
  out.set_estimated_seconds_left(sweep.terminal() ? 0 : SecondsLeft(share, elapsed));
  out.set_round(RoundName(sweep, out.compiled() + out.profiling() + out.done()));
  out.set_message(sweep.terminal() ? sweep.status.message() : WaitReason(sweep));
  return out;
}

v1::SweepSummary Core::Impl::Summary(const Sweep& sweep) const {
  v1::SweepSummary out;
  out.set_sweep(sweep.digest());
  out.set_name(sweep.row.spec().name());
  *out.mutable_progress() = Progress(sweep);
  out.set_target(sweep.row.arch().name());
  out.set_submitted_unix_ms(sweep.row.submitted_unix_ms());
  out.set_finished_unix_ms(sweep.status.finished_unix_ms());
  out.set_user(sweep.user());
  out.set_parent(sweep.row.parent());
  if (sweep.row.spec().has_range()) *out.mutable_range() = sweep.row.spec().range();
  return out;
}

v1::GetSweepResponse Core::Impl::Describe(const Sweep& sweep, bool with_candidates) const {
  v1::GetSweepResponse out;
  *out.mutable_summary() = Summary(sweep);
  *out.mutable_spec() = sweep.row.spec();
  *out.mutable_arch() = sweep.row.arch();
  *out.mutable_seconds() = sweep.status.seconds();
  *out.mutable_notes() = sweep.row.notes();
  out.set_legal_configs(sweep.row.legal_configs());
  if (sweep.row.spec().has_range()) *out.mutable_range() = sweep.status.range();
  if (sweep.winner.has_value()) *out.mutable_winner() = *sweep.winner;
  v1::SweepStatusRow account;
  account.set_before_ns(sweep.status.before_ns());
  FillAccount(sweep, LanesNow(sweep), &account);
  if (account.situation_ns_size() > 0) *out.mutable_time() = TimeOf(account);
  if (!with_candidates) return out;
  for (const Cand& cand : sweep.cands) {
    if (cand.row.proposed()) *out.add_candidates() = cand.row.candidate();
  }
  return out;
}

void Core::Impl::PublishSweep(Sweep* sweep) {
  if (!sweep->publish && sweep->to_publish.empty()) return;
  const bool last = sweep->terminal();
  v1::SweepEvent event;
  *event.mutable_progress() = Progress(*sweep);
  for (WatchId watch : sweep->watchers) {
    for (int ordinal : sweep->to_publish) {
      *event.mutable_changed() = sweep->cands[ordinal].row.candidate();
      out_.publishes.push_back({watch, event, absl::OkStatus(), false});
    }
    event.clear_changed();
    if (last) {
      v1::SweepEvent end = event;
      if (sweep->winner.has_value()) *end.mutable_winner() = *sweep->winner;
      out_.publishes.push_back({watch, std::move(end), absl::OkStatus(), true});
      watches_.erase(watch);
    } else if (sweep->to_publish.empty()) {
      out_.publishes.push_back({watch, event, absl::OkStatus(), false});
    }
  }
  if (last) sweep->watchers.clear();
}

// Writes and publishes what this turn changed.
void Core::Impl::FlushSweep(Sweep* sweep) {
  PublishSweep(sweep);
  for (int ordinal : sweep->to_store) {
    out_.batch.candidates.push_back({sweep->digest(), sweep->cands[ordinal].row});
  }
  if (sweep->status_dirty) {
    v1::SweepStatusRow row = sweep->status;
    row.set_elapsed_seconds(sweep->elapsed_seconds(now_.mono_ns));
    FillAccount(*sweep, sweep->lanes, &row);
    *row.mutable_progress() = Progress(*sweep);
    out_.batch.statuses.push_back(std::move(row));
  }
  sweep->to_publish.clear();
  sweep->to_store.clear();
  sweep->publish = sweep->status_dirty = false;
}

}  // namespace kiln::core

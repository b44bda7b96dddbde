// The end of the finals: the verdict, and the record of the winner.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/core/core_impl.h"
#include "coordinator/core/identity.h"
#include "coordinator/search/race.h"

namespace kiln::core {

// Of configs with the same binary the best-ranked one stands for all, however the race was run.
int Core::Impl::CanonicalTwin(const Sweep& sweep, int ordinal) const {
  const std::string& config = sweep.cands[ordinal].config();
  for (int i = 0; i < ordinal; ++i) {
    const Cand& cand = sweep.cands[i];
    if (cand.row.candidate().same_binary_as() == config && cand.compiled()) return i;
  }
  return ordinal;
}

struct Core::Impl::Choice {
  int measured = 0;  // ordinal of the finalist
  int chosen = 0;    // and of the one with the same binary that stands for it
  std::vector<std::string> ties;
  double ratio_low = 0;
  double ratio_high = 0;
};

// Among the finalists that have not failed since.
Core::Impl::Choice Core::Impl::Choose(const Sweep& sweep) const {
  std::vector<std::pair<std::string, int>> order;  // by config: the verdict must not see ranks
  for (int ordinal : sweep.finale->finalists) {
    if (sweep.cands[ordinal].failed()) continue;
    order.emplace_back(sweep.cands[CanonicalTwin(sweep, ordinal)].config(), ordinal);
  }
  std::sort(order.begin(), order.end());
  std::vector<search::Finalist> field;
  for (const auto& [config, ordinal] : order) {
    const v1::Candidate& candidate = sweep.cands[ordinal].row.candidate();
    const v1::Measurement& m = *candidate.measurements().rbegin();
    field.push_back({config,
                     {m.samples_ns().begin(), m.samples_ns().end()},
                     m.median_ns(),
                     m.mad_ns(),
                     candidate.artifact().resources()});
  }
  const search::Verdict verdict = search::Decide(field, sweep.row.spec().seed());
  Choice choice;
  choice.measured = order[verdict.winner].second;
  choice.chosen = CanonicalTwin(sweep, choice.measured);
  for (int tie : verdict.ties) choice.ties.push_back(order[tie].first);
  choice.ratio_low = verdict.ratio_low;
  choice.ratio_high = verdict.ratio_high;
  return choice;
}

// Who wins must have its proofs too; else the next one is taken, by the same samples.
void Core::Impl::DecideWinner(Sweep* sweep) {
  const std::vector<int>& finalists = sweep->finale->finalists;
  if (sweep->compares()) {
    return Finish(sweep, v1::DONE, absl::StrCat(finalists.size(), " compared"));
  }
  const bool left = std::any_of(finalists.begin(), finalists.end(),
                                [&](int ordinal) { return !sweep->cands[ordinal].failed(); });
  if (!left) {
    sweep->finale.reset();
    return StartRound(sweep);
  }
  const Choice choice = Choose(*sweep);
  if (!Prove(sweep, choice.measured)) return;
  const v1::Candidate& candidate = sweep->cands[choice.chosen].row.candidate();
  v1::Winner winner;
  winner.set_problem_key(sweep->row.problem_key());
  winner.set_sweep_digest(sweep->digest());
  winner.set_config(candidate.config());
  *winner.mutable_artifact() = candidate.artifact();
  // What the choice was made by flatters whom it chose.
  const Cand& measured = sweep->cands[choice.measured];
  const auto again = sweep->finale->fresh.find(choice.measured);
  v1::Measurement* measurement = winner.mutable_measurement();
  *measurement = again != sweep->finale->fresh.end()
                     ? again->second
                     : *measured.row.candidate().measurements().rbegin();
  for (const Proof& proof : measured.proofs) {
    if (proof.text.empty()) continue;
    absl::StrAppend(measurement->mutable_check_summary(), "; ", proof.text);
  }
  *winner.mutable_hint() = candidate.hint();
  *winner.mutable_arch() = sweep->finale->arch;
  *winner.mutable_ties() = {choice.ties.begin(), choice.ties.end()};
  winner.set_ratio_low(choice.ratio_low);
  winner.set_ratio_high(choice.ratio_high);
  winner.set_candidates_tried(sweep->proposals);
  winner.set_candidates_failed(sweep->counts[v1::CANDIDATE_FAILED]);
  SetState(sweep, choice.chosen, v1::CANDIDATE_DONE);
  KeepWinner(sweep, std::move(winner), {sweep->status.compiler_build(), sweep->status.assembler()});
  Finish(sweep, v1::DONE, sweep->status.budget_spent() ? "the time budget was spent" : "");
}

// Fills in what follows from the sweep, and stores it.
void Core::Impl::KeepWinner(Sweep* sweep, v1::Winner winner, const Tools& tools) {
  winner.set_sweep_seconds(sweep->elapsed_seconds(now_.mono_ns));
  winner.set_finished_unix_ms(now_.wall_ms);
  winner.set_kernel_digest(sweep->row.kernel_digest());
  *winner.mutable_spec() = sweep->row.spec();
  *winner.mutable_key() = MakeKey(winner.spec(), winner.arch(), tools, winner.kernel_digest());
  winner.set_winner_key(KeyDigest(winner.key()));
  sweep->status.set_winner_key(winner.winner_key());
  DropMiss(winner.problem_key(), winner.spec());
  out_.pins.push_back({winner.artifact().digest(), absl::StrCat("winner:", RowNameOf(winner))});
  out_.batch.winners.push_back(winner);
  for (const std::string& name : sweep->superseded) {
    if (name == RowNameOf(winner)) continue;
    out_.batch.deleted_winners.push_back(name);
    out_.unpins.push_back({"", absl::StrCat("winner:", name)});
  }
  sweep->best_config = winner.config();
  sweep->best_ns = winner.measurement().median_ns();
  sweep->winner = std::move(winner);
}

}  // namespace kiln::core

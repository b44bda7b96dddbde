#include "coordinator/search/race.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "compiler/base/rng.h"
#include "compiler/base/status.h"

namespace kiln::search {
namespace {

constexpr double kKeep[] = {1.5, 1.1, 1.03};  // of the best, by race rounds done
constexpr int kLastRound = 2;
constexpr int kFewEnough = 3;  // after the screen: no race needed before finals
constexpr int kResamples = 600;
constexpr int kMinPairs = 3;
constexpr double kTieRatio = 1.015;  // to the fastest: ties are handed out for the winner
// A lead that the next sweep need not see: the time of one config differs by so much from sweep to
// sweep on one GPU (tests/bench/results/gpu_winners_h200.txt), whatever each is sure of.
constexpr double kRepeatedRatio = 1.003;
constexpr double kSpreadMargin = 0.01;

double MedianOf(std::vector<double>* values) {
  const size_t middle = values->size() / 2;
  std::nth_element(values->begin(), values->begin() + middle, values->end());
  const double upper = (*values)[middle];
  if (values->size() % 2 == 1) return upper;
  return (upper + *std::max_element(values->begin(), values->begin() + middle)) / 2;
}

double SpreadOf(const Finalist& finalist) {
  return finalist.median_ns > 0 ? finalist.mad_ns / finalist.median_ns : 0;
}

std::tuple<int64_t, int64_t, int64_t, std::string> TieKey(const Finalist& finalist) {
  return {finalist.resources.spill_bytes(), finalist.resources.scratch_bytes(),
          finalist.resources.registers(), finalist.config};
}

int BreakTie(const std::vector<Finalist>& finalists, const std::vector<int>& tied) {
  double calmest = SpreadOf(finalists[tied.front()]);
  for (int i : tied) calmest = std::min(calmest, SpreadOf(finalists[i]));
  int best = -1;
  for (int i : tied) {
    if (SpreadOf(finalists[i]) > calmest + kSpreadMargin) continue;
    if (best < 0 || TieKey(finalists[i]) < TieKey(finalists[best])) best = i;
  }
  return best;
}

// Who ran to the end, or nearly. The others were stopped, clearly behind the best of that moment:
// few samples, which neither win nor tie.
std::vector<int> Finishers(const std::vector<Finalist>& finalists) {
  size_t most = 0;
  for (const Finalist& finalist : finalists) most = std::max(most, finalist.samples_ns.size());
  std::vector<int> finishers;
  for (int i = 0; i < static_cast<int>(finalists.size()); ++i) {
    if (finalists[i].samples_ns.size() * 2 >= most) finishers.push_back(i);
  }
  return finishers;
}

// By the rounds that all of them ran: who was stopped late must not win by a clock that fell after.
int Fastest(const std::vector<Finalist>& finalists, const std::vector<int>& among) {
  size_t rounds = SIZE_MAX;
  for (const int i : among) rounds = std::min(rounds, finalists[i].samples_ns.size());
  std::tuple<double, std::string, int> best = {INFINITY, "", among.front()};
  for (const int i : among) {
    const Finalist& f = finalists[i];
    std::vector<double> shared(f.samples_ns.begin(), f.samples_ns.begin() + rounds);
    const double ns = shared.empty() ? f.median_ns : MedianOf(&shared);
    best = std::min(best, {ns, f.config, i});
  }
  return std::get<2>(best);
}

// On a machine with other work the medians may say the opposite of the pairs: the pairs count.
int FastestByPairs(const std::vector<Finalist>& finalists, const std::vector<int>& among,
                   uint64_t seed) {
  int fastest = Fastest(finalists, among);
  for (const int i : among) {
    if (i == fastest) continue;
    const Interval ratio =
        PairedRatio(finalists[i].samples_ns, finalists[fastest].samples_ns, seed + i);
    if (ratio.high < 1) fastest = i;
  }
  return fastest;
}

}  // namespace

RacePlan PlanRound(int rounds_done, const std::vector<Lap>& laps, int screen_samples,
                   int max_finalists) {
  RacePlan plan;
  std::vector<Lap> sorted = laps;
  std::sort(sorted.begin(), sorted.end(), [](const Lap& a, const Lap& b) {
    return std::tie(a.median_ns, a.candidate) < std::tie(b.median_ns, b.candidate);
  });
  const auto cut = [&] {
    const double limit =
        sorted.empty() ? 0 : kKeep[std::min(rounds_done, kLastRound)] * sorted.front().median_ns;
    std::erase_if(sorted, [&](const Lap& lap) { return lap.median_ns > limit; });
  };
  const auto few = [&] {
    return static_cast<int>(sorted.size()) <= (rounds_done == 0 ? kFewEnough : max_finalists);
  };
  const auto known = [&] {
    return std::all_of(sorted.begin(), sorted.end(), [&](const Lap& lap) {
      return lap.samples >= screen_samples << (rounds_done + 1);
    });
  };
  cut();
  while (!few() && rounds_done + 1 < kLastRound && known()) {
    ++rounds_done;
    cut();
  }
  for (const Lap& lap : sorted) plan.survivors.push_back(lap.candidate);
  plan.finals = rounds_done >= kLastRound || few();
  if (plan.finals) {
    plan.survivors.resize(std::min<size_t>(sorted.size(), max_finalists));
  } else {
    plan.round = rounds_done + 1;
    plan.samples = screen_samples << plan.round;
  }
  return plan;
}

Interval PairedRatio(const std::vector<double>& slow, const std::vector<double>& fast,
                     uint64_t seed) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(slow.size(), fast.size()); ++i) {
    if (fast[i] > 0) ratios.push_back(slow[i] / fast[i]);
  }
  if (ratios.empty()) return {};
  if (static_cast<int>(ratios.size()) < kMinPairs) {
    const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
    return {std::min(1.0, *low), std::max(1.0, *high), MedianOf(&ratios)};
  }
  Rng rng(seed);
  std::vector<double> medians;
  std::vector<double> sample(ratios.size());
  for (int i = 0; i < kResamples; ++i) {
    for (double& value : sample) value = ratios[rng.Below(ratios.size())];
    medians.push_back(MedianOf(&sample));
  }
  std::sort(medians.begin(), medians.end());
  const int tail = kResamples / 40;  // 2.5 %
  return {medians[tail], medians[kResamples - 1 - tail], MedianOf(&ratios)};
}

Verdict Decide(const std::vector<Finalist>& finalists, uint64_t seed) {
  KILN_CHECK(!finalists.empty());
  const std::vector<int> finishers = Finishers(finalists);
  const int fastest = FastestByPairs(finalists, finishers, seed);
  std::vector<int> tied = {fastest};
  for (const int i : finishers) {
    if (i == fastest) continue;
    const Interval ratio =
        PairedRatio(finalists[i].samples_ns, finalists[fastest].samples_ns, seed + i);
    const bool untold = ratio.low <= 1 && ratio.middle <= kTieRatio;
    if (untold || ratio.middle <= kRepeatedRatio) tied.push_back(i);
  }
  Verdict verdict;
  verdict.winner = BreakTie(finalists, tied);
  int runner_up = -1;
  std::vector<int> others = finishers;
  if (others.size() == 1) {  // nobody else: how far ahead of those that were stopped
    others.resize(finalists.size());
    std::iota(others.begin(), others.end(), 0);
  }
  for (const int i : others) {
    if (i == verdict.winner) continue;
    if (std::find(tied.begin(), tied.end(), i) != tied.end()) verdict.ties.push_back(i);
    if (runner_up < 0 || finalists[i].median_ns < finalists[runner_up].median_ns) runner_up = i;
  }
  if (runner_up >= 0) {
    const Interval ratio = PairedRatio(finalists[runner_up].samples_ns,
                                       finalists[verdict.winner].samples_ns, seed + runner_up);
    verdict.ratio_low = ratio.low;
    verdict.ratio_high = ratio.high;
  }
  return verdict;
}

}  // namespace kiln::search

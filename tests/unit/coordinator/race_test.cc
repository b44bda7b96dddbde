#include "coordinator/search/race.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "compiler/base/rng.h"

namespace kiln::search {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<Lap> LapsOf(const std::vector<double>& medians) {
  std::vector<Lap> laps;
  for (size_t i = 0; i < medians.size(); ++i) laps.push_back({static_cast<int>(i), medians[i]});
  return laps;
}

std::vector<double> Noisy(double center, double relative, int count, uint64_t seed) {
  Rng rng(seed);
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) {
    samples.push_back(center * (1 + relative * (2 * rng.Uniform() - 1)));
  }
  return samples;
}

Finalist Make(const std::string& config, std::vector<double> samples, double mad = 0) {
  Finalist f;
  f.config = config;
  std::vector<double> sorted = samples;
  std::sort(sorted.begin(), sorted.end());
  f.median_ns = sorted[sorted.size() / 2];
  f.samples_ns = std::move(samples);
  f.mad_ns = mad;
  return f;
}

TEST(PlanRound, TheScreenKeepsAllWithinHalfAgainAsSlow) {
  const RacePlan plan = PlanRound(0, LapsOf({150, 100, 151, 120, 140, 110}), 5, 8);
  EXPECT_FALSE(plan.finals);
  EXPECT_THAT(plan.survivors, ElementsAre(1, 5, 3, 4, 0));
  EXPECT_EQ(plan.samples, 10);
}

TEST(PlanRound, FewSurvivorsGoStraightToFinals) {
  const RacePlan plan = PlanRound(0, LapsOf({100, 120, 300, 400}), 5, 8);
  EXPECT_TRUE(plan.finals);
  EXPECT_THAT(plan.survivors, ElementsAre(0, 1));
}

TEST(PlanRound, LaterRoundsAreStricterAndLonger) {
  std::vector<double> medians;
  for (int i = 0; i < 30; ++i) medians.push_back(100 + 0.3 * i);
  RacePlan plan = PlanRound(1, LapsOf(medians), 5, 8);
  EXPECT_FALSE(plan.finals);
  EXPECT_THAT(plan.survivors, SizeIs(30));
  EXPECT_EQ(plan.samples, 20);
  plan = PlanRound(2, LapsOf(medians), 5, 8);
  EXPECT_TRUE(plan.finals);
  EXPECT_THAT(plan.survivors, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

// Short launches are screened with many samples: a round that asks for no more is no use.
TEST(PlanRound, ARoundWhoseSamplesAreThereIsSkippedButNeverTheLast) {
  std::vector<Lap> laps;
  for (int i = 0; i < 60; ++i) laps.push_back({i, 100.0 + 0.5 * i, 26});
  RacePlan plan = PlanRound(0, laps, 5, 8);
  EXPECT_FALSE(plan.finals);
  EXPECT_THAT(plan.survivors, SizeIs(21)) << "those within a tenth";
  EXPECT_EQ(plan.round, 2);
  EXPECT_EQ(plan.samples, 20);
  plan = PlanRound(plan.round - 1, laps, 5, 8);
  EXPECT_FALSE(plan.finals) << "the last round is always run";
  laps[40].samples = 9;  // one that lacks them is enough, if it is in the round
  plan = PlanRound(0, laps, 5, 8);
  EXPECT_EQ(plan.round, 1);
  EXPECT_EQ(plan.samples, 10);
  EXPECT_THAT(plan.survivors, SizeIs(60));
  laps[40].median_ns = 151;
  EXPECT_EQ(PlanRound(0, laps, 5, 8).round, 2) << "who is out needs none";
  laps.resize(17);
  EXPECT_TRUE(PlanRound(0, {laps.begin(), laps.begin() + 8}, 5, 8).finals) << "few enough";
  EXPECT_EQ(PlanRound(0, laps, 5, 8).round, 2);
}

TEST(PairedRatio, ContainsTheTruthAboutNinetyFiveTimesInAHundred) {
  int contains = 0;
  for (int seed = 0; seed < 200; ++seed) {
    const Interval interval =
        PairedRatio(Noisy(103, 0.02, 60, 2 * seed + 1), Noisy(100, 0.02, 60, 2 * seed + 2), seed);
    contains += interval.low <= 1.03 && 1.03 <= interval.high;
  }
  EXPECT_GE(contains, 180);
  EXPECT_LE(contains, 200);
}

TEST(PairedRatio, TooFewPairsSeparateNothing) {
  const Interval interval = PairedRatio({200, 210}, {100, 100}, 1);
  EXPECT_LE(interval.low, 1);
  EXPECT_GE(interval.high, 1);
}

TEST(PairedRatio, ACommonDisturbanceCancels) {
  // Both finalists slow down in the second half: unpaired medians would drown in it.
  std::vector<double> slow;
  std::vector<double> fast;
  for (int i = 0; i < 40; ++i) {
    const double drift = i < 20 ? 1 : 1.4;
    slow.push_back(102 * drift);
    fast.push_back(100 * drift);
  }
  const Interval interval = PairedRatio(slow, fast, 1);
  EXPECT_NEAR(interval.low, 1.02, 1e-9);
  EXPECT_NEAR(interval.high, 1.02, 1e-9);
}

TEST(Decide, SeparatedFinalistsAreRankedByTime) {
  const Verdict verdict =
      Decide({Make("b", Noisy(110, 0.01, 50, 1)), Make("a", Noisy(120, 0.01, 50, 2)),
              Make("c", Noisy(100, 0.01, 50, 3))},
             7);
  EXPECT_EQ(verdict.winner, 2);
  EXPECT_THAT(verdict.ties, IsEmpty());
  EXPECT_NEAR(verdict.ratio_low, 1.1, 0.01);
  EXPECT_GE(verdict.ratio_high, verdict.ratio_low);
}

TEST(Decide, TiesGoToTheCalmerThenTheSmallerThenTheName) {
  const std::vector<double> same = Noisy(100, 0.02, 50, 1);
  std::vector<double> close = same;
  for (size_t i = 0; i < close.size(); ++i) close[i] *= i % 2 == 0 ? 1.001 : 0.999;
  Finalist noisy = Make("a", same, 5);
  Finalist calm = Make("b", close, 0.5);
  Verdict verdict = Decide({noisy, calm}, 7);
  EXPECT_EQ(verdict.winner, 1);
  EXPECT_THAT(verdict.ties, ElementsAre(0));
  noisy.mad_ns = calm.mad_ns;
  noisy.resources.set_scratch_bytes(4096);
  EXPECT_EQ(Decide({noisy, calm}, 7).winner, 1);
  noisy.resources.clear_scratch_bytes();
  EXPECT_EQ(Decide({noisy, calm}, 7).winner, 0);
}

TEST(Decide, ManyRunsOfTheSameFieldAgree) {
  // Four configs within the noise, drawn afresh each run: a decision by the median alone would
  // flip.
  std::map<std::string, int> winners;
  for (int run = 0; run < 50; ++run) {
    std::vector<Finalist> field;
    for (int i = 0; i < 4; ++i) {
      field.push_back(Make(std::string(1, 'a' + i), Noisy(100, 0.03, 80, 100 * run + i), 1));
    }
    ++winners[field[Decide(field, 3).winner].config];
  }
  // The first by name, but for runs whose samples mislead at the 95 % level.
  EXPECT_GE(winners["a"], 40);
}

// Other work slows some rounds: "b" has the lower median, and yet lost most of its pairs.
TEST(Decide, PairsCountWhereMediansSayTheOpposite) {
  std::vector<double> a, b;
  for (int i = 0; i < 90; ++i) {
    const bool disturbed = i < 44;
    a.push_back(disturbed ? 180 : i < 60 ? 115 : 98);
    b.push_back(disturbed ? 190 : i < 60 ? 110 : 104);
  }
  for (const bool swapped : {false, true}) {
    std::vector<Finalist> field = {Make("a", a), Make("b", b)};
    if (swapped) std::swap(field[0], field[1]);
    const Verdict verdict = Decide(field, 3);
    EXPECT_EQ(field[verdict.winner].config, "a");
    EXPECT_THAT(verdict.ties, IsEmpty());
    EXPECT_GT(verdict.ratio_low, 1);
  }
}

// Each sweep is sure which of two is faster, by a little, and the next one is sure of the other.
TEST(Decide, ALeadThatDoesNotRepeatDecidesNothing) {
  const auto winner_of = [](double lead) {
    const std::vector<double> a = Noisy(100, 0.0005, 80, 1), b = Noisy(100 * lead, 0.0005, 80, 2);
    const Verdict verdict = Decide({Make("a", a), Make("b", b)}, 3);
    EXPECT_GT(std::max(verdict.ratio_low, 1 / verdict.ratio_high), 1) << "sure, at " << lead;
    return std::make_pair(verdict.winner, verdict.ties.size());
  };
  EXPECT_EQ(winner_of(1.002), std::make_pair(0, size_t{1}));
  EXPECT_EQ(winner_of(0.998), std::make_pair(0, size_t{1}));
  EXPECT_EQ(winner_of(1.005), std::make_pair(0, size_t{0}));
  EXPECT_EQ(winner_of(0.995), std::make_pair(1, size_t{0}));
}

// What is stored as a tie may be handed out for the winner: it must be as good.
TEST(Decide, TiesAreWithinOneAndAHalfPercentHoweverNoisy) {
  int ties = 0, noisy = 0;
  for (int run = 0; run < 40; ++run) {
    std::vector<Finalist> field;
    for (int i = 0; i < 8; ++i) {
      field.push_back(
          Make(std::string(1, 'a' + i), Noisy(100 + 0.4 * i, 0.15, 40, 100 * run + i), 1));
    }
    const Verdict verdict = Decide(field, 3);
    EXPECT_LE(verdict.ties.size(), 7u);
    std::vector<int> members = verdict.ties;
    members.push_back(verdict.winner);
    std::sort(members.begin(), members.end());
    EXPECT_EQ(std::unique(members.begin(), members.end()), members.end());
    const auto fastest = *std::min_element(members.begin(), members.end(), [&](int a, int b) {
      return field[a].median_ns < field[b].median_ns;
    });
    for (const int member : members) {
      const Interval ratio =
          PairedRatio(field[member].samples_ns, field[fastest].samples_ns, 3 + member);
      EXPECT_LE(ratio.middle, 1.015) << run;
    }
    ties += static_cast<int>(verdict.ties.size());
    for (const Finalist& finalist : field) {
      const Interval ratio = PairedRatio(finalist.samples_ns, field[fastest].samples_ns, 3);
      noisy += ratio.low <= 1 && ratio.middle > 1.015 ? 1 : 0;
    }
  }
  EXPECT_GT(ties, 20);
  EXPECT_GT(noisy, 20) << "these samples try nothing";
}

// One that was stopped after a few samples, whichever they were, is out.
TEST(Decide, WhoWasStoppedNeitherWinsNorTies) {
  std::vector<double> steady(30, 50), lucky = {74, 49, 75, 48, 76};
  Finalist ahead = Make("b", std::vector<double>(30, 51), 2);
  Finalist stopped = Make("a", lucky, 0);
  Finalist few = Make("c", {40, 40, 40, 40, 40}, 0);
  const Verdict verdict = Decide({stopped, Make("d", steady, 2), ahead, few}, 1);
  EXPECT_EQ(verdict.winner, 1);
  EXPECT_THAT(verdict.ties, testing::IsEmpty());
  EXPECT_GT(verdict.ratio_low, 1);
  const Verdict alone = Decide({Make("d", steady, 2), Make("a", {100, 101, 102, 100, 99})}, 1);
  EXPECT_EQ(alone.winner, 0);
  EXPECT_GT(alone.ratio_low, 1.9);
}

// The clock falls by 4 % when one that is slower was stopped already: its median is the lower one.
TEST(Decide, WhoWasStoppedLateDoesNotWinByTheClock) {
  std::vector<double> whole(400, 100), part(200, 100.9);
  std::fill(whole.begin() + 150, whole.end(), 104);
  std::fill(part.begin() + 150, part.end(), 104.9);
  const Finalist stopped = Make("a", part), winner = Make("b", whole);
  ASSERT_LT(stopped.median_ns, winner.median_ns);
  const Verdict verdict = Decide({stopped, winner}, 1);
  EXPECT_EQ(verdict.winner, 1);
  EXPECT_THAT(verdict.ties, testing::IsEmpty());
  EXPECT_GT(verdict.ratio_low, 1);
}

TEST(Decide, ASingleFinalistWinsWithoutARatio) {
  const Verdict verdict = Decide({Make("a", {1, 2, 3})}, 1);
  EXPECT_EQ(verdict.winner, 0);
  EXPECT_EQ(verdict.ratio_high, 0);
}

}  // namespace
}  // namespace kiln::search

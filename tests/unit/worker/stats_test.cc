#include "worker/profile/stats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace kiln::worker {
namespace {

TEST(StatsTest, QuantilesOfSmallSets) {
  EXPECT_EQ(Median({3}), 3);
  EXPECT_EQ(Median({4, 1}), 2.5);
  EXPECT_EQ(Median({9, 1, 5}), 5);
  EXPECT_EQ(Quantile({0, 10, 20, 30, 40}, 0.25), 10);
  EXPECT_EQ(Quantile({0, 10}, 0.75), 7.5);
  EXPECT_EQ(Quantile({7, 7, 7}, 0), 7);
}

TEST(StatsTest, TheLeastRatioIsBelowTheTruthAndNear) {
  EXPECT_EQ(LeastRatio({}, {1}, 4), 0);
  EXPECT_EQ(LeastRatio(std::vector<double>(15, 2), std::vector<double>(15, 1), 4), 0) << "too few";
  EXPECT_EQ(LeastRatio(std::vector<double>(16, 2), std::vector<double>(16, 1), 4), 2);
  std::mt19937 random(5);
  std::normal_distribution<double> noise(1, 0.01);
  for (int run = 0; run < 200; ++run) {
    std::vector<double> slow, fast;
    for (int i = 0; i < 100; ++i) {
      const double drift = 1 + 0.003 * i;
      slow.push_back(102 * drift * noise(random));
      fast.push_back(100 * drift * noise(random));
    }
    const double least = LeastRatio(slow, fast, 4);
    EXPECT_LT(least, 1.02) << run;  // though both drift by a third
    EXPECT_GT(least, 1.005) << run;
  }
}

// Laws that any order statistic keeps: order does not matter; shifting and scaling pass through.
TEST(StatsTest, LawsOfTheSummary) {
  std::mt19937 random(1);
  std::lognormal_distribution<double> times(7, 0.2);
  for (int round = 0; round < 50; ++round) {
    std::vector<double> values(static_cast<size_t>(2 + random() % 60));
    for (double& value : values) value = times(random);
    Summary summary = Summarise(values);
    EXPECT_LE(summary.p25, summary.median);
    EXPECT_LE(summary.median, summary.p75);
    std::vector<double> shuffled = values;
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    EXPECT_EQ(Summarise(shuffled).mad, summary.mad);
    std::vector<double> scaled = values;
    for (double& value : scaled) value *= 4;
    EXPECT_DOUBLE_EQ(Summarise(scaled).median, 4 * summary.median);
    EXPECT_NEAR(Summarise(scaled).relative_error, summary.relative_error, 1e-12);
  }
}

// The stated standard error against the spread of many simulated medians.
TEST(StatsTest, TheStandardErrorPredictsTheSpreadOfMedians) {
  std::mt19937 random(2);
  std::normal_distribution<double> noise(1000, 20);
  constexpr int kRuns = 3000;
  constexpr int kSamples = 40;
  double predicted = 0;
  std::vector<double> medians;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> values(kSamples);
    for (double& value : values) value = noise(random);
    Summary summary = Summarise(values);
    predicted += summary.relative_error / kRuns;
    medians.push_back(summary.median);
  }
  double variance = 0;
  for (double median : medians) variance += (median - 1000) * (median - 1000) / kRuns;
  double actual = std::sqrt(variance) / 1000;
  EXPECT_NEAR(predicted / actual, 1, 0.1);
}

TEST(StatsTest, EmptyAndSingleSamplesAreHarmless) {
  EXPECT_EQ(Summarise({}).count, 0);
  EXPECT_EQ(Summarise({5}).relative_error, 1);
  EXPECT_TRUE(MarkDropped({}).empty());
}

TEST(StatsTest, OnlySlowDisturbedSamplesAreDropped) {
  std::vector<Sample> samples = {{100, false}, {101, true}, {150, true}, {99, false}, {160, false}};
  std::vector<bool> dropped = MarkDropped(samples);
  EXPECT_EQ(dropped, (std::vector<bool>{false, false, true, false, false}))
      << "a harmless switch and an unexplained slow sample both stay";
  EXPECT_EQ(Undisturbed(samples), (std::vector<double>{100, 101, 99, 160}));
}

TEST(StatsTest, AtMostHalfIsDropped) {
  std::vector<Sample> samples;
  for (int i = 0; i < 10; ++i) samples.push_back({100.0 + 10 * i, true});
  EXPECT_GE(Undisturbed(samples).size(), 5u);
}

TEST(StatsTest, DroppingUndoesWhatPreemptionDid) {
  std::mt19937 random(3);
  std::normal_distribution<double> noise(1000, 5);
  std::vector<Sample> samples;
  for (int i = 0; i < 100; ++i) {
    bool disturbed = i % 3 == 0;
    samples.push_back({noise(random) * (disturbed ? 1.5 : 1), disturbed});
  }
  EXPECT_NEAR(Summarise(Undisturbed(samples)).median, 1000, 3);
}

TEST(StatsTest, TheStopRuleMinds) {
  StopRule rule;
  rule.min_samples = 4;
  rule.max_samples = 8;
  rule.min_seconds = 1e-6;
  rule.max_seconds = 10;
  rule.target_relative_error = 0.01;
  std::vector<Sample> steady(4, {1000, false});
  EXPECT_TRUE(EnoughSamples(rule, steady, 0));
  EXPECT_FALSE(EnoughSamples(rule, {steady.begin(), steady.begin() + 3}, 100)) << "too few";
  rule.min_seconds = 1;
  EXPECT_FALSE(EnoughSamples(rule, steady, 0)) << "too little kernel time";
  EXPECT_TRUE(EnoughSamples(rule, steady, 11)) << "out of wall time";
  std::vector<Sample> wild = {{500, false}, {1000, false}, {1500, false}, {2000, false}};
  rule.min_seconds = 1e-6;
  EXPECT_FALSE(EnoughSamples(rule, wild, 0)) << "not precise enough";
  for (int i = 0; i < 4; ++i) wild.push_back(wild[static_cast<size_t>(i)]);
  EXPECT_TRUE(EnoughSamples(rule, wild, 0)) << "the most samples are there";
}

}  // namespace
}  // namespace kiln::worker

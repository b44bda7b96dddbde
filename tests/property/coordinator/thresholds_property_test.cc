// Which config runs at which size: against every assignment there is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "compiler/base/rng.h"
#include "coordinator/search/thresholds.h"

namespace kiln::search {
namespace {

struct Table {
  std::vector<v1::RangePoint> points;
  int configs = 0;
};

// Points with times and intervals of their ratios: `noise` is half the width of an interval.
Table Draw(uint64_t seed) {
  Rng rng(seed);
  Table table;
  table.configs = 1 + static_cast<int>(rng.Below(4));
  const int count = 1 + static_cast<int>(rng.Below(6));
  const double noise = rng.Below(3) == 0 ? 0 : 0.05 * rng.Uniform();
  int64_t size = 1;
  for (int i = 0; i < count; ++i) {
    v1::RangePoint& point = table.points.emplace_back();
    point.set_size(size);
    size += 1 + static_cast<int64_t>(rng.Below(9));
    std::vector<double> times;
    // Few values, so that equal times are common.
    for (int a = 0; a < table.configs; ++a)
      times.push_back(100 + static_cast<double>(rng.Below(9)));
    for (int a = 0; a < table.configs; ++a) {
      v1::VariantTime* time = point.add_times();
      time->set_median_ns(times[a]);
      for (int b = 0; b < table.configs; ++b) {
        time->add_over(a == b ? 1 : times[a] / times[b] * (1 - noise));
      }
    }
  }
  return table;
}

// What an assignment is judged by, the most important first.
using Rank = std::tuple<std::vector<double>, size_t, int, std::vector<int>>;

Rank RankOf(const Table& table, const std::vector<int>& chosen) {
  std::vector<double> regrets;
  int changes = 0;
  for (size_t i = 0; i < chosen.size(); ++i) {
    regrets.push_back(Regret(table.points[i], chosen[i]));
    changes += i > 0 && chosen[i] != chosen[i - 1];
  }
  return {regrets, std::set<int>(chosen.begin(), chosen.end()).size(), changes, chosen};
}

// Every assignment; the least regret at each point can be had at all of them together, so the
// smallest rank has it.
std::vector<int> BruteForce(const Table& table) {
  std::vector<int> chosen(table.points.size(), 0), best = chosen;
  while (true) {
    if (RankOf(table, chosen) < RankOf(table, best)) best = chosen;
    size_t i = 0;
    while (i < chosen.size() && ++chosen[i] == table.configs) chosen[i++] = 0;
    if (i == chosen.size()) return best;
  }
}

TEST(Thresholds, AreTheBestOfAllAssignments) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    const Table table = Draw(seed);
    const Steps steps = Assign(table.points, table.configs, 1);
    EXPECT_EQ(steps.chosen, BruteForce(table)) << "seed " << seed;
  }
}

TEST(Thresholds, RunAtEveryPointWhatIsChosenThere) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    const Table table = Draw(seed);
    const Steps steps = Assign(table.points, table.configs, 1);
    ASSERT_EQ(steps.steps.front().first(), 1) << "seed " << seed;
    for (size_t i = 0; i < table.points.size(); ++i) {
      EXPECT_EQ(ChosenAt(steps, table.points[i].size()), steps.chosen[i]) << "seed " << seed;
      // Above a point, what is best at the next one.
      if (i == 0) continue;
      EXPECT_EQ(ChosenAt(steps, table.points[i - 1].size() + 1), steps.chosen[i]);
    }
    for (size_t i = 1; i < steps.steps.size(); ++i) {
      EXPECT_LT(steps.steps[i - 1].first(), steps.steps[i].first()) << "seed " << seed;
      EXPECT_NE(steps.steps[i - 1].variant(), steps.steps[i].variant()) << "seed " << seed;
    }
  }
}

TEST(Thresholds, AreNowhereSlowerThanAnySingleConfigBeyondNoise) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    const Table table = Draw(seed);
    const Steps steps = Assign(table.points, table.configs, 1);
    for (size_t i = 0; i < table.points.size(); ++i) {
      for (int single = 0; single < table.configs; ++single) {
        EXPECT_FALSE(Slower(table.points[i], steps.chosen[i], single)) << "seed " << seed;
      }
    }
  }
}

TEST(Thresholds, OneConfigIsEnoughWhereNothingIsFasterBeyondNoise) {
  Table table = Draw(5);
  table.points.clear();
  table.configs = 3;
  for (int64_t size : {1, 10, 100}) {
    v1::RangePoint& point = table.points.emplace_back();
    point.set_size(size);
    for (int a = 0; a < 3; ++a) {
      v1::VariantTime* time = point.add_times();
      // Each is fastest at one size, by 1 %; the interval is 3 % wide.
      time->set_median_ns(static_cast<int64_t>(std::log10(size)) == a ? 100 : 101);
      for (int b = 0; b < 3; ++b) time->add_over(a == b ? 1 : 0.98);
    }
  }
  EXPECT_EQ(Assign(table.points, 3, 1).steps.size(), 1u);
  // The same times without noise: three steps.
  for (v1::RangePoint& point : table.points) {
    for (int a = 0; a < 3; ++a) {
      for (int b = 0; b < 3; ++b) {
        point.mutable_times(a)->set_over(b,
                                         point.times(a).median_ns() / point.times(b).median_ns());
      }
    }
  }
  const Steps steps = Assign(table.points, 3, 1);
  ASSERT_EQ(steps.steps.size(), 3u);
  EXPECT_EQ(steps.steps[1].first(), 2);
  EXPECT_EQ(steps.steps[2].first(), 11);
}

TEST(Thresholds, TheSingleConfigHasTheLeastProductOfTimes) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    const Table table = Draw(seed);
    const int single = Single(table.points, table.configs);
    const auto product = [&](int config) {
      double out = 1;
      for (const v1::RangePoint& point : table.points) out *= point.times(config).median_ns();
      return out;
    };
    for (int other = 0; other < table.configs; ++other) {
      EXPECT_LE(product(single), product(other) * (1 + 1e-9)) << "seed " << seed;
    }
  }
}

TEST(Points, AreBothEndsAndPowersOfTwoEvenlyThinned) {
  EXPECT_EQ(DefaultPoints(1, 16384),
            (std::vector<int64_t>{1, 4, 16, 32, 128, 512, 2048, 4096, 16384}));
  EXPECT_EQ(DefaultPoints(1, 2), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(DefaultPoints(3, 20), (std::vector<int64_t>{3, 4, 8, 16, 20}));
  Rng rng(7);
  for (int i = 0; i < 2000; ++i) {
    const int64_t low = 1 + static_cast<int64_t>(rng.Below(uint64_t{1} << rng.Below(40)));
    const int64_t high = low + 1 + static_cast<int64_t>(rng.Below(uint64_t{1} << rng.Below(40)));
    const std::vector<int64_t> points = DefaultPoints(low, high);
    EXPECT_EQ(points.front(), low);
    EXPECT_EQ(points.back(), high);
    EXPECT_LE(points.size(), static_cast<size_t>(kDefaultPoints));
    for (size_t k = 1; k < points.size(); ++k) {
      EXPECT_LT(points[k - 1], points[k]);
      const int64_t middle = Between(points[k - 1], points[k]);
      if (points[k] - points[k - 1] < 2) {
        EXPECT_EQ(middle, 0);
      } else {
        EXPECT_LT(points[k - 1], middle);
        EXPECT_LT(middle, points[k]);
      }
    }
  }
}

}  // namespace
}  // namespace kiln::search

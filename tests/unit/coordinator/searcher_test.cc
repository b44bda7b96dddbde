#include "coordinator/search/searcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"

namespace kiln::search {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<Point> Space(int count) {
  std::vector<Point> points;
  for (int i = 0; i < count; ++i) points.push_back({absl::StrCat("c=", i), 100.0 + i});
  return points;
}

std::unique_ptr<Searcher> Make(absl::string_view name, SearchLimits limits) {
  return *NewSearcher(name, limits);
}

// Runs a searcher to its end, each answer measured unless `fails` says otherwise.
std::vector<int> RunAll(const Searcher& searcher, std::vector<Point> points, int window,
                        const std::set<int>& fails = {}) {
  std::vector<int> order;
  for (;;) {
    const std::vector<int> next = searcher.Next(points, window);
    if (next.empty()) return order;
    for (int i : next) {
      EXPECT_EQ(points[i].state, Point::State::kUntried) << "proposed twice: " << i;
      points[i].state = fails.count(i) > 0 ? Point::State::kFailed : Point::State::kMeasured;
      order.push_back(i);
    }
  }
}

TEST(Searcher, UnknownStrategiesAreRefusedByName) {
  const auto searcher = NewSearcher("annealing", {});
  EXPECT_EQ(searcher.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(searcher.status().message()), ::testing::HasSubstr("recommended"));
  EXPECT_EQ(Make("", {})->name(), "recommended");
}

TEST(Recommended, ProposesTheSlateInOrderAndReplacesWhatFails) {
  SearchLimits limits;
  limits.top_k = 4;
  const auto searcher = Make("recommended", limits);
  EXPECT_THAT(RunAll(*searcher, Space(20), 100), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(RunAll(*searcher, Space(20), 100, {1, 3, 4}), ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

TEST(Recommended, StopsReplacingAfterThreeSlatesAndHonoursTheBudget) {
  SearchLimits limits;
  limits.top_k = 4;
  std::set<int> all;
  for (int i = 0; i < 50; ++i) all.insert(i);
  EXPECT_THAT(RunAll(*Make("recommended", limits), Space(50), 100, all), SizeIs(12));
  limits.max_candidates = 6;
  EXPECT_THAT(RunAll(*Make("recommended", limits), Space(50), 100, all), SizeIs(6));
}

TEST(Recommended, WaitsForPendingPoints) {
  SearchLimits limits;
  limits.top_k = 2;
  std::vector<Point> points = Space(5);
  points[0].state = points[1].state = Point::State::kPending;
  EXPECT_THAT(Make("recommended", limits)->Next(points, 10), IsEmpty());
  points[0].state = Point::State::kFailed;
  EXPECT_THAT(Make("recommended", limits)->Next(points, 10), ElementsAre(2));
}

TEST(Exhaustive, TriesEverythingOnceWhateverTheWindow) {
  for (int window : {1, 7, 1000}) {
    const std::vector<int> order = RunAll(*Make("exhaustive", {}), Space(100), window, {3, 50});
    EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), 100u);
  }
  SearchLimits limits;
  limits.max_candidates = 30;
  EXPECT_THAT(RunAll(*Make("exhaustive", limits), Space(100), 7), SizeIs(30));
}

TEST(Random, TheSeedDecidesTheSampleAndTheWindowDoesNot) {
  SearchLimits limits;
  limits.max_candidates = 20;
  limits.seed = 5;
  const std::vector<int> order = RunAll(*Make("random", limits), Space(100), 1000);
  EXPECT_EQ(RunAll(*Make("random", limits), Space(100), 3), order);
  EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), 20u);
  limits.seed = 6;
  EXPECT_NE(RunAll(*Make("random", limits), Space(100), 1000), order);
}

TEST(Random, TheSampleDoesNotDependOnTheRanking) {
  SearchLimits limits;
  limits.max_candidates = 10;
  std::vector<Point> reversed = Space(50);
  std::reverse(reversed.begin(), reversed.end());
  std::set<std::string> a;
  std::set<std::string> b;
  for (int i : RunAll(*Make("random", limits), Space(50), 4)) a.insert(absl::StrCat("c=", i));
  for (int i : RunAll(*Make("random", limits), reversed, 4)) b.insert(reversed[i].config);
  EXPECT_EQ(a, b);
}

TEST(Random, CoversTheSpaceEvenly) {
  std::vector<int> hits(40);
  for (int seed = 0; seed < 1000; ++seed) {
    SearchLimits limits;
    limits.max_candidates = 10;
    limits.seed = seed;
    for (int i : Make("random", limits)->Next(Space(40), 100)) ++hits[i];
  }
  for (int h : hits) EXPECT_NEAR(h, 250, 70);
}

TEST(Carver, TakesTheFirstOfTheListAsTheyAre) {
  SearchLimits limits;
  limits.top_k = 5;
  EXPECT_THAT(RunAll(*Make("carver", limits), Space(20), 2, {1, 2}), ElementsAre(0, 1, 2, 3, 4));
}

}  // namespace
}  // namespace kiln::search

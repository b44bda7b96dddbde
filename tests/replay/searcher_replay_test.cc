// Searchers against tables of (config, predicted, measured): how close to the best each gets, and
// for how many candidates. The tables are in tables/: one row a config, nanoseconds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/base/rng.h"
#include "coordinator/search/searcher.h"

namespace kiln::search {
namespace {

struct Row {
  std::string config;
  double predicted_ns = 0;
  double measured_ns = 0;  // 0 = fails
};

struct Outcome {
  double best_ns = 0;
  int tried = 0;
  int failed = 0;
};

// What a sweep does with a searcher, without a farm: answers come in windows, in a shuffled order.
Outcome Replay(const std::vector<Row>& table, absl::string_view strategy,
               const SearchLimits& limits, uint64_t order_seed) {
  const auto searcher = *NewSearcher(strategy, limits);
  std::vector<Point> points;
  for (const Row& row : table) points.push_back({row.config, row.predicted_ns});
  Outcome outcome;
  std::vector<int> pending;
  Rng rng(order_seed);
  for (;;) {
    for (int i : searcher->Next(points, 8 - static_cast<int>(pending.size()))) {
      points[i].state = Point::State::kPending;
      pending.push_back(i);
      ++outcome.tried;
    }
    if (pending.empty()) return outcome;
    std::swap(pending[rng.Below(pending.size())], pending.back());
    const int done = pending.back();
    pending.pop_back();
    const double time = table[done].measured_ns;
    points[done].state = time > 0 ? Point::State::kMeasured : Point::State::kFailed;
    points[done].time_ns = time;
    outcome.failed += time <= 0;
    if (time > 0 && (outcome.best_ns == 0 || time < outcome.best_ns)) outcome.best_ns = time;
  }
}

double BestOf(const std::vector<Row>& table) {
  double best = INFINITY;
  for (const Row& row : table) {
    if (row.measured_ns > 0) best = std::min(best, row.measured_ns);
  }
  return best;
}

std::vector<Row> ReadTable(const std::filesystem::path& path) {
  std::vector<Row> rows;
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> parts = absl::StrSplit(line, '\t');
    Row row;
    EXPECT_EQ(parts.size(), 3u) << line;
    row.config = parts[0];
    EXPECT_TRUE(absl::SimpleAtod(parts[1], &row.predicted_ns)) << line;
    EXPECT_TRUE(absl::SimpleAtod(parts[2], &row.measured_ns)) << line;
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.predicted_ns < b.predicted_ns; });
  return rows;
}

// A tiled kernel on a modelled machine: compute against two levels of memory, with edge waste, and
// a recommender that knows the machine up to `error` and does not know the last effect (conflicts).
std::vector<Row> ModelledGemm(uint64_t seed, double error) {
  Rng rng(seed);
  const double m = 128 * (1 + static_cast<double>(rng.Below(16)));
  const double n = 128 * (1 + static_cast<double>(rng.Below(32)));
  const double k = 256 * (1 + static_cast<double>(rng.Below(16)));
  std::vector<Row> rows;
  for (double bm : {8, 16, 32, 64, 128, 256}) {
    for (double bn : {16, 32, 64, 128, 256, 512}) {
      for (double bk : {16, 32, 64, 128, 256}) {
        for (double unroll : {1, 2, 4}) {
          const double blocks = std::ceil(m / bm) * std::ceil(n / bn);
          const double waste = blocks * bm * bn / (m * n);
          const double compute = 2 * m * n * k * waste / 100 * (1 + 4 / bm + 8 / bn);
          const double traffic = blocks * (bm + bn) * k * 4 / 20;
          const double cache = (bm * bk + bk * bn + bm * bn) * 4;
          const double spill = cache > 512e3 ? 2.5 : cache > 128e3 ? 1.2 : 1;
          const double loop = blocks * k / bk * 40 / unroll;
          Row row;
          row.config = absl::StrCat("bk=", bk, ",bm=", bm, ",bn=", bn, ",u=", unroll);
          const double model = std::max(compute, traffic * spill) + loop;
          row.predicted_ns = model * (1 + error * (2 * rng.Uniform() - 1));
          const double conflicts = rng.Below(8) == 0 ? 1.4 : 1;
          row.measured_ns =
              rng.Below(25) == 0 ? 0 : model * conflicts * (0.97 + 0.06 * rng.Uniform());
          rows.push_back(std::move(row));
        }
      }
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.predicted_ns < b.predicted_ns; });
  return rows;
}

TEST(SearcherReplay, RecommendedOfEightReachesNinetyFiveHundredthsOnModelledSpaces) {
  double log_ratio = 0;
  const int spaces = 40;
  for (int seed = 1; seed <= spaces; ++seed) {
    const std::vector<Row> table = ModelledGemm(seed, 0.05);
    SearchLimits limits;
    limits.top_k = 8;
    const Outcome outcome = Replay(table, "recommended", limits, seed);
    EXPECT_EQ(outcome.tried - outcome.failed, 8) << "failures are replaced";
    log_ratio += std::log(BestOf(table) / outcome.best_ns);
  }
  EXPECT_GE(std::exp(log_ratio / spaces), 0.95);
}

TEST(SearcherReplay, ExhaustiveFindsTheBestAndRecommendedBeatsRandomAtTheSameCost) {
  double recommended = 0;
  double random = 0;
  for (int seed = 1; seed <= 20; ++seed) {
    const std::vector<Row> table = ModelledGemm(seed, 0.1);
    EXPECT_EQ(Replay(table, "exhaustive", {}, seed).best_ns, BestOf(table));
    SearchLimits limits;
    limits.top_k = limits.max_candidates = 4;
    limits.seed = seed;
    recommended += std::log(BestOf(table) / Replay(table, "recommended", limits, seed).best_ns);
    const Outcome drawn = Replay(table, "random", limits, seed);
    EXPECT_EQ(drawn.tried, 4);
    random += std::log(BestOf(table) / drawn.best_ns);
  }
  EXPECT_GT(std::exp(recommended / 20), std::exp(random / 20) + 0.1);
}

TEST(SearcherReplay, TheOrderOfResultsDoesNotChangeTheOutcome) {
  const std::vector<Row> table = ModelledGemm(3, 0.2);
  for (const char* strategy : {"recommended", "random", "carver", "exhaustive"}) {
    SearchLimits limits;
    limits.top_k = 12;
    limits.max_candidates = 60;
    std::set<double> outcomes;
    for (int order = 0; order < 10; ++order) {
      outcomes.insert(Replay(table, strategy, limits, order).best_ns);
    }
    EXPECT_EQ(outcomes.size(), 1u) << strategy;
  }
}

TEST(SearcherReplay, RecordedTables) {
  int tables = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/replay/tables")) {
    if (entry.path().extension() != ".tsv") continue;
    ++tables;
    const std::vector<Row> table = ReadTable(entry.path());
    ASSERT_GE(table.size(), 20u) << entry.path();
    SearchLimits limits;
    limits.top_k = 8;
    const Outcome outcome = Replay(table, "recommended", limits, 1);
    EXPECT_GE(BestOf(table) / outcome.best_ns, 0.9) << entry.path();
    EXPECT_EQ(Replay(table, "exhaustive", {}, 1).best_ns, BestOf(table));
  }
  EXPECT_GE(tables, 10);  // a processor, and nine products on a GPU
}

}  // namespace
}  // namespace kiln::search

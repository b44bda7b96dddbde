// Sweeps over a range of sizes, in a modelled farm: what comes out does not depend on delays,
// faults or restarts, is right, and is nowhere slower than one config alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "coordinator/core/range.h"
#include "coordinator/search/thresholds.h"
#include "proto/dispatch.h"
#include "tests/util/in_process_farm.h"

namespace kiln::testing {
namespace {

InProcessFarm::Options Base(uint64_t seed) {
  InProcessFarm::Options options;
  options.seed = seed;
  options.space.seed = 11;
  options.space.configs = 24;
  options.space.compile_errors = 0.08;
  options.workers = {{2, 1}, {4, 1}};
  return options;
}

v1::SweepSpec RangeSpec(int64_t low = 1, int64_t high = 1024) {
  v1::SweepSpec spec = FakeSpec();
  spec.mutable_range()->set_name("M");
  spec.mutable_range()->set_low(low);
  spec.mutable_range()->set_high(high);
  for (const int64_t size : {low, int64_t{32}, int64_t{200}, high}) {
    spec.mutable_range()->add_points(size);
  }
  return spec;
}

// All that must not depend on when what was run; which of two sizes a config failed at first does.
std::string Outcome(const v1::GetSweepResponse& sweep) {
  v1::RangeTable table = sweep.winner().range();
  table.clear_dropped();
  return absl::StrCat(v1::SweepState_Name(sweep.summary().progress().state()), "\n",
                      sweep.winner().artifact().digest(), "\n", table.DebugString());
}

void ExpectSound(const InProcessFarm& farm, const absl::StatusOr<v1::GetSweepResponse>& sweep,
                 uint64_t seed) {
  ASSERT_TRUE(sweep.ok()) << "seed " << seed << ": " << sweep.status();
  EXPECT_EQ(sweep->summary().progress().state(), v1::DONE)
      << "seed " << seed << ": " << sweep->summary().progress().message();
  EXPECT_THAT(farm.violations(), ::testing::IsEmpty()) << "seed " << seed;
}

FakeSpace SpaceAt(const InProcessFarm::Options& options, const v1::RangeTable& table,
                  int64_t size) {
  v1::SweepInputs inputs;
  (*inputs.mutable_arguments())["problem"] = "1";
  (*inputs.mutable_runtime_values())["M"] = absl::StrCat(size);
  *inputs.mutable_dispatch() = table.dispatch();
  return SpaceOf(options.space, inputs);
}

TEST(Range, DispatchesAmongConfigsAndSaysWhatItMeasured) {
  const InProcessFarm::Options options = Base(1);
  InProcessFarm farm(options);
  const auto sweep = farm.RunSweep(RangeSpec());
  ExpectSound(farm, sweep, 1);
  const v1::RangeTable& table = sweep->winner().range();
  EXPECT_GT(table.dispatch().variants_size(), 1) << table.DebugString();
  EXPECT_EQ(table.dispatch().steps(0).first(), 1);
  EXPECT_GE(table.points_size(), 7);  // 4 to tune for and what is between
  for (const v1::RangePoint& point : table.points()) {
    EXPECT_EQ(point.times_size(), table.compared_size());
    EXPECT_GT(point.dispatched_ns(), 0);
    EXPECT_GT(point.single_ns(), 0);
    EXPECT_EQ(point.tuned(), !point.winner().empty());
  }
  EXPECT_EQ(sweep->summary().progress().done(), sweep->summary().progress().total());
  // A config's code does not depend on the size: all sweeps of a range share it.
  std::vector<std::string> configs = FakeSpace(options.space).Configs();
  configs.emplace_back(kDispatchConfig);
  for (const std::string& config : configs) EXPECT_LE(farm.compiles(config), 1) << config;
  EXPECT_EQ(farm.compiles(configs.back()), 1);
}

TEST(Range, IsNowhereSlowerThanTheBestSingleConfig) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    InProcessFarm::Options options = Base(seed);
    options.space.seed = seed;
    InProcessFarm farm(options);
    const auto sweep = farm.RunSweep(RangeSpec());
    ExpectSound(farm, sweep, seed);
    const v1::RangeTable& table = sweep->winner().range();
    // True times, at every size of the range and not only at those measured: the model's lines
    // cross once, so what is best at both ends of a step is best in it; a step ends between two
    // sizes that are near each other.
    double worst = 0;
    for (int64_t size = 1; size <= 1024; ++size) {
      const FakeSpace space = SpaceAt(options, table, size);
      worst = std::max(worst,
                       space.TrueNs(std::string(kDispatchConfig)) / space.TrueNs(table.single()));
    }
    EXPECT_LT(worst, 1.06) << "seed " << seed;
    for (const v1::RangePoint& point : table.points()) {
      const FakeSpace space = SpaceAt(options, table, point.size());
      EXPECT_LE(space.TrueNs(std::string(kDispatchConfig)), space.TrueNs(table.single()) * 1.005)
          << "seed " << seed << " size " << point.size();
    }
  }
}

// Of configs whose times grow with waves of tiles: M rows of 4096 columns on 132 processors.
// `guards`: what a last tile that is not whole adds to the time, as a share of it.
struct Tiles {
  double rows, columns, wave_us, row_us, guards = 0;
  double Ns(int64_t m) const {
    const double high = static_cast<double>(m) / rows;
    const double tiles = std::ceil(high) * std::ceil(4096 / columns);
    const double us = 4 + wave_us * std::ceil(tiles / 132) + row_us * static_cast<double>(m);
    return 1e3 * us * (high == std::ceil(high) ? 1 : 1 + guards);
  }
};

// The least of the single config's time over that of the object, over all sizes from `low` on.
double LeastOverAllSizes(const std::vector<Tiles>& tiles, int64_t low = 1) {
  v1::ShapeRange range;
  range.set_name("M");
  range.set_low(low);
  range.set_high(8192);
  for (const int64_t point : search::DefaultPoints(low, 8192)) range.add_points(point);
  v1::RangeTable table = core::EmptyTable(range);
  const auto best = [&](int64_t m) {
    const auto faster = [&](const Tiles& a, const Tiles& b) { return a.Ns(m) < b.Ns(m); };
    return std::min_element(tiles.begin(), tiles.end(), faster) - tiles.begin();
  };
  for (v1::RangePoint& p : *table.mutable_points()) p.set_winner(absl::StrCat(best(p.size())));
  core::StartComparison(&table);
  const auto ns = [&](const std::string& config, int64_t m) {
    return tiles[config[0] - '0'].Ns(m);
  };
  for (int wave = 0;; ++wave) {
    for (v1::RangePoint& p : *table.mutable_points()) {
      p.clear_times();
      for (const std::string& a : table.compared()) {
        v1::VariantTime* time = p.add_times();
        time->set_median_ns(ns(a, p.size()));
        for (const std::string& b : table.compared()) {
          time->add_over(ns(a, p.size()) / ns(b, p.size()) - 0.002);
        }
      }
    }
    if (core::Refine(&table, wave) == 0) break;
  }
  core::SetDispatch(range, &table);
  double least = 2;
  for (int64_t m = low; m <= 8192; ++m) {
    least = std::min(least, ns(table.single(), m) / ns(VariantAt(table.dispatch(), m), m));
  }
  return least;
}

// One row behind the last whole wave of large tiles small ones are faster: steps begin where they
// are measured to, whether the same config runs on both sides of the edge or not.
TEST(Range, WavesOfTilesMakeItHardlySlowerAnywhere) {
  EXPECT_GT(LeastOverAllSizes({{64, 128, 0.01, 0.061}, {128, 256, 43.8, 0}}), 0.98);
  EXPECT_GT(LeastOverAllSizes({{64, 128, 0.01, 0.059}, {128, 256, 40.2, 0}}), 0.98);
  EXPECT_GT(LeastOverAllSizes({{64, 128, 0.01, 0.061}, {128, 256, 43.7, 0}, {128, 128, 24.2, 0}}),
            0.98);
}

// What is best at a measured size because its tiles are whole there is not what runs below it.
TEST(Range, WholeTilesAreNotTakenForAllBelowThem) {
  EXPECT_GT(LeastOverAllSizes({{512, 256, 17, 0.05, 0.06}, {128, 256, 43.8, 0}}, 300), 0.98);
}

// Much noise, of which every measurement of the same thing has the same: what seems to be slower
// does so each time.
TEST(Range, WhereItIsMeasuredSlowerItRunsTheSingleConfig) {
  int slower = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    InProcessFarm::Options options = Base(seed);
    options.space.seed = seed;
    options.space.noise = 0.3;
    options.space.spread = 1.2;
    InProcessFarm farm(options);
    const auto sweep = farm.RunSweep(RangeSpec());
    ExpectSound(farm, sweep, seed);
    const v1::RangeTable& table = sweep->winner().range();
    for (const v1::RangePoint& point : table.points()) {
      if (point.ratio_low() <= 1) continue;
      ++slower;
      EXPECT_EQ(VariantAt(table.dispatch(), point.size()), table.single())
          << "seed " << seed << " size " << point.size();
      EXPECT_THAT(sweep->summary().progress().message(),
                  ::testing::HasSubstr(absl::StrCat("M=", point.size(), " (")));
    }
  }
  EXPECT_GT(slower, 0) << "the test tests nothing";
}

TEST(Range, ACrashAtAnyTurnChangesNothing) {
  InProcessFarm quiet(Base(1));
  const auto first = quiet.RunSweep(RangeSpec());
  ExpectSound(quiet, first, 1);
  const std::string expected = Outcome(*first);
  const int turns = quiet.turns();
  ASSERT_GT(turns, 50);
  for (int point = 0; point < 3; ++point) {
    for (int turn = 1 + point; turn <= turns; turn += 3) {
      InProcessFarm::Options options = Base(1);
      options.faults.crash_at_turn = turn;
      options.faults.crash_point = static_cast<Faults::Point>(point);
      InProcessFarm farm(options);
      const auto sweep = farm.RunSweep(RangeSpec());
      ExpectSound(farm, sweep, turn);
      EXPECT_EQ(Outcome(*sweep), expected) << "turn " << turn << " point " << point;
    }
  }
}

TEST(Range, FaultsDelayButDoNotChangeTheResult) {
  InProcessFarm quiet(Base(1));
  const std::string expected = Outcome(*quiet.RunSweep(RangeSpec()));
  for (int seed = 1; seed <= 40; ++seed) {
    InProcessFarm::Options options = Base(seed);
    options.faults.worker_crash = 0.01;
    options.faults.stream_break = 0.005;
    options.faults.lost_message = 0.01;
    options.faults.repeated_result = 0.1;
    options.faults.worker_stall = 0.01;
    options.faults.lost_blob = 0.01;
    options.faults.coordinator_crash = 0.002;
    InProcessFarm farm(options);
    const auto sweep = farm.RunSweep(RangeSpec(), 7200);
    ExpectSound(farm, sweep, seed);
    EXPECT_EQ(Outcome(*sweep), expected) << "seed " << seed;
  }
}

TEST(Range, AConfigThatIsWrongSomewhereIsInNoStep) {
  int dropped = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    InProcessFarm::Options options = Base(seed);
    options.space.seed = seed;
    options.space.wrong_above = 0.5;
    InProcessFarm farm(options);
    const auto sweep = farm.RunSweep(RangeSpec());
    ASSERT_TRUE(sweep.ok()) << sweep.status();
    if (sweep->summary().progress().state() != v1::DONE) {
      EXPECT_THAT(sweep->summary().progress().message(),
                  ::testing::HasSubstr("no config works at every size"));
      continue;
    }
    const v1::RangeTable& table = sweep->winner().range();
    dropped += table.dropped_size();
    for (const std::string& config : table.dispatch().variants()) {
      EXPECT_EQ(SpaceAt(options, table, 1024).Of(config), Behaviour::kFine) << "seed " << seed;
    }
  }
  EXPECT_GT(dropped, 0);
}

TEST(Range, ASizeWithoutALegalConfigIsServedByTheOthers) {
  InProcessFarm::Options options = Base(1);
  options.space.no_config_at = {1, 200};
  InProcessFarm farm(options);
  const auto sweep = farm.RunSweep(RangeSpec());
  ExpectSound(farm, sweep, 1);
  const v1::RangeTable& table = sweep->winner().range();
  EXPECT_THAT(table.points(0).failure(), ::testing::HasSubstr("no config is legal at M=1"));
  EXPECT_GT(table.points(0).dispatched_ns(), 0);

  options.space.no_config_at = {1, 32, 200, 1024};
  InProcessFarm none(options);
  const auto refused = none.RunSweep(RangeSpec());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
}

// Sizes that the kernel does not take are left out, and the others decide; ends must be taken.
TEST(Range, SizesThatTheKernelRefusesAreLeftOut) {
  int refused = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    InProcessFarm::Options options = Base(seed);
    options.space.seed = seed;
    options.space.multiples_of = 16;
    InProcessFarm farm(options);
    v1::SweepSpec spec = RangeSpec(16, 1024);
    const auto sweep = farm.RunSweep(spec);
    ExpectSound(farm, sweep, seed);
    const v1::RangeTable& table = sweep->winner().range();
    std::set<int64_t> sizes;
    for (const v1::RangePoint& point : table.points()) {
      EXPECT_TRUE(sizes.insert(point.size()).second) << point.size() << " is there twice";
      EXPECT_EQ(point.refused(), point.size() % 16 != 0) << point.size();
      if (!point.refused()) {
        EXPECT_GT(point.dispatched_ns(), 0) << "seed " << seed << " size " << point.size();
        continue;
      }
      ++refused;
      EXPECT_THAT(point.failure(), ::testing::HasSubstr("is no multiple"));
      EXPECT_TRUE(point.times().empty());
      EXPECT_THAT(sweep->summary().progress().message(),
                  ::testing::HasSubstr(absl::StrCat("M=", point.size())));
    }
    EXPECT_EQ(sweep->summary().progress().done(), sweep->summary().progress().total());
  }
  EXPECT_GT(refused, 6);
  InProcessFarm::Options options = Base(1);
  options.space.multiples_of = 16;
  InProcessFarm quiet(options);
  const std::string expected = Outcome(*quiet.RunSweep(RangeSpec(16, 1024)));
  for (int turn = 1; turn <= quiet.turns(); turn += 5) {
    options.faults.crash_at_turn = turn;
    InProcessFarm farm(options);
    const auto sweep = farm.RunSweep(RangeSpec(16, 1024));
    ExpectSound(farm, sweep, turn);
    EXPECT_EQ(Outcome(*sweep), expected) << "turn " << turn;
  }
  for (const auto& [low, high] : {std::pair{17, 1024}, std::pair{16, 1023}}) {
    InProcessFarm::Options options = Base(1);
    options.space.multiples_of = 16;
    InProcessFarm farm(options);
    const auto sweep = farm.RunSweep(RangeSpec(low, high));
    ASSERT_TRUE(sweep.ok()) << sweep.status();
    EXPECT_EQ(sweep->summary().progress().state(), v1::FAILED);
    EXPECT_THAT(
        sweep->summary().progress().message(),
        ::testing::HasSubstr(absl::StrCat("the kernel does not take M=", low == 17 ? low : high,
                                          ", an end of the range: M=")));
  }
}

TEST(Range, ShareDoneGrowsToOneAndKnowsThatTuningIsMore) {
  v1::ShapeRange range;
  range.set_name("M");
  for (const int64_t size : {1, 16, 256}) range.add_points(size);
  v1::RangeTable table = core::EmptyTable(range);
  double share = core::ShareDone(table, 8, 0);
  EXPECT_EQ(share, 0);
  const auto grows = [&](double tuning, double least, double most) {
    const double now = core::ShareDone(table, 8, tuning);
    EXPECT_GT(now, share);
    EXPECT_GT(now, least);
    EXPECT_LT(now, most);
    share = now;
  };
  grows(1.5, 0.3, 0.5);  // three half done
  for (v1::RangePoint& point : *table.mutable_points()) point.set_winner("a");
  core::StartComparison(&table);
  grows(0, 0.6, 0.8);  // of 24 and 10 more
  for (v1::RangePoint& point : *table.mutable_points()) point.add_times();
  grows(0, 0.8, 0.9);
  core::Refuse(4, "odd", &table);
  for (v1::RangePoint& point : *table.mutable_points()) point.set_dispatched_ns(1);
  grows(0, 0.999, 1.001);
}

TEST(Range, IsAnsweredFromTheStoreTheSecondTime) {
  InProcessFarm farm(Base(1));
  const auto first = farm.RunSweep(RangeSpec());
  ExpectSound(farm, first, 1);
  const int64_t leases = farm.leases_seen();
  const core::RequestId request = farm.Submit(RangeSpec());
  ASSERT_TRUE(farm.RunUntil([&] { return farm.ReplyTo(request) != nullptr; }, 60));
  const auto& reply = std::get<v1::SubmitSweepResponse>(**farm.ReplyTo(request));
  EXPECT_TRUE(reply.answered());
  EXPECT_EQ(reply.winner().artifact().digest(), first->winner().artifact().digest());
  EXPECT_EQ(farm.leases_seen(), leases);
}

TEST(Range, ItsSweepsEndWithIt) {
  InProcessFarm farm(Base(1));
  const core::RequestId request = farm.Submit(RangeSpec());
  ASSERT_TRUE(farm.RunUntil([&] { return farm.ReplyTo(request) != nullptr; }, 60));
  const std::string sweep = std::get<v1::SubmitSweepResponse>(**farm.ReplyTo(request)).sweep();
  ASSERT_TRUE(farm.RunUntil([&] { return farm.stats().active_sweeps > 1; }, 60));
  core::Cancel cancel;
  cancel.sweep = sweep;
  farm.Ask(cancel);
  EXPECT_TRUE(farm.RunUntil([&] { return farm.stats().active_sweeps == 0; }, 60));
  EXPECT_EQ(farm.Stored(sweep)->summary().progress().state(), v1::CANCELLED);
}

}  // namespace
}  // namespace kiln::testing

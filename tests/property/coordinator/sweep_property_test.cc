// Laws of the farm, over many seeds: every sweep ends; what was acknowledged is never leased again;
// the winner does not depend on delays, faults or restarts; a crash at any turn loses nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/util/in_process_farm.h"

namespace kiln::testing {
namespace {

InProcessFarm::Options Base(uint64_t seed) {
  InProcessFarm::Options options = FaultySpace(seed);
  options.workers = {{2, 1}, {2, 1}, {4, 0}};
  return options;
}

std::string Winner(const v1::GetSweepResponse& sweep) { return sweep.winner().config(); }

void ExpectSound(const InProcessFarm& farm, const absl::StatusOr<v1::GetSweepResponse>& sweep,
                 uint64_t seed) {
  ASSERT_TRUE(sweep.ok()) << "seed " << seed << ": " << sweep.status();
  EXPECT_EQ(sweep->summary().progress().state(), v1::DONE)
      << "seed " << seed << ": " << sweep->summary().progress().message();
  EXPECT_THAT(farm.violations(), ::testing::IsEmpty()) << "seed " << seed;
  // Whatever was lost on the way: the winner's own time is of samples that did not choose it.
  EXPECT_EQ(sweep->winner().measurement().round(), "fresh") << "seed " << seed;
}

TEST(SweepProperty, QuietFarmFindsTheSameWinnerUnderEverySchedule) {
  std::set<std::string> winners;
  for (int seed = 1; seed <= Seeds(40); ++seed) {
    InProcessFarm farm(Base(seed));
    const auto sweep = farm.RunSweep(FakeSpec());
    ExpectSound(farm, sweep, seed);
    winners.insert(Winner(*sweep));
    for (const v1::Candidate& c : sweep->candidates()) {
      EXPECT_EQ(farm.compiles(c.config()), 1) << c.config() << " seed " << seed;
    }
  }
  EXPECT_EQ(winners.size(), 1u) << absl::StrJoin(winners, " | ");
}

// A race that would learn no more than the screen did is not run, also when the coordinator dies
// meanwhile; the last one is, and what wins is no other.
TEST(SweepProperty, ShortLaunchesSkipTheFirstRoundOfTheRace) {
  v1::SweepSpec spec = FakeSpec();
  spec.set_top_k(48);
  const auto rounds = [](const v1::GetSweepResponse& sweep) {
    std::set<std::string> seen;
    for (const v1::Candidate& c : sweep.candidates()) {
      for (const v1::Measurement& m : c.measurements()) seen.insert(m.round());
    }
    return seen;
  };
  InProcessFarm::Options options = Base(1);
  options.space.spread = 1.2;
  InProcessFarm long_launches(options);
  const auto all = long_launches.RunSweep(spec);
  ExpectSound(long_launches, all, 1);
  EXPECT_THAT(rounds(*all), ::testing::ElementsAre("finals", "race-1", "race-2", "screen"));
  options.space.screen_samples = 25;
  for (int turn = 0; turn <= 60; ++turn) {
    options.faults.crash_at_turn = turn;  // 0: at none
    InProcessFarm farm(options);
    const auto sweep = farm.RunSweep(spec);
    ExpectSound(farm, sweep, turn);
    EXPECT_THAT(rounds(*sweep), ::testing::ElementsAre("finals", "race-2", "screen")) << turn;
    EXPECT_EQ(Winner(*sweep), Winner(*all)) << turn;
  }
}

TEST(SweepProperty, FaultsDelayButDoNotChangeTheWinner) {
  InProcessFarm quiet(Base(1));
  const std::string expected = Winner(*quiet.RunSweep(FakeSpec()));
  for (int seed = 1; seed <= Seeds(150); ++seed) {
    InProcessFarm::Options options = Base(seed);
    options.faults.worker_crash = 0.03;
    options.faults.stream_break = 0.01;
    options.faults.lost_message = 0.02;
    options.faults.repeated_result = 0.1;
    options.faults.worker_stall = 0.03;
    options.faults.lost_blob = 0.02;
    options.faults.coordinator_crash = 0.003;
    InProcessFarm farm(options);
    const auto sweep = farm.RunSweep(FakeSpec());
    ExpectSound(farm, sweep, seed);
    EXPECT_EQ(Winner(*sweep), expected) << "seed " << seed;
  }
}

TEST(SweepProperty, ACrashAtAnyTurnLosesNothing) {
  InProcessFarm quiet(Base(1));
  const std::string expected = Winner(*quiet.RunSweep(FakeSpec()));
  const int turns = quiet.turns();
  ASSERT_GT(turns, 20);
  for (int point = 0; point < 3; ++point) {
    for (int turn = 1; turn <= turns; ++turn) {
      InProcessFarm::Options options = Base(1);
      options.faults.crash_at_turn = turn;
      options.faults.crash_point = static_cast<Faults::Point>(point);
      InProcessFarm farm(options);
      const auto sweep = farm.RunSweep(FakeSpec());
      ExpectSound(farm, sweep, turn);
      EXPECT_EQ(Winner(*sweep), expected) << "turn " << turn << " point " << point;
      // The workers outlive the crash, so what they ran counts: nothing is compiled twice.
      for (const v1::Candidate& c : sweep->candidates()) {
        EXPECT_EQ(farm.compiles(c.config()), 1)
            << c.config() << " turn " << turn << " point " << point;
      }
    }
  }
}

TEST(SweepProperty, HostileCandidatesAreContained) {
  for (int seed = 1; seed <= Seeds(60); ++seed) {
    InProcessFarm::Options options = Base(seed);
    options.space.seed = seed;
    options.space.kills_compiler = 0.08;
    options.space.kills_runner = 0.12;
    options.space.kills_worker = 0.04;
    options.faults.coordinator_crash = 0.002;
    InProcessFarm farm(options);
    v1::SweepSpec spec = FakeSpec();
    spec.set_strategy(seed % 2 == 0 ? "exhaustive" : "recommended");
    const auto sweep = farm.RunSweep(spec);
    ExpectSound(farm, sweep, seed);
    const FakeSpace space = SpaceOf(options.space, spec.arguments());
    EXPECT_EQ(space.Of(Winner(*sweep)), Behaviour::kFine) << "seed " << seed;
    for (const v1::Candidate& c : sweep->candidates()) {
      const Behaviour behaviour = space.Of(c.config());
      const bool fine = behaviour == Behaviour::kFine;
      if (c.state() == v1::CANDIDATE_FAILED) {
        EXPECT_FALSE(fine) << c.config() << ": " << c.failure().message() << " seed " << seed;
      }
      if (c.state() == v1::CANDIDATE_DONE) {
        EXPECT_TRUE(fine) << c.config() << " seed " << seed;
      }
      if (behaviour == Behaviour::kKillsCompiler) {
        EXPECT_LE(c.attempts(), 2) << c.config() << " seed " << seed;
      }
    }
  }
}

// Who wins has its proofs, whatever happens on the way, and no other is blamed.
TEST(SweepProperty, TheWinnerHasItsProofs) {
  int wrong = 0, wrong_plain = 0;
  for (int seed = 1; seed <= Seeds(60); ++seed) {
    InProcessFarm::Options options = Base(seed);
    options.space.seed = seed;
    options.space.ragged = true;
    options.space.wrong_ragged = 0.3;
    options.space.plain = true;
    options.space.wrong_plain = 0.2;
    options.space.kills_runner = 0.05;
    if (seed % 2 == 0) {
      options.faults.worker_crash = 0.02;
      options.faults.lost_message = 0.02;
      options.faults.repeated_result = 0.1;
      options.faults.lost_blob = 0.02;
      options.faults.coordinator_crash = 0.003;
    }
    InProcessFarm farm(options);
    const v1::SweepSpec spec = FakeSpec();
    const auto sweep = farm.RunSweep(spec);
    ASSERT_TRUE(sweep.ok()) << sweep.status();
    const FakeSpace space = SpaceOf(options.space, spec.arguments());
    bool any = false;  // of those that were tried
    for (const v1::Candidate& c : sweep->candidates()) {
      any |= space.Of(c.config()) == Behaviour::kFine;
    }
    if (!any) {
      EXPECT_EQ(sweep->summary().progress().state(), v1::FAILED) << "seed " << seed;
      continue;
    }
    ExpectSound(farm, sweep, seed);
    EXPECT_EQ(space.Of(Winner(*sweep)), Behaviour::kFine) << "seed " << seed;
    EXPECT_THAT(sweep->winner().measurement().check_summary(),
                ::testing::AllOf(::testing::HasSubstr("; at N=208"),
                                 ::testing::HasSubstr("its plain code: right")))
        << "seed " << seed;
    for (const v1::Candidate& c : sweep->candidates()) {
      if (space.Of(c.config()) == Behaviour::kFine) {
        EXPECT_NE(c.state(), v1::CANDIDATE_FAILED) << c.config() << " seed " << seed;
      }
      const bool beside_plain = space.Of(c.config()) == Behaviour::kWrongPlain;
      wrong_plain += beside_plain && c.has_failure();
      if (space.Of(c.config()) != Behaviour::kWrongRagged || !c.has_failure()) continue;
      EXPECT_THAT(c.failure().message(), ::testing::StartsWith("at N=208: C[207,4]"));
      ++wrong;
    }
  }
  EXPECT_GT(wrong, 10);
  EXPECT_GT(wrong_plain, 5);
}

TEST(SweepProperty, TheWinnerIsTheBestOfTheWholeSpaceWithinTheNoise) {
  for (int seed = 1; seed <= Seeds(30); ++seed) {
    InProcessFarm::Options options = Base(seed);
    options.space.seed = seed;
    InProcessFarm farm(options);
    v1::SweepSpec spec = FakeSpec();
    spec.set_strategy("exhaustive");
    // As many as tell 0.5 % from a tie: of 40 the interval of a ratio is as wide as that.
    spec.mutable_measurement()->set_max_samples(200);
    const auto sweep = farm.RunSweep(spec);
    ExpectSound(farm, sweep, seed);
    const FakeSpace space = SpaceOf(options.space, spec.arguments());
    EXPECT_LE(space.TrueNs(Winner(*sweep)), space.BestNs() * 1.005) << "seed " << seed;
  }
}

TEST(SweepProperty, ManySweepsOfManyUsersAllEnd) {
  for (int seed = 1; seed <= Seeds(8); ++seed) {
    InProcessFarm::Options options = Base(seed);
    options.faults.worker_crash = 0.01;
    options.faults.coordinator_crash = 0.001;
    options.faults.stream_break = 0.003;
    InProcessFarm farm(options);
    std::map<core::RequestId, v1::SweepSpec> asked;
    for (int i = 0; i < 12; ++i) {
      v1::SweepSpec spec = FakeSpec(absl::StrCat(i / 2));  // pairs share all compilations
      spec.set_user(absl::StrCat("user", i % 3));
      spec.set_strategy(i % 4 == 3 ? "random" : "recommended");
      spec.set_max_candidates(i % 4 == 3 ? 10 : 0);
      spec.set_seed(i % 2);
      spec.set_priority(20 * (i % 5) - 40);
      asked[farm.Submit(spec)] = spec;
    }
    for (const auto& [request, spec] : asked) {
      const auto sweep = farm.RunSweep(spec);
      ExpectSound(farm, sweep, seed);
    }
  }
}

}  // namespace
}  // namespace kiln::testing

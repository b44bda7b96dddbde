#include "worker/profile/measure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <tuple>

#include "tests/unit/worker/profile_fixture.h"
#include "worker/elapsed.h"

namespace kiln::worker {
namespace {

constexpr int64_t kMiB = 1 << 20;

TEST(PlanRotationTest, ColdCopiesExceedTwiceTheCache) {
  for (int64_t footprint : {1, 1000, 500'000, 100'000'000, 700'000'000}) {
    RotationPlan plan =
        PlanRotation(v1::MeasurementPolicy::COLD, footprint, 600 * kMiB, 1024 * kMiB, 2);
    EXPECT_GE(plan.copies, 2) << footprint;
    EXPECT_EQ(plan.bytes, plan.copies * footprint);
    if (footprint < 200'000) {
      EXPECT_FALSE(plan.reached) << "the number of copies is bounded, and the plan says so";
      continue;
    }
    EXPECT_TRUE(plan.reached) << footprint;
    // A copy has left the cache when the others alone fill twice of it.
    if (plan.copies > 2) {
      EXPECT_GE((plan.copies - 1) * footprint, 600 * kMiB) << footprint;
    }
  }
}

TEST(PlanRotationTest, TheCapHoldsAndIsConfessed) {
  RotationPlan plan =
      PlanRotation(v1::MeasurementPolicy::COLD, 100 * kMiB, 4096 * kMiB, 1024 * kMiB, 2);
  EXPECT_LE(plan.bytes, 1024 * kMiB);
  EXPECT_FALSE(plan.reached);
}

TEST(PlanRotationTest, WarmNeedsNoCopiesButThoseOfTheSeeds) {
  EXPECT_EQ(PlanRotation(v1::MeasurementPolicy::WARM, 1000, 600 * kMiB, 1024 * kMiB, 2).copies, 2);
}

class MeterTest : public testing::Test {
 protected:
  MeterTest() {
    manifest_ = *BindManifest(*ParseManifest(AffineManifest(4, 4, "float32")), {});
    tensors_ = *TensorSet::Create(&device_, manifest_, 5, {1, 2});
    policy_.set_min_seconds(1e-4);
  }
  Contestant Add(const std::string& name, FakeDevice::Script script) {
    device_.Define(name, std::move(script));
    v1::ArtifactBundle bundle;
    bundle.set_name(name);
    kernels_.push_back(*device_.Load(bundle, 0));
    return {name, kernels_.back().get(), &manifest_};
  }
  Meter MakeMeter() {
    return Meter(&device_, tensors_.get(), policy_,
                 [this](const std::string& config) { touched_.push_back(config); });
  }

  FakeDevice device_{11};
  BoundManifest manifest_;
  std::unique_ptr<TensorSet> tensors_;
  v1::MeasurementPolicy policy_;
  std::vector<std::unique_ptr<LoadedKernel>> kernels_;
  std::vector<std::string> touched_;
};

TEST_F(MeterTest, AScreenTakesWhatIsAskedForAndJournalsFirst) {
  Contestant slow = Add("slow", {nullptr, 10e6});
  Meter meter = MakeMeter();
  absl::StatusOr<Timing> timing = meter.Screen(slow, 5, 0);
  ASSERT_TRUE(timing.ok());
  EXPECT_EQ(timing->samples_ns.size(), 5u);
  EXPECT_EQ(timing->summary.median, 10e6);
  EXPECT_EQ(touched_, std::vector<std::string>{"slow"});
  Contestant fast = Add("fast", {nullptr, 1000});
  timing = meter.Screen(fast, 5, 0);
  EXPECT_EQ(timing->samples_ns.size(), 50u) << "short launches: ten times as many, no more";
}

TEST_F(MeterTest, AScreenOfShortLaunchesIsAFewBatches) {
  Contestant kernel = Add("k", {nullptr, 200e3});
  device_.set_warm_up_launches(3);
  const absl::StatusOr<Timing> timing = MakeMeter().Screen(kernel, 5, 0);
  ASSERT_TRUE(timing.ok());
  EXPECT_EQ(timing->samples_ns.size(), 25u) << "5 ms of kernel time, and no more";
  EXPECT_EQ(device_.batches(), (std::vector<int>{1, 2, 1, 1, 3, 16, 4}))
      << "the warm-up, two looks at one launch, what is asked for, what is missing to 5 ms";
}

TEST_F(MeterTest, TheWarmUpEndsWithItsLaunchesOrItsTime) {
  const auto warm_up = [&](const char* name, double ns) {
    const size_t before = device_.timed().size();
    const absl::StatusOr<Timing> timing = MakeMeter().Screen(Add(name, {nullptr, ns}), 5, 0);
    return device_.timed().size() - before - timing->samples_ns.size();
  };
  EXPECT_EQ(warm_up("short", 1e3), 10u);
  EXPECT_EQ(warm_up("middling", 3e6), 4u);
  EXPECT_EQ(warm_up("long", 20e6), 1u);
  device_.set_warm_up_launches(3);
  EXPECT_EQ(warm_up("short3", 1e3), 3u);
}

// What is beyond every screen's bound needs no precision, but what it has is a time.
TEST_F(MeterTest, ASlowCandidateIsScreenedNoFurtherThanAsked) {
  Meter meter = MakeMeter();
  const absl::StatusOr<Timing> slow = meter.Screen(Add("slow", {nullptr, 180e3, 0.01}), 5, 100e3);
  ASSERT_TRUE(slow.ok());
  EXPECT_EQ(slow->samples_ns.size(), 5u);
  EXPECT_TRUE(slow->out_raced);
  EXPECT_NEAR(slow->summary.median, 180e3, 2e3);
  const absl::StatusOr<Timing> kept = meter.Screen(Add("kept", {nullptr, 155e3, 0.01}), 5, 100e3);
  ASSERT_TRUE(kept.ok());
  EXPECT_GE(kept->samples_ns.size(), 32u);
  EXPECT_FALSE(kept->out_raced);
}

TEST_F(MeterTest, LongLaunchesNeedFewerSamples) {
  Meter meter = MakeMeter();
  EXPECT_EQ(meter.Screen(Add("long", {nullptr, 200e6}), 5, 0)->samples_ns.size(), 3u);
  EXPECT_EQ(meter.Screen(Add("longer", {nullptr, 2000e6}), 20, 0)->samples_ns.size(), 3u);
  EXPECT_EQ(meter.Screen(Add("short", {nullptr, 50e6}), 20, 0)->samples_ns.size(), 20u);
}

TEST_F(MeterTest, ColdRotatesAndWarmDoesNot) {
  Contestant kernel = Add("k", {nullptr, 10e6});
  ASSERT_TRUE(MakeMeter().Screen(kernel, 10, 0).ok());
  std::set<void*> cold(device_.timed_addresses().begin(), device_.timed_addresses().end());
  EXPECT_EQ(cold.size(), 5u);
  for (size_t i = 1; i < device_.timed_addresses().size(); ++i) {
    EXPECT_NE(device_.timed_addresses()[i], device_.timed_addresses()[i - 1]);
  }
  policy_.set_cache(v1::MeasurementPolicy::WARM);
  size_t before = device_.timed_addresses().size();
  ASSERT_TRUE(MakeMeter().Screen(kernel, 10, 0).ok());
  std::set<void*> warm(device_.timed_addresses().begin() + static_cast<int64_t>(before),
                       device_.timed_addresses().end());
  EXPECT_EQ(warm.size(), 1u);
}

TEST_F(MeterTest, AHopelessCandidateIsStoppedEarlyAndAGoodOneIsNot) {
  Contestant hopeless = Add("hopeless", {nullptr, 40e6});
  Contestant good = Add("good", {nullptr, 20e6});
  Meter meter = MakeMeter();
  absl::StatusOr<Timing> timing = meter.Screen(hopeless, 50, 10e6);
  ASSERT_TRUE(timing.ok());
  EXPECT_TRUE(timing->out_raced);
  EXPECT_LE(timing->samples_ns.size(), 3u);
  EXPECT_EQ(timing->summary.median, 40e6) << "it still has an honest time";
  timing = meter.Screen(good, 50, 10e6);
  EXPECT_FALSE(timing->out_raced);
  EXPECT_EQ(timing->samples_ns.size(), 50u);
}

TEST_F(MeterTest, DisturbedSamplesAreDroppedAndCounted) {
  Contestant kernel = Add("k", {nullptr, 10e6, 0.001, 0.3, 1.5});
  absl::StatusOr<Timing> timing = MakeMeter().Screen(kernel, 100, 0);
  ASSERT_TRUE(timing.ok());
  EXPECT_GT(timing->dropped, 10);
  EXPECT_EQ(timing->samples_ns.size(), 100u) << "dropped samples are replaced";
  EXPECT_NEAR(timing->summary.median, 10e6, 0.02e6);
}

TEST_F(MeterTest, FinalsInterleaveAndRotateTheOrder) {
  std::vector<Contestant> contestants = {Add("a", {nullptr, 5e6, 0.01}),
                                         Add("b", {nullptr, 5.01e6, 0.01}),
                                         Add("c", {nullptr, 5.02e6, 0.01})};
  policy_.set_min_samples(9);
  policy_.set_max_samples(9);
  std::vector<absl::StatusOr<Timing>> timings = MakeMeter().Finals(contestants);
  ASSERT_EQ(timings.size(), 3u);
  for (const absl::StatusOr<Timing>& timing : timings) {
    ASSERT_TRUE(timing.ok());
    EXPECT_EQ(timing->samples_ns.size(), 9u);
  }
  // The rounds are the last 27 launches: a b c, b c a, c a b, ...
  std::vector<std::string> rounds(device_.timed().end() - 27, device_.timed().end());
  for (size_t round = 0; round < 9; ++round) {
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(rounds[round * 3 + i], contestants[(i + round) % 3].config) << round;
    }
  }
}

TEST_F(MeterTest, FinalsKeepPairsTogetherWhenTheyDrop) {
  // Every body counts rounds; a disturbed round must vanish for all.
  std::vector<Contestant> contestants = {Add("a", {nullptr, 5e6, 0.001, 0.2, 2}),
                                         Add("b", {nullptr, 5e6, 0.001, 0, 2})};
  policy_.set_min_samples(40);
  policy_.set_max_samples(60);
  std::vector<absl::StatusOr<Timing>> timings = MakeMeter().Finals(contestants);
  EXPECT_EQ(timings[0]->samples_ns.size(), timings[1]->samples_ns.size());
  EXPECT_GT(timings[1]->dropped, 0) << "undisturbed, but its partner was not";
  EXPECT_EQ(timings[0]->dropped, timings[1]->dropped);
}

TEST_F(MeterTest, ABeatenFinalistStopsEarly) {
  std::vector<Contestant> contestants = {Add("a", {nullptr, 5e6, 0.02}),
                                         Add("slow", {nullptr, 10e6, 0.02})};
  policy_.set_min_samples(100);
  policy_.set_max_samples(100);
  std::vector<absl::StatusOr<Timing>> timings = MakeMeter().Finals(contestants);
  EXPECT_EQ(timings[0]->samples_ns.size(), 100u);
  EXPECT_LT(timings[1]->samples_ns.size(), 20u);
  EXPECT_TRUE(timings[1]->out_raced);
}

// By little, but beyond doubt; only where the winner alone counts.
TEST_F(MeterTest, WhereOneWinsWhoIsOutdoneRoundForRoundStops) {
  std::vector<Contestant> contestants = {Add("a", {nullptr, 200e3, 0.02}),
                                         Add("outdone", {nullptr, 206e3, 0.02}),
                                         Add("tied", {nullptr, 200.3e3, 0.02})};
  policy_.set_min_samples(500);
  policy_.set_max_samples(500);
  std::vector<absl::StatusOr<Timing>> timings = MakeMeter().Finals(contestants, true);
  EXPECT_EQ(timings[0]->samples_ns.size(), 500u);
  EXPECT_EQ(timings[2]->samples_ns.size(), 500u);
  EXPECT_FALSE(timings[0]->out_raced || timings[2]->out_raced);
  EXPECT_TRUE(timings[1]->out_raced);
  EXPECT_LT(timings[1]->samples_ns.size(), 250u);
  EXPECT_GE(timings[1]->samples_ns.size(), 5 * 24u) << "not before 24 rounds";
  EXPECT_NEAR(timings[1]->summary.median, 206e3, 2e3);
  timings = MakeMeter().Finals(contestants);
  EXPECT_EQ(timings[1]->samples_ns.size(), 500u) << "where they are compared nobody stops";
}

TEST_F(MeterTest, NoiseOutdoesNobody) {
  policy_.set_min_samples(500);
  policy_.set_max_samples(500);
  for (int run = 0; run < 20; ++run) {
    std::vector<Contestant> contestants;
    for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
      contestants.push_back(Add(name, {nullptr, 200e3, 0.04}));
    }
    for (const absl::StatusOr<Timing>& timing : MakeMeter().Finals(contestants, true)) {
      EXPECT_FALSE(timing->out_raced) << run;
    }
  }
}

// Two steps of a clock may lie between times that are equal.
TEST_F(MeterTest, TheClocksOwnStepsOutdoNobody) {
  std::vector<Contestant> contestants = {Add("a", {nullptr, 2000}), Add("b", {nullptr, 2032})};
  policy_.set_min_samples(800);
  policy_.set_max_samples(800);
  for (const absl::StatusOr<Timing>& timing : MakeMeter().Finals(contestants, true)) {
    EXPECT_FALSE(timing->out_raced);
  }
}

// One that stops late has samples enough to be compared, so that they stay in their pairs.
TEST_F(MeterTest, WhoStopsLateStaysPaired) {
  std::vector<Contestant> contestants = {Add("a", {nullptr, 200e3, 0.02, 0.2, 1.5}),
                                         Add("outdone", {nullptr, 204e3, 0.02})};
  policy_.set_min_samples(130);
  policy_.set_max_samples(130);
  std::vector<absl::StatusOr<Timing>> timings = MakeMeter().Finals(contestants, true);
  ASSERT_TRUE(timings[1]->out_raced);
  EXPECT_GT(timings[1]->dropped, 0) << "undisturbed, but its partner was not";
}

TEST_F(MeterTest, ATurnIsOneBatchWhoseFirstLaunchDoesNotCount) {
  std::vector<Contestant> contestants = {Add("a", {nullptr, 200e3}), Add("b", {nullptr, 200e3})};
  policy_.set_min_samples(20);
  policy_.set_max_samples(20);
  const std::vector<absl::StatusOr<Timing>> timings = MakeMeter().Finals(contestants);
  EXPECT_EQ(timings[0]->samples_ns.size(), 20u);
  const std::vector<int> turns(device_.batches().end() - 8, device_.batches().end());
  EXPECT_EQ(turns, std::vector<int>(8, 6)) << "four turns each of five, and the one before";
}

// The few samples of one that stopped are its own: those of a disturbed rival do not take them.
TEST_F(MeterTest, ABeatenFinalistKeepsItsSamples) {
  std::vector<Contestant> contestants = {Add("a", {nullptr, 5e6, 0.001, 0.45, 1.2}),
                                         Add("slow", {nullptr, 20e6, 0.001})};
  policy_.set_min_samples(100);
  policy_.set_max_samples(100);
  std::vector<absl::StatusOr<Timing>> timings = MakeMeter().Finals(contestants);
  ASSERT_TRUE(timings[1]->out_raced);
  EXPECT_GT(timings[0]->dropped, 0);
  EXPECT_EQ(timings[1]->dropped, 0) << "nothing disturbed it";
  EXPECT_GE(timings[1]->samples_ns.size(), 5u);
  EXPECT_NEAR(timings[1]->summary.median, 20e6, 0.1e6);
}

TEST_F(MeterTest, SamplingGoesOnUntilPreciseEnough) {
  policy_.set_max_samples(5000);
  policy_.set_target_relative_error(0.002);
  policy_.set_min_seconds(0.05);
  auto count = [&](const char* name, double noise) {
    std::vector<Contestant> one = {Add(name, {nullptr, 5e6, noise})};
    std::vector<absl::StatusOr<Timing>> timings = MakeMeter().Finals(one);
    EXPECT_LE(timings[0]->summary.relative_error, 0.002);
    EXPECT_NEAR(timings[0]->summary.median, 5e6, 5e6 * 0.01);
    return timings[0]->samples_ns.size();
  };
  EXPECT_GT(count("noisy", 0.03), 2 * count("calm", 0.003));
}

TEST_F(MeterTest, AFailingFinalistDoesNotHarmTheOthers) {
  int launches = 0;
  std::vector<Contestant> contestants = {
      Add("a", {nullptr, 5e6}), Add("bad", {[&](const LaunchArguments&) {
                                              return ++launches > 15 ? absl::InternalError("broke")
                                                                     : absl::OkStatus();
                                            },
                                            5e6})};
  policy_.set_min_samples(30);
  std::vector<absl::StatusOr<Timing>> timings = MakeMeter().Finals(contestants);
  EXPECT_FALSE(timings[1].ok());
  ASSERT_TRUE(timings[0].ok());
  EXPECT_GE(timings[0]->samples_ns.size(), 30u);
}

// A GPU whose records end in the middle: by events the other one is faster.
class TwoSourcesTest : public MeterTest {
 protected:
  TwoSourcesTest() {
    a_ = Add("a", {nullptr, 100e3});
    b_ = Add("b", {nullptr, 102e3});
    device_.alter = [this](int launch, Sample* sample) {
      sample->source = launch < last_record_ ? TimeSource::kRecords : TimeSource::kEvents;
      sample->events_ns = device_.timed().back() == "a" ? 108e3 : 104e3;
      if (sample->source == TimeSource::kEvents) sample->ns = sample->events_ns;
      return absl::OkStatus();
    };
  }
  Contestant a_, b_;
  int last_record_ = 100'000;
};

TEST_F(TwoSourcesTest, AllFinalistsAreTimedByOneSource) {
  policy_.set_min_seconds(20e-3);
  for (const bool one_winner : {false, true}) {
    last_record_ = 100'000;
    auto timings = MakeMeter().Finals(std::vector<Contestant>{a_, b_}, one_winner);
    EXPECT_EQ(timings[0]->source, TimeSource::kRecords);
    EXPECT_EQ(timings[0]->summary.median, 100e3);
    EXPECT_EQ(timings[1]->summary.median, 102e3);
    const int launches = static_cast<int>(device_.timed().size());
    // In the warm-up, in the middle of the rounds, in the middle of a turn, near the end.
    for (const int after : {1, 40, 113, 190}) {
      last_record_ = static_cast<int>(device_.timed().size()) + after;
      timings = MakeMeter().Finals(std::vector<Contestant>{a_, b_}, one_winner);
      ASSERT_TRUE(timings[0].ok() && timings[1].ok());
      for (const auto& timing : timings) EXPECT_EQ(timing->source, TimeSource::kEvents) << after;
      EXPECT_EQ(Quantile(timings[0]->samples_ns, 0), 108e3) << after;
      EXPECT_EQ(Quantile(timings[0]->samples_ns, 1), 108e3) << after;
      EXPECT_EQ(Quantile(timings[1]->samples_ns, 0), 104e3) << after;
      EXPECT_EQ(Quantile(timings[1]->samples_ns, 1), 104e3) << after;
    }
    EXPECT_GT(launches, 200);
  }
}

// Who is behind by records is not outdone by turns of the other clock.
TEST_F(TwoSourcesTest, NobodyIsOutdoneAcrossSources) {
  policy_.set_min_seconds(30e-3);
  policy_.set_min_samples(600);
  last_record_ = 530;  // in the round before the first look, of 22 launches each
  const auto timings = MakeMeter().Finals(std::vector<Contestant>{a_, b_}, true);
  EXPECT_TRUE(timings[0]->out_raced) << "by events it is the slower one";
  EXPECT_FALSE(timings[1]->out_raced);
}

TEST_F(TwoSourcesTest, AScreenAndAMeasurementAloneAreOfOneSource) {
  for (const int after : {14, 20, 30}) {
    last_record_ = static_cast<int>(device_.timed().size()) + after;
    const absl::StatusOr<Timing> screen = MakeMeter().Screen(a_, 5, 0);
    ASSERT_TRUE(screen.ok());
    EXPECT_EQ(screen->source, TimeSource::kEvents);
    EXPECT_EQ(screen->summary.p25, 108e3) << after;
    EXPECT_EQ(Quantile(screen->samples_ns, 0), 108e3) << after;
  }
  last_record_ = static_cast<int>(device_.timed().size()) + 30;
  const absl::StatusOr<Timing> again = MakeMeter().Again(a_, 0.02);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->source, TimeSource::kEvents);
  EXPECT_EQ(Quantile(again->samples_ns, 0), 108e3);
}

// What is stored does not depend on the heat that the finals left; a long launch rests no longer
// than 20 ms, and nobody longer than the time for it allows.
TEST_F(MeterTest, ATimeThatIsStoredIsTakenByARestedDevice) {
  device_.set_rest_turns(9);
  Meter meter = MakeMeter();
  int number = 0;
  for (const auto& [ns, wall, rest] :
       {std::tuple{1e6, 0.15, 9e-3}, {100e6, 0.15, 20e-3}, {100e6, 0.05, 10e-3}, {1e6, 0.0, 0.0}}) {
    const Contestant kernel = Add(absl::StrCat("k", ++number), {nullptr, ns});
    const auto begin = std::chrono::steady_clock::now();
    const absl::StatusOr<Timing> timing = meter.Again(kernel, wall);
    const double seconds = SecondsSince(begin);
    ASSERT_TRUE(timing.ok());
    const auto turns = static_cast<double>(timing->samples_ns.size());
    EXPECT_GE(turns, 5);
    EXPECT_GE(seconds, turns * rest);
    EXPECT_LT(seconds, wall + 2 * rest + 0.2) << turns;
  }
}

// The next inputs in turn: those of the lost times are in the cache.
TEST_F(MeterTest, LostTimesAreTakenAgainOnOtherInputs) {
  Contestant kernel = Add("k", {nullptr, 6e6});
  std::vector<int> lost = {2, 4};
  device_.alter = [&](int launch, Sample*) {
    const bool bad = std::find(lost.begin(), lost.end(), launch) != lost.end();
    return bad ? absl::AbortedError("lost") : absl::OkStatus();
  };
  Meter meter = MakeMeter();
  const absl::StatusOr<Timing> timing = meter.Again(kernel, 0);
  ASSERT_TRUE(timing.ok());
  lost = {static_cast<int>(device_.timed().size())};
  const absl::StatusOr<Timing> screen = meter.Screen(kernel, 5, 0);
  ASSERT_TRUE(screen.ok()) << screen.status();
  const std::vector<void*>& at = device_.timed_addresses();
  for (size_t i = 1; i < at.size(); ++i) EXPECT_NE(at[i], at[i - 1]) << i;
}

}  // namespace
}  // namespace kiln::worker

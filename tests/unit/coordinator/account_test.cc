// What each part of a device's time means, one case after another.
#include "coordinator/core/account.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/core/stored_view.h"
#include "tests/unit/coordinator/core_rig.h"

namespace kiln::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr int64_t kClock = 77 * kNsPerSecond;  // the worker's is ahead by so much

// One sweep and one worker; a task is compiled and measured when the test says so.
class AccountTest : public ::testing::Test {
 protected:
  AccountTest() : connection_(rig_.Attach("w", 1, 1)) { sweep_ = Submit("1"); }

  std::string Submit(const std::string& problem, int candidates = 4) {
    v1::SweepSpec spec = FakeSpec(problem);
    spec.set_max_candidates(candidates);
    return rig_.Submit(spec)->sweep();
  }
  void Wait(double seconds) { rig_.clock()->AdvanceSeconds(seconds); }
  int64_t Now() { return rig_.clock()->Now().mono_ns; }

  // Leases not yet answered, of this kind and sweep.
  std::vector<v1::Task> Leased(bool compile, const std::string& sweep) {
    for (const v1::Task& task : rig_.Take(connection_)) held_.push_back(task);
    std::vector<v1::Task> found;
    std::erase_if(held_, [&](const v1::Task& task) {
      const bool take = (task.kind() == v1::TASK_COMPILE) == compile && task.sweep() == sweep;
      if (take) found.push_back(task);
      return take;
    });
    return found;
  }
  void CompileAll(const std::string& sweep) {
    for (std::vector<v1::Task> tasks = Leased(true, sweep); !tasks.empty();
         tasks = Leased(true, sweep)) {
      for (const v1::Task& task : tasks) rig_.Say(connection_, rig_.Run(task));
    }
  }
  // The worker says that it measured the task for so long, up to `ago` seconds before now.
  void Measured(const v1::Task& task, double seconds, double ago,
                const std::map<std::string, double>& stages) {
    v1::TaskResult result = rig_.Run(task);
    result.set_device("gpu0");
    result.set_ended_ns(Now() + kClock - SecondsToNs(ago));
    result.set_began_ns(result.ended_ns() - SecondsToNs(seconds));
    for (const auto& [stage, value] : stages) (*result.mutable_seconds())[stage] = value;
    v1::WorkerMessage message;
    message.mutable_results()->set_sent_ns(Now() + kClock);
    *message.mutable_results()->add_results() = result;
    rig_.Turn(core::WorkerSaid{connection_, message});
  }
  // Milliseconds by part.
  static std::map<std::string, int> Parts(const v1::GetSweepResponse& shown) {
    std::map<std::string, int> parts;
    if (shown.time().devices_size() != 1) return parts;
    for (const auto& [part, seconds] : shown.time().devices(0).seconds()) {
      parts[part] = static_cast<int>(seconds * 1e3 + 0.5);
    }
    return parts;
  }
  v1::GetSweepResponse Stored(const std::string& sweep) {
    return *core::StoredSweep(rig_.meta(), sweep, false);
  }

  CoreRig rig_;
  uint64_t connection_;
  std::string sweep_;
  std::vector<v1::Task> held_;
};

TEST_F(AccountTest, CompileThenMeasureWithTheWayThereAndBack) {
  Wait(2);
  CompileAll(sweep_);
  const std::vector<v1::Task> screens = Leased(false, sweep_);
  ASSERT_FALSE(screens.empty());
  Wait(0.25 + 1 + 0.05);  // on the way, measured, on the way back
  Measured(screens[0], 1, 0.05, {{"check", 0.2}, {"warmup", 0.1}, {"measure", 0.6}, {"odd", 0.05}});
  const v1::GetSweepResponse shown = rig_.Show(sweep_);
  EXPECT_THAT(Parts(shown),
              UnorderedElementsAre(Pair("first", 2000), Pair("handover", 300), Pair("check", 200),
                                   Pair("warmup", 100), Pair("measure", 600), Pair("other", 100)));
  EXPECT_EQ(shown.time().devices(0).device(), "w/gpu0");
  EXPECT_NEAR(shown.time().devices(0).idle_share(), 0.4 / 1.3, 1e-9);
  EXPECT_NEAR(shown.time().elapsed_seconds(), 3.3, 1e-9);
  EXPECT_THAT(shown.time().sweep(),
              UnorderedElementsAre(Pair("compile", ::testing::DoubleNear(2, 1e-6)),
                                   Pair("profile", ::testing::DoubleNear(1.3, 1e-6))));
}

TEST_F(AccountTest, OneDeviceOfTwoSweepsWorksForOthersOrWaitsInTheQueue) {
  const std::string other = Submit("2");
  CompileAll(sweep_);
  CompileAll(other);
  std::vector<v1::Task> mine = Leased(false, sweep_), theirs = Leased(false, other);
  ASSERT_FALSE(mine.empty());
  ASSERT_FALSE(theirs.empty());
  Wait(3);
  Measured(theirs[0], 2, 1, {{"measure", 2}});  // began at once
  Measured(mine[0], 1, 0, {{"measure", 1}});
  EXPECT_THAT(Parts(rig_.Show(sweep_)),
              UnorderedElementsAre(Pair("others", 2000), Pair("measure", 1000)));
  EXPECT_EQ(rig_.Show(sweep_).time().devices(0).idle_share(), 0);
  EXPECT_THAT(Parts(rig_.Show(other)),
              UnorderedElementsAre(Pair("measure", 2000), Pair("others", 1000)));
}

TEST_F(AccountTest, WhatRunsAtTheEndWasNeverReported) {
  CompileAll(sweep_);
  const std::vector<v1::Task> screens = Leased(false, sweep_);
  Wait(1);
  Measured(screens[0], 1, 0, {{"measure", 1}});
  ASSERT_FALSE(Leased(false, sweep_).empty()) << "the next one runs";
  Wait(4);
  EXPECT_THAT(Parts(rig_.Show(sweep_)),
              UnorderedElementsAre(Pair("measure", 1000), Pair("unreported", 4000)));
  rig_.Turn(core::Cancel{rig_.NewId(), sweep_, "enough"});
  Wait(10);
  EXPECT_THAT(Parts(Stored(sweep_)),
              UnorderedElementsAre(Pair("measure", 1000), Pair("unreported", 4000)));
  EXPECT_NEAR(Stored(sweep_).time().elapsed_seconds(), 5, 1e-9);
}

TEST_F(AccountTest, AWorkerThatIsAwayIsLostTime) {
  CompileAll(sweep_);
  const std::vector<v1::Task> screens = Leased(false, sweep_);
  Wait(1);
  Measured(screens[0], 1, 0, {{"measure", 1}});
  ASSERT_FALSE(Leased(false, sweep_).empty());
  rig_.Turn(core::WorkerDetached{connection_});
  for (int i = 0; i < 6; ++i) rig_.Advance(1);
  v1::Register info = CoreRig::Info("w", 1, 1);
  info.set_instance("2");
  connection_ = rig_.Attach(info);
  Wait(0.5);
  const std::vector<v1::Task> again = Leased(false, sweep_);
  ASSERT_FALSE(again.empty());
  Wait(1);
  Measured(again[0], 1, 0, {{"measure", 1}});
  EXPECT_THAT(
      Parts(rig_.Show(sweep_)),
      UnorderedElementsAre(Pair("measure", 2000), Pair("lost", 6000), Pair("handover", 500)));
}

TEST_F(AccountTest, AQuarantinedDeviceIsLost) {
  CompileAll(sweep_);
  const std::vector<v1::Task> screens = Leased(false, sweep_);
  Wait(1);
  Measured(screens[0], 1, 0, {{"measure", 1}});
  Wait(2);
  v1::WorkerMessage message;
  message.mutable_heartbeat()->add_quarantined()->set_device("gpu0");
  rig_.Turn(core::WorkerSaid{connection_, message});
  Wait(3);
  EXPECT_THAT(Parts(rig_.Show(sweep_)),
              UnorderedElementsAre(Pair("measure", 1000), Pair("lost", 5000)));
}

TEST_F(AccountTest, ARestartForgetsNothingThatWasTold) {
  Wait(2);
  CompileAll(sweep_);
  const std::vector<v1::Task> screens = Leased(false, sweep_);
  Wait(1);
  Measured(screens[0], 1, 0, {{"measure", 1}});
  Wait(100);
  rig_.Restart();  // nobody knows of these 100 s: no coordinator saw them
  Wait(0.5);
  connection_ = rig_.Attach("w", 1, 1);
  EXPECT_THAT(Parts(rig_.Show(sweep_)),
              UnorderedElementsAre(Pair("first", 2000), Pair("measure", 1000), Pair("lost", 500)));
  const v1::GetSweepResponse shown = rig_.Show(sweep_);
  EXPECT_NEAR(shown.time().elapsed_seconds(), 3.5, 1e-9);
  EXPECT_NEAR(shown.summary().progress().elapsed_seconds(), 3.5, 1e-9);
}

TEST_F(AccountTest, DevicesWaitForTheCompilerAndForEachOther) {
  // Bits of a situation by hand: what a device that does nothing waits for.
  core::Timeline timeline;
  timeline.Set(0, core::kCompileOpen | core::kCompileRuns);
  timeline.Set(10, core::kHasCompiled | core::kCompileOpen | core::kCompileRuns);
  timeline.Set(30, core::kHasCompiled | core::kProfileWaits | core::kProfileRuns);
  timeline.Set(60, core::kHasCompiled | core::kProfileRuns);
  timeline.Set(100, core::kHasCompiled);
  core::Lane lane;
  lane.SettleTo(timeline, 150, -1);
  EXPECT_EQ(lane.at(core::Part::kFirst), 10);
  EXPECT_EQ(lane.at(core::Part::kCompile), 20);
  EXPECT_EQ(lane.at(core::Part::kQueue), 30);
  EXPECT_EQ(lane.at(core::Part::kPeers), 40);
  EXPECT_EQ(lane.at(core::Part::kDecide), 50);
}

TEST_F(AccountTest, NoTimeIsCountedTwice) {
  core::Timeline timeline;
  timeline.Set(0, core::kHasCompiled);
  core::Lane lane;
  lane.Own(timeline, {0, 100, 0, 100}, {{"measure", 100e-9}});
  // Reports that overlap, lie in the past or in the future, with stages that are too long or none.
  lane.Own(timeline, {50, 150, 50, 150}, {{"measure", 80e-9}, {"check", 20e-9}});
  lane.Others(timeline, 20, 40);
  lane.Own(timeline, {500, 900, 0, 200}, {{"measure", 1}});
  EXPECT_EQ(lane.settled(), 200);
  EXPECT_EQ(lane.at(core::Part::kMeasure) + lane.at(core::Part::kCheck) +
                lane.at(core::Part::kOther) + lane.at(core::Part::kHandover),
            200);
  EXPECT_EQ(lane.at(core::Part::kOthers), 0);
  EXPECT_NEAR(lane.at(core::Part::kCheck), 10, 1);
}

TEST_F(AccountTest, CompileOnlyHasNoDeviceAndItsTimeAllTheSame) {
  v1::SweepSpec spec = FakeSpec("3");
  spec.set_objective(v1::SweepSpec::COMPILE);
  const std::string sweep = rig_.Submit(spec)->sweep();
  CompileAll(sweep_);
  Wait(1.5);
  CompileAll(sweep);
  const v1::GetSweepResponse shown = Stored(sweep);
  EXPECT_EQ(shown.time().devices_size(), 0);
  EXPECT_NEAR(shown.time().elapsed_seconds(), 1.5, 1e-9);
  EXPECT_EQ(shown.time().sweep().size(), 1u);
}

}  // namespace
}  // namespace kiln::testing

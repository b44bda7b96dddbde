// Programs that are barred, and what a cancelled sweep says of what it did not run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/coordinator/core_rig.h"

namespace kiln::testing {
namespace {

// What a worker says when each candidate's compile took a child with it.
v1::TaskResult Killing(const v1::Task& task) {
  v1::TaskResult result;
  result.set_task(task.id());
  result.set_epoch(task.epoch());
  for (const v1::TaskCandidate& candidate : task.candidates()) {
    v1::CandidateResult* const r = result.add_candidates();
    r->set_config(candidate.config());
    r->mutable_failure()->set_stage(v1::Failure::COMPILE);
    r->mutable_failure()->set_message("signal 11");
    r->mutable_failure()->set_killed_child(true);
  }
  return result;
}

// A bar is listed, outlives a restart, and is gone for good once it is lifted.
TEST(Core, ABarIsLiftedAlsoAcrossRestarts) {
  CoreRig rig;
  v1::SweepSpec spec = FakeSpec();
  spec.set_name("gemm");
  spec.add_configs("m=0,n=0,u=0");
  const auto run = [&](uint64_t worker) {
    int runs = 0;
    for (int round = 0; round < 5; ++round) {
      for (const v1::Task& task : rig.Take(worker)) {
        ++runs;
        rig.Say(worker, Killing(task));
      }
    }
    return runs;
  };
  const auto bars = [&] {
    const uint64_t request = rig.NewId();
    rig.Turn(core::ListBars{request});
    return *rig.Get<v1::ListBarsResponse>(request);
  };
  const auto lift = [&](std::vector<std::string> ids, bool all) {
    const uint64_t request = rig.NewId();
    rig.Turn(core::LiftBars{request, std::move(ids), all});
    return rig.Get<v1::LiftBarsResponse>(request);
  };
  const uint64_t a = rig.Attach("a", 1, 1);
  const std::string sweep = rig.Submit(spec)->sweep();
  EXPECT_EQ(bars().bars_size(), 0);
  ASSERT_EQ(run(a), 2);
  rig.Restart();
  const v1::ListBarsResponse listed = bars();
  ASSERT_EQ(listed.bars_size(), 1);
  EXPECT_EQ(listed.bars(0).config(), "m=0,n=0,u=0");
  EXPECT_EQ(listed.bars(0).sweep(), sweep);
  EXPECT_EQ(listed.bars(0).name(), "gemm");
  EXPECT_EQ(listed.bars(0).children(), 2);
  EXPECT_EQ(listed.bars(0).failure().stage(), v1::Failure::COMPILE);
  EXPECT_GT(listed.bars(0).last_unix_ms(), 0);
  const std::string id = listed.bars(0).id();
  EXPECT_TRUE(absl::IsNotFound(lift({id, "000000000000"}, false).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(lift({id.substr(0, 5)}, false).status()));
  EXPECT_EQ(bars().bars_size(), 1) << "a call that fails lifts nothing";
  EXPECT_EQ(lift({id.substr(0, 6)}, false)->lifted(0).id(), id);
  EXPECT_EQ(bars().bars_size(), 0);
  rig.Restart();
  EXPECT_EQ(bars().bars_size(), 0);
  const uint64_t b = rig.Attach("b", 1, 1);
  spec.set_seed(5);  // another sweep, the same program
  ASSERT_TRUE(rig.Submit(spec).ok());
  EXPECT_EQ(run(b), 2) << "two further chances";
  EXPECT_EQ(lift({}, true)->lifted_size(), 1);
  EXPECT_EQ(lift({}, true)->lifted_size(), 0);
}

TEST(Core, WhatACancelledSweepDidNotRunIsCounted) {
  CoreRig rig;
  const uint64_t a = rig.Attach("a", 2, 1);
  v1::SweepSpec spec = FakeSpec();
  spec.set_strategy("exhaustive");
  const std::string sweep = rig.Submit(spec)->sweep();
  for (int i = 0; i < 4; ++i) {
    for (const v1::Task& task : rig.Take(a)) rig.Say(a, rig.Run(task));
  }
  const uint64_t first = rig.NewId();
  rig.Turn(core::Cancel{first, sweep, "enough"});
  EXPECT_FALSE(rig.Get<v1::CancelSweepResponse>(first)->had_ended());
  const auto record = rig.meta()->GetSweep(sweep, true);
  const v1::SweepProgress& p = record->status.progress();
  int measured = 0, proposed = 0;
  for (const v1::CandidateRow& row : record->candidates) {
    proposed += row.proposed() ? 1 : 0;
    measured += row.screened_round() > 0 || row.candidate().has_failure() ||
                        !row.candidate().same_binary_as().empty()
                    ? 1
                    : 0;
  }
  EXPECT_GT(measured, 0);
  EXPECT_GT(p.not_run(), 0);
  EXPECT_EQ(p.total(), proposed);
  EXPECT_EQ(p.done() + p.failed() + p.skipped() - p.not_run(), measured);
}

}  // namespace
}  // namespace kiln::testing

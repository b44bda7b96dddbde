// Who gets the next lease.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/unit/coordinator/core_rig.h"

namespace kiln::testing {
namespace {

v1::SweepSpec EmptySpec(const std::string& user, int count, int priority = 0) {
  v1::SweepSpec spec;
  spec.set_template_("empty");
  spec.set_max_candidates(count);
  spec.set_user(user);
  spec.set_priority(priority);
  return spec;
}

v1::SweepSpec UserSpec(const std::string& user, const std::string& problem, int priority = 0) {
  v1::SweepSpec spec = FakeSpec(problem);
  spec.set_user(user);
  spec.set_priority(priority);
  spec.set_objective(v1::SweepSpec::COMPILE);  // one kind of slot, so that shares are exact
  return spec;
}

// Serves `count` compile tasks one by one and says whose they were.
std::map<std::string, int> Shares(CoreRig* rig, uint64_t worker, int count,
                                  const std::map<std::string, std::string>& user_of) {
  std::map<std::string, int> shares;
  while (count > 0) {
    const std::vector<v1::Task> tasks = rig->Take(worker);
    EXPECT_FALSE(tasks.empty());
    if (tasks.empty()) break;
    for (const v1::Task& task : tasks) {
      if (task.kind() == v1::TASK_COMPILE && count-- > 0) ++shares[user_of.at(task.sweep())];
      rig->clock()->AdvanceSeconds(0.01);
      rig->Say(worker, rig->Run(task));
    }
  }
  return shares;
}

SpaceModel Large() {
  SpaceModel space;
  space.configs = 800;
  return space;
}

TEST(Schedule, UsersShareEquallyHoweverManySweepsEachHas) {
  core::Options options;
  options.compile_batch = 1;
  CoreRig rig(options, Large());
  const uint64_t worker = rig.Attach("w", 1, 1);
  std::map<std::string, std::string> user_of;
  for (int i = 0; i < 6; ++i) {
    user_of[rig.Submit(UserSpec("greedy", absl::StrCat("g", i)))->sweep()] = "greedy";
  }
  user_of[rig.Submit(UserSpec("modest", "m"))->sweep()] = "modest";
  const auto shares = Shares(&rig, worker, 200, user_of);
  EXPECT_NEAR(shares.at("modest"), 100, 15);
}

TEST(Schedule, AHundredPointsOfPriorityAreTwiceTheShare) {
  core::Options options;
  options.compile_batch = 1;
  options.compile_queue_per_slot = 12;  // enough leases at a time to see the ratio
  CoreRig rig(options, Large());
  const uint64_t worker = rig.Attach("w", 1, 1);
  std::map<std::string, std::string> of;
  of[rig.Submit(UserSpec("u", "high", 100))->sweep()] = "high";
  of[rig.Submit(UserSpec("u", "low", 0))->sweep()] = "low";
  const auto shares = Shares(&rig, worker, 300, of);
  const double ratio = static_cast<double>(shares.at("high")) / shares.at("low");
  EXPECT_GT(ratio, 1.6);
  EXPECT_LT(ratio, 2.6);
}

TEST(Schedule, TheLowestPriorityIsNotStarved) {
  core::Options options;
  options.compile_batch = 1;
  CoreRig rig(options, Large());
  const uint64_t worker = rig.Attach("w", 1, 1);
  std::map<std::string, std::string> of;
  for (int i = 0; i < 5; ++i) {
    of[rig.Submit(UserSpec("u", absl::StrCat("high", i), 100))->sweep()] = "high";
  }
  of[rig.Submit(UserSpec("u", "low", -100))->sweep()] = "low";
  int low = 0;
  for (int i = 0; i < 400; ++i) {
    const std::vector<v1::Task> tasks = rig.Take(worker);
    for (const v1::Task& task : tasks) {
      low += task.kind() == v1::TASK_COMPILE && of.at(task.sweep()) == "low";
      rig.clock()->AdvanceSeconds(0.25);
      rig.Say(worker, rig.Run(task));
    }
  }
  EXPECT_GE(low, 3);
}

TEST(Schedule, FewTasksSpreadOverManyWorkers) {
  CoreRig rig;
  std::vector<uint64_t> workers;
  for (int i = 0; i < 8; ++i) workers.push_back(rig.Attach(absl::StrCat("w", i), 1, 1));
  ASSERT_TRUE(rig.Submit(FakeSpec()).ok());  // eight candidates
  for (uint64_t worker : workers) EXPECT_EQ(rig.Take(worker).size(), 1u);
}

TEST(Schedule, ALeaseIsWithinTheWorkersBounds) {
  CoreRig rig;
  const uint64_t worker = rig.Attach("w", 2, 0);
  rig.Attach("p", 0, 1);
  ASSERT_TRUE(rig.Submit(UserSpec("u", "1")).ok());
  EXPECT_EQ(rig.Take(worker).size(), 4u);  // two slots, two tasks each
  ASSERT_TRUE(rig.Submit(EmptySpec("u", 1000)).ok());
  EXPECT_EQ(rig.Take(worker).size(), 32u);
}

}  // namespace
}  // namespace kiln::testing

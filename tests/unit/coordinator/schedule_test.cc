// Who gets the next lease.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

#include "compiler/base/cuda_toolkit.h"
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

// A sweep whose workers have gone says what it waits for and what to do; a range says it for its
// parts.
TEST(Schedule, ASweepWithoutAWorkerSaysWhatToDo) {
  for (const bool range : {false, true}) {
    CoreRig rig;
    const uint64_t worker = rig.Attach("w", 2, 1);
    v1::SweepSpec spec = FakeSpec();
    if (range) {
      spec.mutable_range()->set_name("M");
      spec.mutable_range()->set_low(1);
      spec.mutable_range()->set_high(64);
    }
    const std::string sweep = rig.Submit(spec)->sweep();
    rig.Advance(0.1);
    EXPECT_EQ(rig.Show(sweep).summary().progress().message(), "") << range;
    rig.Turn(core::WorkerDetached{worker});
    for (int i = 0; i < 8; ++i) rig.Advance(1);
    const std::string message = rig.Show(sweep).summary().progress().message();
    EXPECT_THAT(message, ::testing::HasSubstr("waits for a worker with compiler build build-1"));
    EXPECT_THAT(message, ::testing::HasSubstr("start kiln-worker there"));
  }
}

// A device that has measured a candidate has its artifact loaded and its numbers checked.
TEST(Schedule, RacesGoBackToTheDevicesThatMeasuredTheirCandidates) {
  SpaceModel space = Large();
  space.spread = 1.1;  // so that many are still in the race when it is long
  space.noise = 0.1;
  CoreRig rig(core::Options(), space);
  std::map<std::string, uint64_t> workers;
  for (const char* name : {"v", "w"}) workers[name] = rig.Attach(name, 4, 1);
  v1::SweepSpec spec = FakeSpec();
  spec.set_top_k(96);
  ASSERT_TRUE(rig.Submit(spec).ok());
  std::map<std::string, std::string> last;  // config -> worker
  int kept = 0, moved = 0, named = 0;
  for (bool any = true; any;) {
    any = false;
    for (const auto& [name, connection] : workers) {
      for (const v1::Task& task : rig.Take(connection)) {
        any = true;
        if (task.kind() == v1::TASK_RACE && task.device() == "cpu") ++named;
        for (const v1::TaskCandidate& candidate : task.candidates()) {
          std::string& before = last[candidate.config()];
          if (task.kind() == v1::TASK_RACE) ++(before == name ? kept : moved);
          if (task.kind() == v1::TASK_SCREEN || task.kind() == v1::TASK_RACE) before = name;
        }
        rig.Say(connection, rig.Run(task, name));
      }
    }
  }
  EXPECT_GT(kept, 48);
  EXPECT_LT(moved * 5, kept) << "but for those that are left at a round's end";
  EXPECT_GT(named, 8);
}

TEST(Schedule, SaysWhyNobodyCanMeasureForATarget) {
  CoreRig rig;
  const auto nobody = [&](const std::string& target) {
    const uint64_t request = rig.NewId();
    rig.Turn(core::ListWorkers{request, target});
    return rig.Get<v1::ListWorkersResponse>(request)->nobody();
  };
  EXPECT_THAT(nobody("cpu"), ::testing::HasSubstr("no worker is attached"));
  EXPECT_EQ(nobody(""), "");
  rig.Attach("w", 2, 1);
  EXPECT_EQ(nobody("cpu"), "");
  EXPECT_THAT(nobody("gpu"), ::testing::HasSubstr("for target 'gpu'; reported: "));
}

// A model is a target too, once some worker has reported it.
TEST(Schedule, AModelThatNobodyHasIsNamedBesideThoseThatAreThere) {
  core::Options options;
  options.targets = {"cpu", "sm_90a"};
  CoreRig rig(options);
  rig.Attach("w", 1, 1);
  v1::SweepSpec spec = FakeSpec();
  spec.set_target("NVIDIA H200");
  const std::string unknown(rig.Submit(spec).status().message());
  EXPECT_THAT(unknown,
              ::testing::HasSubstr("no worker has reported a device of that model (but '"));
}

// Code that an assembler has made is better than PTX that the driver has to.
TEST(Schedule, AnAssemblerServesAGpuRatherThanItsDriver) {
  for (const bool both : {true, false}) {
    CoreRig rig;
    v1::Register gpu = CoreRig::Info("gpu", 8, 1);
    gpu.mutable_archs(0)->set_name("sm_90a");
    gpu.add_compile_targets("sm");
    gpu.set_assembler(kDriverAssembles);
    v1::Register host = CoreRig::Info("host", 1, 0);
    host.clear_archs();
    host.add_compile_targets("sm");
    host.set_assembler("ptxas 13.0.88");
    const uint64_t driver = rig.Attach(gpu);
    const uint64_t assembler = both ? rig.Attach(host) : 0;
    v1::SweepSpec spec = FakeSpec();
    spec.set_target("sm_90a");
    const auto submitted = rig.Submit(spec);
    ASSERT_TRUE(submitted.ok()) << submitted.status();
    const auto record = rig.meta()->GetSweep(submitted->sweep(), false);
    EXPECT_EQ(record->status.assembler(), both ? "ptxas 13.0.88" : kDriverAssembles);
    EXPECT_EQ(rig.Take(driver).empty(), both);
    if (both) {
      EXPECT_FALSE(rig.Take(assembler).empty());
    }
  }
}

// A client asks for what a part of a range does: the part stays when the range is cancelled.
TEST(Schedule, APartThatAClientAskedForTooOutlivesItsRange) {
  CoreRig rig;
  rig.Attach("w", 2, 1);
  v1::SweepSpec spec = FakeSpec();
  spec.mutable_range()->set_name("M");
  spec.mutable_range()->set_low(1);
  spec.mutable_range()->set_high(64);
  const std::string range = rig.Submit(spec)->sweep();
  rig.Advance(0.1);
  store::SweepFilter parts;
  parts.parts_of = range;
  const auto listed = rig.meta()->ListSweeps(100, "", parts);
  ASSERT_GT(listed->sweeps.size(), 1u);
  const v1::SweepRow& one = listed->sweeps[0].first;
  const auto joined = rig.Submit(one.spec());
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->sweep(), one.digest());
  EXPECT_TRUE(joined->joined());
  rig.Turn(core::Cancel{rig.NewId(), range, "enough"});
  int cancelled = 0;
  const auto after = rig.meta()->ListSweeps(100, "", parts);
  for (const auto& [row, status] : after->sweeps) {
    if (row.digest() == one.digest()) {
      EXPECT_EQ(status.state(), v1::RUNNING);
    } else {
      cancelled += status.state() == v1::CANCELLED;
    }
  }
  EXPECT_EQ(cancelled, static_cast<int>(listed->sweeps.size()) - 1);
  store::SweepFilter own;
  own.without_parts = true;
  EXPECT_EQ(rig.meta()->ListSweeps(100, "", own)->sweeps.size(), 2u);
}

// What a device did not reach, though it measured others, waits longer each time; in the end it
// fails.
TEST(Backoff, WhatADeviceDidNotReachWaitsBeforeItIsTriedAgain) {
  core::Options options;
  options.max_releases = 4;
  options.screen_batch = 2;
  CoreRig rig(options);
  const uint64_t a = rig.Attach("a", 1, 1);
  v1::SweepSpec spec = FakeSpec();
  for (const char* config : {"m=0,n=0,u=0", "m=1,n=0,u=0"}) spec.add_configs(config);
  const std::string sweep = rig.Submit(spec)->sweep();
  std::map<std::string, int> measured;
  std::vector<double> at;  // of the leases that hold what is never reached
  double seconds = 0;
  for (int i = 0; i < 400; ++i, seconds += 0.1) {
    for (const v1::Task& task : rig.Take(a)) {
      v1::TaskResult result = rig.Run(task);
      for (v1::CandidateResult& candidate : *result.mutable_candidates()) {
        if (task.kind() == v1::TASK_COMPILE) continue;
        if (candidate.config() != "m=1,n=0,u=0") {
          ++measured[candidate.config()];
          continue;
        }
        at.push_back(seconds);
        candidate.clear_measurement();
        candidate.set_not_run(true);
        if (task.candidates_size() == 1) {
          result.clear_candidates();
          result.set_released("not measured here: process 7 uses gpu0 too");
          break;
        }
        result.set_unavailable("not measured here: process 7 uses gpu0 too");
      }
      rig.Say(a, result);
    }
    rig.Advance(0.1);
    rig.Beat(a, {});
  }
  EXPECT_EQ(measured.size(), 1u);
  ASSERT_EQ(at.size(), 5u) << "four releases, and the last one fails";
  for (size_t i = 1; i < at.size(); ++i) {
    EXPECT_GE(at[i] - at[i - 1], 0.25 * (1 << (i - 1)) - 1e-9) << i;
  }
  bool failed = false;
  const auto record = rig.meta()->GetSweep(sweep, true);
  ASSERT_TRUE(record.ok());
  for (const v1::CandidateRow& row : record->candidates) {
    const v1::Candidate& candidate = row.candidate();
    if (candidate.config() != "m=1,n=0,u=0") continue;
    failed = candidate.state() == v1::CANDIDATE_FAILED;
    EXPECT_THAT(candidate.failure().message(), ::testing::HasSubstr("process 7"));
  }
  EXPECT_TRUE(failed);
}

// A worker of three devices of two kinds: each sweep is leased what its own kind has room for.
TEST(SeveralKinds, LeasesGoToTheDevicesOfTheSweepsKind) {
  core::Options options;
  options.screen_batch = 1;
  CoreRig rig(options);
  const uint64_t compiler = rig.Attach("compiler", 64, 0);
  v1::Register info = CoreRig::Info("gpus", 0, 3);
  v1::ArchRecord other = FakeArch();
  other.set_device_model("Another model");
  *info.add_archs() = other;
  for (int i = 0; i < 3; ++i) {
    v1::ProfileSlot* slot = info.add_slots();
    slot->set_device(absl::StrCat("gpu", i));
    *slot->mutable_arch() = i == 0 ? FakeArch() : other;
  }
  const uint64_t gpus = rig.Attach(info);
  std::vector<std::string> sweeps;
  for (const v1::ArchRecord& arch : {FakeArch(), other}) {
    v1::SweepSpec spec = FakeSpec();
    spec.set_target(arch.device_model());
    spec.set_top_k(64);
    const auto submitted = rig.Submit(spec);
    ASSERT_TRUE(submitted.ok()) << submitted.status();
    sweeps.push_back(submitted->sweep());
  }
  for (int i = 0; i < 3; ++i) {
    for (const v1::Task& task : rig.Take(compiler)) rig.Say(compiler, rig.Run(task));
  }
  const int queue = core::Options().profile_queue_per_slot;
  std::map<std::string, std::vector<v1::Task>> held;
  const auto take = [&] {
    for (const v1::Task& task : rig.Take(gpus)) {
      EXPECT_EQ(task.device_model(),
                task.sweep() == sweeps[0] ? FakeArch().device_model() : other.device_model());
      EXPECT_EQ(task.arch(), FakeArch().name());
      held[task.sweep()].push_back(task);
    }
  };
  take();
  EXPECT_EQ(static_cast<int>(held[sweeps[0]].size()), queue);
  EXPECT_EQ(static_cast<int>(held[sweeps[1]].size()), 2 * queue);
  // What one kind has done makes room for that kind.
  rig.Say(gpus, rig.Run(held[sweeps[1]].back(), "gpus"));
  held[sweeps[1]].pop_back();
  take();
  EXPECT_EQ(static_cast<int>(held[sweeps[0]].size()), queue);
  EXPECT_EQ(static_cast<int>(held[sweeps[1]].size()), 2 * queue);
  // One of a kind is out, then all of it.
  v1::WorkerMessage message;
  for (const auto& [sweep, tasks] : held) {
    for (const v1::Task& task : tasks) {
      v1::RunningTask* running = message.mutable_heartbeat()->add_running();
      running->set_task(task.id());
      running->set_epoch(task.epoch());
    }
  }
  message.mutable_heartbeat()->add_quarantined()->set_device("gpu0");
  rig.Turn(core::WorkerSaid{gpus, message});
  rig.Say(gpus, rig.Run(held[sweeps[0]].back(), "gpus"));
  held[sweeps[0]].pop_back();
  rig.Say(gpus, rig.Run(held[sweeps[1]].back(), "gpus"));
  held[sweeps[1]].pop_back();
  take();
  EXPECT_EQ(static_cast<int>(held[sweeps[0]].size()), queue - 1) << "its only device is out";
  EXPECT_EQ(static_cast<int>(held[sweeps[1]].size()), 2 * queue);
}

// Two devices, one slot each: as they are quarantined the worker gets less to measure, then
// nothing.
TEST(Quarantine, StopsLeasesAndIsShown) {
  CoreRig rig;
  const uint64_t compiler = rig.Attach("compiler", 8, 0);
  v1::Register info = CoreRig::Info("gpus", 0, 2);
  v1::QuarantinedDevice bad;
  bad.set_device("gpu1");
  bad.set_reason("2 uncorrected ECC errors");
  *info.add_quarantined() = bad;
  info.add_notes("gpu0 does without: counters");
  const uint64_t gpus = rig.Attach(info);
  ASSERT_TRUE(rig.Submit(FakeSpec()).ok());
  const auto compile = [&] {
    for (const v1::Task& task : rig.Take(compiler)) rig.Say(compiler, rig.Run(task));
  };
  compile();
  std::vector<v1::Task> tasks = rig.Take(gpus);
  ASSERT_FALSE(tasks.empty());
  EXPECT_LE(tasks.size(), static_cast<size_t>(core::Options().profile_queue_per_slot));
  v1::ListWorkersResponse workers = rig.Workers();
  EXPECT_EQ(workers.workers(1).state(), "ready");
  EXPECT_THAT(workers.workers(1).notes(0),
              ::testing::HasSubstr("gpu1 is quarantined: 2 uncorrected ECC errors"));
  EXPECT_EQ(workers.workers(1).notes(1), "gpu0 does without: counters");

  v1::WorkerMessage message;
  for (const v1::Task& task : tasks) {
    v1::RunningTask* running = message.mutable_heartbeat()->add_running();
    running->set_task(task.id());
    running->set_epoch(task.epoch());
  }
  *message.mutable_heartbeat()->add_quarantined() = bad;
  bad.set_device("gpu0");
  *message.mutable_heartbeat()->add_quarantined() = bad;
  rig.Turn(core::WorkerSaid{gpus, message});
  v1::TaskResult back;
  back.set_task(tasks[0].id());
  back.set_epoch(tasks[0].epoch());
  back.set_released("quarantined: gpu0");
  rig.Say(gpus, back);
  for (int i = 0; i < 20; ++i) {
    compile();
    rig.Turn(core::WorkerSaid{gpus, message});
    rig.Advance(1);
    EXPECT_TRUE(rig.Take(gpus).empty());
  }
  workers = rig.Workers();
  EXPECT_EQ(workers.workers(1).state(), "quarantined");
  EXPECT_EQ(workers.workers(1).notes_size(), 3);  // two devices, and what gpu0 does without
  // Another worker with the device takes over.
  const uint64_t other = rig.Attach("other", 0, 1);
  rig.Advance(1);
  EXPECT_FALSE(rig.Take(other).empty());
}

TEST(Quarantine, ATargetWithoutAHealthyDeviceSaysWhy) {
  core::Options options;
  CoreRig rig(options);
  v1::Register info = CoreRig::Info("gpus", 1, 1);
  info.add_quarantined()->set_device("gpu0");
  rig.Attach(info);
  const uint64_t request = rig.NewId();
  rig.Turn(core::Submit{request, FakeSpec()});
  for (int i = 0; i < 100; ++i) {
    rig.Advance(10);
    const auto answer = rig.Get<v1::SubmitSweepResponse>(request);
    if (absl::IsUnavailable(answer.status()) && answer.status().message() == "no reply yet") {
      continue;
    }
    ASSERT_FALSE(answer.ok());
    EXPECT_THAT(std::string(answer.status().message()),
                ::testing::HasSubstr("gpu0 of gpus is quarantined"));
    return;
  }
  FAIL() << "no answer";
}

// How many candidates the tasks of a kind have, of races those of the first, in the order of their
// leases. Compilers are ahead.
std::vector<int> TaskSizes(int slots, v1::TaskKind kind) {
  SpaceModel space;
  space.configs = 96;  // 48 binaries
  space.spread = 1.3;  // so that all of them get into the race
  CoreRig rig({}, space);
  const uint64_t worker = rig.Attach("w", 2, slots);
  v1::SweepSpec spec = FakeSpec();
  spec.set_strategy("exhaustive");
  EXPECT_TRUE(rig.Submit(spec).ok());
  std::vector<int> sizes;
  std::deque<v1::Task> measuring;
  for (std::vector<v1::Task> tasks = rig.Take(worker); !tasks.empty() || !measuring.empty();
       tasks = rig.Take(worker)) {
    for (v1::Task& task : tasks) {
      if (task.kind() == kind && task.round() <= 1) sizes.push_back(task.candidates_size());
      if (task.kind() != v1::TASK_COMPILE) {
        measuring.push_back(std::move(task));
      } else {
        rig.Say(worker, rig.Run(task));
      }
    }
    if (!tasks.empty()) continue;
    rig.Say(worker, rig.Run(measuring.front()));
    measuring.pop_front();
  }
  return sizes;
}

TEST(Schedule, NoDeviceIsLeftWithALongTaskWhenTheOthersAreDone) {
  const std::vector<int> screens = TaskSizes(4, v1::TASK_SCREEN);
  const std::vector<int> races = TaskSizes(4, v1::TASK_RACE);
  ASSERT_GT(races.size(), 12u);
  EXPECT_EQ(*std::max_element(screens.begin(), screens.end()), 4);
  EXPECT_THAT(std::vector<int>(screens.end() - 4, screens.end()), ::testing::Each(1));
  EXPECT_EQ(races.front(), 4);
  EXPECT_TRUE(std::is_sorted(races.rbegin(), races.rend()));
  EXPECT_THAT(std::vector<int>(races.end() - 4, races.end()), ::testing::Each(1));
  int left = std::accumulate(races.begin(), races.end(), 0);
  for (const int size : races) {
    EXPECT_LE(size, (left + 7) / 8) << left << " left: more than half of a device's share";
    left -= size;
  }
  // One device has nobody to wait for.
  const std::vector<int> alone = TaskSizes(1, v1::TASK_RACE);
  ASSERT_GT(alone.size(), 6u);
  EXPECT_THAT(std::vector<int>(alone.begin(), alone.end() - 1), ::testing::Each(4));
}

// The sweeps of the measurements that a device gets, in order; each takes a quarter of a second.
std::vector<std::string> Measured(const std::vector<v1::SweepSpec>& specs, size_t count) {
  CoreRig rig({}, Large());
  const uint64_t worker = rig.Attach("w", 2, 1);
  for (v1::SweepSpec spec : specs) {
    spec.clear_objective();
    spec.set_strategy("exhaustive");
    EXPECT_TRUE(rig.Submit(spec).ok());
  }
  std::vector<std::string> out;
  std::deque<v1::Task> measuring;
  while (out.size() < count) {
    const std::vector<v1::Task> tasks = rig.Take(worker);
    for (const v1::Task& task : tasks) {
      if (task.kind() == v1::TASK_COMPILE) {
        rig.Say(worker, rig.Run(task));
      } else {
        measuring.push_back(task);
      }
    }
    if (!tasks.empty()) continue;
    if (measuring.empty()) break;
    out.push_back(measuring.front().sweep());
    rig.clock()->AdvanceSeconds(0.25);
    rig.Say(worker, rig.Run(measuring.front()));
    measuring.pop_front();
  }
  return out;
}

size_t Changes(const std::vector<std::string>& sweeps) {
  size_t changes = 0;
  for (size_t i = 1; i < sweeps.size(); ++i) changes += sweeps[i] != sweeps[i - 1] ? 1 : 0;
  return changes;
}

TEST(Schedule, ADeviceStaysWithTheSweepWhoseInputsItHolds) {
  const std::vector<std::string> equal = Measured({UserSpec("a", "one"), UserSpec("b", "two")}, 64);
  ASSERT_EQ(equal.size(), 64u);
  EXPECT_GE(Changes(equal), 4u);
  EXPECT_LE(Changes(equal), 16 / 2 + 1u) << "seconds, a change every two";
  EXPECT_NEAR(std::count(equal.begin(), equal.end(), equal.front()), 32, 8);
  // One that is worth more does not wait.
  const std::vector<std::string> unequal =
      Measured({UserSpec("a", "low", -100), UserSpec("a", "high", 100)}, 64);
  EXPECT_LE(std::count(unequal.begin(), unequal.end(), unequal.front()), 32);
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

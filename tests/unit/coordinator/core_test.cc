// The core, turn by turn: what a sweep goes through, and what leases promise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/coordinator/core_rig.h"

namespace kiln::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> Acks(const core::Effects& effects) {
  std::vector<std::string> ids;
  for (const core::Send& send : effects.sends) {
    for (const std::string& id : send.message.acknowledge().tasks()) ids.push_back(id);
  }
  return ids;
}

std::vector<std::string> Revoked(const core::Effects& effects) {
  std::vector<std::string> ids;
  for (const core::Send& send : effects.sends) {
    for (const std::string& id : send.message.revoke().tasks()) ids.push_back(id);
  }
  return ids;
}

v1::TaskResult Failing(const v1::Task& task, v1::Failure::Stage stage, bool killed) {
  v1::TaskResult result;
  result.set_task(task.id());
  result.set_epoch(task.epoch());
  for (const v1::TaskCandidate& c : task.candidates()) {
    v1::CandidateResult* r = result.add_candidates();
    r->set_config(c.config());
    r->mutable_failure()->set_stage(stage);
    r->mutable_failure()->set_message("it broke");
    r->mutable_failure()->set_killed_child(killed);
  }
  return result;
}

TEST(Core, ASweepGoesFromSubmissionToAWinnerThatIsAnsweredAtOnceLater) {
  CoreRig rig;
  const uint64_t worker = rig.Attach("w", 2, 1);
  const auto first = rig.Submit(FakeSpec());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->joined());
  EXPECT_FALSE(first->answered());
  rig.Serve({worker});
  const auto again = rig.Submit(FakeSpec());
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->answered());
  EXPECT_EQ(again->sweep(), first->sweep());
  EXPECT_TRUE(again->winner().measurement().numbers_checked());
  // On samples that did not choose it; those that did are the candidate's.
  EXPECT_EQ(again->winner().measurement().round(), "fresh");
  const auto record = rig.meta()->GetSweep(first->sweep(), true);
  ASSERT_TRUE(record.ok());
  for (const v1::CandidateRow& row : record->candidates) {
    if (row.candidate().config() != again->winner().config()) continue;
    const v1::Measurement& finals = *row.candidate().measurements().rbegin();
    EXPECT_EQ(finals.round(), "finals");
    EXPECT_GT(finals.median_ns(), 0);
    EXPECT_NE(finals.median_ns(), again->winner().measurement().median_ns());
  }
  EXPECT_GT(again->winner().ratio_high(), 0);
  // Another searcher's sweep has the same problem: the same winner answers it.
  v1::SweepSpec other = FakeSpec();
  other.set_strategy("exhaustive");
  other.set_seed(9);
  EXPECT_TRUE(rig.Submit(other)->answered());
  // `fresh` tunes again, and reuses what was compiled.
  other = FakeSpec();
  other.set_fresh(true);
  const auto fresh = rig.Submit(other);
  EXPECT_FALSE(fresh->answered());
  for (const v1::Task& task : rig.Take(worker)) EXPECT_NE(task.kind(), v1::TASK_COMPILE);
}

TEST(Core, EqualSweepsAreOneWhileTheyRun) {
  CoreRig rig;
  const uint64_t worker = rig.Attach("w", 2, 1);
  const auto first = rig.Submit(FakeSpec());
  v1::SweepSpec same = FakeSpec();
  same.set_name("another name");
  same.set_user("another user");
  same.set_priority(7);
  same.set_target("cpu");  // the default, written out
  same.set_strategy("recommended");
  const auto second = rig.Submit(same);
  EXPECT_TRUE(second->joined());
  EXPECT_EQ(second->sweep(), first->sweep());
  v1::SweepSpec different = FakeSpec();
  different.set_top_k(3);
  EXPECT_NE(rig.Submit(different)->sweep(), first->sweep());
  rig.Serve({worker});
}

TEST(Core, ASecondSweepWaitsForCompilationsOfTheFirstInsteadOfRepeatingThem) {
  CoreRig rig;
  const uint64_t worker = rig.Attach("w", 64, 1);
  ASSERT_TRUE(rig.Submit(FakeSpec()).ok());
  std::set<std::string> compiling;
  std::vector<v1::Task> tasks = rig.Take(worker);
  for (const v1::Task& task : tasks) {
    for (const auto& c : task.candidates()) compiling.insert(c.config());
  }
  ASSERT_THAT(compiling, SizeIs(8));
  v1::SweepSpec other = FakeSpec();
  other.set_top_k(6);  // another sweep over a prefix of the same slate
  ASSERT_TRUE(rig.Submit(other).ok());
  for (const v1::Task& task : rig.Take(worker)) {
    for (const auto& c : task.candidates()) {
      EXPECT_EQ(compiling.count(c.config()), 0u) << c.config() << " is compiled twice at a time";
    }
  }
  for (const v1::Task& task : tasks) rig.Say(worker, rig.Run(task));
  rig.Serve({worker});
  EXPECT_EQ(rig.core()->Stats().active_sweeps, 0);
}

TEST(Core, CallersMistakesAreAnsweredAndStartNothing) {
  CoreRig rig;
  rig.Attach("w", 2, 1);
  v1::SweepSpec spec = FakeSpec();
  spec.set_entry("bad");
  EXPECT_EQ(rig.Submit(spec).status().code(), absl::StatusCode::kInvalidArgument);
  spec = FakeSpec();
  spec.set_strategy("magic");
  EXPECT_THAT(std::string(rig.Submit(spec).status().message()), HasSubstr("exhaustive"));
  spec = FakeSpec();
  spec.clear_kernel_source();
  EXPECT_FALSE(rig.Submit(spec).ok());
  spec = FakeSpec();
  spec.set_max_seconds(-1);
  EXPECT_THAT(std::string(rig.Submit(spec).status().message()), HasSubstr("max_seconds"));
  EXPECT_EQ(rig.core()->Stats().active_sweeps, 0);
}

TEST(Core, ASweepWaitsForAWorkerThatReportsItsTargetButNotForEver) {
  CoreRig rig;
  const uint64_t request = rig.NewId();
  rig.Turn(core::Submit{request, FakeSpec()});
  EXPECT_TRUE(absl::IsUnavailable(rig.Get<v1::SubmitSweepResponse>(request).status()));
  rig.Attach("w", 2, 1);
  EXPECT_TRUE(rig.Get<v1::SubmitSweepResponse>(request).ok());
  v1::SweepSpec gpu = FakeSpec();
  gpu.set_target("sm_90a");
  const uint64_t other = rig.NewId();
  rig.Turn(core::Submit{other, gpu});
  rig.Advance(31);
  const absl::Status status = rig.Get<v1::SubmitSweepResponse>(other).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("x86-64-v4"));
}

TEST(Core, ATargetThatDoesNotExistIsRefusedAtOnce) {
  core::Options options;
  options.targets = {"cpu", "sm_90a"};
  CoreRig rig(options);
  v1::SweepSpec spec = FakeSpec();
  spec.set_target("mips");
  const absl::Status status = rig.Submit(spec).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("architectures are cpu, sm_90a"));
  spec.set_target("sm_90a");
  EXPECT_EQ(rig.Submit(spec).status().message(), "no reply yet") << "a worker may come";
}

TEST(Core, AResultIsAcceptedOnceAndOnlyUnderTheNewestEpoch) {
  CoreRig rig;
  const uint64_t a = rig.Attach("a", 1, 0);
  rig.Attach("p", 0, 1);  // lets the sweep start
  ASSERT_TRUE(rig.Submit(FakeSpec()).ok());
  const v1::Task task = rig.Take(a).front();
  rig.Advance(3.9);
  EXPECT_EQ(rig.core()->Stats().leased_tasks, 2);  // one slot, two in its queue
  rig.Advance(0.2);                                // silent for longer than the lease
  const uint64_t b = rig.Attach("b", 1, 0);
  std::vector<v1::Task> again = rig.Take(b);
  ASSERT_FALSE(again.empty());
  EXPECT_EQ(again.front().id(), task.id());
  EXPECT_GT(again.front().epoch(), task.epoch());
  EXPECT_EQ(again.front().attempt(), 1);
  // The first worker comes back too late: acknowledged so that it forgets, but not used.
  core::Effects late = rig.Say(a, rig.Run(task));
  EXPECT_THAT(Acks(late), SizeIs(1));
  EXPECT_EQ(rig.core()->Stats().stale_results, 1);
  EXPECT_TRUE(late.batch.candidates.empty());
  rig.Say(b, rig.Run(again.front()));
  EXPECT_EQ(rig.core()->Stats().stale_results, 1);
  rig.Say(b, rig.Run(again.front()));  // repeated
  EXPECT_EQ(rig.core()->Stats().stale_results, 2);
}

TEST(Core, HeartbeatsExtendLeases) {
  CoreRig rig;
  const uint64_t a = rig.Attach("a", 1, 1);
  ASSERT_TRUE(rig.Submit(FakeSpec()).ok());
  const std::vector<v1::Task> held = rig.Take(a);
  for (int i = 0; i < 20; ++i) {
    rig.Advance(2);
    rig.Beat(a, held);
  }
  EXPECT_THAT(rig.Take(a), IsEmpty());
  rig.Say(a, rig.Run(held.front()));
  EXPECT_EQ(rig.core()->Stats().stale_results, 0);
  // A heartbeat that names a lease of the past is told so.
  EXPECT_THAT(Revoked(rig.Beat(a, {held.front()})), SizeIs(1));
}

TEST(Core, AResultIsDurableBeforeItIsAcknowledged) {
  CoreRig rig;
  const uint64_t a = rig.Attach("a", 1, 1);
  const std::string sweep = rig.Submit(FakeSpec())->sweep();
  const v1::Task task = rig.Take(a).front();
  const core::Effects effects = rig.Say(a, rig.Run(task));
  EXPECT_THAT(Acks(effects), SizeIs(1));
  EXPECT_FALSE(effects.batch.candidates.empty());
  ASSERT_FALSE(effects.batch.deleted_tasks.empty());
  EXPECT_EQ(effects.batch.deleted_tasks[0].id, task.id());
  EXPECT_FALSE(effects.batch.compiled.empty());
}

TEST(Core, WorkersThatOutliveARestartKeepTheirTasksAndTheirResultsCount) {
  CoreRig rig;
  const uint64_t a = rig.Attach("a", 2, 1);
  ASSERT_TRUE(rig.Submit(FakeSpec()).ok());
  const std::vector<v1::Task> held = rig.Take(a);
  ASSERT_GE(held.size(), 2u);
  rig.Restart();
  const uint64_t other = rig.Attach("b", 8, 1);
  EXPECT_THAT(rig.Take(other), IsEmpty()) << "tasks wait for the worker that may run them";
  v1::Register back = CoreRig::Info("a", 2, 1);
  *back.add_unacknowledged() = rig.Run(held[0]);
  for (size_t i = 1; i < held.size(); ++i) {
    v1::RunningTask* running = back.add_running();
    running->set_task(held[i].id());
    running->set_epoch(held[i].epoch());
  }
  const uint64_t again = rig.Attach(back);
  EXPECT_EQ(rig.core()->Stats().stale_results, 0);
  EXPECT_EQ(rig.core()->Stats().tasks_done, 1);
  std::set<std::string> leased;
  for (uint64_t c : {other, again}) {
    for (const v1::Task& task : rig.Take(c)) {
      leased.insert(task.id());
      rig.Say(c, rig.Run(task));
    }
  }
  for (const v1::Task& task : held) EXPECT_EQ(leased.count(task.id()), 0u) << "run twice";
  for (size_t i = 1; i < held.size(); ++i) rig.Say(again, rig.Run(held[i]));
  EXPECT_EQ(rig.core()->Stats().stale_results, 0);
}

TEST(Core, AnEpochThatWasSupersededBeforeTheRestartStaysStale) {
  CoreRig rig;
  const uint64_t a = rig.Attach("a", 1, 0);
  rig.Attach("p", 0, 1);
  ASSERT_TRUE(rig.Submit(FakeSpec()).ok());
  const v1::Task old = rig.Take(a).front();
  rig.Advance(5);
  const uint64_t b = rig.Attach("b", 1, 0);
  const v1::Task newer = rig.Take(b).front();
  ASSERT_EQ(newer.id(), old.id());
  rig.Restart();
  v1::Register first = CoreRig::Info("a", 1, 0);
  *first.add_unacknowledged() = rig.Run(old);
  rig.Attach(first);
  EXPECT_EQ(rig.core()->Stats().stale_results, 1);
  v1::Register second = CoreRig::Info("b", 1, 0);
  *second.add_unacknowledged() = rig.Run(newer);
  rig.Attach(second);
  EXPECT_EQ(rig.core()->Stats().stale_results, 1);
  EXPECT_EQ(rig.core()->Stats().tasks_done, 1);
}

TEST(Core, AReleaseCostsNoAttemptButBacksOffAndEnds) {
  core::Options options;
  options.max_releases = 3;
  CoreRig rig(options);
  const uint64_t a = rig.Attach("a", 1, 1);
  v1::SweepSpec spec = FakeSpec();
  spec.add_configs("m=0,n=0,u=0");
  const std::string sweep = rig.Submit(spec)->sweep();
  std::string failed;
  for (int i = 0, releases = 0; i < 100 && failed.empty(); ++i) {
    for (const v1::Task& task : rig.Take(a)) {
      EXPECT_EQ(task.attempt(), 0);
      v1::TaskResult result;
      result.set_task(task.id());
      result.set_epoch(task.epoch());
      result.set_released("draining");
      rig.Say(a, result);
      EXPECT_THAT(rig.Take(a), IsEmpty()) << "no back-off";
      if (++releases > options.max_releases) continue;
      EXPECT_EQ(rig.Show(sweep).summary().progress().message() == "draining", releases > 1);
    }
    rig.Advance(1);
    rig.Beat(a, {});
    if (rig.meta()->GetSweep(sweep, false)->status.state() == v1::FAILED) {
      failed = rig.meta()->GetSweep(sweep, false)->status.message();
    }
  }
  EXPECT_THAT(failed, HasSubstr("released 4 times"));
}

// No candidate is to blame, so that none is tried by itself; what shows says why it waits.
TEST(Core, ATaskThatNoDeviceMeasuresSaysWhyItWaitsAndEndsAtOnce) {
  core::Options options;
  options.max_releases = 3;
  CoreRig rig(options);
  const uint64_t a = rig.Attach("a", 1, 1);
  v1::SweepSpec spec = FakeSpec();
  for (const char* config : {"m=0,n=0,u=0", "m=0,n=0,u=1"}) spec.add_configs(config);
  const std::string sweep = rig.Submit(spec)->sweep();
  int releases = 0;
  for (int i = 0; i < 200; ++i) {
    for (const v1::Task& task : rig.Take(a)) {
      if (task.kind() == v1::TASK_COMPILE) {
        rig.Say(a, rig.Run(task));
        continue;
      }
      ++releases;
      v1::TaskResult result;
      result.set_task(task.id());
      result.set_epoch(task.epoch());
      result.set_released("not measured here: process 7 uses gpu0 too");
      rig.Say(a, result);
      if (rig.meta()->GetSweep(sweep, false)->status.state() == v1::FAILED) continue;
      EXPECT_EQ(rig.Show(sweep).summary().progress().message(),
                "not measured here: process 7 uses gpu0 too");
    }
    rig.Advance(1);
    rig.Beat(a, {});
  }
  EXPECT_GE(releases, 4);
  EXPECT_LE(releases, 8) << "4 for each task at most, none for a candidate by itself";
  EXPECT_EQ(rig.meta()->GetSweep(sweep, false)->status.state(), v1::FAILED);
  EXPECT_THAT(rig.meta()->GetSweep(sweep, false)->status.message(),
              HasSubstr("not measured here: process 7"));
}

TEST(Core, ACandidateThatKilledTwoChildrenNeverRunsAgainAnywhere) {
  CoreRig rig;
  const uint64_t a = rig.Attach("a", 1, 1);
  v1::SweepSpec spec = FakeSpec();
  spec.add_configs("m=0,n=0,u=0");
  ASSERT_TRUE(rig.Submit(spec).ok());
  int runs = 0;
  for (int round = 0; round < 5; ++round) {
    for (const v1::Task& task : rig.Take(a)) {
      ++runs;
      rig.Say(a, Failing(task, v1::Failure::COMPILE, true));
    }
  }
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(rig.core()->Stats().active_sweeps, 0);
  rig.Restart();
  const uint64_t b = rig.Attach("b", 1, 1);
  spec.set_seed(5);  // another sweep, the same program
  const std::string sweep = rig.Submit(spec)->sweep();
  EXPECT_THAT(rig.Take(b), IsEmpty());
  const auto record = rig.meta()->GetSweep(sweep, true);
  EXPECT_EQ(record->status.state(), v1::FAILED);
  const v1::Failure& failure = record->candidates[0].candidate().failure();
  EXPECT_THAT(failure.message(), HasSubstr("child processes"));
  EXPECT_EQ(failure.stage(), v1::Failure::COMPILE) << "where it died, not where it would have run";
  EXPECT_THAT(failure.message(), HasSubstr("the last time so: "));
}

// Answers that are none cost an attempt each and come at growing distances.
TEST(Core, AWorkerThatAnswersForOtherConfigsIsNotLeasedTheTaskForEver) {
  CoreRig rig;
  const uint64_t a = rig.Attach("a", 1, 1);
  v1::SweepSpec spec = FakeSpec();
  spec.add_configs("m=0,n=0,u=0");
  const std::string sweep = rig.Submit(spec)->sweep();
  int answers = 0;
  for (int turn = 0; turn < 200 && rig.core()->Stats().active_sweeps > 0; ++turn) {
    for (const v1::Task& task : rig.Take(a)) {
      v1::TaskResult result = rig.Run(task);
      for (v1::CandidateResult& r : *result.mutable_candidates()) r.set_config("not_a_config=1");
      rig.Say(a, result);
      EXPECT_THAT(rig.Take(a), IsEmpty()) << "leased again at once";
      ++answers;
    }
    rig.Advance(0.1);
    rig.Beat(a, {});
  }
  EXPECT_EQ(answers, core::Options().max_task_losses);
  const auto record = rig.meta()->GetSweep(sweep, true);
  EXPECT_EQ(record->status.state(), v1::FAILED);
  EXPECT_THAT(record->candidates[0].candidate().failure().message(),
              HasSubstr("'not_a_config=1', which is not in the task"));
}

TEST(Core, AnArtifactWhoseBytesNeverCameIsRefused) {
  CoreRig rig;
  const uint64_t a = rig.Attach("a", 1, 1);
  v1::SweepSpec spec = FakeSpec();
  spec.add_configs("m=0,n=0,u=0");
  const std::string sweep = rig.Submit(spec)->sweep();
  int answers = 0;
  for (int turn = 0; turn < 200 && rig.core()->Stats().active_sweeps > 0; ++turn) {
    for (const v1::Task& task : rig.Take(a)) {
      ASSERT_EQ(task.kind(), v1::TASK_COMPILE);
      v1::WorkerMessage message;
      *message.mutable_results()->add_results() = rig.Run(task);
      const std::string digest = message.results().results(0).candidates(0).artifact().digest();
      rig.Turn(core::WorkerSaid{a, message, {digest}});
      ++answers;
    }
    rig.Advance(0.1);
    rig.Beat(a, {});
  }
  EXPECT_EQ(answers, core::Options().max_task_losses);
  const auto record = rig.meta()->GetSweep(sweep, true);
  EXPECT_EQ(record->status.state(), v1::FAILED);
  EXPECT_THAT(record->candidates[0].candidate().failure().message(),
              HasSubstr("never sent its bytes"));
}

TEST(Core, ALookupFindsWinnersOfDevicesThatAreNotAttached) {
  CoreRig rig;
  const uint64_t a = rig.Attach("a", 1, 1);
  v1::SweepSpec spec = FakeSpec();
  spec.add_configs("m=0,n=0,u=0");
  ASSERT_TRUE(rig.Submit(spec).ok());
  for (int turn = 0; turn < 50 && rig.core()->Stats().active_sweeps > 0; ++turn) {
    for (const v1::Task& task : rig.Take(a)) rig.Say(a, rig.Run(task, "a"));
  }
  ASSERT_EQ(rig.core()->Stats().active_sweeps, 0);
  rig.Restart();
  const uint64_t request = rig.NewId();
  rig.Turn(core::Lookup{request, spec});
  const auto found = rig.Get<v1::LookupWinnerResponse>(request);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->found()) << found->miss_reason();
  EXPECT_EQ(found->winner().config(), "m=0,n=0,u=0");
  (*spec.mutable_arguments())["N"] = "12345";  // the same kernel, another problem
  const uint64_t miss = rig.NewId();
  rig.Turn(core::Lookup{miss, spec});
  const auto missed = rig.Get<v1::LookupWinnerResponse>(miss);
  ASSERT_TRUE(missed.ok()) << missed.status();
  EXPECT_FALSE(missed->found());
  EXPECT_THAT(missed->miss_reason(), HasSubstr("nearest stored winner"));
  EXPECT_THAT(missed->miss_reason(), HasSubstr("tuned for N=(not given), asked N=12345"));
}

TEST(Core, WhatIsStoredIsAnsweredWithoutAWorkerAndAnythingElseWaitsForOne) {
  CoreRig rig;
  const uint64_t a = rig.Attach("a", 1, 1);
  v1::SweepSpec spec = FakeSpec();
  spec.add_configs("m=0,n=0,u=0");
  ASSERT_TRUE(rig.Submit(spec).ok());
  for (int turn = 0; turn < 50 && rig.core()->Stats().active_sweeps > 0; ++turn) {
    for (const v1::Task& task : rig.Take(a)) rig.Say(a, rig.Run(task, "a"));
  }
  rig.Restart();
  const auto stored = rig.Submit(spec);
  ASSERT_TRUE(stored.ok() && stored->answered()) << stored.status();
  EXPECT_EQ(stored->winner().config(), "m=0,n=0,u=0");
  EXPECT_THAT(stored->not_compared(), ::testing::Contains("compiler"));
  (*spec.mutable_arguments())["N"] = "12345";  // the same kernel, another problem
  const auto submit = [&] {
    const uint64_t request = rig.NewId();
    rig.Turn(core::Submit{request, spec});
    return request;
  };
  const uint64_t waiting = submit();
  EXPECT_EQ(rig.Get<v1::SubmitSweepResponse>(waiting).status().message(), "no reply yet");
  rig.Advance(31);
  EXPECT_EQ(rig.Get<v1::SubmitSweepResponse>(waiting).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const uint64_t served = submit();
  rig.Attach("b", 1, 1);
  const auto accepted = rig.Get<v1::SubmitSweepResponse>(served);
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_FALSE(accepted->answered());
}

TEST(Core, EqualBinariesAreMeasuredOnceAndTheBestRankedConfigWins) {
  CoreRig rig;
  const uint64_t a = rig.Attach("a", 1, 1);
  v1::SweepSpec spec = FakeSpec();
  spec.add_configs("m=1,n=1,u=0");
  spec.add_configs("m=1,n=1,u=1");
  const std::string sweep = rig.Submit(spec)->sweep();
  int measured = 0;
  for (std::vector<v1::Task> tasks = rig.Take(a); !tasks.empty(); tasks = rig.Take(a)) {
    for (const v1::Task& task : tasks) {
      if (task.kind() == v1::TASK_SCREEN) measured += task.candidates_size();
      rig.Say(a, rig.Run(task));
    }
  }
  EXPECT_EQ(measured, 1);
  const auto record = rig.meta()->GetSweep(sweep, true);
  ASSERT_EQ(record->status.state(), v1::DONE);
  const auto winner = rig.meta()->FindWinner(record->status.winner_key());
  EXPECT_EQ((*winner)->config(), record->candidates[0].candidate().config());
}

TEST(Core, CompileOnlySweepsHandBackArtifactsAndAreAnsweredFromTheStore) {
  CoreRig rig;
  const uint64_t a = rig.Attach("a", 4, 1);
  v1::SweepSpec spec = FakeSpec();
  spec.set_objective(v1::SweepSpec::COMPILE);
  for (const char* c : {"m=0,n=0,u=0", "m=0,n=1,u=0", "m=0,n=2,u=0"}) spec.add_configs(c);
  const std::string sweep = rig.Submit(spec)->sweep();
  for (std::vector<v1::Task> tasks = rig.Take(a); !tasks.empty(); tasks = rig.Take(a)) {
    for (const v1::Task& task : tasks) {
      EXPECT_EQ(task.kind(), v1::TASK_COMPILE);
      rig.Say(a, rig.Run(task));
    }
  }
  const auto record = rig.meta()->GetSweep(sweep, true);
  EXPECT_EQ(record->status.state(), v1::DONE);
  for (const auto& row : record->candidates) {
    EXPECT_TRUE(rig.blobs()->Contains(row.candidate().artifact().digest()));
  }
  const auto again = rig.Submit(spec);
  EXPECT_EQ(again->sweep(), sweep);
  EXPECT_TRUE(again->joined());
  EXPECT_THAT(rig.Take(a), IsEmpty());
}

TEST(Core, CancelRevokesAndEnds) {
  CoreRig rig;
  const uint64_t a = rig.Attach("a", 2, 1);
  const std::string sweep = rig.Submit(FakeSpec())->sweep();
  const size_t held = rig.Take(a).size();
  const uint64_t request = rig.NewId();
  const core::Effects effects = rig.Turn(core::Cancel{request, sweep, "changed my mind"});
  EXPECT_EQ(rig.Get<v1::CancelSweepResponse>(request)->state(), v1::CANCELLED);
  EXPECT_THAT(Revoked(effects), SizeIs(held));
  const auto record = rig.meta()->GetSweep(sweep, true);
  EXPECT_EQ(record->status.state(), v1::CANCELLED);
  EXPECT_THAT(record->status.message(), HasSubstr("changed my mind"));
  EXPECT_THAT(record->tasks, IsEmpty());
}

TEST(Core, ASpentBudgetEndsWithTheBestThatWasMeasured) {
  CoreRig rig;
  const uint64_t a = rig.Attach("a", 1, 1);
  v1::SweepSpec spec = FakeSpec();
  spec.set_strategy("exhaustive");
  spec.set_max_seconds(10);
  const std::string sweep = rig.Submit(spec)->sweep();
  bool over = false;
  for (int i = 0; i < 200 && !over; ++i) {
    rig.Advance(0.5);
    const std::vector<v1::Task> tasks = rig.Take(a);
    rig.Beat(a, tasks);
    for (const v1::Task& task : tasks) rig.Say(a, rig.Run(task));
    over = rig.meta()->GetSweep(sweep, false)->status.state() == v1::DONE;
  }
  ASSERT_TRUE(over);
  const auto record = rig.meta()->GetSweep(sweep, true);
  int skipped = 0;
  for (const auto& row : record->candidates) {
    skipped += row.candidate().state() == v1::SKIPPED || !row.proposed();
  }
  EXPECT_GT(skipped, 5);
  EXPECT_TRUE(rig.meta()->FindWinner(record->status.winner_key())->has_value());
}

TEST(Core, WaitingForACompilerSpendsNoBudget) {
  CoreRig rig;
  const uint64_t profiler = rig.Attach("profiler", 0, 1);
  v1::SweepSpec spec = FakeSpec();
  spec.set_strategy("exhaustive");
  spec.set_max_seconds(10);
  const std::string sweep = rig.Submit(spec)->sweep();
  for (int i = 0; i < 60; ++i) {
    rig.Advance(1);
    rig.Beat(profiler, {});
  }
  EXPECT_FALSE(rig.meta()->GetSweep(sweep, false)->status.budget_spent());
  const uint64_t compiler = rig.Attach("compiler", 1, 0);
  rig.Advance(0.5);
  const std::vector<v1::Task> leased = rig.Take(compiler);
  EXPECT_THAT(leased, ::testing::Not(IsEmpty()));
  for (int i = 0; i < 24; ++i) {
    rig.Advance(0.5);
    rig.Beat(compiler, leased);
  }
  EXPECT_TRUE(rig.meta()->GetSweep(sweep, false)->status.budget_spent());
}

TEST(Core, ADeadlineFailsTheSweep) {
  CoreRig rig;
  rig.Attach("a", 1, 1);
  v1::SweepSpec spec = FakeSpec();
  spec.set_deadline_seconds(3);
  const std::string sweep = rig.Submit(spec)->sweep();
  rig.Advance(4);
  const auto record = rig.meta()->GetSweep(sweep, false);
  EXPECT_EQ(record->status.state(), v1::FAILED);
  EXPECT_THAT(record->status.message(), HasSubstr("deadline"));
}

TEST(Core, OneBuildServesASweepAndTheOthersAreToldWhy) {
  core::Options options;
  options.build_wait_seconds = 20;
  CoreRig rig(options);
  const uint64_t a = rig.Attach("a", 2, 1);
  const std::string sweep = rig.Submit(FakeSpec())->sweep();
  v1::Register other = CoreRig::Info("b", 4, 1);
  other.set_compiler_build("build-2");
  const uint64_t b = rig.Attach(other);
  EXPECT_THAT(rig.Take(b), IsEmpty());
  const v1::ListWorkersResponse workers = rig.Workers();
  EXPECT_EQ(workers.workers(0).state(), "ready");
  EXPECT_THAT(workers.workers(1).state(), HasSubstr("incompatible"));
  EXPECT_THAT(workers.workers(1).notes(0), HasSubstr("pinned to compiler build build-1"));
  for (const v1::Task& task : rig.Take(a)) rig.Say(a, rig.Run(task));
  // The pinned build leaves for good: after a while the sweep starts over with the other one.
  rig.Turn(core::WorkerDetached{a});
  std::vector<v1::Task> tasks;
  for (int i = 0; i < 40 && tasks.empty(); ++i) {
    rig.Advance(1);
    rig.Beat(b, {});
    tasks = rig.Take(b);
  }
  ASSERT_FALSE(tasks.empty());
  EXPECT_EQ(tasks[0].kind(), v1::TASK_COMPILE);
  for (; !tasks.empty(); tasks = rig.Take(b)) {
    for (const v1::Task& task : tasks) rig.Say(b, rig.Run(task, "b", "build-2"));
  }
  const auto record = rig.meta()->GetSweep(sweep, true);
  EXPECT_EQ(record->status.state(), v1::DONE);
  for (const auto& row : record->candidates) {
    if (!row.candidate().has_artifact()) continue;
    EXPECT_EQ(row.candidate().artifact().compiler_build(), "build-2");
  }
}

TEST(Core, ALostArtifactIsCompiledAgain) {
  CoreRig rig;
  const uint64_t a = rig.Attach("a", 1, 1);
  v1::SweepSpec spec = FakeSpec();
  spec.set_top_k(1);
  const std::string sweep = rig.Submit(spec)->sweep();
  for (const v1::Task& task : rig.Take(a)) rig.Say(a, rig.Run(task));
  const v1::Task screen = rig.Take(a).front();
  ASSERT_EQ(screen.kind(), v1::TASK_SCREEN);
  v1::TaskResult lost;
  lost.set_task(screen.id());
  lost.set_epoch(screen.epoch());
  lost.set_released("lost inputs: " + screen.candidates(0).artifact_digest());
  rig.Say(a, lost);
  const std::vector<v1::Task> again = rig.Take(a);
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again[0].kind(), v1::TASK_COMPILE);
  rig.Say(a, rig.Run(again[0]));
  rig.Serve({a});
  EXPECT_EQ(rig.meta()->GetSweep(sweep, false)->status.state(), v1::DONE);
}

TEST(Core, WrongNumbersAndUncheckedTimingsNeverWin) {
  CoreRig rig;
  const uint64_t a = rig.Attach("a", 1, 1);
  v1::SweepSpec spec = FakeSpec();
  spec.add_configs("m=0,n=0,u=0");
  spec.add_configs("m=0,n=1,u=0");
  const std::string sweep = rig.Submit(spec)->sweep();
  for (std::vector<v1::Task> tasks = rig.Take(a); !tasks.empty(); tasks = rig.Take(a)) {
    for (const v1::Task& task : tasks) {
      v1::TaskResult result = rig.Run(task);
      for (auto& r : *result.mutable_candidates()) {
        if (task.kind() == v1::TASK_SCREEN) r.mutable_measurement()->set_numbers_checked(false);
      }
      rig.Say(a, result);
    }
  }
  const auto record = rig.meta()->GetSweep(sweep, true);
  EXPECT_EQ(record->status.state(), v1::FAILED);
  EXPECT_EQ(record->candidates[0].candidate().failure().stage(), v1::Failure::CHECK);
}

TEST(Core, WatchersSeeTheStateTheChangesAndTheWinner) {
  CoreRig rig;
  const uint64_t a = rig.Attach("a", 1, 1);
  v1::SweepSpec spec = FakeSpec();
  spec.set_top_k(2);
  const std::string sweep = rig.Submit(spec)->sweep();
  core::Effects seen = rig.Turn(core::Watch{77, sweep});
  ASSERT_THAT(seen.publishes, SizeIs(1));
  EXPECT_EQ(seen.publishes[0].event.progress().state(), v1::RUNNING);
  std::vector<core::Publish> all;
  for (std::vector<v1::Task> tasks = rig.Take(a); !tasks.empty(); tasks = rig.Take(a)) {
    for (const v1::Task& task : tasks) {
      core::Effects effects = rig.Say(a, rig.Run(task));
      for (auto& p : effects.publishes) all.push_back(std::move(p));
    }
  }
  ASSERT_FALSE(all.empty());
  EXPECT_TRUE(all.back().last);
  EXPECT_EQ(all.back().event.progress().state(), v1::DONE);
  EXPECT_FALSE(all.back().event.winner().config().empty());
  bool compiled = false;
  for (const auto& p : all) {
    compiled |= p.event.changed().has_artifact() && p.event.changed().state() == v1::PROFILING;
  }
  EXPECT_TRUE(compiled);
  seen = rig.Turn(core::Watch{78, sweep});
  EXPECT_TRUE(absl::IsNotFound(seen.publishes.at(0).status)) << "finished sweeps are the store's";
}

TEST(Core, StreamsThatBreakTheProtocolAreRejected) {
  CoreRig rig;
  const uint64_t connection = rig.NewId();
  rig.Turn(core::WorkerAttached{connection});
  v1::WorkerMessage beat;
  beat.mutable_heartbeat();
  core::Effects effects = rig.Turn(core::WorkerSaid{connection, beat});
  ASSERT_THAT(effects.sends, SizeIs(1));
  EXPECT_TRUE(effects.sends[0].close);
  EXPECT_THAT(effects.sends[0].message.reject().reason(), HasSubstr("Register"));
  v1::Register old = CoreRig::Info("a", 1, 1);
  old.set_protocol(9);
  rig.Attach(old);
  EXPECT_THAT(rig.last().sends.at(0).message.reject().reason(), HasSubstr("protocol"));
  v1::Register nothing = CoreRig::Info("a", 0, 0);
  rig.Attach(nothing);
  EXPECT_TRUE(rig.last().sends.at(0).message.has_reject());
}

TEST(Core, TheNewStreamOfAWorkerReplacesTheOld) {
  CoreRig rig;
  const uint64_t a = rig.Attach("a", 2, 1);
  ASSERT_TRUE(rig.Submit(FakeSpec()).ok());
  const std::vector<v1::Task> held = rig.Take(a);
  v1::Register back = CoreRig::Info("a", 2, 1);
  v1::RunningTask* running = back.add_running();
  running->set_task(held[0].id());
  running->set_epoch(held[0].epoch());
  const uint64_t again = rig.Attach(back);
  ASSERT_GE(rig.last().sends.size(), 2u);
  EXPECT_EQ(rig.last().sends[0].connection, a);
  EXPECT_TRUE(rig.last().sends[0].close);
  // What it did not name never arrived: leased again at once, without blame.
  const std::vector<v1::Task> more = rig.Take(again);
  ASSERT_FALSE(more.empty());
  for (const v1::Task& task : more) {
    EXPECT_NE(task.id(), held[0].id());
    EXPECT_EQ(task.attempt(), 0);
  }
}

TEST(Core, ADrainingWorkerGetsNothingNewAndIsForgottenWhenItLeaves) {
  CoreRig rig;
  const uint64_t a = rig.Attach("a", 1, 1);
  ASSERT_TRUE(rig.Submit(FakeSpec()).ok());
  const std::vector<v1::Task> held = rig.Take(a);
  v1::WorkerMessage drain;
  drain.mutable_drain()->set_reason("maintenance");
  rig.Turn(core::WorkerSaid{a, drain});
  for (const v1::Task& task : held) rig.Say(a, rig.Run(task));
  EXPECT_THAT(rig.Take(a), IsEmpty());
  EXPECT_EQ(rig.Workers().workers(0).state(), "draining");
  rig.Turn(core::WorkerDetached{a});
  EXPECT_THAT(rig.Workers().workers(), IsEmpty());
}

TEST(Core, EmptySweepsAreDoneTaskByTaskAndSurviveARestart) {
  CoreRig rig;
  uint64_t a = rig.Attach("a", 4, 0);
  v1::SweepSpec spec;
  spec.set_template_("empty");
  spec.set_max_candidates(5000);
  const std::string sweep = rig.Submit(spec)->sweep();
  std::set<std::string> done;
  for (int round = 0; round < 3; ++round) {
    for (const v1::Task& task : rig.Take(a)) {
      EXPECT_TRUE(done.insert(task.id()).second) << "leased after its acknowledgement";
      rig.Say(a, rig.Run(task));
    }
  }
  rig.Restart();
  a = rig.Attach("a", 4, 0);
  for (std::vector<v1::Task> tasks = rig.Take(a); !tasks.empty(); tasks = rig.Take(a)) {
    v1::WorkerMessage message;
    for (const v1::Task& task : tasks) {
      EXPECT_TRUE(done.insert(task.id()).second) << "leased after its acknowledgement";
      *message.mutable_results()->add_results() = rig.Run(task);
    }
    rig.Turn(core::WorkerSaid{a, message});
  }
  EXPECT_EQ(done.size(), 5000u);
  EXPECT_EQ(rig.meta()->GetSweep(sweep, false)->status.state(), v1::DONE);
}

}  // namespace
}  // namespace kiln::testing

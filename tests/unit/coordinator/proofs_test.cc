// Finalists at a shape that their tiles do not divide, beside their plain code, and by themselves,
// turn by turn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>

#include "proto/conditions.h"
#include "tests/unit/coordinator/core_rig.h"

namespace kiln::testing {
namespace {

using ::testing::HasSubstr;

// The objects for the ragged shape are made while the finals run; the check comes behind them, and
// the next one wins when the first is wrong there.
TEST(Ragged, AWinnerThatIsWrongAtTheRaggedShapeIsPassedOver) {
  SpaceModel space;
  space.ragged = true;
  CoreRig rig({}, space);
  const uint64_t a = rig.Attach("a", 2, 1);
  const std::string sweep = rig.Submit(FakeSpec())->sweep();
  std::vector<v1::TaskKind> order;
  std::string first;
  for (std::vector<v1::Task> tasks = rig.Take(a); !tasks.empty(); tasks = rig.Take(a)) {
    for (const v1::Task& task : tasks) {
      if (order.empty() || order.back() != task.kind()) order.push_back(task.kind());
      v1::TaskResult result = rig.Run(task);
      if (task.kind() == v1::TASK_CHECK_RAGGED) {
        for (v1::CandidateResult& r : *result.mutable_candidates()) {
          r.mutable_measurement()->set_check_summary("at N=208: right");
        }
        if (first.empty()) {
          first = task.candidates(0).config();
          result.mutable_candidates(0)->clear_measurement();
          result.mutable_candidates(0)->mutable_failure()->set_stage(v1::Failure::CHECK);
          result.mutable_candidates(0)->mutable_failure()->set_message("wrong numbers");
        }
      }
      rig.Say(a, result);
    }
  }
  const auto record = rig.meta()->GetSweep(sweep, true);
  ASSERT_EQ(record->status.state(), v1::DONE) << record->status.message();
  const v1::Winner winner = rig.Submit(FakeSpec())->winner();  // answered by what is stored
  EXPECT_NE(winner.config(), first);
  EXPECT_THAT(winner.measurement().check_summary(), HasSubstr("; at N=208: right"));
  for (const v1::CandidateRow& row : record->candidates) {
    if (row.candidate().config() != first) continue;
    EXPECT_EQ(row.candidate().failure().message(), "at N=208: wrong numbers");
  }
  const auto finals = std::find(order.begin(), order.end(), v1::TASK_FINALS);
  const auto ahead = std::find(order.begin(), order.end(), v1::TASK_COMPILE_RAGGED);
  const auto check = std::find(order.begin(), order.end(), v1::TASK_CHECK_RAGGED);
  EXPECT_LE(std::abs(finals - ahead), 1);  // in one turn
  EXPECT_GT(check, finals);
}

// What cannot be built or checked there is no fault of the candidate's, and the proof says so.
TEST(Ragged, AShapeThatTheWinnerDoesNotTakeIsSaid) {
  SpaceModel space;
  space.ragged = true;
  CoreRig rig({}, space);
  const uint64_t a = rig.Attach("a", 2, 1);
  const std::string sweep = rig.Submit(FakeSpec())->sweep();
  for (std::vector<v1::Task> tasks = rig.Take(a); !tasks.empty(); tasks = rig.Take(a)) {
    for (const v1::Task& task : tasks) {
      v1::TaskResult result = rig.Run(task);
      if (task.kind() == v1::TASK_COMPILE_RAGGED) {
        result.mutable_candidates(0)->clear_artifact();
        result.mutable_candidates(0)->mutable_failure()->set_stage(v1::Failure::ELABORATE);
        result.mutable_candidates(0)->mutable_failure()->set_message("N must be even\nhere");
      }
      EXPECT_NE(task.kind(), v1::TASK_CHECK_RAGGED);
      rig.Say(a, result);
    }
  }
  const auto record = rig.meta()->GetSweep(sweep, true);
  ASSERT_EQ(record->status.state(), v1::DONE);
  EXPECT_THAT(rig.Submit(FakeSpec())->winner().measurement().check_summary(),
              ::testing::EndsWith("at no ragged shape: N=208: not taken: N must be even"));
  for (const v1::CandidateRow& row : record->candidates) {
    EXPECT_NE(row.candidate().state(), v1::CANDIDATE_FAILED);
  }
}

// A sweep with plain code: what each kind of task came to.
struct PlainSweep {
  explicit PlainSweep(const std::function<void(const v1::Task&, v1::TaskResult*)>& spoil) {
    SpaceModel space;
    space.plain = true;
    CoreRig rig({}, space);
    const uint64_t a = rig.Attach("a", 2, 1);
    const std::string sweep = rig.Submit(FakeSpec())->sweep();
    for (std::vector<v1::Task> tasks = rig.Take(a); !tasks.empty(); tasks = rig.Take(a)) {
      for (const v1::Task& task : tasks) {
        ++seen[task.kind()];
        v1::TaskResult result = rig.Run(task);
        if (task.kind() == v1::TASK_CHECK_PLAIN) {
          EXPECT_EQ(task.candidates_size(), 1);
          EXPECT_FALSE(task.candidates(0).plain_digest().empty());
          EXPECT_NE(task.candidates(0).plain_digest(), task.candidates(0).artifact_digest());
          result.mutable_candidates(0)->mutable_measurement()->set_check_summary(
              "its plain code: right");
        }
        spoil(task, &result);
        rig.Say(a, result);
      }
    }
    record = *rig.meta()->GetSweep(sweep, true);
    winner = rig.Submit(FakeSpec())->winner();
  }
  std::map<v1::TaskKind, int> seen;
  store::SweepRecord record;
  v1::Winner winner;
};

TEST(Plain, TheWinnerIsHeldAgainstItsPlainCodeAndSaysSo) {
  const PlainSweep swept([](const v1::Task&, v1::TaskResult*) {});
  EXPECT_THAT(swept.winner.measurement().check_summary(), HasSubstr("; its plain code: right"));
  EXPECT_EQ(swept.seen.at(v1::TASK_CHECK_PLAIN), 1);
}

TEST(Plain, WhoDiffersFromItIsPassedOver) {
  std::string first;
  const PlainSweep swept([&](const v1::Task& task, v1::TaskResult* result) {
    if (task.kind() != v1::TASK_CHECK_PLAIN || !first.empty()) return;
    first = task.candidates(0).config();
    result->mutable_candidates(0)->clear_measurement();
    result->mutable_candidates(0)->mutable_failure()->set_stage(v1::Failure::CHECK);
    result->mutable_candidates(0)->mutable_failure()->set_message("wrong numbers");
  });
  EXPECT_FALSE(first.empty());
  EXPECT_NE(swept.winner.config(), first);
  for (const v1::CandidateRow& row : swept.record.candidates) {
    if (row.candidate().config() != first) continue;
    EXPECT_EQ(row.candidate().state(), v1::CANDIDATE_FAILED);
    EXPECT_EQ(row.candidate().failure().message(), "wrong numbers");
  }
}

// What does not compile plainly, or takes the child down, is no fault of the winner's.
TEST(Plain, CodeThatCannotBeHadBlamesNobody) {
  for (const v1::TaskKind kind : {v1::TASK_COMPILE_PLAIN, v1::TASK_CHECK_PLAIN}) {
    const PlainSweep swept([&](const v1::Task& task, v1::TaskResult* result) {
      if (task.kind() != kind) return;
      for (v1::CandidateResult& r : *result->mutable_candidates()) {
        r.clear_artifact();
        r.clear_measurement();
        r.mutable_failure()->set_stage(v1::Failure::RUN);
        r.mutable_failure()->set_killed_child(true);
        r.mutable_failure()->set_message("signal 11");
      }
    });
    EXPECT_THAT(swept.winner.measurement().check_summary(),
                HasSubstr("; not held against its plain code: "));
    for (const v1::CandidateRow& row : swept.record.candidates) {
      EXPECT_NE(row.candidate().state(), v1::CANDIDATE_FAILED);
    }
  }
}

// Nor is a device that has no room, or a fault on it while the plain code ran.
TEST(Plain, OnlyWrongNumbersAreAFaultOfTheWinners) {
  for (const v1::Failure::Stage stage :
       {v1::Failure::LOAD, v1::Failure::RESOURCES, v1::Failure::RUN}) {
    const PlainSweep swept([&](const v1::Task& task, v1::TaskResult* result) {
      if (task.kind() != v1::TASK_CHECK_PLAIN) return;
      result->mutable_candidates(0)->clear_measurement();
      result->mutable_candidates(0)->mutable_failure()->set_stage(stage);
      result->mutable_candidates(0)->mutable_failure()->set_message("no room");
    });
    EXPECT_THAT(swept.winner.measurement().check_summary(),
                HasSubstr("; not held against its plain code: no room"));
    for (const v1::CandidateRow& row : swept.record.candidates) {
      EXPECT_NE(row.candidate().state(), v1::CANDIDATE_FAILED);
    }
  }
}

TEST(Plain, AnAnswerWithoutAnObjectIsNone) {
  const PlainSweep swept([&](const v1::Task& task, v1::TaskResult* result) {
    if (task.kind() != v1::TASK_COMPILE_PLAIN) return;
    for (v1::CandidateResult& r : *result->mutable_candidates()) r.clear_artifact();
  });
  EXPECT_THAT(swept.winner.measurement().check_summary(),
              HasSubstr("; not held against its plain code: the worker sent neither"));
  EXPECT_EQ(swept.seen.count(v1::TASK_CHECK_PLAIN), 0u);
}

// Both proofs are under way at once. Who is wrong in one says so, whatever comes of the other.
TEST(Plain, WhoFailedInOneProofDoesNotFailAgainInTheOther) {
  SpaceModel space;
  space.plain = space.ragged = true;
  CoreRig rig({}, space);
  const uint64_t a = rig.Attach("a", 2, 2);
  const std::string sweep = rig.Submit(FakeSpec())->sweep();
  std::string first;
  std::vector<v1::TaskResult> late;
  for (std::vector<v1::Task> tasks = rig.Take(a); !tasks.empty() || !late.empty();
       tasks = rig.Take(a)) {
    for (const v1::Task& task : tasks) {
      v1::TaskResult result = rig.Run(task);
      const bool plain = task.kind() == v1::TASK_CHECK_PLAIN;
      if (first.empty() && task.kind() == v1::TASK_CHECK_RAGGED) {
        first = task.candidates(0).config();
      }
      if ((plain || task.kind() == v1::TASK_CHECK_RAGGED) &&
          (first.empty() || task.candidates(0).config() == first)) {
        result.mutable_candidates(0)->clear_measurement();
        result.mutable_candidates(0)->mutable_failure()->set_stage(v1::Failure::CHECK);
        result.mutable_candidates(0)->mutable_failure()->set_message(plain ? "second" : "wrong");
      }
      if (plain) {
        late.push_back(result);
      } else {
        rig.Say(a, result);
      }
    }
    if (tasks.empty()) {
      rig.Say(a, late.front());
      late.erase(late.begin());
    }
  }
  const auto record = rig.meta()->GetSweep(sweep, true);
  ASSERT_EQ(record->status.state(), v1::DONE) << record->status.message();
  for (const v1::CandidateRow& row : record->candidates) {
    if (row.candidate().config() != first) continue;
    EXPECT_EQ(row.candidate().failure().message(), "at N=208: wrong");
  }
}

// An object that the store has lost is made again, the finalist's own too.
TEST(Plain, LostObjectsAreMadeAgain) {
  for (const bool own : {false, true}) {
    SpaceModel space;
    space.plain = true;
    CoreRig rig({}, space);
    const uint64_t a = rig.Attach("a", 2, 1);
    const std::string sweep = rig.Submit(FakeSpec())->sweep();
    std::string lost;
    std::map<v1::TaskKind, int> since;
    for (int turns = 0; turns < 200; ++turns) {
      const std::vector<v1::Task> tasks = rig.Take(a);
      if (tasks.empty()) rig.Advance(1);
      for (const v1::Task& task : tasks) {
        v1::TaskResult result = rig.Run(task);
        if (!lost.empty()) ++since[task.kind()];
        const bool compile = task.kind() == (own ? v1::TASK_COMPILE : v1::TASK_COMPILE_PLAIN);
        if (compile && !lost.empty()) lost = "made again";
        if (task.kind() == v1::TASK_CHECK_PLAIN && lost != "made again") {
          lost = own ? task.candidates(0).artifact_digest() : task.candidates(0).plain_digest();
          result.clear_candidates();
          result.set_released("lost inputs: blob " + lost + ": not there");
        }
        rig.Say(a, result);
      }
      rig.Beat(a, {});
    }
    const auto record = rig.meta()->GetSweep(sweep, true);
    ASSERT_EQ(record->status.state(), v1::DONE) << own << " " << record->status.message();
    EXPECT_EQ(since[v1::TASK_FINALS], own ? 1 : 0);
    EXPECT_EQ(since[v1::TASK_COMPILE], own ? 1 : 0);
    EXPECT_FALSE(rig.Submit(FakeSpec())->winner().config().empty());
  }
}

// Of outputs whose every element has been looked at, it would say nothing new.
TEST(Plain, IsNotMadeWhereAllElementsWereLookedAt) {
  const PlainSweep swept([](const v1::Task&, v1::TaskResult* result) {
    for (v1::CandidateResult& r : *result->mutable_candidates()) {
      if (r.has_measurement()) r.mutable_measurement()->set_whole_output(true);
    }
  });
  EXPECT_EQ(swept.seen.count(v1::TASK_COMPILE_PLAIN), 0u);
  EXPECT_EQ(swept.seen.count(v1::TASK_CHECK_PLAIN), 0u);
}

// The stored time is that of the config by itself: where it is far from the finals', one is off.
TEST(Fresh, AWinnersTimeFarFromTheFinalsIsSaidToBe) {
  for (const double factor : {1.1, 1.6, 0.5}) {
    CoreRig rig;
    const uint64_t worker = rig.Attach("w", 2, 1);
    const auto sweep = rig.Submit(FakeSpec());
    for (std::vector<v1::Task> tasks = rig.Take(worker); !tasks.empty(); tasks = rig.Take(worker)) {
      for (const v1::Task& task : tasks) {
        v1::TaskResult result = rig.Run(task);
        for (v1::CandidateResult& r : *result.mutable_candidates()) {
          if (!r.has_fresh()) continue;
          r.mutable_fresh()->set_median_ns(factor * r.measurement().median_ns());
        }
        rig.Say(worker, result);
      }
    }
    const auto stored = rig.Submit(FakeSpec());
    ASSERT_TRUE(stored.ok() && stored->answered()) << factor;
    const std::vector<std::string> told = Disturbances(stored->winner().measurement().conditions());
    if (factor == 1.1) {
      EXPECT_TRUE(told.empty()) << told.front();
      continue;
    }
    ASSERT_EQ(told.size(), 1u) << factor;
    EXPECT_NE(told[0].find(factor > 1 ? "this is 1.6 times as long" : "this is 0.5 times as long"),
              std::string::npos)
        << told[0];
  }
}

}  // namespace
}  // namespace kiln::testing

#include "worker/ledger.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "absl/strings/str_cat.h"

namespace kiln::worker {
namespace {

v1::Task MakeTask(const std::string& id, v1::TaskKind kind, int candidates, uint64_t epoch = 1) {
  v1::Task task;
  task.set_id(id);
  task.set_epoch(epoch);
  task.set_kind(kind);
  for (int i = 0; i < candidates; ++i) task.add_candidates()->set_config(absl::StrCat("i=", i));
  return task;
}

v1::CandidateResult Ok(const std::string& config) {
  v1::CandidateResult result;
  result.set_config(config);
  result.mutable_artifact()->set_digest("d");
  return result;
}

TEST(LedgerTest, CompileCandidatesSpreadAndTheTaskEndsWithTheLast) {
  Ledger ledger;
  ledger.Add(MakeTask("t", v1::TASK_COMPILE, 3));
  std::optional<CompileItem> a = ledger.NextCompile();
  std::optional<CompileItem> b = ledger.NextCompile();
  std::optional<CompileItem> c = ledger.NextCompile();
  ASSERT_TRUE(a && b && c);
  EXPECT_FALSE(ledger.NextCompile().has_value());
  EXPECT_FALSE(ledger.FinishCandidate(*b, Ok("i=1")));
  EXPECT_FALSE(ledger.FinishCandidate(*c, Ok("i=2")));
  EXPECT_EQ(ledger.Held().size(), 1u);
  EXPECT_TRUE(ledger.FinishCandidate(*a, Ok("i=0")));
  EXPECT_TRUE(ledger.idle());
  std::vector<v1::TaskResult> results = ledger.TakeUnsent(1 << 20);
  ASSERT_EQ(results.size(), 1u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(results[0].candidates(i).config(), absl::StrCat("i=", i)) << "in the task's order";
    EXPECT_FALSE(results[0].candidates(i).not_run());
  }
}

TEST(LedgerTest, ADeviceTakesItsOwnTasksFirstAndThenThoseOfOthers) {
  Ledger ledger;
  for (const auto& [id, device] :
       {std::pair{"a", "gpu0"}, {"b", "gpu1"}, {"c", ""}, {"d", "gpu1"}}) {
    v1::Task task = MakeTask(id, v1::TASK_RACE, 1);
    task.set_device(device);
    ledger.Add(task);
  }
  for (const auto& [device, id] :
       {std::pair{"gpu1", "b"}, {"gpu1", "c"}, {"gpu0", "a"}, {"gpu0", "d"}}) {
    const HeldTaskPtr held = ledger.NextProfile(device);
    ASSERT_NE(held, nullptr);
    EXPECT_EQ(held->task.id(), id) << device;
  }
  EXPECT_EQ(ledger.NextProfile("gpu0"), nullptr);
}

TEST(LedgerTest, UnacknowledgedResultsAreOfferedAgainAndThenForgotten) {
  Ledger ledger;
  ledger.Add(MakeTask("t", v1::TASK_SCREEN, 1));
  ledger.FinishProfile(ledger.NextProfile(), {Ok("i=0")});
  EXPECT_EQ(ledger.TakeUnsent(1).size(), 1u);
  EXPECT_EQ(ledger.TakeUnsent(1).size(), 0u) << "sent once on one stream";
  ledger.MarkAllUnsent();
  EXPECT_EQ(ledger.TakeUnsent(1).size(), 1u);
  EXPECT_TRUE(ledger.Acknowledge("t"));
  EXPECT_FALSE(ledger.Acknowledge("t"));
  ledger.MarkAllUnsent();
  EXPECT_TRUE(ledger.TakeUnsent(1).empty());
}

TEST(LedgerTest, ALeaseOfAKnownTaskTakesOverTheEpochAndRunsNothingTwice) {
  Ledger ledger;
  EXPECT_EQ(ledger.Add(MakeTask("t", v1::TASK_SCREEN, 1, 1)), Ledger::Added::kNew);
  HeldTaskPtr held = ledger.NextProfile();
  EXPECT_EQ(ledger.Add(MakeTask("t", v1::TASK_SCREEN, 1, 5)), Ledger::Added::kKnown);
  EXPECT_EQ(ledger.NextProfile(), nullptr);
  ledger.FinishProfile(held, {Ok("i=0")});
  EXPECT_EQ(ledger.TakeUnsent(1)[0].epoch(), 5u);
  EXPECT_EQ(ledger.Add(MakeTask("t", v1::TASK_SCREEN, 1, 7)), Ledger::Added::kFinished);
  EXPECT_EQ(ledger.NextProfile(), nullptr);
  ASSERT_TRUE(ledger.has_unsent());
  EXPECT_EQ(ledger.TakeUnsent(1)[0].epoch(), 7u);
}

TEST(LedgerTest, ReleaseReportsWhatDidNotRun) {
  Ledger ledger;
  ledger.Add(MakeTask("t", v1::TASK_COMPILE, 3));
  std::optional<CompileItem> item = ledger.NextCompile();
  EXPECT_FALSE(ledger.Release(item->held, "draining")) << "one candidate still runs";
  EXPECT_FALSE(ledger.NextCompile().has_value());
  EXPECT_TRUE(ledger.FinishCandidate(*item, Ok("i=0")));
  v1::TaskResult result = ledger.TakeUnsent(1)[0];
  EXPECT_EQ(result.released(), "") << "what did run counts";
  EXPECT_FALSE(result.candidates(0).not_run());
  EXPECT_TRUE(result.candidates(1).not_run());
  EXPECT_TRUE(result.candidates(2).not_run());
  EXPECT_EQ(result.candidates(2).config(), "i=2");

  ledger.Add(MakeTask("u", v1::TASK_SCREEN, 2));
  EXPECT_TRUE(ledger.Release(ledger.HeldTasks()[0], "draining"));
  result = ledger.TakeUnsent(1)[0];
  EXPECT_EQ(result.released(), "draining");
  EXPECT_TRUE(result.candidates(0).not_run());
}

TEST(LedgerTest, RevokedTasksLeaveNoResult) {
  Ledger ledger;
  ledger.Add(MakeTask("a", v1::TASK_COMPILE, 2));
  ledger.Add(MakeTask("b", v1::TASK_SCREEN, 1));
  std::optional<CompileItem> item = ledger.NextCompile();
  EXPECT_EQ(ledger.Revoke("a").size(), 1u) << "a slot must be interrupted";
  EXPECT_TRUE(ledger.Revoke("b").empty()) << "nobody works on it";
  EXPECT_FALSE(ledger.FinishCandidate(*item, Ok("i=0")));
  EXPECT_FALSE(ledger.NextCompile().has_value());
  EXPECT_EQ(ledger.NextProfile(), nullptr);
  EXPECT_TRUE(ledger.idle());
  EXPECT_FALSE(ledger.has_unsent());
}

TEST(LedgerTest, EmptyTasksEndAtOnce) {
  Ledger ledger;
  ledger.Add(MakeTask("e", v1::TASK_EMPTY, 2));
  ledger.Add(MakeTask("z", v1::TASK_COMPILE, 0));
  std::vector<v1::TaskResult> results = ledger.TakeUnsent(1 << 20);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].candidates_size(), 2);
  EXPECT_FALSE(results[0].candidates(0).not_run());
}

TEST(LedgerTest, BatchesRespectTheirSizeButNeverStarve) {
  Ledger ledger;
  for (int i = 0; i < 10; ++i) ledger.Add(MakeTask(absl::StrCat("t", i), v1::TASK_EMPTY, 100));
  size_t total = 0;
  while (ledger.has_unsent()) {
    size_t got = ledger.TakeUnsent(1000).size();
    ASSERT_GE(got, 1u);
    EXPECT_LE(got, 2u);
    total += got;
  }
  EXPECT_EQ(total, 10u);
}

// Random histories: each lease ends in exactly one result unless it was revoked, and each candidate
// runs at most once.
TEST(LedgerTest, RandomHistoriesKeepTheBooks) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Ledger ledger;
    std::set<std::string> added, revoked, reported, released;
    std::vector<CompileItem> compiling;
    std::vector<HeldTaskPtr> profiling;
    auto step = [&](int action) {
      if (action == 0) {
        std::string id = absl::StrCat("t", random() % 30);
        bool compile = id.back() % 2 == 0;
        if (reported.count(id) > 0 || revoked.count(id) > 0) return;
        ledger.Add(MakeTask(id, compile ? v1::TASK_COMPILE : v1::TASK_RACE,
                            static_cast<int>(1 + random() % 4), random()));
        added.insert(id);
      } else if (action == 1) {
        if (std::optional<CompileItem> item = ledger.NextCompile()) compiling.push_back(*item);
        if (HeldTaskPtr held = ledger.NextProfile()) profiling.push_back(held);
      } else if (action == 2 && !compiling.empty()) {
        CompileItem item = compiling.back();
        compiling.pop_back();
        ledger.FinishCandidate(item, Ok(item.held->task.candidates(item.index).config()));
      } else if (action == 3 && !profiling.empty()) {
        HeldTaskPtr held = profiling.back();
        profiling.pop_back();
        ledger.FinishProfile(held, {});
      } else if (action == 4 && random() % 4 == 0 && !added.empty()) {
        std::string id = *added.begin();
        if (reported.count(id) == 0) revoked.insert(id);
        ledger.Revoke(id);
      } else if (action == 5 && random() % 4 == 0) {
        for (const HeldTaskPtr& held : ledger.HeldTasks()) ledger.Release(held, "why not");
      } else if (action == 6) {
        for (const v1::TaskResult& result : ledger.TakeUnsent(500)) {
          EXPECT_TRUE(reported.insert(result.task()).second) << "reported twice";
          EXPECT_EQ(revoked.count(result.task()), 0u);
          ledger.Acknowledge(result.task());
        }
      }
    };
    for (int i = 0; i < 300; ++i) step(static_cast<int>(random() % 7));
    for (int i = 0; i < 300; ++i) step(1 + i % 3);
    while (ledger.has_unsent()) step(6);
    EXPECT_TRUE(ledger.idle());
    for (const std::string& id : added) {
      EXPECT_TRUE(reported.count(id) + revoked.count(id) >= 1) << id << " is lost, seed " << seed;
    }
    EXPECT_EQ(ledger.unacknowledged(), 0u);
  }
}

}  // namespace
}  // namespace kiln::worker

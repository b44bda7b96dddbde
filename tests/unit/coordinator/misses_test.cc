// The list of misses: what is kept, what goes, what a crash may lose.
#include "coordinator/core/misses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "coordinator/store/meta_store.h"
#include "tests/unit/coordinator/core_rig.h"

namespace kiln::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Time At(double seconds) {
  Time time;
  time.mono_ns = SecondsToNs(seconds);
  time.wall_ms = static_cast<int64_t>(seconds * 1000);
  return time;
}

Misses::Seen One(const std::string& id, const std::string& user = "ada", size_t text = 10) {
  v1::SweepSpec spec;
  spec.set_kernel_source(std::string(text, 'k'));
  return {id, spec, {user}, 1, "why"};
}

TEST(Misses, AHotLoopIsFewRows) {
  Options options;
  Misses misses(options, {});
  store::Batch batch;
  size_t written = 0;
  for (int i = 0; i < 10'000; ++i) {
    misses.Add(One("a"), At(i * 1e-5), &batch);
    misses.FlushIfDue(At(i * 1e-5), &batch);
    written += batch.miss_counts.size() + batch.misses.size();
    batch = {};
  }
  EXPECT_LE(written, 2u + 10'000 / options.miss_flush_count);
  misses.Flush(&batch);
  ASSERT_THAT(batch.miss_counts, SizeIs(1));
  EXPECT_EQ(batch.miss_counts[0].count(), 10'000);
}

TEST(Misses, ACountThatWaitsIsWrittenAfterItsTime) {
  Options options;
  Misses misses(options, {});
  store::Batch batch;
  misses.Add(One("a"), At(0), &batch);
  misses.Add(One("a"), At(0.1), &batch);
  batch = {};
  misses.FlushIfDue(At(0.5), &batch);
  EXPECT_TRUE(batch.empty());
  misses.FlushIfDue(At(1.0), &batch);
  ASSERT_THAT(batch.miss_counts, SizeIs(1));
  EXPECT_EQ(batch.miss_counts[0].count(), 2);
  batch = {};
  misses.FlushIfDue(At(9), &batch);
  EXPECT_TRUE(batch.empty()) << "nothing new";
}

TEST(Misses, AFloodOfDistinctOnesIsBoundedAndTheFrequentStay) {
  Options options;
  options.max_misses = 100;
  Misses misses(options, {});
  std::map<std::string, int64_t> stored;  // what is on disk
  std::set<std::string> specs;
  const auto apply = [&](const store::Batch& batch) {
    for (const std::string& id : batch.deleted_misses) {
      stored.erase(id);
      specs.erase(id);
    }
    for (const v1::MissRow& row : batch.misses) specs.insert(row.id());
    for (const v1::MissCountRow& row : batch.miss_counts) stored[row.id()] = row.count();
  };
  int evicted = 0;
  for (int i = 0; i < 5000; ++i) {
    store::Batch batch;
    for (int k = 0; k < 7; ++k) {
      evicted += misses.Add(One(absl::StrCat("rare", i, "-", k)), At(i), &batch);
    }
    if (i % 2 == 0) evicted += misses.Add(One("frequent"), At(i), &batch);
    misses.FlushIfDue(At(i), &batch);
    apply(batch);
    ASSERT_LE(misses.size(), 100);
    ASSERT_LE(stored.size(), 100u);
  }
  EXPECT_EQ(evicted, 35'001 - 100);
  EXPECT_EQ(misses.List(1)[0]->id(), "frequent");
  EXPECT_EQ(misses.List(0).size(), 100u);
  for (const v1::MissCountRow* row : misses.List(0)) {
    EXPECT_EQ(specs.count(row->id()), 1u) << "counted, but what was asked is not stored";
  }
  EXPECT_EQ(specs.size(), 100u) << "nothing is left behind on disk";
}

TEST(Misses, TheBytesOfAllRequestsAreBounded) {
  Options options;
  options.max_miss_bytes = 100'000;
  Misses misses(options, {});
  store::Batch batch;
  for (int i = 0; i < 50; ++i) misses.Add(One(absl::StrCat(i), "ada", 30'000), At(i), &batch);
  EXPECT_EQ(misses.size(), 3);
  misses.Add(One("huge", "ada", 1'000'000), At(60), &batch);
  EXPECT_EQ(misses.size(), 1) << "the one that came just now stays";
  EXPECT_EQ(misses.List(0)[0]->id(), "huge");
}

TEST(Misses, NamesAreBoundedAndTextIsCutBetweenCharacters) {
  Options options;
  Misses misses(options, {});
  store::Batch batch;
  for (int i = 0; i < 100; ++i) misses.Add(One("a", absl::StrCat("user", i)), At(i), &batch);
  EXPECT_EQ(misses.List(0)[0]->users_size(), 8);
  EXPECT_TRUE(misses.List(0)[0]->more_users());
  Misses::Seen seen = One("b");
  for (int i = 0; i < 1000; ++i) seen.reason += "\xc3\xa4";
  misses.Add(seen, At(200), &batch);
  EXPECT_EQ(misses.List(0)[1]->reason().size(), 1023u);
}

TEST(Misses, ARestartGoesOnFromTheRows) {
  Options options;
  store::Batch batch;
  std::vector<v1::MissCountRow> rows;
  {
    Misses misses(options, {});
    misses.Add(One("a"), At(1), &batch);
    misses.Add(One("b"), At(2), &batch);
    misses.Add(One("b"), At(3), &batch);
    batch = {};
    misses.Flush(&batch);
    rows = batch.miss_counts;
  }
  Misses misses(options, rows);
  misses.Add(One("a"), At(10), &batch);
  misses.Add(One("a"), At(11), &batch);
  ASSERT_EQ(misses.List(0).size(), 2u);
  EXPECT_EQ(misses.List(0)[0]->id(), "a");
  EXPECT_EQ(misses.List(0)[0]->count(), 3);
  EXPECT_EQ(misses.List(0)[0]->first_unix_ms(), 1000);
  EXPECT_EQ(misses.List(0)[0]->last_unix_ms(), 11'000);
}

// ---- in the core ----

class MissesInCore : public ::testing::Test {
 protected:
  v1::LookupWinnerResponse Look(const v1::SweepSpec& spec, v1::Match match = v1::EXACT) {
    const uint64_t request = rig_.NewId();
    rig_.Turn(Lookup{request, spec, match});
    const auto response = rig_.Get<v1::LookupWinnerResponse>(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *response : v1::LookupWinnerResponse();
  }
  v1::ListMissesResponse List() {
    const uint64_t request = rig_.NewId();
    rig_.Turn(ListMisses{request, 0});
    return *rig_.Get<v1::ListMissesResponse>(request);
  }
  void Tune(const v1::SweepSpec& spec, uint64_t worker) {
    const auto submitted = rig_.Submit(spec);
    ASSERT_TRUE(submitted.ok()) << submitted.status();
    for (int turn = 0; turn < 200 && rig_.core()->Stats().active_sweeps > 0; ++turn) {
      for (const v1::Task& task : rig_.Take(worker)) rig_.Say(worker, rig_.Run(task, "a"));
    }
    ASSERT_EQ(rig_.core()->Stats().active_sweeps, 0);
  }

  kiln::testing::CoreRig rig_;
};

TEST_F(MissesInCore, WhatIsTunedLeavesTheList) {
  const uint64_t a = rig_.Attach("a", 1, 1);
  v1::SweepSpec spec = kiln::testing::FakeSpec("1");
  v1::SweepSpec other = kiln::testing::FakeSpec("2");
  other.set_user("grace");
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(Look(spec).found());
  EXPECT_FALSE(Look(other).found());
  EXPECT_FALSE(Look(spec, v1::ARCH).found()) << "the same request, whatever the level";
  v1::ListMissesResponse list = List();
  ASSERT_EQ(list.misses_size(), 2);
  EXPECT_EQ(list.misses(0).count(), 4);
  EXPECT_THAT(list.misses(1).users(), ElementsAre("grace"));
  const auto rows = *rig_.meta()->FindMisses({list.misses(0).id()});
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].spec().kernel_source(), spec.kernel_source());

  // From the list, with another strategy and name: the same problem all the same.
  v1::SweepSpec again = rows[0].spec();
  again.set_strategy("random");
  again.set_name("from the list");
  Tune(again, a);
  list = List();
  ASSERT_EQ(list.misses_size(), 1);
  EXPECT_EQ(list.misses(0).users(0), "grace");
  EXPECT_TRUE(Look(spec).found());
  EXPECT_THAT(*rig_.meta()->FindMisses({rows[0].id()}), ::testing::IsEmpty());
}

// A type in other words, or one that is the kernel's default, is the same problem to a lookup.
TEST_F(MissesInCore, WhatIsAskedInOtherWordsIsAnsweredAndLeavesTheList) {
  const uint64_t a = rig_.Attach("a", 1, 1);
  v1::SweepSpec spec = kiln::testing::FakeSpec("1");
  v1::SweepSpec other = spec;
  (*spec.mutable_arguments())["dtype"] = "T.float16";
  (*other.mutable_arguments())["dtype"] = "\"float16\"";
  EXPECT_FALSE(Look(other).found());
  Tune(spec, a);
  ASSERT_EQ(List().misses_size(), 1);
  const v1::LookupWinnerResponse answer = Look(other);
  EXPECT_TRUE(answer.found());
  EXPECT_EQ(answer.matched(), v1::EXACT);
  EXPECT_EQ(List().misses_size(), 0);
  other.mutable_arguments()->erase("dtype");
  EXPECT_TRUE(Look(other).found());
  (*other.mutable_arguments())["dtype"] = "float32";
  const v1::LookupWinnerResponse miss = Look(other);
  EXPECT_FALSE(miss.found());
  EXPECT_THAT(miss.miss_reason(), ::testing::HasSubstr("tuned for dtype=float16, asked"));
}

TEST_F(MissesInCore, AMissForADeviceThatNobodyHasSeenLeavesTheListToo) {
  EXPECT_FALSE(Look(kiln::testing::FakeSpec()).found());
  ASSERT_EQ(List().misses_size(), 1);
  const uint64_t a = rig_.Attach("a", 1, 1);
  Tune(kiln::testing::FakeSpec(), a);
  EXPECT_EQ(List().misses_size(), 0);
}

TEST_F(MissesInCore, AnotherToolchainIsAMissUntilItIsTunedAgain) {
  const uint64_t a = rig_.Attach("a", 1, 1);
  const v1::SweepSpec spec = kiln::testing::FakeSpec();
  Tune(spec, a);
  EXPECT_EQ(Look(spec).matched(), v1::EXACT);
  v1::Register info = kiln::testing::CoreRig::Info("a", 1, 1);
  info.set_instance("2");
  info.set_compiler_build("build-2");
  const uint64_t newer = rig_.Attach(info);
  const v1::LookupWinnerResponse miss = Look(spec);
  EXPECT_FALSE(miss.found());
  EXPECT_THAT(miss.miss_reason(), HasSubstr("tuned with compiler build-1, asked build-2"));
  EXPECT_EQ(Look(spec, v1::COMPATIBLE).matched(), v1::COMPATIBLE);
  EXPECT_TRUE(Look(spec, v1::MATCH_UNSPECIFIED).found()) << "as before there were levels";
  EXPECT_EQ(List().misses_size(), 1);
  const auto submitted = rig_.Submit(spec);
  ASSERT_TRUE(submitted.ok());
  EXPECT_FALSE(submitted->answered());
  for (int turn = 0; turn < 200 && rig_.core()->Stats().active_sweeps > 0; ++turn) {
    for (const v1::Task& task : rig_.Take(newer)) rig_.Say(newer, rig_.Run(task, "a", "build-2"));
  }
  EXPECT_EQ(Look(spec).matched(), v1::EXACT);
  EXPECT_EQ(List().misses_size(), 0);
}

// Each toolchain leaves a winner behind, and a pin: the latest eight stay.
TEST_F(MissesInCore, WinnersOfAProblemAreBounded) {
  const v1::SweepSpec spec = kiln::testing::FakeSpec();
  for (int build = 1; build <= 12; ++build) {
    const std::string name = absl::StrCat("build-", build);
    v1::Register info = kiln::testing::CoreRig::Info("a", 1, 1);
    info.set_instance(name);
    info.set_compiler_build(name);
    const uint64_t worker = rig_.Attach(info);
    rig_.Advance(1);
    ASSERT_FALSE(rig_.Submit(spec)->answered());
    for (int turn = 0; turn < 200 && rig_.core()->Stats().active_sweeps > 0; ++turn) {
      for (const v1::Task& task : rig_.Take(worker)) rig_.Say(worker, rig_.Run(task, "a", name));
    }
    ASSERT_EQ(rig_.core()->Stats().active_sweeps, 0);
    ASSERT_TRUE(Look(spec).found()) << name;
  }
  const auto rows = *rig_.meta()->WinnersOfKernel(spec, "", 100);
  EXPECT_THAT(rows, SizeIs(8));
  std::set<std::string> builds;
  for (const v1::WinnerIndexRow& row : rows) builds.insert(row.key().compiler());
  EXPECT_EQ(builds.count("build-12") + builds.count("build-5"), 2u) << "the latest";
  int pins = 0;
  for (const auto& [digest, owner] : rig_.blobs()->Pins()) pins += owner.starts_with("winner:");
  EXPECT_EQ(pins, 8);
}

TEST_F(MissesInCore, ClearedOnesAreGoneFromTheDiskToo) {
  Look(kiln::testing::FakeSpec("1"));
  Look(kiln::testing::FakeSpec("2"));
  const std::string first = List().misses(0).id();
  uint64_t request = rig_.NewId();
  rig_.Turn(ClearMisses{request, {first, "nothing"}});
  EXPECT_EQ(rig_.Get<v1::ClearMissesResponse>(request)->cleared(), 1);
  rig_.Restart();
  EXPECT_EQ(List().misses_size(), 1);
  request = rig_.NewId();
  rig_.Turn(ClearMisses{request, {}});
  EXPECT_EQ(rig_.Get<v1::ClearMissesResponse>(request)->cleared(), 1);
  rig_.Restart();
  EXPECT_EQ(List().misses_size(), 0);
}

TEST_F(MissesInCore, TheEndWritesWhatWaits) {
  const v1::SweepSpec spec = kiln::testing::FakeSpec();
  for (int i = 0; i < 10; ++i) Look(spec);
  rig_.Turn(Stopping{});
  rig_.Restart();
  EXPECT_EQ(List().misses(0).count(), 10);
}

TEST_F(MissesInCore, WhatCannotBeTunedIsNotCounted) {
  rig_.Attach("a", 1, 1);
  v1::SweepSpec spec = kiln::testing::FakeSpec();
  spec.set_objective(v1::SweepSpec::COMPILE);
  EXPECT_FALSE(Look(spec).found());
  spec = kiln::testing::FakeSpec();
  spec.set_entry("bad");
  const uint64_t request = rig_.NewId();
  rig_.Turn(Lookup{request, spec, v1::EXACT});
  EXPECT_FALSE(rig_.Get<v1::LookupWinnerResponse>(request).ok());
  EXPECT_EQ(List().misses_size(), 0);
}

// GPUs of one model under two power limits: each sweep stays with the class that it began on.
TEST_F(MissesInCore, PowerLimitsAreDevicesOfTheirOwn) {
  const auto gpu = [](const std::string& name, double watts) {
    v1::Register info = kiln::testing::CoreRig::Info(name, 1, 1);
    info.mutable_archs(0)->set_power_watts(watts);
    return info;
  };
  v1::Register two = gpu("a", 700);
  two.set_profile_slots(2);
  const uint64_t a = rig_.Attach(two);
  const uint64_t b = rig_.Attach(gpu("b", 350));
  ASSERT_TRUE(rig_.Submit(kiln::testing::FakeSpec()).ok());
  for (int turn = 0; turn < 200 && rig_.core()->Stats().active_sweeps > 0; ++turn) {
    for (const v1::Task& task : rig_.Take(a)) rig_.Say(a, rig_.Run(task, "a"));
    for (const v1::Task& task : rig_.Take(b)) {
      EXPECT_EQ(task.kind(), v1::TASK_COMPILE) << "measured under another power limit";
      rig_.Say(b, rig_.Run(task, "b"));
    }
  }
  EXPECT_EQ(rig_.core()->Stats().active_sweeps, 0);
}

}  // namespace
}  // namespace kiln::core

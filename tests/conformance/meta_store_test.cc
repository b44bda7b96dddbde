// What every MetaStore promises.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/conformance/stores.h"

namespace kiln::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string DigestOf(int n) { return absl::StrCat(std::string(56, 'a'), 10'000'000 + n); }

v1::SweepRow Row(const std::string& digest, int64_t submitted) {
  v1::SweepRow row;
  row.set_digest(digest);
  row.set_submitted_unix_ms(submitted);
  row.mutable_spec()->set_name(absl::StrCat("sweep at ", submitted));
  return row;
}

v1::SweepStatusRow Status(const std::string& digest, v1::SweepState state) {
  v1::SweepStatusRow row;
  row.set_digest(digest);
  row.set_state(state);
  return row;
}

store::Batch NewSweep(const std::string& digest, int64_t submitted, int candidates) {
  store::Batch batch;
  batch.sweeps.push_back(Row(digest, submitted));
  batch.statuses.push_back(Status(digest, v1::RUNNING));
  for (int i = 0; i < candidates; ++i) {
    v1::CandidateRow row;
    row.set_ordinal(i);
    row.mutable_candidate()->set_config(absl::StrCat("c=", i));
    batch.candidates.push_back({digest, row});
  }
  return batch;
}

v1::Winner MakeWinner(const std::string& key, const std::string& kernel,
                      const std::string& config) {
  v1::Winner winner;
  winner.set_problem_key(key);
  winner.mutable_spec()->set_kernel_source(kernel);
  winner.set_config(config);
  return winner;
}

template <typename Provider>
class MetaStoreTest : public ::testing::Test {
 protected:
  MetaStoreTest() : store_(provider_.OpenMeta()), term_(*store_->BeginTerm()) {}

  void Commit(const store::Batch& batch) {
    const absl::Status status = store_->Commit(term_, batch);
    ASSERT_TRUE(status.ok()) << status;
  }
  // Closes and opens again where that keeps anything.
  void Reopen() {
    if (!Provider::kDurable) return;
    store_.reset();
    store_ = provider_.OpenMeta();
  }

  Provider provider_;
  std::unique_ptr<store::MetaStore> store_;
  uint64_t term_;
};

using Providers = ::testing::Types<MemoryProvider, RocksProvider>;
TYPED_TEST_SUITE(MetaStoreTest, Providers);

TYPED_TEST(MetaStoreTest, AFreshStoreIsEmptyAndTermsOnlyGrow) {
  const store::FarmState state = *this->store_->Load();
  EXPECT_THAT(state.active, IsEmpty());
  EXPECT_EQ(state.farm.next_task(), 0u);
  EXPECT_EQ(this->term_, 1u);
  EXPECT_EQ(*this->store_->BeginTerm(), 2u);
  this->Reopen();
  EXPECT_EQ(*this->store_->BeginTerm(), 3u);
}

TYPED_TEST(MetaStoreTest, ACommitUnderAnOldTermWritesNothing) {
  const uint64_t newer = *this->store_->BeginTerm();
  const absl::Status status = this->store_->Commit(this->term_, NewSweep(DigestOf(1), 5, 2));
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("term 1 is over"));
  EXPECT_THAT(this->store_->Load()->active, IsEmpty());
  EXPECT_TRUE(this->store_->Commit(newer, NewSweep(DigestOf(1), 5, 2)).ok());
  EXPECT_EQ(this->store_->Commit(newer + 1, {}).code(), absl::StatusCode::kAborted);
}

TYPED_TEST(MetaStoreTest, LoadGivesActiveSweepsWithAllTheirRowsInOrder) {
  this->Commit(NewSweep(DigestOf(2), 20, 12));
  this->Commit(NewSweep(DigestOf(1), 10, 1));
  store::Batch batch;
  v1::TaskRow task;
  task.set_sweep(DigestOf(2));
  task.set_id("t-7");
  task.add_ordinals(3);
  batch.tasks.push_back(task);
  batch.farm.emplace().set_next_task(8);
  v1::KillRow kill;
  kill.set_key("k");
  kill.set_count(2);
  batch.kills.push_back(kill);
  v1::WorkerRow worker;
  worker.set_name("w");
  batch.workers.push_back(worker);
  this->Commit(batch);
  this->Reopen();
  const store::FarmState state = *this->store_->Load();
  ASSERT_THAT(state.active, SizeIs(2));
  EXPECT_EQ(state.active[0].row.digest(), DigestOf(1)) << "oldest first";
  ASSERT_THAT(state.active[1].candidates, SizeIs(12));
  for (int i = 0; i < 12; ++i) EXPECT_EQ(state.active[1].candidates[i].ordinal(), i);
  ASSERT_THAT(state.active[1].tasks, SizeIs(1));
  EXPECT_EQ(state.active[1].tasks[0].ordinals(0), 3);
  EXPECT_EQ(state.farm.next_task(), 8u);
  EXPECT_EQ(state.kills.at(0).count(), 2);
  EXPECT_EQ(state.workers.at(0).name(), "w");
}

TYPED_TEST(MetaStoreTest, KillsAreDeletedBeforeOthersAreWritten) {
  store::Batch batch;
  for (const char* key : {"a", "b"}) {
    batch.kills.emplace_back().set_key(key);
    batch.kills.back().set_count(2);
  }
  this->Commit(batch);
  store::Batch lift;
  EXPECT_TRUE(lift.empty());
  lift.deleted_kills = {"a", "b", "never there"};
  EXPECT_FALSE(lift.empty());
  lift.kills.emplace_back().set_key("b");
  lift.kills.back().set_count(1);
  this->Commit(lift);
  this->Reopen();
  const store::FarmState state = *this->store_->Load();
  ASSERT_THAT(state.kills, SizeIs(1));
  EXPECT_EQ(state.kills[0].key(), "b");
  EXPECT_EQ(state.kills[0].count(), 1);
}

TYPED_TEST(MetaStoreTest, FinishedSweepsAreNotLoadedButCanBeRead) {
  this->Commit(NewSweep(DigestOf(1), 10, 3));
  store::Batch end;
  end.statuses.push_back(Status(DigestOf(1), v1::DONE));
  this->Commit(end);
  this->Reopen();
  EXPECT_THAT(this->store_->Load()->active, IsEmpty());
  const auto record = this->store_->GetSweep(DigestOf(1), true);
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->status.state(), v1::DONE);
  EXPECT_THAT(record->candidates, SizeIs(3));
  EXPECT_THAT(this->store_->GetSweep(DigestOf(1), false)->candidates, IsEmpty());
  EXPECT_TRUE(absl::IsNotFound(this->store_->GetSweep(DigestOf(9), false).status()));
}

TYPED_TEST(MetaStoreTest, ABatchIsIdempotent) {
  store::Batch batch = NewSweep(DigestOf(1), 10, 3);
  v1::CompileIndexRow compiled;
  compiled.set_compile_key("k");
  compiled.add_entries()->set_compiler_build("b");
  batch.compiled.push_back(compiled);
  this->Commit(batch);
  this->Commit(batch);
  EXPECT_THAT(this->store_->Load()->active.at(0).candidates, SizeIs(3));
  EXPECT_THAT((*this->store_->FindCompiled({"k"}))[0].entries(), SizeIs(1));
  EXPECT_THAT(this->store_->ListSweeps(10, "", {})->sweeps, SizeIs(1));
}

TYPED_TEST(MetaStoreTest, ASecondRunOfASweepReplacesTheFirst) {
  this->Commit(NewSweep(DigestOf(1), 10, 5));
  store::Batch again = NewSweep(DigestOf(1), 30, 2);
  again.reset_sweeps.push_back(DigestOf(1));
  this->Commit(again);
  const auto record = this->store_->GetSweep(DigestOf(1), true);
  EXPECT_THAT(record->candidates, SizeIs(2));
  EXPECT_EQ(record->row.submitted_unix_ms(), 30);
  EXPECT_THAT(this->store_->ListSweeps(10, "", {})->sweeps, SizeIs(1)) << "listed once";
}

TYPED_TEST(MetaStoreTest, ATaskOfOneBatchCanBeDeletedInTheSameBatch) {
  store::Batch batch = NewSweep(DigestOf(1), 10, 1);
  v1::TaskRow task;
  task.set_sweep(DigestOf(1));
  task.set_id("t-1");
  batch.tasks.push_back(task);
  batch.deleted_tasks.push_back({DigestOf(1), "t-1"});
  this->Commit(batch);
  EXPECT_THAT(this->store_->Load()->active.at(0).tasks, IsEmpty());
}

TYPED_TEST(MetaStoreTest, PrefixesResolveWhenTheyAreLongEnoughAndUnique) {
  this->Commit(NewSweep(DigestOf(1), 10, 0));
  this->Commit(NewSweep(DigestOf(2), 10, 0));
  EXPECT_EQ(*this->store_->ResolveSweep(DigestOf(1)), DigestOf(1));
  EXPECT_THAT(std::string(this->store_->ResolveSweep("aaaaaa").status().message()),
              HasSubstr("ambiguous"));
  EXPECT_EQ(this->store_->ResolveSweep("aaaaa").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::IsNotFound(this->store_->ResolveSweep("bbbbbb").status()));
}

TYPED_TEST(MetaStoreTest, ListingPagesThroughEverySweepOnceNewestFirst) {
  for (int i = 0; i < 25; ++i) {
    this->Commit(NewSweep(DigestOf(i), 100 + i / 2, 0));
    if (i % 5 != 0) continue;
    store::Batch end;
    end.statuses.push_back(Status(DigestOf(i), v1::FAILED));
    this->Commit(end);
  }
  std::set<std::string> seen;
  std::string token;
  int64_t last = INT64_MAX;
  int pages = 0;
  do {
    const auto page = this->store_->ListSweeps(7, token, {});
    ASSERT_TRUE(page.ok());
    for (const auto& [row, status] : page->sweeps) {
      EXPECT_TRUE(seen.insert(row.digest()).second);
      EXPECT_LE(row.submitted_unix_ms(), last);
      last = row.submitted_unix_ms();
    }
    token = page->next_page_token;
    ++pages;
  } while (!token.empty());
  EXPECT_EQ(seen.size(), 25u);
  EXPECT_EQ(pages, 4);
  EXPECT_THAT(this->store_->ListSweeps(100, "", {true})->sweeps, SizeIs(20));
  EXPECT_EQ(this->store_->ListSweeps(7, "rubbish", {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Digests of a listing, over all its pages of two.
std::vector<std::string> DigestsListed(store::MetaStore* store, const store::SweepFilter& filter) {
  std::vector<std::string> digests;
  std::string token;
  do {
    const auto page = store->ListSweeps(2, token, filter);
    EXPECT_TRUE(page.ok()) << page.status();
    for (const auto& [row, status] : page->sweeps) digests.push_back(row.digest());
    token = page->next_page_token;
  } while (!token.empty());
  return digests;
}

TYPED_TEST(MetaStoreTest, PartsAreListedWithTheirRangeOrNotAtAll) {
  for (int i = 0; i < 12; ++i) {
    store::Batch batch = NewSweep(DigestOf(i), 100 + i, 0);
    // 2 and 3 are ranges; their parts alternate.
    if (i > 3 && i < 10) batch.sweeps[0].set_parent(DigestOf(2 + i % 2));
    if (i == 8) batch.statuses[0].set_asked(true);
    this->Commit(batch);
  }
  store::MetaStore* const store = this->store_.get();
  using testing::ElementsAre;
  EXPECT_THAT(DigestsListed(store, {}), SizeIs(12));
  store::SweepFilter own;
  own.without_parts = true;
  EXPECT_THAT(DigestsListed(store, own),
              ElementsAre(DigestOf(11), DigestOf(10), DigestOf(8), DigestOf(3), DigestOf(2),
                          DigestOf(1), DigestOf(0)));
  store::SweepFilter parts;
  parts.parts_of = DigestOf(3);
  EXPECT_THAT(DigestsListed(store, parts), ElementsAre(DigestOf(9), DigestOf(7), DigestOf(5)));
  parts.parts_of = DigestOf(0);
  EXPECT_THAT(DigestsListed(store, parts), testing::IsEmpty());
  parts.parts_of = DigestOf(99);
  EXPECT_EQ(store->ListSweeps(2, "", parts).status().code(), absl::StatusCode::kNotFound);
}

TYPED_TEST(MetaStoreTest, WinnersAreFoundByProblemAndByKernel) {
  store::Batch batch;
  batch.winners = {MakeWinner("p1", "k1", "a=1"), MakeWinner("p2", "k1", "a=2"),
                   MakeWinner("p3", "k2", "a=3")};
  batch.winners[2].set_kernel_digest("d");
  batch.winners[2].set_winner_key("w3");
  batch.winners[2].mutable_key()->set_driver("570");
  this->Commit(batch);
  batch = {};
  batch.winners = {MakeWinner("p1", "k1", "a=9")};
  this->Commit(batch);
  this->Reopen();
  EXPECT_EQ((*this->store_->FindWinner("p1"))->config(), "a=9");
  EXPECT_FALSE(this->store_->FindWinner("p4")->has_value());
  v1::SweepSpec spec;
  spec.set_kernel_source("k1");
  (*spec.mutable_arguments())["N"] = "64";  // which problem it is does not matter
  EXPECT_THAT(*this->store_->WinnersOfKernel(spec, "", 10), SizeIs(2));
  EXPECT_THAT(*this->store_->WinnersOfKernel(spec, "", 1), SizeIs(1));
  EXPECT_THAT(*this->store_->WinnersOfKernel(spec, "d", 10), SizeIs(3));
  spec.set_kernel_source("k");
  EXPECT_THAT(*this->store_->WinnersOfKernel(spec, "", 10), IsEmpty());
  spec.set_kernel_source("k2");
  const auto both = *this->store_->WinnersOfKernel(spec, "d", 10);
  ASSERT_THAT(both, SizeIs(1)) << "by its text and by its program it is one winner";
  EXPECT_EQ(both[0].winner(), "w3");
  EXPECT_EQ(both[0].key().driver(), "570");
  EXPECT_EQ((*this->store_->FindWinner("w3"))->config(), "a=3");
  EXPECT_FALSE(this->store_->FindWinner("p3")->has_value());
}

TYPED_TEST(MetaStoreTest, MissesAreKeptUntilTheyAreDeleted) {
  store::Batch batch;
  for (const char* id : {"a", "b"}) {
    v1::MissRow& row = batch.misses.emplace_back();
    row.set_id(id);
    row.mutable_spec()->set_kernel_source("text of the kernel");
    v1::MissCountRow& count = batch.miss_counts.emplace_back();
    count.set_id(id);
    count.set_count(1);
  }
  this->Commit(batch);
  batch = {};
  batch.miss_counts.emplace_back().set_id("a");
  batch.miss_counts.back().set_count(7);
  this->Commit(batch);
  this->Reopen();
  const auto state = this->store_->Load();
  ASSERT_THAT(state->miss_counts, SizeIs(2));
  EXPECT_EQ(state->miss_counts[0].count(), 7);
  const auto rows = *this->store_->FindMisses({"b", "nothing", "a"});
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].spec().kernel_source(), "text of the kernel");
  batch = {};
  batch.deleted_misses = {"a", "nothing"};
  this->Commit(batch);
  this->Reopen();
  ASSERT_THAT(this->store_->Load()->miss_counts, SizeIs(1));
  EXPECT_THAT(*this->store_->FindMisses({"a"}), IsEmpty());
}

TYPED_TEST(MetaStoreTest, TheCompileIndexKeepsOneEntryABuild) {
  const auto put = [&](const std::string& build, const std::string& digest) {
    store::Batch batch;
    v1::CompileIndexRow row;
    row.set_compile_key("key");
    auto* entry = row.add_entries();
    entry->set_compiler_build(build);
    entry->mutable_artifact()->set_digest(digest);
    batch.compiled.push_back(row);
    this->Commit(batch);
  };
  put("b1", "d1");
  put("b2", "d2");
  put("b1", "d3");
  const auto rows = *this->store_->FindCompiled({"none", "key"});
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_THAT(rows[0].entries(), IsEmpty());
  ASSERT_THAT(rows[1].entries(), SizeIs(2));
  EXPECT_EQ(rows[1].entries(0).artifact().digest(), "d3");
}

TYPED_TEST(MetaStoreTest, WorkersComeAndGo) {
  store::Batch batch;
  v1::WorkerRow row;
  row.set_name("w1");
  batch.workers.push_back(row);
  row.set_name("w2");
  batch.workers.push_back(row);
  this->Commit(batch);
  batch = {};
  batch.deleted_workers.push_back("w1");
  this->Commit(batch);
  const store::FarmState state = *this->store_->Load();
  ASSERT_THAT(state.workers, SizeIs(1));
  EXPECT_EQ(state.workers[0].name(), "w2");
}

TYPED_TEST(MetaStoreTest, ReadersRunBesideTheWriter) {
  std::atomic<bool> stop{false};
  std::atomic<int> bad{0};
  std::thread reader([&] {
    while (!stop) {
      const auto listing = this->store_->ListSweeps(100, "", {});
      bad += !listing.ok();
    }
  });
  for (int i = 0; i < 100; ++i) this->Commit(NewSweep(DigestOf(i), i, 3));
  stop = true;
  reader.join();
  EXPECT_EQ(bad, 0);
}

class RocksMetaStoreTest : public ::testing::Test {
 protected:
  RocksProvider provider_;
};

TEST_F(RocksMetaStoreTest, ASecondOpenIsRefusedClearly) {
  auto first = provider_.OpenMeta();
  const auto second = store::OpenRocksMetaStore(provider_.dir() / "meta");
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("open in another process"));
}

TEST_F(RocksMetaStoreTest, ABackupOpensAsTheStoreThatItWas) {
  auto store = provider_.OpenMeta();
  const uint64_t term = *store->BeginTerm();
  ASSERT_TRUE(store->Commit(term, NewSweep(DigestOf(1), 10, 4)).ok());
  const auto bytes = store->Checkpoint(provider_.dir() / "backup");
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_GT(*bytes, 0);
  ASSERT_TRUE(store->Commit(term, NewSweep(DigestOf(2), 20, 4)).ok());
  auto restored = store::OpenRocksMetaStore(provider_.dir() / "backup");
  ASSERT_TRUE(restored.ok()) << restored.status();
  const store::FarmState state = *(*restored)->Load();
  ASSERT_THAT(state.active, SizeIs(1));
  EXPECT_THAT(state.active[0].candidates, SizeIs(4));
  EXPECT_GT(*(*restored)->BeginTerm(), term) << "a restored store never reuses an epoch";
  EXPECT_FALSE(store->Checkpoint(provider_.dir() / "backup").ok()) << "must not exist";
}

TEST_F(RocksMetaStoreTest, ANewerFormatAndAForeignStoreAreRefusedClearly) {
  const std::string dir = provider_.dir() / "other";
  {
    auto kv = *store::OpenRocksKv({dir, false});
    ASSERT_TRUE(kv->Write({store::KvOp::Put("format", "kiln-meta 2")}, true).ok());
  }
  auto opened = store::OpenRocksMetaStore(dir);
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("format 2"));
  {
    auto kv = *store::OpenRocksKv({dir, false});
    ASSERT_TRUE(kv->Write({store::KvOp::Put("format", "kiln-blobs 1")}, true).ok());
  }
  opened = store::OpenRocksMetaStore(dir);
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("kiln-blobs"));
  {
    auto kv = *store::OpenRocksKv({dir, false});
    ASSERT_TRUE(kv->Write({store::KvOp::Delete("format"), store::KvOp::Put("x", "y")}, true).ok());
  }
  opened = store::OpenRocksMetaStore(dir);
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("not Kiln's"));
}

}  // namespace
}  // namespace kiln::testing

// The stores and the loop when the disk fails: clear errors, nothing damaged, and work goes on when
// the disk does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <future>
#include <map>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "compiler/base/digest.h"
#include "compiler/base/rng.h"
#include "coordinator/core/farm.h"
#include "coordinator/store/failing_kv.h"
#include "tests/conformance/stores.h"
#include "tests/util/fake_space.h"

namespace kiln::testing {
namespace {

using ::testing::HasSubstr;

const absl::Status kDiskFull = absl::ResourceExhaustedError("disk full");

TEST(FailingMetaStore, AFailedCommitLeavesTheOldState) {
  store::FailureScript script;
  auto store = *store::NewKvMetaStore(store::NewFailingKv(store::NewMemoryKv(), &script));
  const uint64_t term = *store->BeginTerm();
  store::Batch batch;
  batch.farm.emplace().set_next_task(1);
  ASSERT_TRUE(store->Commit(term, batch).ok());
  script.FailWritesAfter(0, kDiskFull);
  batch.farm->set_next_task(2);
  v1::KillRow kill;
  kill.set_key("k");
  batch.kills.push_back(kill);
  EXPECT_EQ(store->Commit(term, batch), kDiskFull);
  EXPECT_EQ(store->Load()->farm.next_task(), 1u);
  EXPECT_TRUE(store->Load()->kills.empty()) << "half a batch is visible";
  script.Clear();
  ASSERT_TRUE(store->Commit(term, batch).ok());
  EXPECT_EQ(store->Load()->farm.next_task(), 2u);
}

TEST(FailingMetaStore, ReadErrorsAndDamagedRowsAreErrorsNotAnswers) {
  store::FailureScript script;
  auto store = *store::NewKvMetaStore(store::NewFailingKv(store::NewMemoryKv(), &script));
  const uint64_t term = *store->BeginTerm();
  store::Batch batch;
  v1::Winner winner;
  winner.set_problem_key("p");
  winner.set_config("a=1");
  batch.winners.push_back(winner);
  ASSERT_TRUE(store->Commit(term, batch).ok());
  script.FailReads(absl::UnavailableError("I/O error"));
  EXPECT_TRUE(absl::IsUnavailable(store->FindWinner("p").status()));
  EXPECT_TRUE(absl::IsUnavailable(store->Load().status()));
  script.Clear();
  EXPECT_TRUE(store->FindWinner("p")->has_value());
}

class FailingBlobs : public ::testing::Test {
 protected:
  FailingBlobs() {
    store::BlobStoreOptions options;
    options.chunk_bytes = 100;
    store_ = *store::NewKvBlobStore(store::NewFailingKv(store::NewMemoryKv(), &script_), options,
                                    &clock_);
  }
  SimulatedClock clock_;
  store::FailureScript script_;
  std::unique_ptr<store::BlobStore> store_;
};

TEST_F(FailingBlobs, AFullDiskAtAnyWriteLosesOnlyTheUpload) {
  const std::string kept = *store_->PutBytes("kept bytes");
  for (int writes = 0; writes < 6; ++writes) {
    const std::string bytes(450, static_cast<char>('a' + writes));
    script_.FailWritesAfter(writes, kDiskFull);
    const auto put = store_->PutBytes(bytes);
    script_.Clear();
    if (put.ok()) {
      EXPECT_EQ(*store_->ReadAll(*put), bytes);
      continue;
    }
    EXPECT_EQ(put.status(), kDiskFull);
    EXPECT_FALSE(store_->Contains(Sha256Hex(bytes)));
    EXPECT_EQ(*store_->ReadAll(kept), "kept bytes");
    EXPECT_TRUE(store_->PutBytes(bytes).ok()) << "the same upload later";
  }
}

TEST_F(FailingBlobs, DamagedBytesAreDataLossAndNeverHandedOut) {
  const std::string bytes(450, 'x');
  const std::string digest = *store_->PutBytes(bytes);
  script_.CorruptReadsOf("/00000002");
  EXPECT_TRUE(absl::IsDataLoss(store_->ReadAll(digest).status()));
  EXPECT_EQ(*store_->Read(digest, 0, 200), bytes.substr(0, 200)) << "sound chunks still read";
  EXPECT_TRUE(absl::IsDataLoss(store_->Read(digest, 299, 2).status()));
}

// A disk of a few megabytes, where the test may mount one.
class SmallDisk {
 public:
  SmallDisk() {
    std::filesystem::create_directory(dir_ / "disk");
    mounted_ = geteuid() == 0 && mount("tmpfs", path().c_str(), "tmpfs", 0, "size=24m") == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(path().c_str(), MNT_DETACH);
  }
  std::string path() const { return dir_ / "disk"; }
  bool mounted() const { return mounted_; }

 private:
  TempDir dir_;
  bool mounted_ = false;
};

TEST(FullDisk, BlobsAreRefusedClearlyAndTheStoreStaysWhole) {
  SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a tmpfs";
  SimulatedClock clock;
  store::BlobStoreOptions options;
  options.min_free_disk_bytes = 0;
  std::vector<std::string> stored;
  absl::Status full;
  {
    auto store = *store::OpenRocksBlobStore(disk.path() + "/blobs", options, &clock);
    for (int i = 0; i < 100 && full.ok(); ++i) {
      std::string bytes(700'000, 0);
      Rng rng(i);
      for (char& c : bytes) c = static_cast<char>(rng.Next());
      const auto put = store->PutBytes(bytes);
      full = put.status();
      if (put.ok()) stored.push_back(*put);
    }
    EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
    EXPECT_THAT(std::string(full.message()), HasSubstr("disk full"));
    ASSERT_FALSE(stored.empty());
    for (const std::string& digest : stored) EXPECT_TRUE(store->ReadAll(digest).ok());
  }
  // What was acknowledged is there after a restart on the same full disk with a little room made.
  ASSERT_EQ(mount("tmpfs", disk.path().c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0);
  auto store = store::OpenRocksBlobStore(disk.path() + "/blobs", options, &clock);
  ASSERT_TRUE(store.ok()) << store.status();
  for (const std::string& digest : stored) {
    EXPECT_TRUE((*store)->ReadAll(digest).ok()) << digest;
  }
  EXPECT_TRUE((*store)->PutBytes("room again").ok());
}

TEST(FullDisk, TheReserveIsKept) {
  SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a tmpfs";
  SimulatedClock clock;
  store::BlobStoreOptions options;
  options.min_free_disk_bytes = 30 << 20;
  auto store = *store::OpenRocksBlobStore(disk.path() + "/blobs", options, &clock);
  EXPECT_THAT(std::string(store->PutBytes("x").status().message()), HasSubstr("kept back"));
}

TEST(FullDisk, CommitsFailClearlyAndTheStoreRecovers) {
  SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a tmpfs";
  auto store = *store::OpenRocksMetaStore(disk.path() + "/meta");
  const uint64_t term = *store->BeginTerm();
  absl::Status full;
  int committed = 0;
  for (int i = 0; i < 200 && full.ok(); ++i) {
    store::Batch batch;
    v1::KillRow row;
    row.set_key(absl::StrCat("k", i));
    Rng rng(i);
    row.mutable_last()->resize(400'000);
    for (char& c : *row.mutable_last()) c = static_cast<char>('a' + rng.Below(26));
    batch.kills.push_back(row);
    full = store->Commit(term, batch);
    committed += full.ok();
  }
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  // Trying again on a disk that is still full neither succeeds nor breaks anything.
  store::Batch large;
  v1::KillRow row;
  row.set_key("large");
  row.set_last(std::string(4'000'000, 'x'));
  large.kills.push_back(row);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(store->Commit(term, large).code(), absl::StatusCode::kResourceExhausted);
    store->Recover().IgnoreError();
  }
  ASSERT_EQ(mount("tmpfs", disk.path().c_str(), "tmpfs", MS_REMOUNT, "size=128m"), 0);
  absl::Status again;
  for (int i = 0; i < 50; ++i) {
    store->Recover().IgnoreError();
    store::Batch batch;
    batch.farm.emplace().set_next_task(77);
    again = store->Commit(term, batch);
    if (again.ok()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_TRUE(again.ok()) << again;
  committed += store->Commit(term, large).ok();
  store.reset();
  auto reopened = store::OpenRocksMetaStore(disk.path() + "/meta");
  ASSERT_TRUE(reopened.ok()) << reopened.status();
  const auto state = (*reopened)->Load();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(static_cast<int>(state->kills.size()), committed) << "exactly what was acknowledged";
  EXPECT_EQ(state->farm.next_task(), 77u);
}

std::map<std::string, std::string> FilesIn(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::ostringstream bytes;
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    files[entry.path().filename().string()] = bytes.str();
  }
  return files;
}

TEST(DamagedDisk, AStoreWithoutItsCurrentFileIsRefusedAndLeftAlone) {
  TempDir dir;
  SimulatedClock clock;
  const auto open_meta = [&] { return store::OpenRocksMetaStore(dir / "meta").status(); };
  const auto open_blobs = [&] {
    return store::OpenRocksBlobStore(dir / "blobs", {}, &clock).status();
  };
  ASSERT_TRUE(open_meta().ok());
  ASSERT_TRUE(open_blobs().ok());
  for (const std::string part : {"meta", "blobs"}) {
    const std::string folder = dir / part;
    const std::string current = FilesIn(folder)["CURRENT"];
    std::filesystem::remove(folder + "/CURRENT");
    const auto before = FilesIn(folder);
    for (int i = 0; i < 2; ++i) {
      const absl::Status status = part == "meta" ? open_meta() : open_blobs();
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("CURRENT is missing"));
      EXPECT_EQ(FilesIn(folder), before) << part << " was touched";
    }
    std::ofstream(folder + "/CURRENT") << current;
    EXPECT_TRUE((part == "meta" ? open_meta() : open_blobs()).ok()) << part << " with CURRENT back";
  }
}

TEST(DamagedDisk, ACurrentFileThatNamesNothingIsRefusedAndLeftAlone) {
  TempDir dir;
  ASSERT_TRUE(store::OpenRocksMetaStore(dir / "meta").ok());
  for (const std::string text : {"MANIFEST-777777\n", "", "\x01\n"}) {
    std::ofstream(dir / "meta/CURRENT") << text;
    const auto before = FilesIn(dir / "meta");
    const absl::Status status = store::OpenRocksMetaStore(dir / "meta").status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("CURRENT names"));
    EXPECT_EQ(FilesIn(dir / "meta"), before);
  }
}

TEST(DamagedDisk, AFirstStartThatWasCutShortIsNoDamage) {
  TempDir dir;
  std::filesystem::create_directories(dir / "meta");
  std::ofstream(dir / "meta/IDENTITY") << "x";
  std::ofstream(dir / "meta/LOCK") << "";
  std::ofstream(dir / "meta/MANIFEST-000001") << "part";
  const auto store = store::OpenRocksMetaStore(dir / "meta");
  EXPECT_TRUE(store.ok()) << store.status();
}

TEST(DamagedDisk, DamageIsNotTakenForALock) {
  TempDir dir;
  {
    auto store = *store::OpenRocksMetaStore(dir / "meta");
    const absl::Status second = store::OpenRocksMetaStore(dir / "meta").status();
    EXPECT_TRUE(absl::IsFailedPrecondition(second)) << second;
    EXPECT_THAT(std::string(second.message()), HasSubstr("is open in another process"));
  }
  for (const auto& [name, bytes] : FilesIn(dir / "meta")) {
    if (name.rfind("MANIFEST-", 0) != 0) continue;
    std::string damaged = bytes;
    for (size_t i = 0; i < std::min<size_t>(damaged.size(), 40); ++i) damaged[i] ^= 0x5a;
    std::ofstream(dir / ("meta/" + name), std::ios::binary) << damaged;
  }
  const absl::Status status = store::OpenRocksMetaStore(dir / "meta").status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("damaged"));
}

// A crash cuts a log short. A log that is damaged before its end has lost what was acknowledged,
// and opening it must neither hide that nor throw the rest away.
TEST(DamagedDisk, ALogThatIsDamagedBeforeItsEndIsRefusedAndLeftAlone) {
  TempDir dir;
  const std::string meta = dir / "meta";
  {
    auto store = *store::OpenRocksMetaStore(dir / "open");
    const uint64_t term = *store->BeginTerm();
    for (int i = 0; i < 40; ++i) {
      store::Batch batch;
      batch.farm.emplace().set_next_task(i);
      ASSERT_TRUE(store->Commit(term, batch).ok());
    }
    std::filesystem::copy(dir / "open", meta);  // as kill -9 would leave it: all is in the log
  }
  std::string log, bytes;
  for (const auto& [name, text] : FilesIn(meta)) {
    if (name.size() > 4 && name.substr(name.size() - 4) == ".log" && text.size() > bytes.size()) {
      log = meta + "/" + name;
      bytes = text;
    }
  }
  ASSERT_GT(bytes.size(), 400u);
  std::string damaged = bytes;
  damaged[damaged.size() / 3] ^= 1;
  std::ofstream(log, std::ios::binary) << damaged;
  const auto before = FilesIn(meta);
  const absl::Status status = store::OpenRocksMetaStore(meta).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_EQ(FilesIn(meta)[std::filesystem::path(log).filename().string()], damaged);
  std::ofstream(log, std::ios::binary) << bytes.substr(0, bytes.size() - 7);
  EXPECT_TRUE(store::OpenRocksMetaStore(meta).ok()) << "a log that a crash cut short";
}

TEST(DamagedDisk, ALockFileThatCannotBeOpenedIsNotALockThatIsHeld) {
  TempDir dir;
  ASSERT_TRUE(store::OpenRocksMetaStore(dir / "meta").ok());
  std::filesystem::remove(dir / "meta/LOCK");
  std::filesystem::create_directory(dir / "meta/LOCK");
  const absl::Status status = store::OpenRocksMetaStore(dir / "meta").status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("LOCK"));
}

// The farm on a store that stops taking writes for a while.
TEST(FarmOnAFailingStore, AnswersClearlyStaysUpAndGoesOn) {
  store::FailureScript script;
  auto meta = *store::NewKvMetaStore(store::NewFailingKv(store::NewMemoryKv(), &script));
  auto blobs = store::NewMemoryBlobStore({}, RealClock::Get());
  SpaceModel space;
  FakeExpander expander(space);
  auto farm = *core::Farm::Start({meta.get(), blobs.get(), &expander, RealClock::Get(), nullptr},
                                 core::Options());
  v1::SweepSpec spec;
  spec.set_template_("empty");
  spec.set_max_candidates(10);
  const auto submit = [&] {
    auto promise = std::make_shared<std::promise<absl::StatusOr<v1::SubmitSweepResponse>>>();
    auto future = promise->get_future();
    farm->SubmitSweep(spec, [promise](auto response) { promise->set_value(std::move(response)); });
    if (future.wait_for(std::chrono::seconds(10)) != std::future_status::ready) {
      return absl::StatusOr<v1::SubmitSweepResponse>(absl::DeadlineExceededError("no answer"));
    }
    return future.get();
  };
  ASSERT_TRUE(submit().ok());
  script.FailWritesAfter(0, kDiskFull);
  for (int i = 0; i < 3; ++i) {
    const auto response = submit();
    EXPECT_TRUE(absl::IsUnavailable(response.status())) << response.status();
    EXPECT_THAT(std::string(response.status().message()), HasSubstr("disk full"));
  }
  EXPECT_THAT(std::string(farm->Health().message()), HasSubstr("disk full"));
  script.Clear();
  for (int i = 0; i < 100 && !farm->Health().ok(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_TRUE(farm->Health().ok()) << farm->Health();
  EXPECT_TRUE(submit().ok());
  farm->Stop();
}

TEST(FarmOnAFailingStore, DoesNotStartOnOneThatCannotBeRead) {
  store::FailureScript script;
  auto meta = *store::NewKvMetaStore(store::NewFailingKv(store::NewMemoryKv(), &script));
  auto blobs = store::NewMemoryBlobStore({}, RealClock::Get());
  FakeExpander expander({});
  script.FailReads(absl::DataLossError("damaged"));
  const auto farm = core::Farm::Start(
      {meta.get(), blobs.get(), &expander, RealClock::Get(), nullptr}, core::Options());
  EXPECT_TRUE(absl::IsDataLoss(farm.status()));
}

}  // namespace
}  // namespace kiln::testing

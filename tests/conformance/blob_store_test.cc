// What every BlobStore promises.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "compiler/base/digest.h"
#include "compiler/base/rng.h"
#include "tests/conformance/stores.h"

namespace kiln::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string Bytes(size_t size, uint64_t seed) {
  Rng rng(seed);
  std::string bytes(size, 0);
  for (char& c : bytes) c = static_cast<char>(rng.Next());
  return bytes;
}

template <typename Provider>
class BlobStoreTest : public ::testing::Test {
 protected:
  BlobStoreTest() {
    options_.chunk_bytes = 1000;
    options_.limit_bytes = 100'000;
    options_.max_blob_bytes = 50'000;
    options_.min_free_disk_bytes = 0;
    Open();
  }
  void Open() { store_ = provider_.OpenBlobs(options_, &clock_); }
  void Reopen() {
    if (!Provider::kDurable) return;
    store_.reset();
    Open();
  }
  std::string Put(const std::string& bytes) {
    auto digest = store_->PutBytes(bytes);
    EXPECT_TRUE(digest.ok()) << digest.status();
    return digest.value_or("");
  }

  Provider provider_;
  SimulatedClock clock_;
  store::BlobStoreOptions options_;
  std::unique_ptr<store::BlobStore> store_;
};

using Providers = ::testing::Types<MemoryProvider, RocksProvider>;
TYPED_TEST_SUITE(BlobStoreTest, Providers);

TYPED_TEST(BlobStoreTest, BytesComeBackWholeAndInParts) {
  for (size_t size : {0, 1, 999, 1000, 1001, 12'345}) {
    const std::string bytes = Bytes(size, size);
    const std::string digest = this->Put(bytes);
    EXPECT_EQ(digest, Sha256Hex(bytes));
    this->Reopen();
    EXPECT_EQ(*this->store_->ReadAll(digest), bytes);
    EXPECT_EQ(*this->store_->Size(digest), static_cast<int64_t>(size));
    for (int64_t offset : {0, 1, 998, 1000, 5000, 20'000}) {
      for (int64_t limit : {0, 1, 1000, 3001}) {
        const std::string expected =
            offset >= static_cast<int64_t>(size) ? "" : bytes.substr(offset, limit);
        EXPECT_EQ(*this->store_->Read(digest, offset, limit), expected) << offset << " " << limit;
      }
    }
  }
}

TYPED_TEST(BlobStoreTest, UploadsInPiecesOfAnySizeMakeTheSameBlob) {
  const std::string bytes = Bytes(7777, 3);
  auto writer = this->store_->NewWriter(Sha256Hex(bytes), 7777);
  ASSERT_TRUE(writer.ok());
  Rng rng(5);
  for (size_t at = 0; at < bytes.size();) {
    const size_t take = std::min<size_t>(bytes.size() - at, rng.Below(2500));
    ASSERT_TRUE((*writer)->Append(absl::string_view(bytes).substr(at, take)).ok());
    at += take;
  }
  EXPECT_FALSE(this->store_->Contains(Sha256Hex(bytes))) << "visible before it is whole";
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(*this->store_->ReadAll(Sha256Hex(bytes)), bytes);
}

TYPED_TEST(BlobStoreTest, WrongBytesAreNeverStored) {
  const std::string bytes = Bytes(5000, 1);
  const std::string digest = Sha256Hex(bytes);
  auto writer = *this->store_->NewWriter(digest, 5000);
  ASSERT_TRUE(writer->Append(Bytes(5000, 2)).ok());
  EXPECT_EQ(writer->Finish().code(), absl::StatusCode::kInvalidArgument);
  writer = *this->store_->NewWriter(digest, 5000);
  ASSERT_TRUE(writer->Append(bytes.substr(0, 4000)).ok());
  EXPECT_EQ(writer->Finish().code(), absl::StatusCode::kInvalidArgument) << "too short";
  writer = *this->store_->NewWriter(digest, 4000);
  EXPECT_EQ(writer->Append(bytes).code(), absl::StatusCode::kInvalidArgument) << "too long";
  writer.reset();
  EXPECT_EQ(this->store_->NewWriter("abc", 3).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(this->store_->NewWriter(digest, -1).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(this->store_->NewWriter(digest, 50'001).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(this->store_->Contains(digest));
  EXPECT_EQ(this->store_->Usage().bytes, 0);
}

TYPED_TEST(BlobStoreTest, ABlobIsStoredOnce) {
  const std::string bytes = Bytes(3000, 1);
  const std::string digest = Sha256Hex(bytes);
  auto a = *this->store_->NewWriter(digest, 3000);
  auto b = *this->store_->NewWriter(digest, 3000);
  ASSERT_TRUE(a->Append(bytes).ok());
  ASSERT_TRUE(b->Append(bytes).ok());
  EXPECT_TRUE(a->Finish().ok());
  EXPECT_TRUE(b->Finish().ok());
  EXPECT_EQ(this->store_->Usage().blobs, 1);
  EXPECT_EQ(this->store_->Usage().bytes, 3000);
  EXPECT_TRUE(absl::IsAlreadyExists(this->store_->NewWriter(digest, 3000).status()));
  this->Reopen();
  EXPECT_EQ(*this->store_->ReadAll(digest), bytes);
}

TYPED_TEST(BlobStoreTest, UnknownBlobsAreNotFound) {
  const std::string none = Sha256Hex("none");
  EXPECT_TRUE(absl::IsNotFound(this->store_->Read(none, 0, 1).status()));
  EXPECT_TRUE(absl::IsNotFound(this->store_->Size(none).status()));
  EXPECT_TRUE(absl::IsNotFound(this->store_->Pin(none, "o")));
  EXPECT_TRUE(this->store_->Unpin(none, "o").ok());
  EXPECT_TRUE(absl::IsOutOfRange(this->store_->Read(none, -1, 1).status()));
}

TYPED_TEST(BlobStoreTest, OverTheLimitTheOldestUseGoesFirstAndPinsStay) {
  std::vector<std::string> digests;
  for (int i = 0; i < 10; ++i) {
    digests.push_back(this->Put(Bytes(9000, i)));
    this->clock_.AdvanceSeconds(1);
  }
  ASSERT_TRUE(this->store_->Pin(digests[1], "winner:p").ok());
  this->clock_.AdvanceSeconds(3600);
  ASSERT_TRUE(this->store_->Read(digests[0], 0, 1).ok());  // used just now
  this->clock_.AdvanceSeconds(700);
  this->Put(Bytes(9000, 100));
  this->Put(Bytes(9000, 101));  // 108,000 > 100,000
  EXPECT_LE(this->store_->Usage().bytes, 95'000);
  EXPECT_TRUE(this->store_->Contains(digests[0])) << "used later than the others";
  EXPECT_TRUE(this->store_->Contains(digests[1])) << "pinned";
  EXPECT_FALSE(this->store_->Contains(digests[2]));
  EXPECT_TRUE(this->store_->Contains(digests[9]));
}

TYPED_TEST(BlobStoreTest, WhatWasUsedJustNowIsNotCollected) {
  const std::string digest = this->Put(Bytes(9000, 1));
  auto result = this->store_->CollectGarbage(1, false);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->dropped, 0);
  this->clock_.AdvanceSeconds(601);
  result = this->store_->CollectGarbage(1, true);
  EXPECT_EQ(result->dropped, 1);
  EXPECT_EQ(result->bytes_after, 0);
  EXPECT_EQ(this->store_->Usage().blobs, 1) << "a dry run drops nothing";
  result = this->store_->CollectGarbage(1, false);
  EXPECT_EQ(result->bytes_before, 9000);
  EXPECT_EQ(result->bytes_after, 0);
  EXPECT_TRUE(absl::IsNotFound(this->store_->ReadAll(digest).status()));
}

TYPED_TEST(BlobStoreTest, PinsAreCountedByOwnerAndOutliveTheProcess) {
  const std::string digest = this->Put(Bytes(100, 1));
  const std::string other = this->Put(Bytes(100, 2));
  ASSERT_TRUE(this->store_->Pin(digest, "a/b").ok());
  ASSERT_TRUE(this->store_->Pin(digest, "c").ok());
  ASSERT_TRUE(this->store_->Pin(other, "a/b").ok());
  this->Reopen();
  EXPECT_THAT(this->store_->Pins(), SizeIs(3));
  EXPECT_EQ(this->store_->Usage().pinned_bytes, 200);
  ASSERT_TRUE(this->store_->UnpinOwner("a/b", other).ok());
  EXPECT_THAT(this->store_->Pins(), SizeIs(2)) << "the one to keep stays";
  ASSERT_TRUE(this->store_->UnpinOwner("a/b", "").ok());
  this->clock_.AdvanceSeconds(1000);
  EXPECT_EQ(this->store_->CollectGarbage(1, false)->dropped, 1);
  EXPECT_TRUE(this->store_->Contains(digest)) << "c still holds it";
  ASSERT_TRUE(this->store_->Unpin(digest, "c").ok());
  this->Reopen();
  EXPECT_THAT(this->store_->Pins(), IsEmpty());
  this->clock_.AdvanceSeconds(1000);
  EXPECT_EQ(this->store_->CollectGarbage(1, false)->dropped, 1);
}

TYPED_TEST(BlobStoreTest, ManyThreadsReadAndWrite) {
  std::vector<std::thread> threads;
  std::atomic<int> bad{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const std::string bytes = Bytes(500 + 100 * i, i);  // the same blobs in every thread
        const auto digest = this->store_->PutBytes(bytes);
        if (!digest.ok() || this->store_->ReadAll(*digest).value_or("") != bytes) ++bad;
        if (!this->store_->Pin(*digest, absl::StrCat("t", t)).ok()) ++bad;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad, 0);
  EXPECT_EQ(this->store_->Usage().blobs, 20);
}

TEST(RocksBlobStore, InterruptedUploadsLeaveNothing) {
  RocksProvider provider;
  SimulatedClock clock;
  store::BlobStoreOptions options;
  options.chunk_bytes = 1000;
  options.min_free_disk_bytes = 0;
  const std::string bytes = Bytes(5000, 1);
  {
    // The map outlives the writer's store here, as a process's files outlive it: the writer is
    // leaked into the next opening by never being finished or destroyed in order.
    auto store = provider.OpenBlobs(options, &clock);
    auto writer = *store->NewWriter(Sha256Hex(bytes), 5000);
    ASSERT_TRUE(writer->Append(absl::string_view(bytes).substr(0, 3500)).ok());
    const auto copied = store->Checkpoint(provider.dir() / "crashed");  // the disk at this moment
    ASSERT_TRUE(copied.ok()) << copied.status();
  }
  const auto count = [&] {
    auto kv = *store::OpenRocksKv({provider.dir() / "crashed", true});
    int chunks = 0;
    KILN_CHECK(kv->Scan("chunk/", "", [&](absl::string_view, absl::string_view) {
                   ++chunks;
                   return true;
                 }).ok());
    return chunks;
  };
  EXPECT_EQ(count(), 3);
  { ASSERT_TRUE(store::OpenRocksBlobStore(provider.dir() / "crashed", options, &clock).ok()); }
  EXPECT_EQ(count(), 0);
}

TEST(RocksBlobStore, ABackupHoldsTheBlobs) {
  RocksProvider provider;
  SimulatedClock clock;
  auto store = provider.OpenBlobs({}, &clock);
  const std::string bytes = Bytes(2'000'000, 1);
  const std::string digest = *store->PutBytes(bytes);
  ASSERT_TRUE(store->Pin(digest, "winner:p").ok());
  ASSERT_TRUE(store->Checkpoint(provider.dir() / "backup").ok());
  auto restored = store::OpenRocksBlobStore(provider.dir() / "backup", {}, &clock);
  ASSERT_TRUE(restored.ok());
  EXPECT_EQ(*(*restored)->ReadAll(digest), bytes);
  EXPECT_THAT((*restored)->Pins(), SizeIs(1));
}

TEST(RocksBlobStore, ASecondOpenIsRefusedClearly) {
  RocksProvider provider;
  SimulatedClock clock;
  auto store = provider.OpenBlobs({}, &clock);
  const auto second = store::OpenRocksBlobStore(provider.dir() / "blobs", {}, &clock);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace kiln::testing

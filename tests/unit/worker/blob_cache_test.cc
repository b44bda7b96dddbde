#include "worker/blob_cache.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/unit/worker/memory_link.h"

namespace kiln::worker {
namespace {

class BlobCacheTest : public testing::Test {
 protected:
  BlobCacheTest() {
    static const std::string base = std::filesystem::temp_directory_path().string();
    std::string pattern = base + "/kiln-cache-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~BlobCacheTest() override { std::filesystem::remove_all(folder_); }
  std::unique_ptr<BlobCache> Open(int64_t limit = 1 << 20) {
    absl::StatusOr<std::unique_ptr<BlobCache>> cache = BlobCache::Open(folder_, limit, &link_);
    EXPECT_TRUE(cache.ok()) << cache.status();
    return *std::move(cache);
  }
  std::string folder_;
  MemoryLink link_;
};

TEST_F(BlobCacheTest, FetchesOnceAndSurvivesARestart) {
  std::string digest = link_.AddBlob("some bytes");
  {
    std::unique_ptr<BlobCache> cache = Open();
    EXPECT_EQ(*cache->Read(digest), "some bytes");
    EXPECT_EQ(*cache->Read(digest), "some bytes");
    EXPECT_TRUE(std::filesystem::exists(cache->Get(digest)->path()));
    EXPECT_EQ(link_.gets(), 1);
  }
  std::ofstream(folder_ + "/tmp.77") << "half a file of a killed run";
  std::unique_ptr<BlobCache> cache = Open();
  EXPECT_EQ(*cache->Read(digest), "some bytes");
  EXPECT_EQ(link_.gets(), 1);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/tmp.77"));
}

TEST_F(BlobCacheTest, DamagedFilesAreFetchedAgain) {
  std::string digest = link_.AddBlob("some bytes");
  std::unique_ptr<BlobCache> cache = Open();
  ASSERT_TRUE(cache->Read(digest).ok());
  for (const std::string& damage : {std::string("some byteS"), std::string(), std::string("x")}) {
    std::ofstream(folder_ + "/" + digest) << damage;
    EXPECT_EQ(*cache->Read(digest), "some bytes");
  }
  std::filesystem::remove(folder_ + "/" + digest);
  EXPECT_EQ(*cache->Read(digest), "some bytes");
  EXPECT_EQ(cache->stats().corrupt, 4);
}

TEST_F(BlobCacheTest, WrongBytesFromTheCoordinatorAreDataLossAndNotKept) {
  std::string digest = link_.AddBlob("some bytes");
  link_.SetBlob(digest, "others");
  std::unique_ptr<BlobCache> cache = Open();
  EXPECT_TRUE(absl::IsDataLoss(cache->Read(digest).status()));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/" + digest));
  EXPECT_TRUE(absl::IsInvalidArgument(cache->Read("../../etc/passwd").status()));
  EXPECT_TRUE(absl::IsNotFound(cache->Read(Sha256Hex("none")).status()));
}

TEST_F(BlobCacheTest, TheOldestUseGoesFirstAndPinnedFilesStay) {
  std::unique_ptr<BlobCache> cache = Open(250);
  std::string block(100, 'b');
  std::vector<std::string> digests;
  for (int i = 0; i < 2; ++i) digests.push_back(link_.AddBlob(absl::StrCat(i, block)));
  absl::StatusOr<BlobCache::Pin> pin = cache->Get(digests[0]);
  ASSERT_TRUE(cache->Read(digests[1]).ok());
  for (int i = 2; i < 6; ++i) {
    digests.push_back(link_.AddBlob(absl::StrCat(i, block)));
    ASSERT_TRUE(cache->Read(digests.back()).ok());
    EXPECT_TRUE(std::filesystem::exists(folder_ + "/" + digests[0])) << "pinned";
    EXPECT_LE(cache->stats().bytes, 250);
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/" + digests[1]));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/" + digests[5]));
}

TEST_F(BlobCacheTest, ManyThreads) {
  std::unique_ptr<BlobCache> cache = Open(2000);
  std::vector<std::string> digests;
  for (int i = 0; i < 40; ++i)
    digests.push_back(link_.AddBlob(absl::StrCat(i, std::string(90, 'x'))));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        int n = (i * 7 + t * 11) % 40;
        absl::StatusOr<std::string> bytes = cache->Read(digests[static_cast<size_t>(n)]);
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        EXPECT_EQ(bytes->substr(0, absl::StrCat(n).size()), absl::StrCat(n));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(cache->stats().bytes, 2000);
}

TEST_F(BlobCacheTest, AFolderThatCannotBeIsAClearError) {
  std::ofstream(folder_ + "/file") << "x";
  absl::Status status = BlobCache::Open(folder_ + "/file/sub", 1, &link_).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

}  // namespace
}  // namespace kiln::worker

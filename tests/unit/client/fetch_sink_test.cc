#include "client/fetch_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "compiler/base/digest.h"

namespace kiln::client {
namespace {

namespace fs = std::filesystem;

std::string ReadFile(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

class FileSinkTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(testing::TempDir()) /
        ("sink_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    path_ = (folder_ / "gemm.bundle").string();
  }

  std::unique_ptr<FetchSink> Open() {
    auto sink = NewFileSink(path_);
    EXPECT_TRUE(sink.ok()) << sink.status();
    return sink.ok() ? *std::move(sink) : nullptr;
  }
  int FileCount() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder_), {}));
  }

  fs::path folder_;
  std::string path_;
  const std::string bytes_ = "all of the bytes of a bundle";
  const std::string digest_ = Sha256Hex(bytes_);
};

TEST_F(FileSinkTest, WritesTheFileOnlyWhenItIsWhole) {
  auto sink = Open();
  ASSERT_TRUE(sink->Begin(digest_).ok());
  ASSERT_TRUE(sink->Append(bytes_.substr(0, 10)).ok());
  EXPECT_FALSE(fs::exists(path_));
  ASSERT_TRUE(sink->Append(bytes_.substr(10)).ok());
  ASSERT_TRUE(sink->Finish().ok());
  EXPECT_EQ(ReadFile(path_), bytes_);
  EXPECT_EQ(FileCount(), 1);
}

TEST_F(FileSinkTest, GoesOnWhereAnotherProcessStopped) {
  {
    auto sink = Open();
    ASSERT_TRUE(sink->Begin(digest_).ok());
    ASSERT_TRUE(sink->Append(bytes_.substr(0, 10)).ok());
  }
  auto sink = Open();
  ASSERT_EQ(sink->size(), 10);
  ASSERT_TRUE(sink->Continues(digest_, static_cast<int64_t>(bytes_.size())));
  ASSERT_TRUE(sink->Begin(digest_).ok());
  ASSERT_TRUE(sink->Append(bytes_.substr(10)).ok());
  ASSERT_TRUE(sink->Finish().ok());
  EXPECT_EQ(ReadFile(path_), bytes_);
}

TEST_F(FileSinkTest, StartsAgainForAnotherBundle) {
  {
    auto sink = Open();
    ASSERT_TRUE(sink->Begin(Sha256Hex("another")).ok());
    ASSERT_TRUE(sink->Append("anoth").ok());
  }
  auto sink = Open();
  EXPECT_FALSE(sink->Continues(digest_, 100));
  EXPECT_FALSE(sink->Continues(Sha256Hex("another"), 4)) << "longer than the whole";
  ASSERT_TRUE(sink->Restart().ok());
  EXPECT_EQ(sink->size(), 0);
  ASSERT_TRUE(sink->Begin(digest_).ok());
  ASSERT_TRUE(sink->Append(bytes_).ok());
  ASSERT_TRUE(sink->Finish().ok());
  EXPECT_EQ(ReadFile(path_), bytes_);
  EXPECT_EQ(FileCount(), 1);
}

TEST_F(FileSinkTest, ADamagedPartIsDataLossAndGone) {
  {
    auto sink = Open();
    ASSERT_TRUE(sink->Begin(digest_).ok());
    ASSERT_TRUE(sink->Append(bytes_.substr(0, 10)).ok());
  }
  for (const auto& entry : fs::directory_iterator(folder_)) {
    std::fstream part(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    part.seekp(3);
    part.put('X');
  }
  auto sink = Open();
  ASSERT_TRUE(sink->Begin(digest_).ok());
  ASSERT_TRUE(sink->Append(bytes_.substr(10)).ok());
  EXPECT_TRUE(absl::IsDataLoss(sink->Finish()));
  EXPECT_EQ(FileCount(), 0);
}

TEST_F(FileSinkTest, TwoWritersOfOnePartAreRefused) {
  auto first = Open();
  ASSERT_TRUE(first->Begin(digest_).ok());
  ASSERT_TRUE(first->Append("x").ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(NewFileSink(path_).status()));
}

TEST_F(FileSinkTest, AMissingFolderIsSaidAtOnce) {
  EXPECT_TRUE(absl::IsFailedPrecondition(NewFileSink("/no/such/folder/x").status()));
}

TEST(StringSink, ChecksTheDigest) {
  std::string bytes = "old";
  auto sink = NewStringSink(&bytes);
  EXPECT_EQ(sink->size(), 0);
  ASSERT_TRUE(sink->Begin(Sha256Hex("good")).ok());
  ASSERT_TRUE(sink->Append("go").ok());
  EXPECT_FALSE(sink->Continues(Sha256Hex("else"), 10));
  ASSERT_TRUE(sink->Append("od").ok());
  EXPECT_TRUE(sink->Finish().ok());
  EXPECT_EQ(bytes, "good");
  ASSERT_TRUE(sink->Append("!").ok());
  EXPECT_TRUE(absl::IsDataLoss(sink->Finish()));
  EXPECT_EQ(bytes, "");
}

}  // namespace
}  // namespace kiln::client

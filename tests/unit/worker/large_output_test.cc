// Outputs that are compared where they lie, and those that there is no room to keep.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <set>
#include <string>
#include <thread>

#include "tests/unit/worker/check_fixture.h"

namespace kiln::worker {
namespace {

// Outputs that the host has no room for are compared all the same, and the proof says how.
class LargeOutputTest : public CheckTest {
 protected:
  void Limit(bool room) {
    checker_ = std::make_unique<Checker>(&device_, tensors_.get(), policy_, 0, [] {});
    device_.set_own_memory(true);
    if (!room) device_.set_memory_bytes(device_.allocated_bytes());
  }
  // One element is another number, by so little that it is right, or by a lot.
  FakeDevice::Body Other(int64_t element, bool wrong) {
    return Spoiled([this, element, wrong](const LaunchArguments& arguments) {
      uint8_t* at = Element(arguments, 1, element);
      const double number = LoadElement(at, type_);
      StoreElement(at, type_, wrong ? number + 3 : number * (1 + 0x1p-22) + 0x1p-22);
    });
  }
  // Neither in a cluster nor all over the output.
  int64_t Unsampled() {
    std::set<int64_t> covered = {kElements / 2};
    for (const uint64_t seed : {1, 2}) {
      for (const int64_t i : SampleElements({kRows, kColumns}, 256, seed)) covered.insert(i);
      for (const int64_t i : SpreadElements({kRows, kColumns}, 256, seed)) covered.insert(i);
    }
    int64_t hidden = 0;
    while (covered.count(hidden) > 0) ++hidden;
    return hidden;
  }
};

// Where the device compares, who is near the first candidate is not read, and who is wrong is
// found.
class NearPeerTest : public LargeOutputTest {
 protected:
  // Of a launch: the zones of an input and an output.
  static constexpr int64_t kZones = 4 * kRedZoneBytes;
  // All elements are 0.5 wide of being wrong, of float32, which holds such small errors.
  void SetUp() override {
    policy_.set_atol(0.5);
    policy_.set_rtol(1e-9);
    LargeOutputTest::SetUp();
    device_.set_own_memory(true);
  }
  FakeDevice::Body Off(float by) {
    return Spoiled([this, by](const LaunchArguments& arguments) {
      for (int64_t i = 0; i < kElements; ++i) Add(arguments, i, by);
    });
  }
  FakeDevice::Body OffAt(int64_t element, float by) {
    return Spoiled(
        [this, element, by](const LaunchArguments& arguments) { Add(arguments, element, by); });
  }
  void Add(const LaunchArguments& arguments, int64_t element, float by) {
    uint8_t* at = Element(arguments, 1, element);
    StoreElement(at, type_, LoadElement(at, type_) + by);
  }
};

TEST_P(NearPeerTest, IsReadInItsSamplesAlone) {
  ASSERT_TRUE(Check("first=1", Off(-0.375))->passed);
  const int64_t whole = kElements * type_.bytes();
  for (const float by : {-0.25f, 0.25f, 0.4375f}) {
    int64_t read = device_.read_bytes();
    const absl::StatusOr<CheckReport> report = Check("near=1", Off(by));
    ASSERT_TRUE(report.ok() && report->passed) << by;
    EXPECT_LT(device_.read_bytes() - read, 2 * kZones + whole);
    EXPECT_GT(device_.read_bytes() - read, 2 * kZones + 200 * type_.bytes());
    EXPECT_NE(report->summary.find("all 4000 elements compared with first=1"), std::string::npos)
        << report->summary;
    const std::string worst = "worst error ";
    const size_t at = report->summary.find(worst);
    ASSERT_NE(at, std::string::npos) << report->summary;
    EXPECT_NEAR(std::stod(report->summary.substr(at + worst.size())), std::abs(by) / 0.5, 0.01);
    read = device_.read_bytes();
    EXPECT_TRUE(checker_->Recheck(Candidate("near=1"))->passed);
    EXPECT_LT(device_.read_bytes() - read, kZones + whole);
  }
}

TEST_P(NearPeerTest, IsFoundWhereItIsWrong) {
  ASSERT_TRUE(Check("first=1", Off(0.375))->passed);
  ExpectFails(Off(0.5625), "wrong numbers", "] got ");  // near the first, and wrong in its samples
  ExpectFails(OffAt(Unsampled(), 3), "wrong numbers", "] got ");
  for (const float special : {std::nanf(""), HUGE_VALF}) {
    ExpectFails(OffAt(Unsampled(), special), "wrong numbers");
  }
  ExpectFails(AffineBody(type_, kElements - 1), "leaves 1 of 2000 elements");
}

TEST_P(NearPeerTest, IsOfNumbersHoweverWideTheTolerance) {
  policy_.set_rtol(1e39);
  checker_ = std::make_unique<Checker>(&device_, tensors_.get(), policy_, 1 << 20, [] {});
  ASSERT_TRUE(Check("first=1", Off(0.375))->passed);
  EXPECT_FALSE(Check("infinite=1", OffAt(Unsampled(), HUGE_VALF))->passed);
}

// Whoever is found wrong with the only seed that is looked at is compared with no more, of any.
TEST_P(NearPeerTest, WhoIsConvictedByASlowOneIsNobodysPeer) {
  ASSERT_TRUE(Check("first=1", OffAt(Unsampled(), 3))->passed) << "as no sample shows it";
  device_.Define("affine", {Spoiled([](const LaunchArguments&) {
                   std::this_thread::sleep_for(std::chrono::milliseconds(30));
                 })});
  v1::ArtifactBundle bundle;
  bundle.set_name("affine");
  kernel_ = *device_.Load(bundle, 0);
  Checker::Candidate slow = Candidate("slow=1");
  slow.slow_seconds = 0.02;
  absl::StatusOr<CheckReport> report = checker_->Check(slow);
  ASSERT_TRUE(report.ok() && report->passed);
  EXPECT_EQ(report->convicted, std::vector<std::string>{"first=1"});
  EXPECT_FALSE(report->whole_output);
  report = Check("third=1", Honest());
  ASSERT_TRUE(report.ok() && report->passed);
  EXPECT_TRUE(report->convicted.empty());
  EXPECT_EQ(report->summary.find("first=1"), std::string::npos) << report->summary;
}
TEST_P(LargeOutputTest, StayOnTheDeviceWhereThereIsRoom) {
  Limit(true);
  const int64_t before = device_.allocated_bytes();
  absl::StatusOr<CheckReport> report = Check("first=1", Honest());
  ASSERT_TRUE(report.ok() && report->passed);
  EXPECT_NE(report->summary.find("the first: no other to compare"), std::string::npos)
      << report->summary;
  EXPECT_EQ(device_.allocated_bytes(), before + 2 * kElements * type_.bytes());
  report = Check("near=1", Other(7, false));
  ASSERT_TRUE(report.ok() && report->passed);
  EXPECT_NE(report->summary.find("all 4000 elements compared with first=1"), std::string::npos)
      << report->summary;
  ExpectFails(Other(Unsampled(), true), "wrong numbers", "] got ");
  checker_.reset();
  EXPECT_EQ(device_.allocated_bytes(), before);
}

TEST_P(LargeOutputTest, AreComparedByDigestsWhereThereIsNone) {
  Limit(false);
  ASSERT_TRUE(Check("first=1", Honest())->passed);
  absl::StatusOr<CheckReport> report = Check("near=1", Other(7, false));
  ASSERT_TRUE(report.ok() && report->passed);
  EXPECT_NE(report->summary.find("0 of 4000 elements in blocks with the same bytes as first=1, of "
                                 "the others only samples"),
            std::string::npos)
      << report->summary;
  // A block that differs is looked at in its middle.
  ExpectFails(Other(kElements / 2, true), "wrong numbers", "C[20, 0] got ");
}

INSTANTIATE_TEST_SUITE_P(Types, NearPeerTest, testing::Values("float32"),
                         [](const auto& info) { return std::string(info.param); });

INSTANTIATE_TEST_SUITE_P(Types, LargeOutputTest, testing::Values("float32"),
                         [](const auto& info) { return std::string(info.param); });

// An error that every candidate makes meets no peer: the samples of the first must reach it.
TEST_P(LargeOutputTest, TheFirstIsSampledAllOverTheOutput) {
  std::set<int64_t> clusters;
  for (const uint64_t seed : {1, 2}) {
    for (const int64_t i : SampleElements({kRows, kColumns}, 256, seed)) clusters.insert(i);
  }
  for (const int64_t i : SpreadElements({kRows, kColumns}, 256, 1)) {
    if (clusters.count(i) > 0) continue;
    checker_ = std::make_unique<Checker>(&device_, tensors_.get(), policy_, 1 << 20, [] {});
    const absl::StatusOr<CheckReport> report = Check("first=1", Other(i, true));
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_FALSE(report->passed) << i;
  }
}

}  // namespace
}  // namespace kiln::worker

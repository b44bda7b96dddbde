// When a device counts as slow, by scripted times; and what the kernel's log says.
#include "worker/profile/canary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "compiler/base/rng.h"
#include "worker/profile/kernel_log.h"

namespace kiln::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CanaryTest : public testing::Test {
 protected:
  CanaryTest() {
    std::string pattern = testing::TempDir() + "/kiln-canary-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    options_.file = folder_ + "/baseline";
    options_.warm_up = 0.001;
    options_.pause = 0.0001;
    options_.rouse = 0;
  }
  ~CanaryTest() override { std::filesystem::remove_all(folder_); }

  Canary Make() {
    return Canary(
        [this](int launches) -> absl::StatusOr<std::vector<double>> {
          ++batches_;
          std::vector<double> times;
          const double ns = scripted_.empty() ? ns_ : scripted_.front();
          if (!scripted_.empty()) scripted_.erase(scripted_.begin());
          for (int i = 0; i < launches; ++i) {
            const double noise = static_cast<double>(random_.Below(1000)) / 1e5;  // up to 1 %
            const bool outlier = i % 3 == 0 && outliers_;
            times.push_back(ns * (1 + noise) * (outlier ? 1.5 : 1));
          }
          return times;
        },
        options_);
  }
  std::string LookNow(Canary* canary) {
    absl::StatusOr<std::string> look = canary->Look();
    EXPECT_TRUE(look.ok()) << look.status();
    return look.ok() ? *look : "";
  }

  std::string folder_;
  CanaryOptions options_;
  double ns_ = 200e3;
  std::vector<double> scripted_;  // of the next batches
  bool outliers_ = false;
  int batches_ = 0;
  Rng random_{1};
};

TEST_F(CanaryTest, NoiseIsNoDrift) {
  Canary canary = Make();
  ASSERT_TRUE(canary.Open().ok());
  outliers_ = true;
  for (int i = 0; i < 100; ++i) {
    ns_ = i % 2 == 0 ? 203e3 : 198e3;
    EXPECT_THAT(LookNow(&canary), IsEmpty());
  }
}

TEST_F(CanaryTest, AHealthyDeviceIsLookedAtOnce) {
  Canary canary = Make();
  ASSERT_TRUE(canary.Open().ok());
  batches_ = 0;
  EXPECT_THAT(LookNow(&canary), IsEmpty());
  EXPECT_EQ(batches_, 1);
}

TEST_F(CanaryTest, ClocksThatRecoverAreNoDrift) {
  Canary canary = Make();
  ASSERT_TRUE(canary.Open().ok());
  scripted_ = {250e3, 240e3, 240e3, 230e3, 230e3, 220e3};
  EXPECT_THAT(LookNow(&canary), IsEmpty());
  EXPECT_THAT(scripted_, IsEmpty());
}

TEST_F(CanaryTest, WhatThePowerLimitTakesFromTheClockNeedsNoPauses) {
  double share = 1;
  options_.clock_share = [&] { return share; };
  options_.excused = 60;
  Canary canary = Make();
  ASSERT_TRUE(canary.Open().ok());
  ASSERT_THAT(LookNow(&canary), IsEmpty());
  batches_ = 0;
  share = 0.8;
  ns_ = 245e3;  // 200 / 0.8 is 250
  EXPECT_THAT(LookNow(&canary), IsEmpty());
  EXPECT_EQ(batches_, 1);
  share = 0.9;  // explains 222
  EXPECT_THAT(LookNow(&canary), HasSubstr("% more than"));
  EXPECT_EQ(batches_, 10);  // five looks, and what rouses before four of them
}

TEST_F(CanaryTest, ThePowerLimitExcusesOnlyAsLongAsTheLastGoodLookIsNotLongAgo) {
  options_.clock_share = [] { return 0.8; };
  options_.excused = 0.2;
  Canary canary = Make();
  ASSERT_TRUE(canary.Open().ok());
  ASSERT_THAT(LookNow(&canary), IsEmpty());
  ns_ = 240e3;
  EXPECT_THAT(LookNow(&canary), IsEmpty());
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_THAT(LookNow(&canary), HasSubstr("% more than"));
  EXPECT_THAT(LookNow(&canary), HasSubstr("% more than"));
  ns_ = 200e3;
  EXPECT_THAT(LookNow(&canary), IsEmpty());
  ns_ = 240e3;
  EXPECT_THAT(LookNow(&canary), IsEmpty());
}

TEST_F(CanaryTest, NothingIsExcusedBeforeAGoodLookOfThisProcess) {
  options_.clock_share = [] { return 0.8; };
  ASSERT_TRUE(Make().Open().ok());
  Canary next = Make();  // has its baseline from the file
  ASSERT_TRUE(next.Open().ok());
  ns_ = 240e3;
  EXPECT_THAT(LookNow(&next), HasSubstr("% more than"));
}

TEST_F(CanaryTest, DriftThatStaysIsToldWithItsNumbers) {
  Canary canary = Make();
  ASSERT_TRUE(canary.Open().ok());
  ns_ = 212e3;
  EXPECT_THAT(LookNow(&canary), HasSubstr(" us of its baseline (delete "));
  EXPECT_THAT(LookNow(&canary), HasSubstr(options_.file));
  ns_ = 200e3;
  EXPECT_THAT(LookNow(&canary), IsEmpty());
}

TEST_F(CanaryTest, TheBaselineOutlivesTheProcessButNotGarbage) {
  Canary first = Make();
  ASSERT_TRUE(first.Open().ok());
  ns_ = 300e3;
  Canary second = Make();
  ASSERT_TRUE(second.Open().ok());
  EXPECT_NEAR(second.baseline_ns(), first.baseline_ns(), 0.1);
  EXPECT_THAT(LookNow(&second), HasSubstr("% more than"));
  for (const char* text : {"garbage", "", "-5", "nan", "0"}) {
    std::ofstream(options_.file) << text;
    Canary third = Make();
    ASSERT_TRUE(third.Open().ok());
    EXPECT_NEAR(third.baseline_ns(), 301e3, 3e3) << text;
  }
}

TEST_F(CanaryTest, AFasterDeviceIsTheNewMeasure) {
  options_.faster = 0.05;
  Canary canary = Make();
  ASSERT_TRUE(canary.Open().ok());
  ns_ = 180e3;
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(LookNow(&canary), IsEmpty());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_NEAR(canary.baseline_ns(), 181e3, 2e3);
  ns_ = 200e3;
  EXPECT_THAT(LookNow(&canary), HasSubstr("% more than"));
}

TEST_F(CanaryTest, BatchesThatAreTooShortAreNoMeasure) {
  options_.faster = 60;
  Canary canary = Make();
  ASSERT_TRUE(canary.Open().ok());
  ns_ = 180e3;
  for (int i = 0; i < 10; ++i) EXPECT_THAT(LookNow(&canary), IsEmpty());
  ns_ = 200e3;
  EXPECT_THAT(LookNow(&canary), IsEmpty());
  // Nor those that are only now and then, however long.
  options_.faster = 0;
  Canary other = Make();
  ASSERT_TRUE(other.Open().ok());
  for (int i = 0; i < 20; ++i) {
    ns_ = i % 4 == 3 ? 200e3 : 180e3;
    EXPECT_THAT(LookNow(&other), IsEmpty());
  }
  EXPECT_NEAR(other.baseline_ns(), 201e3, 2e3);
}

TEST_F(CanaryTest, WithoutAFileTheBaselineIsTheProcesss) {
  options_.file.clear();
  Canary canary = Make();
  ASSERT_TRUE(canary.Open().ok());
  ns_ = 230e3;
  EXPECT_THAT(LookNow(&canary), HasSubstr("of its baseline"));
}

TEST(KernelLogTest, LinesOfThisGpuHaveNumbers) {
  const std::string id = "0000:3B:00.0";
  EXPECT_EQ(XidOfLine("4,12,99,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has", id),
            79);
  EXPECT_EQ(XidOfLine("NVRM: Xid (PCI:0000:3b:00): 31, pid=1234, name=x", id), 31);
  EXPECT_EQ(XidOfLine("NVRM: Xid (PCI:0000:3b:00): 31, pid=1234, name=x", "00000000:3B:00.0"), 31);
  EXPECT_EQ(XidOfLine("NVRM: Xid (PCI:0000:5e:00): 79, pid=1", id), 0);
  EXPECT_EQ(XidOfLine("NVRM: Xid (PCI:0000:3b:00): lost", id), 0);
  EXPECT_EQ(XidOfLine("NVRM: Xid (PCI:0000:3b:00", id), 0);
  EXPECT_EQ(XidOfLine("NVRM: loading NVIDIA UNIX x86_64 Kernel Module", id), 0);
  EXPECT_EQ(XidOfLine("", id), 0);
}

TEST(KernelLogTest, OnlyWhatIsNewCountsAndLinesMayComeInParts) {
  const std::string path = testing::TempDir() + "/kiln-kmsg";
  std::ofstream file(path);
  file << "NVRM: Xid (PCI:0000:3b:00): 48, old\n" << std::flush;
  const std::unique_ptr<KernelLog> log = KernelLog::Open(path);
  ASSERT_NE(log, nullptr);
  EXPECT_THAT(log->TakeXids("0000:3b:00.0"), IsEmpty());
  file << "usb 1-1: new device\nNVRM: Xid (PCI:0000:3b:00): 79, one\nNVRM: Xid (PCI:0000:3b:0"
       << std::flush;
  EXPECT_THAT(log->TakeXids("0000:3b:00.0"), ElementsAre(79));
  file << "0): 31, two\n" << std::flush;
  EXPECT_THAT(log->TakeXids("0000:3b:00.0"), ElementsAre(31));
  EXPECT_THAT(log->TakeXids("0000:3b:00.0"), IsEmpty());
  EXPECT_EQ(KernelLog::Open("/nonexistent/kmsg"), nullptr);
}

}  // namespace
}  // namespace kiln::worker

// The GPU device timed by CUPTI's activity records, and its counters, with a driver and a CUPTI
// that have no GPU (tests/util/fake_cuda). CUPTI is one for a process, so that what is about its
// absence runs in a process of its own.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "worker/profile/gpu_device.h"

// Set: this process finds no CUPTI, though the machine may have a toolkit.
static bool hide_cupti = false;
extern "C" void* dlopen(const char* name, int flags) {
  static const auto next =
      reinterpret_cast<void* (*)(const char*, int)>(::dlsym(RTLD_NEXT, "dlopen"));
  if (hide_cupti && name != nullptr && std::strstr(name, "libcupti") != nullptr) return nullptr;
  return next(name, flags);
}

namespace kiln::worker {
namespace {

using testing::HasSubstr;

std::string TestFolder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

// What a test says to the stand-in of CUPTI.
template <typename... Arguments>
void Tell(const char* function, Arguments... arguments) {
  const std::string path = TestFolder() + "/fake_cupti/libcupti.so.13";
  void* found = ::dlsym(::dlopen(path.c_str(), RTLD_NOW), function);
  ASSERT_NE(found, nullptr) << function;
  reinterpret_cast<void (*)(Arguments...)>(found)(arguments...);
}

void TellDriver(const char* function, double value) {
  void* found = ::dlsym(::dlopen("libcuda.so.1", RTLD_NOW), function);
  ASSERT_NE(found, nullptr) << function;
  reinterpret_cast<void (*)(double)>(found)(value);
}

// As fake_cupti.c numbers them.
enum Fault { kTimeless = 1, kLost = 2, kLate = 3, kBackwards = 4, kShuffled = 5, kUnflushed = 6 };
void Spoil(int how, int flushes) { Tell("fake_cupti_spoil", how, flushes); }

constexpr int64_t kMicroseconds = 40;
constexpr double kByEvents = 40e3;
constexpr double kByRecords = 30e3;  // the two clocks of these tests run differently

class CuptiTest : public testing::Test {
 protected:
  CuptiTest() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    std::string pattern = std::string(testing::TempDir()) + "/kiln-cupti-XXXXXX";
    options_.scratch_dir = ::mkdtemp(pattern.data());
    std::ifstream in(TestFolder() + "/kiln_host_kernels.so", std::ios::binary);
    std::stringstream bytes;
    bytes << in.rdbuf();
    bundle_.set_shared_object(bytes.str());
    bundle_.set_name("kernel_on_gpu");
  }
  ~CuptiTest() override {
    if (device_ != nullptr) {
      Spoil(0, 0);
      TellDriver("fake_cuda_nothing", 0);
      Tell("fake_cupti_scale", 1.0);
      Tell("fake_cupti_fail", "", 0);
    }
    std::filesystem::remove_all(options_.scratch_dir);
  }
  // A device whose records tell other times than its events.
  void Open() {
    absl::StatusOr<std::unique_ptr<Device>> device = MakeGpuDevice(options_);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    Tell("fake_cupti_scale", kByRecords / kByEvents);
    kernel_ = *device_->Load(bundle_, 0);
  }
  absl::StatusOr<std::vector<Sample>> Time(int launches, int64_t kernels = 1) {
    return device_->Time(kernel_.get(),
                         std::vector<LaunchArguments>(static_cast<size_t>(launches),
                                                      {{}, {kernels, kMicroseconds / kernels}}));
  }
  // All by records, and right.
  void ExpectRecords(const absl::StatusOr<std::vector<Sample>>& samples, size_t count) {
    ASSERT_TRUE(samples.ok()) << samples.status();
    ASSERT_EQ(samples->size(), count);
    for (const Sample& sample : *samples) {
      EXPECT_EQ(sample.source, TimeSource::kRecords);
      EXPECT_NEAR(sample.ns, kByRecords, 2);
      EXPECT_NEAR(sample.events_ns, kByEvents, 5e3);
    }
    EXPECT_THAT(device_->Conditions(), HasSubstr("CUPTI 13.0 records"));
  }
  void ExpectEvents(const absl::StatusOr<std::vector<Sample>>& samples, size_t count) {
    ASSERT_TRUE(samples.ok()) << samples.status();
    ASSERT_EQ(samples->size(), count);
    for (const Sample& sample : *samples) {
      EXPECT_EQ(sample.source, TimeSource::kEvents);
      EXPECT_EQ(sample.ns, sample.events_ns);
      EXPECT_NEAR(sample.ns, kByEvents, 5e3);
    }
    EXPECT_THAT(device_->Conditions(), HasSubstr("events, less"));
  }

  GpuOptions options_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<LoadedKernel> kernel_;
  v1::ArtifactBundle bundle_;
};

TEST_F(CuptiTest, TimesAreThoseOfTheRecords) {
  Open();
  ExpectRecords(Time(70), 70);
}

TEST_F(CuptiTest, BuffersInAnyOrderAreSorted) {
  Open();
  Spoil(kShuffled, -1);
  std::vector<LaunchArguments> launches;
  for (int64_t i = 0; i < 70; ++i) launches.push_back({{}, {1, 40 + i}});
  const absl::StatusOr<std::vector<Sample>> samples = device_->Time(kernel_.get(), launches);
  ASSERT_TRUE(samples.ok()) << samples.status();
  for (size_t i = 0; i < launches.size(); ++i) {
    EXPECT_NEAR((*samples)[i].ns, 1e3 * (40 + double(i)) * kByRecords / kByEvents, 2) << i;
  }
}

TEST_F(CuptiTest, ALaunchOfSeveralKernelsIsFromTheFirstBeginToTheLastEnd) {
  Open();
  ASSERT_TRUE(Time(1, 2).ok());
  const absl::StatusOr<std::vector<Sample>> samples = Time(8, 2);
  ASSERT_TRUE(samples.ok());
  // The first kernel ends at 15 of its 20 us by this clock; the second begins at 20.
  for (const Sample& sample : *samples) EXPECT_NEAR(sample.ns, 35e3, 2);
}

class BadRecordsTest : public CuptiTest, public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(All, BadRecordsTest,
                         testing::Values(kTimeless, kLost, kLate, kBackwards, kUnflushed));

TEST_P(BadRecordsTest, ABadBatchIsTakenAgain) {
  Open();
  ASSERT_TRUE(Time(4).ok());
  Spoil(GetParam(), 1);
  EXPECT_EQ(Time(4).status().code(), absl::StatusCode::kAborted);
  // What came late belongs to the batch that was thrown away.
  ExpectRecords(Time(4), 4);
}

TEST_P(BadRecordsTest, WhereTheyStayBadEventsTellTheTimeUntilTheNextTask) {
  Open();
  ASSERT_TRUE(Time(4).ok());
  Spoil(GetParam(), -1);
  EXPECT_EQ(Time(4).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Time(4).status().code(), absl::StatusCode::kAborted);
  ExpectEvents(Time(4), 4);
  Spoil(0, 0);
  ExpectEvents(Time(40), 40);
  device_->BeginTask();
  ExpectRecords(Time(40), 40);
  Spoil(GetParam(), 2);
  EXPECT_EQ(Time(4).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Time(4).status().code(), absl::StatusCode::kAborted);
  ExpectRecords(Time(4), 4);
}

// Half of the records of two kernels a launch are as many as those of one.
TEST_F(CuptiTest, FewerRecordsThanALaunchHasKernelsAreNotTaken) {
  Open();
  ASSERT_TRUE(Time(9, 2).ok());
  Spoil(kLate, 1);
  EXPECT_EQ(Time(8, 2).status().code(), absl::StatusCode::kAborted);
  const absl::StatusOr<std::vector<Sample>> samples = Time(8, 2);
  ASSERT_TRUE(samples.ok());
  EXPECT_NEAR(samples->front().ns, 35e3, 2);
}

// Of a kernel's first launch nothing else says how many records there should be.
// (What is late of a single launch cannot be known.)
TEST_F(CuptiTest, WhatIsMissingIsNoticedWhateverTheNumber) {
  for (const int fault : {kTimeless, kLost, kBackwards, kUnflushed}) {
    Open();
    Spoil(fault, 1);
    EXPECT_EQ(Time(1, 2).status().code(), absl::StatusCode::kAborted) << fault;
    ASSERT_TRUE(Time(1, 2).ok());
  }
}

// By events alone the empty kernel's own time counts as the cost of a launch.
TEST_F(CuptiTest, ADeviceWhoseRecordsAreBadFromTheStartIsCalibratedLater) {
  Open();
  TellDriver("fake_cuda_nothing", 4.0);
  Spoil(kTimeless, -1);
  Open();
  ASSERT_TRUE(Time(4).ok());
  EXPECT_THAT(device_->Conditions(), HasSubstr("events, less 4 us a launch"));
  Spoil(0, 0);
  device_->BeginTask();
  ExpectRecords(Time(4), 4);
  Spoil(kTimeless, -1);
  while (!Time(4).ok()) continue;
  EXPECT_THAT(device_->Conditions(), HasSubstr("events, less 1 us a launch"));
}

TEST_F(CuptiTest, CountersAreReadInPassesOfLaunches) {
  Open();
  const std::vector<LaunchArguments> launches(2, LaunchArguments{{}, {1, kMicroseconds}});
  const absl::StatusOr<std::map<std::string, double>> counted =
      device_->Count(kernel_.get(), launches);
  ASSERT_TRUE(counted.ok()) << counted.status();
  EXPECT_EQ(counted->at("dram_read_bytes"), 4096);
  EXPECT_EQ(counted->at("shared_bytes"), 50 * 128);
  EXPECT_EQ(counted->at("tensor_percent"), 50);
  EXPECT_EQ(counted->count("stall_gmma"), 0u) << "this chip has none";
  ExpectRecords(Time(4), 4);
}

TEST_F(CuptiTest, WhoMayNotReadCountersIsToldWhatToDoAndTimesAreTakenAllTheSame) {
  const std::vector<LaunchArguments> launches(2, LaunchArguments{{}, {1, kMicroseconds}});
  for (const char* function : {"cuptiRangeProfilerEnable", "cuptiRangeProfilerSetConfig",
                               "cuptiRangeProfilerStart", "cuptiRangeProfilerDecodeData"}) {
    Open();
    Tell("fake_cupti_fail", function, 35);
    const absl::Status status = device_->Count(kernel_.get(), launches).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << function;
    EXPECT_THAT(status.message(), HasSubstr("NVreg_RestrictProfilingToAdminUsers=0"));
    ExpectRecords(Time(4), 4);
    Tell("fake_cupti_fail", function, 3);
    EXPECT_EQ(device_->Count(kernel_.get(), launches).status().code(),
              absl::StatusCode::kUnavailable);
    Tell("fake_cupti_fail", "", 0);
    EXPECT_TRUE(device_->Count(kernel_.get(), launches).ok());
  }
}

// What a fresh process says of its CUPTI; ends with 0 when the device works without.
class OtherCuptiTest : public CuptiTest {
 protected:
  [[noreturn]] void Say(const std::string& toolkit, const char* variable = nullptr) {
    ::setenv("KILN_CUDA_PATH", toolkit.c_str(), 1);
    if (variable != nullptr) ::setenv(variable, "1", 1);
    absl::StatusOr<std::unique_ptr<Device>> device = MakeGpuDevice(options_);
    if (!device.ok()) std::_Exit(2);
    const std::unique_ptr<LoadedKernel> kernel = *(*device)->Load(bundle_, 0);
    const std::vector<LaunchArguments> launches(2, LaunchArguments{{}, {1, kMicroseconds}});
    const auto samples = (*device)->Time(kernel.get(), launches);
    const absl::Status counted = (*device)->Count(kernel.get(), launches).status();
    std::fprintf(stderr, "TIME %s; COUNTERS %s\n", (*device)->Conditions().c_str(),
                 std::string(counted.message()).c_str());
    std::_Exit(samples.ok() && samples->size() == 2 ? 0 : 3);
  }
};

TEST_F(OtherCuptiTest, NoneAtAll) {
  hide_cupti = true;
  EXPECT_EXIT(Say("/nonexistent"), testing::ExitedWithCode(0),
              "TIME events, less .*no CUPTI .libcupti.so.13 or .12.: looked in "
              ".*KILN_CUDA_PATH.*COUNTERS no CUPTI");
  hide_cupti = false;
}

TEST_F(OtherCuptiTest, OneWithoutAFunctionThatTimesNeed) {
  EXPECT_EXIT(Say(TestFolder() + "/fake_cupti_broken"), testing::ExitedWithCode(0),
              "TIME events, less .*CUPTI has no cuptiActivityFlushAll");
}

TEST_F(OtherCuptiTest, OneBeforeTheRangeProfilerTellsTimesAlone) {
  EXPECT_EXIT(
      Say(TestFolder() + "/fake_cupti_old"), testing::ExitedWithCode(0),
      "TIME CUPTI 13.0 records.*COUNTERS this CUPTI has no cuptiProfilerInitialize: counters "
      "need CUDA 12.6 or later");
}

TEST_F(OtherCuptiTest, OneThatAnotherProfilerHas) {
  EXPECT_EXIT(Say(TestFolder() + "/fake_cupti", "FAKE_CUPTI_BUSY"), testing::ExitedWithCode(0),
              "TIME events, less .*cannot record kernels .39.: another profiler may be attached");
}

}  // namespace
}  // namespace kiln::worker

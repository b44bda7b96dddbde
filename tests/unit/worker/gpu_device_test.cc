// The GPU device with a driver that has no GPU (tests/util/fake_cuda): its kernels are C functions.
#include "worker/profile/gpu_device.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "compiler/codegen/runtime/kiln_launch.h"
#include "compiler/target/arch.h"
#include "worker/profile/cuda_driver.h"
#include "worker/profile/exit_codes.h"
#include "worker/profile/gpu_faults.h"

namespace kiln::worker {
namespace {

// What a test says to the stand-ins of the driver and of NVML.
template <typename... Arguments>
void Tell(const char* library, const char* function, Arguments... arguments) {
  void* found = ::dlsym(::dlopen(library, RTLD_NOW), function);
  ASSERT_NE(found, nullptr) << function;
  reinterpret_cast<void (*)(Arguments...)>(found)(arguments...);
}
void SetCanary(double us) { Tell("libcuda.so.1", "fake_cuda_canary", us); }
void SetClock(double mhz) { Tell("libcuda.so.1", "fake_cuda_clock", mhz); }
void SetReading(double us) { Tell("libcuda.so.1", "fake_cuda_reading", us); }
constexpr char kNvml[] = "libnvidia-ml.so.1";

class GpuDeviceTest : public testing::Test {
 protected:
  GpuDeviceTest() {
    static const std::string base = testing::TempDir();
    std::string pattern = base + "/kiln-gpu-XXXXXX";
    options_.scratch_dir = ::mkdtemp(pattern.data());
    device_ = Make();
    std::string folder = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
    std::ifstream in(folder + "/kiln_host_kernels.so", std::ios::binary);
    std::stringstream bytes;
    bytes << in.rdbuf();
    bundle_.set_shared_object(bytes.str());
  }
  ~GpuDeviceTest() override {
    SetCanary(200);
    SetReading(50);
    Tell(kNvml, "fake_nvml_ecc", 0ULL);
    Tell(kNvml, "fake_nvml_no_processes");
    std::filesystem::remove_all(options_.scratch_dir);
  }
  std::unique_ptr<Device> Make() {
    absl::StatusOr<std::unique_ptr<Device>> device = MakeGpuDevice(options_);
    EXPECT_TRUE(device.ok()) << device.status();
    if (!device.ok()) return nullptr;
    (*device)->LimitLaunches(0.2);
    return *std::move(device);
  }
  std::unique_ptr<LoadedKernel> Load(const std::string& name) {
    bundle_.set_name(name);
    absl::StatusOr<std::unique_ptr<LoadedKernel>> kernel = device_->Load(bundle_, 0);
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    return *std::move(kernel);
  }

  GpuOptions options_;
  std::unique_ptr<Device> device_;
  v1::ArtifactBundle bundle_;
};

TEST_F(GpuDeviceTest, ADeviceThatBecomesSlowIsBrokenAndStaysSoInTheNextProcess) {
  EXPECT_EQ(device_->Examine().broken, "");
  SetCanary(204);
  EXPECT_EQ(device_->Examine().broken, "");
  SetCanary(212);
  EXPECT_NE(device_->Examine().broken.find("6.0 % more than the 200.0 us of its baseline"),
            std::string::npos)
      << device_->Examine().broken;
  EXPECT_EQ(device_->Faults().broken, "") << "which does not look at the time";
  device_.reset();
  device_ = Make();
  EXPECT_NE(device_->Examine().broken, "") << "the baseline was taken anew";
  SetCanary(201);
  EXPECT_EQ(device_->Examine().broken, "");
  options_.drift = 0;
  SetCanary(500);
  EXPECT_EQ(Make()->Examine().broken, "");
}

TEST_F(GpuDeviceTest, MemoryThatBecomesSlowIsNamedAndArithmeticStaysTheMeasureOfItself) {
  SetReading(51);
  EXPECT_EQ(device_->Examine().broken, "");
  SetReading(53);
  const std::string broken = device_->Examine().broken;
  EXPECT_EQ(broken.rfind("its canary of memory takes 53.0 us, 6.0 % more than the 50.0 us", 0), 0u)
      << broken;
  EXPECT_NE(broken.find("-memory to take a new one"), std::string::npos) << broken;
  device_.reset();
  device_ = Make();
  EXPECT_NE(device_->Examine().broken, "") << "the baseline was taken anew";
  SetReading(50);
  EXPECT_EQ(device_->Examine().broken, "");
  SetCanary(220);
  const std::string arithmetic = device_->Examine().broken;
  EXPECT_EQ(arithmetic.rfind("its canary of arithmetic takes 220.0 us", 0), 0u) << arithmetic;
}

// What the host takes to launch is not the device's time, neither of a canary nor of what it is
// compared with.
TEST_F(GpuDeviceTest, ADeviceThatBecomesSlowIsSeenByALoadedHost) {
  const auto host = [](double us) { Tell("libcuda.so.1", "fake_cuda_host", us); };
  EXPECT_EQ(device_->Examine().broken, "");
  host(40);
  device_ = Make();
  EXPECT_EQ(device_->Examine().broken, "");
  SetReading(53);
  EXPECT_EQ(device_->Examine().broken.rfind("its canary of memory takes 53.0 us", 0), 0u)
      << device_->Examine().broken;
  SetReading(50);
  SetCanary(220);
  EXPECT_EQ(device_->Examine().broken.rfind("its canary of arithmetic takes 220.0 us", 0), 0u)
      << device_->Examine().broken;
  host(0);
}

// The worker asks when a runner could not.
TEST_F(GpuDeviceTest, WhatTheSystemSaysIsToldToAnybodyWhoWatches) {
  Tell(kNvml, "fake_nvml_ecc", 1ULL);
  const std::unique_ptr<GpuFaults> faults = *GpuFaults::Watch("0000:00:00.0");
  DeviceHealth health = faults->Take();
  EXPECT_EQ(health.broken + health.tainted, "") << "that was before";
  Tell(kNvml, "fake_nvml_ecc", 3ULL);
  Tell(kNvml, "fake_nvml_xid", 31ULL);
  health = faults->Take();
  EXPECT_EQ(health.broken, "2 uncorrected ECC errors");
  EXPECT_EQ(health.tainted, "Xid 31 (memory page fault)");
  EXPECT_EQ(faults->Take().broken, "") << "told once";
  EXPECT_FALSE(GpuFaults::Watch("0000:ff:00.0").ok());
}

TEST(WithinSecondsTest, ADriverThatHangsIsADeviceThatIsBroken) {
  std::atomic<bool> hangs{false};
  std::atomic<int> asked{0};
  const auto look = WithinSeconds(0.1, [&]() -> DeviceHealth {
    ++asked;
    while (hangs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return {"", "Xid 13"};
  });
  EXPECT_EQ(look().tainted, "Xid 13");
  hangs = true;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(look().broken, "its driver does not say within 0.1 s what happened to it");
  }
  EXPECT_EQ(asked, 2) << "it is asked once";
  hangs = false;
  EXPECT_EQ(look().tainted, "Xid 13");
}

// What is missing is told when the device is opened, not with the first measurement alone.
TEST_F(GpuDeviceTest, WhatItDoesWithoutIsTold) {
  ASSERT_EQ(device_->Missing().size(), 1u);
  EXPECT_NE(device_->Missing()[0].find("CUPTI"), std::string::npos);
  ASSERT_EQ(::setenv("FAKE_NVML_ABSENT", "1", 1), 0);
  const std::unique_ptr<Device> blind = Make();
  ASSERT_EQ(::unsetenv("FAKE_NVML_ABSENT"), 0);
  ASSERT_EQ(blind->Missing().size(), 2u);
  EXPECT_NE(blind->Missing()[1].find("NVML"), std::string::npos) << blind->Missing()[1];
}

TEST_F(GpuDeviceTest, ErrorsOfTheDeviceBreakItAndThoseOfProgramsTaint) {
  DeviceHealth health = device_->Examine();
  EXPECT_EQ(health.broken + health.tainted, "");
  Tell(kNvml, "fake_nvml_ecc", 2ULL);
  health = device_->Examine();
  EXPECT_EQ(health.broken, "2 uncorrected ECC errors");
  EXPECT_EQ(device_->Examine().broken, "") << "told once";
  Tell(kNvml, "fake_nvml_xid", 31ULL);
  health = device_->Faults();
  EXPECT_EQ(health.broken, "");
  EXPECT_EQ(health.tainted, "Xid 31 (memory page fault)");
  Tell(kNvml, "fake_nvml_xid", 79ULL);
  Tell(kNvml, "fake_nvml_xid", 13ULL);
  health = device_->Examine();
  EXPECT_EQ(health.broken, "Xid 79 (fallen off the bus)");
  EXPECT_EQ(health.tainted, "Xid 13 (graphics engine exception)");
  Tell(kNvml, "fake_nvml_remap", 1u);
  EXPECT_EQ(device_->Examine().broken, "1 memory rows remapped");
  Tell(kNvml, "fake_nvml_remap", 0u);
}

TEST_F(GpuDeviceTest, WhatHappenedBeforeIsNotHeldAgainstADevice) {
  Tell(kNvml, "fake_nvml_ecc", 5ULL);
  EXPECT_EQ(Make()->Examine().broken, "");
}

TEST_F(GpuDeviceTest, WhatIsWrongWithOneDeviceIsNotItsNeighbours) {
  ASSERT_EQ(::setenv("FAKE_CUDA_DEVICES", "2", 1), 0);
  EXPECT_EQ(*GpuCount(), 2);
  options_.ordinal = 2;
  EXPECT_FALSE(MakeGpuDevice(options_).ok());
  options_.ordinal = 1;
  const std::unique_ptr<Device> neighbour = Make();
  ASSERT_EQ(::unsetenv("FAKE_CUDA_DEVICES"), 0);
  ASSERT_NE(neighbour, nullptr);
  EXPECT_EQ(neighbour->name(), "gpu1");
  Tell(kNvml, "fake_nvml_ecc", 2ULL);
  Tell(kNvml, "fake_nvml_process", 4711u);
  Tell(kNvml, "fake_nvml_xid", 79ULL);
  EXPECT_EQ(neighbour->Examine().broken, "");
  EXPECT_TRUE(neighbour->Company().empty());
  EXPECT_EQ(device_->Company(), std::vector<std::string>{"process 4711"});
  EXPECT_EQ(device_->Examine().broken, "Xid 79 (fallen off the bus), 2 uncorrected ECC errors");
  // Each has a baseline of its own.
  size_t baselines = 0;
  for (const auto& entry : std::filesystem::directory_iterator(options_.scratch_dir)) {
    baselines += entry.path().filename().string().rfind("canary-", 0) == 0 ? 1 : 0;
  }
  EXPECT_EQ(baselines, 4u);
}

TEST_F(GpuDeviceTest, OtherProcessesAreCompanyAndThisOneIsNot) {
  EXPECT_TRUE(device_->Company().empty());
  Tell(kNvml, "fake_nvml_process", 4711u);
  EXPECT_EQ(device_->Company(), std::vector<std::string>{"process 4711"});
  Tell(kNvml, "fake_nvml_no_processes");
  (void)device_->Company();  // the thread may have seen it since
  EXPECT_TRUE(device_->Company().empty());
  // Who came and went between two looks is told once.
  Tell(kNvml, "fake_nvml_process", 4712u);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  Tell(kNvml, "fake_nvml_no_processes");
  EXPECT_EQ(device_->Company(), std::vector<std::string>{"process 4712"});
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  (void)device_->Company();
  EXPECT_TRUE(device_->Company().empty());
}

TEST_F(GpuDeviceTest, AClockAtThePowerLimitIsNoDriftAndCostsNoPause) {
  ASSERT_EQ(::setenv("FAKE_CUDA_CLOCK_KHZ", "1980000", 1), 0);
  device_ = Make();
  ::unsetenv("FAKE_CUDA_CLOCK_KHZ");
  ASSERT_EQ(device_->Examine().broken, "");
  SetCanary(240);  // of 200 at 1980 MHz
  constexpr unsigned long long kPowerLimit = 0x4, kHeat = 0x20;
  SetClock(1650);
  for (const auto& [reasons, sound] :
       {std::pair{kPowerLimit, true}, {0ULL, false}, {kPowerLimit | kHeat, false}}) {
    Tell(kNvml, "fake_nvml_reasons", reasons);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // what was is forgotten
    EXPECT_EQ(device_->Examine().broken.empty(), sound) << reasons;
  }
  Tell(kNvml, "fake_nvml_reasons", kPowerLimit);
  SetClock(1900);  // would make 208 of 200
  EXPECT_NE(device_->Examine().broken, "");
  Tell(kNvml, "fake_nvml_reasons", 0ULL);
  SetClock(1980);
}

TEST_F(GpuDeviceTest, TheRecordIsTheTablesWithTheDevicesOwnSize) {
  absl::StatusOr<v1::ArchRecord> record = GpuRecord(0);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->name(), "sm_90a");
  EXPECT_EQ(record->device_model(), "Fake H200");
  const target::Arch arch = *target::ParseArch(record->record());
  const target::Arch table = *target::NamedArch("sm_90a");
  EXPECT_EQ(arch.cores, 66);
  for (size_t i = 0; i < arch.units.size(); ++i) {
    EXPECT_NEAR(arch.units[i].all, table.units[i].all / 2, 1e-6 * table.units[i].all);
    EXPECT_EQ(arch.units[i].core, table.units[i].core);
  }
  EXPECT_EQ(GpuRecord(1).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(GpuDeviceTest, TheRecordFollowsTheDevicesClocksAndMemory) {
  for (auto [name, value] :
       {std::pair{"FAKE_CUDA_CLOCK_KHZ", "990000"}, std::pair{"FAKE_CUDA_MEMORY_KHZ", "3201000"},
        std::pair{"FAKE_CUDA_MEMORY_BITS", "3072"}}) {
    ASSERT_EQ(::setenv(name, value, 1), 0);
  }
  absl::StatusOr<v1::ArchRecord> record = GpuRecord(0);
  for (const char* name :
       {"FAKE_CUDA_CLOCK_KHZ", "FAKE_CUDA_MEMORY_KHZ", "FAKE_CUDA_MEMORY_BITS"}) {
    ::unsetenv(name);
  }
  ASSERT_TRUE(record.ok()) << record.status();
  const target::Arch arch = *target::ParseArch(record->record());
  const target::Arch table = *target::NamedArch("sm_90a");
  EXPECT_DOUBLE_EQ(arch.clock_ghz, table.clock_ghz / 2);
  EXPECT_DOUBLE_EQ(arch.dram.copy_all, table.dram.copy_all / 2);
  EXPECT_LT(arch.llc.bytes, table.llc.bytes / 40);  // the stand-in's cache has 1 MiB
}

TEST_F(GpuDeviceTest, MemoryKeepsWhatIsWrittenFilledAndCopied) {
  constexpr int64_t kBytes = (65 << 20) + 3;  // more than one stage of a copy
  std::vector<uint8_t> host(kBytes);
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<uint8_t>(i * 7 + (i >> 12));
  void* a = *device_->Allocate(kBytes + 64);
  void* b = *device_->Allocate(kBytes + 64);
  EXPECT_EQ(reinterpret_cast<uint64_t>(a) % 64, 0u);
  ASSERT_TRUE(device_->Fill(a, 0xA5, kBytes + 64).ok());
  ASSERT_TRUE(device_->Fill(b, 0xA5, kBytes + 64).ok());
  ASSERT_TRUE(device_->Write(a, host.data(), kBytes).ok());
  ASSERT_TRUE(device_->Copy(b, a, kBytes).ok());
  std::vector<uint8_t> back(kBytes + 1);
  ASSERT_TRUE(device_->Read(back.data(), b, kBytes + 1).ok());
  EXPECT_EQ(back.back(), 0xA5);
  back.pop_back();
  EXPECT_TRUE(back == host);
  const uint64_t digest = *device_->Digest(a, kBytes);
  EXPECT_EQ(*device_->Digest(b, kBytes), digest);
  const uint8_t other = host[12345] ^ 1;
  ASSERT_TRUE(device_->Write(static_cast<uint8_t*>(b) + 12345, &other, 1).ok());
  EXPECT_NE(*device_->Digest(b, kBytes), digest);
  device_->Free(a, kBytes + 64);
  device_->Free(b, kBytes + 64);
}

TEST_F(GpuDeviceTest, CountsElementsApartOfTheTypesThatTheKernelTakes) {
  // Of each type: 1, 2, infinity and 1.
  const std::vector<std::pair<DType, std::vector<uint64_t>>> tensors = {
      {kFloat32, {0x40000000'3f800000, 0x3f800000'7f800000}},
      {kBFloat16, {0x3f80'7f80'4000'3f80}},
      {kFloat16, {0x3c00'7c00'4000'3c00}}};
  void* a = *device_->Allocate(64);
  void* b = *device_->Allocate(64);
  for (const auto& [type, words] : tensors) {
    ASSERT_TRUE(device_->Write(a, words.data(), 4 * type.bytes()).ok());
    ASSERT_TRUE(device_->Copy(b, a, 4 * type.bytes()).ok());
    EXPECT_EQ(*device_->CountApart(a, b, type, 4, 0, 0), 1) << type.ToString();
    // The first two in the other order: 1 apart.
    ASSERT_TRUE(device_->Copy(b, static_cast<char*>(a) + type.bytes(), type.bytes()).ok());
    ASSERT_TRUE(device_->Copy(static_cast<char*>(b) + type.bytes(), a, type.bytes()).ok());
    EXPECT_EQ(*device_->CountApart(a, b, type, 4, 0, 0.99f), 3) << type.ToString();
    EXPECT_EQ(*device_->CountApart(a, b, type, 4, 0, 1), 1) << type.ToString();
  }
  for (const DType other : {kFloat64, kInt32, kUInt8}) {
    EXPECT_TRUE(absl::IsUnimplemented(device_->CountApart(a, b, other, 4, 0, 0).status()))
        << other.ToString();
  }
  device_->Free(a, 64);
  device_->Free(b, 64);
}

TEST_F(GpuDeviceTest, WhatDoesNotFitIsRefusedNotFatal) {
  EXPECT_EQ(device_->Allocate(int64_t{1} << 40).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(device_->Allocate(1 << 20).ok());
}

TEST_F(GpuDeviceTest, LaunchesGetTheStreamAndTheirArguments) {
  std::unique_ptr<LoadedKernel> kernel = Load("kernel_add");
  std::vector<float> host(1000, 41);
  void* a = *device_->Allocate(4000);
  void* b = *device_->Allocate(4000);
  ASSERT_TRUE(device_->Write(a, host.data(), 4000).ok());
  ASSERT_TRUE(device_->Launch(kernel.get(), {{a, b}, {1000}}).ok());
  ASSERT_TRUE(device_->Read(host.data(), b, 4000).ok());
  EXPECT_EQ(host, std::vector<float>(1000, 42));
}

TEST_F(GpuDeviceTest, WithoutRecordsEventsTellTheTime) {
  std::unique_ptr<LoadedKernel> kernel = Load("kernel_spin");
  const std::vector<LaunchArguments> launches(70, LaunchArguments{{}, {200}});  // microseconds
  absl::StatusOr<std::vector<Sample>> samples = device_->Time(kernel.get(), launches);
  ASSERT_TRUE(samples.ok()) << samples.status();
  ASSERT_EQ(samples->size(), launches.size());
  for (const Sample& sample : *samples) {
    EXPECT_GE(sample.events_ns, 200e3);
    EXPECT_GE(sample.ns, 150e3);
    EXPECT_LE(sample.ns, sample.events_ns);
  }
  const std::string conditions = device_->Conditions();
  EXPECT_NE(conditions.find("events, less"), std::string::npos) << conditions;
  EXPECT_NE(conditions.find("CUPTI"), std::string::npos) << conditions;
}

TEST_F(GpuDeviceTest, HeatAndThePowerSupplyThrottleSamplesThePowerLimitDoesNot) {
  std::unique_ptr<LoadedKernel> kernel = Load("kernel_spin");
  const std::vector<LaunchArguments> launches(4, LaunchArguments{{}, {100}});
  const auto time = [&](unsigned long long reasons) {
    Tell(kNvml, "fake_nvml_reasons", reasons);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    (void)device_->Conditions();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    absl::StatusOr<std::vector<Sample>> samples = device_->Time(kernel.get(), launches);
    Tell(kNvml, "fake_nvml_reasons", 0ULL);
    size_t throttled = 0;
    for (const Sample& sample : *samples) throttled += sample.throttled ? 1 : 0;
    return throttled;
  };
  EXPECT_EQ(time(0x4), 0u) << "the power limit";
  EXPECT_EQ(device_->Slowdown(), "");
  EXPECT_NE(device_->Conditions().find("at the power limit"), std::string::npos);
  for (const auto& [reasons, words] : {std::pair{0x20ULL, "heat, by the driver"},
                                       {0x48ULL, "heat, by the hardware"},
                                       {0x88ULL, "power brake of the supply"},
                                       {0x8ULL, "hardware slowdown"}}) {
    EXPECT_EQ(time(reasons), launches.size()) << reasons;
    EXPECT_EQ(device_->Slowdown(), words);
    EXPECT_NE(device_->Conditions().find("disturbed: the clocks were held down"),
              std::string::npos);
  }
}

// It is seen though the last reading is well again.
TEST_F(GpuDeviceTest, ASlowdownInTheMiddleOfALongBatchCounts) {
  std::unique_ptr<LoadedKernel> kernel = Load("kernel_spin");
  const std::vector<LaunchArguments> one(1, LaunchArguments{{}, {150'000}});
  ASSERT_TRUE(device_->Time(kernel.get(), one).ok());
  std::thread heat([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    Tell(kNvml, "fake_nvml_reasons", 0x20ULL);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    Tell(kNvml, "fake_nvml_reasons", 0ULL);
  });
  absl::StatusOr<std::vector<Sample>> samples = device_->Time(kernel.get(), one);
  heat.join();
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_TRUE(samples->front().throttled);
}

TEST_F(GpuDeviceTest, AnErrorCodeIsTheCandidatesAndAFaultIsTheProcesss) {
  EXPECT_EQ(device_->Launch(Load("kernel_fail").get(), {{}, {KILN_ERROR_ARGUMENT}}).code(),
            absl::StatusCode::kInternal);
  std::unique_ptr<LoadedKernel> fault = Load("kernel_break_gpu");
  EXPECT_EXIT((void)device_->Launch(fault.get(), {{}, {700}}), testing::ExitedWithCode(kDeviceLost),
              "CUDA_ERROR_ILLEGAL_ADDRESS .700.: an illegal memory access");
  std::vector<LaunchArguments> many(5, LaunchArguments{{}, {700}});
  EXPECT_EXIT((void)device_->Time(fault.get(), many), testing::ExitedWithCode(kDeviceLost),
              "CUDA_ERROR_ILLEGAL_ADDRESS");
  Tell(kNvml, "fake_nvml_xid", 13ULL);  // what such a kernel does to its own context
  EXPECT_EXIT((void)device_->Launch(fault.get(), {{}, {700}}), testing::ExitedWithCode(kDeviceLost),
              "CUDA_ERROR_ILLEGAL_ADDRESS");
  // The device itself: no candidate is to blame, whichever ran.
  Tell(kNvml, "fake_nvml_ecc", 1ULL);
  EXPECT_EXIT((void)device_->Launch(fault.get(), {{}, {700}}),
              testing::ExitedWithCode(kDeviceBroken),
              "illegal memory access was encountered: 1 uncorrected ECC");
  (void)device_->Faults();
  std::unique_ptr<LoadedKernel> hang = Load("kernel_hang_gpu");
  EXPECT_EXIT((void)device_->Launch(hang.get(), {{}, {}}), testing::ExitedWithCode(kLaunchStopped),
              "did not come back after 0.2 s");
}

}  // namespace
}  // namespace kiln::worker

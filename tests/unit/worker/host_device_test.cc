#include "worker/profile/host_device.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "compiler/base/rng.h"
#include "worker/profile/exit_codes.h"
#include "worker/profile/launch_limit.h"

namespace kiln::worker {
namespace {

class HostDeviceTest : public testing::Test {
 protected:
  HostDeviceTest() : device_(MakeHostDevice(0, "/tmp")) {
    std::string folder = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
    std::ifstream in(folder + "/kiln_host_kernels.so", std::ios::binary);
    std::stringstream bytes;
    bytes << in.rdbuf();
    bundle_.set_shared_object(bytes.str());
  }
  std::unique_ptr<LoadedKernel> Load(const std::string& name, int threads = 0) {
    bundle_.set_name(name);
    absl::StatusOr<std::unique_ptr<LoadedKernel>> kernel = device_->Load(bundle_, threads);
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    return *std::move(kernel);
  }

  std::unique_ptr<Device> device_;
  v1::ArtifactBundle bundle_;
};

TEST_F(HostDeviceTest, RunsAKernelOnItsMemory) {
  std::unique_ptr<LoadedKernel> kernel = Load("kernel_add");
  constexpr int64_t kCount = 1000;
  void* a = *device_->Allocate(kCount * 4);
  void* b = *device_->Allocate(kCount * 4);
  EXPECT_EQ(reinterpret_cast<uint64_t>(a) % 4096, 0u);
  std::vector<float> host(kCount, 41);
  ASSERT_TRUE(device_->Write(a, host.data(), kCount * 4).ok());
  LaunchArguments arguments{{a, b}, {kCount}};
  absl::Status status = device_->Launch(kernel.get(), arguments);
  EXPECT_TRUE(status.ok()) << status;
  ASSERT_TRUE(device_->Read(host.data(), b, kCount * 4).ok());
  EXPECT_EQ(host, std::vector<float>(kCount, 42));
  device_->Free(a, kCount * 4);
  device_->Free(b, kCount * 4);
}

// Sets of many small tensors come one after another: the second finds the pages of the first.
TEST_F(HostDeviceTest, SmallBlocksAreOfMemoryThatIsKept) {
  constexpr int64_t kBytes = 8200, kBlocks = 3000;
  const auto faults = [] {
    rusage usage;
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
  };
  for (int turn = 0; turn < 4; ++turn) {
    const int64_t before = faults();
    std::vector<uint8_t*> blocks;
    for (int64_t i = 0; i < kBlocks; ++i) {
      blocks.push_back(static_cast<uint8_t*>(*device_->Allocate(kBytes)));
      EXPECT_EQ(reinterpret_cast<uint64_t>(blocks.back()) % 4096, 0u);
      ASSERT_TRUE(device_->Fill(blocks.back(), static_cast<uint8_t>(i), kBytes).ok());
    }
    for (int64_t i = 0; i < kBlocks; ++i) {  // none lies in another
      const auto at = static_cast<size_t>(i);
      ASSERT_EQ(blocks[at][0], static_cast<uint8_t>(i));
      ASSERT_EQ(blocks[at][kBytes - 1], static_cast<uint8_t>(i));
    }
    for (uint8_t* block : blocks) device_->Free(block, kBytes);
    if (turn > 1) {  // which uses what the first two have left, in any order
      EXPECT_LT(faults() - before, kBlocks / 10);
    }
  }
}

TEST_F(HostDeviceTest, BlocksOfAllSizesComeAndGoInAnyOrder) {
  std::vector<std::pair<uint8_t*, int64_t>> held;
  Rng random(7);
  for (int i = 0; i < 4000; ++i) {
    if (held.size() < 40 || random.Below(2) == 0) {
      const auto bytes = static_cast<int64_t>(1 + random.Below(1 << (4 + random.Below(18))));
      auto* const block = static_cast<uint8_t*>(*device_->Allocate(bytes));
      block[0] = block[bytes - 1] = static_cast<uint8_t>(bytes);
      held.emplace_back(block, bytes);
    } else {
      const size_t at = random.Below(held.size());
      const auto [block, bytes] = held[at];
      EXPECT_EQ(block[0], static_cast<uint8_t>(bytes));
      EXPECT_EQ(block[bytes - 1], static_cast<uint8_t>(bytes));
      device_->Free(block, bytes);
      held.erase(held.begin() + static_cast<int64_t>(at));
    }
  }
  for (const auto& [block, bytes] : held) device_->Free(block, bytes);
}

TEST_F(HostDeviceTest, PassesThreadsAndManyArguments) {
  int64_t out = 0;
  ASSERT_TRUE(device_->Launch(Load("kernel_threads", 3).get(), {{&out}, {}}).ok());
  EXPECT_EQ(out, 3);
  ASSERT_TRUE(
      device_->Launch(Load("kernel_many").get(), {{&out}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}})
          .ok());
  EXPECT_EQ(out, 506);
  LaunchArguments too_many{{&out}, std::vector<int64_t>(80, 1)};
  EXPECT_TRUE(absl::IsInvalidArgument(device_->Launch(Load("kernel_many").get(), too_many)));
}

using HostDeviceDeathTest = HostDeviceTest;
TEST_F(HostDeviceDeathTest, ALaunchThatDoesNotComeBackEndsTheProcess) {
  device_->LimitLaunches(0.2);
  std::unique_ptr<LoadedKernel> hang = Load("kernel_hang");
  EXPECT_EXIT((void)device_->Launch(hang.get(), {{}, {}}), testing::ExitedWithCode(kLaunchStopped),
              "a launch did not come back after 0.2 s");
  const std::vector<LaunchArguments> many(3);
  EXPECT_EXIT((void)device_->Time(hang.get(), many), testing::ExitedWithCode(kLaunchStopped),
              "a launch did not come back after 0.2 s");
  // One that is slow and comes back is none of these, nor is the time between two.
  std::unique_ptr<LoadedKernel> spin = Load("kernel_spin");
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(device_->Launch(spin.get(), {{}, {100'000}}).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
  }
}

TEST(LaunchSecondsTest, FarAboveAllThatIsKnown) {
  EXPECT_EQ(LaunchSeconds(10, {}), 10);
  EXPECT_EQ(LaunchSeconds(10, {1e6, 2e6, 3e6}), 10);
  EXPECT_EQ(LaunchSeconds(10, {2e9, 0, 0}), 40);
  EXPECT_EQ(LaunchSeconds(10, {2e9, 1e9, 4e9}), 80);
  EXPECT_EQ(LaunchSeconds(0.5, {0, 1e9, 0}), 20);
}

TEST_F(HostDeviceTest, ReturnCodesAreExplained) {
  std::unique_ptr<LoadedKernel> kernel = Load("kernel_fail");
  for (int64_t code : {-1, -2, -3, -4, -99, 7}) {
    absl::Status status = device_->Launch(kernel.get(), {{}, {code}});
    EXPECT_TRUE(absl::IsInternal(status)) << code;
  }
  EXPECT_NE(device_->Launch(kernel.get(), {{}, {-4}}).message().find("processor"),
            absl::string_view::npos);
}

TEST_F(HostDeviceTest, BadArtifactsAreErrors) {
  bundle_.set_name("kernel_nothing");
  EXPECT_TRUE(absl::IsNotFound(device_->Load(bundle_, 0).status()));
  for (const std::string& bytes : {std::string(), std::string("text"), std::string("\177ELF"),
                                   bundle_.shared_object().substr(0, 2000)}) {
    v1::ArtifactBundle bad;
    bad.set_name("kernel_add");
    bad.set_shared_object(bytes);
    EXPECT_TRUE(absl::IsInvalidArgument(device_->Load(bad, 0).status())) << bytes.size();
  }
}

TEST_F(HostDeviceTest, TimesAreThoseOfTheKernel) {
  std::unique_ptr<LoadedKernel> kernel = Load("kernel_spin");
  std::vector<LaunchArguments> launches(20, LaunchArguments{{}, {2000}});
  absl::StatusOr<std::vector<Sample>> samples = device_->Time(kernel.get(), launches);
  ASSERT_TRUE(samples.ok());
  ASSERT_EQ(samples->size(), 20u);
  for (const Sample& sample : *samples) EXPECT_GE(sample.ns, 1.9e6);
  EXPECT_LT(Summarise(Undisturbed(*samples)).p25, 2.5e6);
}

TEST_F(HostDeviceTest, ThousandsOfLoadsDoNotPileUp) {
  auto descriptors = [] {
    auto begin = std::filesystem::directory_iterator("/proc/self/fd");
    return std::distance(begin, std::filesystem::directory_iterator());
  };
  Load("kernel_add");
  auto before = descriptors();
  for (int i = 0; i < 2000; ++i) Load("kernel_add");
  EXPECT_EQ(descriptors(), before);
}

// Finalists are loaded all at once: each must be itself, and none the one that came first.
TEST_F(HostDeviceTest, ObjectsThatAreLoadedTogetherAreNotOne) {
  std::vector<std::unique_ptr<LoadedKernel>> kernels;
  for (int i = 0; i < 5; ++i) kernels.push_back(Load("kernel_count"));
  kernels[1].reset();
  kernels.push_back(Load("kernel_count"));
  for (const std::unique_ptr<LoadedKernel>& kernel : kernels) {
    if (kernel == nullptr) continue;
    int64_t calls = 0;
    ASSERT_TRUE(device_->Launch(kernel.get(), {{&calls}, {}}).ok());
    EXPECT_EQ(calls, 1);
  }
}

TEST_F(HostDeviceTest, ImpossibleAllocationsAreErrors) {
  EXPECT_TRUE(absl::IsResourceExhausted(device_->Allocate(int64_t{1} << 60).status()));
}

}  // namespace
}  // namespace kiln::worker

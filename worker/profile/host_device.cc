#include "worker/profile/host_device.h"

#include <sys/resource.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/base/status.h"
#include "compiler/target/host_arch.h"
#include "worker/profile/artifact_library.h"
#include "worker/profile/host_arena.h"
#include "worker/profile/host_memory.h"
#include "worker/profile/launch_alarm.h"
#include "worker/profile/launch_limit.h"

namespace kiln::worker {
namespace {

constexpr int64_t kSupposedCacheBytes = 32 << 20;  // of a processor that has no record

// /proc/stat counts stolen time in ticks of 10 ms: for shorter launches it says nothing.
constexpr double kStealVisibleNs = 10e6;

class HostKernel : public LoadedKernel {
 public:
  HostKernel(std::unique_ptr<ArtifactLibrary> library, int threads)
      : library_(std::move(library)), threads_(threads) {}

  int threads() const { return threads_; }
  int32_t Call(const LaunchArguments& arguments) const {
    kiln_launch launch = {};
    launch.size = sizeof(launch);
    launch.version = 1;
    launch.threads = threads_;
    return library_->Call(launch, arguments);
  }

 private:
  const std::unique_ptr<ArtifactLibrary> library_;
  const int threads_;
};

int64_t InvoluntarySwitches() {
  rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

// Ticks that a hypervisor took from this machine; 0 where the system does not say.
int64_t StolenTicks() {
  std::ifstream stat("/proc/stat");
  std::string line;
  if (!std::getline(stat, line)) return 0;
  std::vector<std::string> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
  int64_t stolen = 0;
  if (fields.size() > 8) (void)absl::SimpleAtoi(fields[8], &stolen);
  return stolen;
}

class HostDevice : public Device {
 public:
  HostDevice(int64_t cache_bytes, std::string scratch_dir)
      : cache_bytes_(cache_bytes > 0 ? cache_bytes : LastLevelCacheBytes()),
        scratch_dir_(std::move(scratch_dir)) {}

  std::string name() const override { return "cpu"; }
  int64_t cache_bytes() const override { return cache_bytes_; }
  double cache_turns() const override { return 2; }
  // The threads of the candidate before spin about 50 us before they sleep.
  double settle_seconds() const override { return 200e-6; }

  absl::StatusOr<std::unique_ptr<LoadedKernel>> Load(const v1::ArtifactBundle& bundle,
                                                     int threads) override {
    KILN_ASSIGN_OR_RETURN(std::unique_ptr<ArtifactLibrary> library,
                          ArtifactLibrary::Open(bundle, scratch_dir_));
    return std::unique_ptr<LoadedKernel>(std::make_unique<HostKernel>(std::move(library), threads));
  }

  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    void* const address = arena_.Take(bytes);
    if (address == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat("no room for ", bytes, " bytes"));
    }
    return address;
  }
  void Free(void* address, int64_t bytes) override { arena_.Give(address, bytes); }
  absl::Status Write(void* to, const void* from_host, int64_t bytes) override {
    std::memcpy(to, from_host, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }
  absl::Status Read(void* to_host, const void* from, int64_t bytes) override {
    std::memcpy(to_host, from, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }

  absl::Status Fill(void* to, uint8_t byte, int64_t bytes) override {
    std::memset(to, byte, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }
  absl::Status Copy(void* to, const void* from, int64_t bytes) override {
    return Write(to, from, bytes);
  }
  absl::StatusOr<uint64_t> Digest(const void* from, int64_t bytes) override {
    return DigestOfHostMemory(from, bytes);
  }

  void LimitLaunches(double seconds) override { launch_seconds_ = seconds; }

  absl::Status Launch(LoadedKernel* kernel, const LaunchArguments& arguments) override {
    KILN_RETURN_IF_ERROR(CheckArgumentCount(arguments));
    const LaunchAlarm alarm(launch_seconds_);
    return ExplainReturn(static_cast<HostKernel*>(kernel)->Call(arguments));
  }

  absl::StatusOr<std::vector<Sample>> Time(LoadedKernel* kernel,
                                           absl::Span<const LaunchArguments> launches) override {
    using Clock = std::chrono::steady_clock;
    const auto* host_kernel = static_cast<HostKernel*>(kernel);
    threads_ = host_kernel->threads();
    std::vector<Sample> samples;
    samples.reserve(launches.size());
    const LaunchAlarm alarm(launch_seconds_);
    int64_t stolen_before = StolenTicks();
    for (const LaunchArguments& arguments : launches) {
      KILN_RETURN_IF_ERROR(CheckArgumentCount(arguments));
      int64_t switches = InvoluntarySwitches();
      Clock::time_point begin = Clock::now();
      int32_t code = host_kernel->Call(arguments);
      Clock::time_point end = Clock::now();
      KILN_RETURN_IF_ERROR(ExplainReturn(code));
      Sample sample;
      sample.ns = std::chrono::duration<double, std::nano>(end - begin).count();
      sample.disturbed = InvoluntarySwitches() != switches;
      if (sample.ns >= kStealVisibleNs) {
        int64_t stolen = StolenTicks();
        sample.disturbed = sample.disturbed || stolen != stolen_before;
        stolen_before = stolen;
      }
      samples.push_back(sample);
    }
    return samples;
  }

  std::string Conditions() override {
    return threads_ > 0 ? absl::StrCat(threads_, " threads") : "all threads";
  }

 private:
  const int64_t cache_bytes_;
  const std::string scratch_dir_;
  HostArena arena_;
  double launch_seconds_ = kLaunchSeconds;
  int threads_ = 0;  // of the launches that were timed last
};

}  // namespace

int64_t LastLevelCacheBytes() {
  const absl::StatusOr<target::Arch> host = target::DescribeHost();
  return host.ok() ? host->llc.bytes : kSupposedCacheBytes;
}

std::unique_ptr<Device> MakeHostDevice(int64_t cache_bytes, const std::string& scratch_dir) {
  return std::make_unique<HostDevice>(cache_bytes, scratch_dir);
}

}  // namespace kiln::worker

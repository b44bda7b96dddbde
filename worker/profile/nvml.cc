#include "worker/profile/nvml.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"

namespace kiln::worker::cuda {
namespace {

// NVML API.
using Result = int;
constexpr int kSmClock = 1;  // NVML_CLOCK_SM
// nvmlClocksThrottleReason*.
constexpr uint64_t kPowerLimit = 0x4, kSlowdown = 0x8, kSoftwareThermal = 0x20,
                   kHardwareThermal = 0x40, kPowerBrake = 0x80;
constexpr uint64_t kThrottled = kSlowdown | kSoftwareThermal | kHardwareThermal | kPowerBrake;
constexpr auto kPeriod = std::chrono::milliseconds(10);
constexpr unsigned kMostProcesses = 64;

struct ProcessInfo {  // nvmlProcessInfo_t of version 2 and 3
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};

struct {
  Result (*Init)();
  Result (*GetHandle)(const char*, void**);
  Result (*GetClock)(void*, int, unsigned*);
  Result (*GetPower)(void*, unsigned*);  // milliwatts
  Result (*GetReasons)(void*, unsigned long long*);
  Result (*GetProcesses)(void*, unsigned*, ProcessInfo*);
} api;

absl::Status Load() {
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::UnavailableError(
        "no NVML (libnvidia-ml.so.1): clocks and throttling are not watched");
  }
  const struct {
    const char* name;
    void* place;
  } entries[] = {
      {"nvmlInit_v2", &api.Init},
      {"nvmlDeviceGetHandleByPciBusId_v2", &api.GetHandle},
      {"nvmlDeviceGetClockInfo", &api.GetClock},
      {"nvmlDeviceGetPowerUsage", &api.GetPower},
      {"nvmlDeviceGetCurrentClocksThrottleReasons", &api.GetReasons},
      {"nvmlDeviceGetComputeRunningProcesses_v3", &api.GetProcesses},
  };
  for (const auto& entry : entries) {
    void* found = ::dlsym(library, entry.name);
    if (found == nullptr) return absl::UnavailableError(absl::StrCat("NVML has no ", entry.name));
    std::memcpy(entry.place, &found, sizeof(found));
  }
  if (Result result = api.Init(); result != 0) {
    return absl::UnavailableError(absl::StrCat("NVML does not start (", result, ")"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string Monitor::Window::ToString() const {
  if (readings == 0) return "";
  std::string text = absl::StrCat("SM ", least_mhz, " to ", most_mhz, " MHz, ",
                                  static_cast<int64_t>(most_watts), " W");
  if (reasons & kPowerLimit) text += ", at the power limit";
  if (reasons & kThrottled) text += ", throttled";
  return text;
}

absl::StatusOr<std::unique_ptr<Monitor>> Monitor::Start(const std::string& bus_id) {
  static const absl::Status loaded = Load();
  KILN_RETURN_IF_ERROR(loaded);
  void* device = nullptr;
  if (Result result = api.GetHandle(bus_id.c_str(), &device); result != 0) {
    return absl::UnavailableError(
        absl::StrCat("NVML does not know the device ", bus_id, " (", result, ")"));
  }
  std::unique_ptr<Monitor> monitor(new Monitor(device));
  monitor->thread_ = std::thread([raw = monitor.get()] { raw->Watch(); });
  return monitor;
}

Monitor::~Monitor() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void Monitor::Watch() {
  while (!stop_) {
    Read();
    std::this_thread::sleep_for(kPeriod);
  }
}

void Monitor::Read() {
  unsigned mhz = 0;
  unsigned milliwatts = 0;
  unsigned long long reasons = 0;
  if (api.GetClock(device_, kSmClock, &mhz) != 0) return;
  (void)api.GetPower(device_, &milliwatts);
  (void)api.GetReasons(device_, &reasons);
  throttled_ = (reasons & kThrottled) != 0;
  std::lock_guard<std::mutex> lock(mutex_);
  window_.least_mhz = window_.readings == 0 ? mhz : std::min(window_.least_mhz, mhz);
  window_.most_mhz = std::max(window_.most_mhz, mhz);
  window_.most_watts = std::max(window_.most_watts, milliwatts / 1e3);
  window_.reasons |= reasons;
  ++window_.readings;
}

Monitor::Window Monitor::Take() {
  std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(window_, Window());
}

std::vector<unsigned> Monitor::OtherProcesses() const {
  ProcessInfo found[kMostProcesses];
  unsigned count = kMostProcesses;
  std::vector<unsigned> others;
  if (api.GetProcesses(device_, &count, found) != 0) return others;
  for (unsigned i = 0; i < std::min(count, kMostProcesses); ++i) {
    if (found[i].pid != static_cast<unsigned>(::getpid())) others.push_back(found[i].pid);
  }
  return others;
}

}  // namespace kiln::worker::cuda

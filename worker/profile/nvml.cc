#include "worker/profile/nvml.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/status.h"
#include "proto/conditions.h"
#include "worker/profile/dynamic_library.h"

namespace kiln::worker::cuda {
namespace {

// NVML API.
using Result = int;
constexpr int kSmClock = 1;  // NVML_CLOCK_SM
// nvmlClocksThrottleReason*.
constexpr uint64_t kPowerLimit = 0x4, kSlowdown = 0x8, kSoftwareThermal = 0x20,
                   kHardwareThermal = 0x40, kPowerBrake = 0x80;
constexpr size_t kMostChanges = 1024;
constexpr auto kPeriod = std::chrono::milliseconds(10);
constexpr auto kRecovery = std::chrono::milliseconds(50);  // of the clock, when the limit is off
constexpr int kReadingsALook = 10;                         // for other processes
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
        "no NVML (libnvidia-ml.so.1, of the driver): clocks, throttling and other processes are "
        "not "
        "watched");
  }
  const Symbol symbols[] = {
      {"nvmlInit_v2", &api.Init},
      {"nvmlDeviceGetHandleByPciBusId_v2", &api.GetHandle},
      {"nvmlDeviceGetClockInfo", &api.GetClock},
      {"nvmlDeviceGetPowerUsage", &api.GetPower},
      {"nvmlDeviceGetCurrentClocksThrottleReasons", &api.GetReasons},
      {"nvmlDeviceGetComputeRunningProcesses_v3", &api.GetProcesses},
  };
  KILN_RETURN_IF_ERROR(Resolve(library, symbols, "NVML"));
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
  if (limited > 0) {
    text +=
        limited == readings ? ", at the power limit throughout" : ", at the power limit at times";
  }
  if (const std::string by = SlowdownWords(reasons); !by.empty()) {
    absl::StrAppend(&text, "; ", kDisturbed, "the clocks were held down at times (", by,
                    "); what was measured then is dropped");
  }
  return text;
}

std::string Monitor::SlowdownWords(uint64_t reasons) {
  std::vector<std::string> words;
  for (const auto& [bit, word] : {std::pair{kSoftwareThermal, "heat, by the driver"},
                                  {kHardwareThermal, "heat, by the hardware"},
                                  {kPowerBrake, "power brake of the supply"}}) {
    if (reasons & bit) words.emplace_back(word);
  }
  if (words.empty() && (reasons & kSlowdown)) words.emplace_back("hardware slowdown");
  return absl::StrJoin(words, ", ");
}

uint64_t Monitor::ReasonsSince(std::chrono::steady_clock::time_point begin) const {
  std::lock_guard<std::mutex> lock(mutex_);
  uint64_t reasons = 0;
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
    reasons |= change->second;
    if (change->first <= begin) break;
  }
  return reasons;
}

bool Monitor::AtPowerLimit() const {
  unsigned long long now = 0;
  (void)api.GetReasons(device_, &now);
  const uint64_t reasons = now | ReasonsSince(std::chrono::steady_clock::now() - kRecovery);
  return (reasons & kPowerLimit) != 0 && SlowdownWords(reasons).empty();
}

absl::StatusOr<std::unique_ptr<Monitor>> Monitor::Start(const std::string& bus_id) {
  static const absl::Status loaded = Load();
  KILN_RETURN_IF_ERROR(loaded);
  void* device = nullptr;
  if (Result result = api.GetHandle(bus_id.c_str(), &device); result != 0) {
    return absl::UnavailableError(
        absl::StrCat("NVML does not know the device ", bus_id, " (", result, ")"));
  }
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<GpuFaults> faults, GpuFaults::Watch(bus_id));
  std::unique_ptr<Monitor> monitor(new Monitor(device, std::move(faults)));
  monitor->thread_ = std::thread([raw = monitor.get()] { raw->Watch(); });
  return monitor;
}

Monitor::~Monitor() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void Monitor::Watch() {
  for (int turn = 0; !stop_; ++turn) {
    Read();
    if (turn % kReadingsALook == 0) {
      const std::set<unsigned> others = OthersNow();
      std::lock_guard<std::mutex> lock(mutex_);
      others_.insert(others.begin(), others.end());
    }
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
  std::lock_guard<std::mutex> lock(mutex_);
  if (changes_.empty() || changes_.back().second != reasons) {
    changes_.emplace_back(std::chrono::steady_clock::now(), reasons);
    if (changes_.size() > kMostChanges) changes_.pop_front();
  }
  window_.limited += (reasons & kPowerLimit) != 0 ? 1 : 0;
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

std::set<unsigned> Monitor::Processes() const {
  ProcessInfo found[kMostProcesses];
  unsigned count = kMostProcesses;
  std::set<unsigned> processes;
  if (api.GetProcesses(device_, &count, found) != 0) return processes;
  for (unsigned i = 0; i < std::min(count, kMostProcesses); ++i) processes.insert(found[i].pid);
  return processes;
}

void Monitor::Claim(const std::set<unsigned>& before) {
  const std::set<unsigned> now = Processes();
  const auto self = static_cast<unsigned>(::getpid());
  std::lock_guard<std::mutex> lock(mutex_);
  claimed_ = true;
  if (now.count(self) > 0) {
    own_ = {self};
    return;
  }
  own_.clear();
  std::set_difference(now.begin(), now.end(), before.begin(), before.end(),
                      std::inserter(own_, own_.end()));
}

std::set<unsigned> Monitor::OthersNow() const {
  const std::set<unsigned> now = Processes();
  std::set<unsigned> others;
  std::lock_guard<std::mutex> lock(mutex_);
  if (!claimed_) return others;
  std::set_difference(now.begin(), now.end(), own_.begin(), own_.end(),
                      std::inserter(others, others.end()));
  return others;
}

std::set<unsigned> Monitor::TakeOthers() {
  std::set<unsigned> others = OthersNow();
  std::lock_guard<std::mutex> lock(mutex_);
  others.merge(std::exchange(others_, {}));
  return others;
}

}  // namespace kiln::worker::cuda

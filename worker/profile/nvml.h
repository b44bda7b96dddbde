// What the GPU does while it measures: clocks, power, reasons for lower clocks, other processes,
// faults (gpu_faults.h). By NVML, found at run time (libnvidia-ml.so.1 of the driver).
#ifndef KILN_WORKER_PROFILE_NVML_H_
#define KILN_WORKER_PROFILE_NVML_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/profile/gpu_faults.h"

namespace kiln::worker::cuda {

// Reads one device every few milliseconds in a thread of its own, until it is destroyed.
class Monitor {
 public:
  // What was seen between two calls of Take().
  struct Window {
    int readings = 0;
    unsigned least_mhz = 0, most_mhz = 0;  // of the SMs
    double most_watts = 0;
    uint64_t reasons = 0;  // NVML's bits, of all readings
    int limited = 0;       // readings at the power limit
    // "SM 1755 to 1980 MHz, 512 W, at the power limit throughout"; empty without readings.
    std::string ToString() const;
  };

  // `bus_id`: of PCI, as the driver spells it. kUnavailable: no NVML, or it does not know the
  // device.
  static absl::StatusOr<std::unique_ptr<Monitor>> Start(const std::string& bus_id);
  ~Monitor();

  Window Take();
  // Whether it is the power limit that holds the clock down, or did a moment ago, and neither heat
  // nor the supply.
  bool AtPowerLimit() const;
  // NVML's reasons for lower clocks at any reading since `begin`, and at the one before.
  uint64_t ReasonsSince(std::chrono::steady_clock::time_point begin) const;
  // Those that are heat or the power supply, not merely the power limit, in words; empty = none.
  static std::string SlowdownWords(uint64_t reasons);
  // Ids of the processes that hold a compute context on the device; empty where the system does not
  // say.
  std::set<unsigned> Processes() const;
  // Call when this process has made its context, with what there was before: what came meanwhile is
  // this process, whatever its number is outside of a container.
  void Claim(const std::set<unsigned>& before);
  // Processes() without this one, now or at a look every 100 ms since the last call.
  std::set<unsigned> TakeOthers();

  // What went wrong on the device since it was first watched, or since the last call.
  DeviceHealth TakeFaults() { return faults_->Take(); }

 private:
  Monitor(void* device, std::unique_ptr<GpuFaults> faults)
      : device_(device), faults_(std::move(faults)) {}
  void Watch();
  void Read();
  std::set<unsigned> OthersNow() const;

  void* const device_;
  const std::unique_ptr<GpuFaults> faults_;
  std::set<unsigned> own_;
  bool claimed_ = false;       // `own_` is known; both of them and `others_` guarded by mutex_
  std::set<unsigned> others_;  // seen by the thread
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  Window window_;
  // When the reasons became others.
  std::deque<std::pair<std::chrono::steady_clock::time_point, uint64_t>> changes_;
  std::thread thread_;
};

}  // namespace kiln::worker::cuda

#endif  // KILN_WORKER_PROFILE_NVML_H_

// What the GPU does while it measures: clocks, power, reasons for lower clocks, other processes. By
// NVML, found at run time (libnvidia-ml.so.1 of the driver).
#ifndef KILN_WORKER_PROFILE_NVML_H_
#define KILN_WORKER_PROFILE_NVML_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

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
    // "SM 1755 to 1980 MHz, 512 W, at the power limit"; empty without readings.
    std::string ToString() const;
  };

  // `bus_id`: of PCI, as the driver spells it. kUnavailable: no NVML, or it does not know the
  // device.
  static absl::StatusOr<std::unique_ptr<Monitor>> Start(const std::string& bus_id);
  ~Monitor();

  Window Take();
  // The clocks are held down by heat or by the power supply, not merely by the power limit.
  bool throttled() const { return throttled_; }
  // Process ids of others that hold a compute context on the device; empty where the system does
  // not say.
  std::vector<unsigned> OtherProcesses() const;

 private:
  explicit Monitor(void* device) : device_(device) {}
  void Watch();
  void Read();

  void* const device_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> throttled_{false};
  std::mutex mutex_;
  Window window_;
  std::thread thread_;
};

}  // namespace kiln::worker::cuda

#endif  // KILN_WORKER_PROFILE_NVML_H_

// What the system says went wrong on a GPU: ECC errors and Xid events, by NVML, found at run time
// (libnvidia-ml.so.1 of the driver), and the kernel's log.
#ifndef KILN_WORKER_PROFILE_GPU_FAULTS_H_
#define KILN_WORKER_PROFILE_GPU_FAULTS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/profile/device_health.h"
#include "worker/profile/kernel_log.h"

namespace kiln::worker {

// Not thread-safe.
class GpuFaults {
 public:
  // Of the GPU at `bus_id` of PCI, as the driver spells it, from now on. kUnavailable: no NVML, or
  // it does not know the device.
  static absl::StatusOr<std::unique_ptr<GpuFaults>> Watch(const std::string& bus_id);
  ~GpuFaults();
  GpuFaults(const GpuFaults&) = delete;
  GpuFaults& operator=(const GpuFaults&) = delete;

  // What went wrong since it is watched, or since the last call: "Xid 79 (fallen off the bus), 2
  // uncorrected ECC errors". Of the device itself it is broken; else some program's on it.
  DeviceHealth Take();

 private:
  struct Fault {
    std::string what;
    bool hardware = false;  // the device's own
  };
  static Fault FaultOf(int xid);

  GpuFaults(void* device, std::string bus_id) : device_(device), bus_id_(std::move(bus_id)) {}
  void WatchEvents();
  void TakeErrorCounts(std::vector<Fault>* faults);

  void* const device_;
  const std::string bus_id_;
  void* events_ = nullptr;               // NVML's set; null: it has none
  std::unique_ptr<KernelLog> log_;       // null: not readable
  unsigned long long uncorrected_ = 0;   // volatile ECC errors
  unsigned remapped_ = 0, retired_ = 0;  // rows for uncorrected errors; pages waiting
};

// For a process that must not hang with a driver that does: asks `faults` in a thread of its own,
// and takes a driver that says nothing for so long for a device that is broken. The function is
// called from one thread at a time.
std::function<DeviceHealth()> WithinSeconds(double seconds, std::function<DeviceHealth()> faults);

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_GPU_FAULTS_H_

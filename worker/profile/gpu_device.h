// Runs kernels on one NVIDIA GPU through the driver, in this process.
//
// A sticky error (an illegal access, a trap) leaves the process without a usable context, and a
// kernel that does not come back cannot be stopped from within: the one ends the process with
// kDeviceLost, the other with kLaunchStopped (exit_codes.h), after one line on stderr that says
// what the driver said: the parent blames the candidate that was touched last and starts a fresh
// child. Where the device itself failed at that time (an Xid of its own, an uncorrected ECC error)
// it is kDeviceBroken: the parent blames no candidate, and measures no more on the device.
#ifndef KILN_WORKER_PROFILE_GPU_DEVICE_H_
#define KILN_WORKER_PROFILE_GPU_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kiln/v1/common.pb.h"
#include "worker/profile/device.h"

namespace kiln::worker {

struct GpuOptions {
  int ordinal = 0;                   // as the driver counts, within CUDA_VISIBLE_DEVICES
  bool records = true;               // time by CUPTI where it is there; else by events
  std::string scratch_dir = "/tmp";  // the canary's baseline is kept there too
  double drift = 0.03;               // of the canaries, that is none yet; 0 = no canary
};

// kUnavailable: no driver, no such device. What is missing beyond that (CUPTI, NVML) is done
// without, and Conditions() says so.
absl::StatusOr<std::unique_ptr<Device>> MakeGpuDevice(const GpuOptions& options);

// The record of GPU `ordinal`: the table's for its architecture, with the device's own model, SMs,
// clock, memory and cache. kUnavailable as above; kUnimplemented: no table has this architecture.
absl::StatusOr<v1::ArchRecord> GpuRecord(int ordinal);

// "0000:17:00.0": which one it is, whatever CUDA_VISIBLE_DEVICES calls it. kUnavailable as above.
absl::StatusOr<std::string> GpuBusId(int ordinal);

// How many GPUs the driver shows. kUnavailable as above.
absl::StatusOr<int> GpuCount();

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_GPU_DEVICE_H_

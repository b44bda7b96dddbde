// Runs kernels of the CPU target on this machine's cores, in this process.
#ifndef KILN_WORKER_PROFILE_HOST_DEVICE_H_
#define KILN_WORKER_PROFILE_HOST_DEVICE_H_

#include <memory>

#include "worker/profile/device.h"

namespace kiln::worker {

// `cache_bytes`: of the last-level cache; 0 = ask the operating system. `scratch_dir`: where shared
// objects are put when the system has no memory files.
std::unique_ptr<Device> MakeHostDevice(int64_t cache_bytes, const std::string& scratch_dir);

// Of this host's record (compiler/target/host_arch.h): what the system says, else what is usual for
// such a processor.
int64_t LastLevelCacheBytes();

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_HOST_DEVICE_H_

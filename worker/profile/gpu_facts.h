// What a GPU's times depend on beyond its model: memory, power limit, driver. By NVML, found at run
// time (libnvidia-ml.so.1 of the driver).
#ifndef KILN_WORKER_PROFILE_GPU_FACTS_H_
#define KILN_WORKER_PROFILE_GPU_FACTS_H_

#include "kiln/v1/common.pb.h"

namespace kiln::worker {

// Fills in memory_bytes, power_watts (the enforced limit) and driver of GPU `ordinal`, as the
// driver counts. What nobody says stays as it is: 0 and empty mean unknown.
void AddGpuFacts(int ordinal, v1::ArchRecord* record);

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_GPU_FACTS_H_

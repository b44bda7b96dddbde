// Kernel times by CUPTI's activity records: when each kernel began and ended on the device, in
// nanoseconds, without the host's part in it. libcupti is found at run time; the one file that
// knows its interface is cupti.cc.
#ifndef KILN_WORKER_PROFILE_CUPTI_H_
#define KILN_WORKER_PROFILE_CUPTI_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kiln::worker::cuda {

// The handle of libcupti (dlopen). kUnavailable, with what to do, when there is none.
absl::StatusOr<void*> OpenCupti();

// One execution of a kernel. Times are of CUPTI's clock (KernelTimes::Now).
struct KernelRecord {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  uint32_t correlation = 0;  // rises with the order of launches
  uint16_t registers = 0;    // of a thread
};

// Recording is on for the life of the process once it was started: records are registered before
// any context exists, as CUPTI asks. Thread-compatible.
class KernelTimes {
 public:
  // Call before the first context is made. kUnavailable, with what to do, when there is no CUPTI or
  // it does not work here (another profiler is attached, a driver that it does not know).
  static absl::StatusOr<KernelTimes*> Start();

  uint64_t Now() const;
  // The records of kernels that began at `since` or later, in the order of their launches, of
  // streams that have been synchronised; older ones are dropped. kUnavailable: CUPTI failed, lost
  // records since the last call, or gave one without sensible times; which launches they were of is
  // not known then.
  absl::StatusOr<std::vector<KernelRecord>> Take(uint64_t since);
  // "CUPTI 13.0".
  const std::string& version() const { return version_; }

 private:
  KernelTimes() = default;
  absl::Status Load();

  std::string version_;
};

}  // namespace kiln::worker::cuda

#endif  // KILN_WORKER_PROFILE_CUPTI_H_

// Hardware counters of launches by CUPTI's range profiler: bytes moved, how busy the pipes were,
// what warps waited for. libcupti is found at run time; the one file that knows this interface is
// counters.cc.
//
// A handful of counters fit the hardware at once, so that a launch is repeated for each set of them
// (a pass). Whatever goes wrong here costs the counters and nothing else: times are taken apart
// from this, before it.
#ifndef KILN_WORKER_PROFILE_COUNTERS_H_
#define KILN_WORKER_PROFILE_COUNTERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kiln::worker::cuda {

// What is counted, by Kiln's names.
//   dram_read_bytes, dram_write_bytes, l2_bytes, shared_bytes   of all launches in the range
//   shared_conflicts          wavefronts of shared memory that bank conflicts added
//   tensor_percent, issue_percent                               of the peak, over the whole range
//   occupancy_percent         warps that are resident, of those that an SM can hold
//   stall_<reason>            warps that wait for it, for each instruction that is issued
using CounterValues = std::map<std::string, double>;

class Counters {
 public:
  // The context of GPU `ordinal` must be current. kUnavailable, with what to do: no CUPTI, one
  // without a range profiler (before 12.6), or a chip that it does not know.
  static absl::StatusOr<std::unique_ptr<Counters>> Open(int ordinal);
  ~Counters();
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

  // Calls `launch` once a pass, with the number of the pass; it must start the same kernels each
  // time and come back when they have ended. kPermissionDenied, with what to do, where counters are
  // for administrators alone.
  absl::StatusOr<CounterValues> Count(const std::function<absl::Status(int pass)>& launch);

 private:
  Counters() = default;
  absl::Status Configure(int ordinal);
  absl::Status Arm(void* profiler, std::vector<uint8_t>* data);
  absl::Status RunPasses(void* profiler, const std::function<absl::Status(int)>& launch);
  absl::StatusOr<CounterValues> Evaluate(const std::vector<uint8_t>& data);

  void* host_ = nullptr;
  std::vector<uint8_t> config_;
  std::vector<size_t> taken_;         // those of the table that this chip has
  std::vector<const char*> metrics_;  // their names in CUPTI
};

}  // namespace kiln::worker::cuda

#endif  // KILN_WORKER_PROFILE_COUNTERS_H_

// Which core measures for which GPU, and where the rest of the worker and its compilers run.
#ifndef KILN_WORKER_CORES_H_
#define KILN_WORKER_CORES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kiln::worker {

struct QuietCores {
  std::vector<int> measuring;  // one for each GPU; empty: no core is kept quiet
  std::vector<int> others;     // without the measuring ones and those that share a core with them
  std::string notes;           // what was done, for the log; empty when there is nothing to say
};

// `wanted`: "auto": one core a GPU, near it where the system tells which are; none when fewer than
// two or not more than there are GPUs would be left. "off": none. "7,15": these, in the order of
// the GPUs. `places`: of the GPUs, "0000:17:00.0", or "" where that is unknown. `allowed`: the
// cores there are. `system` has the kernel's tree. kInvalidArgument: cores that are not there, are
// too few or leave none.
absl::StatusOr<QuietCores> PlanCores(const std::string& wanted,
                                     const std::vector<std::string>& places,
                                     const std::vector<int>& allowed,
                                     const std::string& system = "/sys");

}  // namespace kiln::worker

#endif  // KILN_WORKER_CORES_H_

// Which devices this worker measures on. The agent opens no driver: it asks kiln-runner.
#ifndef KILN_WORKER_DEVICES_H_
#define KILN_WORKER_DEVICES_H_

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kiln::worker {

struct Devices {
  std::vector<std::string> names;        // "cpu" alone, or GPUs: "gpu0", "gpu1"
  std::string notes;                     // why it is not more; empty when there is nothing to say
  std::vector<std::string> kinds = {};   // of each GPU: "sm_90a NVIDIA H200"
  std::vector<std::string> places = {};  // on the bus: "0000:17:00.0"; empty = unknown
  bool gpus() const { return names.front() != "cpu"; }
  // How many kinds the first `count` are of.
  size_t models(size_t count) const {
    count = std::min(count, kinds.size());
    return std::set<std::string>(kinds.begin(), kinds.begin() + static_cast<ptrdiff_t>(count))
        .size();
  }
};

// Of `wanted` below, before any driver is asked. kInvalidArgument: nothing that a device is called.
absl::Status CheckDevices(const std::string& wanted);

// `wanted`: "cpu"; GPUs, "gpu0,gpu2"; "gpu", all GPUs; or "auto", the same, but the CPU where there
// is none. kInvalidArgument: no such device. kUnavailable: no GPU at all; the message says why.
absl::StatusOr<Devices> ChooseDevices(const std::string& wanted, const std::string& runner_binary);

}  // namespace kiln::worker

#endif  // KILN_WORKER_DEVICES_H_

// Which devices this worker measures on. The agent opens no driver: it asks kiln-runner.
#ifndef KILN_WORKER_DEVICES_H_
#define KILN_WORKER_DEVICES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kiln::worker {

struct Devices {
  std::vector<std::string> names;  // "cpu" alone, or GPUs of one model: "gpu0", "gpu1"
  std::string notes;               // why it is not more; empty when there is nothing to say
  bool gpus() const { return names.front() != "cpu"; }
};

// `wanted`: "cpu"; GPUs, "gpu0,gpu2"; "gpu", all GPUs of the first one's model; or "auto", the
// same, but the CPU where there is none. kInvalidArgument: no such device, or GPUs of several
// models (each model needs a worker of its own). kUnavailable: no GPU at all; the message says why.
absl::StatusOr<Devices> ChooseDevices(const std::string& wanted, const std::string& runner_binary);

}  // namespace kiln::worker

#endif  // KILN_WORKER_DEVICES_H_

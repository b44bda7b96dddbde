// The seam to what knows the right numbers: the interpreter (interp_reference.h), or a function in
// tests.
#ifndef KILN_WORKER_PROFILE_REFERENCE_H_
#define KILN_WORKER_PROFILE_REFERENCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/v1/work.pb.h"
#include "worker/profile/manifest.h"

namespace kiln::worker {

struct ReferenceValue {
  double value = 0;
  bool written = true;  // false: the kernel leaves this element as it is
};

// The numbers of one program. Not thread-safe.
class Reference {
 public:
  virtual ~Reference() = default;
  // The values of `elements` (logical flat indices) of output `tensor`, in order, when all inputs
  // hold the seeded numbers of tensors.h. kInvalidArgument: the program itself is wrong (reads
  // outside a tensor, reads what nobody wrote, races); the message says where.
  virtual absl::StatusOr<std::vector<ReferenceValue>> Evaluate(
      uint64_t seed, int tensor, const std::vector<int64_t>& elements) = 0;
};

// Makes the reference of one config. Called only when numbers are needed that no earlier config of
// the same inputs has computed.
using ReferenceFactory = std::function<absl::StatusOr<std::unique_ptr<Reference>>(
    const v1::SweepInputs& inputs, const std::string& config, const BoundManifest& manifest)>;

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_REFERENCE_H_

// The interpreter as the reference: the tile-level program of one config, run in float64 on the
// blocks that contribute to the elements asked for.
#ifndef KILN_WORKER_PROFILE_INTERP_REFERENCE_H_
#define KILN_WORKER_PROFILE_INTERP_REFERENCE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/profile/reference.h"

namespace kiln::worker {

// A ReferenceFactory. The error is the elaboration's diagnostic, or says how the artifact's
// parameters differ from the program's.
absl::StatusOr<std::unique_ptr<Reference>> MakeInterpReference(const v1::SweepInputs& inputs,
                                                               const std::string& config,
                                                               const BoundManifest& manifest);

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_INTERP_REFERENCE_H_

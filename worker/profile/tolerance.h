// How far an output's numbers may be from the reference's.
#ifndef KILN_WORKER_PROFILE_TOLERANCE_H_
#define KILN_WORKER_PROFILE_TOLERANCE_H_

#include <cstdint>

#include "kiln/v1/common.pb.h"
#include "worker/profile/manifest.h"
#include "worker/profile/scan.h"

namespace kiln::worker {

// By the storage type of the output, the coarsest float type of any tensor, the length of the
// reduction behind one element, and `scale`, the root mean square of the expected values; the
// policy's own numbers where they are set.
//   rtol = 4 eps(output) + 2 eps(coarsest)                 rounding of the result and on the way
//   atol = scale * (4 eps(float32) sqrt(length) + eps(coarsest))   accumulation in another order
// Of an output whose sums the manifest says are kept in a coarser type, in place of the first term
// eps(that type) sqrt(its roundings), where that is more: each rounding errs by a uniform part of
// half an eps of what is summed so far, which is a seventh of this for all of them.
// The errors of a sum of random terms grow like the sum itself times sqrt(length): a missing term
// stands out by far. Integer outputs must be equal.
Tolerance ToleranceFor(const TensorShape& output, const BoundManifest& manifest,
                       const v1::CheckPolicy& policy, double scale);

// Of sums in a coarse type, as a part of what is summed, `length` terms an element; 0 of others.
double ErrorOf(const ManifestSums& sums, int64_t length);

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_TOLERANCE_H_

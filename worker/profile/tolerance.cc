#include "worker/profile/tolerance.h"

#include <algorithm>
#include <cmath>

namespace kiln::worker {

double ErrorOf(const ManifestSums& sums, int64_t length) {
  if (!sums.type.has_value()) return 0;
  const int64_t roundings = std::max<int64_t>(sums.roundings > 0 ? sums.roundings : length, 1);
  return EpsilonOf(*sums.type) * std::sqrt(static_cast<double>(roundings));
}

Tolerance ToleranceFor(const TensorShape& output, const BoundManifest& manifest,
                       const v1::CheckPolicy& policy, double scale) {
  Tolerance tolerance;
  if (output.type.is_float()) {
    double coarsest = 0;
    for (const TensorShape& tensor : manifest.tensors) {
      coarsest = std::max(coarsest, EpsilonOf(tensor.type));
    }
    double accumulator = output.type == kFloat64 ? EpsilonOf(kFloat64) : EpsilonOf(kFloat32);
    const auto length = static_cast<double>(std::max<int64_t>(manifest.reduction_length, 1));
    const double sums = std::max(4 * accumulator * std::sqrt(length),
                                 ErrorOf(output.sums, manifest.reduction_length));
    tolerance.rtol = 4 * EpsilonOf(output.type) + 2 * coarsest;
    tolerance.atol = scale * (sums + coarsest);
  }
  if (policy.rtol() > 0) tolerance.rtol = policy.rtol();
  if (policy.atol() > 0) tolerance.atol = policy.atol();
  return tolerance;
}

}  // namespace kiln::worker

// Passes over whole outputs, which have tens of millions of elements: all threads, and a quick look
// at a stretch before anything is decided about its elements.
#ifndef KILN_WORKER_PROFILE_SCAN_H_
#define KILN_WORKER_PROFILE_SCAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "worker/profile/host_memory.h"
#include "worker/profile/manifest.h"

namespace kiln::worker {

struct Tolerance {
  double rtol = 0;
  double atol = 0;
  bool Accepts(double got, double expected) const;
};

// The number of logical element `flat` in a tensor's memory.
double ElementAt(const TensorShape& shape, const Bytes& bytes, int64_t flat);

// All elements whose every byte is `poison`, ascending. `bytes` is TensorShape::bytes() long.
std::vector<int64_t> PoisonedElements(const TensorShape& shape, const Bytes& bytes, uint8_t poison);

// The first `limit` NaNs that are not in `known` (ascending).
std::vector<int64_t> FindNaNs(const TensorShape& shape, const Bytes& bytes,
                              const std::vector<int64_t>& known, size_t limit);

// The first `limit` elements of `bytes` that `tolerance` does not accept for those of `peer`.
std::vector<int64_t> FindDifferences(const TensorShape& shape, const Bytes& bytes,
                                     const Bytes& peer, const Tolerance& tolerance, size_t limit);

// The sum of elements [first, first + factors.size()), each times its factor; NaN if one of them is
// infinite or none.
double WeightedSum(const TensorShape& shape, const Bytes& bytes, int64_t first,
                   absl::Span<const double> factors);

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_SCAN_H_

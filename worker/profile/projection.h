// Random projections of matrix products (R. Freivalds, "Probabilistic machines can use less running
// time", IFIP 1977): every element of an output for little more than reading its operands once.
// Columns get random factors x, of both signs and sizes of 1/2 to 3/2; the sums along each row of
// C, a stretch of columns each, must be A (B x).
//
// Sums are off by what rounding adds up to. How much that is, is judged by the sums themselves; the
// elements behind one that is off by far more, or by as much as a single wrong element makes, are
// suspects, no more: who asks compares them.
#ifndef KILN_WORKER_PROFILE_PROJECTION_H_
#define KILN_WORKER_PROFILE_PROJECTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "worker/profile/formula.h"
#include "worker/profile/manifest.h"
#include "worker/profile/scan.h"

namespace kiln::worker {

struct Projection {
  int64_t width = 0;  // columns of a sum
  // Elements (logical flat indices) of the sums that are off, the worst sum first.
  std::vector<std::vector<int64_t>> suspects;
  // No sum that is not suspected hides a single element that is off by `scale`. False where
  // rounding alone is as much, as of an output of float8.
  bool whole = false;
  // The standard deviation of the sums' errors, by their median, an element; 0: most of them have
  // none, as those of integers.
  double spread = 0;
  double worst = 0;     // error of a sum, as a multiple of `spread`; where that is 0, the error
  int64_t inexact = 0;  // sums that are off at all

  // "sums of 1024 elements with random factors, the worst off by 4.4 sigma"; "..., all exact".
  std::string ToString() const;
};

// `formula.projects()`. `tolerance` is that of one element and `scale` their root mean square:
// errors that are not within it on the average are never taken for rounding. At most `limit` sums
// are suspected. Deterministic in its arguments.
Projection ProjectOutput(const Formula& formula, uint64_t seed, const TensorShape& shape,
                         const Bytes& bytes, const Tolerance& tolerance, double scale,
                         size_t limit);

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_PROJECTION_H_

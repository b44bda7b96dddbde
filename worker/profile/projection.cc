#include "worker/profile/projection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_format.h"
#include "compiler/base/int_math.h"
#include "compiler/base/rng.h"
#include "worker/profile/parallel.h"
#include "worker/profile/stats.h"

namespace kiln::worker {
namespace {

constexpr int64_t kWidth = 1024;
constexpr double kMostSums = 1 << 20;  // more are wider
constexpr double kLeastFactor = 0.5;
// Of a normal distribution one of 5e8 is beyond.
constexpr double kSuspicious = 6;
constexpr double kMedianOfNormal = 0.6745;  // of the errors' sizes, in standard deviations

// Of 128 values with sizes around 1, so that columns that changed places show, and exact in sums of
// integers.
std::vector<double> RandomFactors(uint64_t seed, int64_t count) {
  Rng random(seed ^ 0x70726f6a65637473ULL);
  std::vector<double> factors(static_cast<size_t>(count));
  for (double& factor : factors) {
    const double sign = random.Below(2) == 0 ? -1 : 1;
    factor = sign * (kLeastFactor + static_cast<double>(random.Below(64)) / 64);
  }
  return factors;
}

int64_t WidthFor(const Formula& formula) {
  int64_t width = kWidth;
  const auto rows = static_cast<double>(formula.planes() * formula.rows());
  while (width < formula.columns() &&
         rows * std::ceil(static_cast<double>(formula.columns()) / static_cast<double>(width)) >
             kMostSums) {
    width *= 2;
  }
  return std::min(width, formula.columns());
}

}  // namespace

std::string Projection::ToString() const {
  const std::string sums = absl::StrFormat("sums of %d elements with random factors", width);
  if (spread > 0) return absl::StrFormat("%s, the worst off by %.1f sigma", sums, worst);
  if (inexact == 0) return sums + ", all exact";
  return absl::StrFormat("%s, %d of them off, by %.3g at most, and the others exact", sums, inexact,
                         worst);
}

Projection ProjectOutput(const Formula& formula, uint64_t seed, const TensorShape& shape,
                         const Bytes& bytes, const Tolerance& tolerance, double scale,
                         size_t limit) {
  Projection found;
  found.width = WidthFor(formula);
  const int64_t columns = formula.columns(), rows = formula.rows();
  const int64_t stretches = CeilDiv(columns, found.width);
  const std::vector<double> factors = RandomFactors(seed, columns);
  std::vector<double> errors = formula.Project(seed, factors, found.width);
  ParallelTasks(formula.planes() * rows, [&](int64_t row) {
    const int64_t first = formula.FlatIndex(row / rows, row % rows, 0);
    for (int64_t s = 0; s < stretches; ++s) {
      const int64_t column = s * found.width, count = std::min(found.width, columns - column);
      const double got = WeightedSum(shape, bytes, first + column,
                                     absl::MakeConstSpan(factors).subspan(
                                         static_cast<size_t>(column), static_cast<size_t>(count)));
      double& error = errors[static_cast<size_t>(row * stretches + s)];
      error = std::abs(got - error) / std::sqrt(static_cast<double>(count));
      if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    }
  });
  found.spread =
      std::min(Median(errors) / kMedianOfNormal, tolerance.atol + tolerance.rtol * scale);
  // What a single wrong element of the usual size makes at least.
  const double shows = kLeastFactor * scale / std::sqrt(static_cast<double>(found.width));
  const double suspicious = std::min(kSuspicious * found.spread, shows);
  std::vector<size_t> off;
  size_t hidden = 0;
  for (size_t i = 0; i < errors.size(); ++i) {
    if (errors[i] > suspicious) off.push_back(i);
    if (errors[i] > shows) ++hidden;
    if (errors[i] > 0) ++found.inexact;
    found.worst = std::max(found.worst, errors[i]);
  }
  if (found.spread > 0) found.worst /= found.spread;
  found.whole = hidden <= limit;
  const auto kept = off.begin() + static_cast<int64_t>(std::min(off.size(), limit));
  std::partial_sort(off.begin(), kept, off.end(),
                    [&](size_t a, size_t b) { return errors[a] > errors[b]; });
  off.erase(kept, off.end());
  for (const size_t i : off) {
    const auto row = static_cast<int64_t>(i) / stretches;
    const int64_t column = static_cast<int64_t>(i) % stretches * found.width;
    std::vector<int64_t>& elements =
        found.suspects.emplace_back(static_cast<size_t>(std::min(found.width, columns - column)));
    std::iota(elements.begin(), elements.end(), formula.FlatIndex(row / rows, row % rows, column));
  }
  return found;
}

}  // namespace kiln::worker

// The points of a box of integers.
#ifndef KILN_COMPILER_PASSES_POINTS_H_
#define KILN_COMPILER_PASSES_POINTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "compiler/base/status.h"

namespace kiln::passes {

// body(point) for [mins, mins + extents) in row-major order, until it fails.
template <typename F>
absl::Status ForEachPoint(const std::vector<int64_t>& mins, const std::vector<int64_t>& extents,
                          const F& body) {
  for (const int64_t e : extents) {
    if (e <= 0) return absl::OkStatus();
  }
  std::vector<int64_t> at = mins;
  while (true) {
    KILN_RETURN_IF_ERROR(body(at));
    size_t d = extents.size();
    while (d > 0 && ++at[d - 1] == mins[d - 1] + extents[d - 1]) {
      at[d - 1] = mins[d - 1];
      --d;
    }
    if (d == 0) return absl::OkStatus();
  }
}

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_POINTS_H_

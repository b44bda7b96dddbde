// Sub-tiles.
#ifndef KILN_COMPILER_LAYOUT_SLICE_H_
#define KILN_COMPILER_LAYOUT_SLICE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/layout/layout.h"

namespace kiln::layout {

// [begin, begin + extent) of one dimension.
struct Interval {
  int64_t begin = 0;
  int64_t extent = 1;
};

// The layout of the region of a tile of logical shape `shape`, row-major over the region's extents.
// Exact for any offset, also under a swizzle (which is applied last). Refused exactly when the
// region is not mixed radix, e.g. [6, 10) across digits of 8 that do not continue each other; the
// witness is the element of the region (flat index in the region) that does not fit. Keep such a
// region as (parent, begin, extents) or as a Table. Cost: the sum of the region's extents.
absl::StatusOr<Layout> Slice(const Layout& layout, absl::Span<const int64_t> shape,
                             absl::Span<const Interval> region);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_SLICE_H_

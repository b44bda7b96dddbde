// Changing what one step of an axis means, and how many copies there are.
#ifndef KILN_COMPILER_LAYOUT_PACK_H_
#define KILN_COMPILER_LAYOUT_PACK_H_

#include "absl/status/statusor.h"
#include "compiler/layout/layout.h"

namespace kiln::layout {

// The layout in units n times smaller: strides, copies and offset on m times n, and a last iter (n,
// 1). A swizzle on m gets log2(n) more untouched bits, so n is a power of two then.
absl::StatusOr<Layout> Unpack(const Layout& layout, int64_t n);

// The opposite: groups of n consecutive elements become one. Refused, with the elements that are
// not neighbours or not aligned, unless they lie in n consecutive addresses of m from a multiple of
// n.
absl::StatusOr<Layout> Pack(const Layout& layout, int64_t n);

// Without the thread, grid and cluster axes: what one thread stores. Iters, copies and offsets on
// them go, so the size shrinks by their extents.
absl::StatusOr<Layout> Storage(const Layout& layout);

// Without the iters' movement on other axes than `keep`: the same elements, seen from those axes
// alone (the threads that own each element, say). The size stays; copies that no longer differ go.
absl::StatusOr<Layout> Project(const Layout& layout, absl::Span<const Axis> keep);

// n copies of everything, `stride` apart on `axis`.
absl::StatusOr<Layout> Replicate(const Layout& layout, int64_t n, Axis axis, int64_t stride);

// The same set of points for every element with as few copies as a grid can have: copies that
// coincide go, iters that continue each other merge. Copy 0 and with it Base() stay.
Layout Condense(const Layout& layout);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_PACK_H_

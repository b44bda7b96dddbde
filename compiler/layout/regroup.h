// Reshaping the digit list of a layout without changing its function: splitting iters at the
// boundaries of logical shapes.
#ifndef KILN_COMPILER_LAYOUT_REGROUP_H_
#define KILN_COMPILER_LAYOUT_REGROUP_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/layout/layout.h"

namespace kiln::layout {

// A layout whose logical dimension d owns the shard iters [separators[d], separators[d + 1]).
struct Grouped {
  Layout layout;
  std::vector<int> separators;

  std::vector<Iter> group(size_t d) const {
    return {layout.shard().begin() + separators[d], layout.shard().begin() + separators[d + 1]};
  }
};

// The iters split so that every dimension of `shape` owns whole iters. Exact: refused only when the
// function is not a sum of one function a dimension; the witness is an element at which it is not.
// InvalidArgument when the element counts differ.
absl::StatusOr<Grouped> Group(const Layout& layout, absl::Span<const int64_t> shape);

// The smallest split that serves all shapes at once, with the separators of each. A dimension of
// extent 1 gets a unit iter of its own (an existing one is kept with its stride).
struct GroupedMany {
  Layout layout;
  std::vector<std::vector<int>> separators;
};
absl::StatusOr<GroupedMany> GroupMany(const Layout& layout,
                                      absl::Span<const std::vector<int64_t>> shapes);

// Both layouts, of one size, with the same extents iter by iter (unit iters dropped): digit k of
// one is digit k of the other. Refused when a boundary of one cuts a digit of the other unevenly.
absl::StatusOr<std::pair<Layout, Layout>> Refine(const Layout& a, const Layout& b);

// The layout of the transposed tile: dimension d of the result is dimension perm[d] of `shape`.
absl::StatusOr<Layout> Permute(const Layout& layout, absl::Span<const int64_t> shape,
                               absl::Span<const int> perm);

// A new dimension of extent n before dimension `position` of `shape` along which nothing moves
// (stride 0 on `axis`).
absl::StatusOr<Layout> Broadcast(const Layout& layout, absl::Span<const int64_t> shape, int64_t n,
                                 size_t position, Axis axis = Axis::kM);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_REGROUP_H_

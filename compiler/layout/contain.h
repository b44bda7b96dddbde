// Comparing two layouts of one size, element by element: same points, same sets, owners inside
// owners.
//
// Exact. Where the digits of both have a common refinement the question is settled on the digits:
// equal strides cancel, the rest form a small set of shifts. Otherwise, and where the swizzles
// differ, every element is looked at.
#ifndef KILN_COMPILER_LAYOUT_CONTAIN_H_
#define KILN_COMPILER_LAYOUT_CONTAIN_H_

#include <optional>

#include "absl/types/span.h"
#include "compiler/layout/layout.h"

namespace kiln::layout {

// nullopt when both have the same base point for every element and the same copies (as a multiset
// of shifts). Otherwise an element with its two places; layouts of different size give element -1.
std::optional<Witness> FindDifference(const Layout& a, const Layout& b);
inline bool SameFunction(const Layout& a, const Layout& b) { return !FindDifference(a, b); }

// nullopt when small(x) is a subset of big(x) for every element x: whoever holds x under `small`
// holds it under `big`. Otherwise an element and a point of small(x) that big(x) lacks (`at`;
// `other_at` is big's base point).
std::optional<Witness> FindNotContained(const Layout& small, const Layout& big);
inline bool Contains(const Layout& big, const Layout& small) {
  return !FindNotContained(small, big);
}
inline bool SameSet(const Layout& a, const Layout& b) { return Contains(a, b) && Contains(b, a); }

// How the sets relate over all elements: equal everywhere; a(x) always inside b(x); the other way;
// never a common point; anything else.
enum class Relation : uint8_t { kEqual, kSubset, kSuperset, kOverlap, kDisjoint };
// Both seen from the axes `on` alone (the threads that own an element); all axes when empty.
// InvalidArgument for layouts of different size.
absl::StatusOr<Relation> Compare(const Layout& a, const Layout& b, absl::Span<const Axis> on = {});

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_CONTAIN_H_

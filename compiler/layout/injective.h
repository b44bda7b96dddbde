// Injectivity: do two (element, copy) pairs land on one point?
//
// Every digit moves one axis, so the image is a product over the axes and the question splits by
// axis: a collision on an axis is a nonzero difference vector d with |d_k| < extent_k and sum d_k
// stride_k = 0. It is searched digit by digit from the largest stride, cut off where the remaining
// digits cannot reach zero; strides in superincreasing order leave one branch. Swizzles are
// bijections and do not matter. No table, no limit on the number of elements.
#ifndef KILN_COMPILER_LAYOUT_INJECTIVE_H_
#define KILN_COMPILER_LAYOUT_INJECTIVE_H_

#include <optional>

#include "absl/status/statusor.h"
#include "compiler/layout/layout.h"

namespace kiln::layout {

// Two different (element, copy) pairs on one point; `element` and `other` may be equal when copies
// of one element coincide.
struct Collision {
  int64_t element = 0, copy = 0;
  int64_t other = 0, other_copy = 0;
  Coord at;
  Witness ToWitness() const;
};

// nullopt exactly when the layout is injective on elements x copies. ResourceExhausted after 2^24
// steps or 2^20 remembered sums, which takes strides chosen to be hard (a subset-sum problem).
absl::StatusOr<std::optional<Collision>> SearchCollision(const Layout& layout);

// The same for layouts that are not hostile: KILN_CHECKs that the search ends.
std::optional<Collision> FindCollision(const Layout& layout);
inline bool IsInjective(const Layout& layout) { return !FindCollision(layout).has_value(); }

// The same question for elements only: two different elements whose point sets meet.
std::optional<Collision> FindSharedPoint(const Layout& layout);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_INJECTIVE_H_

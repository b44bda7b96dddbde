// Composition: a layout of indices followed by a layout of places.
#ifndef KILN_COMPILER_LAYOUT_COMPOSE_H_
#define KILN_COMPILER_LAYOUT_COMPOSE_H_

#include "absl/status/statusor.h"
#include "compiler/layout/layout.h"

namespace kiln::layout {

// (outer o index)(x) = outer(index(x)): `index` has no copies and only the axis m, whose values are
// flat indices of `outer` (InvalidArgument when one is outside [0, outer.size())). Symbolic where
// the index digits add up without a carry in the outer digits; through a table otherwise, and then
// refused exactly when the composition is not a Layout.
absl::StatusOr<Layout> Compose(const Layout& outer, const Layout& index);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_COMPOSE_H_

// Carver's rule on a user's kernel: its graph from the demand, its hints as configs of the space.
// Private to this folder.
#ifndef KILN_COMPILER_ROOFLINE_CARVER_BIND_H_
#define KILN_COMPILER_ROOFLINE_CARVER_BIND_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/roofline/carver.h"
#include "compiler/roofline/demand.h"
#include "compiler/roofline/priced_space.h"
#include "compiler/roofline/recommend.h"

namespace kiln::roofline {

// The one reduction node that the kernel is. kUnimplemented when the rule has no template for it:
// more than one gemm or reduction, or a tensor dimension that no loop of the kernel tiles.
absl::StatusOr<CarverNode> CarverNodeOf(const Demand& demand);

// Fills out.ranked with the rule's own list, in its order: those hints that are legal configs of
// the space; the others are counted in a note.
absl::Status ListCarver(const Request& request, const PricedSpace& space, Recommendation& out);

}  // namespace kiln::roofline

#endif  // KILN_COMPILER_ROOFLINE_CARVER_BIND_H_

#ifndef KILN_COMPILER_PASSES_APPLY_LAYOUTS_H_
#define KILN_COMPILER_PASSES_APPLY_LAYOUTS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// Maps the logical indices of buffers with a layout to their storage. "panels:w" turns [K,N] into
// [N/w][K][w]; the text of a layout on m gives every element its place in one dimension. Needs:
// vector accesses that do not cross a panel (lanes divide w and the first lane is a multiple of the
// lanes), PairGemms whose B is inside one, and no vector access of the other kind; guarantees: no
// buffer has a layout. kInternal when an access is not so.
absl::StatusOr<ir::Program> ApplyLayouts(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_APPLY_LAYOUTS_H_

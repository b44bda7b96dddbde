#ifndef KILN_COMPILER_PASSES_FORWARD_STORES_H_
#define KILN_COMPILER_PASSES_FORWARD_STORES_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// Writes a block's result where it belongs in the loop that computes it. Where the last statement
// that touches an on-chip tile, before the Copy of the whole tile to a global tensor, is a parallel
// loop that stores every element of the tile once, the loop stores to the tensor and the Copy goes:
// the stores then run beside the arithmetic. Holds for statements of a block's outermost level
// only, where the tile is dead after the Copy, and where nothing between loop and Copy touches the
// tensor or changes which part of it the Copy names. Needs guarded accesses; new ones are guarded.
absl::StatusOr<ir::Program> ForwardStores(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_FORWARD_STORES_H_

#ifndef KILN_COMPILER_PASSES_PREFETCH_TILES_H_
#define KILN_COMPILER_PASSES_PREFETCH_TILES_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// Keeps memory busy while a block computes. A block that first copies a tile in, then works on it,
// leaves memory idle meanwhile. Where a block's outermost level copies a whole small tile from a
// tensor, at a place that moves with the first block index, and a later parallel loop walks over
// the tile, that loop prefetches the element of the next block's tile that it reads of its own (the
// loop with the most arithmetic, when there are several). A prefetch reads nothing: results and
// guards are as before.
absl::StatusOr<ir::Program> PrefetchTiles(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_PREFETCH_TILES_H_

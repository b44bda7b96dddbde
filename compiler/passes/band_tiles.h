#ifndef KILN_COMPILER_PASSES_BAND_TILES_H_
#define KILN_COMPILER_PASSES_BAND_TILES_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// How tiles lie that TMA brings from a tensor which a launch reads once, and wgmma alone reads: all
// panels of eight rows together, so that one box has them all and asks for the bytes of a row one
// after the other. Panel by panel (layout::AtomOrder) a box a panel asks for 128 bytes of each row
// in turn, and memory, which such a launch waits for, gives fewer of them in the same time
// (tests/bench/gpu times both: "panels" of the decode products, which "kiln.bands": 0 asks for).
// Only of tensors beyond the second cache, or of copies with eviction_policy="evict_first", and
// where the tensor's map can say it: of known sizes, rows one after the other, whole bands and
// panels, three dimensions at most.
absl::StatusOr<ir::Program> BandTiles(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_BAND_TILES_H_

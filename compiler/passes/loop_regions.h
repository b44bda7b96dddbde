// Pass "loop-regions": copies, fills and atomic updates of regions of which only the run knows how
// large they are become parallel loops over elements. Where one side is a tile, the loop goes over
// all of the tile and leaves out what is not in the region, so that a fragment's elements are named
// by constants; between tensors it has the region's extents, which cut-loops turns into turns.
// Refuses reductions and scans of such regions, with their place.
#ifndef KILN_COMPILER_PASSES_LOOP_REGIONS_H_
#define KILN_COMPILER_PASSES_LOOP_REGIONS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> LoopRegions(const ir::Program& program, const PassContext& context);

// What is said of a reduction or scan at `loc` whose extent only the run knows.
absl::Status ExtentOfRunTime(const ir::Program& program, SourceLoc loc, const char* what);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_LOOP_REGIONS_H_

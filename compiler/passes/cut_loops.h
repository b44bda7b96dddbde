// Pass "cut-loops": a parallel loop of which only the run knows how many iterations there are
// becomes turns of a serial loop, each a parallel loop of one iteration a thread, of which those
// beyond the end do nothing. Of several such axes the last one is cut, the others become serial.
// Guarantees that every parallel loop has constant extents.
#ifndef KILN_COMPILER_PASSES_CUT_LOOPS_H_
#define KILN_COMPILER_PASSES_CUT_LOOPS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> CutLoops(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_CUT_LOOPS_H_

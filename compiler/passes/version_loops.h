// Pass "version-loops": a loop over threads whose accesses of memory carry guards becomes two
// versions: one without, for blocks that lie inside of everything that they touch, and the loop as
// it was, for those at an edge. Which one a block takes is asked once, for all its threads.
#ifndef KILN_COMPILER_PASSES_VERSION_LOOPS_H_
#define KILN_COMPILER_PASSES_VERSION_LOOPS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> VersionLoops(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_VERSION_LOOPS_H_

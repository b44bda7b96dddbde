// Pass "pipeline-copies": a T.Pipelined loop that no warps are specialised for fetches its tiles
// ahead. A tile of shared memory that a step copies from a tensor gets as many versions as the loop
// has stages; each step waits for its own copies (cp.async, PTX 9.7.9.25), starts those of the step
// that is so many minus one ahead, and computes:
//
//   copies of steps 0 .. stages - 2
//   for k: async_wait(tiles)(stages - 2); copies of step k + stages - 1; async_commit(); compute(k)
//
// A copy may stand under conditions (the blocks of a mask) and its place be looked up in memory
// (the pages of a table): those of the step ahead are asked for then. So neither may the loop write
// what they read, nor the launch the tensors; what uses the tile must stand in the same branch,
// after the copy; and the versions must fit the GPU's shared memory, or such tiles have one each.
// Nothing is fetched ahead in a loop that acquires what others have released (atomics with such an
// order).
#ifndef KILN_COMPILER_PASSES_PIPELINE_COPIES_H_
#define KILN_COMPILER_PASSES_PIPELINE_COPIES_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> PipelineCopies(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_PIPELINE_COPIES_H_

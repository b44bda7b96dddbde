// partition-loops: from a block to its threads. Infers layouts (place_launch.h); fragments become
// registers of threads, parallel loops become loops over threads in which each thread runs its own
// iterations, and what the block did once (a store outside of loops, one of several threads that
// run an iteration) is done by one thread. Reductions go through shared memory to whoever holds the
// result; a matrix product is computed element by element where its result is held.
//
// Needs copies and fills lowered to parallel loops (lower-copies). Guarantees that a thread touches
// no registers but its own, that every loop over threads ends with all of them, and that control
// flow between such loops is the same for all. Errors: those of CollectLayoutProblem and
// InferLayouts; Unimplemented for what has no thread-level form yet.
#ifndef KILN_COMPILER_PASSES_PARTITION_LOOPS_H_
#define KILN_COMPILER_PASSES_PARTITION_LOOPS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> PartitionLoops(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_PARTITION_LOOPS_H_

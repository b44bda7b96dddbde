// Operands of tile operations are brought to where the block's threads can work on them: what a
// reduction of shared memory folds, and what it folds into, to fragments; a matrix product's right
// operand from a fragment to shared memory, its left one where no instruction of the GPU takes it
// from registers, its result in shared memory to a fragment. Operands that are not K-major are
// turned first where turn_operands.h says so and a block's shared memory has room for the turned
// tiles.
#ifndef KILN_COMPILER_PASSES_STAGE_OPERANDS_H_
#define KILN_COMPILER_PASSES_STAGE_OPERANDS_H_

#include "compiler/layout/ownership.h"
#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> StageOperands(const ir::Program& program, const PassContext& context);

// Shared memory that the pass will ask for on behalf of the products in `s` of `program`, which
// `threads` do.
int64_t StagedOperandBytes(const ir::Program& program, const ir::Stmt& s,
                           layout::ThreadRange threads, const target::Arch& gpu);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_STAGE_OPERANDS_H_

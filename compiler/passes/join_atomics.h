// Pass "join-atomics": additions of one thread to neighbours in global memory, one after the other
// and under one condition, become one instruction (Instruction::kGlobalAdd) where the GPU has it
// for so many elements of the type, and so does an addition to one number of 16 bits. Others stay.
//
// Needs neighbours written out (unroll-lanes). Each addition is atomic by itself, before and after.
#ifndef KILN_COMPILER_PASSES_JOIN_ATOMICS_H_
#define KILN_COMPILER_PASSES_JOIN_ATOMICS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// Unimplemented (a diagnostic): an update of less than 8 bits, or of a bool.
absl::StatusOr<ir::Program> JoinAtomics(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_JOIN_ATOMICS_H_

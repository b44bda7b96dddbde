#ifndef KILN_COMPILER_PASSES_PLACE_GEMM_OPERANDS_H_
#define KILN_COMPILER_PASSES_PLACE_GEMM_OPERANDS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// Chooses the storage of the shared tiles that feed a Gemm on a CPU. A B tile [K,N] of two or more
// vectors a row gets the layout "panels:w" (column panels of w elements, w two vectors wide), so
// that a register tile streams it from consecutive lines; an A tile gets rows padded by one vector,
// so that the rows of a register tile do not share cache sets. Tiles stored in float16 or bfloat16
// that only copies, fills and Gemms touch are kept in float32 (exact, and the conversion is paid
// once), unless a copy or fill rounds to their type. Logical indices stay; apply-layouts maps them
// to storage. On a target with AMX, bfloat16 Gemms that it can run become PairGemms first
// (pair_operands.h).
absl::StatusOr<ir::Program> PlaceGemmOperands(const ir::Program& program,
                                              const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_PLACE_GEMM_OPERANDS_H_

// Pass "hold-sums": where the GPU has tensor memory (sm_100a), the result of matrix products lies
// there while a loop adds to it, and is loaded into its fragment once, after the loop; so what
// comes after, and who holds what, stays as it is. Each such fragment gets a buffer of
// ir::Scope::kTensor, of which products are tcgen05. What is cleared before the loop is cleared by
// the first product, any other start is stored there.
//
// Where something looks at the fragment between products (attention), each product is large enough
// (target::IsWorthTensorMemory) and all threads compute it, every one has its result there by
// itself:
//
//   T.gemm(p, v, o)   ->   copy p -> p_tile; copy o -> o_sums
//                          gemm p_tile @ v -> o_sums; copy o_sums -> o
//
// An operand in a fragment goes to a tile of shared memory for it, nothing is stored that the
// product clears.
//
// A fragment is left alone, and a note of the launch, "registers:<fragment>", says why, where the
// kernel says who holds it, another product reads it (ir/sums.h), or a product is too small to be
// awaited alone; where the table of instructions has no tcgen05 for one of them (target/legality.h)
// or a tile is not read as a whole; where tensor memory has too few columns left, of which sums of
// whole loops get theirs first. What is looked at, and products of operands in fragments, are left
// alone where a block's shared memory or registers have no room for it, or the rest of the block
// wants one of them held otherwise than it is loaded; what is left after that, if the rest wants
// one of it otherwise still. With "kiln.tcgen05": 0 nothing is held so.
#ifndef KILN_COMPILER_PASSES_HOLD_SUMS_H_
#define KILN_COMPILER_PASSES_HOLD_SUMS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

inline constexpr char kInRegisters[] = "registers:";  // of a launch's annotations

absl::StatusOr<ir::Program> HoldSums(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_HOLD_SUMS_H_

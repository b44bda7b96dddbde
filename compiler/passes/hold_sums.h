// Pass "hold-sums": where the GPU has tensor memory (sm_100a), the result of matrix products lies
// there while a loop adds to it, and is loaded into its fragment once, after the loop; so what
// comes after, and who holds what, stays as it is. Each such fragment gets a buffer of
// ir::Scope::kTensor, of which products are tcgen05. What is cleared before the loop is cleared by
// the first product, any other start is stored there.
//
// A fragment is left alone, and a note of the launch, "registers:<fragment>", says why, where
// something else looks at it between products, where the table of instructions has no tcgen05 for
// one of them (target/legality.h) or a tile is not read as a whole, where the kernel says who holds
// it, or another product reads it; and everywhere with "kiln.tcgen05": 0.
#ifndef KILN_COMPILER_PASSES_HOLD_SUMS_H_
#define KILN_COMPILER_PASSES_HOLD_SUMS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

inline constexpr char kInRegisters[] = "registers:";  // of a launch's annotations

absl::StatusOr<ir::Program> HoldSums(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_HOLD_SUMS_H_

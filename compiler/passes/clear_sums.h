// Pass "clear-sums": sums that are cleared before the loop whose products add to them are cleared
// by the first product instead, where wgmma does the products: that takes one predicate, and the
// clear an instruction a register. Left alone where the loop may not run, or where something else
// looks at the sums meanwhile (ir/sums.h).
//
// Sums of one step alone, which the loop clears once it has used them, for the next step's product,
// are cleared by every product, where threads have registers to let such steps overlap
// (passes/alternate_products):
//
//   T.clear(c); for k: T.gemm(a, b, c); use(c); T.clear(c)   ->   for k: T.gemm(..., True); use(c)
#ifndef KILN_COMPILER_PASSES_CLEAR_SUMS_H_
#define KILN_COMPILER_PASSES_CLEAR_SUMS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> ClearSums(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_CLEAR_SUMS_H_

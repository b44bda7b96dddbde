// Pass "lag-products": in a loop that waits for tiles which threads have copied and multiplies
// them with mma.sync, the product lags one step of the instruction behind the loads of its
// operands, over the barrier too: when a warp has met the others, it has something to multiply
// while its first loads of the new tile are on their way. What is left is multiplied after the
// loop. It takes registers for two steps of operands, and is done where there are that many beside
// all that is live, in tiles of four steps and more.
#ifndef KILN_COMPILER_PASSES_LAG_PRODUCTS_H_
#define KILN_COMPILER_PASSES_LAG_PRODUCTS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> LagProducts(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_LAG_PRODUCTS_H_

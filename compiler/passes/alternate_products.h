// Pass "alternate-products": in a loop that multiplies and then works on the result of that step
// alone (sums of float8 promoted to float32, blocks with scales of their own), the products of
// every other step get registers of their own, and each starts before the threads work on the one
// before it, so that tensor cores multiply meanwhile:
//
//   S = product(0)
//   for each two steps: T = product(k + 1); wait(S); work(S); S = product(k + 2); wait(T); work(T)
//   the last one or two steps
//
// For wgmma whose operands are tiles of shared memory with two versions at least, where the work
// writes neither of them and nobody looks at the result outside of the loop. It takes the registers
// of a second result, and is done where there are that many beside all that is live
// ("kiln.alternate": 0 leaves it out).
#ifndef KILN_COMPILER_PASSES_ALTERNATE_PRODUCTS_H_
#define KILN_COMPILER_PASSES_ALTERNATE_PRODUCTS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> AlternateProducts(const ir::Program& program,
                                              const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_ALTERNATE_PRODUCTS_H_

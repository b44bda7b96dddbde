// Pass "chain-products": in a loop that multiplies twice, where the first product's result is
// worked on and then multiplied (attention: scores, softmax, values), tensor cores multiply while
// threads work. The first product of the next step starts before the second one of this step, and
// both run beside each other; the work on its result goes on while the second product does (Shah et
// al., FlashAttention-3, section 3.2):
//
//   S = first(0); work(S)
//   for k: S = first(k + 1); O += P * V(k); wait(S); work(S); wait(O); P = ...
//   O += P * V(last)
//
// What touches the second product's sums or its left operand comes after the wait for them, the
// rest of the work before it; statements that cannot be parted so leave the loop as it is. Tiles,
// of which there must be two versions, are handed back one step later.
//
// For wgmma, whose second product takes P from registers, and for tcgen05 (passes/hold_sums), where
// P goes by way of shared memory and O by way of tensor memory: they are stored there once the
// product of the step before is over.
#ifndef KILN_COMPILER_PASSES_CHAIN_PRODUCTS_H_
#define KILN_COMPILER_PASSES_CHAIN_PRODUCTS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> ChainProducts(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_CHAIN_PRODUCTS_H_

// Pass "overlap-products": in a loop that does nothing but wait for tiles, multiply them and hand
// them back, the next product starts before the last is over: tensor cores do not wait for threads.
// Tiles, of which there must be two versions, are handed back one iteration later. What follows the
// loop waits for the last product.
//
// Of products in tensor memory one warp runs the whole loop: each is committed to the barriers that
// its tiles are handed back at, which then count one arrival, and the other threads wait for the
// last one only.
#ifndef KILN_COMPILER_PASSES_OVERLAP_PRODUCTS_H_
#define KILN_COMPILER_PASSES_OVERLAP_PRODUCTS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> OverlapProducts(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_OVERLAP_PRODUCTS_H_

// Pass "clear-sums": sums that are cleared before the loop whose products add to them are cleared
// by the first product instead, where wgmma does the products: that takes one predicate, and the
// clear an instruction a register. Left alone where the loop may not run, or where something else
// looks at the sums meanwhile (ir/sums.h).
#ifndef KILN_COMPILER_PASSES_CLEAR_SUMS_H_
#define KILN_COMPILER_PASSES_CLEAR_SUMS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> ClearSums(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_CLEAR_SUMS_H_

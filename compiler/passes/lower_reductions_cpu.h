#ifndef KILN_COMPILER_PASSES_LOWER_REDUCTIONS_CPU_H_
#define KILN_COMPILER_PASSES_LOWER_REDUCTIONS_CPU_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// Lowers each Reduce. Over the last dimension: four vector accumulators a row, folded once at the
// end; over another: a parallel loop over the kept elements with a serial loop inside. Accumulates
// in float32 (or the integer type) whatever the storage. Guarantees: no Reduce is left.
absl::StatusOr<ir::Program> LowerReductionsCpu(const ir::Program& program,
                                               const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_LOWER_REDUCTIONS_CPU_H_

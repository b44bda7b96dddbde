#ifndef KILN_COMPILER_PASSES_SIMPLIFY_H_
#define KILN_COMPILER_PASSES_SIMPLIFY_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// Folds what the ranges of loops and blocks prove: comparisons, min/max, floor division and modulo
// of linear forms, branches whose condition is known, loops of no or one iteration, empty
// statements. Semantics are unchanged; runs before and after lowering.
absl::StatusOr<ir::Program> Simplify(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_SIMPLIFY_H_

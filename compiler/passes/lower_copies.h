#ifndef KILN_COMPILER_PASSES_LOWER_COPIES_H_
#define KILN_COMPILER_PASSES_LOWER_COPIES_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// Lowers Copy, Fill and tile-form Atomic to parallel loops of element accesses, with the predicates
// that clip at the edges of global tensors (only those that the ranges do not prove). Guarantees:
// no tile operation is left.
absl::StatusOr<ir::Program> LowerCopies(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_LOWER_COPIES_H_

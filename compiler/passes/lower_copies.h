#ifndef KILN_COMPILER_PASSES_LOWER_COPIES_H_
#define KILN_COMPILER_PASSES_LOWER_COPIES_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// Lowers Copy, Fill and tile-form Atomic to parallel loops of element accesses, with the predicates
// that clip at the edges of global tensors (only those that the ranges do not prove). Guarantees:
// no tile operation is left.
absl::StatusOr<ir::Program> LowerCopies(const ir::Program& program, const PassContext& context);

// The same for the threads of a GPU: what goes to local tiles, of which each thread has its own,
// becomes serial loops that every thread runs, inside of parallel loops too.
absl::StatusOr<ir::Program> LowerCopiesGpu(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_LOWER_COPIES_H_

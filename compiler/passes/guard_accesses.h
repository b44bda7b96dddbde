#ifndef KILN_COMPILER_PASSES_GUARD_ACCESSES_H_
#define KILN_COMPILER_PASSES_GUARD_ACCESSES_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// Safe out-of-bounds access, the language's rule for global tensors: an element read outside reads
// as zero, an element write outside does not happen. Adds the predicate that is missing to every
// element Load, Store and Atomic of a global buffer whose indices are not proven inside, and turns
// negative constant indices into offsets from the end. Tile copies clip by themselves. With the
// pass option tl.disable_safe_memory_legalize the kernel answers for its elements' indices: no
// predicate is added, and what an access outside does is undefined.
absl::StatusOr<ir::Program> GuardAccesses(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_GUARD_ACCESSES_H_

#ifndef KILN_COMPILER_PASSES_CHECK_RESOURCES_H_
#define KILN_COMPILER_PASSES_CHECK_RESOURCES_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// Refuses a config that asks for more on-chip storage than the target gives a block
// (kResourceExhausted, with the bytes, the limit and the largest buffer), for more shared memory
// than a block of a GPU may have, as share-memory has placed it, or for a fragment of several times
// the registers that a thread of a GPU has; and more blocks than a GPU numbers (kInvalidArgument, a
// diagnostic). Changes nothing.
absl::StatusOr<ir::Program> CheckResources(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_CHECK_RESOURCES_H_

#ifndef KILN_COMPILER_PASSES_SERIALIZE_LOOPS_H_
#define KILN_COMPILER_PASSES_SERIALIZE_LOOPS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// Ends the loops that the CPU target gives no meaning of their own: a pipelined loop becomes serial
// (caches prefetch; num_stages buys nothing), an unrolled loop of a constant extent up to 64
// iterations is expanded and a longer one becomes serial. Guarantees: every For is serial.
absl::StatusOr<ir::Program> SerializeLoops(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_SERIALIZE_LOOPS_H_

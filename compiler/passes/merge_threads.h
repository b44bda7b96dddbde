// What some threads of a block do is done by the block: on a CPU one thread runs it all.
// Guarantees: no OnThreads is left.
#ifndef KILN_COMPILER_PASSES_MERGE_THREADS_H_
#define KILN_COMPILER_PASSES_MERGE_THREADS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> MergeThreads(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_MERGE_THREADS_H_

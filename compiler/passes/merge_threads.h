// What the threads of a block do is done by the block: on a CPU one thread runs it all. What some
// of them do it does once (OnThreads); what each of them does (loops over threads) it does for one
// after the other, and their registers become a tile with a row for each.
// Guarantees: no OnThreads, no loop over threads, no registers and no exchange between threads is
// left.
#ifndef KILN_COMPILER_PASSES_MERGE_THREADS_H_
#define KILN_COMPILER_PASSES_MERGE_THREADS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> MergeThreads(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_MERGE_THREADS_H_

#ifndef KILN_COMPILER_PASSES_STREAM_LOADS_H_
#define KILN_COMPILER_PASSES_STREAM_LOADS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// Finds the tensors of which a launch reads every element at most once, and which fill at least
// half of the last cache: what they bring there serves nobody, and would drive out what is used
// again, or must be written back. Not where as much is written: what is written then has to leave
// the cache anyway (measured: row kernels lose 3 to 5 %). The launch is annotated
// "stream:<tensor>", and the code generator loads them as the first to be evicted (PTX 9.7.9.18,
// createpolicy). Needs copies and parallel loops that are whole.
absl::StatusOr<ir::Program> StreamLoads(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_STREAM_LOADS_H_

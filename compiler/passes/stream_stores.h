#ifndef KILN_COMPILER_PASSES_STREAM_STORES_H_
#define KILN_COMPILER_PASSES_STREAM_STORES_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// Marks the stores that may go past the caches. A store that misses reads its line first; a large
// output is not read again before it would be evicted, so that read buys nothing. Marked are whole
// vectors to a global tensor that the kernel never reads, of at least `vector.stream_bytes` (or of
// unknown size), whose offset from the start of the tensor is a multiple of the vector. A
// launch with marks says "stream_bytes", and the code generator uses them where the tensors turn
// out that large, and aligned, at run time. Needs lowered and simplified programs.
absl::StatusOr<ir::Program> StreamStores(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_STREAM_STORES_H_

#ifndef KILN_COMPILER_PASSES_CACHE_HINTS_H_
#define KILN_COMPILER_PASSES_CACHE_HINTS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// What a kernel says of how long the second-level cache is to keep a tensor is noted at the launch
// as "evict:<tensor>" (ir/cache_hint.h), since copies become loads and stores of threads:
// `eviction_policy` of T.copy, where all copies of the tensor that say something agree, or else
// T.annotate_l2_hit_ratio. Every access of the launch to the tensor then does so. Not of tensors
// that it both reads and writes: loads with a policy are not ordered with stores of others. Needs
// whole copies.
absl::StatusOr<ir::Program> CacheHints(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_CACHE_HINTS_H_

// A reduction between threads. Each thread first folds the parts that it alone answers for into
// registers. Within a warp, contributors are folded by shuffles where they are the same lanes for
// every result; what is then left in several warps, or is wanted by others, goes through shared
// memory, where everybody who holds a result folds all contributions in one order. All copies of a
// result are equal (of a largest or least zero, the sign may differ).
#ifndef KILN_COMPILER_PASSES_PARTITION_REDUCTION_H_
#define KILN_COMPILER_PASSES_PARTITION_REDUCTION_H_

#include "compiler/passes/thread_level.h"

namespace kiln::passes {

// `operation` is the reduction's index in the problem.
ir::Stmt PartitionReduction(int operation, const ir::Reduce& reduce, ThreadLevel* level);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_PARTITION_REDUCTION_H_

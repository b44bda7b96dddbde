// A reduction between threads. Each thread first folds the parts that it alone answers for into
// registers, puts what it has into shared memory, and everybody who holds a result folds all
// contributions to it in one order, so that all copies of a result are equal to the last bit.
#ifndef KILN_COMPILER_PASSES_PARTITION_REDUCTION_H_
#define KILN_COMPILER_PASSES_PARTITION_REDUCTION_H_

#include "compiler/passes/thread_level.h"

namespace kiln::passes {

// `operation` is the reduction's index in the problem.
ir::Stmt PartitionReduction(int operation, const ir::Reduce& reduce, ThreadLevel* level);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_PARTITION_REDUCTION_H_

// A matrix product between threads: every thread computes the elements of C that it holds, over the
// whole of K. A left operand in registers goes through shared memory, because its owners are others
// than those who need it, and so does C where inference moves it. Selecting matrix instructions is
// a lowering of its own.
#ifndef KILN_COMPILER_PASSES_PARTITION_GEMM_H_
#define KILN_COMPILER_PASSES_PARTITION_GEMM_H_

#include <functional>

#include "compiler/passes/thread_level.h"

namespace kiln::passes {

// `operation` is the product's index in the problem; `uniform` rewrites an expression that is the
// same for all threads.
ir::Stmt PartitionGemm(int operation, const ir::Gemm& gemm,
                       const std::function<ir::Expr(const ir::Expr&)>& uniform, ThreadLevel* level);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_PARTITION_GEMM_H_

// A matrix product as instructions of tensor cores.
#ifndef KILN_COMPILER_PASSES_INSTRUCT_GEMM_H_
#define KILN_COMPILER_PASSES_INSTRUCT_GEMM_H_

#include <functional>

#include "compiler/passes/thread_level.h"

namespace kiln::passes {

// Product `operation`, which is `gemm`, done by the threads that `level` is at: wgmma or mma.sync
// where its operands lie as the instruction reads them and the result is held as it leaves it.
// Undefined where there is none yet; PartitionGemm does every product. `uniform` mutates what is
// the same for all threads.
ir::Stmt InstructGemm(int operation, const ir::Gemm& gemm,
                      const std::function<ir::Expr(const ir::Expr&)>& uniform, ThreadLevel* level);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_INSTRUCT_GEMM_H_

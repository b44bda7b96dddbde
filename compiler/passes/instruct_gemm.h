// A matrix product as instructions of tensor cores.
#ifndef KILN_COMPILER_PASSES_INSTRUCT_GEMM_H_
#define KILN_COMPILER_PASSES_INSTRUCT_GEMM_H_

#include <functional>
#include <string>

#include "compiler/passes/thread_level.h"

namespace kiln::passes {

// Why product `operation` is done by vector units although its plan names an instruction of tensor
// cores: an operand is held, or lies, otherwise than the instruction takes it. Else empty.
std::string WhyNotInstructed(const LayoutProblem& problem, const LayoutSolution& solution,
                             int operation);

// Product `operation`, which is `gemm`, done by the threads that `level` is at: wgmma or mma.sync
// where the plan names one and nothing is against it (WhyNotInstructed). Else undefined;
// PartitionGemm does every product. `uniform` mutates what is the same for all threads.
ir::Stmt InstructGemm(int operation, const ir::Gemm& gemm,
                      const std::function<ir::Expr(const ir::Expr&)>& uniform, ThreadLevel* level);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_INSTRUCT_GEMM_H_

// Pass "load-operands" (Hopper): products of float32 as tf32 of which one operand is K-major and
// the other is not. wgmma reads shared memory K-major alone; the other operand it takes from
// registers, which threads load from the tile in the order that it wants:
//
//   A[M, K] B[K, N]:    L[n, k] = B[k, n];  C'[n, m] += L A^T, and what reads C reads C' turned
//   A[K, M] B[N, K]:    L[m, k] = A[k, m];  C[m, n] += L B^T
//
// Where target::LoadTf32 says so of all products on C, and C may be turned (ir::IsTurnable) even
// where it is not, as wgmma holds it otherwise than mma.sync. Elsewhere, and with "kiln.turn": 0,
// they are left to mma.sync.
#ifndef KILN_COMPILER_PASSES_LOAD_OPERANDS_H_
#define KILN_COMPILER_PASSES_LOAD_OPERANDS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> LoadOperands(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_LOAD_OPERANDS_H_

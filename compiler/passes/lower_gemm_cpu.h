#ifndef KILN_COMPILER_PASSES_LOWER_GEMM_CPU_H_
#define KILN_COMPILER_PASSES_LOWER_GEMM_CPU_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// Gemms of at most this many rows stream B instead of packing it.
inline constexpr int kStreamRows = 4;

// Lowers each Gemm to register-blocked vector loops. Up to 14 rows (6 with 16 registers) by two
// vectors of accumulators live in registers over the tile's K; rows are cut into near-equal chunks.
// With at most 4 rows, B is streamed row by row and C accumulates in cache; with B transposed and
// not packed, K is the vector axis and lanes are summed at the end. Integers accumulate in int32.
// A PairGemm is cut into products of one register block each (lower_pair_gemm.h).
// Guarantees: no Gemm is left, and every PairGemm is one that code generation takes. kUnimplemented
// names a shape or dtype that has no lowering.
absl::StatusOr<ir::Program> LowerGemmCpu(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_LOWER_GEMM_CPU_H_

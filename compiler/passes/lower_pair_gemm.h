// The part of lower-gemm-cpu for products on the bfloat16 matrix unit.
#ifndef KILN_COMPILER_PASSES_LOWER_PAIR_GEMM_H_
#define KILN_COMPILER_PASSES_LOWER_PAIR_GEMM_H_

#include "compiler/ir/stmt.h"

namespace kiln::passes {

// Eight tile registers of 16 rows by 64 bytes: four hold C, two A, two the pairs of B.
inline constexpr int64_t kPairRows = 32;
inline constexpr int64_t kPairColumns = 32;
// Pairs of one tile register. What remains of K beyond a multiple is a product of its own.
inline constexpr int64_t kPairStep = 16;
// Pairs that one pass over C takes: its panel of B, read again for each chunk of rows, stays in L1.
inline constexpr int64_t kPairDepth = 128;

// Cuts a PairGemm into products that code generation maps one to one: at most 32 x 32 of C, and
// pairs that are fewer than 16 or a multiple of 16. The K pieces are outermost, then whole chunks
// of rows before the rest, then column panels, then the chunks.
ir::Stmt LowerPairGemm(const ir::PairGemm& gemm);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_LOWER_PAIR_GEMM_H_

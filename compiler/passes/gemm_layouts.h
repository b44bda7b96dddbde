// Who holds the operands of a matrix product that a block computes with warp-wide instructions: the
// strict layouts that the rest of inference follows.
//
// mma.sync.m16n8k16 on 16-bit operands, float32 or float16 accumulators. The warps of the block
// form a grid of `rows` x `columns` over C, warp (i, j) is number j * rows + i, and each computes
// one contiguous part of C in atoms of 16 x 8. This module alone decides: no other pass may build
// these fragments.
#ifndef KILN_COMPILER_PASSES_GEMM_LAYOUTS_H_
#define KILN_COMPILER_PASSES_GEMM_LAYOUTS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "compiler/ir/stmt.h"
#include "compiler/layout/layout.h"

namespace kiln::passes {

struct WarpGrid {
  int64_t rows = 1, columns = 1;
};

// How `warps` warps share an m x n result. kFullRow puts as many as fit along the rows, kFullCol
// along the columns, kSquare makes the warps' parts as square as possible (the taller grid on a
// tie). InvalidArgument when no grid of exactly that many warps divides the result into whole
// atoms.
absl::StatusOr<WarpGrid> ShareWarps(int64_t m, int64_t n, int64_t warps, ir::GemmPolicy policy);

// C (m x n), on tx and m.
absl::StatusOr<layout::Layout> AccumulatorLayout(int64_t m, int64_t n, WarpGrid warps);
// A (m x k) from registers: every warp of a grid row holds the rows that it multiplies.
absl::StatusOr<layout::Layout> LeftOperandLayout(int64_t m, int64_t k, WarpGrid warps);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_GEMM_LAYOUTS_H_

// Tile programs built by hand, for tests of passes and code generation that should not depend on
// the front end.
#ifndef KILN_TESTS_UTIL_TILE_PROGRAMS_H_
#define KILN_TESTS_UTIL_TILE_PROGRAMS_H_

#include "compiler/ir/stmt.h"

namespace kiln::testing {

struct MatmulShape {
  int64_t m = 64, n = 64, k = 64;
  int64_t block_m = 32, block_n = 32, block_k = 32;
  bool trans_a = false, trans_b = false;
  DType dtype = kFloat32;
  DType accum = kFloat32;
};

// C[m,n] = A[m,k] * B[k,n], staged through shared tiles, one Gemm a k step.
ir::Program MatmulProgram(const MatmulShape& shape);

// out[i,j] = exp(x[i,j] - max_j) / sum_j, rows in fragments; `rows` rows a block.
ir::Program SoftmaxProgram(int64_t m, int64_t n, int64_t rows, DType dtype);

// out[m] = sum (or max) over n of x[m,n], tile by tile; dim is the reduced dimension of the tile.
ir::Program ReduceProgram(int64_t m, int64_t n, int64_t block_m, int64_t block_n, ir::ReduceOp op,
                          int dim);

}  // namespace kiln::testing

#endif  // KILN_TESTS_UTIL_TILE_PROGRAMS_H_

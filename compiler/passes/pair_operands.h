#ifndef KILN_COMPILER_PASSES_PAIR_OPERANDS_H_
#define KILN_COMPILER_PASSES_PAIR_OPERANDS_H_

#include "compiler/ir/stmt.h"

namespace kiln::passes {

// Whether shapes and types alone let a Gemm run on the bfloat16 matrix unit: bfloat16 by bfloat16
// into float32, nothing transposed, an even K, more rows than a streamed product has, constant
// extents. The price model asks the same.
bool PairsByShape(const ir::Gemm& gemm);

// The part of place-gemm-operands for targets with a bfloat16 matrix unit. A Gemm that may run
// there becomes a PairGemm (after a fill with zero where it clears). Its B tile, which nothing but
// copies, fills and such Gemms may touch, becomes a uint32 tile of row pairs, in panels of two tile
// registers where the width allows; the copies that fill it become parallel loops that join rows
// 2p and 2p + 1. Its A operand stays bfloat16, with rows of an odd number of cache lines, so that
// the rows of a tile register do not share cache sets. Every other Gemm is left alone.
ir::Program PairOperands(const ir::Program& program);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_PAIR_OPERANDS_H_

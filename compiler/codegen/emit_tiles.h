// PairGemms as AMX tile instructions. Private to compiler/codegen.
//
// Tile registers are named, not allocated: 0 to 3 hold a block of C (row half times column half),
// 4 and 5 the row halves of A, 6 and 7 the column halves of B's pairs. Their shapes are configured
// by memory constants, one a product shape; loading a configuration clears all tiles.
#ifndef KILN_COMPILER_CODEGEN_EMIT_TILES_H_
#define KILN_COMPILER_CODEGEN_EMIT_TILES_H_

#include "compiler/ir/stmt.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {

// What a configuration depends on: C is rows x columns (each up to 32), tiles of A and B hold
// `pairs` pairs (up to 16).
struct TileShape {
  int rows = 0, columns = 0, pairs = 0;
  bool operator==(const TileShape&) const = default;
};

// The tile shape of a product as lower-gemm-cpu leaves it.
TileShape ShapeOf(const ir::PairGemm& gemm);

// A matrix in memory: its first element, and bytes from one row to the next (i64).
struct TileMatrix {
  llvm::Value* base;
  llvm::Value* row_bytes;
};

void EmitTileConfig(llvm::IRBuilder<>& b, llvm::Module& module, const TileShape& shape);
void EmitTileRelease(llvm::IRBuilder<>& b);

// c += a * b over `steps` steps of shape.pairs pairs, under the configuration of `shape`.
void EmitTileProduct(llvm::IRBuilder<>& b, const TileShape& shape, int64_t steps,
                     const TileMatrix& a_matrix, const TileMatrix& b_matrix,
                     const TileMatrix& c_matrix);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_EMIT_TILES_H_

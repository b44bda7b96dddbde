// A tile of shared memory as matrix instructions address it. Private to compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_GPU_TILE_H_
#define KILN_COMPILER_CODEGEN_GPU_TILE_H_

#include <algorithm>
#include <cstdint>

#include "compiler/base/status.h"
#include "compiler/layout/swizzle.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::codegen {

// Panels as wide as the swizzle, each `height` rows, in atoms of eight rows, or all panels of eight
// rows together (layout::MmaSharedLayout); without a swizzle, rows of `columns` elements.
struct GpuTile {
  llvm::Value* base = nullptr;  // i32, bytes
  int64_t element = 2;          // bytes
  int64_t swizzle = 0;          // bytes of a row of a panel, or 0
  int64_t height = 0;
  int64_t columns = 0;
  int64_t row = 0, column = 0;  // of the first element, in the atom that begins at the base
  int64_t bands = 0;            // panels that lie together, eight rows of each; 0: none do

  // From a panel to the next, and from eight rows to the next.
  int64_t panel_bytes() const { return (bands > 0 ? layout::kAtomRows : height) * swizzle; }
  int64_t atom_bytes() const { return std::max<int64_t>(bands, 1) * layout::kAtomRows * swizzle; }
  // Bytes from the base to (r, c), which begins an atom or a step within its rows.
  int64_t At(int64_t r, int64_t c) const {
    const int64_t width = swizzle / element, from = c + column;
    return from / width * panel_bytes() + (r + row) / layout::kAtomRows * atom_bytes() +
           (r + row) % layout::kAtomRows * swizzle + from % width * element;
  }
  // The address (i32) of the element at row `r` and column `c` (i32); of 16 bytes from there where
  // they begin there.
  llvm::Value* Address(llvm::IRBuilder<>& b, llvm::Value* r, llvm::Value* c) const {
    KILN_CHECK(bands == 0);
    const auto n = [&](int64_t v) { return b.getInt32(static_cast<uint32_t>(v)); };
    if (swizzle == 0) {
      llvm::Value* flat = b.CreateAdd(b.CreateMul(r, n(columns)), c);
      return b.CreateAdd(base, b.CreateMul(flat, n(element)));
    }
    const int64_t width = swizzle / element;
    if (row != 0) r = b.CreateAdd(r, n(row));
    if (column != 0) c = b.CreateAdd(c, n(column));
    llvm::Value* panel = b.CreateMul(b.CreateUDiv(c, n(width)), n(panel_bytes()));
    llvm::Value* inside = b.CreateMul(b.CreateURem(c, n(width)), n(element));
    llvm::Value* byte = b.CreateAdd(b.CreateAdd(panel, b.CreateMul(r, n(swizzle))), inside);
    llvm::Value* chunk = b.CreateAnd(b.CreateLShr(byte, n(3)), n(swizzle - 16));
    return b.CreateAdd(base, b.CreateXor(byte, chunk));
  }
};

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_GPU_TILE_H_

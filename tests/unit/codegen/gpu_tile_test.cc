// Where code for a GPU looks for the elements of a tile, against the interpreter, which knows the
// hardware's rule alone; parts that begin inside of an atom among them.
#include "compiler/codegen/gpu_tile.h"

#include <gtest/gtest.h>

#include "compiler/interp/tile_shape.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/LLVMContext.h"

namespace kiln {
namespace {

constexpr int64_t kColumns = 96;

class GpuTileTest : public testing::Test {
 protected:
  // Every step of eight rows, or of one, from the first to the 40th; columns in the same way.
  template <typename F>
  void ForTiles(F check) {
    for (const int64_t element : {1, 2, 4}) {
      for (const int64_t swizzle : {0, 32, 64, 128}) {
        for (const int64_t row : {0, 4, 7}) {
          for (const int64_t column : {0, 16, 32, 48, 96}) {  // bytes
            const bool inside = swizzle == 0 ? row + column > 0 : column >= swizzle;
            if (inside) continue;
            check(codegen::GpuTile{b_.getInt32(0), element, swizzle, 72, kColumns, row,
                                   column / element},
                  interp::TileShape{element, swizzle, 72, kColumns, row, column / element});
          }
        }
      }
    }
  }

  llvm::LLVMContext context_;
  llvm::IRBuilder<> b_{context_};
};

TEST_F(GpuTileTest, AddressesOfWarps) {
  ForTiles([&](const codegen::GpuTile& tile, const interp::TileShape& shape) {
    for (int64_t r = 0; r < 40; ++r) {
      for (int64_t c = 0; c < kColumns; c += 16 / tile.element) {
        const auto* address = llvm::dyn_cast<llvm::ConstantInt>(tile.Address(
            b_, b_.getInt32(static_cast<uint32_t>(r)), b_.getInt32(static_cast<uint32_t>(c))));
        ASSERT_NE(address, nullptr);
        ASSERT_EQ(static_cast<int64_t>(address->getZExtValue()), shape.At(0, r, c) * tile.element)
            << tile.element << " " << tile.swizzle << " " << r << " " << c;
      }
    }
  });
}

// Offsets of descriptors: the hardware swizzles what it adds to them. In bands too, which have a
// panel more than the columns that are looked at.
TEST_F(GpuTileTest, OffsetsOfDescriptors) {
  const auto check = [&](const codegen::GpuTile& tile, const interp::TileShape& shape) {
    if (tile.swizzle == 0 || tile.row != 0) return;
    for (int64_t r = 0; r < 40; ++r) {
      for (int64_t c = 0; c < kColumns; c += 16 / tile.element) {
        const int64_t offset = tile.At(r, c);
        const int64_t place = offset ^ (offset / 128 % (tile.swizzle / 16) * 16);
        ASSERT_EQ(place, shape.At(0, r, c) * tile.element)
            << tile.element << " " << tile.swizzle << " " << r << " " << c;
        const int64_t panel = tile.swizzle / tile.element, first = tile.At(0, 0);
        ASSERT_EQ(offset + tile.At(8, 0) - first, tile.At(r + 8, c));
        ASSERT_EQ(offset + tile.At(0, panel) - first, tile.At(r, c + panel));
        ASSERT_EQ(tile.At(8, 0) - first, tile.atom_bytes());
        ASSERT_EQ(tile.At(0, panel) - first, tile.panel_bytes());
      }
    }
  };
  ForTiles(check);
  ForTiles([&](codegen::GpuTile tile, interp::TileShape shape) {
    if (tile.swizzle == 0) return;
    tile.bands = shape.bands = (kColumns + 96) * tile.element / tile.swizzle + 1;
    check(tile, shape);
    EXPECT_EQ(tile.panel_bytes(), 8 * tile.swizzle);
  });
}

}  // namespace
}  // namespace kiln

// What a box of TMA brings, and to where, by its map alone, against where the interpreter has each
// element of a tile: panel by panel, and in bands of eight rows.
#include "compiler/codegen/tensor_maps.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "compiler/interp/tile_shape.h"
#include "compiler/ir/shape.h"

namespace kiln {
namespace {

constexpr int64_t kRows = 24, kPanels = 3, kShares = 3;

struct Load {
  DType type = kBFloat16;
  int64_t swizzle = 128;
  bool bands = false;
  std::vector<int64_t> shape;  // of the tensor
  size_t row = 0;              // its dimension of rows
  std::vector<int64_t> start;
  int64_t blocks = 1;  // that load a share each

  int64_t width() const { return swizzle / type.bytes(); }
  int64_t columns() const { return kPanels * width(); }
};

ir::Stmt Instruct(const Load& load) {
  ir::Region box{ir::MakeBuffer("A", load.type, {}, ir::Scope::kGlobal), {}};
  std::vector<ir::Expr> shape;
  for (size_t d = 0; d < load.shape.size(); ++d) {
    shape.push_back(ir::MakeInt(load.shape[d]));
    const bool last = d + 1 == load.shape.size();
    box.ranges.push_back({ir::MakeInt(load.start[d]), ir::MakeInt(d == load.row ? kRows
                                                                  : last        ? load.columns()
                                                                                : 1)});
  }
  box.buffer = ir::MakeBuffer("A", load.type, shape, ir::Scope::kGlobal);
  const auto tile =
      ir::MakeBuffer("a", load.type, {ir::MakeInt(kRows * load.columns())}, ir::Scope::kShared);
  const auto barrier = ir::MakeBuffer("full", kInt64, {ir::MakeInt(1)}, ir::Scope::kBarrier);
  std::map<std::string, std::string> notes = {{"swizzle0", absl::StrCat(load.swizzle)},
                                              {"height0", absl::StrCat(kRows)}};
  if (load.bands) notes["bands0"] = absl::StrCat(kPanels);
  if (load.blocks > 1) notes["cluster"] = absl::StrCat(load.blocks);
  return ir::MakeInstruct({}, ir::Instruction::kTensorLoad,
                          {ir::WholeBuffer(tile), box, ir::WholeBuffer(barrier)}, {}, notes);
}

// The numbers of the tensor's elements, in the order in which boxes fill the tile; of a block's
// share, so many rows from the tile's first one on.
std::vector<int64_t> Filled(const Load& load, int64_t first_row) {
  const ir::Stmt stmt = Instruct(load);
  const codegen::TensorMap map = codegen::MapOf(*stmt.As<ir::Instruct>());
  const std::vector<codegen::ViewSide> sides = codegen::ViewOf(map);
  std::vector<int64_t> strides(sides.size(), 1), start(sides.size(), 0);
  int64_t elements = 1;
  for (size_t s = sides.size(); s-- > 0;) {
    const int64_t next =
        s + 1 == sides.size() ? 1 : strides[s + 1] * *ir::ConstInt(sides[s + 1].extent);
    strides[s] = sides[s].stride.defined() ? *ir::ConstInt(sides[s].stride) : next;
    elements *= *ir::ConstInt(sides[s].extent);
    const auto along = static_cast<size_t>(sides[s].along);
    const int64_t from = load.start[along] + (along == load.row ? first_row : 0);
    if (!sides[s].within) start[s] = from / sides[s].unit;
    EXPECT_LE(map.box[s], 256);
  }
  int64_t all = 1;
  for (const int64_t side : load.shape) all *= side;
  EXPECT_EQ(elements, all);
  std::vector<int64_t> filled;
  const int64_t boxes = load.bands ? 1 : kPanels;
  for (int64_t p = 0; p < boxes; ++p) {
    std::vector<int64_t> at(sides.size(), 0);
    for (;;) {
      int64_t number = p * map.box.back();
      for (size_t s = 0; s < sides.size(); ++s) number += (start[s] + at[s]) * strides[s];
      filled.push_back(number);
      size_t s = sides.size();
      while (s > 0 && ++at[s - 1] == map.box[s - 1]) at[--s] = 0;
      if (s == 0) break;
    }
  }
  return filled;
}

void ExpectFilled(const Load& load) {
  const int64_t element = load.type.bytes(), share = kRows / load.blocks;
  const interp::TileShape tile{
      element, load.swizzle, kRows, load.columns(), 0, 0, load.bands ? kPanels : 0};
  for (int64_t block = 0; block < load.blocks; ++block) {
    const std::vector<int64_t> filled = Filled(load, block * share);
    ASSERT_EQ(static_cast<int64_t>(filled.size()), share * load.columns());
    for (int64_t i = 0; i < static_cast<int64_t>(filled.size()); ++i) {
      // Panel by panel, each has the other blocks' rows behind this one's.
      const int64_t panel = load.bands ? 0 : i / (share * load.width());
      const int64_t place = i + panel * (kRows - share) * load.width() +
                            block * share * (load.bands ? load.columns() : load.width());
      const int64_t byte = place * element;
      const int64_t swizzled = (byte ^ (byte / 128 % (load.swizzle / 16) * 16)) / element;
      // Whose place that is.
      int64_t rest = filled[static_cast<size_t>(i)], row = 0, column = 0;
      for (size_t d = load.shape.size(); d-- > 0; rest /= load.shape[d]) {
        const int64_t at = rest % load.shape[d] - load.start[d];
        if (d == load.row) row = at;
        if (d + 1 == load.shape.size()) column = at;
        if (d != load.row && d + 1 != load.shape.size()) ASSERT_EQ(at, 0);
      }
      ASSERT_EQ(tile.At(0, row, column), swizzled) << row << " " << column;
    }
  }
}

TEST(TensorMaps, BoxesFillTilesWhereTheyAreLookedFor) {
  for (const DType type : {kInt8, kBFloat16, kFloat32}) {
    for (const int64_t swizzle : {32, 64, 128}) {
      for (const bool bands : {false, true}) {
        for (const int64_t blocks : {int64_t{1}, kShares}) {
          const int64_t width = swizzle / type.bytes();
          ExpectFilled({type, swizzle, bands, {80, 5 * width}, 0, {16, width}, blocks});
          ExpectFilled({type, swizzle, bands, {3, 80, 5 * width}, 1, {2, 56, 0}, blocks});
          ExpectFilled({type, swizzle, bands, {48, 3, 4 * width}, 0, {8, 1, width}, blocks});
        }
      }
    }
  }
}

}  // namespace
}  // namespace kiln

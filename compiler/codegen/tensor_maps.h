// The tensor maps that a launch's kernel gets: one for each box shape in which it loads a tensor.
// Kernel and host number them alike. Private to compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_TENSOR_MAPS_H_
#define KILN_COMPILER_CODEGEN_TENSOR_MAPS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "compiler/ir/instruct.h"

namespace kiln::codegen {

struct TensorMap {
  ir::Buffer tensor;
  std::vector<int64_t> box;  // coordinates, outermost side of the view first
  int64_t swizzle = 0;       // bytes: 32, 64 or 128; 0: rows lie one after the other
  // Of a kPatchLoad, whose box has as many pixels as it is wide. Corners: innermost first.
  bool patches = false;
  int64_t stride = 1;
  std::array<int64_t, 2> low{}, high{};
  // Of a tile in bands (passes/band_tiles.h): the tensor's dimension of rows, or -1.
  int banded_rows = -1;
  bool operator==(const TensorMap&) const = default;
};

// The map of a kTensorLoad, kPatchLoad or kTensorStore, whose shared operand has been placed. The
// innermost extent of the box is that of one panel of the tile: `swizzle` bytes, or all of it.
TensorMap MapOf(const ir::Instruct& load);

// A dimension of what a map's box and coordinates are of.
struct ViewSide {
  ir::Expr extent;
  ir::Expr stride;      // elements; undefined: the next side's, times its extent
  int along = 0;        // the tensor's dimension,
  int64_t unit = 1;     // and elements along it from a coordinate to the next
  bool within = false;  // a unit of another side: a box begins at 0
};
// Outermost first: the tensor's dimensions; of a tile in bands the others, then bands of eight
// rows, panels, rows of a band and columns of a panel.
std::vector<ViewSide> ViewOf(const TensorMap& map);

// In order of appearance, each once.
std::vector<TensorMap> CollectTensorMaps(const ir::Launch& launch);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_TENSOR_MAPS_H_

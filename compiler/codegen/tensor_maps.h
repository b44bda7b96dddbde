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
  std::vector<int64_t> box;  // elements, outermost dimension first
  int64_t swizzle = 0;       // bytes: 32, 64 or 128; 0: rows lie one after the other
  // Of a kPatchLoad, whose box has as many pixels as it is wide. Corners: innermost first.
  bool patches = false;
  int64_t stride = 1;
  std::array<int64_t, 2> low{}, high{};
  bool operator==(const TensorMap&) const = default;
};

// The map of a kTensorLoad, kPatchLoad or kTensorStore, whose shared operand has been placed. The
// innermost extent of the box is that of one panel of the tile: `swizzle` bytes, or all of it.
TensorMap MapOf(const ir::Instruct& load);

// In order of appearance, each once.
std::vector<TensorMap> CollectTensorMaps(const ir::Launch& launch);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_TENSOR_MAPS_H_

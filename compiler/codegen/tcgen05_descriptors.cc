#include "compiler/codegen/tcgen05_descriptors.h"

#include "compiler/layout/swizzle.h"

namespace kiln::codegen {
namespace {

// Of the sums: float32, int32.
constexpr uint32_t kFloatSums = 1, kIntSums = 2;

// Of the operands, within their kind.
uint32_t FormatOf(DType type) {
  switch (type.code) {
    case TypeCode::kBFloat:
    case TypeCode::kE5M2:
    case TypeCode::kInt:
      return 1;
    default:  // tf32; float16, e4m3, uint8
      return type.bits == 32 ? 2 : 0;
  }
}

}  // namespace

uint64_t Tcgen05TileDescriptor(int64_t swizzle, int64_t height) {
  const uint64_t leading = static_cast<uint64_t>(height * swizzle) >> 4;
  const uint64_t stride = static_cast<uint64_t>(layout::kAtomRows * swizzle) >> 4;
  const uint64_t mode = swizzle == 128 ? 2 : swizzle == 64 ? 4 : 6;
  return (leading & 0x3fff) << 16 | stride << 32 | uint64_t{1} << 46 | mode << 61;
}

uint32_t Tcgen05InstructionDescriptor(DType a, DType b, int64_t m, int64_t n, bool a_rows_along_k,
                                      bool b_rows_along_k) {
  return (a.is_int() ? kIntSums : kFloatSums) << 4 | FormatOf(a) << 7 | FormatOf(b) << 10 |
         uint32_t{a_rows_along_k} << 15 | uint32_t{b_rows_along_k} << 16 |
         static_cast<uint32_t>(n >> 3) << 17 | static_cast<uint32_t>(m >> 4) << 24;
}

}  // namespace kiln::codegen

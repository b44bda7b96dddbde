// Who holds the operands of a matrix product, and how its tiles lie in shared memory: the strict
// layouts that the rest of inference follows, by the instruction that computes it.
//
//   mma.sync  the warps of the block form a grid of `rows` x `columns` over C; warp (i, j), number
//             j * rows + i, computes one contiguous part of C in atoms of 16 x 8
//   wgmma     the same with warpgroups, in atoms of 64 x 8: warp w of four holds rows 16 w of each
//   tcgen05   C leaves tensor memory one lane a thread (tcgen05.ld .32x32b); warpgroups share the
//             columns
//   mma.sp    as mma.sync
//   fma       as mma.sync
//
// This module alone decides: no other pass may build these fragments.
#ifndef KILN_COMPILER_PASSES_GEMM_LAYOUTS_H_
#define KILN_COMPILER_PASSES_GEMM_LAYOUTS_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "compiler/layout/layout.h"
#include "compiler/target/legality.h"

namespace kiln::passes {

enum class MatrixUnit : uint8_t { kFma, kMma, kSparseMma, kWgmma, kTcgen05 };
const char* NameOf(MatrixUnit unit);  // "mma.sync", "wgmma", ...

using target::WarpGrid;

// C (m x n), on tx and m; `grid` is of warps for fma and mma.sync, of warpgroups for the others.
absl::StatusOr<layout::Layout> AccumulatorLayout(int64_t m, int64_t n, WarpGrid grid,
                                                 MatrixUnit unit = MatrixUnit::kMma);
// A (m x k) of 8, 16 or 32 bits from registers, in the order of the instruction: every warp of a
// grid row holds the rows that it multiplies. For mma.sync and wgmma.
absl::StatusOr<layout::Layout> LeftOperandLayout(int64_t m, int64_t k, WarpGrid grid,
                                                 MatrixUnit unit = MatrixUnit::kMma,
                                                 int element_bits = 16);

struct ProductPlan {
  MatrixUnit unit = MatrixUnit::kMma;
  WarpGrid grid;
  layout::Layout c;
  // When A comes from registers. Of float32 it lies like a result, two neighbours along k a thread:
  // mma.sync then reads B in the same order (ir/instruct.h, "pairs").
  std::optional<layout::Layout> a;
  std::string why_not;  // what keeps a faster instruction from being used; or empty
  int64_t a_swizzle = 128, b_swizzle = 128;  // bytes, at most (target::GemmChoice)
};

// The fastest instruction of `arch` for the product (target::ChooseGemm) and its fragments.
// InvalidArgument with the reason where there is none.
absl::StatusOr<ProductPlan> PlanProduct(const target::Arch& arch, const target::GemmQuery& query);

// A tile of shared memory that an instruction reads: the widest swizzle of up to `most` bytes that
// its rows fill, in atoms of 8 rows. nullopt where mma.sync and fma do as well with the rows as
// they are. InvalidArgument where the instruction can read no tile of that shape.
absl::StatusOr<std::optional<layout::Layout>> SharedOperandLayout(MatrixUnit unit, int element_bits,
                                                                  const std::vector<int64_t>& shape,
                                                                  int64_t most = 128);
// Whether SharedOperandLayout gives this layout for some swizzle of up to `most` bytes.
bool IsSharedOperandLayout(MatrixUnit unit, int element_bits, const std::vector<int64_t>& shape,
                           const layout::Layout& layout, int64_t most = 128);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_GEMM_LAYOUTS_H_

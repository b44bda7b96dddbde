// A layout in words: what it is as a whole, where one element is, what a warp's request costs.
#ifndef KILN_COMPILER_LAYOUT_DESCRIBE_H_
#define KILN_COMPILER_LAYOUT_DESCRIBE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/layout/draw.h"
#include "compiler/layout/inverse.h"
#include "compiler/layout/layout.h"

namespace kiln::layout {

// One warp reading a column (lane l takes row l) or a row (lane l takes the l-th group) of the
// view, `vector` elements a lane in one access.
struct ViewRequest {
  bool column = true;
  int64_t index = 0;  // the column (the first of its elements), or the row
  int64_t vector = 1;
};

// The byte address of each lane's access, copy 0; at most 32 lanes. Refused when a lane's elements
// are not consecutive from a multiple of their size, InvalidArgument when the access is not 1, 2,
// 4, 8 or 16 bytes, the view has no such column or row, or the cells are not addresses.
absl::StatusOr<std::vector<int64_t>> RequestAddresses(const Layout& layout, const View& view,
                                                      const ViewRequest& request);

// What `inverse` computes, as formulas over the axes: one line an axis that is shifted or swizzled,
// "element = ...", "copy = ..." when there are copies, and the guards.
std::vector<std::string> InverseLines(const Layout& layout, const Inverse& inverse);

// Canonical form, size, copies, range and span of each axis, injective or the witness, inverse and
// guards, and for addresses the wavefronts of the first column and row. Lines.
std::string Describe(const Layout& layout, const View& view);

// Digits and points of one element; for addresses also byte, bank and line of each point and the
// elements of the tile that share its banks (tiles of up to kSharedPoints points).
// KILN_CHECKs the index.
inline constexpr int64_t kSharedPoints = int64_t{1} << 16;
inline constexpr int64_t kDescribedPoints = 64;   // then "and n more"
inline constexpr int64_t kDescribedSharers = 16;  // likewise
std::string DescribeElement(const Layout& layout, const View& view, int64_t flat);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_DESCRIBE_H_

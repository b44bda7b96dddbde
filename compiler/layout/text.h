// The text form of layouts, which is also how tables of hardware layouts are written down.
//
//   S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)] + R[2:4@warpid] + 5@warpid
//   <3,3,3> o S[(8,64):(64,1)]
//
// S[extents : strides] is the shard, R[...] the replica, n@axis an offset; a stride or offset
// without axis is on m; S[extents] alone has row-major strides. <M,B,S> is a swizzle, <M,B,S,outer>
// its outer form, @axis after it names an axis other than m. The constructor spellings
// TileLayout(...), SwizzleLayout(per_element=3, swizzle_len=3, atom_len=3) and
// ComposeLayout(swizzle, tile) are read as well. Blanks are free.
#ifndef KILN_COMPILER_LAYOUT_TEXT_H_
#define KILN_COMPILER_LAYOUT_TEXT_H_

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/layout/layout.h"

namespace kiln::layout {

// InvalidArgument with column and expectation for a text that is not a layout. Texts longer than
// 64 KiB are refused.
absl::StatusOr<Layout> Parse(absl::string_view text);

// Parse(Print(l)) == l, iters in the same order.
std::string Print(const Layout& layout);

// Parse for texts that are part of the program: KILN_CHECKs.
Layout MustParse(absl::string_view text);

// The same notation in C++: Build(S({8, 2}, {4 * Axis::kLaneid, 1}) + R({2}, {4 * Axis::kWarpid})
// + 5 * Axis::kWarpid).
struct Step {
  Step(int64_t v, Axis a = Axis::kM) : value(v), axis(a) {}  // NOLINT: a bare integer is on m
  int64_t value;
  Axis axis;
};
inline Step operator*(int64_t value, Axis axis) { return Step(value, axis); }

struct Spec {
  std::vector<Iter> shard, replica;
  Offset offset;
  absl::Status status;  // first mistake: extents and strides of different length
};
Spec S(std::vector<int64_t> extents, std::initializer_list<Step> strides = {});
Spec R(std::vector<int64_t> extents, std::initializer_list<Step> strides = {});
Spec operator+(Spec a, const Spec& b);
Spec operator+(Spec a, Step offset);
absl::StatusOr<Layout> Build(const Spec& spec);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_TEXT_H_

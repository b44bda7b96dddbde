// Layout: a map from a logical flat index to a finite set of points on named axes.
//
//   L(x) = { X(D(x) + r + O) | r in R }
//
// D, the shard: x is split row-major over the iters' extents (the last iter takes the fastest
// digit) and digit c of an iter moves c * stride on its axis. R, the replica: every combination of
// the replica iters' digits is one more copy of the element. O, the offset: one constant an axis.
// X: at most one XOR stage (SwizzleLayout) an axis, applied last, so slices, tiles and offsets stay
// exact.
//
// TIRx's TileLayout is a Layout without X, its ComposeLayout one with; TileLang's fragment is a
// Layout on thread axes and on m (register slots). Immutable value type, thread-safe to read.
// Invariants, checked by FromIters: extents >= 1; size and the reach of every axis <= 2^60; at most
// 2^20 copies and 64 iters of each kind, so that no operation drowns in a hostile text.
#ifndef KILN_COMPILER_LAYOUT_LAYOUT_H_
#define KILN_COMPILER_LAYOUT_LAYOUT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/layout/axis.h"
#include "compiler/layout/swizzle.h"
#include "compiler/layout/witness.h"

namespace kiln::layout {

// A strided walk over one axis: digit c in [0, extent) contributes c * stride. A digit of the flat
// index in a shard, an independent counter in a replica.
struct Iter {
  int64_t extent = 1;
  int64_t stride = 1;
  Axis axis = Axis::kM;
  bool operator==(const Iter&) const = default;
};

using Offset = std::vector<std::pair<Axis, int64_t>>;

class Layout {
 public:
  Layout() = default;  // one element at the origin

  // From iters that are already built. Offsets on one axis add up; swizzles on distinct axes.
  // InvalidArgument when an invariant fails.
  static absl::StatusOr<Layout> FromIters(std::vector<Iter> shard, std::vector<Iter> replica = {},
                                          Offset offset = {},
                                          std::vector<SwizzleLayout> swizzles = {});

  const std::vector<Iter>& shard() const { return shard_; }
  const std::vector<Iter>& replica() const { return replica_; }
  const Offset& offset() const { return offset_; }  // ordered by axis, no zeros
  const std::vector<SwizzleLayout>& swizzles() const { return swizzles_; }  // ordered, no identity
  int64_t offset(Axis axis) const;
  const SwizzleLayout* swizzle(Axis axis) const;           // null when the axis has none
  const std::vector<Axis>& axes() const { return axes_; }  // every axis named above, ordered

  int64_t size() const { return size_; }      // elements: product of the shard extents
  int64_t copies() const { return copies_; }  // product of the replica extents
  int64_t size(Axis axis) const;              // product of the shard extents on that axis

  // The values of an axis before its swizzle: smallest and largest over all elements and copies.
  std::pair<int64_t, int64_t> Range(Axis axis) const;
  // One past the largest value, at least 1; counted from the smallest where that is negative.
  int64_t Span(Axis axis) const;
  // One past the sum of all memory axes' largest values. Only meaningful with one memory axis;
  // TIRx's default.
  int64_t SpanOverMemory() const;

  // Point of copy 0. KILN_CHECKs 0 <= flat < size().
  Coord Base(int64_t flat) const;
  // Values in the order of axes(), copy `copy` in [0, copies()), replica-major: the last replica
  // iter is fastest. No allocation.
  void Evaluate(int64_t flat, int64_t copy, int64_t* values) const;
  // What Evaluate gives for one axis, of all elements of a copy; zeros where the layout has not the
  // axis. Linear in the elements, for a few additions each.
  std::vector<int64_t> Column(Axis axis, int64_t copy = 0) const;
  // The whole set, copy by copy (equal points are repeated when copies coincide).
  std::vector<Coord> Apply(int64_t flat) const;
  // The same for a coordinate in a logical shape with size() elements, or, without a shape, for one
  // coordinate a shard iter. InvalidArgument for a wrong rank, count or range.
  absl::StatusOr<std::vector<Coord>> Apply(absl::Span<const int64_t> coord,
                                           absl::Span<const int64_t> shape = {}) const;

  // Text form; Parse (text.h) reads it back to an equal layout.
  std::string ToString() const;

  // Structural equality: the same iters in the same order, offsets and swizzles.
  bool operator==(const Layout& other) const;

 private:
  std::vector<Iter> shard_;
  std::vector<Iter> replica_;
  Offset offset_;
  std::vector<SwizzleLayout> swizzles_;
  std::vector<Axis> axes_;
  std::vector<uint16_t> shard_index_;    // position of an iter's axis in axes_
  std::vector<uint16_t> replica_index_;  // the same for replica iters
  int64_t size_ = 1;
  int64_t copies_ = 1;
};

// The row-major flat index of `coord` in `shape`, and back. InvalidArgument for a wrong rank or
// range.
absl::StatusOr<int64_t> Flatten(absl::Span<const int64_t> coord, absl::Span<const int64_t> shape);
std::vector<int64_t> Unflatten(int64_t flat, absl::Span<const int64_t> shape);

// A swizzle on top of a tile layout (TIRx's ComposeLayout). Refused when the tile already has a
// swizzle on that axis: two XOR stages are not one.
absl::StatusOr<Layout> ComposeLayout(const SwizzleLayout& swizzle, const Layout& tile);
// A bare swizzle: the identity tile of one period under it.
absl::StatusOr<Layout> ComposeLayout(const SwizzleLayout& swizzle);

// The layout without its XOR stages.
Layout TileLayout(const Layout& layout);

// The layout shifted by `offset` (before the swizzle).
absl::StatusOr<Layout> Shift(const Layout& layout, const Offset& offset);

// The same function as the shortest digit list: unit iters dropped (one 1:1 stays of nothing),
// neighbours merged, zero strides on m, replica iters sorted and merged (the set keeps its
// multiplicities and its base point). Two layouts with the same swizzles have the same base points
// exactly when their canonical shards and offsets are equal.
Layout Canonical(const Layout& layout);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_LAYOUT_H_

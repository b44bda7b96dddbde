#include "compiler/layout/tile.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/layout/integers.h"
#include "compiler/layout/regroup.h"

namespace kiln::layout {
namespace {

constexpr int64_t kMaxCommutePairs = int64_t{1} << 26;
constexpr int64_t kMaxResidues = int64_t{1} << 20;

// Every value mod `period` that the iters reach from `start`.
absl::StatusOr<std::vector<int64_t>> Residues(const std::vector<Iter>& iters, Axis axis,
                                              int64_t start, int64_t period) {
  std::set<int64_t> values = {FloorMod(start, period)};
  for (const Iter& iter : iters) {
    if (iter.axis != axis || iter.extent == 1 || iter.stride % period == 0) continue;
    const int64_t turns = std::min(iter.extent, period / std::gcd(iter.stride, period));
    if (static_cast<int64_t>(values.size()) > kMaxResidues / turns) {
      return absl::ResourceExhaustedError(
          absl::StrCat("more than 2^20 addresses to check against a swizzle of period ", period));
    }
    std::set<int64_t> next;
    for (const int64_t v : values) {
      for (int64_t c = 0; c < turns; ++c) next.insert(FloorMod(v + c * iter.stride, period));
    }
    values = std::move(next);
  }
  return std::vector<int64_t>(values.begin(), values.end());
}

std::vector<Iter> Together(std::vector<Iter> a, const std::vector<Iter>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// X(v + d) == v + X(d) for every v of the shifts and d of the layout on the swizzle's axis.
absl::Status CheckCommutes(const SwizzleLayout& swizzle, const std::vector<Iter>& shifts,
                           int64_t shift_offset, const Layout& layout) {
  const int64_t period = swizzle.period();
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> moves,
                        Residues(shifts, swizzle.axis, shift_offset, period));
  if (moves == std::vector<int64_t>{0}) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> values,
                        Residues(Together(layout.shard(), layout.replica()), swizzle.axis,
                                 layout.offset(swizzle.axis), period));
  if (static_cast<int64_t>(moves.size() * values.size()) > kMaxCommutePairs) {
    return absl::ResourceExhaustedError(
        absl::StrCat(swizzle.ToString(),
                     ": too many addresses to check against shifts off its period ", period));
  }
  for (const int64_t v : moves) {
    for (const int64_t d : values) {
      if (swizzle(v + d) == v + swizzle(d)) continue;
      return Refuse({absl::StrCat("a shift by ", v, " modulo ", period, " does not commute with ",
                                  swizzle.ToString(), " at address ", d),
                     -1, -1, Coord({{swizzle.axis, swizzle(v + d)}}),
                     Coord({{swizzle.axis, v + swizzle(d)}})});
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRanks(absl::Span<const int64_t> a, absl::Span<const int64_t> b) {
  if (a.size() == b.size()) return absl::OkStatus();
  return BadArgument(absl::StrCat("shapes of rank ", a.size(), " and ", b.size()));
}

std::vector<Iter> Interleave(const Grouped& outer, const Grouped& inner) {
  std::vector<Iter> shard;
  for (size_t d = 0; d + 1 < outer.separators.size(); ++d) {
    shard = Together(Together(std::move(shard), outer.group(d)), inner.group(d));
  }
  return shard;
}

absl::StatusOr<std::vector<Iter>> Scaled(std::vector<Iter> iters, const Layout& inner) {
  for (Iter& iter : iters) {
    if (__builtin_mul_overflow(iter.stride, Footprint(inner, iter.axis), &iter.stride)) {
      return BadArgument("a scaled stride passes 2^63");
    }
  }
  return iters;
}

absl::StatusOr<Layout> ScaledLayout(const Layout& outer, const Layout& inner) {
  KILN_ASSIGN_OR_RETURN(std::vector<Iter> shard, Scaled(outer.shard(), inner));
  KILN_ASSIGN_OR_RETURN(std::vector<Iter> replica, Scaled(outer.replica(), inner));
  Offset offset;
  for (const auto& [axis, value] : outer.offset()) {
    int64_t scaled = 0;
    if (__builtin_mul_overflow(value, Footprint(inner, axis), &scaled)) {
      return BadArgument("a scaled offset passes 2^63");
    }
    offset.emplace_back(axis, scaled);
  }
  std::vector<SwizzleLayout> swizzles;
  for (SwizzleLayout s : outer.swizzles()) {
    const int64_t footprint = Footprint(inner, s.axis);
    const auto [low, high] = inner.Range(s.axis);
    if (!IsPowerOfTwo(footprint) || low < 0 || high >= footprint) {
      return Refuse({absl::StrCat("the outer swizzle ", s.ToString(),
                                  " needs an inner tile that "
                                  "fills [0, 2^k) of ",
                                  NameOf(s.axis), "; it has [", low, ", ", high, "]"),
                     -1, -1, Coord({{s.axis, low}}), Coord({{s.axis, high}})});
    }
    s.per_element += Log2(footprint);
    swizzles.push_back(s);
  }
  return Layout::FromIters(std::move(shard), std::move(replica), std::move(offset),
                           std::move(swizzles));
}

// The sum of two layouts whose shards are already interleaved into `shard`.
absl::StatusOr<Layout> Sum(const Layout& a, const Layout& b, std::vector<Iter> shard) {
  std::vector<SwizzleLayout> swizzles = a.swizzles();
  for (const SwizzleLayout& s : b.swizzles()) {
    if (a.swizzle(s.axis) != nullptr) {
      return Refuse({absl::StrCat("both layouts have a swizzle on ", NameOf(s.axis), ": ",
                                  a.swizzle(s.axis)->ToString(), " and ", s.ToString()),
                     -1,
                     -1,
                     {},
                     {}});
    }
    swizzles.push_back(s);
  }
  for (const SwizzleLayout& s : a.swizzles()) {
    KILN_RETURN_IF_ERROR(
        CheckCommutes(s, Together(b.shard(), b.replica()), b.offset(s.axis), TileLayout(a)));
  }
  for (const SwizzleLayout& s : b.swizzles()) {
    KILN_RETURN_IF_ERROR(
        CheckCommutes(s, Together(a.shard(), a.replica()), a.offset(s.axis), TileLayout(b)));
  }
  Offset offset = a.offset();
  offset.insert(offset.end(), b.offset().begin(), b.offset().end());
  return Layout::FromIters(std::move(shard), Together(b.replica(), a.replica()), std::move(offset),
                           std::move(swizzles));
}

// Swizzles of the outer are checked in ScaledLayout; the sum must not check them as shifts.
absl::StatusOr<Layout> SumScaled(const Layout& outer, const Layout& inner,
                                 std::vector<Iter> shard) {
  if (outer.swizzles().empty()) return Sum(outer, inner, std::move(shard));
  std::vector<SwizzleLayout> swizzles = outer.swizzles();
  for (const SwizzleLayout& s : swizzles) {
    if (inner.swizzle(s.axis) != nullptr) return Sum(outer, inner, std::move(shard));
  }
  KILN_ASSIGN_OR_RETURN(const Layout sum, Sum(TileLayout(outer), inner, std::move(shard)));
  swizzles.insert(swizzles.end(), inner.swizzles().begin(), inner.swizzles().end());
  return Layout::FromIters(sum.shard(), sum.replica(), sum.offset(), std::move(swizzles));
}

}  // namespace

int64_t Footprint(const Layout& layout, Axis axis) {
  const auto [low, high] = layout.Range(axis);
  return high - low + 1;
}

absl::StatusOr<Layout> Tile(const Layout& outer, absl::Span<const int64_t> outer_shape,
                            const Layout& inner, absl::Span<const int64_t> inner_shape) {
  KILN_RETURN_IF_ERROR(CheckRanks(outer_shape, inner_shape));
  KILN_ASSIGN_OR_RETURN(const Layout scaled, ScaledLayout(outer, inner));
  KILN_ASSIGN_OR_RETURN(const Grouped big, Group(scaled, outer_shape));
  KILN_ASSIGN_OR_RETURN(const Grouped small, Group(inner, inner_shape));
  return SumScaled(big.layout, small.layout, Interleave(big, small));
}

absl::StatusOr<Layout> TileTo(const Layout& tile, absl::Span<const int64_t> shape,
                              absl::Span<const int64_t> to) {
  KILN_RETURN_IF_ERROR(CheckRanks(shape, to));
  if (CheckedProduct(to) < 0) return BadArgument("the shape to fill is empty or passes 2^60");
  std::vector<int64_t> counts;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] < 1 || to[d] % shape[d] != 0) {
      return BadArgument(
          absl::StrCat("dimension ", d, ": ", to[d], " is not a multiple of ", shape[d]));
    }
    counts.push_back(to[d] / shape[d]);
  }
  std::vector<Iter> outer;
  int64_t stride = 1;
  for (size_t d = counts.size(); d-- > 0;) {
    outer.push_back({counts[d], stride, Axis::kM});
    stride *= counts[d];
  }
  std::reverse(outer.begin(), outer.end());
  KILN_ASSIGN_OR_RETURN(const Layout arrangement, Layout::FromIters(std::move(outer)));
  return Tile(arrangement, counts, tile, shape);
}

absl::StatusOr<Layout> DirectSum(const Layout& a, absl::Span<const int64_t> a_shape,
                                 const Layout& b, absl::Span<const int64_t> b_shape) {
  KILN_RETURN_IF_ERROR(CheckRanks(a_shape, b_shape));
  KILN_ASSIGN_OR_RETURN(const Grouped left, Group(a, a_shape));
  KILN_ASSIGN_OR_RETURN(const Grouped right, Group(b, b_shape));
  return Sum(left.layout, right.layout, Interleave(left, right));
}

}  // namespace kiln::layout

// The recognisers of tile.h: one factor of a tile or direct sum, given the other.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/layout/factor.h"
#include "compiler/layout/regroup.h"
#include "compiler/layout/scopes.h"
#include "compiler/layout/table.h"
#include "compiler/layout/tile.h"

namespace kiln::layout {
namespace {

constexpr int64_t kMaxQuotient = 1 << 16;
constexpr int kFixedPointRounds = 4;

absl::Status NoFactor(absl::string_view why) {
  return Refuse({absl::StrCat("no such factor: ", why), -1, -1, {}, {}});
}

std::optional<std::vector<Iter>> Difference(std::vector<Iter> total,
                                            const std::vector<Iter>& part) {
  for (const Iter& iter : part) {
    const auto it = std::find(total.begin(), total.end(), iter);
    if (it == total.end()) return std::nullopt;
    total.erase(it);
  }
  return total;
}

std::map<Coord, int64_t> Points(const Layout& copies) {
  std::map<Coord, int64_t> points;
  for (const Coord& point : copies.Apply(0)) ++points[point];
  return points;
}

Coord Minus(const Coord& a, const Coord& b) {
  Coord difference = a;
  for (const auto& [axis, value] : b.values()) difference.Set(axis, a[axis] - value);
  return difference;
}

Coord Plus(const Coord& a, const Coord& b) {
  Coord sum = a;
  for (const auto& [axis, value] : b.values()) sum.Set(axis, a[axis] + value);
  return sum;
}

// The multiset Q with T = P + Q, smallest point first: in an ordered group the smallest of T is the
// smallest of P plus the smallest of Q, so Q is unique and found greedily.
std::optional<std::vector<Coord>> Quotient(std::map<Coord, int64_t> total,
                                           const std::map<Coord, int64_t>& part) {
  std::vector<Coord> quotient;
  while (!total.empty()) {
    const Coord shift = Minus(total.begin()->first, part.begin()->first);
    for (const auto& [point, count] : part) {
      const auto it = total.find(Plus(point, shift));
      if (it == total.end() || it->second < count) return std::nullopt;
      if ((it->second -= count) == 0) total.erase(it);
    }
    quotient.push_back(shift);
  }
  return quotient;
}

// Replica iters for a list of points in order, when they are a grid.
std::optional<std::vector<Iter>> GridOf(const std::vector<Coord>& points,
                                        const std::vector<Axis>& axes) {
  std::vector<int64_t> columns;
  for (const Axis axis : axes) {
    for (const Coord& point : points) columns.push_back(point[axis] - points[0][axis]);
  }
  const auto table =
      Table::FromColumns(static_cast<int64_t>(points.size()), 1, axes, std::move(columns));
  if (!table.ok()) return std::nullopt;
  const auto grid = Factor(*table, {.swizzles = false});
  if (!grid.ok() || points[0] < Coord() || Coord() < points[0]) return std::nullopt;
  return grid->shard();
}

// Replica iters Q with total = part + Q as multisets of shifts.
absl::StatusOr<std::vector<Iter>> Remaining(const std::vector<Iter>& total,
                                            const std::vector<Iter>& part) {
  if (auto rest = Difference(total, part)) return *rest;
  KILN_ASSIGN_OR_RETURN(const Layout all, Layout::FromIters({}, total));
  KILN_ASSIGN_OR_RETURN(const Layout known, Layout::FromIters({}, part));
  if (auto rest = Difference(Canonical(all).replica(), Canonical(known).replica())) return *rest;
  if (all.copies() > kMaxQuotient || all.copies() % known.copies() != 0) {
    return NoFactor("the copies do not divide");
  }
  const auto points = Quotient(Points(all), Points(known));
  if (!points.has_value()) return NoFactor("the copies of one are not among those of the other");
  const auto grid = GridOf(*points, all.axes());
  if (!grid.has_value()) return NoFactor("the remaining copies are no grid");
  return *grid;
}

struct Split {
  std::vector<Iter> outer, inner;
};

// The tiled layout's digits, by dimension (outer, inner).
absl::StatusOr<Split> SplitShard(const Layout& tiled, absl::Span<const int64_t> outer_shape,
                                 absl::Span<const int64_t> inner_shape) {
  std::vector<int64_t> shape;
  for (size_t d = 0; d < outer_shape.size(); ++d) {
    shape.push_back(outer_shape[d]);
    shape.push_back(inner_shape[d]);
  }
  KILN_ASSIGN_OR_RETURN(const Grouped grouped, Group(Canonical(tiled), shape));
  Split split;
  for (size_t d = 0; d < shape.size(); ++d) {
    const std::vector<Iter> group = grouped.group(d);
    std::vector<Iter>& to = d % 2 == 0 ? split.outer : split.inner;
    to.insert(to.end(), group.begin(), group.end());
  }
  return split;
}

absl::StatusOr<std::vector<int64_t>> Quotients(absl::Span<const int64_t> shape,
                                               absl::Span<const int64_t> by) {
  if (shape.size() != by.size()) {
    return BadArgument(absl::StrCat("shapes of rank ", shape.size(), " and ", by.size()));
  }
  std::vector<int64_t> quotients;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (by[d] < 1 || shape[d] % by[d] != 0) {
      return NoFactor(absl::StrCat("dimension ", d, ": ", by[d], " does not divide ", shape[d]));
    }
    quotients.push_back(shape[d] / by[d]);
  }
  return quotients;
}

absl::StatusOr<std::vector<Iter>> Divided(std::vector<Iter> iters, const Layout& inner) {
  for (Iter& iter : iters) {
    const int64_t footprint = Footprint(inner, iter.axis);
    if (iter.extent > 1 && iter.stride % footprint != 0) {
      return NoFactor(absl::StrCat("stride ", iter.stride, "@", NameOf(iter.axis),
                                   " is not a multiple of the inner footprint ", footprint));
    }
    iter.stride /= footprint;
  }
  return iters;
}

absl::StatusOr<Offset> DividedOffset(const Layout& tiled, const Layout& inner) {
  std::set<Axis> axes(tiled.axes().begin(), tiled.axes().end());
  axes.insert(inner.axes().begin(), inner.axes().end());
  Offset offset;
  for (const Axis axis : axes) {
    const int64_t rest = tiled.offset(axis) - inner.offset(axis);
    if (rest % Footprint(inner, axis) != 0) return NoFactor("the offset is not a multiple");
    offset.emplace_back(axis, rest / Footprint(inner, axis));
  }
  return offset;
}

bool SameCanonical(const Layout& a, const Layout& b) { return Canonical(a) == Canonical(b); }

// The candidate is right only when it builds the given layout again.
absl::StatusOr<Layout> Confirmed(const absl::StatusOr<Layout>& rebuilt, const Layout& given,
                                 const Layout& candidate) {
  if (rebuilt.ok() && SameCanonical(*rebuilt, given)) return Canonical(candidate);
  return NoFactor(rebuilt.ok() ? absl::StrCat("it would give ", rebuilt->ToString())
                               : std::string(rebuilt.status().message()));
}

// Swizzles of `whole` that `part` does not have; refused when `part` has others.
absl::StatusOr<std::vector<SwizzleLayout>> OtherSwizzles(const Layout& whole, const Layout& part) {
  std::vector<SwizzleLayout> rest = whole.swizzles();
  for (const SwizzleLayout& s : part.swizzles()) {
    const auto it = std::find(rest.begin(), rest.end(), s);
    if (it == rest.end())
      return NoFactor(absl::StrCat("the swizzle ", s.ToString(), " is missing"));
    rest.erase(it);
  }
  return rest;
}

}  // namespace

absl::StatusOr<Layout> OuterFactor(const Layout& given, absl::Span<const int64_t> shape,
                                   const Layout& inner, absl::Span<const int64_t> inner_shape) {
  const Layout tiled = SplitLike(given, inner);
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> outer_shape, Quotients(shape, inner_shape));
  KILN_ASSIGN_OR_RETURN(const Split split, SplitShard(tiled, outer_shape, inner_shape));
  KILN_ASSIGN_OR_RETURN(std::vector<Iter> shard, Divided(split.outer, inner));
  KILN_ASSIGN_OR_RETURN(const std::vector<Iter> rest, Remaining(tiled.replica(), inner.replica()));
  KILN_ASSIGN_OR_RETURN(std::vector<Iter> replica, Divided(rest, inner));
  KILN_ASSIGN_OR_RETURN(Offset offset, DividedOffset(tiled, inner));
  KILN_ASSIGN_OR_RETURN(std::vector<SwizzleLayout> swizzles, OtherSwizzles(tiled, inner));
  for (SwizzleLayout& s : swizzles) {
    int64_t footprint = Footprint(inner, s.axis);
    for (; footprint > 1 && footprint % 2 == 0; footprint /= 2) --s.per_element;
    if (footprint != 1 || s.per_element < 0) return NoFactor("the swizzle does not scale down");
  }
  KILN_ASSIGN_OR_RETURN(const Layout outer,
                        Layout::FromIters(std::move(shard), std::move(replica), std::move(offset),
                                          std::move(swizzles)));
  return Confirmed(Tile(outer, outer_shape, inner, inner_shape), tiled, outer);
}

absl::StatusOr<Layout> InnerFactor(const Layout& given, absl::Span<const int64_t> shape,
                                   const Layout& outer, absl::Span<const int64_t> outer_shape) {
  const Layout tiled = SplitLike(given, outer);
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> inner_shape, Quotients(shape, outer_shape));
  KILN_ASSIGN_OR_RETURN(const Split split, SplitShard(tiled, outer_shape, inner_shape));
  KILN_ASSIGN_OR_RETURN(Layout inner, Layout::FromIters(split.inner));
  absl::Status last = NoFactor("no footprint fits");
  for (int round = 0; round < kFixedPointRounds; ++round) {
    std::vector<Iter> scaled = outer.replica();
    for (Iter& iter : scaled) {
      if (__builtin_mul_overflow(iter.stride, Footprint(inner, iter.axis), &iter.stride)) {
        return NoFactor("the copies would lie past 2^63");
      }
    }
    const absl::StatusOr<std::vector<Iter>> replica = Remaining(tiled.replica(), scaled);
    if (!replica.ok()) return replica.status();
    Offset offset = tiled.offset();
    for (const auto& [axis, value] : outer.offset()) {
      int64_t shift = 0;
      if (__builtin_mul_overflow(-value, Footprint(inner, axis), &shift)) {
        return NoFactor("the offset would lie past 2^63");
      }
      offset.emplace_back(axis, shift);
    }
    std::vector<SwizzleLayout> swizzles;
    for (const SwizzleLayout& s : tiled.swizzles()) {
      if (outer.swizzle(s.axis) == nullptr) swizzles.push_back(s);
    }
    KILN_ASSIGN_OR_RETURN(Layout candidate,
                          Layout::FromIters(split.inner, *replica, std::move(offset), swizzles));
    absl::StatusOr<Layout> confirmed =
        Confirmed(Tile(outer, outer_shape, candidate, inner_shape), tiled, candidate);
    if (confirmed.ok()) return confirmed;
    last = confirmed.status();
    inner = std::move(candidate);
  }
  return last;
}

namespace {

absl::StatusOr<Layout> Summand(const Layout& sum, const Layout& known, std::vector<Iter> shard) {
  KILN_ASSIGN_OR_RETURN(std::vector<Iter> replica, Remaining(sum.replica(), known.replica()));
  Offset offset = sum.offset();
  for (const auto& [axis, value] : known.offset()) offset.emplace_back(axis, -value);
  KILN_ASSIGN_OR_RETURN(std::vector<SwizzleLayout> swizzles, OtherSwizzles(sum, known));
  return Layout::FromIters(std::move(shard), std::move(replica), std::move(offset),
                           std::move(swizzles));
}

}  // namespace

absl::StatusOr<Layout> LeftSummand(const Layout& given, absl::Span<const int64_t> shape,
                                   const Layout& b, absl::Span<const int64_t> b_shape) {
  const Layout sum = SplitLike(given, b);
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> a_shape, Quotients(shape, b_shape));
  KILN_ASSIGN_OR_RETURN(const Split split, SplitShard(sum, a_shape, b_shape));
  KILN_ASSIGN_OR_RETURN(const Layout a, Summand(sum, b, split.outer));
  return Confirmed(DirectSum(a, a_shape, b, b_shape), sum, a);
}

absl::StatusOr<Layout> RightSummand(const Layout& given, absl::Span<const int64_t> shape,
                                    const Layout& a, absl::Span<const int64_t> a_shape) {
  const Layout sum = SplitLike(given, a);
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> b_shape, Quotients(shape, a_shape));
  KILN_ASSIGN_OR_RETURN(const Split split, SplitShard(sum, a_shape, b_shape));
  KILN_ASSIGN_OR_RETURN(const Layout b, Summand(sum, a, split.inner));
  return Confirmed(DirectSum(a, a_shape, b, b_shape), sum, b);
}

}  // namespace kiln::layout

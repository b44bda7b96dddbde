#include "compiler/layout/pack.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/layout/factor.h"
#include "compiler/layout/integers.h"
#include "compiler/layout/table.h"

namespace kiln::layout {
namespace {

constexpr int64_t kMaxCondense = 1 << 16;

absl::StatusOr<std::vector<SwizzleLayout>> WithRun(std::vector<SwizzleLayout> swizzles, int64_t n,
                                                   int sign) {
  for (SwizzleLayout& s : swizzles) {
    if (s.axis != Axis::kM || n == 1) continue;
    if (!IsPowerOfTwo(n) || s.per_element + sign * Log2(n) < 0) {
      return Refuse({absl::StrCat("groups of ", n, " under ", s.ToString(),
                                  ": the swizzle keeps runs of ", s.run(), " together"),
                     0,
                     n - 1,
                     {},
                     {}});
    }
    s.per_element += sign * Log2(n);
  }
  return swizzles;
}

Offset OffsetTimes(Offset offset, int64_t n) {
  for (auto& [axis, value] : offset) value *= axis == Axis::kM ? n : 1;
  return offset;
}

// First stride on m that n does not divide, as a refusal naming the element that it moves.
absl::Status CheckMultiples(const Layout& layout, const std::vector<Iter>& shard, int64_t n) {
  int64_t place = 1;
  for (size_t k = shard.size(); k-- > 0;) {
    if (shard[k].axis == Axis::kM && shard[k].extent > 1 && shard[k].stride % n != 0) {
      return Refuse({absl::StrCat("groups of ", n, " are not aligned: stride ", shard[k].stride),
                     place * n,
                     -1,
                     layout.Base(std::min(place * n, layout.size() - 1)),
                     {}});
    }
    place *= shard[k].extent;
  }
  for (const Iter& iter : layout.replica()) {
    if (iter.axis == Axis::kM && iter.extent > 1 && iter.stride % n != 0) {
      return Refuse(
          {absl::StrCat("groups of ", n, " are not aligned in the copies: stride ", iter.stride),
           0,
           -1,
           layout.Base(0),
           {}});
    }
  }
  if (layout.offset(Axis::kM) % n == 0) return absl::OkStatus();
  return Refuse(
      {absl::StrCat("groups of ", n, " are not aligned: offset ", layout.offset(Axis::kM)),
       0,
       -1,
       layout.Base(0),
       {}});
}

}  // namespace

absl::StatusOr<Layout> Unpack(const Layout& layout, int64_t n) {
  if (n < 1 || n > kMaxReach) return BadArgument(absl::StrCat("unpack by ", n));
  KILN_ASSIGN_OR_RETURN(std::vector<SwizzleLayout> swizzles, WithRun(layout.swizzles(), n, 1));
  const auto times = [n](std::vector<Iter> iters) {
    for (Iter& iter : iters) {
      if (iter.axis != Axis::kM) continue;
      if (__builtin_mul_overflow(iter.stride, n, &iter.stride)) iter.stride = INT64_MAX;
    }
    return iters;
  };
  std::vector<Iter> shard = times(layout.shard());
  shard.push_back({n, 1, Axis::kM});
  const auto [low, high] = layout.Range(Axis::kM);
  if (std::max(-low, high) > kMaxReach / n) return BadArgument("unpacked addresses pass 2^60");
  return Layout::FromIters(std::move(shard), times(layout.replica()),
                           OffsetTimes(layout.offset(), n), std::move(swizzles));
}

absl::StatusOr<Layout> Pack(const Layout& layout, int64_t n) {
  if (n < 1) return BadArgument(absl::StrCat("pack by ", n));
  if (n == 1) return layout;
  std::vector<Iter> shard = layout.shard();
  while (!shard.empty() && shard.back().extent == 1) shard.pop_back();
  if (!shard.empty() && shard.back().extent % n != 0) shard = Canonical(layout).shard();
  if (shard.empty() || shard.back().extent % n != 0 || shard.back().stride != 1 ||
      shard.back().axis != Axis::kM) {
    const int64_t second = std::min<int64_t>(layout.size(), n) - 1;
    return Refuse(
        {absl::StrCat("groups of ", n, " are not consecutive on m in ", layout.ToString()), 0,
         second, layout.Base(0), layout.Base(second)});
  }
  shard.back() = {shard.back().extent / n, n, Axis::kM};
  KILN_RETURN_IF_ERROR(CheckMultiples(layout, shard, n));
  KILN_ASSIGN_OR_RETURN(std::vector<SwizzleLayout> swizzles, WithRun(layout.swizzles(), n, -1));
  const auto divided = [n](std::vector<Iter> iters) {
    for (Iter& iter : iters) iter.stride /= iter.axis == Axis::kM ? n : 1;
    return iters;
  };
  Offset offset = layout.offset();
  for (auto& [axis, value] : offset) value /= axis == Axis::kM ? n : 1;
  return Layout::FromIters(divided(std::move(shard)), divided(layout.replica()), std::move(offset),
                           std::move(swizzles));
}

absl::StatusOr<Layout> Storage(const Layout& layout) {
  const auto gone = [](Axis axis) {
    const AxisKind kind = InfoOf(axis).kind;
    return kind == AxisKind::kThread || kind == AxisKind::kGrid || kind == AxisKind::kCluster;
  };
  const auto keep = [&](const std::vector<Iter>& iters) {
    std::vector<Iter> kept;
    for (const Iter& iter : iters) {
      if (!gone(iter.axis)) kept.push_back(iter);
    }
    return kept;
  };
  Offset offset;
  for (const auto& [axis, value] : layout.offset()) {
    if (!gone(axis)) offset.emplace_back(axis, value);
  }
  std::vector<SwizzleLayout> swizzles;
  for (const SwizzleLayout& s : layout.swizzles()) {
    if (!gone(s.axis)) swizzles.push_back(s);
  }
  return Layout::FromIters(keep(layout.shard()), keep(layout.replica()), std::move(offset),
                           std::move(swizzles));
}

absl::StatusOr<Layout> Project(const Layout& layout, absl::Span<const Axis> keep) {
  const auto kept = [&](Axis axis) {
    return std::find(keep.begin(), keep.end(), axis) != keep.end();
  };
  std::vector<Iter> shard = layout.shard();
  for (Iter& iter : shard) {
    if (!kept(iter.axis)) iter = {iter.extent, 0, Axis::kM};
  }
  std::vector<Iter> replica;
  for (const Iter& iter : layout.replica()) {
    if (kept(iter.axis)) replica.push_back(iter);
  }
  Offset offset;
  for (const auto& term : layout.offset()) {
    if (kept(term.first)) offset.push_back(term);
  }
  std::vector<SwizzleLayout> swizzles;
  for (const SwizzleLayout& s : layout.swizzles()) {
    if (kept(s.axis)) swizzles.push_back(s);
  }
  return Layout::FromIters(std::move(shard), std::move(replica), std::move(offset),
                           std::move(swizzles));
}

absl::StatusOr<Layout> Replicate(const Layout& layout, int64_t n, Axis axis, int64_t stride) {
  std::vector<Iter> replica = layout.replica();
  replica.push_back({n, stride, axis});
  return Layout::FromIters(layout.shard(), std::move(replica), layout.offset(), layout.swizzles());
}

namespace {

// The distinct shifts of the copies as a grid from zero; the iters as they are when that is none.
std::vector<Iter> DistinctGrid(const std::vector<Iter>& replica) {
  const Layout copies = *Layout::FromIters({}, replica);
  if (copies.copies() > kMaxCondense) return replica;
  std::set<Coord> distinct;
  for (const Coord& point : copies.Apply(0)) distinct.insert(point);
  const std::vector<Coord> points(distinct.begin(), distinct.end());
  if (static_cast<int64_t>(points.size()) == copies.copies()) return replica;
  if (!(points[0] == Coord())) return replica;  // Base() would move
  std::vector<int64_t> columns;
  for (const Axis axis : copies.axes()) {
    for (const Coord& point : points) columns.push_back(point[axis]);
  }
  const auto table =
      Table::FromColumns(static_cast<int64_t>(points.size()), 1, copies.axes(), std::move(columns));
  if (!table.ok()) return replica;
  const auto grid = Factor(*table, {.swizzles = false});
  return grid.ok() ? grid->shard() : replica;
}

}  // namespace

Layout Condense(const Layout& layout) {
  std::vector<Iter> replica;
  for (const Iter& iter : layout.replica()) {
    if (iter.extent > 1 && iter.stride != 0) replica.push_back(iter);
  }
  replica = DistinctGrid(replica);
  const Layout condensed =
      *Layout::FromIters(layout.shard(), std::move(replica), layout.offset(), layout.swizzles());
  const Layout merged = Canonical(condensed);
  return *Layout::FromIters(layout.shard(), merged.replica(), layout.offset(), layout.swizzles());
}

}  // namespace kiln::layout

#include "compiler/layout/scopes.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/layout/factor.h"
#include "compiler/layout/integers.h"
#include "compiler/layout/table.h"

namespace kiln::layout {
namespace {

bool Has(const Layout& layout, Axis axis) {
  return std::binary_search(layout.axes().begin(), layout.axes().end(), axis);
}

// An iter on the split axis as at most two, the inner one within [0, n); nullopt when it straddles.
std::optional<std::vector<Iter>> SplitIter(const Iter& iter, int64_t n, Axis high, Axis low) {
  if (iter.stride % n == 0) return std::vector<Iter>{{iter.extent, iter.stride / n, high}};
  if (iter.stride < 0) return std::nullopt;
  if (iter.stride * (iter.extent - 1) < n)
    return std::vector<Iter>{{iter.extent, iter.stride, low}};
  if (n % iter.stride != 0 || iter.extent % (n / iter.stride) != 0) return std::nullopt;
  const int64_t inside = n / iter.stride;
  return std::vector<Iter>{{iter.extent / inside, 1, high}, {inside, iter.stride, low}};
}

std::optional<std::vector<Iter>> SplitIters(const std::vector<Iter>& iters, Axis axis, int64_t n,
                                            Axis high, Axis low) {
  std::vector<Iter> result;
  for (const Iter& iter : iters) {
    if (iter.axis != axis || iter.extent == 1) {
      result.push_back(iter.axis == axis ? Iter{1, 1, low} : iter);
      continue;
    }
    const auto parts = SplitIter(iter, n, high, low);
    if (!parts.has_value()) return std::nullopt;
    result.insert(result.end(), parts->begin(), parts->end());
  }
  return result;
}

absl::StatusOr<Layout> SplitByTable(const Layout& layout, Axis axis, int64_t n, Axis high,
                                    Axis low) {
  KILN_ASSIGN_OR_RETURN(const Table table, Table::Of(layout));
  std::vector<Axis> axes;
  for (const Axis a : table.axes()) {
    if (a != axis) axes.push_back(a);
  }
  axes.push_back(high);
  axes.push_back(low);
  std::sort(axes.begin(), axes.end());
  std::vector<int64_t> columns;
  for (const Axis a : axes) {
    const bool part = a == high || a == low;
    for (int64_t q = 0; q < table.copies(); ++q) {
      for (const int64_t v : table.column(part ? axis : a, q)) {
        columns.push_back(!part ? v : a == high ? FloorDiv(v, n) : FloorMod(v, n));
      }
    }
  }
  KILN_ASSIGN_OR_RETURN(const Table split,
                        Table::FromColumns(table.size(), table.copies(), axes, std::move(columns)));
  return Factor(split);
}

}  // namespace

absl::StatusOr<ScopeSpan> ScopeOf(const Layout& layout) { return SpanOfScopes(layout.axes()); }

absl::StatusOr<Layout> FuseThreadAxes(const Layout& layout) {
  KILN_ASSIGN_OR_RETURN(const ScopeSpan span, ScopeOf(layout));
  if (span.outer == Scope::kNone) return Canonical(layout);
  KILN_ASSIGN_OR_RETURN(const Axis to, AxisOfScopes(span));
  const int64_t unit = InfoOf(to).threads;
  if (!std::all_of(layout.swizzles().begin(), layout.swizzles().end(),
                   [&](const SwizzleLayout& s) { return !IsThread(s.axis) || s.axis == to; })) {
    return BadArgument("a swizzle on a thread axis does not survive fusion");
  }
  for (const Axis axis : layout.axes()) {
    const auto [low, high] = layout.Range(axis);
    if (IsThread(axis) && std::max(-low, high) > kMaxReach / 128) {
      return BadArgument(absl::StrCat("coordinates on ", NameOf(axis), " pass 2^53"));
    }
  }
  const auto fuse = [&](std::vector<Iter> iters) {
    for (Iter& iter : iters) {
      if (!IsThread(iter.axis)) continue;
      if (iter.extent == 1) iter.stride = 0;
      iter.stride *= InfoOf(iter.axis).threads / unit;
      iter.axis = to;
    }
    return iters;
  };
  Offset offset = layout.offset();
  for (auto& [axis, value] : offset) {
    if (!IsThread(axis)) continue;
    value *= InfoOf(axis).threads / unit;
    axis = to;
  }
  KILN_ASSIGN_OR_RETURN(const Layout fused,
                        Layout::FromIters(fuse(layout.shard()), fuse(layout.replica()),
                                          std::move(offset), layout.swizzles()));
  return Canonical(fused);
}

absl::StatusOr<Layout> OnBlock(const Layout& layout, int64_t threads) {
  KILN_ASSIGN_OR_RETURN(const Layout fused, FuseThreadAxes(layout));
  const auto& axes = fused.axes();
  const auto narrow = std::find_if(axes.begin(), axes.end(), [](Axis axis) {
    return axis == Axis::kTidInWg || axis == Axis::kLaneid;
  });
  if (narrow == axes.end()) return fused;
  const int64_t span = *narrow == Axis::kLaneid ? 32 : 128;
  if (threads != 0 && threads != span) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the layout is on ", NameOf(*narrow), ", ", span, " threads, and the block has ", threads,
        ": say which of them, on tx, or on warpid or wgid as well"));
  }
  const auto renamed = [&](std::vector<Iter> iters) {
    for (Iter& iter : iters) iter.axis = iter.axis == *narrow ? Axis::kTx : iter.axis;
    return iters;
  };
  Offset offset = fused.offset();
  for (auto& [axis, value] : offset) axis = axis == *narrow ? Axis::kTx : axis;
  return Layout::FromIters(renamed(fused.shard()), renamed(fused.replica()), std::move(offset),
                           fused.swizzles());
}

absl::StatusOr<Layout> SplitAxis(const Layout& layout, Axis axis, int64_t n, Axis high, Axis low) {
  if (n < 1 || high == low || high == axis || low == axis) {
    return BadArgument(absl::StrCat("cannot split ", NameOf(axis), " by ", n, " into ",
                                    NameOf(high), " and ", NameOf(low)));
  }
  if (Has(layout, high) || Has(layout, low)) {
    return BadArgument(absl::StrCat("the layout already counts ", NameOf(high), " or ", NameOf(low),
                                    ": ", layout.ToString()));
  }
  if (!Has(layout, axis)) return layout;
  const auto shard = SplitIters(layout.shard(), axis, n, high, low);
  const auto replica = SplitIters(layout.replica(), axis, n, high, low);
  if (!shard.has_value() || !replica.has_value() || layout.swizzle(axis) != nullptr) {
    return SplitByTable(layout, axis, n, high, low);
  }
  Offset offset;
  for (const auto& [a, value] : layout.offset()) {
    if (a != axis) offset.emplace_back(a, value);
  }
  offset.emplace_back(high, FloorDiv(layout.offset(axis), n));
  offset.emplace_back(low, FloorMod(layout.offset(axis), n));
  KILN_ASSIGN_OR_RETURN(Layout split,
                        Layout::FromIters(*shard, *replica, std::move(offset), layout.swizzles()));
  const auto [smallest, largest] = split.Range(low);
  if (smallest < 0 || largest >= n) return SplitByTable(layout, axis, n, high, low);
  return split;
}

Layout SplitLike(const Layout& layout, const Layout& like) {
  Layout result = layout;
  const auto try_split = [&](Axis axis, int64_t n, Axis high, Axis low) {
    if (!Has(result, axis) || Has(like, axis) || (!Has(like, high) && !Has(like, low))) return;
    if (Has(result, high) || Has(result, low)) return;
    if (auto split = SplitAxis(result, axis, n, high, low); split.ok()) result = *split;
  };
  const bool wide =
      Has(like, Axis::kWgid) || Has(like, Axis::kTidInWg) || Has(like, Axis::kWidInWg);
  if (wide && Has(result, Axis::kTx) && !Has(like, Axis::kTx)) {
    if (auto s = SplitAxis(result, Axis::kTx, 128, Axis::kWgid, Axis::kTidInWg); s.ok()) {
      result = *s;
    }
  }
  try_split(Axis::kTx, 32, Axis::kWarpid, Axis::kLaneid);
  try_split(Axis::kTidInWg, 32, Axis::kWidInWg, Axis::kLaneid);
  try_split(Axis::kWarpid, 4, Axis::kWgid, Axis::kWidInWg);
  return result;
}

}  // namespace kiln::layout

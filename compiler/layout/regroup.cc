#include "compiler/layout/regroup.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/status.h"
#include "compiler/layout/integers.h"

namespace kiln::layout {
namespace {

constexpr int64_t kWitnessSearch = 1 << 20;

absl::Status CheckShape(const Layout& layout, absl::Span<const int64_t> shape) {
  if (CheckedProduct(shape) == layout.size()) return absl::OkStatus();
  return BadArgument(absl::StrCat("shape (", absl::StrJoin(shape, ","), ") does not have the ",
                                  layout.size(), " elements of ", layout.ToString()));
}

// An element that shows that the function does not split at `place`.
absl::Status Inseparable(const Layout& layout, int64_t place) {
  const Layout tile = TileLayout(layout);
  const int64_t end = std::min(tile.size(), kWitnessSearch);
  const size_t axes = tile.axes().size();
  std::vector<int64_t> here(axes), high(axes), low(axes), zero(axes);
  tile.Evaluate(0, 0, zero.data());
  for (int64_t x = place; x < end; ++x) {
    tile.Evaluate(x, 0, here.data());
    tile.Evaluate(x - x % place, 0, high.data());
    tile.Evaluate(x % place, 0, low.data());
    for (size_t a = 0; a < axes; ++a) {
      const int64_t forced = high[a] + low[a] - zero[a];
      if (here[a] == forced) continue;
      Coord expected = tile.Base(x);
      expected.Set(tile.axes()[a], forced);
      return Refuse({absl::StrCat("no dimension boundary at ", place, " elements of ",
                                  layout.ToString(), ": position above and below do not add up"),
                     x, -1, tile.Base(x), expected});
    }
  }
  return Refuse(
      {absl::StrCat("no dimension boundary at ", place, " elements of ", layout.ToString()),
       place,
       -1,
       {},
       {}});
}

// Splits the iters at every place of `places` (divisors of the size, any order). The iters stay in
// order; unit iters stay where they are.
absl::StatusOr<std::vector<Iter>> SplitAt(const Layout& layout, const std::vector<Iter>& shard,
                                          std::vector<int64_t> places) {
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  std::vector<Iter> fastest_first;
  int64_t below = 1;
  for (size_t k = shard.size(); k-- > 0;) {
    const int64_t above = below * shard[k].extent;
    int64_t done = below;
    for (const int64_t place : places) {
      if (place <= below || place >= above) continue;
      if (place % done != 0 || above % place != 0) return Inseparable(layout, place);
      fastest_first.push_back({place / done, shard[k].stride * (done / below), shard[k].axis});
      done = place;
    }
    fastest_first.push_back({above / done, shard[k].stride * (done / below), shard[k].axis});
    below = above;
  }
  std::reverse(fastest_first.begin(), fastest_first.end());
  return fastest_first;
}

std::vector<int64_t> PlacesOf(absl::Span<const int64_t> shape) {
  std::vector<int64_t> places;
  int64_t place = 1;
  for (size_t d = shape.size(); d-- > 0;) places.push_back(place *= shape[d]);
  return places;
}

// Splits as given and, where digits that belong together are in the way, after merging them.
absl::StatusOr<std::vector<Iter>> SplitOrMerge(const Layout& layout,
                                               const std::vector<int64_t>& places) {
  absl::StatusOr<std::vector<Iter>> split = SplitAt(layout, layout.shard(), places);
  if (split.ok()) return split;
  return SplitAt(layout, Canonical(layout).shard(), places);
}

// Owner dimension boundaries: the iters from the fast end, dimension by dimension. A unit dimension
// takes one unit iter when there is one to take; what is left over goes to the slowest dimension.
std::vector<int> Separators(const std::vector<Iter>& shard, absl::Span<const int64_t> shape) {
  std::vector<int> separators(shape.size() + 1, static_cast<int>(shard.size()));
  size_t at = shard.size();
  for (size_t d = shape.size(); d-- > 0;) {
    int64_t left = shape[d];
    if (left == 1 && at > 0 && shard[at - 1].extent == 1) --at;
    while (left > 1) left /= shard[--at].extent;
    separators[d] = static_cast<int>(d == 0 ? 0 : at);
  }
  return separators;
}

absl::StatusOr<Layout> WithShard(const Layout& layout, std::vector<Iter> shard) {
  return Layout::FromIters(std::move(shard), layout.replica(), layout.offset(), layout.swizzles());
}

}  // namespace

absl::StatusOr<Grouped> Group(const Layout& layout, absl::Span<const int64_t> shape) {
  KILN_RETURN_IF_ERROR(CheckShape(layout, shape));
  if (shape.empty()) return Grouped{*WithShard(layout, {}), {0}};
  KILN_ASSIGN_OR_RETURN(std::vector<Iter> shard, SplitOrMerge(layout, PlacesOf(shape)));
  Grouped grouped;
  grouped.separators = Separators(shard, shape);
  KILN_ASSIGN_OR_RETURN(grouped.layout, WithShard(layout, std::move(shard)));
  return grouped;
}

absl::StatusOr<GroupedMany> GroupMany(const Layout& layout,
                                      absl::Span<const std::vector<int64_t>> shapes) {
  std::vector<int64_t> places;
  std::map<int64_t, int> units;  // place -> unit dimensions wanted there
  for (const std::vector<int64_t>& shape : shapes) {
    KILN_RETURN_IF_ERROR(CheckShape(layout, shape));
    std::map<int64_t, int> wanted;
    int64_t place = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      if (shape[d] == 1) ++wanted[place];
      places.push_back(place *= shape[d]);
    }
    for (const auto& [at, count] : wanted) units[at] = std::max(units[at], count);
  }
  KILN_ASSIGN_OR_RETURN(const std::vector<Iter> split, SplitOrMerge(layout, places));
  std::vector<Iter> fastest_first;
  int64_t place = 1;
  int present = 0;
  const auto fill = [&](const Iter& next) {  // the missing unit iters below the digit at `place`
    const auto it = units.find(place);
    for (int i = present; it != units.end() && i < it->second; ++i) {
      fastest_first.push_back({1, next.stride, next.axis});
    }
    present = 0;
  };
  for (size_t k = split.size(); k-- > 0;) {
    if (split[k].extent == 1) {
      ++present;
    } else {
      fill(split[k]);
      place *= split[k].extent;
    }
    fastest_first.push_back(split[k]);
  }
  const Iter top = fastest_first.empty() ? Iter{1, 1, Axis::kM} : fastest_first.back();
  fill({1, top.stride * top.extent, top.axis});
  std::reverse(fastest_first.begin(), fastest_first.end());
  GroupedMany grouped;
  for (const std::vector<int64_t>& shape : shapes) {
    grouped.separators.push_back(Separators(fastest_first, shape));
  }
  KILN_ASSIGN_OR_RETURN(grouped.layout, WithShard(layout, std::move(fastest_first)));
  return grouped;
}

absl::StatusOr<std::pair<Layout, Layout>> Refine(const Layout& a, const Layout& b) {
  if (a.size() != b.size()) {
    return BadArgument(absl::StrCat("layouts of ", a.size(), " and ", b.size(),
                                    " elements have no common digits"));
  }
  const Layout x = Canonical(a);
  const Layout y = Canonical(b);
  const auto places = [](const Layout& l) {
    std::vector<int64_t> extents;
    for (const Iter& iter : l.shard()) extents.push_back(iter.extent);
    return PlacesOf(extents);
  };
  KILN_ASSIGN_OR_RETURN(std::vector<Iter> left, SplitAt(x, x.shard(), places(y)));
  KILN_ASSIGN_OR_RETURN(std::vector<Iter> right, SplitAt(y, y.shard(), places(x)));
  KILN_ASSIGN_OR_RETURN(Layout first, WithShard(x, std::move(left)));
  KILN_ASSIGN_OR_RETURN(Layout second, WithShard(y, std::move(right)));
  KILN_CHECK(first.shard().size() == second.shard().size());
  return std::make_pair(std::move(first), std::move(second));
}

absl::StatusOr<Layout> Permute(const Layout& layout, absl::Span<const int64_t> shape,
                               absl::Span<const int> perm) {
  std::vector<int> sorted(perm.begin(), perm.end());
  std::sort(sorted.begin(), sorted.end());
  for (size_t d = 0; d < sorted.size(); ++d) {
    if (sorted[d] != static_cast<int>(d) || sorted.size() != shape.size()) {
      return BadArgument(absl::StrCat("(", absl::StrJoin(perm, ","), ") is not a permutation of ",
                                      shape.size(), " dimensions"));
    }
  }
  if (perm.size() != shape.size()) return BadArgument("permutation and shape differ in rank");
  KILN_ASSIGN_OR_RETURN(const Grouped grouped, Group(layout, shape));
  std::vector<Iter> shard;
  for (const int d : perm) {
    const std::vector<Iter> group = grouped.group(d);
    shard.insert(shard.end(), group.begin(), group.end());
  }
  return WithShard(layout, std::move(shard));
}

absl::StatusOr<Layout> Broadcast(const Layout& layout, absl::Span<const int64_t> shape, int64_t n,
                                 size_t position, Axis axis) {
  if (position > shape.size()) {
    return BadArgument(absl::StrCat("no position ", position, " in ", shape.size(), " dimensions"));
  }
  KILN_ASSIGN_OR_RETURN(const Grouped grouped, Group(layout, shape));
  std::vector<Iter> shard = grouped.layout.shard();
  shard.insert(shard.begin() + grouped.separators[position], Iter{n, 0, axis});
  return WithShard(layout, std::move(shard));
}

}  // namespace kiln::layout

#include "compiler/layout/contain.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/layout/pack.h"
#include "compiler/layout/regroup.h"

namespace kiln::layout {
namespace {

Coord Plus(const Coord& a, const Coord& b, int64_t sign) {
  Coord sum = a;
  for (const auto& [axis, value] : b.values()) sum.Set(axis, sum[axis] + sign * value);
  return sum;
}

Coord OffsetOf(const Layout& layout) { return Coord({layout.offset()}); }

std::vector<Coord> Shifts(const Layout& layout) {
  const auto copies = Layout::FromIters({}, layout.replica());
  return copies->Apply(0);
}

// A shift between the two base points, and an element that has it.
using Differences = std::map<Coord, int64_t>;

// Every D_a(x) - D_b(x), until there are more than `enough`; nullopt without a common refinement.
std::optional<Differences> SymbolicDifferences(const Layout& a, const Layout& b, size_t enough) {
  const auto refined = Refine(TileLayout(a), TileLayout(b));
  if (!refined.ok()) return std::nullopt;
  Differences differences = {{Coord(), 0}};
  int64_t place = 1;
  const auto& x = refined->first.shard();
  const auto& y = refined->second.shard();
  for (size_t k = x.size(); k-- > 0;) {
    Coord step;
    step.Set(x[k].axis, x[k].stride);
    step.Set(y[k].axis, step[y[k].axis] - y[k].stride);
    if (!(step == Coord()) && x[k].extent > 1) {
      Differences next;
      for (const auto& [shift, element] : differences) {
        Coord moved = shift;
        for (int64_t c = 0; c < x[k].extent && next.size() <= enough; ++c) {
          next.emplace(moved, element + c * place);
          moved = Plus(moved, step, 1);
        }
      }
      differences = std::move(next);
      if (differences.size() > enough) return differences;
    }
    place *= x[k].extent;
  }
  return differences;
}

Differences EnumeratedDifferences(const Layout& a, const Layout& b, size_t enough) {
  const Layout x = TileLayout(a);
  const Layout y = TileLayout(b);
  const Coord origin = Plus(x.Base(0), y.Base(0), -1);
  Differences differences;
  for (int64_t i = 0; i < x.size() && differences.size() <= enough; ++i) {
    differences.emplace(Plus(Plus(x.Base(i), y.Base(i), -1), origin, -1), i);
  }
  return differences;
}

Differences AllDifferences(const Layout& a, const Layout& b, size_t enough) {
  if (auto symbolic = SymbolicDifferences(a, b, enough)) return *std::move(symbolic);
  return EnumeratedDifferences(a, b, enough);
}

Witness At(absl::string_view reason, int64_t element, const Coord& at, const Coord& other) {
  return {std::string(reason), element, -1, at, other};
}

std::optional<Witness> SizeMismatch(const Layout& a, const Layout& b) {
  if (a.size() == b.size()) return std::nullopt;
  return Witness{
      absl::StrCat("layouts of ", a.size(), " and ", b.size(), " elements"), -1, -1, {}, {}};
}

std::optional<Witness> NotContainedByTable(const Layout& small, const Layout& big) {
  for (int64_t x = 0; x < small.size(); ++x) {
    const std::vector<Coord> have = big.Apply(x);
    const std::set<Coord> set(have.begin(), have.end());
    for (const Coord& point : small.Apply(x)) {
      if (set.count(point) == 0) return At("not owned", x, point, have[0]);
    }
  }
  return std::nullopt;
}

Coord Swizzled(const Layout& layout, Coord point) {
  for (const SwizzleLayout& s : layout.swizzles()) point.Set(s.axis, s(point[s.axis]));
  return point;
}

}  // namespace

std::optional<Witness> FindNotContained(const Layout& small, const Layout& big) {
  if (auto mismatch = SizeMismatch(small, big)) return mismatch;
  if (small.swizzles() != big.swizzles()) return NotContainedByTable(small, big);
  const std::vector<Coord> copies = Shifts(small);
  const std::vector<Coord> have = Shifts(big);
  const std::set<Coord> owners(have.begin(), have.end());
  const Coord offset = Plus(OffsetOf(small), OffsetOf(big), -1);
  // More distinct shifts than owners cannot all fit, so one more than that decides.
  for (const auto& [shift, element] : AllDifferences(small, big, owners.size())) {
    const Coord moved = Plus(shift, offset, 1);
    for (const Coord& copy : copies) {
      if (owners.count(Plus(moved, copy, 1)) > 0) continue;
      const Coord base = Plus(TileLayout(small).Base(element), copy, 1);
      return At("not owned", element, Swizzled(small, base), big.Base(element));
    }
  }
  return std::nullopt;
}

std::optional<Witness> FindDifference(const Layout& a, const Layout& b) {
  if (auto mismatch = SizeMismatch(a, b)) return mismatch;
  if (a.swizzles() != b.swizzles()) {
    const int64_t copies = std::max(a.copies(), b.copies());
    for (int64_t x = 0; x < a.size(); ++x) {
      if (!(a.Base(x) == b.Base(x))) return At("two places", x, a.Base(x), b.Base(x));
      if (copies == 1) continue;
      std::vector<Coord> p = a.Apply(x);
      std::vector<Coord> q = b.Apply(x);
      std::sort(p.begin(), p.end());
      std::sort(q.begin(), q.end());
      if (p != q) return At("other copies", x, a.Base(x), b.Base(x));
    }
    return std::nullopt;
  }
  if (!(OffsetOf(a) == OffsetOf(b))) return At("two places", 0, a.Base(0), b.Base(0));
  for (const auto& [shift, element] : AllDifferences(a, b, 1)) {
    if (!(shift == Coord())) return At("two places", element, a.Base(element), b.Base(element));
  }
  std::vector<Coord> p = Shifts(a);
  std::vector<Coord> q = Shifts(b);
  std::sort(p.begin(), p.end());
  std::sort(q.begin(), q.end());
  if (p != q) return At("other copies", 0, a.Base(0), b.Base(0));
  return std::nullopt;
}

namespace {

// Whether some element has a point that both layouts give it.
bool Meet(const Layout& a, const Layout& b) {
  if (a.swizzles() != b.swizzles()) {
    for (int64_t x = 0; x < a.size(); ++x) {
      const std::vector<Coord> have = b.Apply(x);
      const std::set<Coord> set(have.begin(), have.end());
      for (const Coord& point : a.Apply(x)) {
        if (set.count(point) > 0) return true;
      }
    }
    return false;
  }
  const std::vector<Coord> have = Shifts(b);
  const std::set<Coord> owners(have.begin(), have.end());
  const Coord offset = Plus(OffsetOf(a), OffsetOf(b), -1);
  for (const auto& [shift, element] : AllDifferences(a, b, a.size())) {
    for (const Coord& copy : Shifts(a)) {
      if (owners.count(Plus(Plus(shift, offset, 1), copy, 1)) > 0) return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<Relation> Compare(const Layout& first, const Layout& second,
                                 absl::Span<const Axis> on) {
  if (auto mismatch = SizeMismatch(first, second)) return BadArgument(mismatch->reason);
  Layout a = first;
  Layout b = second;
  if (!on.empty()) {
    KILN_ASSIGN_OR_RETURN(a, Project(first, on));
    KILN_ASSIGN_OR_RETURN(b, Project(second, on));
  }
  const bool inside = Contains(b, a);
  const bool outside = Contains(a, b);
  if (inside && outside) return Relation::kEqual;
  if (inside) return Relation::kSubset;
  if (outside) return Relation::kSuperset;
  return Meet(a, b) ? Relation::kOverlap : Relation::kDisjoint;
}

}  // namespace kiln::layout

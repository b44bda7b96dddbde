#include "compiler/layout/slice.h"

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/layout/factor.h"
#include "compiler/layout/regroup.h"
#include "compiler/layout/table.h"

namespace kiln::layout {
namespace {

absl::Status CheckRegion(absl::Span<const int64_t> shape, absl::Span<const Interval> region) {
  if (shape.size() != region.size()) {
    return BadArgument(
        absl::StrCat("a region of rank ", region.size(), " in a shape of rank ", shape.size()));
  }
  for (size_t d = 0; d < shape.size(); ++d) {
    const Interval& r = region[d];
    if (r.begin < 0 || r.extent < 1 || r.extent > shape[d] - r.begin) {
      return BadArgument(absl::StrCat("dimension ", d, ": [", r.begin, ", ", r.begin + r.extent,
                                      ") is not inside [0, ", shape[d], ")"));
    }
  }
  return absl::OkStatus();
}

// One dimension's digits cut to an interval: whole digits at the fast end stay symbolic, the rest
// is read off the values.
absl::StatusOr<Layout> CutDimension(const std::vector<Iter>& group, const Interval& interval) {
  KILN_ASSIGN_OR_RETURN(const Layout dimension, Layout::FromIters(group));
  std::vector<Iter> digits = Canonical(dimension).shard();
  std::vector<Iter> kept;
  Interval left = interval;
  while (digits.size() > 1 && left.begin % digits.back().extent == 0 &&
         left.extent % digits.back().extent == 0) {
    kept.insert(kept.begin(), digits.back());
    left = {left.begin / digits.back().extent, left.extent / digits.back().extent};
    digits.pop_back();
  }
  KILN_ASSIGN_OR_RETURN(const Layout rest, Layout::FromIters(digits));
  Offset offset;
  const Coord start = rest.Base(left.begin);
  for (const auto& [axis, value] : start.values()) offset.emplace_back(axis, value);
  if (digits.size() == 1) {
    kept.insert(kept.begin(), Iter{left.extent, digits[0].stride, digits[0].axis});
    return Layout::FromIters(std::move(kept), {}, std::move(offset));
  }
  if (left.extent == 1) return Layout::FromIters(std::move(kept), {}, std::move(offset));
  const int64_t axes = static_cast<int64_t>(rest.axes().size());
  if (left.extent > Table::kMaxCells / axes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a cut of ", left.extent, " positions across digits passes 2^27 cells"));
  }
  std::vector<int64_t> values(rest.axes().size());
  std::vector<int64_t> columns(rest.axes().size() * left.extent);
  for (int64_t i = 0; i < left.extent; ++i) {
    rest.Evaluate(left.begin + i, 0, values.data());
    for (size_t a = 0; a < values.size(); ++a) columns[a * left.extent + i] = values[a];
  }
  KILN_ASSIGN_OR_RETURN(const Table table,
                        Table::FromColumns(left.extent, 1, rest.axes(), std::move(columns)));
  KILN_ASSIGN_OR_RETURN(const Layout cut, Factor(table, {.swizzles = false}));
  kept.insert(kept.begin(), cut.shard().begin(), cut.shard().end());
  return Layout::FromIters(std::move(kept), {}, std::move(offset));
}

}  // namespace

absl::StatusOr<Layout> Slice(const Layout& layout, absl::Span<const int64_t> shape,
                             absl::Span<const Interval> region) {
  KILN_RETURN_IF_ERROR(CheckRegion(shape, region));
  KILN_ASSIGN_OR_RETURN(const Grouped grouped, Group(layout, shape));
  std::vector<Iter> shard;
  Offset offset = layout.offset();
  int64_t below = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    absl::StatusOr<Layout> cut = CutDimension(grouped.group(d), region[d]);
    if (!cut.ok()) {
      std::optional<Witness> witness = WitnessOf(cut.status());
      if (!witness.has_value()) return cut.status();
      witness->reason =
          absl::StrCat("the region [", region[d].begin, ", ", region[d].begin + region[d].extent,
                       ") of dimension ", d, " of ", layout.ToString(), " is ", witness->reason);
      if (witness->element >= 0) witness->element *= below;
      return Refuse(*witness);
    }
    shard.insert(shard.begin(), cut->shard().begin(), cut->shard().end());
    offset.insert(offset.end(), cut->offset().begin(), cut->offset().end());
    below *= region[d].extent;
  }
  return Layout::FromIters(std::move(shard), layout.replica(), std::move(offset),
                           layout.swizzles());
}

}  // namespace kiln::layout

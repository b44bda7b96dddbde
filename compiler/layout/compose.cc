#include "compiler/layout/compose.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/layout/factor.h"
#include "compiler/layout/table.h"

namespace kiln::layout {
namespace {

// A walk of the outer's digits: extent steps, each moving outer digit `digit` by `by`.
struct Walk {
  int64_t extent;
  size_t digit;
  int64_t by;
};

// An index iter as walks of single outer digits, slowest first; nullopt when it carries unevenly.
std::optional<std::vector<Walk>> WalksOf(Iter iter, const std::vector<Iter>& outer) {
  std::vector<Walk> fastest_first;
  if (iter.stride <= 0) return std::nullopt;
  int64_t place = 1;
  for (size_t j = outer.size(); j-- > 0 && iter.extent > 1;) {
    const int64_t above = place * outer[j].extent;
    if (iter.stride >= above) {
      place = above;
      continue;
    }
    if (iter.stride % place != 0) return std::nullopt;
    const int64_t by = iter.stride / place;
    if (by * (iter.extent - 1) < outer[j].extent) {
      fastest_first.push_back({iter.extent, j, by});
      iter.extent = 1;
      break;
    }
    if (outer[j].extent % by != 0) return std::nullopt;
    const int64_t turn = outer[j].extent / by;
    if (iter.extent % turn != 0) return std::nullopt;
    fastest_first.push_back({turn, j, by});
    iter.extent /= turn;
    iter.stride = above;
    place = above;
  }
  if (iter.extent > 1) return std::nullopt;
  return std::vector<Walk>(fastest_first.rbegin(), fastest_first.rend());
}

// The composition's shard and offset when no outer digit overflows.
std::optional<Layout> Symbolic(const Layout& outer, const Layout& index) {
  const std::vector<Iter> digits = Canonical(outer).shard();
  std::vector<int64_t> extents;
  for (const Iter& d : digits) extents.push_back(d.extent);
  std::vector<int64_t> reach = Unflatten(index.offset(Axis::kM), extents);
  Offset offset = outer.offset();
  for (size_t j = 0; j < digits.size(); ++j) {
    offset.emplace_back(digits[j].axis, digits[j].stride * reach[j]);
  }
  std::vector<Iter> shard;
  for (const Iter& iter : index.shard()) {
    if (iter.extent == 1 || iter.stride == 0) {
      shard.push_back({iter.extent, 0, Axis::kM});
      continue;
    }
    const auto walks = WalksOf(iter, digits);
    if (!walks.has_value()) return std::nullopt;
    for (const Walk& w : *walks) {
      reach[w.digit] += w.by * (w.extent - 1);
      if (reach[w.digit] >= digits[w.digit].extent) return std::nullopt;
      shard.push_back({w.extent, digits[w.digit].stride * w.by, digits[w.digit].axis});
    }
  }
  const auto composed =
      Layout::FromIters(std::move(shard), outer.replica(), std::move(offset), outer.swizzles());
  if (!composed.ok()) return std::nullopt;
  return *composed;
}

}  // namespace

absl::StatusOr<Layout> Compose(const Layout& outer, const Layout& index) {
  if (index.copies() != 1) return BadArgument("an index layout has no copies");
  for (const Axis axis : index.axes()) {
    if (axis != Axis::kM) {
      return BadArgument(absl::StrCat("an index layout has the axis m only, not ", NameOf(axis)));
    }
  }
  const auto [low, high] = index.Range(Axis::kM);
  const bool plain = index.swizzles().empty();
  if (plain && (low < 0 || high >= outer.size())) {
    return BadArgument(absl::StrCat("indices [", low, ", ", high, "] of ", index.ToString(),
                                    " leave the ", outer.size(), " elements"));
  }
  if (plain) {
    if (auto symbolic = Symbolic(outer, index)) return *std::move(symbolic);
  }
  KILN_ASSIGN_OR_RETURN(const Table access, Table::Of(index));
  const std::vector<int64_t> zeros(index.size(), 0);
  KILN_ASSIGN_OR_RETURN(const Table places, Table::Of(outer));
  KILN_ASSIGN_OR_RETURN(const Table composed,
                        places.Pullback(access.axes().empty() ? absl::MakeConstSpan(zeros)
                                                              : access.column(size_t{0}, 0)));
  return Factor(composed);
}

}  // namespace kiln::layout

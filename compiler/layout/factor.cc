#include "compiler/layout/factor.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/layout/integers.h"

namespace kiln::layout {
namespace {

constexpr int kMaxPerElement = 5;
constexpr int kMaxSwizzleLen = 6;
constexpr int kMaxAtomLen = 10;

struct Column {
  std::vector<Iter> digits;  // fastest last
  std::optional<SwizzleLayout> swizzle;
};

struct Mismatch {
  int64_t element;
  int64_t forced;  // value that the digits below force
};

struct Identity {
  int64_t operator()(int64_t v) const { return v; }
};

// Grows the digit list from the fastest digit; every element is compared once with what the digits
// found so far force. Returns the mismatch that stops it.
template <typename Undo>
std::optional<Mismatch> Probe(absl::Span<const int64_t> values, Axis axis, const Undo& undo,
                              std::vector<Iter>* digits) {
  const int64_t n = static_cast<int64_t>(values.size());
  const int64_t first = undo(values[0]);
  std::vector<Iter> fastest_first;
  for (int64_t place = 1; place < n;) {
    const int64_t stride = undo(values[place]) - first;
    int64_t extent = 2;
    while (extent * place < n && undo(values[extent * place]) == first + extent * stride) ++extent;
    const int64_t end = std::min(n, extent * place);
    for (int64_t c = 1; c * place < end; ++c) {
      const int64_t* block = values.data() + c * place;
      const int64_t length = std::min(place, n - c * place);
      for (int64_t i = 0; i < length; ++i) {
        const int64_t forced = undo(values[i]) + c * stride;
        if (undo(block[i]) != forced) return Mismatch{c * place + i, forced};
      }
    }
    if (n % (extent * place) != 0) {
      return Mismatch{end == n ? n - 1 : end, first + extent * stride};
    }
    fastest_first.push_back({extent, stride, axis});
    place *= extent;
  }
  digits->assign(fastest_first.rbegin(), fastest_first.rend());
  return std::nullopt;
}

// Whether every copy is copy 0 shifted, once the XOR is undone; appends the shifts.
template <typename Undo>
bool CopiesShift(const Table& table, size_t a, const Undo& undo, std::vector<int64_t>* shifts,
                 Mismatch* mismatch, int64_t* copy) {
  const absl::Span<const int64_t> base = table.column(a, 0);
  shifts->assign(1, 0);
  for (int64_t q = 1; q < table.copies(); ++q) {
    const absl::Span<const int64_t> other = table.column(a, q);
    const int64_t shift = undo(other[0]) - undo(base[0]);
    for (int64_t i = 0; i < table.size(); ++i) {
      if (undo(other[i]) - undo(base[i]) == shift) continue;
      *mismatch = {i, undo(base[i]) + shift};
      *copy = q;
      return false;
    }
    shifts->push_back(shift);
  }
  return true;
}

struct Factored {
  Column column;
  int64_t offset = 0;
  std::vector<Iter> copies;

  size_t length() const { return column.digits.size() + copies.size(); }
};

absl::Status NotMixedRadix(const Table& table, size_t a, const Mismatch& m, int64_t copy) {
  Coord forced = table.At(m.element, copy);
  forced.Set(table.axes()[a], m.forced);
  return Refuse({absl::StrCat("not mixed radix on ", NameOf(table.axes()[a]),
                              ": the digits below force another place"),
                 m.element, -1, table.At(m.element, copy), forced});
}

template <typename Undo>
bool TryAxis(const Table& table, size_t a, const Undo& undo, Factored* out, Mismatch* mismatch,
             int64_t* copy) {
  *copy = 0;
  const auto bad = Probe(table.column(a, 0), table.axes()[a], undo, &out->column.digits);
  if (bad.has_value()) {
    *mismatch = *bad;
    return false;
  }
  std::vector<int64_t> shifts;
  if (!CopiesShift(table, a, undo, &shifts, mismatch, copy)) return false;
  if (const auto uneven = Probe(shifts, table.axes()[a], Identity{}, &out->copies)) {
    *copy = uneven->element;
    *mismatch = {0, undo(table.column(a, 0)[0]) + uneven->forced};
    return false;
  }
  out->offset = undo(table.column(a, 0)[0]);
  return true;
}

absl::StatusOr<Factored> FactorAxis(const Table& table, size_t a, const FactorOptions& options) {
  Factored best;
  Mismatch mismatch{};
  int64_t copy = 0;
  if (TryAxis(table, a, Identity{}, &best, &mismatch, &copy)) return best;
  bool found = false;
  if (options.swizzles) {
    for (int len = 1; len <= kMaxSwizzleLen; ++len) {
      for (int code = 0; code < 2 * (kMaxPerElement + 1) * (kMaxAtomLen - len + 1); ++code) {
        const int atoms = kMaxAtomLen - len + 1;
        const SwizzleLayout s{code / 2 / atoms, len, len + code / 2 % atoms, code % 2 == 0,
                              table.axes()[a]};
        Factored candidate;
        Mismatch ignored{};
        int64_t which = 0;
        if (!TryAxis(table, a, s, &candidate, &ignored, &which)) continue;
        candidate.column.swizzle = s;
        if (!found || candidate.length() < best.length()) best = candidate;
        found = true;
      }
    }
  }
  if (!found) return NotMixedRadix(table, a, mismatch, copy);
  return best;
}

// Places (products of extents from the fast end) of a digit list, without 1.
void AddPlaces(const std::vector<Iter>& digits, std::vector<int64_t>* places) {
  int64_t place = 1;
  for (size_t k = digits.size(); k-- > 0;) {
    place *= digits[k].extent;
    places->push_back(place);
  }
}

// Stride of a column's digit list at `place`, which lies in one digit with place | step.
int64_t StrideAt(const std::vector<Iter>& digits, int64_t place, int64_t size) {
  int64_t below = 1;
  for (size_t k = digits.size(); k-- > 0;) {
    if (place < below * digits[k].extent) return digits[k].stride * (place / below);
    below *= digits[k].extent;
  }
  KILN_CHECK(place >= size || below >= size);
  return 0;
}

// One digit list out of one an axis: common places, at most one axis moved by each digit.
absl::StatusOr<std::vector<Iter>> Combine(const std::vector<std::vector<Iter>>& columns,
                                          const std::vector<Axis>& axes, int64_t size,
                                          absl::string_view what) {
  std::vector<int64_t> places = {1};
  for (const auto& digits : columns) AddPlaces(digits, &places);
  places.push_back(size);
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  std::vector<Iter> result;
  for (size_t i = 0; i + 1 < places.size(); ++i) {
    const int64_t place = places[i];
    if (places[i + 1] % place != 0) {
      return Refuse({absl::StrCat("not mixed radix: ", what, " has digits ending at ", place,
                                  " on one axis and at ", places[i + 1], " on another"),
                     place,
                     places[i + 1],
                     {},
                     {}});
    }
    Iter digit{places[i + 1] / place, 0, Axis::kM};
    for (size_t a = 0; a < columns.size(); ++a) {
      const int64_t stride = StrideAt(columns[a], place, size);
      if (stride == 0) continue;
      if (digit.stride != 0) {
        return Refuse({absl::StrCat("a diagonal digit: one step at place ", place, " of the ", what,
                                    " moves ", NameOf(digit.axis), " by ", digit.stride, " and ",
                                    NameOf(axes[a]), " by ", stride),
                       place, -1, Coord({{digit.axis, digit.stride}}), Coord({{axes[a], stride}})});
      }
      digit.stride = stride;
      digit.axis = axes[a];
    }
    result.push_back(digit);
  }
  std::reverse(result.begin(), result.end());
  return result;
}

}  // namespace

absl::StatusOr<std::vector<Iter>> FactorColumn(absl::Span<const int64_t> values, Axis axis) {
  if (values.empty()) return BadArgument("an empty column");
  std::vector<Iter> digits;
  const auto bad = Probe(values, axis, Identity{}, &digits);
  if (!bad.has_value()) return digits;
  return Refuse({"not mixed radix: the digits below force another place", bad->element, -1,
                 Coord({{axis, values[bad->element]}}), Coord({{axis, bad->forced}})});
}

absl::StatusOr<Layout> Factor(const Table& table, const FactorOptions& options) {
  if (table.size() < 1 || table.copies() < 1) return BadArgument("an empty table");
  std::vector<std::vector<Iter>> shard, replica;
  Offset offset;
  std::vector<SwizzleLayout> swizzles;
  for (size_t a = 0; a < table.axes().size(); ++a) {
    KILN_ASSIGN_OR_RETURN(const Factored axis, FactorAxis(table, a, options));
    shard.push_back(axis.column.digits);
    offset.emplace_back(table.axes()[a], axis.offset);
    if (axis.column.swizzle.has_value()) swizzles.push_back(*axis.column.swizzle);
    replica.push_back(axis.copies);
  }
  KILN_ASSIGN_OR_RETURN(std::vector<Iter> digits,
                        Combine(shard, table.axes(), table.size(), "element index"));
  KILN_ASSIGN_OR_RETURN(std::vector<Iter> counters,
                        Combine(replica, table.axes(), table.copies(), "copy index"));
  return Layout::FromIters(std::move(digits), std::move(counters), std::move(offset),
                           std::move(swizzles));
}

}  // namespace kiln::layout

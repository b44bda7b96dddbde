#include "compiler/lang/slice.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/lang/mutable.h"
#include "compiler/lang/raised.h"

namespace kiln::lang {
namespace {

std::string Items(size_t n) { return absl::StrCat(n, n == 1 ? " item" : " items"); }

}  // namespace

int64_t SliceBounds::Count() const {
  const int64_t span = step > 0 ? stop - start : start - stop;
  if (span <= 0) return 0;
  const uint64_t by = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  return static_cast<int64_t>((static_cast<uint64_t>(span) - 1) / by + 1);
}

absl::StatusOr<SliceBounds> BoundsOf(Elaborator& e, const SliceObject& slice, int64_t size,
                                     SourceLoc loc) {
  SliceBounds bounds;
  if (!slice.step.is_none()) {
    KILN_ASSIGN_OR_RETURN(bounds.step, e.ToInt(slice.step, loc, "a slice's step"));
  }
  const bool up = bounds.step > 0;
  if (bounds.step == 0) return e.Error(loc, "a slice's step is zero", "use a step of 1");
  const auto clamp = [&](const Value& v, int64_t otherwise) -> absl::StatusOr<int64_t> {
    if (v.is_none()) return otherwise;
    KILN_ASSIGN_OR_RETURN(int64_t i, e.ToInt(v, loc, "a slice's bound"));
    if (i < 0) i = std::max<int64_t>(i + size, up ? 0 : -1);
    return std::min(i, up ? size : size - 1);
  };
  KILN_ASSIGN_OR_RETURN(bounds.start, clamp(slice.start, up ? 0 : size - 1));
  KILN_ASSIGN_OR_RETURN(bounds.stop, clamp(slice.stop, up ? size : -1));
  return bounds;
}

absl::StatusOr<Value> SliceOfRange(Elaborator& e, const RangeObject& range,
                                   const SliceBounds& bounds, SourceLoc loc) {
  auto* part = e.arena().New<RangeObject>();
  int64_t start, stop;
  if (__builtin_mul_overflow(bounds.start, range.step, &start) ||
      __builtin_add_overflow(start, range.start, &part->start) ||
      __builtin_mul_overflow(bounds.stop, range.step, &stop) ||
      __builtin_add_overflow(stop, range.start, &part->stop) ||
      __builtin_mul_overflow(bounds.step, range.step, &part->step)) {
    return e.Error(loc, "a bound of the range does not fit 64 bits", "use smaller numbers");
  }
  return Value::Of(Type::kRange, part);
}

absl::Status AssignSlice(Elaborator& e, const Value& whole, const SliceObject& slice,
                         const Value& items, SourceLoc loc) {
  SeqObject* const list = &whole.seq();
  KILN_ASSIGN_OR_RETURN(std::vector<Value> given, e.Iterate(items, loc));
  KILN_RETURN_IF_ERROR(CheckMutable(e, whole, loc));
  for (Value& item : given) {
    KILN_ASSIGN_OR_RETURN(item, e.Keep(item, "item", loc));
  }
  const auto size = static_cast<int64_t>(list->items.size());
  KILN_ASSIGN_OR_RETURN(const SliceBounds at, BoundsOf(e, slice, size, loc));
  const auto added = static_cast<int64_t>(given.size());
  KILN_RETURN_IF_ERROR(e.Step(loc, (size + added) / 16));
  KILN_RETURN_IF_ERROR(e.ChargeBytes(loc, 16 * added));
  if (at.step == 1) {
    const auto first = list->items.begin() + at.start;
    const auto kept = list->items.erase(first, first + at.Count());
    list->items.insert(kept, given.begin(), given.end());
    return absl::OkStatus();
  }
  if (added != at.Count()) {
    return Raised(e.Error(loc,
                          absl::StrCat(Items(given.size()), added == 1 ? " is" : " are",
                                       " assigned to a slice of ", Items(at.Count()),
                                       " with a step of ", at.step),
                          "give it as many"),
                  "ValueError");
  }
  for (int64_t i = 0; i < added; ++i) list->items[at.start + i * at.step] = given[i];
  return absl::OkStatus();
}

absl::Status DeleteSlice(Elaborator& e, const Value& whole, const SliceObject& slice,
                         SourceLoc loc) {
  SeqObject* const list = &whole.seq();
  KILN_RETURN_IF_ERROR(CheckMutable(e, whole, loc));
  const auto size = static_cast<int64_t>(list->items.size());
  KILN_ASSIGN_OR_RETURN(const SliceBounds at, BoundsOf(e, slice, size, loc));
  KILN_RETURN_IF_ERROR(e.Step(loc, size / 16));
  std::vector<bool> goes(list->items.size(), false);
  const int64_t count = at.Count();
  for (int64_t i = 0; i < count; ++i) goes[at.start + i * at.step] = true;
  std::vector<Value> left;
  for (size_t i = 0; i < goes.size(); ++i) {
    if (!goes[i]) left.push_back(list->items[i]);
  }
  list->items = std::move(left);
  return absl::OkStatus();
}

}  // namespace kiln::lang

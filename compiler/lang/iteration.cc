#include "compiler/lang/iteration.h"

#include "absl/strings/str_cat.h"

namespace kiln::lang {
namespace {

std::vector<Value> ItemsOf(const Value& container, bool values) {
  if (container.Is(Type::kList)) return container.seq().items;
  std::vector<Value> items;
  for (const auto& [key, value] : container.dict().items) items.push_back(values ? value : key);
  return items;
}

const Object& ObjectOf(const Value& container) {
  if (container.Is(Type::kList)) return container.seq();
  return container.dict();
}

// As Python's `is`, and of numbers their values.
bool IsSame(const Value& a, const Value& b) {
  if (a.type() != b.type()) return false;
  if (a.Is(Type::kFloat)) return a.float_value() == b.float_value();
  return a.is_integer() ? a.int_value() == b.int_value() : a.pointer() == b.pointer();
}

bool MayChange(const Value& v) { return v.Is(Type::kList) || v.Is(Type::kDict); }

}  // namespace

Iteration::Iteration(Value iterable, std::vector<Value> items, SourceLoc loc)
    : iterable_(iterable),
      items_(std::move(items)),
      loc_(loc),
      live_(iterable.Is(Type::kList) && iterable.seq().lazy == Lazy::kNo) {
  if (!iterable.is_sequence()) return;
  for (const Value& source : iterable.seq().sources) {
    if (!MayChange(source)) continue;
    sources_.push_back(
        {source, ObjectOf(source).changes, ItemsOf(source, iterable.seq().shows_values)});
  }
}

absl::StatusOr<Iteration> Iteration::Begin(Elaborator& e, const Value& iterable, SourceLoc loc) {
  KILN_ASSIGN_OR_RETURN(std::vector<Value> items, e.Iterate(iterable, loc));
  return Iteration(iterable, std::move(items), loc);
}

absl::Status Iteration::CheckUnchanged(Elaborator& e, size_t i) {
  KILN_RETURN_IF_ERROR(e.CheckUnchanged(iterable_, items_.size(), loc_));
  for (Source& source : sources_) {
    if (ObjectOf(source.container).changes == source.changes) continue;
    source.changes = ObjectOf(source.container).changes;
    const std::vector<Value> now = ItemsOf(source.container, iterable_.seq().shows_values);
    KILN_RETURN_IF_ERROR(e.Step(loc_, static_cast<int64_t>(now.size())));
    KILN_RETURN_IF_ERROR(e.CheckUnchanged(source.container, source.items.size(), loc_));
    for (size_t at = iterable_.seq().in_order ? i + 1 : 0; at < now.size(); ++at) {
      if (IsSame(now[at], source.items[at])) continue;
      return e.Error(loc_,
                     "a list or dict is changed while a loop goes over what is computed from it, "
                     "and its next items would be others in Python",
                     "go over a copy, as in list(zip(xs, ys)), or change another list");
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln::lang

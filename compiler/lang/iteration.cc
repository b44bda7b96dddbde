#include "compiler/lang/iteration.h"

#include "absl/strings/str_cat.h"

namespace kiln::lang {
namespace {

std::vector<Value> ItemsOf(const LazySource& source) {
  if (source.container.Is(Type::kList)) return source.container.seq().items;
  std::vector<Value> items;
  for (const auto& [key, value] : source.container.dict().items) {
    if (source.view != LazyKind::kValues) items.push_back(key);
    if (source.view != LazyKind::kKeys) items.push_back(value);
  }
  return items;
}

const Object& ObjectOf(const Value& container) {
  if (container.Is(Type::kList)) return container.seq();
  return container.dict();
}

}  // namespace

absl::Status CheckCount(Elaborator& e, const Value& v, size_t count, SourceLoc loc) {
  const bool list = v.Is(Type::kList);
  if (!list && !v.Is(Type::kDict)) return absl::OkStatus();
  if ((list ? v.seq().items.size() : v.dict().items.size()) == count) return absl::OkStatus();
  return e.Error(
      loc,
      absl::StrCat("the ", list ? "list" : "dict", " changes its length while a loop goes over it"),
      "go over a copy, as in for x in list(xs)");
}

Iteration::Iteration(Value iterable, std::vector<Value> items, SourceLoc loc)
    : iterable_(iterable), items_(std::move(items)), loc_(loc) {
  std::vector<LazySource> sources;
  if (iterable.Is(Type::kDict)) sources.push_back({iterable});
  if (iterable.Is(Type::kLazy)) sources = LazyOf(iterable).sources;
  if (IsIterator(iterable)) {
    in_order_ = LazyOf(iterable).in_order;
    apart_ = LazyOf(iterable).acts;
  }
  for (LazySource& source : sources) {
    source.changes = ObjectOf(source.container).changes;
    sources_.push_back({source, ItemsOf(source)});
  }
}

absl::StatusOr<Iteration> Iteration::Begin(Elaborator& e, const Value& iterable, SourceLoc loc) {
  KILN_ASSIGN_OR_RETURN(std::vector<Value> items, e.Iterate(iterable, loc));
  Iteration made(iterable, std::move(items), loc);
  made.checked_ = e.changes();
  return made;
}

absl::StatusOr<Iteration> Iteration::BeginAnyOrder(Elaborator& e, const Value& iterable,
                                                   SourceLoc loc) {
  if (!iterable.Is(Type::kSet)) return Begin(e, iterable, loc);
  KILN_ASSIGN_OR_RETURN(std::vector<Value> items, AnyOrder(e, iterable, loc));
  Iteration made(iterable, std::move(items), loc);
  made.checked_ = e.changes();
  made.apart_ = true;
  return made;
}

absl::Status Iteration::CheckSource(Elaborator& e, size_t i, Source* source) {
  const Object& object = ObjectOf(source->from.container);
  if (object.changes == source->from.changes) return absl::OkStatus();
  source->from.changes = object.changes;
  const std::vector<Value> now = ItemsOf(source->from);
  KILN_RETURN_IF_ERROR(e.Step(loc_, static_cast<int64_t>(now.size())));
  const size_t each = source->from.view == LazyKind::kItems ? 2 : 1;
  KILN_RETURN_IF_ERROR(CheckCount(e, source->from.container, source->items.size() / each, loc_));
  for (size_t at = in_order_ ? (i + 1) * each : 0; at < now.size(); ++at) {
    if (IsSame(now[at], source->items[at])) continue;
    return e.Error(loc_,
                   "a list or dict is changed while a loop goes over what is computed from it, "
                   "and its next items would be others in Python",
                   "go over a copy, as in list(zip(xs, ys)), or change another list");
  }
  return absl::OkStatus();
}

absl::Status Iteration::CheckUnchanged(Elaborator& e, size_t i) {
  if (checked_ == e.changes()) return absl::OkStatus();
  checked_ = e.changes();
  if (apart_) {
    return e.Error(loc_,
                   iterable_.Is(Type::kSet)
                       ? "what is done with each item of a set changes something, and a set has no "
                         "order"
                       : "a generator changes something, and so does what is done with its items, "
                         "each in turn in Python",
                   "make a list of the items first: list(...), or sorted(...)");
  }
  KILN_RETURN_IF_ERROR(CheckCount(e, iterable_, items_.size(), loc_));
  for (Source& source : sources_) KILN_RETURN_IF_ERROR(CheckSource(e, i, &source));
  if (!IsIterator(iterable_)) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(e.Step(loc_, LazyOf(iterable_).reads.size()));
  if (LazyOf(iterable_).reads.Unchanged()) return absl::OkStatus();
  return e.Error(loc_,
                 "a loop changes what the items that it goes over are computed from, and its next "
                 "ones would be others in Python",
                 "go over a list of them: list(...)");
}

}  // namespace kiln::lang

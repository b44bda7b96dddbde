#include "compiler/lang/lazy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/lang/raised.h"

namespace kiln::lang {
namespace {

constexpr int kMostNested = 64;  // data inside of data that is looked through

const Object* ObjectOf(const Value& v) {
  if (v.Is(Type::kList)) return &v.seq();
  if (v.Is(Type::kDict) || v.Is(Type::kSet)) return &v.dict();
  return nullptr;
}

std::optional<Value> ValueOf(const Scope& scope, absl::string_view name) {
  const auto found = scope.names.find(name);
  return found == scope.names.end() ? std::nullopt : std::optional<Value>(found->second.value);
}

std::optional<Value> ValueOf(const InstanceObject& instance, const std::string& name) {
  const Value* value = AttributeOf(instance, name);
  return value == nullptr ? std::nullopt : std::optional<Value>(*value);
}

bool IsSame(const std::optional<Value>& a, const std::optional<Value>& b) {
  return a.has_value() == b.has_value() && (!a.has_value() || IsSame(*a, *b));
}

// What the value holds, as far as it is data.
std::vector<Value> PartsOf(const Value& v) {
  std::vector<Value> parts;
  if (v.is_sequence()) parts = v.seq().items;
  if (v.Is(Type::kDict) || v.Is(Type::kSet)) {
    for (const auto& [key, item] : v.dict().items) parts.insert(parts.end(), {key, item});
  }
  if (v.Is(Type::kInstance)) {
    for (const auto& entry : v.instance().attributes) parts.push_back(entry.second);
  }
  return parts;
}

bool Unchanged(const LazyObject& lazy) {
  if (lazy.keeps) return true;
  return lazy.reads.Unchanged() &&
         std::all_of(lazy.sources.begin(), lazy.sources.end(), [](const LazySource& source) {
           return ObjectOf(source.container)->changes == source.changes;
         });
}

}  // namespace

bool IsSame(const Value& a, const Value& b) {
  if (a.type() != b.type()) return false;
  if (a.Is(Type::kFloat)) return a.float_value() == b.float_value();
  return a.is_integer() ? a.int_value() == b.int_value() : a.pointer() == b.pointer();
}

void Reads::Note(const Value& v) {
  if (const Object* object = ObjectOf(v)) NoteObject(*object);
  if (!v.Is(Type::kLazy)) return;
  for (const LazySource& source : LazyOf(v).sources) Note(source.container);
  Add(LazyOf(v).reads);
}

int64_t Reads::NoteAll(const Value& v, int64_t now) {
  std::vector<std::pair<Value, int>> left = {{v, 0}};
  int64_t count = 0;
  while (!left.empty()) {
    const auto [value, depth] = left.back();
    left.pop_back();
    ++count;
    Note(value);
    if (value.Is(Type::kInstance)) NoteObject(value.instance());
    const bool whole = value.is_sequence() || ObjectOf(value) || value.Is(Type::kInstance);
    if (!whole || depth > kMostNested) continue;
    const auto [known, fresh] = whole_.try_emplace(value.pointer(), now);
    if (!fresh && std::exchange(known->second, now) == now) continue;
    for (const Value& part : PartsOf(value)) left.emplace_back(part, depth + 1);
  }
  return count;
}

void Reads::NoteName(const Scope& scope, absl::string_view name) {
  if (scope.number <= first_) names_.try_emplace({&scope, name}, std::nullopt);
}

void Reads::NoteAttribute(const InstanceObject& instance, const std::string& name) {
  attributes_.try_emplace({&instance, name}, std::nullopt);
}

void Reads::Add(const Reads& other) {
  objects_.insert(other.objects_.begin(), other.objects_.end());
  for (const auto& [key, value] : other.names_) NoteName(*key.first, key.second);
  attributes_.insert(other.attributes_.begin(), other.attributes_.end());
}

void Reads::Settle() {
  for (auto& [object, changes] : objects_) changes = object->changes;
  for (auto& [key, value] : names_) value = ValueOf(*key.first, key.second);
  for (auto& [key, value] : attributes_) value = ValueOf(*key.first, key.second);
}

bool Reads::Unchanged() const {
  const auto same = [](const auto& entry) {
    return IsSame(entry.second, ValueOf(*entry.first.first, entry.first.second));
  };
  return std::all_of(objects_.begin(), objects_.end(),
                     [](const auto& entry) { return entry.first->changes == entry.second; }) &&
         std::all_of(names_.begin(), names_.end(), same) &&
         std::all_of(attributes_.begin(), attributes_.end(), same);
}

int64_t Reads::size() const {
  return static_cast<int64_t>(objects_.size() + names_.size() + attributes_.size());
}

Value NewView(Elaborator& e, const Value& dict, LazyKind kind) {
  auto* view = e.arena().New<LazyObject>();
  view->kind = kind;
  view->sources = {{dict, kind}};
  return Value::Of(Type::kLazy, view);
}

Value NewIterator(Elaborator& e, std::vector<Value> items, const std::vector<Value>& sources,
                  LazyOrder how) {
  auto* made = e.arena().New<LazyObject>();
  made->items = std::move(items);
  made->in_order = how.in_order;
  made->keeps = how.keeps;
  made->as_of = e.changes();
  for (const Value& source : sources) {
    if (source.Is(Type::kList) || source.Is(Type::kDict)) {
      made->sources.push_back({source, LazyKind::kKeys});
    }
    if (!source.Is(Type::kLazy)) continue;
    const LazyObject& other = LazyOf(source);
    made->sources.insert(made->sources.end(), other.sources.begin(), other.sources.end());
    made->reads.Add(other.reads);
    made->in_order &= other.in_order || other.kind != LazyKind::kIterator;
  }
  for (LazySource& source : made->sources) source.changes = ObjectOf(source.container)->changes;
  made->reads.Settle();
  e.arena().Charge(static_cast<int64_t>(made->items.size() * sizeof(Value)));
  return Value::Of(Type::kLazy, made);
}

absl::StatusOr<std::vector<Value>> TakeItems(Elaborator& e, LazyObject& lazy, SourceLoc loc) {
  if (lazy.kind == LazyKind::kIterator) {
    if (lazy.spent) {
      return e.Error(loc, "an iterator is used again, whose items Python gives once",
                     "make a list of it where it is made: list(...)");
    }
    if (!lazy.keeps && lazy.as_of != e.changes()) {
      return e.Error(loc,
                     "an iterator is used after something was changed, and its items are "
                     "computed from that in Python",
                     "make a list of it where it is made: list(...)");
    }
    lazy.spent = true;
    KILN_RETURN_IF_ERROR(e.Step(loc, static_cast<int64_t>(lazy.items.size())));
    return lazy.items;
  }
  std::vector<Value> shown;
  for (const auto& [key, item] : lazy.sources[0].container.dict().items) {
    KILN_RETURN_IF_ERROR(e.Step(loc));
    KILN_RETURN_IF_ERROR(e.ChargeBytes(loc, 16));
    shown.push_back(lazy.kind == LazyKind::kKeys     ? key
                    : lazy.kind == LazyKind::kValues ? item
                                                     : e.NewTuple({key, item}));
  }
  return shown;
}

absl::Status CheckApart(Elaborator& e, const Value& items, SourceLoc loc) {
  if (!items.Is(Type::kLazy) || Unchanged(LazyOf(items))) return absl::OkStatus();
  return e.Error(loc, "a list gets the items of an iterator that goes over what is changed by that",
                 "make a list of the items first: list(...)");
}

Elaborator::Effects::Effects(Elaborator* e)
    : e_(*e),
      outer_generator_(std::exchange(e->generator_, std::max<int64_t>(1, e->arena_.count()))),
      outer_change_(std::exchange(e->oldest_change_, INT64_MAX)) {}

Elaborator::Effects::~Effects() {
  e_.generator_ = outer_generator_;
  e_.oldest_change_ = std::min(e_.oldest_change_, outer_change_);
}

bool Elaborator::Effects::Seen() const { return e_.oldest_change_ <= e_.generator_; }

Elaborator::Deferred::Deferred(Elaborator* e, int64_t first, bool at_once)
    : e_(*e),
      reads_(first < 0 ? e->arena_.count() : first),
      at_once_(at_once || e->IsTakenWhole()),
      outer_(std::exchange(e->deferred_, this)),
      outer_reads_(std::exchange(e->reads_, &reads_)),
      outer_generator_(std::exchange(e->generator_, first < 0 ? e->arena_.count() : first)),
      outer_change_(std::exchange(e->oldest_change_, INT64_MAX)) {}

Elaborator::Deferred::~Deferred() {
  if (outer_reads_ != nullptr) outer_reads_->Add(reads_);
  e_.deferred_ = outer_;
  e_.reads_ = outer_reads_;
  e_.generator_ = outer_generator_;
  e_.oldest_change_ = std::min(e_.oldest_change_, outer_change_);
}

absl::Status Elaborator::Deferred::Give(const Value& item, SourceLoc loc) {
  KILN_RETURN_IF_ERROR(e_.Step(loc, given_.NoteAll(item, e_.changes_) / 4));
  std::vector<Value> parts = item.is_sequence() ? item.seq().items : std::vector<Value>{item};
  for (const Value& part : parts) {
    if (!part.Is(Type::kFunction)) continue;
    const Scope* closure = part.function().closure;
    shares_ |= closure != nullptr && closure->number > e_.generator_;
  }
  return absl::OkStatus();
}

absl::Status Elaborator::Deferred::Failed(absl::Status error) {
  return at_once_ ? error : Raised(std::move(error), "");
}

absl::StatusOr<Value> Elaborator::Deferred::Finish(std::vector<Value> items,
                                                   const std::vector<Value>& sources, bool in_order,
                                                   const std::string& what, SourceLoc loc) {
  if (e_.oldest_change_ <= e_.generator_ && !at_once_) {
    return e_.Error(loc,
                    absl::StrCat(what,
                                 " changes what was made outside of it, "
                                 "and when Python does so hangs on who takes its items"),
                    "return a list, and change it where the items are taken");
  }
  if ((shares_ || !given_.Unchanged()) && !at_once_) {
    return e_.Error(loc,
                    absl::StrCat(what,
                                 " gives items that share what it changes for the next ones, "
                                 "and which of that is seen hangs on who takes them"),
                    "give a copy each time, or values in place of functions");
  }
  KILN_RETURN_IF_ERROR(e_.ChargeBytes(loc, 32 * reads_.size()));
  const Value made = NewIterator(e_, std::move(items), sources, {.in_order = in_order});
  LazyOf(made).reads.Add(reads_);
  LazyOf(made).reads.Settle();
  LazyOf(made).acts = e_.oldest_change_ <= e_.generator_;
  return made;
}

}  // namespace kiln::lang

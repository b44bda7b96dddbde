// Sets: which values there are, without an order. A Value of Type::kSet holds a DictObject whose
// items have no values. What would show an order (a loop, list(...)) is refused (convert.cc).
#include "absl/strings/str_cat.h"
#include "compiler/lang/lazy.h"
#include "compiler/lang/mutable.h"

namespace kiln::lang {
namespace {

absl::Status Put(Elaborator& e, DictObject* set, const Value& item, SourceLoc loc) {
  KILN_RETURN_IF_ERROR(e.CheckKey(item, loc));
  KILN_RETURN_IF_ERROR(e.Step(loc, static_cast<int64_t>(set->items.size())));
  KILN_RETURN_IF_ERROR(e.ChargeBytes(loc, 32));
  KILN_ASSIGN_OR_RETURN(const auto at, e.FindKey(*set, item, loc));
  if (!at.has_value()) set->items.emplace_back(item, Value::None());
  return absl::OkStatus();
}

absl::StatusOr<bool> Holds(Elaborator& e, const DictObject& set, const Value& item, SourceLoc loc) {
  KILN_RETURN_IF_ERROR(e.CheckKey(item, loc));
  KILN_RETURN_IF_ERROR(e.Step(loc, static_cast<int64_t>(set.items.size())));
  KILN_ASSIGN_OR_RETURN(const auto at, e.FindKey(set, item, loc));
  return at.has_value();
}

// What is in both; in `a` alone, where `inside` is false.
absl::StatusOr<Value> Part(Elaborator& e, const DictObject& a, const DictObject& b, bool inside,
                           SourceLoc loc) {
  std::vector<Value> kept;
  for (const auto& [item, unused] : a.items) {
    KILN_ASSIGN_OR_RETURN(const bool both, Holds(e, b, item, loc));
    if (both == inside) kept.push_back(item);
  }
  return NewSet(e, kept, loc);
}

absl::StatusOr<Value> Union(Elaborator& e, const DictObject& a, const DictObject& b,
                            SourceLoc loc) {
  std::vector<Value> all;
  for (const auto& [item, unused] : a.items) all.push_back(item);
  for (const auto& [item, unused] : b.items) all.push_back(item);
  return NewSet(e, all, loc);
}

absl::StatusOr<Value> Combine(Elaborator& e, ast::BinaryOp op, const DictObject& a,
                              const DictObject& b, SourceLoc loc) {
  switch (op) {
    case ast::BinaryOp::kBitAnd:
      return Part(e, a, b, true, loc);
    case ast::BinaryOp::kSub:
      return Part(e, a, b, false, loc);
    case ast::BinaryOp::kBitOr:
      return Union(e, a, b, loc);
    default: {
      KILN_ASSIGN_OR_RETURN(const Value left, Part(e, a, b, false, loc));
      KILN_ASSIGN_OR_RETURN(const Value right, Part(e, b, a, false, loc));
      return Union(e, left.dict(), right.dict(), loc);
    }
  }
}

template <bool frozen>
absl::StatusOr<Value> MakeSet(Elaborator& e, const BoundArgs& args) {
  std::vector<Value> items;
  if (args.present[0]) {
    KILN_ASSIGN_OR_RETURN(items, AnyOrder(e, args[0], args.LocOf(0)));
  }
  KILN_ASSIGN_OR_RETURN(const Value set, NewSet(e, items, args.loc));
  set.dict().frozen = frozen;
  return set;
}

absl::StatusOr<Value> AddItem(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(CheckMutable(e, args[0], args.loc));
  KILN_RETURN_IF_ERROR(Put(e, &args[0].dict(), args[1], args.loc));
  return Value::None();
}

template <bool must>
absl::StatusOr<Value> TakeItem(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(CheckMutable(e, args[0], args.loc));
  DictObject& set = args[0].dict();
  KILN_RETURN_IF_ERROR(e.CheckKey(args[1], args.LocOf(1)));
  KILN_RETURN_IF_ERROR(e.Step(args.loc, static_cast<int64_t>(set.items.size())));
  KILN_ASSIGN_OR_RETURN(const auto at, e.FindKey(set, args[1], args.loc));
  if (at.has_value()) {
    set.items.erase(set.items.begin() + static_cast<std::ptrdiff_t>(*at));
  } else if (must) {
    return e.Error(args.LocOf(1), absl::StrCat(Repr(args[1]), " is not in the set"),
                   "check with 'in' first, or use discard");
  }
  return Value::None();
}

absl::StatusOr<Value> AddAll(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(CheckMutable(e, args[0], args.loc));
  for (size_t i = 0; i < args.rest.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(const std::vector<Value> items,
                          AnyOrder(e, args.rest[i], args.rest_locs[i]));
    for (const Value& item : items) {
      KILN_RETURN_IF_ERROR(Put(e, &args[0].dict(), item, args.loc));
    }
  }
  return Value::None();
}

template <ast::BinaryOp op>
absl::StatusOr<Value> With(Elaborator& e, const BoundArgs& args) {
  Value result = args[0];
  for (size_t i = 0; i < args.rest.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(const std::vector<Value> items,
                          AnyOrder(e, args.rest[i], args.rest_locs[i]));
    KILN_ASSIGN_OR_RETURN(const Value other, NewSet(e, items, args.loc));
    KILN_ASSIGN_OR_RETURN(result, Combine(e, op, result.dict(), other.dict(), args.loc));
  }
  return args.rest.empty() ? Union(e, args[0].dict(), DictObject(), args.loc) : result;
}

template <bool within>
absl::StatusOr<Value> AllOf(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> items, AnyOrder(e, args[1], args.LocOf(1)));
  KILN_ASSIGN_OR_RETURN(const Value other, NewSet(e, items, args.loc));
  const ast::CompareOp op = within ? ast::CompareOp::kLe : ast::CompareOp::kGe;
  return e.CompareOp(op, args[0], other, args.loc);
}

constexpr Builtin kMethods[] = {
    {"add", "self item", AddItem},
    {"discard", "self item", TakeItem<false>},
    {"remove", "self item", TakeItem<true>},
    {"update", "self *", AddAll},
    {"copy", "self", With<ast::BinaryOp::kBitOr>},
    {"union", "self *", With<ast::BinaryOp::kBitOr>},
    {"intersection", "self *", With<ast::BinaryOp::kBitAnd>},
    {"difference", "self *", With<ast::BinaryOp::kSub>},
    {"symmetric_difference", "self *", With<ast::BinaryOp::kBitXor>},
    {"issubset", "self other", AllOf<true>},
    {"issuperset", "self other", AllOf<false>},
};

constexpr Builtin kTypes[] = {
    {"set", "items?", MakeSet<false>},
    {"frozenset", "items?", MakeSet<true>},
};

}  // namespace

absl::StatusOr<Value> NewSet(Elaborator& e, const std::vector<Value>& items, SourceLoc loc) {
  auto* set = e.arena().New<DictObject>();
  set->region = e.CurrentRegion();
  for (const Value& item : items) KILN_RETURN_IF_ERROR(Put(e, set, item, loc));
  return Value::Of(Type::kSet, set);
}

absl::StatusOr<std::vector<Value>> AnyOrder(Elaborator& e, const Value& v, SourceLoc loc) {
  if (!v.Is(Type::kSet)) return e.Iterate(v, loc);
  KILN_RETURN_IF_ERROR(e.Step(loc, static_cast<int64_t>(v.dict().items.size())));
  std::vector<Value> items;
  for (const auto& [item, unused] : v.dict().items) items.push_back(item);
  return items;
}

absl::StatusOr<std::optional<Value>> SetOp(Elaborator& e, ast::BinaryOp op, const Value& a,
                                           const Value& b, SourceLoc loc) {
  const bool known = op == ast::BinaryOp::kBitAnd || op == ast::BinaryOp::kBitOr ||
                     op == ast::BinaryOp::kBitXor || op == ast::BinaryOp::kSub;
  const bool sets = (a.Is(Type::kSet) || IsSetLike(a)) && (b.Is(Type::kSet) || IsSetLike(b));
  if (!known || !sets) return std::optional<Value>();
  KILN_ASSIGN_OR_RETURN(const Value x, AsSet(e, a, loc));
  KILN_ASSIGN_OR_RETURN(const Value y, AsSet(e, b, loc));
  KILN_ASSIGN_OR_RETURN(const Value result, Combine(e, op, x.dict(), y.dict(), loc));
  return std::optional<Value>(result);
}

absl::StatusOr<Value> AsSet(Elaborator& e, const Value& v, SourceLoc loc) {
  if (!IsSetLike(v)) return v;
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> items, e.Iterate(v, loc));
  return NewSet(e, items, loc);
}

absl::StatusOr<bool> SetOrder(Elaborator& e, ast::CompareOp op, const Value& a, const Value& b,
                              SourceLoc loc) {
  const bool less = op == ast::CompareOp::kLt || op == ast::CompareOp::kLe;
  const DictObject &small = less ? a.dict() : b.dict(), &large = less ? b.dict() : a.dict();
  for (const auto& [item, unused] : small.items) {
    KILN_ASSIGN_OR_RETURN(const bool held, Holds(e, large, item, loc));
    if (!held) return false;
  }
  const bool proper = op == ast::CompareOp::kLt || op == ast::CompareOp::kGt;
  return !proper || small.items.size() < large.items.size();
}

BuiltinTable SetMethods() { return {kMethods, std::size(kMethods)}; }
BuiltinTable SetTypes() { return {kTypes, std::size(kTypes)}; }

}  // namespace kiln::lang

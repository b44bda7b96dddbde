// Operators of objects whose classes say what they do ("__add__"), in the order in which Python
// asks.
#include <array>

#include "absl/strings/str_cat.h"
#include "compiler/lang/classes.h"
#include "compiler/lang/lazy.h"
#include "compiler/lang/mutable.h"

namespace kiln::lang {
namespace {

using Answer = std::optional<Value>;

// "add" of "__add__", "__radd__" and "__iadd__".
absl::string_view NameOf(ast::BinaryOp op) {
  using Op = ast::BinaryOp;
  switch (op) {
    case Op::kAdd:
      return "add";
    case Op::kSub:
      return "sub";
    case Op::kMul:
      return "mul";
    case Op::kDiv:
      return "truediv";
    case Op::kFloorDiv:
      return "floordiv";
    case Op::kMod:
      return "mod";
    case Op::kPow:
      return "pow";
    case Op::kShl:
      return "lshift";
    case Op::kShr:
      return "rshift";
    case Op::kBitAnd:
      return "and";
    case Op::kBitOr:
      return "or";
    case Op::kBitXor:
      return "xor";
    case Op::kMatMul:
      return "matmul";
  }
  return "";
}

// The method of a comparison, and the one of the other side; null: it has none.
std::array<const char*, 2> NamesOf(ast::CompareOp op) {
  using Op = ast::CompareOp;
  switch (op) {
    case Op::kEq:
      return {"__eq__", "__eq__"};
    case Op::kNe:
      return {"__ne__", "__ne__"};
    case Op::kLt:
      return {"__lt__", "__gt__"};
    case Op::kLe:
      return {"__le__", "__ge__"};
    case Op::kGt:
      return {"__gt__", "__lt__"};
    case Op::kGe:
      return {"__ge__", "__le__"};
    default:
      return {nullptr, nullptr};
  }
}

bool DerivesFrom(const ClassObject& type, const ClassObject& base) {
  for (const Value& b : type.bases) {
    if (&b.type_object() == &base || DerivesFrom(b.type_object(), base)) return true;
  }
  return false;
}

// list += items
absl::StatusOr<Value> Extend(Elaborator& e, const Value& list, const Value& items, SourceLoc loc) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> more, e.Iterate(items, loc));
  KILN_RETURN_IF_ERROR(e.ChargeBytes(loc, 16 * static_cast<int64_t>(more.size())));
  KILN_RETURN_IF_ERROR(CheckMutable(e, list, loc));
  KILN_RETURN_IF_ERROR(CheckApart(e, items, loc));
  for (const Value& item : more) {
    KILN_ASSIGN_OR_RETURN(const Value kept, e.Keep(item, "item", loc));
    list.seq().items.push_back(kept);
  }
  return list;
}

bool IsNotImplemented(const Value& v) {
  return v.Is(Type::kTypeName) && absl::string_view(v.type_name()) == "NotImplemented";
}

}  // namespace

// What `name` of the first gives for the second, unless that is NotImplemented.
absl::StatusOr<Answer> Elaborator::Classes::Ask(const Value& self, absl::string_view name,
                                                const Value& other, SourceLoc loc) {
  KILN_ASSIGN_OR_RETURN(Answer made, Special(self, name, {other}, loc));
  if (made.has_value() && IsNotImplemented(*made)) made.reset();
  return made;
}

// A class that is based on the other's is asked first.
absl::StatusOr<Answer> Elaborator::Classes::AskBoth(const Value& a, const Value& b,
                                                    const std::string& own,
                                                    const std::string& other, bool same_twice,
                                                    SourceLoc loc) {
  const ClassObject *x = Of(a), *y = Of(b);
  bool b_first = false;
  if (x != nullptr && y != nullptr && x != y && DerivesFrom(*y, *x)) {
    KILN_ASSIGN_OR_RETURN(const Value* of_base,
                          e_.FindInClass(Value::Of(Type::kClass, x), other, loc));
    KILN_ASSIGN_OR_RETURN(const Value* of_derived,
                          e_.FindInClass(Value::Of(Type::kClass, y), other, loc));
    b_first = of_base != of_derived;
  }
  for (const bool of_b : {b_first, !b_first}) {
    if (of_b && x == y && !same_twice) continue;
    KILN_ASSIGN_OR_RETURN(Answer made, of_b ? Ask(b, other, a, loc) : Ask(a, own, b, loc));
    if (made.has_value()) return made;
  }
  return Answer();
}

absl::StatusOr<Answer> Elaborator::Classes::Operate(ast::BinaryOp op, const Value& a,
                                                    const Value& b, SourceLoc loc) {
  if (Of(a) == nullptr && Of(b) == nullptr) return Answer();
  const absl::string_view name = NameOf(op);
  KILN_ASSIGN_OR_RETURN(Answer made, AskBoth(a, b, absl::StrCat("__", name, "__"),
                                             absl::StrCat("__r", name, "__"), false, loc));
  if (made.has_value()) return made;
  return CombineFlags(op, a, b, loc);
}

absl::StatusOr<Value> Elaborator::Classes::Update(ast::BinaryOp op, const Value& old,
                                                  const Value& right, SourceLoc loc) {
  KILN_ASSIGN_OR_RETURN(const Answer made,
                        Ask(old, absl::StrCat("__i", NameOf(op), "__"), right, loc));
  if (made.has_value()) return *made;
  if (old.Is(Type::kList) && op == ast::BinaryOp::kAdd) return Extend(e_, old, right, loc);
  KILN_ASSIGN_OR_RETURN(const Value result, e_.BinaryOp(op, old, right, loc));
  // In place, whoever else names it.
  const bool list = old.Is(Type::kList) && result.Is(Type::kList);
  const bool keyed = old.Is(Type::kDict) || (old.Is(Type::kSet) && !old.dict().frozen);
  if (!list && !keyed) return result;
  KILN_RETURN_IF_ERROR(CheckMutable(e_, old, loc));
  if (list) {
    old.seq().items = result.seq().items;
  } else {
    old.dict().items = result.dict().items;
  }
  return old;
}

absl::StatusOr<Answer> Elaborator::Classes::Compare(ast::CompareOp op, const Value& a,
                                                    const Value& b, SourceLoc loc) {
  const auto names = NamesOf(op);
  if (names[0] == nullptr || (Of(a) == nullptr && Of(b) == nullptr)) return Answer();
  return AskBoth(a, b, names[0], names[1], true, loc);
}

absl::StatusOr<Answer> Elaborator::Classes::Unary(ast::UnaryOp op, const Value& v, SourceLoc loc) {
  if (Of(v) == nullptr || op == ast::UnaryOp::kNot) return Answer();
  const char* name = op == ast::UnaryOp::kNeg   ? "__neg__"
                     : op == ast::UnaryOp::kPos ? "__pos__"
                                                : "__invert__";
  KILN_ASSIGN_OR_RETURN(Answer made, Special(v, name, {}, loc));
  if (made.has_value() || op != ast::UnaryOp::kInvert) return made;
  return InvertFlags(v, loc);
}

absl::StatusOr<Answer> Elaborator::Classes::Contains(const Value& whole, const Value& part,
                                                     SourceLoc loc) {
  KILN_ASSIGN_OR_RETURN(const Answer made, Special(whole, "__contains__", {part}, loc));
  if (!made.has_value()) return HoldsFlags(whole, part, loc);
  KILN_ASSIGN_OR_RETURN(const Condition c, e_.Decide(*made, loc));
  if (c.known) return Answer(Value::Bool(c.value));
  KILN_ASSIGN_OR_RETURN(const Value condition, e_.NewExpr(c.expr, loc));
  return Answer(condition);
}

}  // namespace kiln::lang

// Python's == and `in` over compile-time data. Where numbers of run time are among the data, what
// they decide is told from what is known: a difference that is a constant, else a condition of run
// time, else, in a place that cannot wait for one, an error that names the two values.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "compiler/ir/analysis.h"
#include "compiler/lang/classes.h"
#include "compiler/lang/elaborator.h"
#include "compiler/lang/extent.h"
#include "compiler/lang/format_value.h"
#include "compiler/lang/lazy.h"

namespace kiln::lang {
namespace {

using ast::CompareOp;

constexpr int kMaxDepth = 64;  // of data inside of data

// Arithmetic in which a constant difference tells two values apart: nothing wraps around.
bool IsIndex(const ir::Expr& e) { return e.dtype() == kInt32 || e.dtype() == kInt64; }

bool RangesEqual(const RangeObject& a, const RangeObject& b) {
  const int64_t count = a.Count();
  if (count != b.Count()) return false;
  return count == 0 || (a.start == b.start && (count == 1 || a.step == b.step));
}

}  // namespace

// One comparison: what is certain ends it, what is not is collected.
class Elaborator::Comparison {
 public:
  Comparison(Elaborator* e, SourceLoc loc) : e_(*e), loc_(loc) {}

  absl::StatusOr<Value> Whole(const Value& a, const Value& b, int depth);

 private:
  // False: they differ. True: they are equal if every condition of `open_` holds.
  // At depth 0 as == has them; deeper as items of containers, of which the same object is equal.
  absl::StatusOr<bool> MayBeEqual(const Value& a, const Value& b, int depth) {
    KILN_RETURN_IF_ERROR(e_.Step(loc_));
    if (depth > kMaxDepth) {
      return e_.Exhausted(
          loc_, absl::StrCat("what is compared is nested more than ", kMaxDepth, " levels deep"));
    }
    for (const Value& v : {a, b}) {
      if (v.is_import()) return e_.NoValue(v, loc_);
    }
    if (depth > 0 && a.type() == b.type()) {
      const bool object = a.Is(Type::kInstance) || a.is_sequence();
      if (object && a.pointer() == b.pointer()) return true;
      if (a.Is(Type::kFloat) && std::isnan(a.float_value()) && std::isnan(b.float_value())) {
        return e_.Error(loc_,
                        "a NaN is compared with a NaN in a container, and they are equal in Python "
                        "where they are one object alone",
                        "ask with math.isnan");
      }
    }
    if (Classes::Of(a) != nullptr || Classes::Of(b) != nullptr) {
      KILN_ASSIGN_OR_RETURN(const auto own, Classes(&e_).Compare(ast::CompareOp::kEq, a, b, loc_));
      if (own.has_value()) return Take(*own);
      const Value x = Plain(a), y = Plain(b);
      if (!x.Is(a.type()) || !y.Is(b.type())) return MayBeEqual(x, y, depth + 1);
    }
    if (a.is_number() && b.is_number()) return OrderOf(a, b) == 0;
    if (e_.IsRuntime(a) || e_.IsRuntime(b)) {
      const bool comparable =
          (e_.IsRuntime(a) || a.is_number()) && (e_.IsRuntime(b) || b.is_number());
      if (!comparable) return false;
      KILN_ASSIGN_OR_RETURN(const Value equal, NumbersEqual(a, b));
      return Add(equal);
    }
    KILN_RETURN_IF_ERROR(e_.CheckTexts(a, b, loc_));
    if (a.Is(Type::kDType) && b.Is(Type::kStr)) {
      const auto parsed = ParseDType(b.str());
      return parsed.has_value() && *parsed == a.dtype();
    }
    if (a.Is(Type::kStr) && b.Is(Type::kDType)) return MayBeEqual(b, a, depth);
    if (IsSetLike(a) || IsSetLike(b)) {
      KILN_ASSIGN_OR_RETURN(const Value x, AsSet(e_, a, loc_));
      KILN_ASSIGN_OR_RETURN(const Value y, AsSet(e_, b, loc_));
      return x.type() == y.type() ? OfOneType(x, y, depth) : false;
    }
    if (a.type() != b.type()) return false;
    return OfOneType(a, b, depth);
  }

  bool Add(const Value& condition) {
    if (condition.Is(Type::kBool)) return condition.bool_value();
    open_.push_back(condition);
    return true;
  }

  // What __eq__ gave.
  absl::StatusOr<bool> Take(const Value& result) {
    KILN_ASSIGN_OR_RETURN(const Condition c, e_.Decide(result, loc_));
    if (c.known) return c.value;
    KILN_ASSIGN_OR_RETURN(const Value condition, e_.NewExpr(c.expr, loc_));
    return Add(condition);
  }

  absl::StatusOr<bool> OfOneType(const Value& a, const Value& b, int depth) {
    switch (a.type()) {
      case Type::kNone:
      case Type::kEllipsis:
        return true;
      case Type::kStr:
        return a.str() == b.str();
      case Type::kDType:
        return a.dtype() == b.dtype();
      case Type::kTuple:
      case Type::kList:
        return Items(a.seq().items, b.seq().items, depth);
      case Type::kDict:
      case Type::kSet:
        return Dicts(a.dict(), b.dict(), depth);
      case Type::kRange:
        return RangesEqual(a.range(), b.range());
      case Type::kBuffer:
        return a.buffer().buffer == b.buffer().buffer;
      case Type::kTypeName:
        return absl::string_view(a.type_name()) == b.type_name();
      case Type::kInstance:
        return Instances(a, b, depth);
      default:
        return a.pointer() == b.pointer();
    }
  }

  absl::StatusOr<bool> Items(const std::vector<Value>& x, const std::vector<Value>& y, int depth) {
    if (&x == &y) return true;
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {  // which an __eq__ may change
      const Value left = x[i], right = y[i];
      KILN_ASSIGN_OR_RETURN(const bool may, MayBeEqual(left, right, depth + 1));
      if (!may) return false;
    }
    return x.size() == y.size();
  }

  absl::StatusOr<bool> Dicts(const DictObject& x, const DictObject& y, int depth) {
    if (&x == &y) return true;
    if (x.items.size() != y.items.size()) return false;
    const auto items = x.items;  // an __eq__ may change both
    for (const auto& [key, item] : items) {
      KILN_ASSIGN_OR_RETURN(const auto at, e_.FindKey(y, key, loc_));
      if (!at.has_value()) return false;
      const Value other = y.items[*at].second;
      KILN_ASSIGN_OR_RETURN(const bool may, MayBeEqual(item, other, depth + 1));
      if (!may) return false;
    }
    if (x.items.size() == items.size()) return true;
    return e_.Error(loc_, "a dict is changed while it is compared", "compare a copy of it");
  }

  absl::StatusOr<Value> NumbersEqual(const Value& a, const Value& b);

  // A dataclass by its fields; any other by being the same object.
  absl::StatusOr<bool> Instances(const Value& a, const Value& b, int depth) {
    const InstanceObject &x = a.instance(), &y = b.instance();
    if (x.type == nullptr) return &x == &y;
    const bool by_fields = x.type->kind == ClassKind::kDataclass && !x.type->identical;
    if (&x == &y || x.type != y.type || !by_fields) return &x == &y;
    for (const ClassField& field : x.type->fields) {
      if (!field.compared) continue;
      KILN_ASSIGN_OR_RETURN(const Value left, e_.GetAttribute(a, field.name, loc_));
      KILN_ASSIGN_OR_RETURN(const Value right, e_.GetAttribute(b, field.name, loc_));
      KILN_ASSIGN_OR_RETURN(const bool may, MayBeEqual(left, right, depth + 1));
      if (!may) return false;
    }
    return true;
  }

  Elaborator& e_;
  SourceLoc loc_;
  std::vector<Value> open_;
};

// Of two numbers, of which one at least is of run time.
absl::StatusOr<Value> Elaborator::Comparison::NumbersEqual(const Value& a, const Value& b) {
  KILN_ASSIGN_OR_RETURN(const Operand x, e_.ToOperand(a, loc_, "an operand"));
  KILN_ASSIGN_OR_RETURN(const Operand y, e_.ToOperand(b, loc_, "an operand"));
  KILN_RETURN_IF_ERROR(e_.Step(loc_, (int64_t{x.info.size} + y.info.size) / 4));
  if (IsIndex(x.e) && IsIndex(y.e) && !ReadsMemory(x.e) && !ReadsMemory(y.e)) {
    const auto difference = ir::ConstInt(Difference(x.e, y.e, e_.bound_));
    if (difference.has_value()) return Value::Bool(*difference == 0);
  }
  return e_.CompareOp(CompareOp::kEq, a, b, loc_);
}

// `depth`: 0, or 1 where they are items.
absl::StatusOr<Value> Elaborator::Comparison::Whole(const Value& a, const Value& b, int depth) {
  CountGuard guard(&e_.depth_);
  KILN_RETURN_IF_ERROR(e_.CheckDepth(loc_));
  KILN_ASSIGN_OR_RETURN(const bool may, MayBeEqual(a, b, depth));
  Value all = Value::Bool(may);
  if (!may) return all;
  for (const Value& condition : open_) {
    if (all.Is(Type::kBool)) {
      all = condition;
    } else {
      KILN_ASSIGN_OR_RETURN(all, e_.BinaryOp(ast::BinaryOp::kBitAnd, all, condition, loc_));
    }
  }
  return all;
}

absl::StatusOr<Value> Elaborator::Equality(const Value& a, const Value& b, SourceLoc loc) {
  return Comparison(this, loc).Whole(a, b, 0);
}

absl::StatusOr<Value> Elaborator::SameItem(const Value& a, const Value& b, SourceLoc loc) {
  return Comparison(this, loc).Whole(a, b, 1);
}

static absl::Status Undecided(Elaborator& e, const Value& a, const Value& b, const Value& condition,
                              SourceLoc loc) {
  const std::string x = Repr(a), y = Repr(b);
  if (condition.Is(Type::kExpr) && condition.expr().info.open_only()) {
    return e.NeedConcrete(loc, condition.expr().expr, absl::StrCat(x, " is compared with ", y));
  }
  return e.NeedsValue(loc,
                      absl::StrCat("whether ", x, " equals ", y,
                                   " must be known at compile time, but it is known at run time"),
                      condition.Is(Type::kExpr) ? condition.expr().expr : ir::MakeInt(0),
                      "compare the numbers themselves, as in a == b, where an `if` decides");
}

absl::StatusOr<bool> Elaborator::Equal(const Value& a, const Value& b, SourceLoc loc) {
  KILN_ASSIGN_OR_RETURN(const Value equal, SameItem(a, b, loc));
  if (equal.Is(Type::kBool)) return equal.bool_value();
  return Undecided(*this, a, b, equal, loc);
}

// A text that shows a number of run time by its name is compared with itself alone.
absl::Status Elaborator::CheckTexts(const Value& a, const Value& b, SourceLoc loc) {
  const auto is_text = [](const Value& v) { return v.Is(Type::kStr) || v.Is(Type::kDType); };
  if (!is_text(a) || !is_text(b)) return absl::OkStatus();
  const Value shown = ShownIn(a), other = ShownIn(b);
  if (shown.is_none() && other.is_none()) return absl::OkStatus();
  const bool same = !shown.is_none() && !other.is_none() && a.str() == b.str() &&
                    ir::Same(shown.expr().expr, other.expr().expr);
  return same ? absl::OkStatus() : Undecided(*this, a, b, shown.is_none() ? other : shown, loc);
}

absl::StatusOr<std::optional<size_t>> Elaborator::FindKey(const DictObject& dict, const Value& key,
                                                          SourceLoc loc) {
  // Keys differ from each other, so that one that is certain is the only one.
  size_t undecided = dict.items.size();
  Value condition;
  for (size_t i = 0; i < dict.items.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(const Value equal, SameItem(dict.items[i].first, key, loc));
    if (!equal.Is(Type::kBool)) {
      if (undecided == dict.items.size()) condition = equal;
      undecided = std::min(undecided, i);
    } else if (equal.bool_value()) {
      return std::make_optional(i);
    }
  }
  if (undecided == dict.items.size()) return std::optional<size_t>();
  return Undecided(*this, key, dict.items[undecided].first, condition, loc);
}

absl::Status Elaborator::SetItem(DictObject* dict, const Value& key, const Value& value,
                                 SourceLoc loc) {
  KILN_ASSIGN_OR_RETURN(const auto at, FindKey(*dict, key, loc));
  if (at.has_value()) {
    dict->items[*at].second = value;
  } else {
    dict->items.emplace_back(key, value);
  }
  return absl::OkStatus();
}

// A run-time integer in a range of Python's.
static absl::StatusOr<Value> IsInRange(Elaborator& e, const Value& a, const RangeObject& range,
                                       SourceLoc loc) {
  const int64_t count = range.Count();
  if (count == 0) return Value::Bool(false);
  const int64_t last = range.start + (count - 1) * range.step;
  const int64_t low = std::min(range.start, last), step = std::abs(range.step);
  KILN_ASSIGN_OR_RETURN(const Value above, e.CompareOp(CompareOp::kGe, a, Value::Int(low), loc));
  KILN_ASSIGN_OR_RETURN(
      const Value below,
      e.CompareOp(CompareOp::kLe, a, Value::Int(std::max(range.start, last)), loc));
  KILN_ASSIGN_OR_RETURN(Value both, e.BinaryOp(ast::BinaryOp::kBitAnd, above, below, loc));
  if (step == 1 || count == 1) return both;
  KILN_ASSIGN_OR_RETURN(const Value from, e.BinaryOp(ast::BinaryOp::kSub, a, Value::Int(low), loc));
  KILN_ASSIGN_OR_RETURN(const Value rest,
                        e.BinaryOp(ast::BinaryOp::kMod, from, Value::Int(step), loc));
  KILN_ASSIGN_OR_RETURN(const Value whole, e.CompareOp(CompareOp::kEq, rest, Value::Int(0), loc));
  return e.BinaryOp(ast::BinaryOp::kBitAnd, both, whole, loc);
}

absl::StatusOr<Value> Elaborator::IsIn(const Value& a, const Value& b, SourceLoc loc) {
  if (b.Is(Type::kInstance)) {
    KILN_ASSIGN_OR_RETURN(const auto own, Classes(this).Contains(b, a, loc));
    if (own.has_value()) return *own;
  }
  const Value text = AsText(*this, Plain(b)), part = AsText(*this, Plain(a));
  if (text.Is(Type::kStr)) {
    KILN_RETURN_IF_ERROR(CheckTexts(a, b, loc));
    if (part.Is(Type::kStr)) return Value::Bool(text.str().find(part.str()) != std::string::npos);
    return Error(loc, absl::StrCat(Describe(a), " is looked for in a string"),
                 "look for a string: str(x) in text");
  }
  if (b.Is(Type::kDict) || b.Is(Type::kSet)) KILN_RETURN_IF_ERROR(CheckKey(a, loc));
  if (b.Is(Type::kRange) && IsRuntime(a) && b.range().step != INT64_MIN) {
    KILN_ASSIGN_OR_RETURN(const Operand x, ToOperand(a, loc, "the value"));
    if (IsIndex(x.e)) return IsInRange(*this, a, b.range(), loc);
  }
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> taken, AnyOrder(*this, b, loc));
  const std::vector<Value>& items = b.Is(Type::kList) ? b.seq().items : taken;
  Value found = Value::Bool(false);
  for (size_t i = 0; i < items.size(); ++i) {  // of a list, which an __eq__ may change
    const Value item = items[i];
    const bool asks = Classes::Of(item) != nullptr;  // as Python does, the item
    KILN_ASSIGN_OR_RETURN(const Value equal,
                          asks ? SameItem(item, a, loc) : SameItem(a, item, loc));
    if (equal.Is(Type::kBool)) {
      if (equal.bool_value()) return equal;
    } else if (found.Is(Type::kBool)) {
      found = equal;
    } else {
      KILN_ASSIGN_OR_RETURN(found, BinaryOp(ast::BinaryOp::kBitOr, found, equal, loc));
    }
  }
  if (found.Is(Type::kExpr) && found.expr().info.open_only()) {
    return NeedConcrete(loc, found.expr().expr, "'in' compares it with a list");
  }
  return found;
}

}  // namespace kiln::lang

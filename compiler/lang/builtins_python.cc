// Python's own functions, and the methods of plain data.
#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "compiler/lang/classes.h"
#include "compiler/lang/format_value.h"
#include "compiler/lang/iteration.h"
#include "compiler/lang/lazy.h"
#include "compiler/lang/raised.h"
#include "compiler/lang/sort.h"

namespace kiln::lang {
namespace {

absl::StatusOr<Value> Len(Elaborator& e, const BoundArgs& args) {
  const Value& v = args[0];
  if (v.is_sequence()) return Value::Int(static_cast<int64_t>(v.seq().items.size()));
  if (IsIterator(v)) {
    return e.Error(args.LocOf(0), "an iterator has no length", "make a list of it: list(...)");
  }
  if (v.Is(Type::kLazy)) {
    return Value::Int(static_cast<int64_t>(LazyOf(v).sources[0].container.dict().items.size()));
  }
  if (v.Is(Type::kStr)) {
    KILN_RETURN_IF_ERROR(CheckKnownText(e, v, args.LocOf(0), "the length"));
    KILN_RETURN_IF_ERROR(CheckAscii(e, v, args.LocOf(0), "the length"));
    return Value::Int(static_cast<int64_t>(v.str().size()));
  }
  if (v.Is(Type::kDict) || v.Is(Type::kSet))
    return Value::Int(static_cast<int64_t>(v.dict().items.size()));
  if (v.Is(Type::kClass)) {
    KILN_ASSIGN_OR_RETURN(const auto cases, Elaborator::Classes(&e).Cases(v, args.LocOf(0)));
    return Value::Int(static_cast<int64_t>(cases.size()));
  }
  if (v.Is(Type::kRange)) return Value::Int(v.range().Count());
  if (v.Is(Type::kInstance)) {
    const Value plain = Plain(v);
    if (plain.Is(Type::kStr)) {
      KILN_RETURN_IF_ERROR(CheckAscii(e, plain, args.LocOf(0), "the length"));
      return Value::Int(static_cast<int64_t>(plain.str().size()));
    }
    KILN_ASSIGN_OR_RETURN(const auto own,
                          Elaborator::Classes(&e).Special(v, "__len__", {}, args.LocOf(0)));
    if (own.has_value()) return CheckLength(e, *own, args.LocOf(0));
    if (const auto flags = Elaborator::Classes::FlagsIn(v)) {
      return Value::Int(static_cast<int64_t>(flags->size()));
    }
  }
  if (v.Is(Type::kArray) && !v.array().shape.empty()) return v.array().shape[0];
  return e.Error(args.LocOf(0), absl::StrCat("no length of ", Describe(v)),
                 v.Is(Type::kBuffer) ? "use x.shape[0]" : "pass a list, tuple, dict or string");
}

// Of two values of a set, which come in no order.
absl::Status CheckApart(Elaborator& e, bool is_max, const Value& a, const Value& b, SourceLoc loc) {
  KILN_ASSIGN_OR_RETURN(const Value other,
                        e.CompareOp(is_max ? ast::CompareOp::kGt : ast::CompareOp::kLt, a, b, loc));
  KILN_ASSIGN_OR_RETURN(const bool apart, e.DecideNow(other, loc, "a comparison of keys"));
  if (apart) return absl::OkStatus();
  return e.Error(loc, "two items of a set have equal keys, and a set has no order",
                 "ask for the items themselves, or make the key a tuple that ends with them");
}

// Each item's key is made right before it is compared.
template <bool is_max>
absl::StatusOr<Value> BestByKey(Elaborator& e, Iteration* items, const Value& key, bool of_set,
                                SourceLoc loc) {
  Value best, best_key;
  for (size_t i = 0; i < items->size(); ++i) {
    const Value item = items->At(i);
    KILN_ASSIGN_OR_RETURN(const Value own, e.Call(key, {item}, loc));
    bool take = i == 0;
    if (!take) {
      KILN_ASSIGN_OR_RETURN(
          const Value better,
          e.CompareOp(is_max ? ast::CompareOp::kGt : ast::CompareOp::kLt, own, best_key, loc));
      KILN_ASSIGN_OR_RETURN(take, e.DecideNow(better, loc, "a comparison of keys"));
      if (!take && of_set) KILN_RETURN_IF_ERROR(CheckApart(e, is_max, best_key, own, loc));
    }
    if (take) {
      best = item;
      best_key = own;
    }
    KILN_RETURN_IF_ERROR(items->CheckUnchanged(e, i));
  }
  return best;
}

template <bool is_max>
absl::StatusOr<Value> MinOrMax(Elaborator& e, const BoundArgs& args) {
  const bool several = args.rest.size() != 1 || e.IsRuntime(args.rest[0]);
  if (args.rest.empty()) {
    return e.Error(args.loc, "the smallest or largest of nothing", "pass at least one value");
  }
  const Value whole = several ? e.NewTuple(args.rest) : args.rest[0];
  KILN_ASSIGN_OR_RETURN(Iteration items, Iteration::BeginAnyOrder(e, whole, args.loc));
  if (items.size() == 0) {
    if (args.present[1]) return args[1];
    return Raised(
        e.Error(args.loc, "the smallest or largest of nothing", "pass at least one value"),
        "ValueError");
  }
  const bool of_set = whole.Is(Type::kSet);
  if (args.Given(0)) return BestByKey<is_max>(e, &items, args[0], of_set, args.loc);
  Value result = items.At(0);
  for (size_t i = 1; i < items.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(const Value best, e.MinMax(is_max, result, items.At(i), args.loc));
    if (of_set && IsSame(best, result) && !IsSame(best, items.At(i))) {
      KILN_RETURN_IF_ERROR(CheckApart(e, is_max, best, items.At(i), args.loc));
    }
    result = best;
    KILN_RETURN_IF_ERROR(items.CheckUnchanged(e, i));
  }
  return result;
}

absl::StatusOr<Value> Sum(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(Iteration items, Iteration::BeginAnyOrder(e, args[0], args.LocOf(0)));
  Value total = args.present[1] ? args[1] : Value::Int(0);
  for (size_t i = 0; i < items.size(); ++i) {
    const Value item = items.At(i);
    if (args[0].Is(Type::kSet) && items.size() > 1 && !item.is_integer()) {
      return e.Error(args.LocOf(0),
                     absl::StrCat("the sum of a set that holds ", Describe(item),
                                  ": it hangs on their order, and a set has none"),
                     "sum up sorted(...) of it");
    }
    KILN_ASSIGN_OR_RETURN(total, e.BinaryOp(ast::BinaryOp::kAdd, total, item, args.loc));
    KILN_RETURN_IF_ERROR(items.CheckUnchanged(e, i));
  }
  return total;
}

absl::StatusOr<Value> Abs(Elaborator& e, const BoundArgs& args) {
  const Value& v = args[0];
  if (v.Is(Type::kFloat)) return Value::Float(std::abs(v.float_value()));
  if (v.is_integer() && v.int_value() >= 0) return Value::Int(v.int_value());
  KILN_ASSIGN_OR_RETURN(const auto own,
                        Elaborator::Classes(&e).Special(v, "__abs__", {}, args.LocOf(0)));
  if (own.has_value()) return *own;
  if (e.IsRuntime(v)) {
    KILN_ASSIGN_OR_RETURN(const Operand x, e.ToOperand(v, args.LocOf(0), "the argument of abs"));
    if (x.e.dtype().is_float()) {
      return e.NewExpr(ir::MakeCall(x.e.dtype(), ir::Intrinsic::kAbs, {x.e}), Join(x.info, {}),
                       args.loc);
    }
  }
  KILN_ASSIGN_OR_RETURN(const Value minus, e.UnaryOp(ast::UnaryOp::kNeg, v, args.loc));
  if (v.is_integer()) return minus;
  return e.MinMax(true, v, minus, args.loc);
}

// What int() reads of text in `base` (0: as its prefix says, 10 without one); nullopt where it is
// no integer. One beyond 64 bits is some number beyond them.
std::optional<__int128> ReadInt(absl::string_view text, int64_t base) {
  const absl::string_view white = " \t\n\r\f\v";
  text.remove_prefix(std::min(text.find_first_not_of(white), text.size()));
  text = text.substr(0, text.find_last_not_of(white) + 1);
  const bool negative = absl::StartsWith(text, "-");
  if (negative || absl::StartsWith(text, "+")) text.remove_prefix(1);
  const char letter = text.size() > 1 && text[0] == '0' ? absl::ascii_tolower(text[1]) : '\0';
  const int64_t named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  const bool prefixed = named != 0 && (base == 0 || base == named);
  if (prefixed) text.remove_prefix(2);
  // 010 is neither decimal nor octal.
  const bool zeros = text.find_first_not_of("0_") == text.npos;
  if (base == 0 && !prefixed && letter != '\0' && !zeros) return std::nullopt;
  if (base == 0) base = prefixed ? named : 10;
  __int128 value = 0;
  bool digit = false, may_part = prefixed;  // the last one was a digit; '_' may stand here
  for (const char c : text) {
    if (c == '_' && may_part) {
      digit = may_part = false;
      continue;
    }
    const int64_t d = absl::ascii_isdigit(c)   ? c - '0'
                      : absl::ascii_isalpha(c) ? absl::ascii_tolower(c) - 'a' + 10
                                               : base;
    if (d >= base) return std::nullopt;
    if (value < (__int128{1} << 70)) value = value * base + d;
    digit = may_part = true;
  }
  if (!digit) return std::nullopt;
  return negative ? -value : value;
}

absl::StatusOr<Value> IntOfText(Elaborator& e, const BoundArgs& args) {
  const Value& v = args[0];
  KILN_RETURN_IF_ERROR(CheckKnownText(e, v, args.LocOf(0), "the value"));
  KILN_RETURN_IF_ERROR(CheckAscii(e, v, args.LocOf(0), "the value"));
  int64_t base = 10;
  if (args.Has(1)) {
    KILN_ASSIGN_OR_RETURN(base, e.ToInt(args[1], args.LocOf(1), "the base"));
  }
  if (base != 0 && (base < 2 || base > 36)) {
    return Raised(
        e.Error(args.LocOf(1), absl::StrCat("the base ", base, " is neither 0 nor from 2 to 36"),
                "use 10 or 16"),
        "ValueError");
  }
  const std::optional<__int128> value = ReadInt(v.str(), base);
  if (!value.has_value()) {
    const std::string in = base == 10 ? "" : absl::StrCat(" in base ", base);
    return Raised(
        e.Error(args.LocOf(0), absl::StrCat(Repr(v), " is not an integer", in), "pass digits"),
        "ValueError");
  }
  if (*value >= INT64_MIN && *value <= INT64_MAX) return Value::Int(static_cast<int64_t>(*value));
  return e.Error(args.LocOf(0), absl::StrCat(Repr(v), " does not fit a 64-bit integer"),
                 "use a smaller number");
}

absl::StatusOr<Value> IntOfFloat(Elaborator& e, const BoundArgs& args, double whole,
                                 const char* remedy) {
  if (!std::isfinite(whole)) {
    return Raised(e.Error(args.LocOf(0), absl::StrCat(Repr(args[0]), " is no integer"),
                          "check the number with math.isfinite"),
                  std::isnan(whole) ? "ValueError" : "OverflowError");
  }
  if (whole >= -0x1p63 && whole < 0x1p63) return Value::Int(static_cast<int64_t>(whole));
  return e.Error(args.LocOf(0), absl::StrCat(Repr(args[0]), " does not fit a 64-bit integer"),
                 remedy);
}

absl::StatusOr<Value> Int(Elaborator& e, const BoundArgs& args) {
  if (!args.present[0]) return Value::Int(0);
  const Value& v = args[0];
  if (v.Is(Type::kStr)) return IntOfText(e, args);
  if (args.Has(1)) {
    return Raised(
        e.Error(args.LocOf(0), absl::StrCat("int with a base takes text, not ", Describe(v)),
                "leave the base out"),
        "TypeError");
  }
  if (v.is_integer()) return Value::Int(v.int_value());
  if (v.Is(Type::kFloat)) {
    return IntOfFloat(e, args, std::trunc(v.float_value()), "use a smaller number");
  }
  if (v.Is(Type::kExpr) && v.expr().info.open_only() && v.expr().expr.dtype().is_int()) return v;
  if (e.IsRuntime(v)) {
    KILN_ASSIGN_OR_RETURN(const Operand x, e.ToType(v, kInt32, args.LocOf(0), "the value"));
    return e.NewExpr(x, args.loc);
  }
  return e.Error(args.LocOf(0), absl::StrCat("no integer from ", Describe(v)), "pass a number");
}

absl::StatusOr<Value> Float(Elaborator& e, const BoundArgs& args) {
  if (!args.present[0]) return Value::Float(0);
  const Value& v = args[0];
  if (v.is_number()) return Value::Float(v.as_double());
  if (v.Is(Type::kStr)) {
    KILN_RETURN_IF_ERROR(CheckAscii(e, v, args.LocOf(0), "the value"));
    double parsed;
    if (absl::SimpleAtod(v.str(), &parsed)) return Value::Float(parsed);
    return e.Error(args.LocOf(0), absl::StrCat(Repr(v), " is not a number"),
                   "pass a number, \"inf\" or \"nan\"");
  }
  if (v.Is(Type::kExpr) && v.expr().info.open_only()) {
    return e.NeedConcrete(args.LocOf(0), v.expr().expr, "float() is computed at compile time");
  }
  if (e.IsRuntime(v)) {
    KILN_ASSIGN_OR_RETURN(const Operand x, e.ToType(v, kFloat32, args.LocOf(0), "the value"));
    return e.NewExpr(x, args.loc);
  }
  return e.Error(args.LocOf(0), absl::StrCat("no float from ", Describe(v)), "pass a number");
}

absl::StatusOr<Value> Bool(Elaborator& e, const BoundArgs& args) {
  if (!args.present[0]) return Value::Bool(false);
  KILN_ASSIGN_OR_RETURN(const Condition c, e.Decide(args[0], args.LocOf(0)));
  if (c.known) return Value::Bool(c.value);
  return e.NewExpr(c.expr, args.loc);
}

absl::StatusOr<Value> Str(Elaborator& e, const BoundArgs& args) {
  if (!args.present[0]) return e.NewStr("");
  const Value& v = args[0];
  if (v.Is(Type::kExpr) && v.expr().info.open_only()) {
    return e.NeedConcrete(args.LocOf(0), v.expr().expr, "its digits become text");
  }
  KILN_ASSIGN_OR_RETURN(std::string text, e.TextOf(v, args.loc));
  return e.NewStr(std::move(text), ShownIn(v));
}

absl::StatusOr<Value> MakeRepr(Elaborator& e, const BoundArgs& args) {
  const Value& v = args[0];
  if (v.Is(Type::kStr)) {
    KILN_RETURN_IF_ERROR(CheckPrintable(e, v, args.LocOf(0)));
    return e.NewStr(Repr(v, 1 << 20), ShownIn(v));
  }
  if (Elaborator::Classes::Of(v) == nullptr) return Str(e, args);
  KILN_ASSIGN_OR_RETURN(std::string text, FormattedText(e, v, 'r', "", args.loc));
  return e.NewStr(std::move(text), ShownIn(v));
}

absl::StatusOr<Value> MakeRange(Elaborator& e, const BoundArgs& args) {
  if (args.rest.empty() || args.rest.size() > 3) {
    return e.Error(args.loc, "range takes one to three arguments", "write range(n)");
  }
  const bool runtime = std::any_of(args.rest.begin(), args.rest.end(),
                                   [&](const Value& v) { return e.IsRuntime(v); });
  if (runtime) {  // an IR loop: the same as T.serial
    const Builtin* serial = FindModule("tilelang.language")->members.at("serial").builtin();
    BoundArgs bound;
    bound.loc = args.loc;
    bound.values.resize(4);
    bound.present.resize(4, false);
    bound.locs.resize(4, args.loc);
    for (size_t i = 0; i < args.rest.size(); ++i) {
      bound.values[i] = args.rest[i];
      bound.locs[i] = args.rest_locs[i];
      bound.present[i] = true;
    }
    return serial->function(e, bound);
  }
  int64_t bounds[3] = {0, 0, 1};
  for (size_t i = 0; i < args.rest.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(bounds[i], e.ToInt(args.rest[i], args.rest_locs[i], "a bound of range"));
  }
  auto* range = e.arena().New<RangeObject>();
  range->start = args.rest.size() == 1 ? 0 : bounds[0];
  range->stop = args.rest.size() == 1 ? bounds[0] : bounds[1];
  range->step = bounds[2];
  if (range->step == 0) return e.Error(args.loc, "the step of range is zero", "use 1 or -1");
  return Value::Of(Type::kRange, range);
}

template <bool tuple>
absl::StatusOr<Value> MakeSequence(Elaborator& e, const BoundArgs& args) {
  std::vector<Value> items;
  if (args.present[0]) {
    KILN_ASSIGN_OR_RETURN(items, e.Iterate(args[0], args.LocOf(0)));
  }
  return tuple ? e.NewTuple(std::move(items)) : e.NewList(std::move(items));
}

absl::StatusOr<Value> MakeDict(Elaborator& e, const BoundArgs& args) {
  auto* dict = e.arena().New<DictObject>();
  if (args.present[0] && args[0].Is(Type::kDict)) {
    dict->items = args[0].dict().items;
  } else if (args.present[0]) {
    KILN_ASSIGN_OR_RETURN(const std::vector<Value> pairs, e.Iterate(args[0], args.LocOf(0)));
    for (const Value& pair : pairs) {
      KILN_ASSIGN_OR_RETURN(const std::vector<Value> items, e.Iterate(pair, args.LocOf(0)));
      if (items.size() != 2) {
        return e.Error(args.LocOf(0), "dict() takes pairs of key and value",
                       "use dict(zip(keys, values))");
      }
      KILN_RETURN_IF_ERROR(e.CheckKey(items[0], args.LocOf(0)));
      KILN_RETURN_IF_ERROR(e.Step(args.loc, static_cast<int64_t>(dict->items.size())));
      KILN_RETURN_IF_ERROR(e.SetItem(dict, items[0], items[1], args.LocOf(0)));
    }
  }
  for (const CallArgs::Keyword& keyword : args.extra) {
    auto found = std::find_if(dict->items.begin(), dict->items.end(), [&](const auto& entry) {
      return entry.first.Is(Type::kStr) && entry.first.str() == keyword.name;
    });
    if (found != dict->items.end())
      found->second = keyword.value;
    else
      dict->items.emplace_back(e.NewStr(std::string(keyword.name)), keyword.value);
  }
  dict->region = e.CurrentRegion();
  KILN_RETURN_IF_ERROR(e.ChargeBytes(args.loc, 32 * static_cast<int64_t>(dict->items.size())));
  return Value::Of(Type::kDict, dict);
}

absl::StatusOr<Value> Zip(Elaborator& e, const BoundArgs& args) {
  std::vector<std::vector<Value>> columns;
  size_t rows = args.rest.empty() ? 0 : SIZE_MAX;
  for (size_t i = 0; i < args.rest.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(std::vector<Value> column, e.Iterate(args.rest[i], args.rest_locs[i]));
    rows = std::min(rows, column.size());
    columns.push_back(std::move(column));
  }
  bool strict = false;
  if (args.Given(0)) {
    KILN_ASSIGN_OR_RETURN(strict, e.ToBool(args[0], args.LocOf(0), "strict"));
  }
  for (const std::vector<Value>& column : columns) {
    if (!strict || column.size() == rows) continue;
    return e.Error(
        args.loc,
        absl::StrCat("zip(strict=True) goes over ", column.size(), " items beside ", rows),
        "give it as many of each");
  }
  std::vector<Value> items;
  for (size_t r = 0; r < rows; ++r) {
    KILN_RETURN_IF_ERROR(e.Step(args.loc));
    KILN_RETURN_IF_ERROR(e.ChargeBytes(args.loc, 16));
    std::vector<Value> row;
    for (const std::vector<Value>& column : columns) row.push_back(column[r]);
    items.push_back(e.NewTuple(std::move(row)));
  }
  return NewIterator(e, std::move(items), args.rest, {.in_order = true});
}

absl::StatusOr<Value> Enumerate(Elaborator& e, const BoundArgs& args) {
  int64_t start = 0;
  if (args.present[1]) {
    KILN_ASSIGN_OR_RETURN(start, e.ToInt(args[1], args.LocOf(1), "the start of enumerate"));
  }
  KILN_ASSIGN_OR_RETURN(std::vector<Value> items, e.Iterate(args[0], args.LocOf(0)));
  for (Value& item : items) {
    KILN_RETURN_IF_ERROR(e.ChargeBytes(args.loc, 16));
    item = e.NewTuple({Value::Int(start), item});
    if (__builtin_add_overflow(start, 1, &start)) start = INT64_MAX;
  }
  return NewIterator(e, std::move(items), {args[0]}, {.in_order = true});
}

absl::StatusOr<Value> Reversed(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(std::vector<Value> items, e.Iterate(args[0], args.LocOf(0)));
  std::reverse(items.begin(), items.end());
  return NewIterator(e, std::move(items), {args[0]});
}

absl::StatusOr<Value> Sorted(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(std::vector<Value> items, AnyOrder(e, args[0], args.LocOf(0)));
  SortOrder order;
  order.key = args.Given(1) ? args[1] : Value::None();
  order.of_set = args[0].Is(Type::kSet);
  if (args.Given(2)) {
    KILN_ASSIGN_OR_RETURN(order.reverse, e.ToBool(args[2], args.LocOf(2), "reverse"));
  }
  KILN_ASSIGN_OR_RETURN(items, SortItems(e, std::move(items), order, args.loc));
  return e.NewList(std::move(items));
}

template <bool all>
absl::StatusOr<Value> AnyOrAll(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(Iteration items, Iteration::BeginAnyOrder(e, args[0], args.LocOf(0)));
  Value result = Value::Bool(all);
  for (size_t i = 0; i < items.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(const Condition c, e.Decide(items.At(i), args.LocOf(0)));
    if (c.known) {
      if (c.value != all) return Value::Bool(!all);
      KILN_RETURN_IF_ERROR(items.CheckUnchanged(e, i));
      continue;
    }
    KILN_ASSIGN_OR_RETURN(const Value one, e.NewExpr(c.expr, args.loc));
    KILN_ASSIGN_OR_RETURN(result, e.BinaryOp(all ? ast::BinaryOp::kBitAnd : ast::BinaryOp::kBitOr,
                                             result, one, args.loc));
  }
  return result;
}

bool IsOfClass(const ClassObject& own, const ClassObject& asked) {
  if (&own == &asked) return true;
  return std::any_of(own.bases.begin(), own.bases.end(),
                     [&](const Value& base) { return IsOfClass(base.type_object(), asked); });
}

bool IsInstance(const Value& v, const Value& type) {
  if (type.Is(Type::kClass)) {
    const ClassObject* own = Elaborator::Classes::Of(v);
    return own != nullptr && IsOfClass(*own, type.type_object());
  }
  if (type.Is(Type::kTuple)) {
    const auto& items = type.seq().items;
    return std::any_of(items.begin(), items.end(),
                       [&](const Value& t) { return !t.Is(Type::kTuple) && IsInstance(v, t); });
  }
  if (type.Is(Type::kBuiltin)) {
    const absl::string_view name = type.builtin()->name;
    if (name == "type") return v.Is(Type::kClass) || v.Is(Type::kTypeName);
    if (name == "T.dtype") return v.Is(Type::kDType);
    return (name == "T.Tensor" || name == "T.Buffer") && v.Is(Type::kBuffer);
  }
  if (!type.Is(Type::kTypeName)) return false;
  const absl::string_view name = type.type_name();
  const Value plain = Plain(v);
  if (name == "int") return plain.is_integer();
  if (name == "float") return plain.Is(Type::kFloat);
  if (name == "bool") return v.Is(Type::kBool);
  if (name == "str") return plain.Is(Type::kStr) || v.Is(Type::kDType);
  if (name == "list") return v.Is(Type::kList);
  if (name == "tuple") return v.Is(Type::kTuple);
  if (name == "dict") return v.Is(Type::kDict);
  if (name == "set" || name == "frozenset") return v.Is(Type::kSet);
  if (name == "PrimExpr") return v.Is(Type::kExpr) || v.Is(Type::kAccess);
  if (name == "Var") return v.Is(Type::kExpr) && v.expr().expr.As<ir::Var>() != nullptr;
  if (name == "Enum" || name == "IntEnum" || name == "StrEnum") {
    const ClassObject* own = Elaborator::Classes::Of(v);
    const bool of_enum = own != nullptr && own->kind == ClassKind::kEnum;
    return of_enum && (name == "Enum" || (own->shows_value && own->is_text == (name == "StrEnum")));
  }
  return name == "Any" || name == "object";
}

absl::StatusOr<Value> IsSubclass(Elaborator& e, const BoundArgs& args) {
  if (!args[0].Is(Type::kClass)) {
    return e.Error(args.LocOf(0), absl::StrCat("issubclass of ", Describe(args[0])),
                   "pass a class");
  }
  // Reads its bases, where it was not used before.
  KILN_RETURN_IF_ERROR(Elaborator::Classes(&e).Has(args[0], "__init__", args.loc).status());
  std::vector<Value> asked = {args[1]};
  if (args[1].Is(Type::kTuple)) asked = args[1].seq().items;
  for (const Value& one : asked) {
    if (one.Is(Type::kClass) && IsOfClass(args[0].type_object(), one.type_object())) {
      return Value::Bool(true);
    }
  }
  return Value::Bool(false);
}

absl::StatusOr<Value> Isinstance(Elaborator& e, const BoundArgs& args) {
  if (args[0].Is(Type::kExpr) && args[0].expr().info.open_only()) {
    return Value::Bool(args[1].Is(Type::kTypeName) &&
                       absl::string_view(args[1].type_name()) == "int");
  }
  return Value::Bool(IsInstance(args[0], args[1]));
}

absl::StatusOr<Value> Print(Elaborator&, const BoundArgs&) { return Value::None(); }

// The multiple of 10^places that is nearest to `x`, of two the even one.
absl::StatusOr<Value> RoundInt(Elaborator& e, const BoundArgs& args, int64_t x, int64_t places) {
  if (places > 18) return Value::Int(0);
  __int128 unit = 1;
  for (int64_t i = 0; i < places; ++i) unit *= 10;
  __int128 down = x / unit;
  if (x % unit < 0) --down;
  const __int128 above = 2 * (x - down * unit);
  if (above > unit || (above == unit && down % 2 != 0)) ++down;
  const __int128 result = down * unit;
  if (result >= INT64_MIN && result <= INT64_MAX) return Value::Int(static_cast<int64_t>(result));
  return e.Error(args.loc, "the rounded integer does not fit 64 bits", "use a smaller number");
}

absl::StatusOr<Value> Round(Elaborator& e, const BoundArgs& args) {
  int64_t digits = 0;
  if (args.Given(1)) {
    KILN_ASSIGN_OR_RETURN(digits, e.ToInt(args[1], args.LocOf(1), "the digits"));
  }
  if (args[0].is_integer()) {
    const int64_t x = args[0].int_value();
    return digits >= 0 ? Value::Int(x)
                       : RoundInt(e, args, x, std::min<int64_t>(19, -(digits + 1)) + 1);
  }
  if (!args[0].Is(Type::kFloat)) {
    return e.Error(args.LocOf(0), absl::StrCat("round of ", Describe(args[0])),
                   "use T.round for run-time values");
  }
  const double x = args[0].float_value();
  if (!args.Given(1)) {
    return IntOfFloat(e, args, std::nearbyint(x), "keep it a float: round(x, 0)");
  }
  if (!std::isfinite(x) || digits > 323) return args[0];
  if (digits < -308) return Value::Float(std::copysign(0.0, x));
  // Decimal digits as printing rounds them: of the number's exact value.
  if (digits >= 0) {
    return Value::Float(
        std::strtod(absl::StrFormat("%.*f", static_cast<int>(digits), x).c_str(), nullptr));
  }
  const double unit = std::pow(10.0, static_cast<double>(-digits));
  return Value::Float(std::nearbyint(x / unit) * unit);
}

absl::StatusOr<Value> Divmod(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Value q,
                        e.BinaryOp(ast::BinaryOp::kFloorDiv, args[0], args[1], args.loc));
  KILN_ASSIGN_OR_RETURN(const Value r, e.BinaryOp(ast::BinaryOp::kMod, args[0], args[1], args.loc));
  return e.NewTuple({q, r});
}

absl::StatusOr<Value> Pow(Elaborator& e, const BoundArgs& args) {
  return e.BinaryOp(ast::BinaryOp::kPow, args[0], args[1], args.loc);
}

// map(function, items, more...): as far as the shortest goes.
absl::StatusOr<Value> MapSeveral(Elaborator& e, const BoundArgs& args) {
  BoundArgs columns;
  columns.loc = args.loc;
  columns.rest = {args[1]};
  columns.rest_locs = {args.LocOf(1)};
  columns.rest.insert(columns.rest.end(), args.rest.begin(), args.rest.end());
  columns.rest_locs.insert(columns.rest_locs.end(), args.rest_locs.begin(), args.rest_locs.end());
  KILN_ASSIGN_OR_RETURN(const Value zipped, Zip(e, columns));
  KILN_ASSIGN_OR_RETURN(std::vector<Value> rows, e.Iterate(zipped, args.loc));
  Elaborator::Deferred deferred(&e);
  for (Value& row : rows) {
    const absl::StatusOr<Value> made = e.Call(args[0], row.seq().items, args.loc);
    if (!made.ok()) return deferred.Failed(made.status());
    row = *made;
  }
  return deferred.Finish(std::move(rows), columns.rest, true, "map", args.loc);
}

template <bool filter>
absl::StatusOr<Value> MapOrFilter(Elaborator& e, const BoundArgs& args) {
  if (!args.rest.empty()) return MapSeveral(e, args);
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> items, e.Iterate(args[1], args.LocOf(1)));
  Elaborator::Deferred deferred(&e);
  std::vector<Value> out;
  for (const Value& item : items) {
    Value result = item;  // filter(None, items)
    if (!filter || !args[0].is_none()) {
      const absl::StatusOr<Value> called = e.Call(args[0], {item}, args.loc);
      if (!called.ok()) return deferred.Failed(called.status());
      result = *called;
    }
    if (!filter) {
      out.push_back(result);
      continue;
    }
    KILN_ASSIGN_OR_RETURN(const bool keep, e.DecideNow(result, args.loc, "a filter"));
    if (keep) out.push_back(item);
  }
  return deferred.Finish(std::move(out), {args[1]}, !filter, filter ? "filter" : "map", args.loc);
}

constexpr Builtin kRows[] = {
    {"len", "x", Len},
    {"min", "* key? default?", MinOrMax<false>},
    {"max", "* key? default?", MinOrMax<true>},
    {"sum", "items start?", Sum},
    {"abs", "x", Abs},
    {"range", "*", MakeRange},
    {"zip", "* strict?", Zip},
    {"enumerate", "items start?", Enumerate},
    {"reversed", "items", Reversed},
    {"sorted", "items key? reverse?", Sorted},
    {"any", "items", AnyOrAll<false>},
    {"all", "items", AnyOrAll<true>},
    {"isinstance", "value type", Isinstance},
    {"issubclass", "type types", IsSubclass},
    {"print", "* sep? end? file? flush?", Print},
    {"round", "x digits?", Round},
    {"divmod", "a b", Divmod},
    {"pow", "a b", Pow},
    {"map", "function items *", MapOrFilter<false>},
    {"filter", "function items", MapOrFilter<true>},
    {"repr", "x", MakeRepr},
    // Conversions: the names are types, which Elaborator::CallType finds here.
    {"int", "x? base?", Int},
    {"float", "x?", Float},
    {"bool", "x?", Bool},
    {"str", "x?", Str},
    {"list", "items?", MakeSequence<false>},
    {"tuple", "items?", MakeSequence<true>},
    {"dict", "items? **", MakeDict},
};

}  // namespace

BuiltinTable PythonTable() { return {kRows, std::size(kRows)}; }

const Builtin* PythonTableRow(absl::string_view name) {
  return std::find_if(std::begin(kRows), std::end(kRows),
                      [&](const Builtin& row) { return name == row.name; });
}

}  // namespace kiln::lang

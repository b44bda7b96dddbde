// Methods of lists, tuples, dicts, strings and run-time values.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/lang/iteration.h"
#include "compiler/lang/lazy.h"
#include "compiler/lang/mutable.h"
#include "compiler/lang/raised.h"
#include "compiler/lang/sort.h"

namespace kiln::lang {
namespace {

absl::StatusOr<Value> Append(Elaborator& e, const BoundArgs& args) {
  SeqObject& list = args[0].seq();
  KILN_RETURN_IF_ERROR(CheckMutable(e, args[0], args.loc));
  KILN_RETURN_IF_ERROR(e.ChargeBytes(args.loc, 16));
  KILN_ASSIGN_OR_RETURN(const Value item, e.Keep(args[1], "item", args.LocOf(1)));
  list.items.push_back(item);
  return Value::None();
}

absl::StatusOr<Value> Extend(Elaborator& e, const BoundArgs& args) {
  SeqObject& list = args[0].seq();
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> more, e.Iterate(args[1], args.LocOf(1)));
  KILN_RETURN_IF_ERROR(CheckMutable(e, args[0], args.loc));
  KILN_RETURN_IF_ERROR(CheckApart(e, args[1], args.loc));
  KILN_RETURN_IF_ERROR(e.ChargeBytes(args.loc, 16 * static_cast<int64_t>(more.size())));
  for (const Value& item : more) {
    KILN_ASSIGN_OR_RETURN(const Value kept, e.Keep(item, "item", args.loc));
    list.items.push_back(kept);
  }
  return Value::None();
}

absl::StatusOr<Value> Insert(Elaborator& e, const BoundArgs& args) {
  SeqObject& list = args[0].seq();
  KILN_RETURN_IF_ERROR(CheckMutable(e, args[0], args.loc));
  KILN_ASSIGN_OR_RETURN(int64_t at, e.ToInt(args[1], args.LocOf(1), "the place"));
  const int64_t size = static_cast<int64_t>(list.items.size());
  if (at < 0) at = std::max<int64_t>(0, at + size);
  KILN_RETURN_IF_ERROR(e.ChargeBytes(args.loc, 16));
  KILN_RETURN_IF_ERROR(e.Step(args.loc, size / 16));
  KILN_ASSIGN_OR_RETURN(const Value item, e.Keep(args[2], "item", args.LocOf(2)));
  list.items.insert(list.items.begin() + std::min(at, size), item);
  return Value::None();
}

absl::StatusOr<Value> Pop(Elaborator& e, const BoundArgs& args) {
  SeqObject& list = args[0].seq();
  KILN_RETURN_IF_ERROR(CheckMutable(e, args[0], args.loc));
  const int64_t size = static_cast<int64_t>(list.items.size());
  int64_t at = -1;
  if (args.present[1]) {
    KILN_ASSIGN_OR_RETURN(at, e.ToInt(args[1], args.LocOf(1), "the place"));
  }
  if (at < 0) at += size;
  if (at < 0 || at >= size) {
    return Raised(e.Error(args.loc, absl::StrCat("no item to take from a list of length ", size),
                          "check its length"),
                  "IndexError");
  }
  KILN_RETURN_IF_ERROR(e.Step(args.loc, (size - at) / 16));
  const Value item = list.items[at];
  list.items.erase(list.items.begin() + at);
  return item;
}

absl::StatusOr<Value> ClearList(Elaborator& e, const BoundArgs& args) {
  SeqObject& list = args[0].seq();
  KILN_RETURN_IF_ERROR(CheckMutable(e, args[0], args.loc));
  list.items.clear();
  return Value::None();
}

absl::StatusOr<Value> Index(Elaborator& e, const BoundArgs& args) {
  const std::vector<Value>& items = args[0].seq().items;
  KILN_RETURN_IF_ERROR(e.Step(args.loc, static_cast<int64_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i) {  // which an __eq__ may change
    const Value item = items[i];
    KILN_ASSIGN_OR_RETURN(const bool equal, e.Equal(item, args[1], args.loc));
    if (equal) return Value::Int(static_cast<int64_t>(i));
  }
  return Raised(e.Error(args.loc, absl::StrCat(Repr(args[1]), " is not in the list"),
                        "check with 'in' first"),
                "ValueError");
}

absl::StatusOr<Value> CountOf(Elaborator& e, const BoundArgs& args) {
  const std::vector<Value>& items = args[0].seq().items;
  KILN_RETURN_IF_ERROR(e.Step(args.loc, static_cast<int64_t>(items.size())));
  int64_t count = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const Value item = items[i];
    KILN_ASSIGN_OR_RETURN(const bool equal, e.Equal(item, args[1], args.loc));
    count += equal ? 1 : 0;
  }
  return Value::Int(count);
}

absl::StatusOr<Value> CopyList(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(std::vector<Value> items, e.Iterate(args[0], args.loc));
  return e.NewList(std::move(items));
}

absl::StatusOr<Value> DictGet(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.CheckKey(args[1], args.LocOf(1)));
  KILN_RETURN_IF_ERROR(e.Step(args.loc, static_cast<int64_t>(args[0].dict().items.size())));
  KILN_ASSIGN_OR_RETURN(const auto at, e.FindKey(args[0].dict(), args[1], args.LocOf(1)));
  if (at.has_value()) return args[0].dict().items[*at].second;
  return args.present[2] ? args[2] : Value::None();
}

template <LazyKind part>
absl::StatusOr<Value> DictParts(Elaborator& e, const BoundArgs& args) {
  return NewView(e, args[0], part);
}

absl::StatusOr<Value> DictUpdate(Elaborator& e, const BoundArgs& args) {
  DictObject& dict = args[0].dict();
  KILN_RETURN_IF_ERROR(CheckMutable(e, args[0], args.loc));
  std::vector<std::pair<Value, Value>> added;
  if (args.present[1] && !args[1].Is(Type::kDict)) {
    return e.Error(args.LocOf(1), absl::StrCat("update takes a dict, not ", Describe(args[1])),
                   "pass a dict");
  }
  if (args.present[1]) added = args[1].dict().items;
  for (const CallArgs::Keyword& keyword : args.extra) {
    added.emplace_back(e.NewStr(std::string(keyword.name)), keyword.value);
  }
  for (const auto& [key, given] : added) {
    KILN_ASSIGN_OR_RETURN(const Value item, e.Keep(given, "item", args.loc));
    KILN_RETURN_IF_ERROR(e.Step(args.loc, static_cast<int64_t>(dict.items.size())));
    KILN_RETURN_IF_ERROR(e.ChargeBytes(args.loc, 32));
    KILN_RETURN_IF_ERROR(e.SetItem(&dict, key, item, args.loc));
  }
  return Value::None();
}

absl::StatusOr<Value> DictCopy(Elaborator& e, const BoundArgs& args) {
  auto* dict = e.arena().New<DictObject>();
  dict->items = args[0].dict().items;
  dict->factory = args[0].dict().factory;
  dict->region = e.CurrentRegion();
  KILN_RETURN_IF_ERROR(e.ChargeBytes(args.loc, 32 * static_cast<int64_t>(dict->items.size())));
  return Value::Of(Type::kDict, dict);
}

template <bool at_end>
absl::StatusOr<Value> StartsOrEnds(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::string part, e.ToStr(args[1], args.LocOf(1), "the text"));
  for (const Value& text : {args[0], args[1]}) {
    KILN_RETURN_IF_ERROR(CheckKnownText(e, text, args.loc, at_end ? "the end" : "the start"));
  }
  return Value::Bool(at_end ? absl::EndsWith(args[0].str(), part)
                            : absl::StartsWith(args[0].str(), part));
}

template <bool upper>
absl::StatusOr<Value> ChangeCase(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(CheckAscii(e, args[0], args.loc, "the case"));
  return e.NewStr(
      upper ? absl::AsciiStrToUpper(args[0].str()) : absl::AsciiStrToLower(args[0].str()),
      ShownIn(args[0]));
}

absl::StatusOr<Value> JoinStr(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> items, e.Iterate(args[1], args.LocOf(1)));
  std::string text;
  Value shown = ShownIn(args[0]);
  for (size_t i = 0; i < items.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(const std::string part,
                          e.ToStr(items[i], args.LocOf(1), "an item of join"));
    KILN_RETURN_IF_ERROR(
        e.ChargeBytes(args.loc, static_cast<int64_t>(part.size() + args[0].str().size())));
    if (i) text += args[0].str();
    text += part;
    if (shown.is_none()) shown = ShownIn(items[i]);
  }
  return e.NewStr(std::move(text), shown);
}

absl::StatusOr<Value> AsType(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const DType type, e.ToDType(args[1], args.LocOf(1)));
  KILN_ASSIGN_OR_RETURN(const Operand x,
                        e.ToType(args[0], type, args.LocOf(0), "the value of astype"));
  return e.NewExpr(x, args.loc);
}

absl::StatusOr<Value> ScopeOf(Elaborator& e, const BoundArgs& args) {
  static constexpr const char* kNames[] = {"global", "shared.dyn", "local.fragment", "local",
                                           "local.var"};
  return e.NewStr(kNames[static_cast<int>(args[0].buffer().buffer->scope)]);
}

absl::StatusOr<Value> BitLength(Elaborator&, const BoundArgs& args) {
  const int64_t n = args[0].int_value();
  const uint64_t size = n < 0 ? -static_cast<uint64_t>(n) : static_cast<uint64_t>(n);
  return Value::Int(size == 0 ? 0 : 64 - __builtin_clzll(size));
}

absl::StatusOr<Value> BitCount(Elaborator&, const BoundArgs& args) {
  const int64_t n = args[0].int_value();
  const uint64_t size = n < 0 ? -static_cast<uint64_t>(n) : static_cast<uint64_t>(n);
  return Value::Int(__builtin_popcountll(size));
}

absl::StatusOr<Value> IsInteger(Elaborator&, const BoundArgs& args) {
  const double x = args[0].as_double();
  return Value::Bool(std::isfinite(x) && x == std::floor(x));
}

absl::StatusOr<Value> ReverseList(Elaborator& e, const BoundArgs& args) {
  SeqObject& list = args[0].seq();
  KILN_RETURN_IF_ERROR(CheckMutable(e, args[0], args.loc));
  KILN_RETURN_IF_ERROR(e.Step(args.loc, static_cast<int64_t>(list.items.size())));
  std::reverse(list.items.begin(), list.items.end());
  return Value::None();
}

absl::StatusOr<Value> SortList(Elaborator& e, const BoundArgs& args) {
  SeqObject& list = args[0].seq();
  KILN_RETURN_IF_ERROR(CheckMutable(e, args[0], args.loc));
  SortOrder order;
  order.key = args.Given(1) ? args[1] : Value::None();
  if (args.Given(2)) {
    KILN_ASSIGN_OR_RETURN(order.reverse, e.ToBool(args[2], args.LocOf(2), "reverse"));
  }
  // Who looks meanwhile sees an empty list.
  const std::vector<Value> items = std::exchange(list.items, {});
  absl::StatusOr<std::vector<Value>> sorted = SortItems(e, items, order, args.loc);
  const bool changed = !list.items.empty();
  list.items = sorted.ok() ? *std::move(sorted) : items;
  // Python leaves some of it sorted, where a comparison fails.
  if (!sorted.ok()) return Raised(sorted.status(), "");
  if (!changed) return Value::None();
  return Raised(
      e.Error(args.loc, "the list changes its length while it is sorted", "sort a copy of it"),
      "ValueError");
}

absl::StatusOr<Value> Remove(Elaborator& e, const BoundArgs& args) {
  SeqObject& list = args[0].seq();
  KILN_RETURN_IF_ERROR(CheckMutable(e, args[0], args.loc));
  KILN_ASSIGN_OR_RETURN(const Value at, Index(e, args));
  if (at.int_value() >= static_cast<int64_t>(list.items.size())) {
    return e.Error(args.loc, "the list is changed while an item is looked for in it",
                   "go over a copy of it");
  }
  list.items.erase(list.items.begin() + at.int_value());
  return Value::None();
}

absl::StatusOr<Value> DictPop(Elaborator& e, const BoundArgs& args) {
  DictObject& dict = args[0].dict();
  KILN_RETURN_IF_ERROR(e.CheckKey(args[1], args.LocOf(1)));
  KILN_RETURN_IF_ERROR(CheckMutable(e, args[0], args.loc));
  KILN_RETURN_IF_ERROR(e.Step(args.loc, static_cast<int64_t>(dict.items.size())));
  KILN_ASSIGN_OR_RETURN(const auto at, e.FindKey(dict, args[1], args.LocOf(1)));
  if (at.has_value()) {
    const Value item = dict.items[*at].second;
    dict.items.erase(dict.items.begin() + static_cast<std::ptrdiff_t>(*at));
    return item;
  }
  if (args.present[2]) return args[2];
  return Raised(
      e.Error(args.loc, absl::StrCat("the dict has no key ", Repr(args[1])), "check the key"),
      "KeyError");
}

// The item that came last, and its key.
absl::StatusOr<Value> PopItem(Elaborator& e, const BoundArgs& args) {
  DictObject& dict = args[0].dict();
  KILN_RETURN_IF_ERROR(CheckMutable(e, args[0], args.loc));
  if (dict.items.empty()) {
    return Raised(e.Error(args.loc, "no item to take from an empty dict", "check its length"),
                  "KeyError");
  }
  const auto [key, item] = dict.items.back();
  dict.items.pop_back();
  return e.NewTuple({key, item});
}

absl::StatusOr<Value> ClearDict(Elaborator& e, const BoundArgs& args) {
  DictObject& dict = args[0].dict();
  KILN_RETURN_IF_ERROR(CheckMutable(e, args[0], args.loc));
  dict.items.clear();
  return Value::None();
}

absl::StatusOr<Value> SetDefault(Elaborator& e, const BoundArgs& args) {
  DictObject& dict = args[0].dict();
  KILN_RETURN_IF_ERROR(e.CheckKey(args[1], args.LocOf(1)));
  KILN_RETURN_IF_ERROR(CheckMutable(e, args[0], args.loc));
  KILN_RETURN_IF_ERROR(e.Step(args.loc, static_cast<int64_t>(dict.items.size())));
  KILN_ASSIGN_OR_RETURN(const auto at, e.FindKey(dict, args[1], args.LocOf(1)));
  if (at.has_value()) return dict.items[*at].second;
  KILN_RETURN_IF_ERROR(e.ChargeBytes(args.loc, 32));
  const Value given = args.present[2] ? args[2] : Value::None();
  KILN_ASSIGN_OR_RETURN(const Value item, e.Keep(given, "item", args.loc));
  dict.items.emplace_back(args[1], item);
  return dict.items.back().second;
}

absl::StatusOr<Value> FindText(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::string part, e.ToStr(args[1], args.LocOf(1), "the text"));
  for (const Value& text : {args[0], args[1]}) {
    KILN_RETURN_IF_ERROR(CheckKnownText(e, text, args.loc, "a place"));
  }
  KILN_RETURN_IF_ERROR(CheckAscii(e, args[0], args.loc, "a place"));
  const size_t at = args[0].str().find(part);
  return Value::Int(at == std::string::npos ? -1 : static_cast<int64_t>(at));
}

// Occurrences that do not overlap; of nothing: one around each character.
absl::StatusOr<Value> CountText(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(CheckKnownText(e, args[0], args.loc, "count"));
  KILN_ASSIGN_OR_RETURN(const std::string part, e.ToStr(args[1], args.LocOf(1), "the text"));
  const std::string& text = args[0].str();
  if (part.empty()) KILN_RETURN_IF_ERROR(CheckAscii(e, args[0], args.loc, "the length"));
  if (part.empty()) return Value::Int(static_cast<int64_t>(text.size()) + 1);
  int64_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) {
    ++count;
    at += part.size();
  }
  return Value::Int(count);
}

absl::StatusOr<Value> IsDigits(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(CheckKnownText(e, args[0], args.loc, "isdigit"));
  KILN_RETURN_IF_ERROR(CheckAscii(e, args[0], args.loc, "isdigit"));
  const std::string& text = args[0].str();
  return Value::Bool(!text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit));
}

// One table; each type's methods are a range of it.
constexpr Builtin kMethods[] = {
    // list: 0-10; tuple: 9-10
    {"clear", "self", ClearList},
    {"reverse", "self", ReverseList},
    {"sort", "self key? reverse?", SortList},
    {"remove", "self item", Remove},
    {"append", "self item", Append},
    {"extend", "self items", Extend},
    {"insert", "self at item", Insert},
    {"pop", "self at?", Pop},
    {"copy", "self", CopyList},
    {"index", "self item", Index},
    {"count", "self item", CountOf},
    // dict: 11-20
    {"clear", "self", ClearDict},
    {"popitem", "self", PopItem},
    {"pop", "self key default?", DictPop},
    {"setdefault", "self key default?", SetDefault},
    {"get", "self key default?", DictGet},
    {"keys", "self", DictParts<LazyKind::kKeys>},
    {"values", "self", DictParts<LazyKind::kValues>},
    {"items", "self", DictParts<LazyKind::kItems>},
    {"update", "self other? **", DictUpdate},
    {"copy", "self", DictCopy},
    // str: 21-28, and builtins_text.cc
    {"count", "self text", CountText},
    {"find", "self text", FindText},
    {"isdigit", "self", IsDigits},
    {"startswith", "self text", StartsOrEnds<false>},
    {"endswith", "self text", StartsOrEnds<true>},
    {"lower", "self", ChangeCase<false>},
    {"upper", "self", ChangeCase<true>},
    {"join", "self items", JoinStr},
    // buffer: 29-30; expressions: 30
    {"scope", "self", ScopeOf},
    {"astype", "self dtype", AsType},
    // int: 31-33; float: 33
    {"bit_length", "self", BitLength},
    {"bit_count", "self", BitCount},
    {"is_integer", "self", IsInteger},
};

BuiltinTable TableOf(const Value& self) {
  switch (self.type()) {
    case Type::kList:
      return {kMethods, 11};
    case Type::kTuple:
      return {kMethods + 9, 2};
    case Type::kDict:
      return {kMethods + 11, 10};
    case Type::kStr:
      return {kMethods + 21, 8};
    case Type::kBuffer:
      return {kMethods + 29, 2};
    case Type::kExpr:
    case Type::kAccess:
      return {kMethods + 30, 1};
    case Type::kBool:
    case Type::kInt:
      return {kMethods + 31, 3};
    case Type::kFloat:
      return {kMethods + 33, 1};
    case Type::kArray:
      return ArrayMethods();
    case Type::kSet:
      return SetMethods();
    default:
      return {nullptr, 0};
  }
}

BuiltinTable MoreOf(const Value& self) {
  if (self.Is(Type::kStr)) return TextMethods();
  return self.Is(Type::kTuple) && self.seq().named != nullptr ? TupleMethods()
                                                              : BuiltinTable{nullptr, 0};
}

}  // namespace

absl::Status CheckAscii(Elaborator& e, const Value& text, SourceLoc loc, absl::string_view what) {
  if (!text.Is(Type::kStr)) return absl::OkStatus();
  const std::string& bytes = text.str();
  const auto more = std::find_if(bytes.begin(), bytes.end(),
                                 [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  if (more == bytes.end()) return absl::OkStatus();
  return e.Unimplemented(loc, absl::StrCat(what, " of a text with characters beyond ASCII"),
                         "use ASCII's characters where their number or kind counts");
}

absl::Status CheckKnownText(Elaborator& e, const Value& text, SourceLoc loc,
                            absl::string_view what) {
  const Value shown = ShownIn(text);
  if (shown.is_none()) return absl::OkStatus();
  const std::string message =
      absl::StrCat(what, " of the text ", Repr(text),
                   " must be known at compile time, but it shows a number of run time");
  if (shown.expr().info.open_only()) return e.NeedConcrete(loc, shown.expr().expr, message);
  return e.NeedsValue(loc, message, shown.expr().expr, "ask the number itself");
}

const Builtin* FindMethod(const Value& self, absl::string_view name) {
  for (const BuiltinTable& table : {TableOf(self), MoreOf(self)}) {
    for (size_t i = 0; i < table.size; ++i) {
      if (name == table.rows[i].name) return &table.rows[i];
    }
  }
  return nullptr;
}

BuiltinTable MethodTable() { return {kMethods, std::size(kMethods)}; }

std::vector<std::string> MethodNames(const Value& self) {
  std::vector<std::string> names;
  for (const BuiltinTable& table : {TableOf(self), MoreOf(self)}) {
    for (size_t i = 0; i < table.size; ++i) names.emplace_back(table.rows[i].name);
  }
  return names;
}

}  // namespace kiln::lang

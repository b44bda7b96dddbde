// Enums: the values that enum.auto() stands for, enums made by a call, and flags, whose members are
// sets of bits.
#include <algorithm>
#include <bit>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "compiler/lang/classes.h"

namespace kiln::lang {
namespace {

using Answer = std::optional<Value>;

constexpr int kMostBits = 62;  // of a flag

const ClassObject* FlagOf(const Value& v) {
  if (!v.Is(Type::kInstance) || v.instance().type == nullptr) return nullptr;
  return v.instance().type->is_flag ? v.instance().type : nullptr;
}

int64_t BitsOf(const Value& member) { return AttributeOf(member.instance(), "value")->int_value(); }

int WidthOf(int64_t x) {
  const auto bits = static_cast<uint64_t>(x);
  return std::bit_width(x < 0 ? 0 - bits : bits);
}

// The bits that members of the flag have.
int64_t MaskOf(const ClassObject& type) {
  int64_t mask = 0;
  for (const auto& [name, member] : type.members) {
    if (FlagOf(member) == &type) mask |= BitsOf(member);
  }
  return mask;
}

bool IsAuto(const Value& v) {
  return v.Is(Type::kTypeName) && absl::string_view(v.type_name()) == "enum.auto()";
}

}  // namespace

absl::StatusOr<Value> Elaborator::Classes::AutoValue(const ClassObject& type,
                                                     const std::string& name,
                                                     const std::vector<Value>& before,
                                                     SourceLoc loc) {
  if (type.is_text) return e_.NewStr(absl::AsciiStrToLower(name));
  if (type.is_flag) {
    int width = 0;
    for (const Value& value : before) {
      if (value.is_integer()) width = std::max(width, WidthOf(value.int_value()));
    }
    if (width < kMostBits) return Value::Int(int64_t{1} << width);
    return e_.Error(loc, absl::StrCat("a flag of more than ", kMostBits, " bits"), "use two flags");
  }
  if (before.empty()) return Value::Int(1);
  return e_.BinaryOp(ast::BinaryOp::kAdd, before.back(), Value::Int(1), loc);
}

absl::Status Elaborator::Classes::SettleAuto(const ClassObject& type, const std::string& name,
                                             std::vector<Value>* before, Value* value,
                                             SourceLoc loc) {
  if (name == "_generate_next_value_" || name == "_missing_" || name == "_ignore_") {
    return e_.Unimplemented(loc, absl::StrCat("'", name, "' of the enum '", type.def->name, "'"),
                            "give every member its value, and look others up in a function");
  }
  const bool hidden =
      absl::StartsWith(name, "__") || (absl::StartsWith(name, "_") && absl::EndsWith(name, "_"));
  if (hidden || value->Is(Type::kFunction) || value->Is(Type::kClass)) return absl::OkStatus();
  if (IsAuto(*value)) {
    KILN_ASSIGN_OR_RETURN(*value, AutoValue(type, name, *before, loc));
  }
  before->push_back(Plain(*value));
  return absl::OkStatus();
}

// Enum("Mode", "ROW COL"), of a list of names or of pairs, or of a dict.
absl::StatusOr<Value> Elaborator::Classes::MakeEnum(const Value& base, const CallArgs& args) {
  const std::string call = absl::StrCat(base.type_name(), "(name, names)");
  if (args.positional.size() != 2) {
    return e_.Error(args.loc,
                    absl::StrCat("'", base.type_name(), "' makes an enum of two arguments"),
                    absl::StrCat("write ", call, ", or a class based on it"));
  }
  const SourceLoc loc = args.locs[1];
  int64_t start = 1;
  for (const auto& keyword : args.keywords) {
    if (keyword.name == "start") {
      KILN_ASSIGN_OR_RETURN(start, e_.ToInt(keyword.value, keyword.loc, "the first value"));
    } else if (keyword.name != "module" && keyword.name != "qualname") {
      return e_.Unimplemented(keyword.loc, absl::StrCat("'", keyword.name, "' of an enum"),
                              absl::StrCat("write ", call));
    }
  }
  KILN_ASSIGN_OR_RETURN(const std::string name,
                        e_.ToStr(args.positional[0], args.locs[0], "the name of an enum"));
  Value type = NewClass(name);
  ClassObject& object = type.type_object();
  KILN_RETURN_IF_ERROR(TakeBase(base, args.loc, &object).status());
  std::vector<Value> given;
  if (args.positional[1].Is(Type::kStr)) {
    const std::string words = absl::StrReplaceAll(args.positional[1].str(), {{",", " "}});
    for (absl::string_view word :
         absl::StrSplit(words, absl::ByAnyChar(" \t\n"), absl::SkipEmpty())) {
      given.push_back(e_.NewStr(std::string(word)));
    }
  } else if (args.positional[1].Is(Type::kDict)) {
    for (const auto& [key, value] : args.positional[1].dict().items) {
      given.push_back(e_.NewTuple({key, value}));
    }
  } else {
    KILN_ASSIGN_OR_RETURN(given, e_.Iterate(args.positional[1], loc));
  }
  KILN_RETURN_IF_ERROR(e_.Step(loc, static_cast<int64_t>(given.size())));
  std::vector<Value> before;
  for (const Value& item : given) {
    Value value;
    const bool pair = item.is_sequence() && item.seq().items.size() == 2;
    KILN_ASSIGN_OR_RETURN(const std::string member,
                          e_.ToStr(pair ? item.seq().items[0] : item, loc, "the name of a member"));
    if (pair) {
      value = item.seq().items[1];
    } else if (object.is_flag || object.is_text || !before.empty()) {
      KILN_ASSIGN_OR_RETURN(value, AutoValue(object, member, before, loc));
    } else {
      value = Value::Int(start);
    }
    for (const auto& [known, other] : object.members) {
      if (known != member) continue;
      return e_.Error(loc, absl::StrCat("the enum '", name, "' has two members '", member, "'"),
                      "give every member a name of its own");
    }
    before.push_back(Plain(value));
    object.members.emplace_back(member, value);
  }
  KILN_RETURN_IF_ERROR(MakeCases(type, args.loc));
  return type;
}

// ---- flags ----

// The member with these bits, made when it is first asked for.
absl::StatusOr<Value> Elaborator::Classes::FlagWith(const ClassObject& type, int64_t bits,
                                                    SourceLoc loc) {
  const int64_t mask = MaskOf(type);
  if (WidthOf(mask) > kMostBits || WidthOf(bits) > kMostBits) {
    return e_.Error(loc, absl::StrCat("a flag of more than ", kMostBits, " bits"), "use two flags");
  }
  const int64_t all = (int64_t{1} << WidthOf(mask)) - 1;
  const bool strange = bits < ~all || bits > all || (bits & (all ^ mask)) != 0;
  if (strange && !type.is_value) {
    return e_.Error(
        loc, absl::StrCat(bits, " has bits that no member of the flag '", type.def->name, "' has"),
        "combine its members with |");
  }
  if (bits < 0) bits += strange ? std::max(all + 1, int64_t{1} << WidthOf(bits)) : all + 1;
  for (const auto& [name, member] : type.members) {
    if (FlagOf(member) == &type && BitsOf(member) == bits) return member;
  }
  for (const Value& member : type.combined) {
    if (BitsOf(member) == bits) return member;
  }
  std::vector<std::string> names;
  for (const Value& member : type.cases) {
    if ((BitsOf(member) & bits) != 0) names.push_back(member.instance().name);
  }
  const int64_t unknown = bits & ~mask;
  if (unknown != 0 && !names.empty()) names.push_back(absl::StrCat(unknown));
  auto* made = e_.arena_.New<InstanceObject>();
  made->type = &type;
  made->name = absl::StrJoin(names, "|");
  made->attributes = {{"name", names.empty() ? Value::None() : e_.NewStr(made->name)},
                      {"value", Value::Int(bits)}};
  made->closed = true;
  KILN_RETURN_IF_ERROR(e_.ChargeBytes(loc, 256));
  const Value member = Value::Of(Type::kInstance, made);
  const_cast<ClassObject&>(type).combined.push_back(member);
  return member;
}

absl::StatusOr<Answer> Elaborator::Classes::CombineFlags(ast::BinaryOp op, const Value& a,
                                                         const Value& b, SourceLoc loc) {
  using Op = ast::BinaryOp;
  if (op != Op::kBitAnd && op != Op::kBitOr && op != Op::kBitXor) return Answer();
  const ClassObject* type = FlagOf(a) != nullptr ? FlagOf(a) : FlagOf(b);
  if (type == nullptr) return Answer();
  const auto bits = [&](const Value& v) -> std::optional<int64_t> {
    if (FlagOf(v) == type) return BitsOf(v);
    const Value plain = Plain(v);
    if (type->is_value && plain.is_integer()) return plain.int_value();
    return std::nullopt;
  };
  const auto x = bits(a), y = bits(b);
  if (!type->is_value && (!x || !y)) {
    return e_.Error(loc,
                    absl::StrCat("no operator '", ast::Spelling(op), "' for ", Describe(a), " and ",
                                 Describe(b)),
                    absl::StrCat("base '", type->def->name,
                                 "' on enum.IntFlag, whose members are numbers, or take .value"));
  }
  if (!x || !y) return Answer();
  const int64_t result = op == Op::kBitAnd ? *x & *y : op == Op::kBitOr ? *x | *y : *x ^ *y;
  KILN_ASSIGN_OR_RETURN(const Value member, FlagWith(*type, result, loc));
  return Answer(member);
}

absl::StatusOr<Answer> Elaborator::Classes::InvertFlags(const Value& v, SourceLoc loc) {
  const ClassObject* type = FlagOf(v);
  if (type == nullptr) return Answer();
  int64_t singles = 0;
  for (const Value& member : type->cases) singles |= BitsOf(member);
  const int64_t rest = type->is_value ? ~BitsOf(v) : singles & ~BitsOf(v);
  KILN_ASSIGN_OR_RETURN(const Value member, FlagWith(*type, rest, loc));
  return Answer(member);
}

absl::StatusOr<Answer> Elaborator::Classes::HoldsFlags(const Value& whole, const Value& part,
                                                       SourceLoc loc) {
  const ClassObject* type = FlagOf(whole);
  if (type == nullptr) return Answer();
  if (FlagOf(part) != type) {
    return e_.Error(loc,
                    absl::StrCat(Describe(part), " is looked for in a member of the flag '",
                                 type->def->name, "'"),
                    absl::StrCat("name a member, as in ", type->def->name, ".A in flags"));
  }
  return Answer(Value::Bool((BitsOf(whole) & BitsOf(part)) == BitsOf(part)));
}

std::optional<std::vector<Value>> Elaborator::Classes::FlagsIn(const Value& v) {
  const ClassObject* type = FlagOf(v);
  if (type == nullptr) return std::nullopt;
  std::vector<Value> members;
  for (const Value& member : type->cases) {
    if ((BitsOf(member) & BitsOf(v)) != 0) members.push_back(member);
  }
  return members;
}

}  // namespace kiln::lang

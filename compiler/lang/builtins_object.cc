// What looks into objects, and makes them: getattr, type, functools.partial, operator.*, named
// tuples, and what the dataclasses module has for objects.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "compiler/lang/classes.h"
#include "compiler/lang/format_value.h"

namespace kiln::lang {
namespace {

absl::StatusOr<Value> GetAttr(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::string name, e.ToStr(args[1], args.LocOf(1), "the name"));
  if (args.Has(2)) {
    KILN_ASSIGN_OR_RETURN(const bool has, Elaborator::Classes(&e).Has(args[0], name, args.loc));
    if (!has) return args[2];
  }
  return e.GetAttribute(args[0], name, args.loc);
}

absl::StatusOr<Value> HasAttr(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::string name, e.ToStr(args[1], args.LocOf(1), "the name"));
  KILN_ASSIGN_OR_RETURN(const bool has, Elaborator::Classes(&e).Has(args[0], name, args.loc));
  return Value::Bool(has);
}

absl::StatusOr<Value> TypeOf(Elaborator& e, const BoundArgs& args) {
  const Value& v = args[0];
  if (const ClassObject* type = Elaborator::Classes::Of(v)) return Value::Of(Type::kClass, type);
  switch (v.type()) {
    case Type::kBool:
      return Value::TypeName("bool");
    case Type::kInt:
      return Value::TypeName("int");
    case Type::kFloat:
      return Value::TypeName("float");
    case Type::kStr:
      return Value::TypeName("str");
    case Type::kTuple:
      return Value::TypeName("tuple");
    case Type::kList:
      return Value::TypeName("list");
    case Type::kDict:
      return Value::TypeName("dict");
    case Type::kRange:
      return Value::TypeName("range");
    case Type::kNone:
      return Value::TypeName("NoneType");
    case Type::kClass:
    case Type::kTypeName:
      return Value::TypeName("type");
    default:
      break;
  }
  if (v.Is(Type::kExpr) && v.expr().info.open_only()) return Value::TypeName("int");
  return e.Unimplemented(args.LocOf(0), absl::StrCat("the type of ", Describe(v)),
                         "ask for its dtype, or with isinstance");
}

absl::StatusOr<Value> Callable(Elaborator& e, const BoundArgs& args) {
  const Value& v = args[0];
  if (v.is_import()) return e.NoValue(v, args.LocOf(0));
  if (const ClassObject* type = Elaborator::Classes::Of(v)) {
    KILN_ASSIGN_OR_RETURN(const bool has, Elaborator::Classes(&e).Has(Value::Of(Type::kClass, type),
                                                                      "__call__", args.loc));
    return Value::Bool(has);
  }
  switch (v.type()) {
    case Type::kFunction:
    case Type::kBuiltin:
    case Type::kMethod:
    case Type::kClass:
    case Type::kTypeName:
    case Type::kPartial:
    case Type::kDType:
      return Value::Bool(true);
    default:
      return Value::Bool(false);
  }
}

absl::StatusOr<Value> FormatOf(Elaborator& e, const BoundArgs& args) {
  std::string spec;
  if (args.Given(1)) {
    KILN_ASSIGN_OR_RETURN(spec, e.ToStr(args[1], args.LocOf(1), "the format"));
  }
  KILN_ASSIGN_OR_RETURN(std::string text, FormattedText(e, args[0], '\0', spec, args.LocOf(0)));
  return e.NewStr(std::move(text), ShownIn(args[0]));
}

absl::StatusOr<Value> Partial(Elaborator& e, const BoundArgs& args) {
  auto* made = e.arena().New<PartialObject>();
  made->callee = args[0];
  made->positional = args.rest;
  for (const CallArgs::Keyword& keyword : args.extra) {
    made->keywords.emplace_back(std::string(keyword.name), keyword.value);
  }
  const size_t count = made->positional.size() + made->keywords.size();
  KILN_RETURN_IF_ERROR(e.ChargeBytes(args.loc, 48 * static_cast<int64_t>(count)));
  return Value::Of(Type::kPartial, made);
}

template <ast::BinaryOp op>
absl::StatusOr<Value> Operate(Elaborator& e, const BoundArgs& args) {
  return e.BinaryOp(op, args[0], args[1], args.loc);
}
template <ast::CompareOp op>
absl::StatusOr<Value> Compare(Elaborator& e, const BoundArgs& args) {
  return e.CompareOp(op, args[0], args[1], args.loc);
}
template <ast::UnaryOp op>
absl::StatusOr<Value> Unary(Elaborator& e, const BoundArgs& args) {
  return e.UnaryOp(op, args[0], args.loc);
}
absl::StatusOr<Value> Item(Elaborator& e, const BoundArgs& args) {
  return e.SubscriptSequence(args[0], args[1], args.loc);
}
absl::StatusOr<Value> Truth(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Condition c, e.Decide(args[0], args.LocOf(0)));
  return c.known ? Value::Bool(c.value) : e.NewExpr(c.expr, args.loc);
}

absl::StatusOr<Value> Auto(Elaborator&, const BoundArgs&) { return Value::TypeName("enum.auto()"); }

// collections.namedtuple("P", "x y" or ["x", "y"], defaults=(...)).
absl::StatusOr<Value> NamedTuple(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::string name, e.ToStr(args[0], args.LocOf(0), "the name"));
  std::vector<ClassField> fields;
  if (args[1].Is(Type::kStr)) {
    const std::string words = absl::StrReplaceAll(args[1].str(), {{",", " "}});
    for (absl::string_view word :
         absl::StrSplit(words, absl::ByAnyChar(" \t\n"), absl::SkipEmpty())) {
      fields.emplace_back();
      fields.back().name = std::string(word);
    }
  } else {
    KILN_ASSIGN_OR_RETURN(const std::vector<Value> names, e.Iterate(args[1], args.LocOf(1)));
    for (const Value& item : names) {
      fields.emplace_back();
      KILN_ASSIGN_OR_RETURN(fields.back().name, e.ToStr(item, args.LocOf(1), "a field's name"));
    }
  }
  if (args.Given(2)) {
    KILN_ASSIGN_OR_RETURN(const std::vector<Value> values, e.Iterate(args[2], args.LocOf(2)));
    if (values.size() > fields.size()) {
      return e.Error(args.LocOf(2), "namedtuple has more defaults than fields", "drop some");
    }
    for (size_t i = 0; i < values.size(); ++i) {
      ClassField& field = fields[fields.size() - values.size() + i];
      field.value = values[i];
      field.optional = true;
    }
  }
  return Elaborator::Classes(&e).NamedTuple(name, std::move(fields), args.loc);
}

CallArgs Changes(const BoundArgs& args) {
  CallArgs changes;
  changes.loc = args.loc;
  changes.keywords = args.extra;
  return changes;
}

absl::StatusOr<Value> Replace(Elaborator& e, const BoundArgs& args) {
  return Elaborator::Classes(&e).Replace(args[0], Changes(args), "replace");
}

absl::StatusOr<Value> FieldDict(Elaborator& e, const BoundArgs& args);

// What asdict and astuple make of a field: objects of dataclasses inside of it too.
template <bool dict>
absl::StatusOr<Value> Plainly(Elaborator& e, const Value& v, SourceLoc loc, int depth) {
  KILN_RETURN_IF_ERROR(e.Step(loc));
  if (depth > 32) return e.Exhausted(loc, "objects are nested more than 32 deep");
  const ClassObject* type = Elaborator::Classes::Of(v);
  if (type != nullptr && type->kind == ClassKind::kDataclass) {
    KILN_ASSIGN_OR_RETURN(const auto fields,
                          Elaborator::Classes(&e).FieldsOf(v, loc, "dataclasses.asdict"));
    auto* made = e.arena().New<DictObject>();
    made->region = e.CurrentRegion();
    std::vector<Value> items;
    for (const auto& [name, given] : fields) {
      KILN_ASSIGN_OR_RETURN(const Value value, Plainly<dict>(e, given, loc, depth + 1));
      if (dict) made->items.emplace_back(e.NewStr(name), value);
      items.push_back(value);
    }
    return dict ? Value::Of(Type::kDict, made) : e.NewTuple(std::move(items));
  }
  if ((v.Is(Type::kList) || v.Is(Type::kTuple)) && type == nullptr) {
    std::vector<Value> items;
    for (const Value& item : v.seq().items) {
      KILN_ASSIGN_OR_RETURN(const Value value, Plainly<dict>(e, item, loc, depth + 1));
      items.push_back(value);
    }
    return e.NewSeq(v.type(), std::move(items));
  }
  return v;
}

template <bool dict>
absl::StatusOr<Value> AllFields(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(
      Elaborator::Classes(&e)
          .FieldsOf(args[0], args.LocOf(0), dict ? "dataclasses.asdict" : "dataclasses.astuple")
          .status());
  return Plainly<dict>(e, args[0], args.loc, 0);
}

absl::StatusOr<Value> FieldDict(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const auto fields,
                        Elaborator::Classes(&e).FieldsOf(args[0], args.loc, "_asdict"));
  auto* made = e.arena().New<DictObject>();
  made->region = e.CurrentRegion();
  for (const auto& [name, value] : fields) made->items.emplace_back(e.NewStr(name), value);
  return Value::Of(Type::kDict, made);
}

using ast::BinaryOp;
using ast::CompareOp;

constexpr Builtin kRows[] = {
    {"getattr", "object name default?", GetAttr},
    {"hasattr", "object name", HasAttr},
    {"type", "object", TypeOf},
    {"callable", "object", Callable},
    {"format", "value spec?", FormatOf},
    {"functools.partial", "function * **", Partial},
    {"enum.auto", "", Auto},
    {"collections.namedtuple", "typename field_names * defaults? module? rename?", NamedTuple},
    {"dataclasses.replace", "object **", Replace},
    {"dataclasses.asdict", "object", AllFields<true>},
    {"dataclasses.astuple", "object", AllFields<false>},
    {"operator.add", "a b", Operate<BinaryOp::kAdd>},
    {"operator.sub", "a b", Operate<BinaryOp::kSub>},
    {"operator.mul", "a b", Operate<BinaryOp::kMul>},
    {"operator.truediv", "a b", Operate<BinaryOp::kDiv>},
    {"operator.floordiv", "a b", Operate<BinaryOp::kFloorDiv>},
    {"operator.mod", "a b", Operate<BinaryOp::kMod>},
    {"operator.pow", "a b", Operate<BinaryOp::kPow>},
    {"operator.lshift", "a b", Operate<BinaryOp::kShl>},
    {"operator.rshift", "a b", Operate<BinaryOp::kShr>},
    {"operator.and_", "a b", Operate<BinaryOp::kBitAnd>},
    {"operator.or_", "a b", Operate<BinaryOp::kBitOr>},
    {"operator.xor", "a b", Operate<BinaryOp::kBitXor>},
    {"operator.lt", "a b", Compare<CompareOp::kLt>},
    {"operator.le", "a b", Compare<CompareOp::kLe>},
    {"operator.gt", "a b", Compare<CompareOp::kGt>},
    {"operator.ge", "a b", Compare<CompareOp::kGe>},
    {"operator.eq", "a b", Compare<CompareOp::kEq>},
    {"operator.ne", "a b", Compare<CompareOp::kNe>},
    {"operator.neg", "a", Unary<ast::UnaryOp::kNeg>},
    {"operator.not_", "a", Unary<ast::UnaryOp::kNot>},
    {"operator.getitem", "a b", Item},
    {"operator.truth", "a", Truth},
};

constexpr Builtin kTuple[] = {
    {"_asdict", "self", FieldDict},
    {"_replace", "self **", Replace},
};

}  // namespace

BuiltinTable ObjectTable() { return {kRows, std::size(kRows)}; }
BuiltinTable TupleMethods() { return {kTuple, std::size(kTuple)}; }

}  // namespace kiln::lang

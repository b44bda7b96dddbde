// Calls: builtins, Python functions, lambdas, macros.
#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/lang/classes.h"
#include "compiler/lang/lazy.h"
#include "compiler/lang/raised.h"
#include "compiler/lang/suggest.h"
#include "compiler/lang/vector.h"

namespace kiln::lang {
namespace {

bool IsRefAnnotation(ast::ExprPtr annotation) {
  if (annotation == nullptr) return false;
  const auto* attribute = annotation->As<ast::Attribute>();
  return attribute != nullptr && (attribute->attr == "Ref" || attribute->attr == "Var");
}

// Whether the parameter, at that position or of that name, is a T.Ref of a function of the file.
bool IsPlaceFor(const Value& callee, size_t position, absl::string_view name) {
  if (!callee.Is(Type::kFunction)) return false;
  const std::vector<ast::Param>& params = callee.function().params();
  for (size_t i = 0; i < params.size(); ++i) {
    if (i == position || (!name.empty() && params[i].name == name)) {
      return IsRefAnnotation(params[i].annotation);
    }
  }
  return false;
}

// The class, where its __init__ is called.
std::string CalledName(const FunctionObject& function) {
  const bool made = function.owner != nullptr && function.name() == "__init__";
  return std::string(made ? absl::string_view(function.owner->def->name) : function.name());
}

std::string ParameterList(const FunctionObject& function) {
  std::vector<std::string> names;
  for (const ast::Param& param : function.params()) {
    if (names.empty() && function.owner != nullptr && param.name == "self") continue;
    const char* stars = param.kind == ast::ParamKind::kVarArgs       ? "*"
                        : param.kind == ast::ParamKind::kVarKeywords ? "**"
                                                                     : "";
    names.push_back(absl::StrCat(stars, param.name, param.default_value != nullptr ? "=" : ""));
  }
  return names.empty() ? "none" : absl::StrJoin(names, ", ");
}

// `first`: 1 leaves out the object of a method.
std::string ParametersOf(const BuiltinSignature& signature, size_t first) {
  std::vector<std::string> names;
  for (size_t i = first; i < signature.names.size(); ++i) {
    names.push_back(absl::StrCat(signature.names[i], signature.optional[i] ? "=" : ""));
  }
  if (names.empty()) return "its arguments are given by position";
  return absl::StrCat("its parameters: ", absl::StrJoin(names, ", "));
}

// A function that is given numbers, text and buffers, and no objects of the user's.
bool TakesNumbers(absl::string_view name) {
  for (absl::string_view prefix : {"T.", "math.", "numpy.", "tilelang."}) {
    if (absl::StartsWith(name, prefix)) return true;
  }
  return name == "int" || name == "float" || name == "abs" || name == "round";
}

bool OnlyShows(absl::string_view name) {
  return name == "print" || absl::StartsWith(name, "logging.") ||
         absl::StartsWith(name, "warnings.");
}

// A function that goes to the end of its first argument before anything else happens.
bool TakesAll(const Value& callee) {
  const absl::string_view name = callee.Is(Type::kTypeName)  ? callee.type_name()
                                 : callee.Is(Type::kBuiltin) ? callee.builtin()->name
                                 : callee.Is(Type::kMethod) && callee.method().function != nullptr
                                     ? callee.method().function->name
                                     : "";
  static constexpr absl::string_view kNames[] = {"list", "tuple",  "set", "frozenset", "dict",
                                                 "sum",  "sorted", "min", "max",       "join"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

bool IsVariable(const Value& v) {
  return v.Is(Type::kBuffer) && v.buffer().buffer->scope == ir::Scope::kVar;
}

}  // namespace

absl::StatusOr<Value> Elaborator::EvalCall(const ast::Call& node) {
  CallArgs args;
  args.loc = node.loc;
  if (const auto* name = node.callee->As<ast::Name>(); name && name->id == "super") {
    return Super(args);
  }
  KILN_ASSIGN_OR_RETURN(const Value callee, Eval(node.callee));
  // What only shows text may show what has no value here.
  const bool shows = callee.Is(Type::kBuiltin) && OnlyShows(callee.builtin()->name);
  std::optional<CountGuard> telling;
  if (shows) telling.emplace(&telling_);
  const absl::Status given = EvalArgs(node, callee, &args);
  if (shows && absl::IsUnimplemented(given)) return Value::None();
  KILN_RETURN_IF_ERROR(given);
  return Call(callee, args);
}

absl::Status Elaborator::EvalArgs(const ast::Call& node, const Value& callee, CallArgs* args) {
  const absl::string_view hint = name_hint_;
  name_hint_ = {};
  const bool chooses = callee.Is(Type::kBuiltin) && callee.builtin()->chooses;
  const bool of_all_bits = callee.Is(Type::kDType) && callee.dtype() == kUInt64;
  std::optional<CountGuard> shielded;
  struct Read {
    Value value;
    Moment then;
    SourceLoc loc;
  };
  std::vector<Read> read;
  for (ast::ExprPtr arg : node.args) {
    if (const auto* starred = arg->As<ast::Starred>()) {
      KILN_ASSIGN_OR_RETURN(const Value spread, Eval(starred->value));
      KILN_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(spread, arg->loc));
      args->positional.insert(args->positional.end(), items.begin(), items.end());
      args->locs.insert(args->locs.end(), items.size(), arg->loc);
      continue;
    }
    const auto* literal = of_all_bits ? arg->As<ast::Unsupported>() : nullptr;
    Value value;
    if (literal != nullptr && literal->bits.has_value()) {
      const ir::Expr bits = ir::MakeInt(static_cast<int64_t>(*literal->bits), kUInt64);
      KILN_ASSIGN_OR_RETURN(value, NewExpr(Operand{bits, {}}, arg->loc));
    } else {
      const bool whole = args->positional.empty() && TakesAll(callee);
      const ast::ExprPtr outer = std::exchange(taken_whole_, whole ? arg : nullptr);
      KILN_ASSIGN_OR_RETURN(value, EvalKeepingVariable(arg));
      taken_whole_ = outer;
    }
    args->positional.push_back(value);
    args->locs.push_back(arg->loc);
    if (!IsPlaceFor(callee, args->positional.size() - 1, ""))
      read.push_back({value, Now(), arg->loc});
    args->exprs.resize(args->positional.size(), nullptr);
    args->exprs.back() = arg;
    if (chooses && !shielded) shielded.emplace(&shielded_);
  }
  for (const ast::Keyword& keyword : node.keywords) {
    KILN_ASSIGN_OR_RETURN(const Value value, EvalKeepingVariable(keyword.value));
    if (!IsPlaceFor(callee, SIZE_MAX, keyword.name)) read.push_back({value, Now(), keyword.loc});
    if (!keyword.name.empty()) {
      args->keywords.push_back({keyword.name, value, keyword.loc, keyword.value});
      continue;
    }
    if (!value.Is(Type::kDict)) {
      return Error(keyword.loc, absl::StrCat("** spreads a dict, not ", Describe(value)),
                   "pass a dict");
    }
    for (const auto& [key, item] : value.dict().items) {
      if (!key.Is(Type::kStr)) {
        return Error(keyword.loc, "the keys of **arguments must be strings", "use names as keys");
      }
      args->keywords.push_back({key.str(), item, keyword.loc, nullptr});
    }
  }
  for (const auto& [value, then, loc] : read) {
    KILN_RETURN_IF_ERROR(CheckStillHolds(value, then, loc));
  }
  name_hint_ = hint;
  return absl::OkStatus();
}

absl::StatusOr<Value> Elaborator::Call(const Value& callee, std::vector<Value> positional,
                                       SourceLoc loc) {
  CallArgs args;
  args.loc = loc;
  args.locs.assign(positional.size(), loc);
  args.positional = std::move(positional);
  return Call(callee, args);
}

absl::StatusOr<Value> Elaborator::Call(const Value& callee, const CallArgs& args) {
  KILN_RETURN_IF_ERROR(Step(args.loc));
  switch (callee.type()) {
    case Type::kBuiltin:
      return CallBuiltin(*callee.builtin(), nullptr, args);
    case Type::kMethod: {
      const MethodObject& method = callee.method();
      if (method.function != nullptr) return CallBuiltin(*method.function, &method.self, args);
      return CallFunction(method.callee, args, &method.self);
    }
    case Type::kClass:
      return Construct(callee, args);
    case Type::kInstance:
      if (callee.instance().type != nullptr) {
        KILN_ASSIGN_OR_RETURN(
            const Value* method,
            FindInClass(Value::Of(Type::kClass, callee.instance().type), "__call__", args.loc));
        if (method != nullptr && method->Is(Type::kFunction)) {
          return CallFunction(*method, args, &callee);
        }
      }
      break;
    case Type::kPartial:
      return Classes(this).CallPartial(callee.partial(), args);
    case Type::kFunction:
      return CallFunction(callee, args);
    case Type::kDType:
    case Type::kTypeName:
      return CallType(callee, args);
    case Type::kUnknown:
      return UnknownValue(callee, args.loc,
                          absl::StrCat("'", callee.unknown().path, "' cannot be called here"),
                          "kernels know tilelang, math, itertools, functools, typing, and of "
                          "torch, numpy and tvm what tells of types and shapes; compute the value "
                          "outside and pass it as a parameter");
    default:
      break;
  }
  return Error(args.loc, absl::StrCat(Describe(callee), " cannot be called"),
               callee.Is(Type::kBuffer) ? "index it with [...]" : "call a function");
}

absl::StatusOr<Value> Elaborator::CallBuiltin(const Builtin& builtin, const Value* self,
                                              const CallArgs& args) {
  const BuiltinSignature& signature = SignatureOf(builtin);
  BoundArgs bound;
  bound.loc = args.loc;
  const size_t count = signature.names.size();
  bound.values.resize(count);
  bound.present.resize(count, false);
  bound.locs.resize(count, args.loc);
  const size_t own = self != nullptr ? 1 : 0;
  size_t next = own;
  if (self != nullptr) {
    bound.values[0] = *self;
    bound.present[0] = true;
  }
  for (size_t i = 0; i < args.positional.size(); ++i) {
    if (next < signature.positional) {
      bound.values[next] = args.positional[i];
      bound.locs[next] = args.locs[i];
      bound.present[next++] = true;
    } else if (signature.variadic) {
      bound.rest.push_back(args.positional[i]);
      bound.rest_locs.push_back(args.locs[i]);
    } else {
      const size_t most = signature.positional - own;
      return Error(args.locs[i],
                   absl::StrCat(builtin.name, " takes at most ", most, " positional argument",
                                most == 1 ? "" : "s", ", found ", args.positional.size()),
                   "drop the extra arguments, or name them");
    }
  }
  for (const CallArgs::Keyword& keyword : args.keywords) {
    if (keyword.name == "annotations") {
      KILN_RETURN_IF_ERROR(NoteOperation(*this, keyword.value, keyword.loc));
    }
    const auto it = std::find(signature.names.begin(), signature.names.end(), keyword.name);
    if (it == signature.names.end() && signature.any_keyword) {
      bound.extra.push_back(keyword);
      continue;
    }
    if (it == signature.names.end()) {
      std::vector<std::string> names(signature.names.begin(), signature.names.end());
      return Error(keyword.loc,
                   absl::StrCat(builtin.name, " has no parameter '", keyword.name, "'"),
                   DidYouMean(keyword.name, names, ParametersOf(signature, own)));
    }
    const size_t i = it - signature.names.begin();
    if (bound.present[i]) {
      return Error(keyword.loc,
                   absl::StrCat("'", keyword.name, "' of ", builtin.name, " is given twice"),
                   "drop one of them");
    }
    bound.values[i] = keyword.value;
    bound.locs[i] = keyword.loc;
    bound.present[i] = true;
  }
  for (size_t i = 0; i < count; ++i) {
    if (bound.present[i] || signature.optional[i]) continue;
    return Error(args.loc,
                 absl::StrCat(builtin.name, " needs its argument '", signature.names[i], "'"),
                 ParametersOf(signature, own));
  }
  if (own == 0 && count > 0 && signature.names[0] == "self") {  // str.lower(text)
    bound.values[0] = Plain(bound.values[0]);
    if (FindMethod(bound.values[0], builtin.name) != &builtin) {
      return Raised(
          Error(bound.LocOf(0),
                absl::StrCat("the method '", builtin.name, "' of another type is called on ",
                             Describe(bound.values[0])),
                "give it a value of the type that the method is of"),
          "TypeError");
    }
  }
  if (reads_ != nullptr) {
    int64_t read = 0;
    for (const Value& value : bound.values) read += reads_->NoteAll(value, changes_);
    for (const Value& value : bound.rest) read += reads_->NoteAll(value, changes_);
    KILN_RETURN_IF_ERROR(Step(args.loc, read / 4));
  }
  if (TakesNumbers(builtin.name)) {  // a member of an IntEnum is one
    for (Value& value : bound.values) value = Plain(value);
    for (Value& value : bound.rest) value = Plain(value);
  }
  KILN_ASSIGN_OR_RETURN(const auto made, CallByLane(*this, builtin, bound));
  return made ? *made : builtin.function(*this, bound);
}

absl::StatusOr<Value> Elaborator::CallType(const Value& callee, const CallArgs& args) {
  if (callee.Is(Type::kTypeName)) {
    const absl::string_view name = callee.type_name();
    if (name == "Enum" || name == "IntEnum" || name == "StrEnum" || name == "Flag" ||
        name == "IntFlag") {
      return Classes(this).MakeEnum(callee, args);
    }
    for (const BuiltinTable& table : {PythonTable(), SetTypes()}) {
      for (size_t i = 0; i < table.size; ++i) {
        if (name == table.rows[i].name) return CallBuiltin(table.rows[i], nullptr, args);
      }
    }
    return Error(args.loc, absl::StrCat("the type '", callee.type_name(), "' cannot be called"),
                 "use it as an annotation only");
  }
  if (args.positional.size() > 1 || !args.keywords.empty()) {
    return Error(args.loc, "a dtype converts exactly one value", "write T.float32(x)");
  }
  const DType type = callee.dtype();
  if (args.positional.empty()) {
    // T.int32() as a placeholder is a fresh run-time scalar only in a signature.
    return Error(args.loc, absl::StrCat("T.", type.ToString(), "() without a value"),
                 "write the value in the parentheses");
  }
  const Value& v = args.positional[0];
  if (type.lanes > 1 || IsVector(v)) {
    const auto convert = [&](const std::vector<Value>& lanes) {
      CallArgs one = args;
      one.positional[0] = lanes[0];
      return CallType(Value::OfDType(type.element()), one);
    };
    return ByLane(*this, args.loc, {v}, convert, type.lanes > 1 ? type.lanes : 0);
  }
  if (type.code == TypeCode::kHandle) {
    return Error(args.loc, "a handle cannot be made from a value", "use it as an annotation");
  }
  Operand operand;
  if (v.Is(Type::kFloat) && !type.is_float()) {
    KILN_ASSIGN_OR_RETURN(const Operand constant, ToOperand(v, args.locs[0], "the value"));
    operand = {ir::MakeCast(type, constant.e), {}};
  } else if (v.Is(Type::kStr)) {
    const absl::string_view text = v.str();
    const bool known = type.is_float() && (text == "inf" || text == "-inf" || text == "nan");
    if (!known)
      return Error(args.loc, "a dtype converts numbers", "use \"inf\", \"-inf\" or \"nan\"");
    operand = {ir::MakeFloat(text == "nan" ? NAN : text == "inf" ? INFINITY : -INFINITY, type), {}};
  } else {
    KILN_ASSIGN_OR_RETURN(operand, ToType(v, type, args.locs[0], "the value"));
  }
  return NewExpr(operand, args.loc);
}

absl::Status Elaborator::BindParam(const FunctionObject& function, const ast::Param& param,
                                   Value value, SourceLoc loc, Scope* scope, bool traced) {
  if (traced) {
    if (IsRefAnnotation(param.annotation)) {
      const bool place = IsVariable(value) || value.Is(Type::kAccess) || value.Is(Type::kBuffer);
      if (!place) {
        return Error(
            loc,
            absl::StrCat("'", param.name, "' of macro '", function.name(),
                         "' is a T.Ref and needs a place to store to, not ", Describe(value)),
            "pass a T.alloc_var, an element x[i] or a region");
      }
      if (value.Is(Type::kAccess)) {  // its indices are evaluated once, here
        auto* access = arena_.New<AccessObject>();
        *access = value.access();
        for (AccessIndex& index : access->indices) {
          KILN_ASSIGN_OR_RETURN(const Value min, NewExpr(index.min, InfoOf(index.min), loc));
          if (!IsRuntime(min)) continue;
          KILN_ASSIGN_OR_RETURN(const Value frozen, Freeze(min, "index", loc));
          index.min = frozen.expr().expr;
        }
        value = Value::Of(Type::kAccess, access);
      }
    } else if (IsRuntime(value)) {
      KILN_ASSIGN_OR_RETURN(value, Freeze(value, param.name, loc));
    } else {
      KILN_RETURN_IF_ERROR(FreezeItems(value, param.name, loc));
    }
  } else {
    // A plain function sees the value of a variable, and an element as an element.
    if (IsVariable(value)) {
      KILN_ASSIGN_OR_RETURN(value, Decay(value, loc));
    }
  }
  Binding binding;
  binding.value = value;
  binding.region = regions_.empty() ? 0 : regions_.back().id;
  binding.loc = loc;
  binding.born = steps_;
  scope->names.insert_or_assign(param.name, binding);
  return absl::OkStatus();
}

absl::Status Elaborator::BindParams(const FunctionObject& function, const CallArgs& args,
                                    Scope* scope, bool traced) {
  const std::vector<ast::Param>& params = function.params();
  const Scope* caller = frame_->scope;
  std::vector<bool> used(args.keywords.size(), false);
  size_t next = 0;
  for (size_t i = 0; i < params.size(); ++i) {
    const ast::Param& param = params[i];
    if (param.kind == ast::ParamKind::kVarArgs) {
      std::vector<Value> rest(args.positional.begin() + std::min(next, args.positional.size()),
                              args.positional.end());
      next = args.positional.size();
      KILN_RETURN_IF_ERROR(
          BindParam(function, param, NewTuple(std::move(rest)), args.loc, scope, traced));
      continue;
    }
    if (param.kind == ast::ParamKind::kVarKeywords) {
      auto* dict = arena_.New<DictObject>();
      for (size_t k = 0; k < args.keywords.size(); ++k) {
        if (used[k]) continue;
        used[k] = true;
        dict->items.emplace_back(NewStr(std::string(args.keywords[k].name)),
                                 args.keywords[k].value);
      }
      KILN_RETURN_IF_ERROR(
          BindParam(function, param, Value::Of(Type::kDict, dict), args.loc, scope, traced));
      continue;
    }
    size_t keyword = args.keywords.size();
    for (size_t k = 0; k < args.keywords.size() && param.kind != ast::ParamKind::kPositionalOnly;
         ++k) {
      // A later **kwargs may hold names after this parameter, so look at all of them.
      if (!used[k] && args.keywords[k].name == param.name) keyword = k;
    }
    const bool positional =
        param.kind != ast::ParamKind::kKeywordOnly && next < args.positional.size();
    if (positional && keyword < args.keywords.size()) {
      return Error(args.keywords[keyword].loc,
                   absl::StrCat("'", param.name, "' of '", function.name(), "' is given twice"),
                   "drop one of them");
    }
    if (positional) {
      KILN_RETURN_IF_ERROR(
          BindParam(function, param, args.positional[next], args.locs[next], scope, traced));
      if (next < args.exprs.size()) scope->names[param.name].made = {args.exprs[next], caller, ""};
      ++next;
    } else if (keyword < args.keywords.size()) {
      used[keyword] = true;
      KILN_RETURN_IF_ERROR(BindParam(function, param, args.keywords[keyword].value,
                                     args.keywords[keyword].loc, scope, traced));
      scope->names[param.name].made = {args.keywords[keyword].expr, caller, ""};
    } else if (param.default_value != nullptr) {
      KILN_RETURN_IF_ERROR(
          BindParam(function, param, function.defaults[i], param.loc, scope, traced));
    } else {
      return Error(
          args.loc,
          absl::StrCat("'", CalledName(function), "' needs its argument '", param.name, "'"),
          absl::StrCat("pass it; its parameters: ", ParameterList(function)));
    }
  }
  if (next < args.positional.size()) {
    return Error(args.locs[next],
                 absl::StrCat("'", function.name(), "' takes ", next,
                              " positional arguments, found ", args.positional.size()),
                 "drop the extra arguments");
  }
  for (size_t k = 0; k < args.keywords.size(); ++k) {
    if (used[k]) continue;
    std::vector<std::string> names;
    for (const ast::Param& param : params) names.push_back(param.name);
    return Error(
        args.keywords[k].loc,
        absl::StrCat("'", CalledName(function), "' has no parameter '", args.keywords[k].name, "'"),
        DidYouMean(args.keywords[k].name, names,
                   absl::StrCat("drop it; its parameters: ", ParameterList(function))));
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Elaborator::CallFunction(const Value& callee, const CallArgs& args,
                                               const Value* self) {
  if (callee.Is(Type::kClass)) return Error(args.loc, "super() is no function", "name a method");
  return callee.function().results != nullptr ? CallCached(callee, args, self)
                                              : CallAnew(callee, args, self);
}

// What functools takes calls to be the same by. An argument alone that is an int or text is itself,
// any other is one of a tuple, in which 1 is 1.0 and True.
static Value CacheKey(Elaborator& e, const FunctionObject& function, const CallArgs& args,
                      const Value* self) {
  std::vector<Value> key = args.positional;
  if (self != nullptr) key.insert(key.begin(), *self);
  const bool alone =
      key.size() == 1 && args.keywords.empty() && (key[0].Is(Type::kInt) || key[0].Is(Type::kStr));
  for (const CallArgs::Keyword& keyword : args.keywords) {
    key.insert(key.end(), {e.NewStr(std::string(keyword.name)), keyword.value});
  }
  const size_t count = function.typed ? key.size() : 0;
  for (size_t i = 0; i < count; ++i) {
    const ClassObject* type = Elaborator::Classes::Of(key[i]);
    key.push_back(type != nullptr ? Value::Of(Type::kClass, type)
                                  : Value::Int(static_cast<int64_t>(key[i].type())));
  }
  key.push_back(Value::Int(alone ? -1 : static_cast<int64_t>(args.positional.size())));
  return e.NewTuple(std::move(key));
}

// Whether run time has no part in it.
static bool IsPlainData(const Value& v, int depth) {
  constexpr int kMostNested = 20;
  if (depth > kMostNested) return false;
  const auto plain = [&](const Value& part) { return IsPlainData(part, depth + 1); };
  if (v.is_sequence()) return std::all_of(v.seq().items.begin(), v.seq().items.end(), plain);
  if (v.Is(Type::kDict) || v.Is(Type::kSet)) {
    return std::all_of(v.dict().items.begin(), v.dict().items.end(), [&](const auto& entry) {
      return plain(entry.first) && plain(entry.second);
    });
  }
  return v.is_none() || v.is_number() || v.Is(Type::kStr) || v.Is(Type::kDType) ||
         v.Is(Type::kRange);
}

// What the first call with these arguments gave, which others may have changed since.
absl::StatusOr<Value> Elaborator::CallCached(const Value& callee, const CallArgs& args,
                                             const Value* self) {
  const FunctionObject& function = callee.function();
  if (function.most_results == 0) return CallAnew(callee, args, self);
  const Value key = CacheKey(*this, function, args, self);
  const bool of_run_time =
      std::any_of(key.seq().items.begin(), key.seq().items.end(),
                  [&](const Value& v) { return IsRuntime(v) || v.Is(Type::kBuffer); });
  if (of_run_time) return CallAnew(callee, args, self);
  KILN_RETURN_IF_ERROR(CheckKey(key, args.loc));
  std::vector<std::pair<Value, Value>>& results = function.results->items;
  KILN_ASSIGN_OR_RETURN(const auto at, FindKey(*function.results, key, args.loc));
  const bool bounded = function.most_results > 0;
  if (at.has_value()) {
    const auto found = results.begin() + static_cast<std::ptrdiff_t>(*at);
    if (bounded) std::rotate(found, found + 1, results.end());  // the one used last
    return bounded ? results.back().second : found->second;
  }
  KILN_ASSIGN_OR_RETURN(const Value made, CallAnew(callee, args, self));
  if (InRuntimeRegion() && !IsPlainData(made, 0)) return made;  // it ends with the region
  KILN_RETURN_IF_ERROR(ChargeBytes(args.loc, 64));
  if (!bounded) {
    KILN_RETURN_IF_ERROR(SetItem(function.results, key, made, args.loc));
    return made;
  }
  KILN_ASSIGN_OR_RETURN(const auto by_itself, FindKey(*function.results, key, args.loc));
  if (by_itself.has_value()) return made;
  if (static_cast<int64_t>(results.size()) >= function.most_results) results.erase(results.begin());
  results.emplace_back(key, made);
  return made;
}

absl::StatusOr<Value> Elaborator::CallAnew(const Value& callee, const CallArgs& args,
                                           const Value* self) {
  const FunctionObject& function = callee.function();
  const bool macro = function.kind == FunctionKind::kMacro;
  const bool traced = macro || (function.stores && !regions_.empty());
  CountGuard call(&calls_);
  CountGuard depth(&depth_);
  if (calls_ > limits_.depth) {
    return Exhausted(args.loc, absl::StrCat("calls are nested more than ", limits_.depth,
                                            " deep; does the recursion of '", function.name(),
                                            "' end at compile time?"));
  }
  KILN_RETURN_IF_ERROR(CheckDepth(args.loc));
  if (function.kind == FunctionKind::kPrimFunc) {
    return Error(args.loc, absl::StrCat("the kernel '", function.name(), "' cannot be called here"),
                 "return it, or make the shared part a @T.macro");
  }
  if (function.kind == FunctionKind::kJit && StyleOf(*function.def) == EntryStyle::kEager) {
    return Error(args.loc, absl::StrCat("the kernel '", function.name(), "' cannot be called here"),
                 "make it the entry, or make the shared part a @T.macro");
  }
  if (macro && regions_.empty()) {
    return Error(args.loc, absl::StrCat("macro '", function.name(), "' is called outside a kernel"),
                 "call it in a function under @T.prim_func or @tilelang.jit");
  }
  if (macro && pure_ > 0) {
    return Error(args.loc,
                 absl::StrCat("macro '", function.name(),
                              "' is called in an operand "
                              "that run time may skip (and, or, a conditional "
                              "expression)"),
                 "call it in a statement and use its result");
  }
  const bool generator = function.def != nullptr && function.def->is_generator;
  if ((function.def != nullptr && function.def->is_async) || (generator && traced)) {
    return Unimplemented(args.loc,
                         absl::StrCat("'", function.name(), "' is ",
                                      function.def->is_async ? "async" : "a generator with effects",
                                      ", which the kernel language does not have"),
                         "return a list");
  }
  Scope* scope = arena_.New<Scope>();
  scope->parent = function.closure;
  scope->function = function.def;
  CallArgs with_self = args;
  if (self != nullptr) {
    with_self.positional.insert(with_self.positional.begin(), *self);
    with_self.locs.insert(with_self.locs.begin(), args.loc);
    with_self.exprs.insert(with_self.exprs.begin(), nullptr);
  }
  KILN_RETURN_IF_ERROR(BindParams(function, with_self, scope, traced));
  Frame frame;
  frame.name = function.name();
  frame.what = macro ? "macro" : function.owner != nullptr ? "method" : "function";
  frame.call = args.loc;
  frame.scope = scope;
  frame.before = frame_->before;
  frame.traced = traced || function.traced;
  if (function.owner != nullptr) {
    frame.function = &function;
    frame.bundled = !function.def->name_loc.known();
    if (!with_self.positional.empty()) frame.self = with_self.positional[0];
  }
  const bool at_once = IsTakenWhole();
  FrameGuard guard(this, &frame);
  if (function.lambda != nullptr) return Eval(function.lambda->body);
  if (generator) return CallGenerator(*function.def, &frame, at_once, args.loc);
  KILN_RETURN_IF_ERROR(ExecBlock(function.def->body).status());
  if (function.kind == FunctionKind::kJit && frame.result.Is(Type::kFunction)) {
    frame.result.function().jit = function.jit;
  }
  return frame.result;
}

// All items at once: right where that changes nothing that others see.
absl::StatusOr<Value> Elaborator::CallGenerator(const ast::Function& def, Frame* frame,
                                                bool at_once, SourceLoc loc) {
  std::vector<Value> yielded;
  frame->yielded = &yielded;
  Deferred deferred(this, frame->scope->number - 1, at_once);
  if (absl::Status done = ExecBlock(def.body).status(); !done.ok()) return deferred.Failed(done);
  KILN_ASSIGN_OR_RETURN(const Value made,
                        deferred.Finish(std::move(yielded), {}, false,
                                        absl::StrCat("the generator '", def.name, "'"), loc));
  LazyOf(made).returned = frame->result;
  return made;
}

}  // namespace kiln::lang

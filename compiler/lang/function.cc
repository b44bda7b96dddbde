// Function definitions and what their decorators say.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/lang/decorators.h"
#include "compiler/lang/pass_options.h"
#include "compiler/lang/suggest.h"

namespace kiln::lang {
namespace {

std::vector<std::string> KernelDecorators() {
  return {"jit", "autotune", "prim_func", "macro", "lazy_jit"};
}

// The sweep chooses target and host; these change nothing about the program.
bool IsHostOption(absl::string_view name) {
  return name == "target" || name == "target_host" || name == "execution_backend" ||
         name == "verbose" || name == "debug_root_path" || name == "debug";
}

}  // namespace

absl::StatusOr<Value> Elaborator::MakeFunction(const ast::Function& def) {
  auto* function = arena_.New<FunctionObject>();
  function->def = &def;
  function->closure = frame_->module_index == SIZE_MAX ? frame_->scope : nullptr;
  const absl::string_view hint = name_hint_;
  name_hint_ = {};
  Decorators decorators(this);
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> wrappers, decorators.Wrappers(def));
  for (const ast::Param& param : def.params) {
    Value value;
    if (param.default_value != nullptr) {
      KILN_ASSIGN_OR_RETURN(value, Eval(param.default_value));
      KILN_ASSIGN_OR_RETURN(value, Keep(std::move(value), param.name, param.loc));
    }
    function->defaults.push_back(value);
  }
  KILN_ASSIGN_OR_RETURN(const Value made,
                        decorators.Apply(def, wrappers, Value::Of(Type::kFunction, function)));
  name_hint_ = hint;
  return made;
}

absl::StatusOr<std::vector<Value>> Elaborator::Decorators::Wrappers(const ast::Function& def) {
  std::vector<Value> wrappers;
  for (ast::ExprPtr decorator : def.decorators) {
    wrappers.emplace_back();
    FunctionObject read;
    const absl::StatusOr<bool> known = Read(decorator, &read);
    if (!known.ok() || *known) continue;  // which Apply says
    KILN_ASSIGN_OR_RETURN(const bool host, IsOfHost(decorator));
    if (host) continue;
    KILN_ASSIGN_OR_RETURN(wrappers.back(), e_.Eval(decorator));
  }
  return wrappers;
}

absl::StatusOr<Value> Elaborator::Decorators::Apply(const ast::Function& def,
                                                    const std::vector<Value>& wrappers,
                                                    Value function) {
  for (auto decorator = def.decorators.rbegin(); decorator != def.decorators.rend(); ++decorator) {
    const Value& wrapper = wrappers[def.decorators.rend() - decorator - 1];
    if (function.Is(Type::kFunction)) {
      KILN_ASSIGN_OR_RETURN(const bool read, Read(*decorator, &function.function()));
      if (read) continue;
    }
    KILN_ASSIGN_OR_RETURN(const bool host, IsOfHost(*decorator));
    if (host && absl::string_view(e_.frame_->what) == "class") {  // may be no concern of kernels
      auto* unknown = e_.arena_.New<UnknownObject>();
      unknown->path = def.name;
      unknown->reason = absl::StrCat("the decorator '", LastName(*decorator), "' is not supported");
      return Value::Of(Type::kUnknown, unknown);
    }
    if (host) return Unknown(*decorator);
    Value called = wrapper;
    if (called.is_none()) {
      KILN_ASSIGN_OR_RETURN(called, e_.Eval(*decorator));
    }
    KILN_ASSIGN_OR_RETURN(function, e_.Call(called, {function}, (*decorator)->loc));
  }
  return function;
}

absl::StatusOr<bool> Elaborator::Decorators::IsOfHost(ast::ExprPtr decorator) {
  ast::ExprPtr root = decorator;
  while (true) {
    if (const auto* call = root->As<ast::Call>()) {
      root = call->callee;
    } else if (const auto* attribute = root->As<ast::Attribute>()) {
      root = attribute->value;
    } else {
      break;
    }
  }
  const auto* name = root->As<ast::Name>();
  if (name == nullptr) return false;
  KILN_ASSIGN_OR_RETURN(const Value value, e_.ReadName(*name, /*keep_variable=*/true));
  if (!value.Is(Type::kUnknown) && !value.Is(Type::kModule)) return false;
  const absl::string_view last = LastName(decorator);
  if (!Nearest(last, KernelDecorators()).empty()) return Unknown(decorator);
  return true;
}

absl::Status Elaborator::Decorators::Unknown(ast::ExprPtr decorator) {
  const absl::string_view name = LastName(decorator);
  return e_.Unimplemented(
      decorator->loc, absl::StrCat("the decorator '", name, "' is not supported"),
      DidYouMean(name, KernelDecorators(),
                 "use @tilelang.jit, @tilelang.autotune, @T.prim_func, @T.macro, "
                 "or a function of the file"));
}

absl::StatusOr<JitOptions> Elaborator::Decorators::OfEntry() {
  auto* function = e_.arena_.New<FunctionObject>();
  function->def = e_.module_.entry;
  function->closure = e_.around_;
  function->defaults.resize(e_.module_.entry->params.size());
  const auto& decorators = e_.module_.entry->decorators;
  for (auto decorator = decorators.rbegin(); decorator != decorators.rend(); ++decorator) {
    KILN_ASSIGN_OR_RETURN(const bool read, Read(*decorator, function));
    if (read) continue;
    KILN_ASSIGN_OR_RETURN(const bool host, IsOfHost(*decorator));
    if (host) continue;
    KILN_ASSIGN_OR_RETURN(const Value wrapper, e_.Eval(*decorator));
    KILN_ASSIGN_OR_RETURN(const Value made, e_.Call(wrapper, {Value::Of(Type::kFunction, function)},
                                                    (*decorator)->loc));
    if (made.Is(Type::kFunction) && made.function().def == e_.module_.entry) {
      *function = made.function();
    }
  }
  return function->jit;
}

absl::StatusOr<bool> Elaborator::Decorators::Read(ast::ExprPtr decorator,
                                                  FunctionObject* function) {
  const absl::string_view name = LastName(decorator);
  if (name == "macro") {
    function->kind = FunctionKind::kMacro;
  } else if (name == "prim_func") {
    function->kind = FunctionKind::kPrimFunc;
  } else if (name == "jit" || name == "lazy_jit") {
    if (function->kind == FunctionKind::kPlain) function->kind = FunctionKind::kJit;
    if (const auto* call = decorator->As<ast::Call>()) {
      KILN_RETURN_IF_ERROR(ReadOptions(*call, &function->jit));
    }
  } else if (name == "property" || name == "cached_property") {
    function->method = MethodKind::kProperty;
    function->kept = name == "cached_property";
  } else if (name == "staticmethod") {
    function->method = MethodKind::kStatic;
  } else if (name == "classmethod") {
    function->method = MethodKind::kClass;
  } else if (name == "lru_cache" || name == "cache") {
    function->results = e_.arena_.New<DictObject>();
    if (name == "lru_cache") KILN_RETURN_IF_ERROR(ReadCache(decorator, function));
  } else if (name == "wraps") {
    const auto* call = decorator->As<ast::Call>();
    if (call == nullptr || call->args.empty()) return true;
    const absl::StatusOr<Value> wrapped = e_.Eval(call->args[0]);
    if (wrapped.ok()) function->wrapped = *wrapped;
  } else {
    // The others have no meaning for one elaboration.
    return name == "autotune" || name == "no_grad" || name == "simplify_prim_func" ||
           name == "abstractmethod" || name == "override" || name == "final";
  }
  return true;
}

// @lru_cache, @lru_cache(maxsize=128, typed=False)
absl::Status Elaborator::Decorators::ReadCache(ast::ExprPtr decorator, FunctionObject* function) {
  constexpr int64_t kDefault = 128;
  function->most_results = kDefault;
  const auto* call = decorator->As<ast::Call>();
  if (call == nullptr) return absl::OkStatus();
  const auto take = [&](absl::string_view name, ast::ExprPtr expr) -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const Value value, e_.Eval(expr));
    if (name == "typed") {
      KILN_ASSIGN_OR_RETURN(function->typed, e_.DecideNow(value, expr->loc, "typed"));
      return absl::OkStatus();
    }
    if (name != "maxsize") {
      return e_.Error(expr->loc, absl::StrCat("lru_cache has no parameter '", name, "'"),
                      "its parameters: maxsize=, typed=");
    }
    function->most_results = -1;
    if (value.is_none()) return absl::OkStatus();
    KILN_ASSIGN_OR_RETURN(const int64_t most, e_.ToInt(value, expr->loc, "maxsize"));
    function->most_results = std::max<int64_t>(0, most);
    return absl::OkStatus();
  };
  for (size_t i = 0; i < call->args.size(); ++i) {
    KILN_RETURN_IF_ERROR(take(i == 0 ? "maxsize" : i == 1 ? "typed" : "", call->args[i]));
  }
  for (const ast::Keyword& keyword : call->keywords) {
    KILN_RETURN_IF_ERROR(take(keyword.name, keyword.value));
  }
  return absl::OkStatus();
}

absl::Status Elaborator::Decorators::ReadOptions(const ast::Call& call, JitOptions* options) {
  for (const ast::Keyword& keyword : call.keywords) {
    if (IsHostOption(keyword.name)) continue;
    KILN_ASSIGN_OR_RETURN(const Value value, e_.Eval(keyword.value));
    if (!keyword.name.empty()) {
      KILN_RETURN_IF_ERROR(ReadOption(keyword.name, value, keyword.loc, options));
      continue;
    }
    if (!value.Is(Type::kDict)) {
      return e_.Error(keyword.loc, absl::StrCat("** spreads a dict, not ", Describe(value)),
                      "pass a dict");
    }
    for (const auto& [key, item] : value.dict().items) {
      KILN_ASSIGN_OR_RETURN(const std::string name, e_.ToStr(key, keyword.loc, "a key of options"));
      KILN_RETURN_IF_ERROR(ReadOption(name, item, keyword.loc, options));
    }
  }
  return absl::OkStatus();
}

absl::Status Elaborator::Decorators::ReadOption(absl::string_view name, const Value& value,
                                                SourceLoc loc, JitOptions* options) {
  if (IsHostOption(name)) return absl::OkStatus();
  if (name == "out_idx") {
    if (value.is_none()) return absl::OkStatus();
    options->has_out_idx = true;
    std::vector<Value> items = {value};
    if (value.is_sequence()) items = value.seq().items;
    for (const Value& item : items) {
      KILN_ASSIGN_OR_RETURN(const int64_t index, e_.ToInt(item, loc, "out_idx"));
      options->out_idx.push_back(index);
    }
    return absl::OkStatus();
  }
  if (name == "pass_configs") {
    return value.is_none() ? absl::OkStatus() : ReadPassConfigs(value, loc, options);
  }
  if (name == "compile_flags") return ReadCompileFlags(value, loc, options);
  return e_.Unimplemented(
      loc, absl::StrCat("@tilelang.jit has no option '", name, "'"),
      DidYouMean(name, {"out_idx", "pass_configs", "target", "compile_flags", "verbose"},
                 "use out_idx, pass_configs or compile_flags"));
}

// Flags for a compiler that Kiln does not call; the one that says how to compute is honoured.
absl::Status Elaborator::Decorators::ReadCompileFlags(const Value& v, SourceLoc loc,
                                                      JitOptions* options) {
  if (v.is_none()) return absl::OkStatus();
  std::vector<Value> items = {v};
  if (v.is_sequence()) items = v.seq().items;
  std::string flags;
  for (const Value& item : items) {
    KILN_ASSIGN_OR_RETURN(const std::string flag, e_.ToStr(item, loc, "a compile flag"));
    absl::StrAppend(&flags, flags.empty() ? "" : " ", flag);
  }
  if (absl::StrContains(flags, "-use_fast_math")) {
    options->attrs.emplace_back("tl.enable_fast_math", "true");
  }
  options->attrs.emplace_back("compile_flags", flags);
  return absl::OkStatus();
}

absl::Status Elaborator::Annotate(const Value& v, bool flags, SourceLoc loc) {
  Decorators decorators(this);
  return flags ? decorators.ReadCompileFlags(v, loc, &annotated_)
               : decorators.ReadPassConfigs(v, loc, &annotated_);
}

absl::Status Elaborator::Decorators::ReadPassConfigs(const Value& v, SourceLoc loc,
                                                     JitOptions* options) {
  if (!v.Is(Type::kDict)) {
    return e_.Error(loc, absl::StrCat("pass_configs must be a dict, not ", Describe(v)),
                    "write {tilelang.PassConfigKey.TL_...: value}");
  }
  for (const auto& [key, item] : v.dict().items) {
    std::string name;
    if (key.Is(Type::kStr)) {
      name = key.str();
    } else if (key.Is(Type::kEnum) && key.member()->text != nullptr) {
      name = key.member()->text;
    }
    if (name == "tl.device_compile_flags") {
      KILN_RETURN_IF_ERROR(ReadCompileFlags(item, loc, options));
      continue;
    }
    const std::vector<PassOptionRule>& rules = PassOptionRules();
    const bool honoured = std::any_of(
        rules.begin(), rules.end(), [&](const PassOptionRule& rule) { return rule.name == name; });
    if (const PassConfigKey* known = FindPassConfigKey(name); known != nullptr && !honoured) {
      if (*known->refused == '\0' || Repr(item) == known->harmless) continue;
      return e_.Unimplemented(
          loc, absl::StrCat("the pass option '", name, "' cannot be ", Repr(item)), known->refused);
    }
    if (honoured && item.is_none()) continue;
    if (!item.is_number()) {
      return e_.Error(loc,
                      absl::StrCat("the pass option '", name.empty() ? Repr(key) : name,
                                   "' must be a number or bool, not ", Describe(item)),
                      "give it True, False or a number");
    }
    PassOptionValue value = ReadPassOption(name.empty() ? Repr(key) : name, Repr(item));
    if (!value.fault.empty()) return e_.Unimplemented(loc, value.fault, value.remedy);
    options->attrs.emplace_back(name, std::move(value.text));
  }
  return absl::OkStatus();
}

}  // namespace kiln::lang

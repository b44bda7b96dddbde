// Function definitions and what their decorators say.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/lang/elaborator.h"
#include "compiler/lang/pass_options.h"
#include "compiler/lang/suggest.h"

namespace kiln::lang {
namespace {

absl::string_view DecoratorName(ast::ExprPtr decorator) {
  if (const auto* call = decorator->As<ast::Call>()) decorator = call->callee;
  if (const auto* name = decorator->As<ast::Name>()) return name->id;
  if (const auto* attribute = decorator->As<ast::Attribute>()) return attribute->attr;
  return {};
}

}  // namespace

absl::StatusOr<Value> Elaborator::MakeFunction(const ast::Function& def) {
  auto* function = arena_.New<FunctionObject>();
  function->def = &def;
  function->closure = frame_->module_index == SIZE_MAX ? frame_->scope : nullptr;
  KILN_RETURN_IF_ERROR(ReadDecorators(def, function));
  const absl::string_view hint = name_hint_;
  name_hint_ = {};
  for (const ast::Param& param : def.params) {
    Value value;
    if (param.default_value != nullptr) {
      KILN_ASSIGN_OR_RETURN(value, Eval(param.default_value));
      KILN_ASSIGN_OR_RETURN(value, Keep(std::move(value), param.name, param.loc));
    }
    function->defaults.push_back(value);
  }
  name_hint_ = hint;
  return Value::Of(Type::kFunction, function);
}

absl::Status Elaborator::ReadDecorators(const ast::Function& def, FunctionObject* function) {
  for (ast::ExprPtr decorator : def.decorators) {
    const absl::string_view name = DecoratorName(decorator);
    if (name == "macro") {
      function->kind = FunctionKind::kMacro;
    } else if (name == "prim_func") {
      function->kind = FunctionKind::kPrimFunc;
    } else if (name == "jit" || name == "lazy_jit") {
      if (function->kind == FunctionKind::kPlain) function->kind = FunctionKind::kJit;
      if (const auto* call = decorator->As<ast::Call>()) {
        KILN_RETURN_IF_ERROR(ReadJitOptions(*call, &function->jit));
      }
    } else if (name == "property" || name == "cached_property") {
      function->method = MethodKind::kProperty;
    } else if (name == "staticmethod") {
      function->method = MethodKind::kStatic;
    } else if (name == "classmethod") {
      function->method = MethodKind::kClass;
    } else if (name == "autotune" || name == "lru_cache" || name == "cache" || name == "no_grad" ||
               name == "simplify_prim_func" || name == "abstractmethod" || name == "override" ||
               name == "final" || name == "wraps") {
      continue;  // no meaning for one elaboration
    } else {
      return Unimplemented(decorator->loc,
                           absl::StrCat("the decorator '", name, "' is not supported"),
                           DidYouMean(name, {"jit", "autotune", "prim_func", "macro", "lazy_jit"},
                                      "use @tilelang.jit, @tilelang.autotune, @T.prim_func or "
                                      "@T.macro"));
    }
  }
  return absl::OkStatus();
}

absl::Status Elaborator::ReadJitOptions(const ast::Call& call, JitOptions* options) {
  for (const ast::Keyword& keyword : call.keywords) {
    // The sweep chooses target and host; these change nothing about the program.
    static constexpr absl::string_view kIgnored[] = {
        "target", "target_host", "execution_backend", "verbose", "debug_root_path", "debug"};
    if (std::find(std::begin(kIgnored), std::end(kIgnored), keyword.name) != std::end(kIgnored)) {
      continue;
    }
    if (keyword.name == "out_idx") {
      KILN_ASSIGN_OR_RETURN(const Value value, Eval(keyword.value));
      if (value.is_none()) continue;
      options->has_out_idx = true;
      std::vector<Value> items = {value};
      if (value.is_sequence()) items = value.seq().items;
      for (const Value& item : items) {
        KILN_ASSIGN_OR_RETURN(const int64_t index, ToInt(item, keyword.loc, "out_idx"));
        options->out_idx.push_back(index);
      }
    } else if (keyword.name == "pass_configs") {
      KILN_ASSIGN_OR_RETURN(const Value value, Eval(keyword.value));
      if (!value.is_none()) KILN_RETURN_IF_ERROR(ReadPassConfigs(value, keyword.loc, options));
    } else if (keyword.name == "compile_flags") {
      KILN_ASSIGN_OR_RETURN(const Value value, Eval(keyword.value));
      KILN_RETURN_IF_ERROR(ReadCompileFlags(value, keyword.loc, options));
    } else {
      return Unimplemented(
          keyword.loc, absl::StrCat("@tilelang.jit has no option '", keyword.name, "'"),
          DidYouMean(keyword.name,
                     {"out_idx", "pass_configs", "target", "compile_flags", "verbose"},
                     "use out_idx, pass_configs or compile_flags"));
    }
  }
  return absl::OkStatus();
}

// Flags for a compiler that Kiln does not call; the one that says how to compute is honoured.
absl::Status Elaborator::ReadCompileFlags(const Value& v, SourceLoc loc, JitOptions* options) {
  if (v.is_none()) return absl::OkStatus();
  std::vector<Value> items = {v};
  if (v.is_sequence()) items = v.seq().items;
  std::string flags;
  for (const Value& item : items) {
    KILN_ASSIGN_OR_RETURN(const std::string flag, ToStr(item, loc, "a compile flag"));
    absl::StrAppend(&flags, flags.empty() ? "" : " ", flag);
  }
  if (absl::StrContains(flags, "-use_fast_math")) {
    options->attrs.emplace_back("tl.enable_fast_math", "true");
  }
  options->attrs.emplace_back("compile_flags", flags);
  return absl::OkStatus();
}

absl::Status Elaborator::Annotate(const Value& v, bool flags, SourceLoc loc) {
  return flags ? ReadCompileFlags(v, loc, &annotated_) : ReadPassConfigs(v, loc, &annotated_);
}

absl::Status Elaborator::ReadPassConfigs(const Value& v, SourceLoc loc, JitOptions* options) {
  if (!v.Is(Type::kDict)) {
    return Error(loc, absl::StrCat("pass_configs must be a dict, not ", Describe(v)),
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
      return Unimplemented(loc, absl::StrCat("the pass option '", name, "' cannot be ", Repr(item)),
                           known->refused);
    }
    if (honoured && item.is_none()) continue;
    if (!item.is_number()) {
      return Error(loc,
                   absl::StrCat("the pass option '", name.empty() ? Repr(key) : name,
                                "' must be a number or bool, not ", Describe(item)),
                   "give it True, False or a number");
    }
    PassOptionValue value = ReadPassOption(name.empty() ? Repr(key) : name, Repr(item));
    if (!value.fault.empty()) return Unimplemented(loc, value.fault, value.remedy);
    options->attrs.emplace_back(name, std::move(value.text));
  }
  return absl::OkStatus();
}

}  // namespace kiln::lang

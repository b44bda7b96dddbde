// The configs of @tilelang.autotune.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/lang/elaborator.h"
#include "compiler/lang/pass_options.h"
#include "compiler/lang/suggest.h"

namespace kiln::lang {
namespace {

const ast::Call* FindAutotune(const ast::Function& entry) {
  for (ast::ExprPtr decorator : entry.decorators) {
    const auto* call = decorator->As<ast::Call>();
    if (call == nullptr) continue;
    const auto* attribute = call->callee->As<ast::Attribute>();
    const auto* name = call->callee->As<ast::Name>();
    if ((attribute && attribute->attr == "autotune") || (name && name->id == "autotune"))
      return call;
  }
  return nullptr;
}

std::vector<std::string> ParameterNames(const Kernel& kernel) {
  std::vector<std::string> names;
  for (const ParamInfo& param : kernel.params()) names.push_back(param.name);
  return names;
}

// Of what programs hold, the literal that a config holds.
std::string OptionText(const std::string& text) {
  return text == "true" ? "True" : text == "false" ? "False" : text;
}

}  // namespace

absl::StatusOr<std::string> Elaborator::ConfigText(const Value& v, SourceLoc loc) {
  switch (v.type()) {
    case Type::kNone:
    case Type::kBool:
    case Type::kInt:
    case Type::kFloat:
    case Type::kDType:
      return Repr(v);
    case Type::kStr: {
      const bool plain = std::all_of(v.str().begin(), v.str().end(), [](char c) {
        return c == '_' || c == '.' || c == '+' || c == '-' || (c >= '0' && c <= '9') ||
               (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      });
      if (plain && v.str().size() < 250) return absl::StrCat("\"", v.str(), "\"");
      break;
    }
    default:
      break;
  }
  return Unimplemented(loc, absl::StrCat("a config value that is ", Describe(v)),
                       "configs hold integers, floats, bools, None, names and dtypes");
}

absl::StatusOr<std::vector<Config>> Elaborator::Configs(const Kernel& kernel,
                                                        const Arguments& arguments) {
  static const Config& no_config = *std::make_unique<Config>().release();
  arguments_ = &arguments;
  config_ = &no_config;
  std::vector<Config> configs;
  const ast::Call* decorator = FindAutotune(*module_.entry);
  if (decorator == nullptr) return configs;
  ast::ExprPtr source = decorator->args.empty() ? nullptr : decorator->args[0];
  for (const ast::Keyword& keyword : decorator->keywords) {
    if (keyword.name == "configs") source = keyword.value;
  }
  Frame frame;
  frame.scope = arena_.New<Scope>();
  FrameGuard guard(this, &frame);
  KILN_RETURN_IF_ERROR(RunAround(kernel));
  if (around_ != nullptr) frame.scope = around_;
  if (source == nullptr) {
    return Error(decorator->loc, "@tilelang.autotune without configs",
                 "give configs=[dict(block_M=128), ...] or a function that returns them");
  }
  KILN_ASSIGN_OR_RETURN(Value value, Eval(source));
  if (value.Is(Type::kFunction)) {
    // Its parameters take the kernel's arguments of the same name.
    CallArgs call;
    call.loc = source->loc;
    for (const ast::Param& param : value.function().params()) {
      const auto given = arguments.find(param.name);
      if (given != arguments.end()) {
        KILN_ASSIGN_OR_RETURN(const Value argument, ParseArgument(param.name, given->second));
        call.keywords.push_back({param.name, argument, source->loc});
        continue;
      }
      for (const ast::Param& own : module_.entry->params) {
        if (own.name != param.name || own.default_value == nullptr) continue;
        KILN_ASSIGN_OR_RETURN(const Value argument, Eval(own.default_value));
        call.keywords.push_back({param.name, argument, source->loc});
      }
    }
    KILN_ASSIGN_OR_RETURN(value, Call(value, call));
  }
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(value, source->loc));
  for (const Value& item : items) {
    if (!item.Is(Type::kDict)) {
      return Error(source->loc, absl::StrCat("a config is a dict, not ", Describe(item)),
                   "write [dict(block_M=128), ...]");
    }
    Config config;
    for (const auto& [key, entry] : item.dict().items) {
      KILN_RETURN_IF_ERROR(Step(source->loc));
      if (key.Is(Type::kStr) && key.str() == "pass_configs") {  // compiler options of the config
        JitOptions options;
        KILN_RETURN_IF_ERROR(ReadPassConfigs(entry, source->loc, &options));
        for (const auto& [name, text] : options.attrs) config.Set(name, OptionText(text));
        continue;
      }
      KILN_ASSIGN_OR_RETURN(const std::string name,
                            ToStr(key, source->loc, "the name in a config"));
      const bool known =
          IsOptionName(name) || std::any_of(kernel.params().begin(), kernel.params().end(),
                                            [&](const ParamInfo& p) { return p.name == name; });
      if (!known) {
        return Error(source->loc,
                     absl::StrCat("a config names '", name, "', which is no parameter of '",
                                  kernel.name(), "'"),
                     DidYouMean(name, ParameterNames(kernel),
                                "add the parameter, or remove it from the configs"));
      }
      KILN_ASSIGN_OR_RETURN(std::string text, ConfigText(entry, source->loc));
      if (IsOptionName(name)) {
        PassOptionValue value = ReadPassOption(name, text);
        if (!value.fault.empty()) {
          return Error(source->loc, std::move(value.fault), std::move(value.remedy));
        }
      }
      config.Set(name, std::move(text));
    }
    configs.push_back(std::move(config));
  }
  return configs;
}

}  // namespace kiln::lang

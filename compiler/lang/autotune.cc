// The configs of @tilelang.autotune.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/lang/classes.h"
#include "compiler/lang/decorators.h"
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
    case Type::kEnum:
      if (v.member()->text == nullptr) return Repr(v);  // T.GemmWarpPolicy.FullRow
      break;
    case Type::kInstance:  // a member of an enum of the file
      if (const ClassObject* type = Classes::Of(v);
          type != nullptr && type->kind == ClassKind::kEnum && !v.instance().name.empty() &&
          module_.sections[0].globals.contains(type->def->name)) {
        return absl::StrCat(type->def->name, ".", v.instance().name);
      }
      break;
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

// What a function that makes configs is called with: the kernel's arguments by their names, or,
// where its own parameters have others, in their order, as in a call of the kernel; a function of
// (args, kwargs) gets them as a tuple and a dict. Where a call leaves an argument out, its own
// default comes before the kernel's, unless @autotune names do_not_specialize: as in TileLang.
absl::StatusOr<CallArgs> Elaborator::Decorators::ConfigArgs(const Value& function,
                                                            const Arguments& arguments,
                                                            SourceLoc loc) {
  CallArgs by_name, by_place;
  by_name.loc = by_place.loc = loc;
  const std::vector<ast::Param>& own = e_.module_.entry->params;
  const std::vector<ast::Param>& params = function.function().params();
  const std::vector<ast::Keyword>& options = FindAutotune(*e_.module_.entry)->keywords;
  const bool bound = std::any_of(options.begin(), options.end(), [](const ast::Keyword& k) {
    return k.name == "do_not_specialize";
  });
  bool named = true;
  for (const ast::Param& param : params) {
    const auto given = arguments.find(param.name);
    const auto same = std::find_if(own.begin(), own.end(),
                                   [&](const ast::Param& p) { return p.name == param.name; });
    if (given != arguments.end()) {
      KILN_ASSIGN_OR_RETURN(const Value argument, e_.ParseArgument(param.name, given->second));
      by_name.keywords.push_back({param.name, argument, loc});
    } else if (same != own.end() && same->default_value != nullptr &&
               (bound || param.default_value == nullptr)) {
      KILN_ASSIGN_OR_RETURN(const Value argument, e_.Eval(same->default_value));
      by_name.keywords.push_back({param.name, argument, loc});
    } else {
      named =
          named && (param.default_value != nullptr || param.kind == ast::ParamKind::kVarKeywords);
    }
  }
  if (named) return by_name;
  for (const ast::Param& param : own) {
    const auto given = arguments.find(param.name);
    if (given == arguments.end()) break;
    KILN_ASSIGN_OR_RETURN(const Value argument, e_.ParseArgument(param.name, given->second));
    by_place.positional.push_back(argument);
    by_place.locs.push_back(loc);
  }
  if (params.size() == 2 && params[0].name == "args" && params[1].name == "kwargs" &&
      params[0].kind != ast::ParamKind::kVarArgs) {
    by_place.positional = {e_.NewTuple(std::move(by_place.positional)),
                           Value::Of(Type::kDict, e_.arena_.New<DictObject>())};
    by_place.locs = {loc, loc};
  }
  return by_place;
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
    KILN_ASSIGN_OR_RETURN(const CallArgs call,
                          Decorators(this).ConfigArgs(value, arguments, source->loc));
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
        KILN_RETURN_IF_ERROR(Decorators(this).ReadPassConfigs(entry, source->loc, &options));
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

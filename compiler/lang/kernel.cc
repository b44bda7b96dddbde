#include "compiler/lang/kernel.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/iteration_races.h"
#include "compiler/lang/check_within.h"
#include "compiler/lang/elaborator.h"
#include "compiler/lang/free_names.h"
#include "compiler/lang/module.h"
#include "compiler/lang/parser.h"
#include "compiler/lang/suggest.h"

namespace kiln::lang {

namespace {

constexpr int64_t kDefaultSteps = 100'000;  // to evaluate the defaults of all parameters

bool IsTop(const FoundKernel& kernel) { return kernel.around.empty() && kernel.owner == nullptr; }

// An error where a function of the file's top level has a decorator that is almost one of a kernel.
absl::Status CheckDecorators(const ParsedModule& module) {
  const std::vector<std::string> known = {"autotune", "jit", "lazy_jit", "macro", "prim_func"};
  const SourceSection& own = module.sections[0];
  for (size_t i = own.first; i < own.last; ++i) {
    const auto* function = module.tree->body[i]->As<ast::Function>();
    if (function == nullptr) continue;
    for (ast::ExprPtr decorator : function->decorators) {
      if (const auto* call = decorator->As<ast::Call>()) decorator = call->callee;
      const auto* member = decorator->As<ast::Attribute>();
      const auto* name = decorator->As<ast::Name>();
      const std::string text = member ? member->attr : name ? name->id : "";
      if (std::find(known.begin(), known.end(), text) != known.end()) continue;
      const std::string near = Nearest(text, known);
      if (near.empty()) continue;
      return ErrorAt(*module.file, member ? member->attr_loc : decorator->loc,
                     absl::StrCat("the decorator '", text, "' makes no kernel"),
                     absl::StrCat("did you mean '", near, "'?"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

// Fills the private fields of a Kernel.
class KernelBuilder {
 public:
  static absl::StatusOr<std::shared_ptr<ParsedModule>> Load(std::shared_ptr<const SourceFile> file,
                                                            const Limits& limits) {
    auto module = std::make_shared<ParsedModule>();
    module->file = std::move(file);
    KILN_ASSIGN_OR_RETURN(module->tree, ParseSource(*module->file, limits));
    IndexGlobals(module.get());
    return module;
  }

  static absl::StatusOr<FoundKernel> Choose(const ParsedModule& module, absl::string_view entry) {
    const std::vector<FoundKernel> kernels = FindKernels(module);
    std::vector<std::string> names;
    for (const FoundKernel& kernel : kernels) names.push_back(kernel.Name());
    const std::string listed = names.empty()
                                   ? "write a function under @tilelang.jit or @T.prim_func"
                                   : absl::StrCat("its kernels: ", absl::StrJoin(names, ", "));
    if (entry.empty()) {
      if (kernels.size() == 1) return kernels[0];
      // A test around a kernel does not make the choice of the file's only one at top level harder.
      if (std::count_if(kernels.begin(), kernels.end(), IsTop) == 1) {
        return *std::find_if(kernels.begin(), kernels.end(), IsTop);
      }
      if (kernels.empty()) KILN_RETURN_IF_ERROR(CheckDecorators(module));
      return ErrorAt(
          *module.file, {},
          absl::StrCat("the file defines ", kernels.size(), " kernels and none is named"),
          names.empty() ? listed : absl::StrCat("name one; ", listed));
    }
    // A plain function may build a kernel through another one.
    FoundKernel found = FindEntry(module, entry);
    if (found.function != nullptr && !HasDecorator(*found.function, "macro")) return found;
    const std::string near = Nearest(entry, names);
    return ErrorAt(*module.file, {}, absl::StrCat("the file defines no kernel '", entry, "'"),
                   near.empty() ? listed : absl::StrCat("did you mean '", near, "'? ", listed));
  }

  static Kernel Build(std::shared_ptr<ParsedModule> module) {
    Kernel kernel;
    const ast::Function& entry = *module->entry;
    kernel.name_ = entry.name;
    kernel.file_ = module->file;
    if (module->style == EntryStyle::kEager) kernel.consts_ = FindConsts(entry);
    Limits limits;
    limits.steps = kDefaultSteps;
    Elaborator defaults(*module, limits, {});
    for (size_t i = 0; i < entry.params.size(); ++i) {
      const ast::Param& param = entry.params[i];
      if (module->IsSelf(entry, i)) continue;
      kernel.params_.push_back(InfoOf(*module, param, KindOf(*module, param), &defaults));
    }
    // Those of the functions around it, of which its own hide some.
    for (auto outer = module->around.rbegin(); outer != module->around.rend(); ++outer) {
      for (const ast::Param& param : (*outer)->params) {
        const size_t at = static_cast<size_t>(&param - (*outer)->params.data());
        const bool hidden =
            module->IsSelf(**outer, at) ||
            std::any_of(kernel.params_.begin(), kernel.params_.end(),
                        [&](const ParamInfo& known) { return known.name == param.name; });
        if (!hidden)
          kernel.params_.push_back(InfoOf(*module, param, ParamInfo::kCompileTime, &defaults));
      }
    }
    kernel.module_ = std::move(module);
    return kernel;
  }

 private:
  static ParamInfo InfoOf(const ParsedModule& module, const ast::Param& param, ParamInfo::Kind kind,
                          Elaborator* defaults) {
    ParamInfo info;
    info.name = param.name;
    info.loc = param.loc;
    info.kind = kind;
    info.has_default = param.default_value != nullptr;
    if (!info.has_default) return info;
    info.default_text = LiteralText(param.default_value);
    if (info.default_text || kind != ParamInfo::kCompileTime) return info;
    if (NamesSomethingAround(module, param.default_value)) return info;
    info.default_text = defaults->DefaultText(param.default_value);
    return info;
  }

  // Whether the expression reads a name of the functions that the entry stands in.
  static bool NamesSomethingAround(const ParsedModule& module, ast::ExprPtr expr) {
    if (module.around.empty()) return false;
    ast::ExprStmt statement(expr->loc);
    statement.value = expr;
    const NameSet reads = NamesRead(&statement);
    for (const ast::Function* outer : module.around) {
      std::vector<absl::string_view> own;
      for (ast::StmtPtr stmt : outer->body) CollectBindings(stmt, &own);
      for (const ast::Param& param : outer->params) own.push_back(param.name);
      if (std::any_of(own.begin(), own.end(),
                      [&](absl::string_view name) { return reads.contains(name); })) {
        return true;
      }
    }
    return false;
  }

  static ParamInfo::Kind KindOf(const ParsedModule& module, const ast::Param& param) {
    if (module.style == EntryStyle::kFactory) return ParamInfo::kCompileTime;
    const auto kind = [](AnnotationKind k) {
      return k == AnnotationKind::kTensor   ? ParamInfo::kTensor
             : k == AnnotationKind::kScalar ? ParamInfo::kRuntimeScalar
                                            : ParamInfo::kCompileTime;
    };
    const ParamInfo::Kind signature = kind(KindOfAnnotation(param.annotation));
    if (module.style == EntryStyle::kPrimFunc) {
      return signature == ParamInfo::kCompileTime ? ParamInfo::kRuntimeScalar : signature;
    }
    if (signature != ParamInfo::kCompileTime) return signature;
    for (ast::StmtPtr stmt : module.entry->body) {
      const auto* annotated = stmt->As<ast::AnnAssign>();
      if (annotated == nullptr || annotated->value != nullptr) continue;
      const auto* name = annotated->target->As<ast::Name>();
      if (name != nullptr && name->id == param.name)
        return kind(KindOfAnnotation(annotated->annotation));
    }
    return ParamInfo::kCompileTime;
  }
};

absl::StatusOr<Kernel> Kernel::Parse(std::shared_ptr<const SourceFile> file,
                                     absl::string_view entry, const Limits& limits) {
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<ParsedModule> module,
                        KernelBuilder::Load(std::move(file), limits));
  KILN_ASSIGN_OR_RETURN(FoundKernel found, KernelBuilder::Choose(*module, entry));
  module->entry = found.function;
  module->around = std::move(found.around);
  module->owner = found.owner;
  module->style = StyleOf(*module->entry);
  return KernelBuilder::Build(std::move(module));
}

absl::StatusOr<std::vector<std::string>> Kernel::List(std::shared_ptr<const SourceFile> file) {
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<ParsedModule> module,
                        KernelBuilder::Load(std::move(file), {}));
  std::vector<std::string> names;
  for (const FoundKernel& kernel : FindKernels(*module)) names.push_back(kernel.Name());
  return names;
}

absl::StatusOr<ir::Program> Elaborate(const Kernel& kernel, const Arguments& arguments,
                                      const Config& config, const TargetFacts& target,
                                      const Limits& limits) {
  Elaborator elaborator(kernel.module(), limits, target);
  KILN_ASSIGN_OR_RETURN(ir::Program program, elaborator.Run(kernel, arguments, config, {}));
  KILN_RETURN_IF_ERROR(CheckWithin(program));
  KILN_RETURN_IF_ERROR(ir::CheckIterations(program));
  return program;
}

absl::StatusOr<OpenResult> ElaborateOpen(const Kernel& kernel, const Arguments& arguments,
                                         const Config& fixed, const std::vector<std::string>& open,
                                         const TargetFacts& target, const Limits& limits) {
  Elaborator elaborator(kernel.module(), limits, target);
  absl::StatusOr<ir::Program> program = elaborator.Run(kernel, arguments, fixed, open);
  OpenResult result;
  if (program.ok()) {
    result.program =
        OpenProgram{std::move(*program), elaborator.tunables(), elaborator.constraints()};
    return result;
  }
  if (!elaborator.needs().has_value()) return program.status();
  result.needs = elaborator.needs();
  return result;
}

absl::StatusOr<std::vector<Config>> AutotuneConfigs(const Kernel& kernel,
                                                    const Arguments& arguments,
                                                    const TargetFacts& target,
                                                    const Limits& limits) {
  Elaborator elaborator(kernel.module(), limits, target);
  return elaborator.Configs(kernel, arguments);
}

}  // namespace kiln::lang

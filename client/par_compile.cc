// Many configs of a kernel, compiled by a farm: one compile-only sweep for each set of sizes.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/convert.h"
#include "client/kiln_client.h"
#include "compiler/base/status.h"
#include "compiler/ir/printer.h"
#include "compiler/lang/interface.h"

namespace kiln::client {
namespace {

using lang::Arguments;

// One set of arguments, made those of a sweep and of a config in it.
struct Part {
  Arguments arguments;
  std::string config;  // canonical text
};

absl::StatusOr<lang::Kernel> ParseKernel(const SweepSpec& spec) {
  if (spec.kernel_source.empty()) {
    return absl::InvalidArgumentError(
        "par_compile takes a kernel's text; of a shipped template only the farm has it");
  }
  auto file = std::make_shared<SourceFile>();
  file->path = spec.kernel_path.empty() ? "<kernel>" : spec.kernel_path;
  file->text = ClosedSource(spec);
  return lang::Kernel::Parse(file, spec.entry);
}

// Of the target, where it is an architecture; who asks for more is refused.
lang::TargetFacts FactsOf(const SweepSpec& spec) {
  const absl::StatusOr<target::Arch> arch = target::NamedArch(spec.target);
  return arch.ok() ? lang::FactsOf(*arch) : lang::TargetFacts();
}

// Parameters with a default become the config, where a config can hold their value; sizes, types
// and all else is the sweep's.
absl::StatusOr<Part> Split(const lang::Kernel& kernel, const SweepSpec& spec,
                           const Arguments& given) {
  Arguments arguments = spec.arguments;
  Config config;
  for (const auto& [name, text] : given) {
    const bool tunable = std::any_of(
        kernel.params().begin(), kernel.params().end(), [&](const lang::ParamInfo& param) {
          return param.name == name && param.kind == lang::ParamInfo::kCompileTime &&
                 param.has_default;
        });
    const absl::StatusOr<Config> one = Config::Parse(absl::StrCat(name, "=", text));
    if ((tunable || IsOptionName(name)) && one.ok()) {
      config = config.MergedWith(*one);
    } else {
      arguments[name] = text;
    }
  }
  KILN_ASSIGN_OR_RETURN(lang::ClosedArguments closed,
                        lang::CloseArguments(kernel, arguments, config, FactsOf(spec)));
  return Part{std::move(closed.arguments), config.ToString()};
}

Compiled Failed(std::string config, const absl::Status& status) {
  Failure failure;
  failure.stage = "elaborate";
  failure.message = std::string(status.message());
  return {std::move(config), status, std::move(failure)};
}

// The sweep that compiles `configs`, each once, in their order.
SweepSpec SweepOf(const SweepSpec& spec, const Arguments& arguments,
                  const std::vector<std::string>& configs) {
  SweepSpec sweep = spec;
  sweep.arguments = arguments;
  sweep.objective = Objective::kCompile;
  sweep.auto_tunables.clear();
  sweep.tunables.clear();
  sweep.runtime_values.clear();  // they change no code
  sweep.configs.clear();
  for (const std::string& config : configs) {
    const auto& listed = sweep.configs;
    if (std::find(listed.begin(), listed.end(), config) == listed.end()) {
      sweep.configs.push_back(config);
    }
  }
  return sweep;
}

}  // namespace

absl::StatusOr<std::vector<Compiled>> Client::ParCompile(const SweepSpec& spec,
                                                         const std::vector<Arguments>& configs,
                                                         bool ignore_error,
                                                         const CallOptions& options) {
  KILN_ASSIGN_OR_RETURN(const lang::Kernel kernel, ParseKernel(spec));
  std::vector<Compiled> results;
  std::map<Arguments, std::vector<size_t>> groups;
  for (const Arguments& given : configs) {
    const absl::StatusOr<Part> part = Split(kernel, spec, given);
    if (!part.ok() && !ignore_error) return part.status();
    if (part.ok()) groups[part->arguments].push_back(results.size());
    results.push_back(part.ok() ? Compiled{part->config, absl::UnknownError("not compiled"), {}}
                                : Failed("", part.status()));
  }
  std::vector<std::pair<SweepSpec, const std::vector<size_t>*>> sweeps;
  for (const auto& [arguments, members] : groups) {
    std::vector<std::string> texts;
    for (const size_t i : members) texts.push_back(results[i].config);
    sweeps.emplace_back(SweepOf(spec, arguments, texts), &members);
    // All run at the same time; Compile joins them one after the other.
    KILN_RETURN_IF_ERROR(Submit(sweeps.back().first, options).status());
  }
  for (const auto& [sweep, members] : sweeps) {
    const absl::StatusOr<std::vector<Compiled>> compiled = Compile(sweep, options);
    KILN_RETURN_IF_ERROR(compiled.status());
    for (const size_t i : *members) {
      const auto found = std::find_if(compiled->begin(), compiled->end(), [&](const Compiled& c) {
        return c.config == results[i].config;
      });
      if (found != compiled->end()) results[i] = *found;
    }
  }
  for (const Compiled& one : results) {
    if (!one.bundle.ok() && !ignore_error) return one.bundle.status();
  }
  return results;
}

absl::StatusOr<Bundle> Client::CompileOne(const SweepSpec& spec, const Arguments& arguments,
                                          const CallOptions& options) {
  KILN_ASSIGN_OR_RETURN(std::vector<Compiled> compiled,
                        ParCompile(spec, {arguments}, /*ignore_error=*/false, options));
  return std::move(compiled[0].bundle);
}

absl::StatusOr<std::string> ProgramText(const SweepSpec& spec, const Arguments& arguments) {
  KILN_ASSIGN_OR_RETURN(const lang::Kernel kernel, ParseKernel(spec));
  KILN_ASSIGN_OR_RETURN(const Part part, Split(kernel, spec, arguments));
  KILN_ASSIGN_OR_RETURN(const Config config, Config::Parse(part.config));
  KILN_ASSIGN_OR_RETURN(const ir::Program program,
                        lang::Elaborate(kernel, part.arguments, config, FactsOf(spec)));
  return ir::ToString(program);
}

}  // namespace kiln::client

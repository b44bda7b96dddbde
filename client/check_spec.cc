#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/convert.h"
#include "client/did_you_mean.h"
#include "client/kiln_client.h"
#include "compiler/base/status.h"
#include "compiler/lang/kernel.h"
#include "compiler/lang/pass_options.h"
#include "proto/limits.h"

namespace kiln::client {
namespace {

// Names that a spec may give values to: compile-time parameters and T.const sizes.
std::set<std::string> SettableNames(const lang::Kernel& kernel) {
  std::set<std::string> names(kernel.consts().begin(), kernel.consts().end());
  for (const lang::ParamInfo& param : kernel.params()) {
    if (param.kind == lang::ParamInfo::kCompileTime) names.insert(param.name);
  }
  return names;
}

absl::Status CheckNames(const lang::Kernel& kernel, const std::set<std::string>& known,
                        const std::set<std::string>& used, absl::string_view what) {
  for (const std::string& name : used) {
    if (known.count(name) > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        kernel.file()->path, ": kernel ", kernel.name(), " has no compile-time parameter '", name,
        "' (", what, ")", DidYouMean(name, {known.begin(), known.end()}),
        "; it has: ", known.empty() ? "none" : absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSpec(const SweepSpec& spec) {
  KILN_RETURN_IF_ERROR(CheckSweepSpec(ToProto(spec)));
  std::set<std::string> tunables(spec.auto_tunables.begin(), spec.auto_tunables.end());
  for (const std::string& text : spec.configs) {
    KILN_ASSIGN_OR_RETURN(const Config config, Config::Parse(text));
    KILN_RETURN_IF_ERROR(lang::CheckPassOptions(config));
    for (const auto& [name, value] : config.values()) tunables.insert(name);
  }
  for (const auto& [name, values] : spec.tunables) {
    for (const std::string& value : values) {
      Config option;
      option.Set(name, value);
      KILN_RETURN_IF_ERROR(lang::CheckPassOptions(option));
    }
    tunables.insert(name);
  }
  if (spec.kernel_source.empty()) return absl::OkStatus();  // the farm has the template
  auto file = std::make_shared<SourceFile>();
  file->path = spec.kernel_path.empty() ? "<kernel>" : spec.kernel_path;
  file->text = ClosedSource(spec);
  KILN_ASSIGN_OR_RETURN(const lang::Kernel kernel, lang::Kernel::Parse(file, spec.entry));
  const std::set<std::string> known = SettableNames(kernel);
  std::set<std::string> arguments;
  for (const auto& [name, value] : spec.arguments) arguments.insert(name);
  std::erase_if(tunables, IsOptionName);
  KILN_RETURN_IF_ERROR(CheckNames(kernel, known, arguments, "arguments"));
  return CheckNames(kernel, known, tunables, "tunables");
}

}  // namespace kiln::client

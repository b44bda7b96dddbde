#include "compiler/tools/kernel_options.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/base/status.h"
#include "compiler/lang/arguments.h"
#include "compiler/lang/interface.h"
#include "compiler/lang/source_bundle.h"
#include "compiler/target/host_arch.h"
#include "compiler/templates/templates.h"

namespace kiln::tools {

std::string CheckAssignment(const std::string& item) {
  const size_t equal = item.find('=');
  if (equal != std::string::npos && equal > 0) return "";
  return absl::StrCat("'", item, "' is not NAME=VALUE");
}

void AddKernelOptions(CLI::App* app, KernelOptions* o) {
  app->add_option("kernel", o->kernel, "Kernel file, or template:NAME for a shipped template")
      ->required();
  app->add_option("-e,--entry", o->entry, "The kernel, when the file defines several");
  app->add_option("-a,--arg", o->arguments,
                  "Argument NAME=VALUE; repeatable. A tensor: 'A=T.Tensor((1024, 512), "
                  "T.float16)'; a size that "
                  "only the run has: M=T.dynamic")
      ->check(CheckAssignment);
  app->add_option("-c,--config", o->config, "Config: NAME=VALUE,NAME=VALUE")
      ->check([](const std::string& text) {
        return std::string(Config::Parse(text).status().message());
      });
  app->add_option("--arch", o->arch, "host, a shipped Arch name, or a file with an Arch record")
      ->capture_default_str();
  app->add_option("--symbol", o->symbol, "C name of the entry point");
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t most) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' is a folder; name a file"));
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(absl::StrCat("cannot read '", path, "'"));
  std::string text;
  std::vector<char> chunk(1 << 16);
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())), in.gcount() > 0) {
    text.append(chunk.data(), static_cast<size_t>(in.gcount()));
    if (static_cast<int64_t>(text.size()) <= most) continue;
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' has more than ", most, " bytes"));
  }
  if (in.bad()) return absl::NotFoundError(absl::StrCat("cannot read '", path, "'"));
  return text;
}

absl::StatusOr<target::Arch> ResolveArch(const std::string& name) {
  if (name == "host") return target::DescribeHost();
  absl::StatusOr<target::Arch> named = target::NamedArch(name);
  if (named.ok()) return named;
  const absl::StatusOr<std::string> text = ReadFile(name);
  if (!text.ok()) return named.status();
  return target::ParseArch(*text);
}

absl::StatusOr<codegen::CompileInput> ReadInput(const KernelOptions& o) {
  codegen::CompileInput input;
  if (absl::StartsWith(o.kernel, "template:")) {
    const std::string name = o.kernel.substr(9);
    const KernelTemplate* found = FindKernelTemplate(name);
    if (found == nullptr) {
      return absl::NotFoundError(absl::StrCat(
          "no template is called '", name, "'; there are: ",
          absl::StrJoin(KernelTemplates(), ", ", [](std::string* out, const KernelTemplate& t) {
            absl::StrAppend(out, t.name);
          })));
    }
    input.kernel_source = std::string(found->source);
    input.kernel_path = absl::StrCat(name, ".py");
    input.entry = std::string(found->entry);
  } else {
    KILN_ASSIGN_OR_RETURN(std::string text, ReadFile(o.kernel));
    input.kernel_source = lang::WithImportedFiles(std::move(text), o.kernel);
    input.kernel_path = o.kernel;
  }
  if (!o.entry.empty()) input.entry = o.entry;
  for (const std::string& argument : o.arguments) {
    const std::vector<std::string> parts = absl::StrSplit(argument, absl::MaxSplits('=', 1));
    KILN_CHECK(parts.size() == 2);
    const std::string text = lang::NormaliseArgument(parts[0], parts[1]);
    if (!input.arguments.emplace(parts[0], text).second) {
      return absl::InvalidArgumentError(absl::StrCat("argument '", parts[0], "' is given twice"));
    }
  }
  KILN_ASSIGN_OR_RETURN(input.config, Config::Parse(o.config));
  input.symbol = o.symbol;
  return input;
}

namespace {

// Replaces tensors and run-time values among the arguments.
absl::Status Close(codegen::CompileInput* input, const target::Arch& arch,
                   std::map<std::string, std::string>* runtime) {
  if (input->arguments.empty()) return absl::OkStatus();
  auto file =
      std::make_shared<const SourceFile>(SourceFile{input->kernel_path, input->kernel_source});
  KILN_ASSIGN_OR_RETURN(const lang::Kernel kernel, lang::Kernel::Parse(file, input->entry));
  bool any = false;
  for (const lang::ParamInfo& param : kernel.params()) {
    const bool constant = param.kind == lang::ParamInfo::kCompileTime;
    any = any || (!constant && input->arguments.contains(param.name));
  }
  if (!any) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(
      lang::ClosedArguments closed,
      lang::CloseArguments(kernel, input->arguments, input->config, lang::FactsOf(arch)));
  for (const std::string& note : closed.notes) std::cerr << "note: " << note << "\n";
  input->arguments = std::move(closed.arguments);
  if (runtime != nullptr) *runtime = std::move(closed.runtime);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<codegen::CompileInput> ResolveInput(const KernelOptions& o,
                                                   std::map<std::string, std::string>* runtime) {
  KILN_ASSIGN_OR_RETURN(codegen::CompileInput input, ReadInput(o));
  KILN_ASSIGN_OR_RETURN(const target::Arch arch, ResolveArch(o.arch));
  input.arch_record = target::ToText(arch);
  KILN_RETURN_IF_ERROR(Close(&input, arch, runtime));
  return input;
}

absl::Status TakeListedConfig(codegen::CompileInput* input) {
  if (!input->config.values().empty()) return absl::OkStatus();
  auto file =
      std::make_shared<const SourceFile>(SourceFile{input->kernel_path, input->kernel_source});
  KILN_ASSIGN_OR_RETURN(const lang::Kernel kernel, lang::Kernel::Parse(file, input->entry));
  KILN_ASSIGN_OR_RETURN(const target::Arch arch, target::ParseArch(input->arch_record));
  KILN_ASSIGN_OR_RETURN(const std::vector<Config> listed,
                        lang::AutotuneConfigs(kernel, input->arguments, lang::FactsOf(arch)));
  if (!listed.empty()) input->config = listed.front();
  return absl::OkStatus();
}

}  // namespace kiln::tools

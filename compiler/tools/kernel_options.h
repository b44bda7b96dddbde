// The options that name a kernel, its arguments and its target: the same for every command of
// kilnc.
#ifndef KILN_COMPILER_TOOLS_KERNEL_OPTIONS_H_
#define KILN_COMPILER_TOOLS_KERNEL_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/compile.h"
#include "compiler/target/arch.h"

namespace CLI {
class App;
}  // namespace CLI

namespace kiln::tools {

struct KernelOptions {
  std::string kernel;  // a file, or template:NAME
  std::string entry;
  std::vector<std::string> arguments;
  std::string config;
  std::string arch = "host";
  std::string symbol;
};

// For CLI::Option::check: empty where the item is NAME=VALUE.
std::string CheckAssignment(const std::string& item);

// `options` must outlive the parsing.
void AddKernelOptions(CLI::App* app, KernelOptions* options);

constexpr int64_t kMaxTextBytes = 1 << 20;  // of a kernel, or an Arch record

// No more than `most` bytes are read: the path may name a device that never ends.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t most = kMaxTextBytes);

// "host" (measured, or read from its cache), a shipped record, or a file that holds one.
absl::StatusOr<target::Arch> ResolveArch(const std::string& name);

// The kernel's text, entry, arguments and config as they are given, without a target.
absl::StatusOr<codegen::CompileInput> ReadInput(const KernelOptions& options);

// Reads the kernel and what is said of it. Tensors that are given by shape and type become the
// constants that they bring (lang::CloseArguments), with notes on standard error; `runtime` gets
// the values of run-time sizes and scalars that follow.
absl::StatusOr<codegen::CompileInput> ResolveInput(
    const KernelOptions& options, std::map<std::string, std::string>* runtime = nullptr);

// Where no config is given and the kernel lists some (@tilelang.autotune): the first of them.
absl::Status TakeListedConfig(codegen::CompileInput* input);

}  // namespace kiln::tools

#endif  // KILN_COMPILER_TOOLS_KERNEL_OPTIONS_H_

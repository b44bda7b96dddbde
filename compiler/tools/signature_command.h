// `kilnc signature`: what a kernel's parameters are, before any of them has a value.
#ifndef KILN_COMPILER_TOOLS_SIGNATURE_COMMAND_H_
#define KILN_COMPILER_TOOLS_SIGNATURE_COMMAND_H_

#include <ostream>

#include "absl/status/status.h"
#include "compiler/tools/kernel_options.h"

namespace CLI {
class App;
}  // namespace CLI

namespace kiln::tools {

struct SignatureOptions {
  KernelOptions kernel;
  bool json = false;
};

// Adds the subcommand and its options; `options` must outlive the parsing.
CLI::App* AddSignatureCommand(CLI::App* app, SignatureOptions* options);

// Writes lang::ToString of the signature, or
//   {"kernel", "parameters": [{"name", "kind": "tensor"|"pointer"|"runtime"|"compile-time",
//     "shape"?, "strides"?: [128 | {"name", "kind": "constant"|"runtime"|"computed", "dtype"?}],
//     "dtype"?: null = the tensor's own, "default"?, "required"?}]}
// Errors are those of lang::ReadSignature and of the options.
absl::Status RunSignatureCommand(const SignatureOptions& options, std::ostream& out);

}  // namespace kiln::tools

#endif  // KILN_COMPILER_TOOLS_SIGNATURE_COMMAND_H_

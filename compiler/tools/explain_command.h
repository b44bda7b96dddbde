// `kilnc explain`: what a kernel is made of, what its parameters do, and what it asks of a machine.
#ifndef KILN_COMPILER_TOOLS_EXPLAIN_COMMAND_H_
#define KILN_COMPILER_TOOLS_EXPLAIN_COMMAND_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/tools/kernel_options.h"

namespace CLI {
class App;
}  // namespace CLI

namespace kiln::tools {

struct ExplainOptions {
  KernelOptions kernel;
  std::vector<std::string> runtime;  // NAME=VALUE: run-time dimensions and scalars
  bool json = false;
};

// Adds the subcommand and its options; `options` must outlive the parsing.
CLI::App* AddExplainCommand(CLI::App* app, ExplainOptions* options);

// Writes the tensors, the constants that they bring with their values, the tunables with their
// defaults, what the recommender takes each for and which field of a hint it decides, how many
// configs the kernel lists, and the demand at the config: useful flops, compulsory and predicted
// bytes of memory, on-chip bytes, blocks. As JSON: {"kernel", "arch", "tensors": [{name, dtype,
// shape}], "constants": [{name, value?}], "tunables": [{name, default?, role, field}],
// "autotune_configs", "demand": {flops, compulsory_bytes, dram_bytes, onchip_bytes, blocks,
// bound_by, roofline_ns} | null, "notes"}. Needs values for all parameters without a default.
absl::Status RunExplainCommand(const ExplainOptions& options, std::ostream& out);

}  // namespace kiln::tools

#endif  // KILN_COMPILER_TOOLS_EXPLAIN_COMMAND_H_

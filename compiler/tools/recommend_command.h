// `kilnc recommend`: which configs of a kernel are worth trying on a machine, and why. Needs
// neither the machine nor a farm.
#ifndef KILN_COMPILER_TOOLS_RECOMMEND_COMMAND_H_
#define KILN_COMPILER_TOOLS_RECOMMEND_COMMAND_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/tools/kernel_options.h"

namespace CLI {
class App;
}  // namespace CLI

namespace kiln::tools {

struct RecommendOptions {
  KernelOptions kernel;
  std::vector<std::string> tunables;  // NAME, or NAME=VALUE,VALUE
  std::vector<std::string> runtime;   // NAME=VALUE: run-time dimensions and scalars
  std::string strategy = "recommended";
  int top = 16;
  int64_t sample = 0;    // > 0: so many configs drawn uniformly instead
  bool illegal = false;  // of those that the limits refuse
  uint64_t seed = 1;
  bool json = false;
};

// Adds the subcommand and its options; `options` must outlive the parsing.
CLI::App* AddRecommendCommand(CLI::App* app, RecommendOptions* options);

// Writes the candidates. Errors are those of roofline::Recommend and of the options.
absl::Status RunRecommendCommand(const RecommendOptions& options, std::ostream& out);

}  // namespace kiln::tools

#endif  // KILN_COMPILER_TOOLS_RECOMMEND_COMMAND_H_

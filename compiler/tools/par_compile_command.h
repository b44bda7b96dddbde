// `kilnc par-compile`: many configs of a kernel at once, on this machine's cores.
#ifndef KILN_COMPILER_TOOLS_PAR_COMPILE_COMMAND_H_
#define KILN_COMPILER_TOOLS_PAR_COMPILE_COMMAND_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "compiler/tools/kernel_options.h"

namespace CLI {
class App;
}  // namespace CLI

namespace kiln::tools {

struct ParCompileOptions {
  KernelOptions kernel;
  std::string configs;  // a JSON file, or a name in the kernel's file
  bool autotune = false;
  bool ignore_error = false;
  int jobs = 0;        // 0 = all cores
  std::string folder;  // where artifacts go; empty = nowhere
};

// Adds the subcommand and its options; `options` must outlive the parsing.
CLI::App* AddParCompileCommand(CLI::App* app, ParCompileOptions* options);

// Compiles every config and prints one line each, in the order of the list:
//   0 compiled block_M=32,block_N=32 DIR/kiln_gemm-3f9ac1d2e4b5.so
//   1 failed   block_M=33,block_N=32 k.py:12:9: error: ...
// "cached": the folder had the artifact; "same as N": an earlier config needs the same one.
// A JSON list holds an object a config: numbers, true, false, null, {"shape": [1024, 512],
// "dtype": "float16", "strides"?: [...]} for tensors, and strings, which are literal text of the
// language (float16, 'NT', T.Tensor((1024, 512), T.float16)). The folder gets a .so, .h, .json
// (manifest) and, on GPUs, .ptx and .cubin for each different artifact, and index.json.
// Without `ignore_error` the first failure in order is returned, nothing after it is begun, and no
// index is written.
absl::Status RunParCompileCommand(const ParCompileOptions& options, std::ostream& out);

}  // namespace kiln::tools

#endif  // KILN_COMPILER_TOOLS_PAR_COMPILE_COMMAND_H_

// Calls a freshly compiled kernel in this process, for tools.
#ifndef KILN_COMPILER_TOOLS_NATIVE_CALL_H_
#define KILN_COMPILER_TOOLS_NATIVE_CALL_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/compile.h"
#include "compiler/interp/interp.h"

namespace kiln::tools {

// Loads the shared object and calls it once on `tensors` (one a tensor parameter, in order), with
// scalars and run-time dimensions from `options` (a dimension that is a tensor's extent may be left
// out). Returns the seconds of the call. kFailedPrecondition with the artifact's error code.
absl::StatusOr<double> CallNative(const codegen::CompileOutput& compiled,
                                  const ir::Program& program, const interp::Options& options,
                                  const std::vector<interp::Tensor>& tensors, int threads);

}  // namespace kiln::tools

#endif  // KILN_COMPILER_TOOLS_NATIVE_CALL_H_

// The pass pipelines, each one list that reads from top to bottom.
//
// Debugging, by environment, read once: KILN_PRINT_PASSES=1 (or a pass name) prints the program
// after each pass that changed it; KILN_VERIFY_PASSES=1 verifies after every pass and names the one
// that broke the program; KILN_TIME_PASSES=1 prints the time of each.
#ifndef KILN_COMPILER_PASSES_PIPELINE_H_
#define KILN_COMPILER_PASSES_PIPELINE_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/passes/pass.h"

namespace kiln::passes {

// From an elaborated program to the loops that code generation maps one to one (x86-64).
const std::vector<Pass>& CpuPipeline();

// From an elaborated program to the threads of its blocks: what comes before instructions are
// chosen on a GPU.
const std::vector<Pass>& ThreadPipeline();

// From an elaborated program to what one thread of an NVIDIA GPU does: instructions chosen,
// barriers in place. Needs `gpu` and `instruct` in the context.
const std::vector<Pass>& GpuPipeline();

// The same without all that makes it fast: nothing is fetched ahead, no instruction of tensor cores
// or of TMA, no parts for warps, no versions of loops. What else compiles a kernel is judged by
// what comes of this. Needs `gpu` in the context, and `instruct` unset.
const std::vector<Pass>& PlainGpuPipeline();

// Runs `pipeline`; stops after the pass called `stop_after` when that is not empty (kNotFound for
// an unknown name). Errors carry the name of the pass.
absl::StatusOr<ir::Program> RunPipeline(const std::vector<Pass>& pipeline,
                                        const ir::Program& program, const PassContext& context,
                                        absl::string_view stop_after = {});

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_PIPELINE_H_

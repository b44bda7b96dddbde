// The host half of a GPU artifact as an LLVM module: the C entry point, the cubin as data, and
// calls into the run-time support (runtime/gpu_runtime.c), which the caller links in.
#ifndef KILN_COMPILER_CODEGEN_GPU_HOST_H_
#define KILN_COMPILER_CODEGEN_GPU_HOST_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/module_facts.h"
#include "compiler/codegen/nvptx_module.h"

namespace kiln::codegen {

absl::StatusOr<std::unique_ptr<llvm::Module>> BuildGpuHost(
    const ir::Program& program, const std::string& symbol, const std::string& cubin,
    const std::vector<GpuKernel>& kernels, llvm::LLVMContext& context, ModuleFacts* facts);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_GPU_HOST_H_

// A program at thread level as an LLVM module for NVIDIA GPUs: one kernel a Launch.
//
//   kernel symbol_0(A, B, int64 n, const tensor_map m0) { block = ctaid.x; body of one thread }
//
// Parameters are the slots of the entry point (launch_slots.h), then the launch's tensor maps.
// Tensors of one call are taken not to overlap.
#ifndef KILN_COMPILER_CODEGEN_NVPTX_MODULE_H_
#define KILN_COMPILER_CODEGEN_NVPTX_MODULE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/tensor_maps.h"
#include "compiler/target/arch.h"

namespace llvm {
class LLVMContext;
class Module;
}  // namespace llvm

namespace kiln::codegen {

struct GpuKernel {
  std::string name;
  int threads = 0;           // of a block
  int64_t shared_bytes = 0;  // dynamic shared memory of a block
  int cluster = 1;           // blocks that are launched together
  bool even = false;         // its threads have as many registers each (passes/even_registers.h)
  bool follows = false;      // it waits for the kernel before itself: it may be started early
  std::vector<TensorMap> maps;
};

// Needs a program that the GPU pipeline has lowered (kInternal otherwise); kUnimplemented names a
// type or intrinsic without a lowering, kResourceExhausted a block that asks for more threads or
// shared memory than `arch` gives one. `kernels` are in the order of the launches.
absl::StatusOr<std::unique_ptr<llvm::Module>> BuildNvptxModule(const ir::Program& program,
                                                               const std::string& symbol,
                                                               const target::Arch& arch,
                                                               llvm::LLVMContext& context,
                                                               std::vector<GpuKernel>* kernels);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_NVPTX_MODULE_H_

// A lowered program as an LLVM module for x86-64.
#ifndef KILN_COMPILER_CODEGEN_X86_MODULE_H_
#define KILN_COMPILER_CODEGEN_X86_MODULE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/ir/stmt.h"

namespace llvm {
class LLVMContext;
class Module;
}  // namespace llvm

namespace kiln::codegen {

// What the module's author knows and a manifest tells.
struct ModuleFacts {
  int64_t scratch_bytes = 0;  // the largest launch's on-chip storage, per block
  int64_t grid_blocks = 0;    // of the largest launch; 0 when it depends on run-time dimensions
  int threads = 0;            // per block, as the kernel asks; no meaning on x86
};

// Builds the entry `symbol` with the ABI of runtime/kiln_launch.h, one internal function per
// Launch, and calls into the run-time support (linked later). Needs a program that the CPU pipeline
// has lowered (kInternal otherwise); kUnimplemented names a type or intrinsic without a lowering.
absl::StatusOr<std::unique_ptr<llvm::Module>> BuildX86Module(const ir::Program& program,
                                                             const std::string& symbol,
                                                             llvm::LLVMContext& context,
                                                             ModuleFacts* facts);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_X86_MODULE_H_

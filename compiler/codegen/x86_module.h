// A lowered program as an LLVM module for x86-64.
#ifndef KILN_COMPILER_CODEGEN_X86_MODULE_H_
#define KILN_COMPILER_CODEGEN_X86_MODULE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/codegen/module_facts.h"
#include "compiler/ir/stmt.h"

namespace llvm {
class LLVMContext;
class Module;
}  // namespace llvm

namespace kiln::codegen {

// Builds the entry `symbol` with the ABI of runtime/kiln_launch.h, one internal function per
// Launch, and calls into the run-time support (linked later). Needs a program that the CPU pipeline
// has lowered (kInternal otherwise); kUnimplemented names a type or intrinsic without a lowering.
absl::StatusOr<std::unique_ptr<llvm::Module>> BuildX86Module(const ir::Program& program,
                                                             const std::string& symbol,
                                                             llvm::LLVMContext& context,
                                                             ModuleFacts* facts);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_X86_MODULE_H_

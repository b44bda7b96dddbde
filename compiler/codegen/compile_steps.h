// The steps of CompileKernel, for objects that are made of more than one config. Private to
// compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_COMPILE_STEPS_H_
#define KILN_COMPILER_CODEGEN_COMPILE_STEPS_H_

#include <memory>
#include <string>

#include "compiler/codegen/compile.h"
#include "compiler/codegen/module_facts.h"

namespace llvm {
class LLVMContext;
class Module;
}  // namespace llvm

namespace kiln::codegen {

struct Elaborated {
  ir::Program program;
  target::Arch arch;
  std::string symbol;  // C name of the entry point
};

absl::StatusOr<Elaborated> ElaborateInput(const CompileInput& input);

// Lowers the program and builds its host module with the entry `elaborated.symbol`; of a GPU that
// holds the cubin. Fills in what `out` says of the code: assembly, cubin, registers, spills, sizes,
// on-chip storage, grid and threads.
absl::StatusOr<std::unique_ptr<llvm::Module>> BuildHostModule(const Elaborated& elaborated,
                                                              llvm::LLVMContext& context,
                                                              CompileOutput* out);

// The relocatable object of a host module, whose only symbol is `symbol`. Consumes the module.
absl::StatusOr<std::string> EmitHostObject(std::unique_ptr<llvm::Module> module,
                                           const std::string& symbol, const target::Arch& arch);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_COMPILE_STEPS_H_

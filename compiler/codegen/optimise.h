// LLVM's own pipeline over what our passes have already tiled, vectorised and unrolled. Private to
// compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_OPTIMISE_H_
#define KILN_COMPILER_CODEGEN_OPTIMISE_H_

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

namespace kiln::codegen {

// LLVM's -O2, but for vectors, which the program already has.
void Optimise(llvm::Module& module, llvm::TargetMachine& machine);

// For the host half of a GPU artifact, which starts launches and computes nothing: drops what
// nothing uses. The run-time support was optimised when Kiln was built.
void OptimiseGpuHost(llvm::Module& module, llvm::TargetMachine& machine);

// Attribute of a kernel whose tiles TMA fetches: its steps compute no addresses of them.
inline constexpr char kTensorLoads[] = "kiln-tensor-loads";

// For GPU code: what is left to do once loops over registers are unrolled. Registers are memory
// until their indices are constants, which takes the unrolling and the simplification of indices
// before it: -O2 looks for them in between.
void OptimiseGpu(llvm::Module& module, llvm::TargetMachine& machine);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_OPTIMISE_H_

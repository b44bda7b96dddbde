// From an LLVM module to x86-64 machine code.
#ifndef KILN_COMPILER_CODEGEN_X86_OBJECT_H_
#define KILN_COMPILER_CODEGEN_X86_OBJECT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace llvm {
class Module;
}  // namespace llvm

namespace kiln::codegen {

struct X86Target {
  std::string cpu;                    // LLVM name: "x86-64-v4"
  std::vector<std::string> features;  // LLVM spelling, without the '+'
  int vector_bits = 512;
};

enum class Emit { kLlvm, kAssembly, kObject };
enum class Runtime { kCpu, kGpu };  // runtime/cpu_runtime.c, runtime/gpu_runtime.c

// Adds the run-time support to `module`, optimises (the host half of a GPU artifact hardly at all:
// it computes nothing), and returns LLVM text, assembly text or a relocatable ELF object in which
// `symbol` is the only symbol it defines. A pure function of its arguments. Consumes the module.
absl::StatusOr<std::string> EmitX86(std::unique_ptr<llvm::Module> module, const std::string& symbol,
                                    const X86Target& target, Emit what,
                                    Runtime runtime = Runtime::kCpu);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_X86_OBJECT_H_

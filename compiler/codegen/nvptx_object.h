// From an LLVM module to PTX.
#ifndef KILN_COMPILER_CODEGEN_NVPTX_OBJECT_H_
#define KILN_COMPILER_CODEGEN_NVPTX_OBJECT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace llvm {
class Module;
}  // namespace llvm

namespace kiln::codegen {

enum class NvptxText { kLlvm, kPtx };

// Optimises and returns LLVM text or PTX for `arch` ("sm_90a"). LLVM 19 knows no Blackwell: for
// sm_100a it makes sm_90a's PTX, whose header is then rewritten (PTX 8.6 is the first to name it).
// A pure function of its arguments; consumes the module.
absl::StatusOr<std::string> EmitNvptx(std::unique_ptr<llvm::Module> module, const std::string& arch,
                                      NvptxText what);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_NVPTX_OBJECT_H_

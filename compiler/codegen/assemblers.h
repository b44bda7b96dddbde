// The assemblers that Assemble (assembler.h) chooses from. Private to compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_ASSEMBLERS_H_
#define KILN_COMPILER_CODEGEN_ASSEMBLERS_H_

#include <string>

#include "compiler/codegen/assembler.h"

namespace kiln::codegen {

// What an assembler made of PTX: its file and what it printed. Errors are those of Assemble.
struct Assembled {
  std::string bytes;
  std::string log;
};

// ptxas, as a process: the whole program at once.
absl::StatusOr<std::string> PtxasVersion();
absl::StatusOr<Assembled> RunPtxas(const std::string& ptx, const std::string& arch, int level);

// libnvJitLink, in this process: always as a part of a larger program, so that it ignores
// setmaxnreg and runs wgmma one after the other where a kernel divides.
absl::StatusOr<std::string> NvJitLinkVersion();
absl::StatusOr<Assembled> RunNvJitLink(const std::string& ptx, const std::string& arch, int level);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_ASSEMBLERS_H_

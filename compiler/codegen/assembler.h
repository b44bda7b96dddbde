// From PTX to a cubin, with what the assembler tells of it.
#ifndef KILN_COMPILER_CODEGEN_ASSEMBLER_H_
#define KILN_COMPILER_CODEGEN_ASSEMBLER_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace kiln::codegen {

struct Cubin {
  std::string bytes;
  int registers = 0;                      // of a thread, the most of all kernels
  std::map<std::string, int64_t> spills;  // bytes stored and loaded, by function, where any are
  int64_t stack_bytes = 0;
  std::string log;
  bool by_driver = false;  // `bytes` are the PTX itself; of the others nothing is known

  int64_t spill_bytes() const;
};

// By ptxas, else by nvJitLink (both of the CUDA Toolkit, 12 or later), which are looked for when
// one is first asked for: where compiler/base/cuda_toolkit.h says, then where the system finds
// programs and libraries. Where there is none it is left to the driver, which takes PTX for code.
// kUnavailable when an assembler does not run to its end. kInternal with its words when it refuses
// the PTX; kResourceExhausted when a kernel does not fit. `level`: -O0 to -O3. Thread-safe; a pure
// function of its arguments and AssemblerVersion().
absl::StatusOr<Cubin> Assemble(const std::string& ptx, const std::string& arch, int level = 3);

// "ptxas 13.0.88", "nvJitLink 13.0"; kUnavailable when there is none: the message says where it was
// looked for.
absl::StatusOr<std::string> AssemblerVersion();

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_ASSEMBLER_H_

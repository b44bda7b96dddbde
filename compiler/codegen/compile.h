// The compiler as one function: kernel text and a config in, a linkable artifact out.
#ifndef KILN_COMPILER_CODEGEN_COMPILE_H_
#define KILN_COMPILER_CODEGEN_COMPILE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/base/config.h"
#include "compiler/ir/stmt.h"
#include "compiler/target/arch.h"

namespace kiln::codegen {

struct CompileInput {
  std::string kernel_source;
  std::string kernel_path;  // for diagnostics
  std::string entry;        // may be empty: the file's only kernel
  std::map<std::string, std::string> arguments;
  Config config;
  std::string arch_record;  // text form of target::Arch
  std::string symbol;       // C name of the entry point; empty = "kiln_" + the kernel's name
};

struct CompileOutput {
  std::string name;           // the C symbol
  std::string target;         // Arch name
  std::string object;         // relocatable ELF
  std::string shared_object;  // dlopen-able ELF
  std::string header;         // C header that declares the symbol
  std::string manifest_json;  // parameters, config, digests, resources
  std::string assembly;       // the PTX of the cubin; empty on x86
  std::string cubin;          // empty on x86, and where the driver assembles
  std::string kernels_json;   // how to launch them (describe_kernels.h); empty on x86
  std::string program_digest;
  int64_t scratch_bytes = 0;  // on-chip storage of a block
  int64_t spill_bytes = 0;
  int64_t stack_bytes = 0;  // of a thread: registers that are indexed at run time
  int64_t code_bytes = 0;
  int64_t grid_blocks = 0;  // 0: depends on run-time dimensions
  int registers = 0;
  int threads = 0;
  bool by_driver = false;  // of a GPU: the objects hold PTX; nothing is known of registers
};

// kInvalidArgument, kUnimplemented: the kernel or the config is wrong (the message is the
// diagnostic); kResourceExhausted: the config asks for more than the target has; kUnavailable: the
// assembler does not run (assembler.h); kInternal: a bug. Pure: the same input gives the same bytes
// in any process with the same assembler. Thread-safe.
absl::StatusOr<CompileOutput> CompileKernel(const CompileInput& input);

// The stages that tools show. `what` is "tile" (elaborated), "lowered", "llvm" or "asm"
// (x86 assembly, PTX: what is assembled first; see CompileOutput::assembly for what was kept).
absl::StatusOr<std::string> EmitStage(const CompileInput& input, absl::string_view what,
                                      absl::string_view stop_after = {});

// Elaborates and runs the pipeline of the target (all of it, or up to a pass).
absl::StatusOr<ir::Program> LowerKernel(const CompileInput& input,
                                        absl::string_view stop_after = {});

// Identity of this compiler: version and a digest of its sources. Part of every artifact's key.
std::string CompilerBuild();

// Generated alongside the object; exposed for tests. Arguments have the kernel's names, as far as C
// and C++ leave them free (c_names.h). `dimensions`: what more is said of run-time
// dimensions, by name.
std::string CHeader(const ir::Program& program, const std::string& symbol,
                    const std::map<std::string, std::string>& dimensions = {});
std::string ManifestJson(const ir::Program& program, const CompileInput& input,
                         const CompileOutput& output);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_COMPILE_H_

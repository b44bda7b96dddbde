// Runs ptxas often. Private to compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_PTXAS_SERVER_H_
#define KILN_COMPILER_CODEGEN_PTXAS_SERVER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kiln::codegen {

struct PtxasCommand {
  std::string path;
  std::vector<std::string> args;  // that name their input kPtxasInput, and files in its folder
};

inline constexpr char kPtxasInput[] = "kernel.ptx";
inline constexpr char kPtxasPrinted[] = "printed";

// Runs the command in a folder, prints into the folder's file kPtxasPrinted, and returns the wait
// status (of waitpid): as a process of its own, or, where the process runs ptxas often, as a fork
// of a server: a ptxas that has started and waits before it opens its input (ptxas_preload.c). A
// server serves one command, and one thread at a time; there is one for each eight runs until now
// at most. What a run makes is the same either way. Where there can be no server (another
// LD_PRELOAD, a ptxas that opens its input otherwise, no memory files), and where one dies, runs
// are processes of their own.
//
// All belong to this process group, so that whoever kills a compiling process kills them too; when
// this process ends, its servers do. kUnavailable when ptxas cannot start. Thread-safe.
absl::StatusOr<int> RunPtxasIn(const std::string& folder, const PtxasCommand& command);

// The same, always as a process of its own.
absl::StatusOr<int> RunPtxasOnce(const std::string& folder, const PtxasCommand& command);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_PTXAS_SERVER_H_

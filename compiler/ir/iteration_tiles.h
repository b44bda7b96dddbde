// Variables and local tiles that are declared outside of a parallel loop and stored to in it: each
// iteration gets one of its own.
//
//   v = variable                       for i in parallel(64):
//   for i in parallel(64):         =>    v = variable
//     v = A[i]                           v = A[i]
//     B[i] = v * v                       B[i] = v * v
//
// That is what the kernel says where an iteration reads only what it has stored before, and nobody
// reads the variable after the loop before storing to it.
#ifndef KILN_COMPILER_IR_ITERATION_TILES_H_
#define KILN_COMPILER_IR_ITERATION_TILES_H_

#include "absl/status/statusor.h"
#include "compiler/ir/stmt.h"

namespace kiln::ir {

// InvalidArgument (a diagnostic) at the read that stands in the way. A kernel that speaks of
// threads must be resolved (threads.h): what a thread has of its own, its loops share.
absl::StatusOr<Stmt> GiveIterationsTheirOwn(const Stmt& body, const SourceFile& source);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_ITERATION_TILES_H_

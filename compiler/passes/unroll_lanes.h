// Pass "unroll-lanes": what a thread does in steps over neighbouring elements is written out, as
// many steps as the widest access of memory takes (16 bytes):
//
//   for step in (32): C[f(step // 8, thread) * 8 + step % 8] = ...
//   for step in (4):  C[f(step, thread) * 8] = ...  C[f(step, thread) * 8 + 1] = ...  (8 of them)
//
// with the indices worked out, so that neighbours differ by constants and become one access. A
// guard that says the same of all of them is asked once. Where they compute from one tile of shared
// memory what goes into another, all of them load before the first stores. Copies that may go on by
// themselves (StoreWay::kAsync) become instructions.
#ifndef KILN_COMPILER_PASSES_UNROLL_LANES_H_
#define KILN_COMPILER_PASSES_UNROLL_LANES_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// On a serial loop: all of its steps become lanes, so that what they share is read once.
inline constexpr char kUnrollWhole[] = "unroll_whole";

absl::StatusOr<ir::Program> UnrollLanes(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_UNROLL_LANES_H_

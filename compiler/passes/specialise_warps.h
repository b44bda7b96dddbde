// Pass "specialise-warps" (Hopper): a launch whose main loop is T.Pipelined becomes two parts that
// run beside each other. A warpgroup of its own, after the kernel's threads, fetches tiles by TMA
// into `num_stages` versions of them; the kernel's threads do the rest. Two mbarriers a version say
// that it is full and that it is empty again.
//
// The loop may stand in serial loops and under conditions, of which each turn is a piece of work
// (persistent kernels, stream-K): any number of them, of any number of steps each, as long as both
// parts can tell before they begin: by the block, by names, by what stands in tensors of the
// caller's that no statement writes (lengths of sequences). Versions and phases of barriers then go
// on from piece to piece, and each part counts its steps.
//
// Needs: one pipelined loop on the way from the launch through such loops, whose body copies boxes
// of global tensors (from places that both parts can tell in each step, by names of the body too)
// into whole tiles of shared memory that have no layout of their own and that nothing else writes
// or uses outside of the loop; tensors whose rows are multiples of 16 bytes; tiles that TMA can
// fetch (boxes of at most 256 a side); whole warpgroups. A launch that is otherwise stays as it is.
#ifndef KILN_COMPILER_PASSES_SPECIALISE_WARPS_H_
#define KILN_COMPILER_PASSES_SPECIALISE_WARPS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> SpecialiseWarps(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_SPECIALISE_WARPS_H_

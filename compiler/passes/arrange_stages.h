// Pass "arrange-stages": a T.Pipelined loop whose kernel says when each statement of its body runs
// (order=, stage=, group=; stage_lists.h) becomes a loop whose body says so itself. A statement of
// stage s of step k runs in turn k + s of the new loop, at its place of the order:
//
//   for t in [0, steps + stages): for each statement by order: if 0 <= t - s < steps: statement(t -
//   s)
//
// A tile of shared memory that a later turn still reads when the next step writes it gets versions,
// as many as keep all dependences. Copies of whole tiles that hardware can make beside the threads
// (TMA, cp.async), which one stage reads, are left to the passes that fetch ahead: as many steps as
// their stages ask for and num_stages allows, whichever is more; an entry of -1 says nothing else.
//
// Where the lists of a kernel for Hopper ask for the overlap that attention is written with (the
// next step's scores, this step's values, the work on the scores), the statements stay in the
// kernel's order, of which chain-products makes just that.
//
// Guarantees: no loop has lists. Errors (kInvalidArgument): lists that are not of this body; an
// order that dependences between statements forbid; a result that would need several versions where
// there are none (registers, a tile whose layout the kernel gives); -1 for anything but such a
// copy.
//
// Pass "check-stages": the same errors, and no lists, but the loop stays in the kernel's order: on
// a CPU one thread runs it all.
#ifndef KILN_COMPILER_PASSES_ARRANGE_STAGES_H_
#define KILN_COMPILER_PASSES_ARRANGE_STAGES_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> ArrangeStages(const ir::Program& program, const PassContext& context);
absl::StatusOr<ir::Program> CheckStages(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_ARRANGE_STAGES_H_

// What an iteration of a parallel loop writes of a fragment is written by all threads that hold it:
// each of them runs the iteration, and one stores to memory for all. What the others read of that
// memory might come before the store or after it. Such reads are taken out of the loop: the
// elements are loaded into a fragment in a loop before it, which a barrier then keeps apart.
#ifndef KILN_COMPILER_PASSES_STAGE_UPDATES_H_
#define KILN_COMPILER_PASSES_STAGE_UPDATES_H_

#include "absl/status/statusor.h"
#include "compiler/ir/stmt.h"
#include "compiler/layout/ownership.h"

namespace kiln::passes {

// Whether several threads run an iteration of a loop that is dealt out so.
bool RunsTwice(const layout::Ownership& loop);

// A parallel loop of constant extents without such reads; the same statement where it has none.
// Unimplemented (a diagnostic) where the elements cannot be named before the loop, or where it
// is not known whether a store changes what is read.
absl::StatusOr<ir::Stmt> StageUpdates(const ir::Program& program, const ir::Stmt& loop);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_STAGE_UPDATES_H_

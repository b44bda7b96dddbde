// Parts of a block that wait for each other, put into one order. Private to compiler/lang.
//
// The parts stand side by side (split_parts.h). Each by itself says which arrivals and waits it
// comes to, in which order (follow_barriers.h); run beside each other, a wait that has to wait lets
// the others go on, and what then ends its phase is what it needs: this arrival at this turn of the
// loops around it comes before that wait at that turn. An order of the parts' statements is legal
// if it keeps all of those, and that of each part. It is built from the parts' own loops:
//
//   - statements (loops, branches) of different parts that need each other in one direction only
//     follow each other;
//   - loops that need each other in both become one loop, in turn t of which each part does its
//     turn t - d, for the smallest delays d that put every arrival into the turn of its wait or
//     before (difference constraints over the turns); a statement beside them stands in one turn,
//     under `t == d`. What they do in one turn is put into order in the same way;
//   - branches that need each other in both become one branch for each statement of theirs.
//
//   for k: wait empty; load; arrive full  |     for k:
//   for k: wait full; use; arrive empty   |  =>   on threads P: load
//                                         |       on threads C: use
//
// Why the numbers are right: the order is an interleaving of what the parts do, in which no part
// does its own statements in another order and every wait finds its phase over (it is run once more
// in barrier_order.cc to see that). It is thus one of the ways in which the parts may run beside
// each other on a machine, and a kernel without races computes the same in all of them. What
// threads keep in registers stays with their part: a fragment or variable that one part writes and
// another uses has no one meaning, and is refused.
#ifndef KILN_COMPILER_LANG_INTERLEAVE_PARTS_H_
#define KILN_COMPILER_LANG_INTERLEAVE_PARTS_H_

#include "absl/status/statusor.h"
#include "compiler/ir/stmt.h"

namespace kiln::lang {

// `launch` is what SplitParts made. The launch with its parts in order; undefined where no parts
// with barriers stand side by side.
//
// InvalidArgument: parts that wait for each other for ever. Unimplemented: what no such loops put
// into order. Else as FollowBarriers.
absl::StatusOr<ir::Stmt> InterleaveParts(const ir::Program& program, const ir::Launch& launch);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_INTERLEAVE_PARTS_H_

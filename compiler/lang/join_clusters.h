// Clusters whose blocks read what others of them have written, as launches of blocks that do what
// the blocks of a cluster do together. Private to compiler/lang.
//
// A block of the result has the memory of every block of the cluster, and does what they do: up to
// where they meet, one block after the other, then what comes after it in the same way.
//
//   for s:                                     for s:
//     copy x -> y of block (rank + 1) % 2        copy x.0 -> y.1
//     cluster_sync                       =>      copy x.1 -> y.0
//     add y -> sum                               add y.0 -> sum.0
//                                                add y.1 -> sum.1
//
// Why the numbers are right: blocks of a cluster run beside each other, so that a kernel without
// races computes the same in every order that keeps the program's of each block, and puts what
// comes before a meeting of all of them before what comes after it. This is one of those, on
// machines with clusters and without. Where blocks wait for barriers that others arrive at, what
// they do between two meetings is left as parts (rank_parts.h), which barrier_order.h orders.
#ifndef KILN_COMPILER_LANG_JOIN_CLUSTERS_H_
#define KILN_COMPILER_LANG_JOIN_CLUSTERS_H_

#include "absl/status/statusor.h"
#include "compiler/ir/stmt.h"

namespace kiln::lang {

// The body of an elaborated program without the marks of cluster_marks.h, but that waits still
// stand where blocks met: no order of parts goes past them.
//
// InvalidArgument (diagnostics): not all blocks come by a meeting; a wait for one without an
// arrival; a block of the cluster that there is not; what check_clusters.h says. Unimplemented: all
// blocks come by a meeting in a loop or under a condition that is not the same for all of them.
// ResourceExhausted: too many statements.
absl::StatusOr<ir::Stmt> JoinClusters(const ir::Program& program);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_JOIN_CLUSTERS_H_

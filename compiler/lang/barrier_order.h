// Barriers that a kernel writes itself (T.alloc_barrier), taken out of an elaborated program.
//
// Parts of a block (T.ws) run here as they stand in the program, one after the other, and the
// compiler orders their memory itself. That is one of the orders that the barriers allow if, run
// so, every wait finds its phase over (PTX 9.7.13.15: a phase is over when as many threads as it
// counts have arrived); a kernel without races then computes the same in all of them. So the
// control flow around the barriers is run once at compile time. Where the order of the program
// does not satisfy them, since parts that wait for each other stand one after the other, the parts
// are put into one that does (interleave_parts.h), and that is run in the same way.
#ifndef KILN_COMPILER_LANG_BARRIER_ORDER_H_
#define KILN_COMPILER_LANG_BARRIER_ORDER_H_

#include "absl/status/statusor.h"
#include "compiler/ir/stmt.h"

namespace kiln::lang {

// The body of an elaborated program, blocks of a cluster that communicate joined (join_clusters.h),
// without barriers, arrivals and waits (follow_barriers.h says
// what they look like), in an order that satisfies all of them. Rings of tiles become what
// join_ring.h says, and products of a part that is one warpgroup have policy FullRow where they
// have 64 rows or a multiple.
//
// Tensor memory that the kernel names is given to threads (tensor_memory.h).
//
// InvalidArgument: a wait for what never comes. Unimplemented: what the barriers do depends on
// values that are known only at run time, or no loops around the parts make an order of them.
// `cluster_blocks`: the most that a cluster of the target has, 0 where it has none. Clusters that
// communicate stay clusters where hardware_clusters.h can say so; others are noted with why not.
absl::StatusOr<ir::Stmt> OrderBarriers(const ir::Program& program, int64_t cluster_blocks);

// As it is, without barriers, arrivals and waits.
ir::Stmt WithoutBarriers(const ir::Stmt& body);

// The body of a program that is not to be run in its order, since tunables are open: without
// barriers, and with tensor memory given to threads.
absl::StatusOr<ir::Stmt> WithoutOrder(const ir::Program& program);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_BARRIER_ORDER_H_

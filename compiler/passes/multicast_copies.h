// Pass "multicast-copies": where blocks of a cluster copy the same tile (ir::kMulticast), the first
// of them lets TMA fetch it for all:
//
//   copy A[..] -> tile[rank, ..]        barrier_expect full[rank]
//     {multicast: 3}                    cluster_arrive ready[0]
//                                  =>   if rank == 0:
//                                         barrier_wait ready[0]
//                                         tensor_load A[..] -> tile[rank, ..], full[rank]
//                                           {multicast: 3}
//                                       barrier_wait full[rank]
//
// so that no block gets a tile before all its threads are through with the last one. A copy that
// TMA cannot make, that a pipelined loop fetches ahead, or that only some threads come by, is each
// block's own; the launch's note ir::kFetchedApart says which, and why.
#ifndef KILN_COMPILER_PASSES_MULTICAST_COPIES_H_
#define KILN_COMPILER_PASSES_MULTICAST_COPIES_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> MulticastCopies(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_MULTICAST_COPIES_H_

// Clusters whose blocks read what others of them have written, as clusters of the hardware. Private
// to compiler/lang.
//
// Each block has its own memory. What others of the cluster write gets a dimension of ranks in
// front (ir::BufferNode::blocks); barriers that they arrive at stay, as mbarriers.
//
//   copy x -> y of block (rank + 1) % 2        copy x -> y[(bx % 2 + 1) % 2, ...]
//   cluster_sync                          =>   cluster_barrier
//   add y -> sum                               add y[bx % 2, ...] -> sum
//
// Blocks that follow each other along the grid's first axis are a cluster: other axes of a cluster
// are folded into it.
#ifndef KILN_COMPILER_LANG_HARDWARE_CLUSTERS_H_
#define KILN_COMPILER_LANG_HARDWARE_CLUSTERS_H_

#include "absl/status/statusor.h"
#include "compiler/ir/stmt.h"

namespace kiln::lang {

// A launch that join_clusters.h could join, in clusters of at most `most` blocks, without the
// barriers that are to be there before anything else. Unimplemented, with the reason as its
// message: it is to be joined.
absl::StatusOr<ir::Stmt> KeepCluster(const ir::Launch& launch, int64_t most);

// What KeepCluster gave, once the block's own barriers are in order: with the others allocated and
// initialised, and where the blocks meet before they reach each other and before they end. Other
// launches stay.
ir::Stmt WithClusterBarriers(const ir::Stmt& launch);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_HARDWARE_CLUSTERS_H_

// Launches of clusters as launches whose blocks do what those of a cluster do together. Private to
// compiler/interp.
#ifndef KILN_COMPILER_INTERP_CLUSTERS_H_
#define KILN_COMPILER_INTERP_CLUSTERS_H_

#include "compiler/ir/instruct.h"
#include "compiler/ir/stmt.h"

namespace kiln::interp {

// Of every launch that is annotated "cluster" (blocks along x that run together, PTX 9.7.13.4): one
// block in place of a cluster, with the memory, registers and barriers of all its blocks and their
// parts beside each other; each has a tensor memory of its own. A load that all blocks share
// becomes one into each of them of this block's rows, an arrival (a commit) at the barriers of all
// of them one at each. Other launches stay.
ir::Program JoinClusters(const ir::Program& program);

// Of the block in its cluster that an instruction of such a launch is of; 0 in others.
int64_t ClusterRank(const ir::Instruct& x);
// Whether it is done to memory of another block of the cluster.
bool IsElsewhere(const ir::Instruct& x);

// A launch of blocks that share memory (ir::kSharesMemory), which stays.
struct RankedLaunch {
  ir::Expr cluster;              // the number of the cluster along x
  std::vector<ir::Stmt> shared;  // allocations of what all its blocks may touch
  std::vector<ir::Stmt> bodies;  // of each block, with names and memory of its own
};
RankedLaunch RanksOf(const ir::Launch& launch);

}  // namespace kiln::interp

#endif  // KILN_COMPILER_INTERP_CLUSTERS_H_

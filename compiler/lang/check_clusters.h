// Blocks of a cluster that touch shared memory at the same time. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_CHECK_CLUSTERS_H_
#define KILN_COMPILER_LANG_CHECK_CLUSTERS_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "compiler/ir/stmt.h"

namespace kiln::lang {

// A launch that join_clusters.h has made.
struct JoinedCluster {
  int64_t blocks = 1;
  // The block that does a statement of a list in which blocks meet, or of none; others hold
  // meetings.
  std::unordered_map<const ir::StmtNode*, int64_t> doer;
  struct Owned {
    int64_t block;
    std::string name;
  };
  std::unordered_map<const ir::BufferNode*, Owned> owner;  // of shared memory
};

// InvalidArgument: a block writes shared memory of another one which a third, or that one, touches
// between the same two meetings, and neither has waited for a barrier there before it does; a
// T.cluster_wait whose block has not arrived, or an arrival that the one before it goes without.
// What of the memory they touch must be known but for loops around it; loops in which blocks meet
// are followed for their first turns, and no more than some millions of steps in all. Of tensors: a
// block certainly reads what another one writes.
absl::Status CheckClusters(const ir::Program& program, const JoinedCluster& cluster,
                           const ir::Stmt& body);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_CHECK_CLUSTERS_H_

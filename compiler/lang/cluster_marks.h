// What a kernel says to the other blocks of its cluster, in a program that is being elaborated.
// Private to compiler/lang.
//
//   for peer in unroll(block, +1) {cluster_block}     what it stores in shared memory and at
//     copy src -> dst                                 barriers goes to that block of the cluster
//   block_barrier {cluster: arrive}, {cluster: wait}  T.cluster_arrive and T.cluster_wait
//   copy {cluster_mask: 3}                            each of those blocks gets what the first does
//   launch {cluster_dims: 2x1x1}                      join_clusters.h is to make one block of each,
//                                                     or hardware_clusters.h to keep them
#ifndef KILN_COMPILER_LANG_CLUSTER_MARKS_H_
#define KILN_COMPILER_LANG_CLUSTER_MARKS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/ir/views.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/extent.h"
#include "compiler/lang/launch_state.h"

namespace kiln::lang {

inline constexpr char kOfBlock[] = "cluster_block";
inline constexpr char kClusterMask[] = "cluster_mask";
inline constexpr char kCluster[] = "cluster";
inline constexpr char kClusterDims[] = "cluster_dims";
inline constexpr char kMulticastDims[] = "multicast_dims";  // where nothing but copies is shared
inline constexpr char kArrive[] = "arrive";
inline constexpr char kWait[] = "wait";

// Whether `s` is T.cluster_arrive or T.cluster_wait, as `what` says.
bool IsMeeting(const ir::Stmt& s, const char* what);
bool HoldsMeeting(const ir::Stmt& s, const char* what);
// A loop that kOfBlock marks; null for any other statement.
const ir::For* AsOfBlock(const ir::Stmt& s);

// Whether blocks of a cluster read what another one has written: shared memory, barriers, or a
// tensor after they met.
bool Communicates(const ir::Stmt& body, const std::vector<ir::View>& views);
ir::Stmt WithoutMeetings(const ir::Stmt& body);

// `body` with every copy to a cluster_mask as one of each block by itself, of what the first block
// of the mask copies. Diagnostics: InvalidArgument: some blocks of the mask do not come by.
// Unimplemented: what the first copies depends on memory of its own.
// `keep`: they are noted as one (ir::kMulticast), but for those in `apart`, each with the reason,
// that stay each block's own: in pipelined loops, and of only some threads.
absl::Status ResolveMulticasts(const LaunchState& launch, const Bound& bound,
                               const SourceFile& source, bool keep, ir::Stmt* body,
                               std::vector<std::string>* apart);
bool HoldsMulticast(const ir::Stmt& body);

// What the grid's axes are in block `rank` of a block's own cluster.
ir::VarMap InBlock(const LaunchState& launch, int64_t rank);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_CLUSTER_MARKS_H_

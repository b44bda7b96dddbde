// Clusters: blocks that read what others of them have written (cluster_marks.h, join_clusters.h).
#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/ir/instruct.h"
#include "compiler/lang/barrier_operand.h"
#include "compiler/lang/cluster_marks.h"
#include "compiler/lang/elaborator.h"
#include "compiler/lang/follow_barriers.h"
#include "compiler/lang/tile.h"

namespace kiln::lang {
namespace {

absl::Status RequireCluster(Elaborator& e, SourceLoc loc, const char* what) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(loc, what));
  if (e.launch().ClusterBlocks() > 1) return absl::OkStatus();
  return e.Error(loc, absl::StrCat(what, " in a launch without clusters"),
                 "launch T.ClusterKernel(..., cluster_dims=2), or another number of blocks");
}

// A tile of a copy between blocks.
absl::StatusOr<Tile> ToTileOf(Elaborator& e, const BoundArgs& args, size_t i, const char* what,
                              std::initializer_list<ir::Scope> scopes, const char* remedy) {
  KILN_ASSIGN_OR_RETURN(Tile tile, e.ToTile(args[i], args.LocOf(i), what));
  for (const ir::Scope scope : scopes) {
    if (tile.region.buffer->scope == scope) return tile;
  }
  return e.Error(args.LocOf(i), absl::StrCat(what, " cannot be '", tile.region.buffer->name, "'"),
                 remedy);
}

absl::Status Extend(Elaborator& e, const BoundArgs& args, Tile* src, Tile* dst, const char* what) {
  if (src->is_base && dst->is_base) {
    return e.Error(args.loc, absl::StrCat(what, " of a start to a start, both without extents"),
                   "give one of the two as a whole tile or a region x[a:b, c:d]");
  }
  if (src->is_base) KILN_RETURN_IF_ERROR(FillBase(e, src, *dst, args.LocOf(0)));
  if (dst->is_base) KILN_RETURN_IF_ERROR(FillBase(e, dst, *src, args.LocOf(1)));
  return RequireSameShape(e, *src, *dst, args.loc, what);
}

absl::StatusOr<Value> CopyToBlock(Elaborator& e, const BoundArgs& args) {
  constexpr size_t kBlock = 2, kBarrier = 4;
  KILN_ASSIGN_OR_RETURN(const ir::Expr block, ToBlock(e, args, kBlock, "dst_block"));
  KILN_ASSIGN_OR_RETURN(
      Tile src, ToTileOf(e, args, 0, "the source of T.copy_cluster to a block",
                         {ir::Scope::kShared, ir::Scope::kFragment},
                         "pass a T.alloc_shared or T.alloc_fragment tile; cluster_mask= copies "
                         "from a tensor to several blocks"));
  KILN_ASSIGN_OR_RETURN(Tile dst,
                        ToTileOf(e, args, 1, "the destination of T.copy_cluster to a block",
                                 {ir::Scope::kShared}, "blocks share T.alloc_shared tiles alone"));
  KILN_RETURN_IF_ERROR(Extend(e, args, &src, &dst, "T.copy_cluster"));
  std::optional<Barrier> barrier;
  if (args.Given(kBarrier)) {
    KILN_ASSIGN_OR_RETURN(barrier, ToBarrier(e, args, kBarrier));
  }
  KILN_RETURN_IF_ERROR(ArriveInBlock(e, args.loc, block,
                                     ir::MakeStmt<ir::Copy>(args.loc, src.region, dst.region),
                                     barrier ? &*barrier : nullptr));
  return Value::None();
}

absl::StatusOr<Value> CopyCluster(Elaborator& e, const BoundArgs& args) {
  constexpr size_t kBlock = 2, kMask = 3, kBarrier = 4, kPolicy = 5, kLoopLayout = 8;
  KILN_RETURN_IF_ERROR(RequireCluster(e, args.loc, "T.copy_cluster"));
  if (args.Given(kBlock) && args.Given(kMask)) {
    return e.Error(args.LocOf(kMask), "T.copy_cluster with a dst_block and a cluster_mask",
                   "dst_block is for shared memory to one block, cluster_mask for a tensor to "
                   "several: give one of them");
  }
  if (args.Given(kLoopLayout)) {
    return e.Unimplemented(args.LocOf(kLoopLayout), "T.copy_cluster with 'loop_layout'",
                           "leave it out: the compiler divides the copy among threads");
  }
  if (args.Given(kBlock)) return CopyToBlock(e, args);
  if (args.Given(kBarrier)) {
    return e.Error(args.LocOf(kBarrier), "T.copy_cluster with a remote_barrier and no dst_block",
                   "name the block with dst_block=; what a cluster_mask copies is there when the "
                   "copy returns");
  }
  int64_t mask = 0;
  if (args.Given(kMask)) {
    KILN_ASSIGN_OR_RETURN(mask, ToMask(e, args, kMask));
  }
  return CopyToMask(e, args, mask, kPolicy);
}

// Where the block stands in its cluster: its first axis counts fastest.
absl::StatusOr<Value> RankInCluster(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.block_rank_in_cluster"));
  return e.launch().cluster_rank;
}

absl::Status EmitMeeting(Elaborator& e, SourceLoc loc, const char* what) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(loc, "a barrier of the cluster"));
  if (e.launch().ClusterBlocks() == 1) return absl::OkStatus();
  if (e.region().kind == RegionKind::kThreads) {
    return e.Error(loc, "blocks of a cluster meet where only some threads come by",
                   "let all threads of the block come by: move it out of T.ws");
  }
  return e.Emit(loc,
                ir::MakeInstruct(loc, ir::Instruction::kBlockBarrier, {}, {}, {{kCluster, what}}));
}

absl::StatusOr<Value> ArriveInCluster(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(EmitMeeting(e, args.loc, kArrive));
  return Value::None();
}

absl::StatusOr<Value> WaitInCluster(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(EmitMeeting(e, args.loc, kWait));
  return Value::None();
}

absl::StatusOr<Value> SyncCluster(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(ArriveInCluster(e, args).status());
  return WaitInCluster(e, args);
}

constexpr Builtin kRows[] = {
    {"T.block_rank_in_cluster", "", RankInCluster},
    {"T.cluster_sync", "", SyncCluster},
    {"T.cluster_arrive", "", ArriveInCluster},
    {"T.cluster_arrive_relaxed", "", ArriveInCluster},
    {"T.cluster_wait", "", WaitInCluster},
    {"T.alloc_cluster_barrier", "arrive_count", AllocBarrier},
    {"T.copy_cluster",
     "src dst * dst_block? cluster_mask? remote_barrier? eviction_policy? coalesced_width? "
     "annotations? loop_layout?",
     CopyCluster},
};

}  // namespace

absl::StatusOr<ir::Expr> ToBlock(Elaborator& e, const BoundArgs& args, size_t i, const char* what) {
  KILN_RETURN_IF_ERROR(RequireCluster(e, args.LocOf(i), what));
  KILN_ASSIGN_OR_RETURN(const Operand block, e.ToIndex(args[i], args.LocOf(i), what));
  const int64_t blocks = e.launch().ClusterBlocks();
  const auto rank = ir::ConstInt(block.e);
  if (!rank || (*rank >= 0 && *rank < blocks)) return block.e;
  return e.Error(args.LocOf(i),
                 absl::StrCat(what, " is ", *rank, " in a cluster of ", blocks, " blocks"),
                 absl::StrCat("use 0 to ", blocks - 1));
}

absl::StatusOr<int64_t> ToMask(Elaborator& e, const BoundArgs& args, size_t i) {
  KILN_RETURN_IF_ERROR(RequireCluster(e, args.LocOf(i), "cluster_mask"));
  KILN_ASSIGN_OR_RETURN(const int64_t mask, e.ToInt(args[i], args.LocOf(i), "cluster_mask"));
  const int64_t blocks = e.launch().ClusterBlocks();
  if (mask > 0 && mask < int64_t{1} << blocks) return mask;
  return e.Error(args.LocOf(i),
                 absl::StrCat("cluster_mask is ", mask, " in a cluster of ", blocks, " blocks"),
                 "set a bit for each block that gets the tile: 0b11 for the first two");
}

absl::StatusOr<Value> CopyToMask(Elaborator& e, const BoundArgs& args, int64_t mask,
                                 size_t eviction_policy) {
  BoundArgs plain;
  plain.loc = args.loc;
  constexpr size_t kPolicy = 4;  // of T.copy
  for (size_t i = 0; i <= kPolicy; ++i) {
    const size_t from = i == kPolicy ? eviction_policy : i;
    const bool has = (i < 2 || i == kPolicy) && args.Has(from);
    plain.values.push_back(has ? args[from] : Value::None());
    plain.present.push_back(has);
    plain.locs.push_back(has ? args.LocOf(from) : args.loc);
  }
  const Builtin& copy = *FindModule("tilelang.language")->members.at("copy").builtin();
  if (mask == 0) return copy.function(e, plain);
  KILN_ASSIGN_OR_RETURN(
      Tile src, ToTileOf(e, args, 0, "the source of a copy to a cluster_mask", {ir::Scope::kGlobal},
                         "pass a tensor: dst_block= copies between the shared "
                         "memories of two blocks"));
  KILN_ASSIGN_OR_RETURN(Tile dst,
                        ToTileOf(e, args, 1, "the destination of a copy to a cluster_mask",
                                 {ir::Scope::kShared}, "pass a T.alloc_shared tile"));
  KILN_RETURN_IF_ERROR(Extend(e, args, &src, &dst, "a copy to a cluster_mask"));
  e.launch().copy_notes = {{kClusterMask, absl::StrCat(mask)}};
  const absl::StatusOr<Value> copied = copy.function(e, plain);
  e.launch().copy_notes.clear();
  return copied;
}

absl::Status ArriveInBlock(Elaborator& e, SourceLoc loc, const ir::Expr& block, ir::Stmt copied,
                           const Barrier* barrier) {
  std::vector<ir::Stmt> stmts;
  if (copied.defined()) stmts.push_back(std::move(copied));
  if (barrier != nullptr) {
    stmts.push_back(ir::MakeStmt<ir::Store>(loc, barrier->buffer,
                                            std::vector<ir::Expr>{barrier->index},
                                            ir::MakeInt(stmts.empty() ? kOfEach : kOfOne)));
  }
  const ir::Expr peer = ir::MakeVar("peer", block.dtype());
  std::map<std::string, std::string> notes = {{kOfBlock, ""}};
  return e.EmitNew<ir::For>(loc, ir::ForKind::kUnroll,
                            std::vector<ir::Axis>{{peer, block, ir::MakeInt(1, block.dtype())}},
                            ir::MakeSeq(std::move(stmts), loc), ir::Expr(), std::move(notes));
}

BuiltinTable ClusterBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang

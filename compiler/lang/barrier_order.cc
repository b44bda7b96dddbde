#include "compiler/lang/barrier_order.h"

#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/barrier_state.h"
#include "compiler/lang/cluster_marks.h"
#include "compiler/lang/count_loops.h"
#include "compiler/lang/follow_barriers.h"
#include "compiler/lang/hardware_clusters.h"
#include "compiler/lang/interleave_parts.h"
#include "compiler/lang/join_clusters.h"
#include "compiler/lang/join_ring.h"
#include "compiler/lang/rank_parts.h"
#include "compiler/lang/split_parts.h"
#include "compiler/lang/tensor_memory.h"

namespace kiln::lang {
namespace {

using ir::Expr;
using ir::Stmt;

constexpr int64_t kWarpgroup = 128;  // threads
constexpr int64_t kWgmmaRows = 64;   // of one warpgroup

bool IsBarrier(const Expr& e) {
  const auto* load = e.As<ir::Load>();
  return load != nullptr && load->buffer->scope == ir::Scope::kBarrier;
}

// Barriers as numbers: `bar[0] + 1`, or by a name for an element.
absl::Status CheckUses(const ir::Program& program) {
  std::unordered_set<const ir::ExprNode*> names;
  absl::Status status;
  SourceLoc loc;
  ir::Walk(
      program.body,
      [&](const Stmt& s) {
        loc = s->loc;
        const auto* bind = s.As<ir::Bind>();
        if (bind != nullptr && IsOfBarrier(s)) names.insert(bind->var.get());
        return !IsOfBarrier(s);
      },
      [&](const Expr& e) {
        if (status.ok() && (IsBarrier(e) || names.count(e.get()) > 0)) {
          status = ir::ErrorAt(program, loc, "a barrier is used as a number here",
                               "barriers are for T.barrier_arrive and T.barrier_wait");
        }
        return status.ok();
      });
  return status;
}

// Everything in the order of the program.
class InOrder : public BarrierListener {
 public:
  // `made`: by InterleaveParts, from what the waits were seen to need.
  InOrder(const ir::Program& program, bool made) : program_(program), made_(made) {}

  bool waits() const { return waits_; }  // for what has not come

  void BeginBlock() override { state_ = BarrierState(); }
  absl::Status On(const BarrierEvent& event) override {
    if (!event.is_wait) return CheckArrival(program_, event, state_.Arrive(event));
    if (state_.IsOver(event)) return absl::OkStatus();
    waits_ = true;
    if (!made_) return NeverEnds(program_, event, state_, "", "");
    return ir::ErrorAt(
        program_, event.stmt->loc,
        absl::StrCat("this wait for ", state_.Tell(event),
                     " may never end: nothing keeps the other parts from ending one phase more "
                     "before it looks"),
        "wait for a phase before what lets others go on to the end of the next but one");
  }

 private:
  const ir::Program& program_;
  const bool made_;
  BarrierState state_;
  bool waits_ = false;
};

bool IsEmpty(const Stmt& s) {
  const auto* seq = s.As<ir::Seq>();
  return seq != nullptr && seq->stmts.empty();
}

// Takes barriers away, and what holds nothing without them.
class Without : public ir::Mutator {
 protected:
  Stmt VisitStmt(const Stmt& s) override {
    const Stmt nothing = ir::MakeSeq({}, s->loc);
    if (IsOfBarrier(s)) return nothing;
    const Stmt rest = RebuildStmt(s);
    if (rest.same_as(s)) return s;
    const auto* part = rest.As<ir::OnThreads>();
    const auto* loop = rest.As<ir::For>();
    const auto* branch = rest.As<ir::If>();
    if (part != nullptr) return IsEmpty(part->body) ? nothing : rest;
    if (loop != nullptr) return IsEmpty(loop->body) ? nothing : rest;
    if (branch == nullptr || !IsEmpty(branch->then_case)) return rest;
    return !branch->else_case.defined() || IsEmpty(branch->else_case) ? nothing : rest;
  }
};

// Products of one warpgroup have their rows dealt out to its warps, as wgmma has them, whatever
// instruction they become: fragments that go from one product to the next then lie alike.
Stmt RowsByWarps(const Stmt& launch) {
  return ir::RewriteStmts(launch, [](const Stmt& s) -> Stmt {
    const auto* part = s.As<ir::OnThreads>();
    if (part == nullptr || part->count != kWarpgroup) return Stmt();
    const Stmt body = ir::RewriteStmts(part->body, [](const Stmt& x) -> Stmt {
      const auto* gemm = x.As<ir::Gemm>();
      if (gemm == nullptr || gemm->policy != ir::GemmPolicy::kSquare) return Stmt();
      const auto& ranges = gemm->c.ranges;
      const std::optional<int64_t> rows =
          ranges.size() < 2 ? std::nullopt : ir::ConstInt(ranges[ranges.size() - 2].extent);
      if (!rows || *rows % kWgmmaRows != 0) return Stmt();
      return ir::MakeStmt<ir::Gemm>(x->loc, gemm->a, gemm->b, gemm->c, gemm->trans_a, gemm->trans_b,
                                    ir::GemmPolicy::kFullRow, gemm->clear_accum);
    });
    return ir::MakeStmt<ir::OnThreads>(s->loc, part->first, part->count, body);
  });
}

absl::StatusOr<Stmt> Order(const ir::Program& program, const Stmt& launch) {
  InOrder as_it_is(program, false);
  const absl::Status status = FollowBarriers(program, *launch.As<ir::Launch>(), &as_it_is);
  if (status.ok()) return launch;
  if (!as_it_is.waits()) return status;
  const Stmt split = SplitParts(*CountLoops(launch, HoldsBarrier).As<ir::Launch>());
  KILN_ASSIGN_OR_RETURN(const Stmt ordered, InterleaveParts(program, *split.As<ir::Launch>()));
  if (!ordered.defined()) return status;  // no parts
  InOrder so(program, true);
  KILN_RETURN_IF_ERROR(FollowBarriers(program, *ordered.As<ir::Launch>(), &so));
  return ordered;
}

absl::StatusOr<Stmt> Ordered(const ir::Program& program, const Stmt& launch) {
  const bool barriers = HoldsBarrier(launch);
  Stmt out = launch;
  if (barriers) {
    KILN_ASSIGN_OR_RETURN(out, Order(program, launch));
    out = WithoutBarriers(out);
  }
  out = WithoutMeetings(out);
  if (barriers) out = WithoutRanks(out);
  if (HoldsTensorMemory(launch)) {
    KILN_ASSIGN_OR_RETURN(out, GiveTensorMemory(program, out));
  }
  return barriers ? RowsByWarps(JoinRing(out)) : out;
}

// Each launch by itself, but for those that KeepClusters put into order.
absl::StatusOr<Stmt> AllOrdered(const ir::Program& program) {
  absl::Status status;
  const Stmt ordered = ir::RewriteStmts(program.body, [&](const Stmt& s) -> Stmt {
    const auto* x = s.As<ir::Launch>();
    if (x == nullptr || !status.ok()) return Stmt();
    if (x->annotations.count(ir::kSharesMemory) > 0) return s;  // in order, with barriers
    const absl::StatusOr<Stmt> launch = Ordered(program, s);
    if (launch.ok()) return *launch;
    status = launch.status();
    return s;
  });
  KILN_RETURN_IF_ERROR(status);
  return ordered;
}

// Of a launch whose blocks communicate, which is joined, or fetch for each other: why not.
Stmt WithReason(const Stmt& s, const std::string& why) {
  const auto* launch = s.As<ir::Launch>();
  auto notes = launch->annotations;
  const bool fetches = notes.erase(kMulticastDims) > 0;
  notes[fetches ? ir::kFetchedApart : ir::kJoinedWhy] = why;
  return ir::MakeStmt<ir::Launch>(s->loc, launch->grid, launch->threads, launch->body,
                                  std::move(notes));
}

bool IsOfClusters(const ir::Launch& launch) {
  return launch.annotations.count(kClusterDims) + launch.annotations.count(kMulticastDims) > 0;
}

// Blocks of a cluster meet in loops that are counted: of those it can be seen that all make the
// same turns.
Stmt WithCountedMeetings(const Stmt& body) {
  return ir::RewriteStmts(body, [](const Stmt& s) -> Stmt {
    const auto* launch = s.As<ir::Launch>();
    if (launch == nullptr || launch->annotations.count(kClusterDims) == 0) return Stmt();
    return CountLoops(s, [](const Stmt& x) { return HoldsMeeting(x, kWait); });
  });
}

// Clusters that the hardware has: what they are is known of blocks that were joined, which is what
// is left where the hardware cannot have them.
absl::StatusOr<Stmt> KeepClusters(const ir::Program& elaborated, int64_t most) {
  ir::Program program = elaborated;
  program.body = ir::RewriteStmts(elaborated.body, [&](const Stmt& s) -> Stmt {
    const auto* launch = s.As<ir::Launch>();
    if (launch == nullptr || !IsOfClusters(*launch)) return Stmt();
    const absl::StatusOr<Stmt> kept = KeepCluster(*launch, most);
    if (!kept.ok()) return WithReason(s, std::string(kept.status().message()));
    const absl::StatusOr<Stmt> ordered = Ordered(elaborated, *kept);
    if (ordered.ok()) return WithClusterBarriers(*ordered);
    return WithReason(s, "its own barriers have no order in which blocks wait for each other");
  });
  KILN_ASSIGN_OR_RETURN(program.body, JoinClusters(program));
  return AllOrdered(program);
}

}  // namespace

absl::StatusOr<Stmt> OrderBarriers(const ir::Program& given, int64_t cluster_blocks) {
  ir::Program elaborated = given;
  elaborated.body = WithCountedMeetings(given.body);
  ir::Program program = elaborated;
  KILN_ASSIGN_OR_RETURN(program.body, JoinClusters(elaborated));
  KILN_RETURN_IF_ERROR(CheckUses(program));
  bool clusters = false;
  ir::Walk(elaborated.body, [&](const Stmt& s) {
    const auto* launch = s.As<ir::Launch>();
    clusters = clusters || (launch != nullptr && IsOfClusters(*launch));
    return launch == nullptr;
  });
  KILN_ASSIGN_OR_RETURN(const Stmt ordered, AllOrdered(program));
  return clusters && cluster_blocks > 1 ? KeepClusters(elaborated, cluster_blocks) : ordered;
}

Stmt WithoutBarriers(const Stmt& body) { return Without().Mutate(body); }

absl::StatusOr<Stmt> WithoutOrder(const ir::Program& program) {
  absl::Status status;
  const Stmt out = ir::RewriteStmts(WithoutBarriers(program.body), [&](const Stmt& s) -> Stmt {
    if (s.kind() != ir::StmtKind::kLaunch || !status.ok()) return Stmt();
    if (!HoldsTensorMemory(s)) return s;
    const absl::StatusOr<Stmt> launch = GiveTensorMemory(program, s);
    if (launch.ok()) return *launch;
    status = launch.status();
    return s;
  });
  KILN_RETURN_IF_ERROR(status);
  return out;
}

}  // namespace kiln::lang

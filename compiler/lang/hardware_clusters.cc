#include "compiler/lang/hardware_clusters.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/cluster_marks.h"
#include "compiler/lang/follow_barriers.h"
#include "compiler/lang/tensor_memory.h"

namespace kiln::lang {
namespace {

using ir::Buffer;
using ir::Expr;
using ir::Instruction;
using ir::MakeInt;
using ir::Stmt;
using Stmts = std::vector<Stmt>;

// Annotations of a launch between the two functions.
constexpr char kMeetsFirst[] = "meets_first", kMeetsLast[] = "meets_last";

bool IsBarrier(const Buffer& b) { return b->scope == ir::Scope::kBarrier; }

const ir::Load* BarrierWaitedFor(const Stmt& s) {
  const auto* wait = s.As<ir::Assert>();
  const auto* equal = wait == nullptr ? nullptr : wait->condition.As<ir::Binary>();
  const auto* load = equal == nullptr ? nullptr : equal->a.As<ir::Load>();
  return load != nullptr && IsBarrier(load->buffer) ? load : nullptr;
}

void Flatten(const Stmt& s, Stmts* out) {
  const auto* seq = s.As<ir::Seq>();
  if (seq == nullptr) return out->push_back(s);
  for (const Stmt& x : seq->stmts) Flatten(x, out);
}

class Keeper : public ir::Mutator {
 public:
  explicit Keeper(const ir::Launch& launch) : launch_(launch) {
    const auto dims = launch.annotations.find(kClusterDims);
    const bool meets = dims != launch.annotations.end();
    for (absl::string_view n :
         absl::StrSplit(meets ? dims->second : launch.annotations.at(kMulticastDims), 'x')) {
      (void)absl::SimpleAtoi(n, &dims_.emplace_back());
      ranks_ *= dims_.back();
    }
    for (const Expr& extent : launch.threads) threads_ *= ir::ConstInt(extent).value_or(1);
    FindReached();
  }

  absl::StatusOr<Stmt> Run(int64_t most) {
    if (ranks_ > most) {
      return No(absl::StrCat("a cluster of more than ", most, " blocks is not portable"));
    }
    if (HoldsTensorMemory(launch_.body)) return No("the kernel names tensor memory");
    for (const auto& [buffer, wide] : wide_) {
      if (launch_.annotations.count(absl::StrCat("layout:", buffer->name)) > 0) {
        return No(absl::StrCat("'", buffer->name, "', which other blocks write, has a layout"));
      }
    }
    std::vector<ir::Axis> grid = Fold();
    for (const ir::Axis& axis : grid) facts_.AddAxis(axis);
    std::map<std::string, std::string> notes = launch_.annotations;
    for (const char* note : {kClusterDims, kMulticastDims, "swizzle_panel", "swizzle_order"})
      notes.erase(note);
    notes[ir::kClusterBlocks] = absl::StrCat(ranks_);
    notes[ir::kSharesMemory] = "1";
    NoteMeetings(&notes);
    const Stmt body = Mutate(ir::Substitute(launch_.body, places_));
    if (!refusal_.empty()) return No(refusal_);
    return ir::MakeStmt<ir::Launch>(launch_.loc, std::move(grid), launch_.threads, body,
                                    std::move(notes));
  }

 protected:
  Expr VisitExpr(const Expr& e) override {
    const auto* load = e.As<ir::Load>();
    const Buffer wide = load == nullptr ? nullptr : WideOf(load->buffer);
    if (wide == nullptr) return RebuildExpr(e);
    return ir::MakeLoad(wide, InFront(rank_, MutateAll(load->indices)),
                        load->predicate.defined() ? Mutate(load->predicate) : Expr());
  }

  ir::Region MutateRegion(const ir::Region& r) override {
    ir::Region region = ir::Mutator::MutateRegion(r);
    if (const Buffer wide = WideOf(r.buffer)) region = InBlock(rank_, std::move(region), wide);
    return region;
  }

  Stmt VisitStmt(const Stmt& s) override {
    if (const auto* alloc = s.As<ir::Alloc>()) {
      const Buffer wide = WideOf(alloc->buffer);
      if (wide == nullptr) return RebuildStmt(s);
      return IsBarrier(wide) ? Nothing(s) : ir::MakeStmt<ir::Alloc>(s->loc, wide);
    }
    if (const auto* bind = s.As<ir::Bind>()) {
      const auto* load = bind->value.As<ir::Load>();
      return load != nullptr && IsReached(load->buffer) ? Nothing(s) : VisitBind(s);
    }
    if (IsMeeting(s, kArrive)) return Nothing(s);
    if (IsMeeting(s, kWait)) {
      Require(s);
      return ir::MakeInstruct(s->loc, Instruction::kClusterBarrier);
    }
    if (AsOfBlock(s) != nullptr) return ToBlock(s);
    if (s.kind() == ir::StmtKind::kFor) return VisitLoop(s);
    if (s.kind() == ir::StmtKind::kOnThreads) return Inside(s);
    if (s.kind() == ir::StmtKind::kStore) return VisitStore(s);
    const ir::Load* barrier = BarrierWaitedFor(s);
    if (barrier == nullptr || !IsReached(barrier->buffer)) return RebuildStmt(s);
    Require(s);
    const Expr parity = Mutate(s.As<ir::Assert>()->condition.As<ir::Binary>()->b);
    return ir::MakeInstruct(s->loc, Instruction::kBarrierWait, {ElementOf(*barrier, rank_)},
                            {ir::MakeCast(kInt32, FloorMod(parity, MakeInt(2, parity.dtype())))},
                            {{kCluster, "1"}});
  }

 private:
  static Stmt Nothing(const Stmt& s) { return ir::MakeSeq({}, s->loc); }
  static absl::Status No(std::string why) { return absl::UnimplementedError(std::move(why)); }

  // What blocks write at others.
  void FindReached() {
    ir::Walk(launch_.body, [&](const Stmt& s) {
      const ir::For* to = AsOfBlock(s);
      const auto* fetch = s.As<ir::Copy>();
      if (fetch != nullptr && fetch->annotations.count(ir::kMulticast) > 0) {
        Reach(fetch->dst.buffer);
      }
      if (to == nullptr) return true;
      ir::Walk(to->body, [&](const Stmt& x) {
        if (const auto* copy = x.As<ir::Copy>()) Reach(copy->dst.buffer);
        if (const auto* store = x.As<ir::Store>()) Reach(store->buffer);
        return true;
      });
      return false;
    });
  }

  void Reach(const Buffer& b) {
    if (b->scope != ir::Scope::kShared && !IsBarrier(b)) return;
    Buffer& wide = wide_[b.get()];
    if (wide != nullptr) return;
    auto node = std::make_shared<ir::BufferNode>(*b);
    node->shape.insert(node->shape.begin(), MakeInt(ranks_));
    node->blocks = ranks_;
    if (IsBarrier(b)) node->dtype = kInt64;
    wide = std::move(node);
  }

  Buffer WideOf(const Buffer& b) const {
    const auto found = b == nullptr ? wide_.end() : wide_.find(b.get());
    return found == wide_.end() ? nullptr : found->second;
  }
  bool IsReached(const Buffer& b) const { return WideOf(b) != nullptr; }

  static std::vector<Expr> InFront(const Expr& first, std::vector<Expr> rest) {
    rest.insert(rest.begin(), first);
    return rest;
  }
  static ir::Region InBlock(const Expr& rank, ir::Region region, const Buffer& wide) {
    region.buffer = wide;
    region.ranges.insert(region.ranges.begin(), {rank, MakeInt(1, rank.dtype())});
    return region;
  }
  ir::Region ElementOf(const ir::Load& barrier, const Expr& rank) {
    const Expr index = Mutate(barrier.indices[0]);
    return {WideOf(barrier.buffer), {{rank, MakeInt(1)}, {index, MakeInt(1, index.dtype())}}};
  }

  // The grid with the whole cluster along its first axis, and what its axes were.
  std::vector<ir::Axis> Fold() {
    std::vector<ir::Axis> grid = launch_.grid;
    const DType type = grid[0].var.dtype();
    const auto number = [&](int64_t n) { return MakeInt(n, type); };
    if (ranks_ != dims_[0]) {
      grid[0].var = ir::MakeVar(grid[0].var.As<ir::Var>()->name, type);
      grid[0].extent = FloorDiv(grid[0].extent, number(dims_[0])) * number(ranks_);
    }
    rank_ = FloorMod(grid[0].var, number(ranks_));
    int64_t inner = 1;
    for (size_t i = 0; i < dims_.size() && ranks_ != dims_[0]; ++i) {
      const Expr place = FloorMod(FloorDiv(rank_, number(inner)), number(dims_[i]));
      inner *= dims_[i];
      Expr outer = FloorDiv(grid[0].var, number(ranks_));
      if (i > 0 && dims_[i] > 1) {
        grid[i].var = ir::MakeVar(grid[i].var.As<ir::Var>()->name, type);
        grid[i].extent = FloorDiv(grid[i].extent, number(dims_[i]));
      }
      if (i > 0) outer = grid[i].var;
      if (i == 0 || dims_[i] > 1) {
        places_[launch_.grid[i].var.get()] = outer * number(dims_[i]) + place;
      }
    }
    return grid;
  }

  // Whether blocks reach others before all are there, or after they met last.
  void NoteMeetings(std::map<std::string, std::string>* notes) const {
    Stmts flat;
    Flatten(launch_.body, &flat);
    bool met = false, reached = false;
    for (const Stmt& s : flat) {
      if (IsMeeting(s, kWait)) {
        met = true;
        reached = false;
      } else if (Reaches(s)) {
        reached = true;
        if (!met) (*notes)[kMeetsFirst] = "1";
      }
    }
    for (const auto& [buffer, wide] : wide_) {
      if (IsBarrier(wide)) (*notes)[kMeetsFirst] = "1";
    }
    if (reached) (*notes)[kMeetsLast] = "1";
  }

  static bool Reaches(const Stmt& s) {
    bool reaches = false;
    ir::Walk(s, [&](const Stmt& x) {
      reaches = reaches || AsOfBlock(x) != nullptr;
      return !reaches;
    });
    return reaches;
  }

  // All threads of the block have to come by.
  void Require(const Stmt& s) {
    if (inside_ == 0) return;
    Refuse(absl::StrCat("line ", s->loc.line,
                        ": only some threads of a block come by what concerns the others"));
  }
  void Refuse(std::string why) {
    if (refusal_.empty()) refusal_ = std::move(why);
  }

  Stmt Inside(const Stmt& s) {
    ++inside_;
    Stmt rest = RebuildStmt(s);
    --inside_;
    return rest;
  }

  // What concerns other blocks happens in the loop's order.
  Stmt VisitLoop(const Stmt& s) {
    const auto& loop = *s.As<ir::For>();
    for (const ir::Axis& axis : loop.axes) facts_.AddAxis(axis);
    const bool parallel = loop.loop == ir::ForKind::kParallel ||
                          loop.loop == ir::ForKind::kVectorized ||
                          loop.loop == ir::ForKind::kThreads;
    if (parallel) return Inside(s);
    if (loop.loop != ir::ForKind::kPipelined || !Concerns(loop.body)) return RebuildStmt(s);
    return ir::MakeStmt<ir::For>(loop.loc, ir::ForKind::kSerial, loop.axes, Mutate(loop.body));
  }

  // A rank may have a name.
  Stmt VisitBind(const Stmt& s) {
    Stmt rest = RebuildStmt(s);
    const auto& bind = *rest.As<ir::Bind>();
    bool known = bind.value.dtype().is_int() && bind.value.dtype().lanes == 1;
    ir::Walk(bind.value, [&](const Expr& e) {
      known = known && e.kind() != ir::ExprKind::kLoad;
      return known;
    });
    if (known) facts_.SetValue(bind.var, facts_.Simplify(bind.value));
    return rest;
  }

  bool Concerns(const Stmt& s) const {
    bool concerns = false;
    ir::Walk(s, [&](const Stmt& x) {
      const ir::Load* barrier = BarrierWaitedFor(x);
      concerns = concerns || AsOfBlock(x) != nullptr || IsMeeting(x, kWait) ||
                 (barrier != nullptr && IsReached(barrier->buffer));
      return !concerns;
    });
    return concerns;
  }

  Stmt VisitStore(const Stmt& s) {
    const auto& store = *s.As<ir::Store>();
    const Buffer wide = WideOf(store.buffer);
    if (wide == nullptr) return RebuildStmt(s);
    if (IsBarrier(wide)) return Arrive(s, rank_);
    return ir::MakeStmt<ir::Store>(
        store.loc, wide, InFront(rank_, MutateAll(store.indices)), Mutate(store.value),
        store.predicate.defined() ? Mutate(store.predicate) : Expr(), store.way);
  }

  Stmt Arrive(const Stmt& s, const Expr& rank) {
    Require(s);
    const auto& store = *s.As<ir::Store>();
    const bool each = ir::IsConst(store.value, kOfEach);
    const Expr index = Mutate(store.indices[0]);
    return ir::MakeInstruct(
        store.loc, Instruction::kClusterArrive,
        {{WideOf(store.buffer), {{rank, MakeInt(1)}, {index, MakeInt(1, index.dtype())}}}},
        {MakeInt(each ? threads_ : 1)});
  }

  Stmt ToBlock(const Stmt& of_block) {
    Require(of_block);
    const ir::For& to = *AsOfBlock(of_block);
    const Expr peer = facts_.Simplify(Mutate(to.axes[0].min));
    Stmts out;
    const Expr exists = ir::MakeBinary(ir::BinaryOp::kAnd, peer >= MakeInt(0, peer.dtype()),
                                       peer < MakeInt(ranks_, peer.dtype()));
    const auto known = ir::ConstInt(facts_.Simplify(exists));
    if (known.value_or(0) == 0) {
      out.push_back(
          ir::MakeStmt<ir::Assert>(to.loc, exists, "a block of the cluster that there is not"));
    }
    Stmts inner;
    Flatten(to.body, &inner);
    for (const Stmt& s : inner) {
      if (const auto* store = s.As<ir::Store>(); store != nullptr && IsBarrier(store->buffer)) {
        out.push_back(Arrive(s, peer));
      } else if (const auto* copy = s.As<ir::Copy>()) {
        const Buffer wide = WideOf(copy->dst.buffer);
        out.push_back(ir::MakeStmt<ir::Copy>(
            s->loc, MutateRegion(copy->src),
            InBlock(peer, ir::Mutator::MutateRegion(copy->dst), wide), copy->annotations));
      } else {
        Refuse(absl::StrCat("line ", s->loc.line, ": more than a copy goes to another block"));
      }
    }
    return ir::MakeSeq(std::move(out), to.loc);
  }

  const ir::Launch& launch_;
  std::vector<int64_t> dims_;
  int64_t ranks_ = 1, threads_ = 1;
  std::unordered_map<const ir::BufferNode*, Buffer> wide_;
  Expr rank_;          // of the block
  ir::VarMap places_;  // what the grid's axes were
  ir::Facts facts_;
  int inside_ = 0;  // of what only some threads come by
  std::string refusal_;
};

}  // namespace

absl::StatusOr<Stmt> KeepCluster(const ir::Launch& launch, int64_t most) {
  return Keeper(launch).Run(most);
}

Stmt WithClusterBarriers(const Stmt& s) {
  const auto* launch = s.As<ir::Launch>();
  if (launch == nullptr || launch->annotations.count(ir::kSharesMemory) == 0) return s;
  ir::BufferMap barriers;
  Stmts stmts;
  ir::Walk(launch->body, [&](const Stmt& x) {
    const auto* instruct = x.As<ir::Instruct>();
    for (size_t i = 0; instruct != nullptr && i < instruct->regions.size(); ++i) {
      const Buffer& b = instruct->regions[i].buffer;
      if (!IsBarrier(b) || b->blocks == 1 || barriers.count(b.get()) > 0) continue;
      auto node = std::make_shared<ir::BufferNode>(*b);
      node->values = nullptr;
      barriers[b.get()] = node;
      stmts.push_back(ir::MakeStmt<ir::Alloc>(launch->loc, node));
      const Expr rank =
          FloorMod(launch->grid[0].var, MakeInt(b->blocks, launch->grid[0].var.dtype()));
      for (size_t n = 0; n < b->values->size(); ++n) {
        stmts.push_back(ir::MakeInstruct(
            launch->loc, Instruction::kBarrierInit,
            {{node, {{rank, MakeInt(1)}, {MakeInt(static_cast<int64_t>(n)), MakeInt(1)}}}},
            {MakeInt((*b->values)[n])}));
      }
    }
    return true;
  });
  std::map<std::string, std::string> notes = launch->annotations;
  const bool first = notes.erase(kMeetsFirst) > 0, last = notes.erase(kMeetsLast) > 0;
  if (first) stmts.push_back(ir::MakeInstruct(launch->loc, Instruction::kClusterBarrier));
  stmts.push_back(ir::Substitute(launch->body, {}, barriers));
  if (last) stmts.push_back(ir::MakeInstruct(launch->loc, Instruction::kClusterBarrier));
  return ir::MakeStmt<ir::Launch>(launch->loc, launch->grid, launch->threads,
                                  ir::MakeSeq(std::move(stmts), launch->loc), std::move(notes));
}

}  // namespace kiln::lang

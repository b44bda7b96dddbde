#include "compiler/passes/issue_apart.h"

#include <algorithm>
#include <optional>

#include "compiler/ir/analysis.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/build.h"
#include "compiler/passes/product_loops.h"
#include "compiler/passes/tile_schedule.h"
#include "compiler/passes/tile_versions.h"
#include "compiler/target/legality.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Instruction;
using ir::MakeInt;
using ir::Stmt;

constexpr int64_t kWarp = 32, kPlaces = 2;

Stmt WithArgs(const ir::Instruct& x, std::vector<Expr> args) {
  return ir::MakeStmt<ir::Instruct>(x.loc, x.op, x.regions, std::move(args), x.annotations);
}

class Apart {
 public:
  explicit Apart(const ir::Launch& launch) : launch_(launch), stmts_(Flatten(launch.body)) {}

  // The launch, or undefined where it is not such.
  Stmt Run() {
    if (!FindParts() || !FindTurns() || !FindIssue() || !FindLoads() || !FindColumns()) return {};
    const SourceLoc loc = launch_.loc;
    done_ = ir::MakeBuffer("done", kInt64, {MakeInt(kPlaces)}, ir::Scope::kBarrier);
    free_ = ir::MakeBuffer("loaded", kInt64, {MakeInt(kPlaces)}, ir::Scope::kBarrier);
    std::vector<Stmt> out;
    for (size_t i = 0; i < stmts_.size(); ++i) {
      if (i == fetch_) {
        Fetch(&out);
        out.push_back(Issue());
      } else if (i == work_) {
        out.push_back(Work());
      } else {
        Outside(stmts_[i], &out);
      }
    }
    return ir::MakeStmt<ir::Launch>(loc, launch_.grid, launch_.threads,
                                    ir::MakeStmt<ir::Seq>(loc, std::move(out)),
                                    launch_.annotations);
  }

 private:
  const ir::OnThreads& fetch() const { return *stmts_[fetch_].As<ir::OnThreads>(); }
  const ir::OnThreads& work() const { return *stmts_[work_].As<ir::OnThreads>(); }

  // One part that fetches, one that has the products.
  bool FindParts() {
    size_t parts = 0;
    for (size_t i = 0; i < stmts_.size(); ++i) {
      if (stmts_[i].kind() != ir::StmtKind::kOnThreads) continue;
      ++parts;
      (Holds(stmts_[i], Instruction::kTcgen05Mma) ? work_ : fetch_) = i;
    }
    return parts == 2 && work_ == fetch_ + 1 && fetch().count >= kPlaces * kWarp &&
           work().count % kWarp == 0;
  }

  // The loop over tiles is the last thing that the part does, but for what ends stores.
  bool FindTurns() {
    const std::vector<Stmt> all = Flatten(work().body);
    for (size_t i = 0; i < all.size(); ++i) {
      const auto* loop = all[i].As<ir::For>();
      if (loop != nullptr && loop->annotations.count(kTilesApart) > 0 && turns_ == nullptr) {
        turns_ = loop;
        continue;
      }
      if (Holds(all[i], Instruction::kTcgen05Mma) || Holds(all[i], Instruction::kTcgen05Load)) {
        return false;
      }
      (turns_ == nullptr ? before_ : after_).push_back(all[i]);
    }
    return turns_ != nullptr && ir::IsConst(turns_->axes[0].min, 0);
  }

  // One warp's products, the wait of the others and the next one's parity; before them names.
  bool FindIssue() {
    turn_ = Flatten(turns_->body);
    for (size_t i = 0; i + 2 < turn_.size(); ++i) {
      if (turn_[i].kind() != ir::StmtKind::kOnThreads) continue;
      issue_ = i;
      const auto* wait = turn_[i + 1].As<ir::Instruct>();
      const auto* phase = turn_[i + 2].As<ir::Store>();
      if (!Is(turn_[i + 1], Instruction::kBarrierWait) || phase == nullptr) return false;
      ended_ = wait->regions[0].buffer;
      phase_ = phase->buffer;
      break;
    }
    for (size_t i = 0; i < issue_; ++i) {
      const auto* bind = turn_[i].As<ir::Bind>();
      if (bind == nullptr) continue;
      if (ReadsMemory(bind->value)) return false;
      names_.push_back(turn_[i]);
    }
    const auto multiplies = [](const Stmt& s) { return Holds(s, Instruction::kTcgen05Mma); };
    return ended_ != nullptr && std::count_if(turn_.begin(), turn_.end(), multiplies) == 1;
  }

  // Moves of tensor memory: loads after the products, each with its wait and fence.
  bool FindLoads() {
    for (size_t i = 0; i < turn_.size(); ++i) {
      if (Holds(turn_[i], Instruction::kTcgen05Store)) return false;
      if (!Holds(turn_[i], Instruction::kTcgen05Load)) continue;
      const bool straight = i > issue_ && i + 2 < turn_.size() &&
                            Is(turn_[i], Instruction::kTcgen05Load) &&
                            Is(turn_[i + 1], Instruction::kTcgen05Wait) &&
                            Is(turn_[i + 2], Instruction::kTcgen05Fence);
      if (!straight) return false;
      loaded_ = i + 2;
    }
    return loaded_ > 0;
  }

  bool FindColumns() {
    for (const Stmt& s : stmts_) {
      if (!Is(s, Instruction::kTcgen05Alloc)) continue;
      columns_ = ir::ConstInt(s.As<ir::Instruct>()->args[0]).value_or(0);
    }
    return columns_ > 0 && kPlaces * columns_ <= target::kTensorColumns;
  }

  // Two barriers a place instead of one in all, twice the columns.
  void Outside(const Stmt& s, std::vector<Stmt>* out) const {
    const auto* alloc = s.As<ir::Alloc>();
    const auto* x = s.As<ir::Instruct>();
    if (alloc != nullptr && alloc->buffer == phase_) return;
    if (alloc != nullptr && alloc->buffer == ended_) {
      out->push_back(ir::MakeStmt<ir::Alloc>(s->loc, done_));
      return out->push_back(ir::MakeStmt<ir::Alloc>(s->loc, free_));
    }
    if (Is(s, Instruction::kBarrierInit) && x->regions[0].buffer == ended_) {
      out->push_back(ir::MakeInstruct(s->loc, x->op, {ir::WholeBuffer(done_)}, {MakeInt(1)}));
      return out->push_back(ir::MakeInstruct(s->loc, x->op, {ir::WholeBuffer(free_)},
                                             {MakeInt(work().count / kWarp)}));
    }
    if (Is(s, Instruction::kTcgen05Alloc) || Is(s, Instruction::kTcgen05Free)) {
      std::vector<Expr> args = x->args;
      args.back() = MakeInt(kPlaces * columns_);
      return out->push_back(WithArgs(*x, std::move(args)));
    }
    out->push_back(s);
  }

  // One warp of the part fetches; what concerns its warpgroup is for all of it.
  void Fetch(std::vector<Stmt>* out) const {
    std::vector<Stmt> all, rest;
    for (const Stmt& s : Flatten(fetch().body)) {
      (Is(s, Instruction::kMaxRegisters) ? all : rest).push_back(s);
    }
    const SourceLoc loc = stmts_[fetch_]->loc;
    if (!all.empty()) {
      out->push_back(ir::MakeStmt<ir::OnThreads>(loc, fetch().first, fetch().count,
                                                 ir::MakeSeq(std::move(all), loc)));
    }
    out->push_back(ir::MakeStmt<ir::OnThreads>(loc, fetch().first, kWarp,
                                               ir::MakeStmt<ir::Seq>(loc, std::move(rest))));
  }

  // Of the turn's sums: which place, and the parity of its use.
  Expr Place() const { return FloorMod(turns_->axes[0].var, MakeInt(kPlaces)); }
  Expr Parity() const {
    const Expr use = FloorDiv(turns_->axes[0].var, MakeInt(kPlaces));
    return ir::MakeCast(kInt32, FloorMod(use, MakeInt(2)));
  }
  ir::Region At(const ir::Buffer& barriers) const { return {barriers, {{Place(), MakeInt(1)}}}; }

  // The instruction at the turn's place, committed to its barrier.
  Stmt Placed(const Stmt& s) const {
    return ir::RewriteStmts(s, [&](const Stmt& y) -> Stmt {
      const auto* x = y.As<ir::Instruct>();
      if (Is(y, Instruction::kTcgen05Mma) || Is(y, Instruction::kTcgen05Load)) {
        std::vector<Expr> args = x->args;
        args.back() = args.back() + ir::MakeCast(kInt32, Place() * MakeInt(columns_));
        return WithArgs(*x, std::move(args));
      }
      if (Is(y, Instruction::kTcgen05Commit) && x->regions[0].buffer == ended_) {
        return ir::MakeInstruct(y->loc, x->op, {At(done_)}, {});
      }
      return {};
    });
  }

  Stmt Issue() const {
    const SourceLoc loc = turn_[issue_]->loc;
    std::vector<Stmt> turn = names_;
    // A fresh barrier counts as one whose phase 1 is over.
    turn.push_back(ir::MakeInstruct(loc, Instruction::kBarrierWait, {At(free_)},
                                    {MakeInt(1, kInt32) - Parity()}));
    turn.push_back(ir::MakeInstruct(loc, Instruction::kTcgen05Fence, {}, {MakeInt(1)}));
    turn.push_back(Placed(turn_[issue_].As<ir::OnThreads>()->body));
    const Stmt loop = ir::MakeStmt<ir::For>(loc, turns_->loop, turns_->axes,
                                            ir::MakeStmt<ir::Seq>(loc, std::move(turn)), Expr(),
                                            turns_->annotations);
    return ir::MakeStmt<ir::OnThreads>(loc, fetch().first + kWarp, kWarp, FreshCopy(loop));
  }

  Stmt Work() const {
    const SourceLoc loc = stmts_[work_]->loc;
    std::vector<Stmt> turn;
    for (size_t i = 0; i < turn_.size(); ++i) {
      if (i == issue_ || i == issue_ + 2) continue;
      if (i == issue_ + 1) {
        turn.push_back(ir::MakeInstruct(loc, Instruction::kBarrierWait, {At(done_)}, {Parity()}));
      } else {
        turn.push_back(Placed(turn_[i]));
      }
      if (i == loaded_)
        turn.push_back(ir::MakeInstruct(loc, Instruction::kBarrierArrive, {At(free_)}, {}));
    }
    std::vector<Stmt> all = before_;
    all.push_back(ir::MakeStmt<ir::For>(loc, turns_->loop, turns_->axes,
                                        ir::MakeStmt<ir::Seq>(loc, std::move(turn)), Expr(),
                                        turns_->annotations));
    all.insert(all.end(), after_.begin(), after_.end());
    return ir::MakeStmt<ir::OnThreads>(loc, work().first, work().count,
                                       ir::MakeStmt<ir::Seq>(loc, std::move(all)));
  }

  const ir::Launch& launch_;
  const std::vector<Stmt> stmts_;
  size_t fetch_ = 0, work_ = 0;       // of the statements
  std::vector<Stmt> before_, after_;  // of the loop over tiles
  const ir::For* turns_ = nullptr;
  std::vector<Stmt> turn_, names_;  // a turn; the names that its products use
  size_t issue_ = 0, loaded_ = 0;   // of the turn
  ir::Buffer ended_, phase_;        // as it is: one barrier, and its parity
  ir::Buffer done_, free_;          // as it will be
  int64_t columns_ = 0;             // of one place
};

}  // namespace

absl::StatusOr<ir::Program> IssueApart(const ir::Program& program, const PassContext&) {
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [](const Stmt& s) -> Stmt {
    const auto* launch = s.As<ir::Launch>();
    return launch != nullptr ? Apart(*launch).Run() : Stmt();
  });
  return out;
}

}  // namespace kiln::passes

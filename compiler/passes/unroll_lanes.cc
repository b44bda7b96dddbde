#include "compiler/passes/unroll_lanes.h"

#include <algorithm>
#include <set>

#include "compiler/ir/analysis.h"
#include "compiler/passes/async_lanes.h"
#include "compiler/passes/build.h"
#include "compiler/passes/memory_access.h"
#include "compiler/passes/neighbours.h"
#include "compiler/passes/tile_versions.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;

bool IsMemory(const ir::Buffer& b) {
  return b->scope == ir::Scope::kGlobal || b->scope == ir::Scope::kShared;
}

// Elements of the widest access of what the loop's body moves; 1: it touches registers alone. 0: it
// computes with what is in shared memory, which would wait in registers.
int64_t LanesOf(const ir::For& loop) {
  int64_t lanes = 1;
  bool moves = false, touches = false;
  const auto touch = [&](const ir::Buffer& b, bool stores) {
    if (!IsMemory(b)) return;
    touches = true;
    moves |= stores || b->scope == ir::Scope::kGlobal;
    lanes = std::max<int64_t>(lanes, kVectorBytes / b->dtype.bytes());
  };
  ir::Walk(
      loop.body,
      [&](const Stmt& s) {
        if (const auto* store = s.As<ir::Store>()) touch(store->buffer, true);
        if (const auto* atomic = s.As<ir::Atomic>()) touch(atomic->dst.buffer, true);
        return true;
      },
      [&](const Expr& e) {
        if (const auto* load = e.As<ir::Load>()) touch(load->buffer, false);
        return true;
      });
  return moves ? lanes : touches ? 0 : 1;
}

// Binds, stores and conditions around them: nothing that declares or jumps.
bool IsPlain(const Stmt& body) {
  bool plain = true;
  ir::Walk(body, [&](const Stmt& s) {
    plain &= s.kind() == ir::StmtKind::kSeq || s.kind() == ir::StmtKind::kBind ||
             s.kind() == ir::StmtKind::kStore || s.kind() == ir::StmtKind::kIf ||
             s.kind() == ir::StmtKind::kAtomic;
    return plain;
  });
  return plain;
}

// Lanes, one after the other: names are replaced by what they stand for, unless that is large.
class Lanes : public FactsMutator {
 public:
  Lanes(const ir::Facts& facts, int64_t lanes) : lanes_(lanes) { facts_ = facts; }

  // The body of a loop over `var` where that is `lane`.
  Stmt Of(const Stmt& body, const Expr& var, const Expr& lane) {
    names_ = {{var.get(), lane}};
    return Mutate(ir::FreshCopy(body));
  }

 protected:
  Expr VisitExpr(const Expr& e) override {
    const auto* load = e.As<ir::Load>();
    if (load == nullptr) return RebuildExpr(e);
    return ir::MakeLoad(load->buffer, Indices(load->indices), Guard(load->predicate));
  }
  Stmt VisitStmt(const Stmt& s) override {
    if (const auto* bind = s.As<ir::Bind>()) {
      const Expr value = Named(bind->value);
      if (!value.dtype().is_int() || ir::IsLarge(value) || ReadsMemory(value)) {
        return ir::MakeStmt<ir::Bind>(s->loc, bind->var, Mutate(value));
      }
      names_[bind->var.get()] = facts_.Simplify(value);
      return ir::MakeSeq({}, s->loc);
    }
    if (const auto* store = s.As<ir::Store>()) {
      return ir::MakeStmt<ir::Store>(s->loc, store->buffer, Indices(store->indices),
                                     Mutate(Named(store->value)), Guard(store->predicate),
                                     store->way);
    }
    if (const auto* atomic = s.As<ir::Atomic>()) {
      ir::Region dst = atomic->dst;
      for (ir::Range& range : dst.ranges) range.min = facts_.Simplify(Mutate(Named(range.min)));
      return ir::MakeStmt<ir::Atomic>(s->loc, atomic->op, std::move(dst), ir::Region{},
                                      Mutate(Named(atomic->value)), atomic->way);
    }
    if (const auto* branch = s.As<ir::If>()) {
      return ir::MakeStmt<ir::If>(s->loc, Mutate(Named(branch->condition)),
                                  Mutate(branch->then_case),
                                  branch->else_case.defined() ? Mutate(branch->else_case) : Stmt());
    }
    return FactsMutator::VisitStmt(s);
  }

 private:
  Expr Named(const Expr& e) const { return ir::Substitute(e, names_); }
  Expr Guard(const Expr& predicate) {
    return predicate.defined()
               ? CoarseGuard(facts_.Simplify(Mutate(Named(predicate))), lanes_, facts_)
               : Expr();
  }
  std::vector<Expr> Indices(const std::vector<Expr>& indices) {
    std::vector<Expr> out;
    for (const Expr& index : indices) out.push_back(facts_.Simplify(Mutate(Named(index))));
    return out;
  }

  ir::VarMap names_;
  const int64_t lanes_;
};

bool Has(const Stmt& s, ir::StmtKind kind) {
  bool found = false;
  ir::Walk(s, [&](const Stmt& x) {
    found |= x.kind() == kind;
    return !found;
  });
  return found;
}

// The one guard of all accesses of some statements; undefined where there is none, or several.
Expr OnlyGuard(const std::vector<Stmt>& stmts) {
  Expr only;
  bool several = false;
  const auto note = [&](const Expr& guard) {
    if (!guard.defined()) return;
    several |= only.defined() && !ir::Same(only, guard);
    only = guard;
  };
  for (const Stmt& s : stmts) {
    ir::Walk(
        s,
        [&](const Stmt& x) {
          if (const auto* store = x.As<ir::Store>()) note(store->predicate);
          return true;
        },
        [&](const Expr& e) {
          if (const auto* load = e.As<ir::Load>()) note(load->predicate);
          return true;
        });
  }
  return several ? Expr() : only;
}

// What is left where no guard holds: nothing is stored under one, what is loaded under one is zero.
class Refuse : public ir::Mutator {
 protected:
  Stmt VisitStmt(const Stmt& s) override {
    const auto* store = s.As<ir::Store>();
    if (store != nullptr && store->predicate.defined()) return ir::MakeSeq({}, s->loc);
    return RebuildStmt(s);
  }
  Expr VisitExpr(const Expr& e) override {
    const auto* load = e.As<ir::Load>();
    if (load != nullptr && load->predicate.defined()) return ir::MakeConst(0, e.dtype());
    return RebuildExpr(e);
  }
};

// Neighbours with one guard, each.
std::vector<std::vector<Stmt>> ByGuard(const std::vector<Stmt>& lanes) {
  std::vector<std::vector<Stmt>> groups;
  Expr last;
  for (const Stmt& lane : lanes) {
    const Expr guard = OnlyGuard({lane});
    const bool joins = !groups.empty() && guard.defined() == last.defined() &&
                       (!guard.defined() || ir::Same(guard, last));
    if (!joins) groups.emplace_back();
    groups.back().push_back(lane);
    last = guard;
  }
  return groups;
}

// Whether `e` names something that the statements bind.
bool NamesBound(const Expr& e, const Stmt& stmts) {
  bool names = false;
  ir::Walk(stmts, [&](const Stmt& s) {
    const auto* bind = s.As<ir::Bind>();
    names |= bind != nullptr && ir::Uses(e, bind->var);
    return !names;
  });
  return names;
}

Stmt AskOnce(std::vector<Stmt> lanes, SourceLoc loc) {
  const Expr guard = OnlyGuard(lanes);
  const Stmt all = ir::MakeSeq(std::move(lanes), loc);
  // What the guard reads, a lane may write; what it names, a lane may bind.
  if (!guard.defined() || ReadsMemory(guard) || NamesBound(guard, all)) return all;
  const Stmt refused = Refuse().Mutate(all);
  const bool left = Has(refused, ir::StmtKind::kStore) || Has(refused, ir::StmtKind::kAtomic);
  return ir::MakeStmt<ir::If>(loc, guard, DropGuards().Mutate(all),
                              left ? ir::FreshCopy(refused) : Stmt());
}

bool Joins(const std::set<const ir::BufferNode*>& a, const std::set<const ir::BufferNode*>& b) {
  return std::any_of(a.begin(), a.end(), [&](const auto* x) { return b.count(x) > 0; });
}

// Stores to shared memory after all that the lanes load from other tiles of it: one that stands
// between two loads, of which a back end knows only that it may write what the second reads, keeps
// both it and them from being parts of wide accesses.
std::vector<Stmt> LoadsFirst(std::vector<Stmt> lanes) {
  std::set<const ir::BufferNode*> stored, loaded;
  bool plain = true;
  const auto shared = [](const ir::Buffer& b) { return b->scope == ir::Scope::kShared; };
  for (const Stmt& lane : lanes) {
    ir::Walk(
        lane,
        [&](const Stmt& s) {
          plain &= s.kind() != ir::StmtKind::kIf && s.kind() != ir::StmtKind::kAtomic;
          const auto* store = s.As<ir::Store>();
          if (store == nullptr || !shared(store->buffer)) return true;
          stored.insert(store->buffer.get());
          plain &= store->way == ir::StoreWay::kPlain && !store->predicate.defined();
          for (const Expr& index : store->indices) plain &= !ReadsMemory(index);
          return true;
        },
        [&](const Expr& e) {
          const auto* load = e.As<ir::Load>();
          if (load != nullptr && shared(load->buffer)) loaded.insert(load->buffer.get());
          return true;
        });
  }
  if (!plain || lanes.size() < 2 || stored.empty() || loaded.empty() || Joins(stored, loaded)) {
    return lanes;
  }
  std::vector<Stmt> first, last;
  for (const Stmt& lane : lanes) {
    ir::Walk(lane, [&](const Stmt& s) {
      const auto* store = s.As<ir::Store>();
      if (store != nullptr && shared(store->buffer)) {
        const Expr value = ir::MakeVar("value", store->value.dtype());
        first.push_back(ir::MakeStmt<ir::Bind>(s->loc, value, store->value));
        last.push_back(ir::MakeStmt<ir::Store>(s->loc, store->buffer, store->indices, value));
      } else if (s.kind() != ir::StmtKind::kSeq) {
        first.push_back(s);
      }
      return true;
    });
  }
  first.insert(first.end(), last.begin(), last.end());
  return first;
}

class Unroll : public FactsMutator {
 protected:
  Stmt VisitStmt(const Stmt& s) override {
    const auto* loop = s.As<ir::For>();
    if (loop == nullptr) return FactsMutator::VisitStmt(s);
    if (loop->loop == ir::ForKind::kThreads) {
      in_threads_ = true;
      const Stmt threads = FactsMutator::VisitStmt(s);
      in_threads_ = false;
      return threads;
    }
    const int64_t steps = ir::ConstInt(loop->axes[0].extent).value_or(0);
    int64_t lanes = loop->annotations.count(kUnrollWhole) > 0 ? steps : LanesOf(*loop);
    if (lanes > 0 && steps % lanes != 0) lanes = 1;
    if (!in_threads_ || loop->loop != ir::ForKind::kSerial || steps == 0 || lanes == 0 ||
        !ir::IsConst(loop->axes[0].min, 0) || !IsPlain(loop->body)) {
      return FactsMutator::VisitStmt(s);
    }
    return SerialLoop("step", MakeInt(steps / lanes), s->loc, [&](const Expr& step) {
      ir::Facts facts = facts_;
      if (step.kind() == ir::ExprKind::kVar) {
        facts.AddAxis({step, MakeInt(0), MakeInt(steps / lanes)});
      }
      Lanes each(facts, lanes);
      std::vector<Stmt> copies;
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const Expr own = step * MakeInt(lanes) + MakeInt(lane);
        copies.push_back(each.Of(loop->body, loop->axes[0].var, own));
      }
      const Stmt async = AsyncCopies(copies, facts);
      if (async.defined()) return async;
      std::vector<Stmt> groups;
      for (std::vector<Stmt>& group : ByGuard(copies)) {
        groups.push_back(AskOnce(LoadsFirst(std::move(group)), s->loc));
      }
      return ir::MakeSeq(std::move(groups), s->loc);
    });
  }

 private:
  bool in_threads_ = false;
};

}  // namespace

absl::StatusOr<ir::Program> UnrollLanes(const ir::Program& program, const PassContext&) {
  ir::Program out = program;
  out.body = Unroll().Mutate(program.body);
  return out;
}

}  // namespace kiln::passes

#include "compiler/passes/version_loops.h"

#include <optional>
#include <unordered_set>

#include "compiler/passes/build.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;

// What must hold of a block so that no guard of a loop over threads ever fails.
class Inside : public FactsMutator {
 public:
  Inside(const Stmt& loop, const ir::Facts& facts) {
    facts_ = facts;
    ir::Walk(loop, [&](const Stmt& s) {
      if (const auto* f = s.As<ir::For>()) {
        for (const ir::Axis& axis : f->axes) own_.insert(axis.var.get());
      }
      if (const auto* bind = s.As<ir::Bind>()) own_.insert(bind->var.get());
      return true;
    });
  }

  // Undefined where there is no guard, or one that cannot be asked of the block.
  Expr Of(const Stmt& loop) {
    Mutate(loop);
    return possible_ ? condition_ : Expr();
  }

 protected:
  Stmt VisitStmt(const Stmt& s) override {
    if (const auto* store = s.As<ir::Store>(); store != nullptr && store->predicate.defined()) {
      Require(store->predicate);
    }
    return FactsMutator::VisitStmt(s);
  }
  Expr VisitExpr(const Expr& e) override {
    if (const auto* load = e.As<ir::Load>(); load != nullptr && load->predicate.defined()) {
      Require(load->predicate);
    }
    return RebuildExpr(e);
  }

 private:
  void Require(const Expr& guard) {
    if (!possible_) return;
    const auto* b = guard.As<ir::Binary>();
    if (b != nullptr && b->op == ir::BinaryOp::kAnd) {
      Require(b->a);
      return Require(b->b);
    }
    const Expr positive = ir::PositiveForm(guard);
    possible_ = positive.defined();
    if (possible_) RequirePositive(positive);
  }

  // e = what the block knows + what the loop adds: the least of the latter is a number.
  void RequirePositive(const Expr& e) {
    ir::LinearForm of_block, of_loop;
    const ir::LinearForm form = facts_.Expand(e);
    of_block.constant = form.constant;
    for (const auto& term : form.terms) {
      (IsOwn(term.first) ? of_loop : of_block).terms.push_back(term);
    }
    const auto bounds = facts_.BoundsOf(of_loop);
    possible_ &=
        bounds && !__builtin_add_overflow(of_block.constant, bounds->min, &of_block.constant);
    if (!possible_) return;
    const DType type = e.dtype();
    const Expr positive = ir::FromLinear(of_block, type) > MakeInt(0, type);
    if (facts_.Proves(positive)) return;
    for (const Expr& known : conditions_) {
      if (ir::Same(known, positive)) return;
    }
    conditions_.push_back(positive);
    condition_ = ir::AndPredicate(condition_, positive);
  }

  bool IsOwn(const Expr& e) const {
    bool own = false;
    ir::Walk(e, [&](const Expr& x) {
      own |= own_.count(x.get()) > 0 || x.kind() == ir::ExprKind::kLoad;
      return !own;
    });
    return own;
  }

  std::unordered_set<const ir::ExprNode*> own_;  // variables of the loop
  std::vector<Expr> conditions_;
  Expr condition_;
  bool possible_ = true;
};

class Version : public FactsMutator {
 protected:
  Stmt VisitStmt(const Stmt& s) override {
    const auto* loop = s.As<ir::For>();
    if (loop == nullptr || loop->loop != ir::ForKind::kThreads) return FactsMutator::VisitStmt(s);
    const Expr inside = Inside(s, facts_).Of(s);
    if (!inside.defined()) return s;
    return ir::MakeStmt<ir::If>(s->loc, inside, ir::FreshCopy(DropGuards().Mutate(s)), s);
  }
};

}  // namespace

absl::StatusOr<ir::Program> VersionLoops(const ir::Program& program, const PassContext&) {
  ir::Program out = program;
  out.body = Version().Mutate(program.body);
  return out;
}

}  // namespace kiln::passes

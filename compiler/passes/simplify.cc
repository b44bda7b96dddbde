#include "compiler/passes/simplify.h"

#include "compiler/ir/visit.h"
#include "compiler/passes/build.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

bool IsEmpty(const Stmt& s) {
  const auto* seq = s.As<ir::Seq>();
  return seq != nullptr && seq->stmts.empty();
}

class Simplifier : public FactsMutator {
 protected:
  Expr VisitExpr(const Expr& e) override {
    if (e.kind() == ir::ExprKind::kIntImm || e.kind() == ir::ExprKind::kFloatImm ||
        e.kind() == ir::ExprKind::kVar) {
      return e;
    }
    return facts_.Simplify(e);
  }

  Stmt VisitStmt(const Stmt& s) override {
    const Stmt rebuilt = FactsMutator::VisitStmt(s);
    if (const auto* branch = rebuilt.As<ir::If>()) return FoldIf(rebuilt, *branch);
    if (const auto* loop = rebuilt.As<ir::For>()) return FoldFor(rebuilt, *loop);
    if (const auto* store = rebuilt.As<ir::Store>()) return FoldStore(rebuilt, *store);
    return rebuilt;
  }

 private:
  Stmt FoldIf(const Stmt& s, const ir::If& branch) {
    const auto known = ir::ConstInt(branch.condition);
    if (!known.has_value()) return s;
    if (*known != 0) return branch.then_case;
    return branch.else_case.defined() ? branch.else_case : ir::MakeSeq({}, s->loc);
  }

  Stmt FoldFor(const Stmt& s, const ir::For& loop) {
    for (const ir::Axis& axis : loop.axes) {
      const auto extent = ir::ConstInt(axis.extent);
      if (extent.has_value() && *extent <= 0) return ir::MakeSeq({}, s->loc);
    }
    if (IsEmpty(loop.body)) return loop.body;
    const bool plain = loop.loop == ir::ForKind::kSerial || loop.loop == ir::ForKind::kUnroll;
    if (plain && ir::IsConst(loop.axes[0].extent, 1) && !ir::Leaves(loop.body)) {
      return Mutate(ir::Substitute(loop.body, {{loop.axes[0].var.get(), loop.axes[0].min}}));
    }
    return s;
  }

  Stmt FoldStore(const Stmt& s, const ir::Store& store) {
    if (!store.predicate.defined()) return s;
    if (const auto* same = store.predicate.As<ir::Broadcast>()) {  // for all lanes: one branch
      return ir::MakeStmt<ir::Store>(s->loc, store.buffer, store.indices, store.value, same->a,
                                     store.way);
    }
    const auto known = ir::ConstInt(store.predicate);
    if (!known.has_value()) return s;
    if (*known == 0) return ir::MakeSeq({}, s->loc);
    return ir::MakeStmt<ir::Store>(s->loc, store.buffer, store.indices, store.value, Expr(),
                                   store.way);
  }
};

}  // namespace

absl::StatusOr<ir::Program> Simplify(const ir::Program& program, const PassContext&) {
  ir::Program out = program;
  out.body = Simplifier().Mutate(program.body);
  return out;
}

}  // namespace kiln::passes

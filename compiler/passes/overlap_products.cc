#include "compiler/passes/overlap_products.h"

#include "compiler/ir/visit.h"
#include "compiler/passes/product_loops.h"
#include "compiler/passes/tile_versions.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Instruction;
using ir::MakeInt;
using ir::Stmt;

// The statements of a loop's body, where they are as the pass needs them: binds, waits for
// barriers, one product and its wait, arrivals, in this order.
struct Body {
  std::vector<Stmt> before;  // up to and with the product
  Stmt wait;
  std::vector<Stmt> arrivals;
};

bool Match(const Stmt& loop_body, Body* body) {
  const std::vector<Stmt> stmts = Flatten(loop_body);
  size_t i = 0;
  while (i < stmts.size() &&
         (stmts[i].kind() == ir::StmtKind::kBind || Is(stmts[i], Instruction::kBarrierWait))) {
    body->before.push_back(stmts[i++]);
  }
  if (i + 1 >= stmts.size() || !Is(stmts[i], Instruction::kWgmma) ||
      !Is(stmts[i + 1], Instruction::kWgmmaWait)) {
    return false;
  }
  body->before.push_back(stmts[i]);
  body->wait = stmts[i + 1];
  for (i += 2; i < stmts.size(); ++i) {
    // With one version of the tiles the next product would wait for this one's to be handed back.
    if (!Is(stmts[i], Instruction::kBarrierArrive) || !HasVersions(stmts[i])) return false;
    body->arrivals.push_back(stmts[i]);
  }
  return true;
}

Stmt Overlap(const Stmt& s) {
  const auto* loop = s.As<ir::For>();
  Body body;
  if (loop == nullptr || loop->loop != ir::ForKind::kSerial || !Match(loop->body, &body)) return {};
  const ir::Axis& axis = loop->axes[0];
  if (ReadsMemory(axis.min) || ReadsMemory(axis.extent)) return {};
  const Expr one = MakeInt(1, axis.var.dtype());
  std::vector<Stmt> stmts = body.before;
  stmts.push_back(WaitForProducts(s->loc, {}, 1));  // nobody looks at the sums of the one before
  std::vector<Stmt> after = {body.wait};
  if (!body.arrivals.empty()) {
    stmts.push_back(ir::MakeStmt<ir::If>(s->loc, axis.var > axis.min,
                                         At(body.arrivals, axis, axis.var - one, s->loc)));
    const Expr ran = axis.extent > MakeInt(0, axis.extent.dtype());
    const Stmt last = At(body.arrivals, axis, axis.min + axis.extent - one, s->loc);
    after.push_back(ir::IsConst(ran, 1) ? last : ir::MakeStmt<ir::If>(s->loc, ran, last));
  }
  const Stmt overlapped = ir::MakeStmt<ir::For>(s->loc, loop->loop, loop->axes,
                                                ir::MakeStmt<ir::Seq>(s->loc, std::move(stmts)));
  after.insert(after.begin(), overlapped);
  return ir::MakeSeq(std::move(after), s->loc);
}

}  // namespace

absl::StatusOr<ir::Program> OverlapProducts(const ir::Program& program, const PassContext&) {
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, Overlap);
  return out;
}

}  // namespace kiln::passes

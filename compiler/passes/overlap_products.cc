#include "compiler/passes/overlap_products.h"

#include "compiler/ir/instruct.h"
#include "compiler/ir/visit.h"

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

void Flatten(const Stmt& s, std::vector<Stmt>* out) {
  const auto* seq = s.As<ir::Seq>();
  if (seq == nullptr) return out->push_back(s);
  for (const Stmt& child : seq->stmts) Flatten(child, out);
}

bool Is(const Stmt& s, Instruction op) {
  const auto* x = s.As<ir::Instruct>();
  return x != nullptr && x->op == op;
}

bool Match(const Stmt& loop_body, Body* body) {
  std::vector<Stmt> stmts;
  Flatten(loop_body, &stmts);
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
    if (!Is(stmts[i], Instruction::kBarrierArrive)) return false;
    // With one version of the tiles the next product would wait for this one's to be handed back.
    const ir::Buffer& versions = stmts[i].As<ir::Instruct>()->regions[0].buffer;
    if (ir::ConstInt(versions->shape[0]).value_or(1) < 2) return false;
    body->arrivals.push_back(stmts[i]);
  }
  return true;
}

Stmt Wait(SourceLoc loc, int64_t left) {
  return ir::MakeStmt<ir::Instruct>(loc, Instruction::kWgmmaWait, std::vector<ir::Region>{},
                                    std::vector<Expr>{MakeInt(left)});
}

Stmt Overlap(const Stmt& s) {
  const auto* loop = s.As<ir::For>();
  Body body;
  if (loop == nullptr || loop->loop != ir::ForKind::kSerial || !Match(loop->body, &body)) return {};
  const ir::Axis& axis = loop->axes[0];
  const auto arrivals_of = [&](const Expr& step) {
    std::vector<Stmt> arrivals;
    for (const Stmt& arrival : body.arrivals) {
      arrivals.push_back(ir::Substitute(arrival, {{axis.var.get(), step}}));
    }
    return ir::MakeSeq(std::move(arrivals), s->loc);
  };
  const Expr one = MakeInt(1, axis.var.dtype());
  std::vector<Stmt> stmts = body.before;
  stmts.push_back(Wait(s->loc, 1));
  std::vector<Stmt> after = {Wait(s->loc, 0)};
  if (!body.arrivals.empty()) {
    stmts.push_back(ir::MakeStmt<ir::If>(s->loc, axis.var > axis.min, arrivals_of(axis.var - one)));
    const Expr ran = axis.extent > MakeInt(0, axis.extent.dtype());
    const Stmt last = arrivals_of(axis.min + axis.extent - one);
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

#include "compiler/passes/first_product.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/sums.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/build.h"
#include "compiler/passes/tile_versions.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

// The first product clears where `first` holds. `outer`: the loop `s` is known to run.
Stmt Clearing(const Stmt& s, const ir::Buffer& sums, const Expr& first, bool outer) {
  if (const ir::Gemm* gemm = ir::ProductOn(s, sums)) {
    const Expr clear = ir::IsConst(first, 1) ? first : gemm->clear_accum || first;
    return ir::MakeStmt<ir::Gemm>(gemm->loc, gemm->a, gemm->b, gemm->c, gemm->trans_a,
                                  gemm->trans_b, gemm->policy, clear, gemm->e, gemm->trans_e);
  }
  if (const auto* seq = s.As<ir::Seq>()) {
    std::vector<Stmt> stmts = seq->stmts;
    const auto child = std::find_if(stmts.begin(), stmts.end(),
                                    [&](const Stmt& x) { return ir::HasProductOn(x, sums); });
    *child = Clearing(*child, sums, first, outer);
    return child->defined() ? ir::MakeStmt<ir::Seq>(s->loc, std::move(stmts)) : Stmt();
  }
  const auto* loop = s.As<ir::For>();
  if (loop == nullptr) return {};
  const ir::Axis& axis = loop->axes[0];
  if (!outer && ir::ConstInt(axis.extent).value_or(0) < 1) return {};
  const Expr here = Equal(axis.var, axis.min);
  const Stmt body =
      Clearing(loop->body, sums, ir::IsConst(first, 1) ? here : first && here, /*outer=*/false);
  if (!body.defined()) return {};
  return ir::MakeStmt<ir::For>(loop->loc, loop->loop, loop->axes, body, loop->num_stages,
                               loop->annotations);
}

// Of the first product in `s`: what its clearing is then, with the values of loops at their first
// turn; undefined where it is not known which product that is.
Expr FirstClear(const Stmt& s, const ir::Buffer& sums, const ir::VarMap& turn, bool outer) {
  if (const ir::Gemm* gemm = ir::ProductOn(s, sums)) {
    return gemm->clear_accum.defined() ? ir::Substitute(gemm->clear_accum, turn) : Expr();
  }
  if (const auto* seq = s.As<ir::Seq>()) {
    const auto child =
        absl::c_find_if(seq->stmts, [&](const Stmt& x) { return ir::HasProductOn(x, sums); });
    return FirstClear(*child, sums, turn, outer);
  }
  const auto* loop = s.As<ir::For>();
  if (loop == nullptr) return {};
  const ir::Axis& axis = loop->axes[0];
  if (!outer && ir::ConstInt(axis.extent).value_or(0) < 1) return {};
  ir::VarMap first = turn;
  first[axis.var.get()] = ir::Substitute(axis.min, turn);
  return FirstClear(loop->body, sums, first, /*outer=*/false);
}

// Whether it sets all of the fragment to zero.
bool Clears(const Stmt& s, const ir::Buffer& sums) {
  const auto* fill = s.As<ir::Fill>();
  if (fill == nullptr || fill->dst.buffer != sums || !CoversWhole(fill->dst)) return false;
  const auto number = ir::ConstFloat(fill->value);
  return ir::IsConst(fill->value, 0) || (number && *number == 0);
}

}  // namespace

size_t FindClear(const std::vector<Stmt>& before, const ir::Buffer& sums) {
  for (size_t i = before.size(); i-- > 0;) {
    if (Clears(before[i], sums)) return i;
    if (Uses({before[i]}, sums) || ir::HasJump(before[i])) break;
  }
  return before.size();
}

bool ProductsRun(const Stmt& s, Expr* runs) {
  const auto* loop = s.As<ir::For>();
  if (loop == nullptr) return s.kind() == ir::StmtKind::kGemm;
  const Expr& extent = loop->axes[0].extent;
  if (ReadsMemory(extent)) return false;
  const Expr some = extent > ir::MakeInt(0, extent.dtype());
  if (!ir::IsConst(some, 1)) *runs = some;
  return true;
}

bool StartsFromZero(const Stmt& s, const ir::Buffer& sums) {
  if (ir::HasJump(s)) return false;
  const Expr clear = FirstClear(s, sums, {}, /*outer=*/true);
  return clear.defined() && ir::IsConst(ir::Facts().Simplify(clear), 1);
}

Stmt WithFirstClearing(const Stmt& s, const ir::Buffer& sums) {
  return ir::HasJump(s) ? Stmt() : Clearing(s, sums, ir::MakeBool(true), /*outer=*/true);
}

}  // namespace kiln::passes

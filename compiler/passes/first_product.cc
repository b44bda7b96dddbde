#include "compiler/passes/first_product.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/functional/function_ref.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/sums.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/build.h"
#include "compiler/passes/tile_versions.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

// What becomes of the first product, given the loops around it, the outermost first.
using Change =
    absl::FunctionRef<Stmt(const ir::Gemm& gemm, const std::vector<const ir::For*>& loops)>;

// `s` with its first product changed; undefined where it is not known which one that is, and where
// `change` gives nothing. Of the loops only the outermost is known to run.
Stmt WithFirst(const Stmt& s, const ir::Buffer& sums, std::vector<const ir::For*>* loops,
               Change change) {
  if (const ir::Gemm* gemm = ir::ProductOn(s, sums)) return change(*gemm, *loops);
  if (const auto* seq = s.As<ir::Seq>()) {
    std::vector<Stmt> stmts = seq->stmts;
    const auto child =
        absl::c_find_if(stmts, [&](const Stmt& x) { return ir::HasProductOn(x, sums); });
    *child = WithFirst(*child, sums, loops, change);
    return child->defined() ? ir::MakeStmt<ir::Seq>(s->loc, std::move(stmts)) : Stmt();
  }
  const auto* loop = s.As<ir::For>();
  if (loop == nullptr) return {};
  if (!loops->empty() && ir::ConstInt(loop->axes[0].extent).value_or(0) < 1) return {};
  loops->push_back(loop);
  const Stmt body = WithFirst(loop->body, sums, loops, change);
  if (!body.defined()) return {};
  return ir::MakeStmt<ir::For>(loop->loc, loop->loop, loop->axes, body, loop->num_stages,
                               loop->annotations);
}

Stmt WithFirst(const Stmt& s, const ir::Buffer& sums, Change change) {
  std::vector<const ir::For*> loops;
  return ir::HasJump(s) ? Stmt() : WithFirst(s, sums, &loops, change);
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
  bool zero = false;
  WithFirst(s, sums, [&](const ir::Gemm& gemm, const std::vector<const ir::For*>& loops) -> Stmt {
    ir::VarMap first;
    for (const ir::For* loop : loops) {
      first[loop->axes[0].var.get()] = ir::Substitute(loop->axes[0].min, first);
    }
    const Expr clear = ir::Substitute(gemm.clear_accum, first);
    zero = ir::IsConst(ir::Facts().Simplify(clear), 1);
    return {};
  });
  return zero;
}

Stmt WithFirstClearing(const Stmt& s, const ir::Buffer& sums) {
  return WithFirst(s, sums, [](const ir::Gemm& gemm, const std::vector<const ir::For*>& loops) {
    Expr first = ir::MakeBool(true);
    for (const ir::For* loop : loops) {
      const Expr here = Equal(loop->axes[0].var, loop->axes[0].min);
      first = ir::IsConst(first, 1) ? here : first && here;
    }
    const Expr clear = loops.empty() ? first : gemm.clear_accum || first;
    return ir::MakeStmt<ir::Gemm>(gemm.loc, gemm.a, gemm.b, gemm.c, gemm.trans_a, gemm.trans_b,
                                  gemm.policy, clear, gemm.e, gemm.trans_e);
  });
}

}  // namespace kiln::passes

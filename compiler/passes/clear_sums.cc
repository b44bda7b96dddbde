#include "compiler/passes/clear_sums.h"

#include <algorithm>
#include <optional>

#include "compiler/ir/shape.h"
#include "compiler/ir/sums.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/first_product.h"
#include "compiler/passes/infer_layouts.h"
#include "compiler/target/legality.h"

namespace kiln::passes {
namespace {

using ir::Stmt;

class ClearLaunch {
 public:
  ClearLaunch(const ir::Program& program, const ir::Launch& launch, const target::Arch& arch)
      : program_(program),
        launch_(launch),
        arch_(arch),
        threads_(ir::ThreadsOf(launch).value_or(0)) {}

  // Undefined where nothing changes.
  Stmt Run() const {
    Stmt body = launch_.body;
    for (const ir::Buffer& sums : Results()) {
      const ir::Launch now(launch_.loc, launch_.grid, launch_.threads, body, launch_.annotations);
      const ir::SumsRange where = ir::FindSums(now, sums);
      if (where.seq == nullptr) continue;
      body = ir::RewriteStmts(body, [&](const Stmt& s) -> Stmt {
        return s.get() == where.seq ? Without(where, sums) : Stmt();
      });
    }
    if (body.same_as(launch_.body)) return {};
    return ir::MakeStmt<ir::Launch>(launch_.loc, launch_.grid, launch_.threads, body,
                                    launch_.annotations);
  }

 private:
  // The fragments whose products are all wgmma's.
  std::vector<ir::Buffer> Results() const {
    std::vector<ir::Buffer> results, others;
    ir::Walk(launch_.body, [&](const Stmt& s) {
      const auto* gemm = s.As<ir::Gemm>();
      if (gemm == nullptr) return true;
      std::vector<ir::Buffer>& kind = ByWgmma(*gemm) ? results : others;
      if (std::find(kind.begin(), kind.end(), gemm->c.buffer) == kind.end()) {
        kind.push_back(gemm->c.buffer);
      }
      return true;
    });
    for (const ir::Buffer& other : others) {
      results.erase(std::remove(results.begin(), results.end(), other), results.end());
    }
    return results;
  }

  bool ByWgmma(const ir::Gemm& gemm) const {
    if (gemm.c.buffer->scope != ir::Scope::kFragment) return false;
    const std::optional<target::GemmQuery> query = QueryOf(program_, gemm, {0, threads_});
    return query && target::ChooseGemm(arch_, *query).unit == "wgmma";
  }

  // The sequence without what clears the sums; undefined where that stays.
  static Stmt Without(const ir::SumsRange& where, const ir::Buffer& sums) {
    std::vector<Stmt> stmts = where.seq->stmts;
    const auto begin = stmts.begin(), products = begin + static_cast<int64_t>(where.first);
    const size_t clear = FindClear({begin, products}, sums);
    ir::Expr runs;
    if (clear == where.first || !ProductsRun(*products, &runs) || runs.defined()) return {};
    *products = WithFirstClearing(*products, sums);
    if (!products->defined()) return {};
    stmts.erase(begin + static_cast<int64_t>(clear));
    return ir::MakeStmt<ir::Seq>(where.seq->loc, std::move(stmts));
  }

  const ir::Program& program_;
  const ir::Launch& launch_;
  const target::Arch& arch_;
  const int64_t threads_;
};

}  // namespace

absl::StatusOr<ir::Program> ClearSums(const ir::Program& program, const PassContext& context) {
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [&](const Stmt& s) -> Stmt {
    const auto* launch = s.As<ir::Launch>();
    return launch != nullptr ? ClearLaunch(program, *launch, GpuOf(context)).Run() : Stmt();
  });
  return out;
}

}  // namespace kiln::passes

#include "compiler/passes/clear_sums.h"

#include <algorithm>
#include <optional>

#include "compiler/ir/shape.h"
#include "compiler/ir/sums.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/build.h"
#include "compiler/passes/first_product.h"
#include "compiler/passes/infer_layouts.h"
#include "compiler/passes/product_loops.h"
#include "compiler/passes/tile_versions.h"
#include "compiler/target/legality.h"
#include "compiler/target/warps.h"

namespace kiln::passes {
namespace {

using ir::Stmt;

constexpr int64_t kFetching = 40, kSpare = 32;  // registers of a thread: that fetches; beside sums

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
      body = ir::RewriteStmts(body, [&](const Stmt& s) -> Stmt {
        if (where.seq == nullptr) return HasRoom(sums) ? ClearedInSteps(now.body, s, sums) : Stmt();
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

  // Whether threads have registers for the sums of two steps beside all fragments, as the pass
  // "alternate-products" will ask for: without them assemblers do better with a clear.
  bool HasRoom(const ir::Buffer& sums) const {
    int64_t bytes = ir::BytesOf(sums).value_or(0);
    ir::Walk(launch_.body, [&](const Stmt& s) {
      const auto* alloc = s.As<ir::Alloc>();
      if (alloc != nullptr && alloc->buffer->scope == ir::Scope::kFragment) {
        bytes += ir::BytesOf(alloc->buffer).value_or(0);
      }
      return true;
    });
    const int64_t fetching = target::kWarpgroup * kFetching;
    const int64_t registers =
        std::min<int64_t>(arch_.registers_thread, (arch_.registers_sm - fetching) / threads_);
    return bytes / (4 * threads_) + kSpare <= registers;
  }

  static bool Clears(const Stmt& s, const ir::Buffer& sums) { return FindClear({s}, sums) == 0; }

  // A sequence with a loop that clears the sums in each step, after their last use, and before it,
  // of a launch that looks at them nowhere else: without these. Undefined for any other statement.
  static Stmt ClearedInSteps(const Stmt& launch, const Stmt& s, const ir::Buffer& sums) {
    const auto* seq = s.As<ir::Seq>();
    if (seq == nullptr) return {};
    const auto products = std::find_if(seq->stmts.begin(), seq->stmts.end(), [&](const Stmt& x) {
      return x.kind() == ir::StmtKind::kFor && ir::HasProductOn(x, sums);
    });
    if (products == seq->stmts.end()) return {};
    const size_t loop = static_cast<size_t>(products - seq->stmts.begin());
    const size_t clear = FindClear({seq->stmts.begin(), products}, sums);
    const Stmt cleared = EachClearing(*products, sums);
    if (clear == loop || !cleared.defined()) return {};
    const Stmt rest = ir::WithoutStmts(launch, [&](const Stmt& x) {
      return x.same_as(seq->stmts[clear]) || x.same_as(*products);
    });
    if (Uses({rest}, sums)) return {};
    std::vector<Stmt> stmts = seq->stmts;
    stmts[loop] = cleared;
    stmts.erase(stmts.begin() + static_cast<int64_t>(clear));
    return ir::MakeStmt<ir::Seq>(seq->loc, std::move(stmts));
  }

  // A loop whose step has one product on the sums, all of them, the first to touch them, and clears
  // them last: without that. Undefined for any other.
  static Stmt EachClearing(const Stmt& s, const ir::Buffer& sums) {
    const auto* loop = s.As<ir::For>();
    if (ir::HasJump(loop->body)) return {};
    std::vector<Stmt> stmts = Flatten(loop->body), users;
    for (const Stmt& x : stmts) {
      if (Uses({x}, sums)) users.push_back(x);
    }
    const auto multiplies = [&](const Stmt& x) { return ir::HasProductOn(x, sums); };
    const ir::Gemm* product = users.empty() ? nullptr : ir::ProductOn(users[0], sums);
    if (users.size() < 2 || product == nullptr || !CoversWhole(product->c) ||
        std::count_if(users.begin(), users.end(), multiplies) != 1 || !Clears(users.back(), sums)) {
      return {};
    }
    const Stmt last = users.back();
    stmts.erase(
        std::find_if(stmts.begin(), stmts.end(), [&](const Stmt& x) { return x.same_as(last); }));
    *std::find_if(stmts.begin(), stmts.end(), multiplies) = WithFirstClearing(users[0], sums);
    return ir::MakeStmt<ir::For>(s->loc, loop->loop, loop->axes, ir::MakeSeq(stmts, s->loc),
                                 loop->num_stages, loop->annotations);
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

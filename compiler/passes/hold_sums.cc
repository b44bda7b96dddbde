#include "compiler/passes/hold_sums.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/sums.h"
#include "compiler/ir/visit.h"
#include "compiler/layout/swizzle.h"
#include "compiler/passes/build.h"
#include "compiler/passes/first_product.h"
#include "compiler/passes/infer_layouts.h"
#include "compiler/passes/lower_copies.h"
#include "compiler/passes/shared_tiles.h"
#include "compiler/passes/stage_operands.h"
#include "compiler/passes/tile_versions.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

constexpr int64_t kAtomRows = 8;  // of a swizzle

// Tiles that descriptors name, or parts of such: of shared memory, rows that fill a swizzle.
bool IsInTile(const ir::Region& r) {
  const size_t rank = r.ranges.size();
  if (r.buffer->scope != ir::Scope::kShared || rank < 2) return false;
  const auto rows = ir::ConstInt(r.buffer->shape[rank - 2]);
  const auto columns = ir::ConstInt(r.buffer->shape[rank - 1]);
  return rows && columns && *rows % kAtomRows == 0 &&
         layout::WidestMode(r.buffer->dtype.bits, *columns) != layout::SwizzleMode::kNone;
}

Stmt WithResult(const ir::Gemm& gemm, const ir::Buffer& held, const Expr& clear) {
  return ir::MakeStmt<ir::Gemm>(gemm.loc, gemm.a, gemm.b, ir::WholeBuffer(held), gemm.trans_a,
                                gemm.trans_b, gemm.policy, clear, gemm.e, gemm.trans_e);
}

// One result of a launch goes to tensor memory.
class Result {
 public:
  explicit Result(ir::Buffer sums) : sums_(std::move(sums)) {
    held_ = ir::MakeBuffer(absl::StrCat(sums_->name, "_sums"), sums_->dtype, sums_->shape,
                           ir::Scope::kTensor);
  }

  Stmt Held(const Stmt& body, const ir::SumsRange& where) const {
    return ir::RewriteStmts(body, [&](const Stmt& s) -> Stmt {
      return s.get() == where.seq ? HeldIn(*where.seq, where.first, where.last) : Stmt();
    });
  }

 private:
  // The products' result is the buffer in tensor memory.
  Stmt Renamed(const Stmt& s) const {
    return ir::RewriteStmts(s, [&](const Stmt& x) -> Stmt {
      const ir::Gemm* gemm = ir::ProductOn(x, sums_);
      return gemm != nullptr ? WithResult(*gemm, held_, gemm->clear_accum) : Stmt();
    });
  }

  Stmt HeldIn(const ir::Seq& seq, size_t first, size_t last) const {
    const SourceLoc loc = seq.stmts[first]->loc;
    std::vector<Stmt> out(seq.stmts.begin(), seq.stmts.begin() + static_cast<int64_t>(first));
    out.insert(out.begin(), ir::MakeStmt<ir::Alloc>(loc, held_));
    std::vector<Stmt> products(seq.stmts.begin() + static_cast<int64_t>(first),
                               seq.stmts.begin() + static_cast<int64_t>(last));
    const size_t clear = FindClear(out, sums_);
    Expr runs;
    Stmt cleared;
    const bool known = ProductsRun(products[0], &runs);
    // Whatever was there is lost.
    const bool anew = known && !runs.defined() && StartsFromZero(products[0], sums_);
    if (clear < out.size() && known && (!runs.defined() || products.size() == 1)) {
      cleared = WithFirstClearing(products[0], sums_);
    }
    const Stmt load = ir::MakeStmt<ir::Copy>(loc, ir::WholeBuffer(held_), ir::WholeBuffer(sums_));
    if (cleared.defined()) {
      products[0] = cleared;
      if (!runs.defined()) out.erase(out.begin() + static_cast<int64_t>(clear));
    } else if (!anew && (Uses(out, sums_) || !IsDeclared(out))) {
      runs = {};
      out.push_back(ir::MakeStmt<ir::Copy>(loc, ir::WholeBuffer(sums_), ir::WholeBuffer(held_)));
    }
    for (const Stmt& s : products) out.push_back(Renamed(s));
    out.push_back(runs.defined() ? ir::MakeStmt<ir::If>(loc, runs, load) : load);
    out.insert(out.end(), seq.stmts.begin() + static_cast<int64_t>(last), seq.stmts.end());
    return ir::MakeStmt<ir::Seq>(seq.loc, std::move(out));
  }

  bool IsDeclared(const std::vector<Stmt>& stmts) const {
    return std::any_of(stmts.begin(), stmts.end(), [&](const Stmt& s) {
      const auto* alloc = s.As<ir::Alloc>();
      return alloc != nullptr && alloc->buffer == sums_;
    });
  }

  const ir::Buffer sums_;
  ir::Buffer held_;
};

class HoldLaunch {
 public:
  HoldLaunch(const ir::Program& program, const ir::Launch& launch, const PassContext& context)
      : program_(program),
        launch_(launch),
        context_(context),
        arch_(GpuOf(context)),
        threads_(ir::ThreadsOf(launch).value_or(0)),
        notes_(launch.annotations) {}

  Stmt Run() {
    Stmt body = launch_.body.kind() == ir::StmtKind::kSeq
                    ? launch_.body
                    : ir::MakeStmt<ir::Seq>(launch_.loc, std::vector<Stmt>{launch_.body});
    const auto whole = [&] {
      return ir::Launch(launch_.loc, launch_.grid, launch_.threads, body, launch_.annotations);
    };
    for (const ir::Buffer& sums : Results()) {
      const ir::Launch now = whole();
      const ir::SumsRange where = ir::FindSums(now, sums);
      std::string why = where.why_not;
      if (why.empty()) why = WhyNot(sums);
      if (why.empty()) {
        body = Result(sums).Held(now.body, where);
        columns_ += ColumnsOf(sums);
      } else {
        notes_[absl::StrCat(kInRegisters, sums->name)] = why;
      }
    }
    if (columns_ == 0) return With(body);
    const Stmt held = With(body);
    if (LayoutsAgree(held)) return held;
    for (const ir::Buffer& sums : Results()) {
      notes_.try_emplace(absl::StrCat(kInRegisters, sums->name),
                         "the rest of the block wants it held otherwise than tcgen05 loads it");
    }
    return With(launch_.body);
  }

 private:
  Stmt With(const Stmt& body) const {
    return ir::MakeStmt<ir::Launch>(launch_.loc, launch_.grid, launch_.threads, body, notes_);
  }

  // Whether there is an assignment to threads with every fragment as it is loaded.
  bool LayoutsAgree(const Stmt& held) const {
    ir::Program alone = program_;
    alone.body = held;
    for (const auto lower : {StageOperands, LowerCopiesGpu}) {
      absl::StatusOr<ir::Program> next = lower(alone, context_);
      if (!next.ok()) return false;
      alone = *std::move(next);
    }
    const auto problem = CollectLayoutProblem(alone, *alone.body.As<ir::Launch>(), arch_);
    if (!problem.ok()) return false;
    const auto solution = InferLayouts(alone, *problem);
    return solution.ok() &&
           std::none_of(solution->moves.begin(), solution->moves.end(), [&](const LayoutMove& m) {
             return problem->operations[m.operation].kind == OperationKind::kMove;
           });
  }

  // The fragments that products add to, in program order.
  std::vector<ir::Buffer> Results() const {
    std::vector<ir::Buffer> results;
    ir::Walk(launch_.body, [&](const Stmt& s) {
      const auto* gemm = s.As<ir::Gemm>();
      if (gemm != nullptr && gemm->c.buffer->scope == ir::Scope::kFragment &&
          std::find(results.begin(), results.end(), gemm->c.buffer) == results.end()) {
        results.push_back(gemm->c.buffer);
      }
      return true;
    });
    return results;
  }

  static int64_t ColumnsOf(const ir::Buffer& sums) {
    return target::TensorColumns(*ir::ConstInt(sums->shape[0]), *ir::ConstInt(sums->shape[1]));
  }

  std::string WhyNot(const ir::Buffer& sums) const {
    std::string why;
    ir::Walk(launch_.body, [&](const Stmt& s) {
      const ir::Gemm* gemm = ir::ProductOn(s, sums);
      if (gemm != nullptr && why.empty()) why = WhyNot(*gemm);
      return why.empty();
    });
    return why;
  }

  std::string WhyNot(const ir::Gemm& gemm) const {
    if (gemm.c.buffer->shape.size() != 2) return "it is no matrix";
    std::optional<target::GemmQuery> query = QueryOf(program_, gemm, {0, threads_});
    if (!query) return "its shape is not known";
    query->c_space = target::OperandSpace::kTensor;
    const target::GemmChoice choice = target::ChooseGemm(arch_, *query);
    if (choice.unit.empty()) return choice.why_not;
    if (!IsInTile(gemm.a) || !IsInTile(gemm.b)) {
      return "tcgen05 takes tiles of shared memory in whole atoms of a swizzle";
    }
    const int64_t columns = ColumnsOf(gemm.c.buffer);
    if (columns_ + columns <= target::kTensorColumns) return "";
    return absl::StrCat("tensor memory has ", target::kTensorColumns - columns_,
                        " columns left, it takes ", columns);
  }

  const ir::Program& program_;
  const ir::Launch& launch_;
  const PassContext& context_;
  const target::Arch& arch_;
  const int64_t threads_;
  std::map<std::string, std::string> notes_;
  int64_t columns_ = 0;  // of tensor memory, that are taken
};

}  // namespace

absl::StatusOr<ir::Program> HoldSums(const ir::Program& program, const PassContext& context) {
  const target::Arch& arch = GpuOf(context);
  const bool off = ir::PassOption(program, "kiln.tcgen05", 1) == 0;
  if (arch.tmem_sm == 0 || off) return program;
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [&](const Stmt& s) -> Stmt {
    const auto* launch = s.As<ir::Launch>();
    return launch != nullptr ? HoldLaunch(program, *launch, context).Run() : Stmt();
  });
  return out;
}

}  // namespace kiln::passes

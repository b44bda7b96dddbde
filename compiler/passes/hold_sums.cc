#include "compiler/passes/hold_sums.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

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

// Tiles that descriptors name, or parts of such: of shared memory, rows that fill a swizzle. What
// lies in a fragment goes to such a tile (passes/stage_operands).
bool IsInTile(const ir::Region& r) {
  const size_t rank = r.ranges.size();
  if (rank < 2) return false;
  const bool there = r.buffer->scope == ir::Scope::kShared;
  const auto extent = [&](size_t d) {
    return ir::ConstInt(there ? r.buffer->shape[d] : r.ranges[d].extent);
  };
  const auto rows = extent(rank - 2), columns = extent(rank - 1);
  return rows && columns && *rows % layout::kAtomRows == 0 &&
         layout::WidestMode(r.buffer->dtype.bits, *columns) != layout::SwizzleMode::kNone;
}

Stmt WithResult(const ir::Gemm& gemm, const ir::Buffer& held, const Expr& clear) {
  return ir::MakeStmt<ir::Gemm>(gemm.loc, gemm.a, gemm.b, ir::WholeBuffer(held), gemm.trans_a,
                                gemm.trans_b, gemm.policy, clear, gemm.e, gemm.trans_e);
}

// Tiles of shared memory that operands in fragments go through, each product after the other.
using OperandTiles = std::vector<std::pair<const ir::BufferNode*, ir::Buffer>>;

ir::Buffer TileFor(const ir::Region& r, OperandTiles* tiles) {
  const Expr &rows = r.ranges[0].extent, &columns = r.ranges[1].extent;
  for (const auto& [fragment, tile] : *tiles) {
    const bool same = ir::Same(tile->shape[0], rows) && ir::Same(tile->shape[1], columns);
    if (fragment == r.buffer.get() && same) return tile;
  }
  const ir::Buffer tile = ir::MakeBuffer(absl::StrCat(r.buffer->name, "_tile"), r.buffer->dtype,
                                         {rows, columns}, ir::Scope::kShared);
  tiles->emplace_back(r.buffer.get(), tile);
  return tile;
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

  // Every product on its own: where its sums are not those of zero they are stored, and what it
  // makes of them is loaded at once.
  Stmt HeldApart(const Stmt& body, OperandTiles* tiles) const {
    const Stmt apart = Apart(body, tiles);
    std::vector<Stmt> stmts = {ir::MakeStmt<ir::Alloc>(body->loc, held_)};
    const std::vector<Stmt>& rest = apart.As<ir::Seq>()->stmts;
    stmts.insert(stmts.end(), rest.begin(), rest.end());
    return ir::MakeStmt<ir::Seq>(body->loc, std::move(stmts));
  }

 private:
  Stmt Apart(const Stmt& s, OperandTiles* tiles) const {
    return ir::RewriteStmts(s, [&](const Stmt& x) -> Stmt {
      if (const ir::Gemm* gemm = ir::ProductOn(x, sums_)) {
        return ir::MakeSeq(Alone(*gemm, tiles), gemm->loc);
      }
      const auto* seq = x.As<ir::Seq>();
      if (seq == nullptr) return {};
      std::vector<Stmt> out;  // one row: each of its statements may wait for tiles of its own
      for (const Stmt& child : seq->stmts) {
        const ir::Gemm* gemm = ir::ProductOn(child, sums_);
        const std::vector<Stmt> stmts =
            gemm != nullptr ? Alone(*gemm, tiles) : std::vector<Stmt>{Apart(child, tiles)};
        out.insert(out.end(), stmts.begin(), stmts.end());
      }
      return ir::MakeStmt<ir::Seq>(x->loc, std::move(out));
    });
  }

  // A product between the stores and loads that it takes.
  std::vector<Stmt> Alone(const ir::Gemm& gemm, OperandTiles* tiles) const {
    const ir::Region sums = ir::WholeBuffer(sums_), held = ir::WholeBuffer(held_);
    std::vector<Stmt> out;
    const auto copy = [&](const ir::Region& from, const ir::Region& to) {
      out.push_back(ir::MakeStmt<ir::Copy>(gemm.loc, from, to));
    };
    const auto in_tile = [&](const ir::Region& r) {
      if (r.buffer->scope != ir::Scope::kFragment || r.ranges.size() != 2) return r;
      const ir::Region tile = ir::WholeBuffer(TileFor(r, tiles));
      copy(r, tile);
      return tile;
    };
    const ir::Region a = in_tile(gemm.a), b = in_tile(gemm.b);
    const bool adds = !ir::IsConst(gemm.clear_accum, 1), always = ir::IsConst(gemm.clear_accum, 0);
    if (adds) copy(sums, held);
    if (adds && !always) {
      out.back() = ir::MakeStmt<ir::If>(
          gemm.loc, ir::MakeUnary(ir::UnaryOp::kNot, gemm.clear_accum), out.back());
    }
    out.push_back(ir::MakeStmt<ir::Gemm>(gemm.loc, a, b, held, gemm.trans_a, gemm.trans_b,
                                         gemm.policy, gemm.clear_accum, gemm.e, gemm.trans_e));
    copy(held, sums);
    return out;
  }

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
    for (const bool more : {true, false}) {
      const Stmt held = Held(more);
      if (columns_ == 0 || ((!more || HasRoom(held)) && LayoutsAgree(held))) return held;
    }
    for (const ir::Buffer& sums : Results()) {
      notes_.try_emplace(absl::StrCat(kInRegisters, sums->name),
                         "the rest of the block wants it held otherwise than tcgen05 loads it");
    }
    return With(launch_.body);
  }

 private:
  // Everything in tensor memory that can be: first what a loop adds to; with `more`, what is looked
  // at between products, and products whose operands lie in registers, too.
  Stmt Held(bool more) {
    more_ = more;
    notes_ = launch_.annotations;
    columns_ = 0;
    registers_ = {};
    rows_ = 0;
    Stmt body = launch_.body.kind() == ir::StmtKind::kSeq
                    ? launch_.body
                    : ir::MakeStmt<ir::Seq>(launch_.loc, std::vector<Stmt>{launch_.body});
    const auto whole = [&] {
      return ir::Launch(launch_.loc, launch_.grid, launch_.threads, body, launch_.annotations);
    };
    std::vector<ir::Buffer> apart;
    for (const ir::Buffer& sums : Results()) {
      const ir::SumsRange where = ir::FindSums(whole(), sums);
      if (where.seq == nullptr && more && IsWorthIt(sums)) {
        apart.push_back(sums);
      } else if (Takes(sums, where.why_not)) {
        body = Result(sums).Held(body, where);
      }
    }
    OperandTiles tiles;
    for (const ir::Buffer& sums : apart) {
      if (!Takes(sums, ir::WhyNotApart(whole(), sums))) continue;
      body = Result(sums).HeldApart(body, &tiles);
      NoteRegisters(sums);
    }
    std::vector<Stmt> stmts = body.As<ir::Seq>()->stmts;
    for (const auto& [fragment, tile] : tiles) {
      stmts.insert(stmts.begin(), ir::MakeStmt<ir::Alloc>(launch_.loc, tile));
    }
    return With(ir::MakeStmt<ir::Seq>(body->loc, std::move(stmts)));
  }

  // Takes columns for the fragment, unless `why` or something else keeps it in registers: then a
  // note says so.
  bool Takes(const ir::Buffer& sums, std::string why) {
    if (why.empty()) why = WhyNot(sums);
    if (why.empty()) {
      columns_ += ColumnsOf(sums);
    } else {
      notes_[absl::StrCat(kInRegisters, sums->name)] = why;
    }
    return why.empty();
  }

  // What a thread holds of a result that is looked at, and of the products' operands.
  void NoteRegisters(const ir::Buffer& sums) {
    ir::Walk(launch_.body, [&](const Stmt& s) {
      const ir::Gemm* gemm = ir::ProductOn(s, sums);
      const auto query = gemm != nullptr ? QueryOf(program_, *gemm, {0, threads_}) : std::nullopt;
      if (query) registers_.Add(*query);
      if (query) rows_ = std::max(rows_, query->m);
      return !query.has_value();
    });
  }

  // Whether what `more` takes beside the rest fits: tiles with the versions that pipelined loops
  // have of them, and registers.
  bool HasRoom(const Stmt& held) const {
    if (!registers_.Fit()) return false;
    std::unordered_map<const ir::BufferNode*, int64_t> versions;
    ir::Walk(held, [&](const Stmt& s) {
      const auto* loop = s.As<ir::For>();
      if (loop == nullptr || loop->loop != ir::ForKind::kPipelined) return true;
      const int64_t stages =
          loop->num_stages.defined() ? ir::ConstInt(loop->num_stages).value_or(1) : 1;
      ir::Walk(loop->body, [&](const Stmt& x) {
        const auto* copy = x.As<ir::Copy>();
        const bool fetches = copy != nullptr && copy->src.buffer->scope == ir::Scope::kGlobal;
        if (fetches) versions[copy->dst.buffer.get()] = std::max<int64_t>(stages, 1);
        return true;
      });
      return true;
    });
    int64_t bytes =
        target::ExchangedBytes(rows_) + StagedOperandBytes(program_, held, {0, threads_}, arch_);
    ir::Walk(held, [&](const Stmt& s) {
      const auto* alloc = s.As<ir::Alloc>();
      if (alloc == nullptr || alloc->buffer->scope != ir::Scope::kShared) return true;
      const auto found = versions.find(alloc->buffer.get());
      const int64_t copies = found != versions.end() ? found->second : 1;
      bytes += ir::BytesOf(alloc->buffer).value_or(0) * copies;
      return true;
    });
    return bytes <= arch_.smem_block;
  }

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

  // Whether each product on them takes longer than starting it and waiting for it.
  bool IsWorthIt(const ir::Buffer& sums) const {
    bool worth = true;
    ir::Walk(launch_.body, [&](const Stmt& s) {
      const ir::Gemm* gemm = ir::ProductOn(s, sums);
      const auto query = gemm != nullptr ? QueryOf(program_, *gemm, {0, threads_}) : std::nullopt;
      if (query) worth &= target::IsWorthTensorMemory(query->m, query->n, query->k);
      return worth;
    });
    return worth;
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
    const bool staged = query->a_space != target::OperandSpace::kShared ||
                        query->b_space != target::OperandSpace::kShared;
    if (staged && !more_) return "an operand lies in registers";
    if (staged && !target::IsWorthTensorMemory(query->m, query->n, query->k)) {
      return "an operand in registers would go to shared memory for a small product";
    }
    query->a_space = query->b_space = target::OperandSpace::kShared;
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
  bool more_ = false;
  int64_t columns_ = 0;  // of tensor memory, that are taken
  target::AwaitedRegisters registers_;
  int64_t rows_ = 0;  // the most of a result that is looked at
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

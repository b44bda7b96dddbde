#include "compiler/passes/instruct_gemm.h"

#include "absl/strings/str_cat.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/shape.h"
#include "compiler/layout/swizzle.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

constexpr int64_t kWarpgroup = 128;

// How many elements a row of a panel has: the swizzle of the tile, or 0 where it has none.
int64_t PanelWidth(const ir::Buffer& tile) {
  const auto columns = ir::ConstInt(tile->shape.back());
  if (!columns) return 0;
  const layout::SwizzleMode mode = layout::WidestMode(tile->dtype.bits, *columns);
  return mode == layout::SwizzleMode::kNone ? 0 : layout::RowBytes(mode) / tile->dtype.bytes();
}

class Instructed {
 public:
  Instructed(int operation, const ir::Gemm& gemm, ThreadLevel* level)
      : level_(level), op_(level->problem().operations[operation]), gemm_(gemm) {
    m_ = op_.extents[0];
    n_ = op_.extents[1];
    const auto dims = *ir::MatrixDims(gemm.a);
    k_ = *ir::ConstInt(gemm.a.ranges[gemm.trans_a ? dims.first : dims.second].extent);
  }

  bool Possible() const {
    if (op_.unit != MatrixUnit::kWgmma || op_.uses.size() != 1) return false;
    const FragmentUse& use = op_.uses[0];
    if (use.elements.size() != 1) return false;
    const layout::Ownership held =
        level_->solution().fragments[use.fragment].Pullback(use.elements[0]);
    if (!(held == op_.anchors[0])) return false;
    if (level_->Registers(use.fragment)->dtype != kFloat32 &&
        level_->Registers(use.fragment)->dtype != kInt32) {
      return false;  // float16 sums are packed in pairs
    }
    const int64_t groups = level_->threads().count / kWarpgroup;
    const int64_t own_m = m_ / op_.grid.rows, own_n = n_ / (groups / op_.grid.rows);
    if (own_n > 256 && own_n % 256 != 0) return false;
    return Reads(gemm_.a, !gemm_.trans_a, own_m) && Reads(gemm_.b, gemm_.trans_b, own_n);
  }

  Stmt Build(const std::function<Expr(const Expr&)>& uniform) const {
    const auto region = [&](const ir::Region& r) {
      ir::Region out{r.buffer, {}};
      for (const ir::Range& range : r.ranges) {
        out.ranges.push_back({uniform(range.min), range.extent});
      }
      return out;
    };
    const ir::Region c = ir::WholeBuffer(level_->Registers(op_.uses[0].fragment));
    const std::map<std::string, std::string> notes = {{"m", absl::StrCat(m_)},
                                                      {"n", absl::StrCat(n_)},
                                                      {"k", absl::StrCat(k_)},
                                                      {"rows", absl::StrCat(op_.grid.rows)},
                                                      {"trans_a", gemm_.trans_a ? "1" : "0"},
                                                      {"trans_b", gemm_.trans_b ? "1" : "0"}};
    const SourceLoc loc = gemm_.loc;
    return ir::MakeSeq(
        {ir::MakeStmt<ir::Instruct>(loc, ir::Instruction::kWgmma,
                                    std::vector<ir::Region>{c, region(gemm_.a), region(gemm_.b)},
                                    std::vector<Expr>{uniform(gemm_.clear_accum)}, notes),
         ir::MakeStmt<ir::Instruct>(loc, ir::Instruction::kWgmmaWait, std::vector<ir::Region>{},
                                    std::vector<Expr>{ir::MakeInt(0)})},
        loc);
  }

 private:
  // Whether descriptors can name a warpgroup's part of an operand: a whole tile (the last two
  // dimensions of its buffer), of which each part begins a panel or, where rows run along k, an
  // atom.
  bool Reads(const ir::Region& r, bool major_k, int64_t own) const {
    if (r.buffer->scope != ir::Scope::kShared || r.ranges.size() < 2) return false;
    const int64_t width = PanelWidth(r.buffer);
    if (width == 0) return false;
    for (size_t d = 0; d < r.ranges.size(); ++d) {
      const bool matrix = d + 2 >= r.ranges.size();
      if (matrix &&
          !(ir::IsConst(r.ranges[d].min, 0) && ir::Same(r.ranges[d].extent, r.buffer->shape[d]))) {
        return false;
      }
      if (!matrix && !ir::IsConst(r.ranges[d].extent, 1)) return false;
    }
    return own % (major_k ? 8 : width) == 0;
  }

  ThreadLevel* const level_;
  const Operation& op_;
  const ir::Gemm& gemm_;
  int64_t m_, n_, k_;
};

}  // namespace

Stmt InstructGemm(int operation, const ir::Gemm& gemm,
                  const std::function<Expr(const Expr&)>& uniform, ThreadLevel* level) {
  const Instructed product(operation, gemm, level);
  return product.Possible() ? product.Build(uniform) : Stmt();
}

}  // namespace kiln::passes

#include "compiler/passes/instruct_gemm.h"

#include "absl/strings/str_cat.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/shape.h"
#include "compiler/layout/swizzle.h"
#include "compiler/passes/product_loops.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

constexpr int64_t kWarp = 32, kWarpgroup = 128;

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
    if (op_.unit != MatrixUnit::kWgmma && op_.unit != MatrixUnit::kMma) return false;
    const DType sum = level_->Registers(op_.uses[0].fragment)->dtype;
    if (sum != kFloat32 && sum != kInt32) return false;  // float16 sums are packed in pairs
    if (!IsHeld(0)) return false;
    const int64_t parts = level_->threads().count / (IsGroupWide() ? kWarpgroup : kWarp);
    const int64_t own_m = m_ / op_.grid.rows, own_n = n_ / (parts / op_.grid.rows);
    if (IsGroupWide() && own_n > 256 && own_n % 256 != 0) return false;
    // Of integers wgmma takes 8, 16, 24, 32 columns, then multiples of 16 (PTX 9.7.15.2).
    if (IsGroupWide() && sum == kInt32 && own_n > 32 && own_n % 16 != 0) return false;
    return (FromRegisters() ? IsHeld(1) : Reads(gemm_.a, !gemm_.trans_a, own_m)) &&
           Reads(gemm_.b, gemm_.trans_b, own_n);
  }

  Stmt Build(const std::function<Expr(const Expr&)>& uniform) const {
    const auto region = [&](const ir::Region& r) {
      ir::Region out{r.buffer, {}};
      for (const ir::Range& range : r.ranges) {
        out.ranges.push_back({uniform(range.min), range.extent});
      }
      return out;
    };
    const auto held = [&](int use) {
      return ir::WholeBuffer(level_->Registers(op_.uses[use].fragment));
    };
    std::map<std::string, std::string> notes = {{"m", absl::StrCat(m_)},
                                                {"n", absl::StrCat(n_)},
                                                {"k", absl::StrCat(k_)},
                                                {"rows", absl::StrCat(op_.grid.rows)},
                                                {"trans_a", gemm_.trans_a ? "1" : "0"},
                                                {"trans_b", gemm_.trans_b ? "1" : "0"}};
    // In pairs, loads of single elements meet no bank twice, and A may lie like a result.
    const bool by_element = FromRegisters() || gemm_.trans_a || !gemm_.trans_b;
    if (gemm_.b.buffer->dtype.bits == 32 && by_element) notes["pairs"] = "1";
    const SourceLoc loc = gemm_.loc;
    const Stmt product = ir::MakeStmt<ir::Instruct>(
        loc, IsGroupWide() ? ir::Instruction::kWgmma : ir::Instruction::kMma,
        std::vector<ir::Region>{held(0), FromRegisters() ? held(1) : region(gemm_.a),
                                region(gemm_.b)},
        std::vector<Expr>{uniform(gemm_.clear_accum)}, notes);
    if (!IsGroupWide()) return product;
    return ir::MakeSeq({product, WaitForProducts(loc, {held(0)}, 0)}, loc);
  }

 private:
  bool IsGroupWide() const { return op_.unit == MatrixUnit::kWgmma; }
  bool FromRegisters() const { return op_.uses.size() > 1; }

  // Whether an operand lies in registers as the instruction has it.
  bool IsHeld(int u) const {
    const FragmentUse& use = op_.uses[u];
    if (use.elements.size() != 1) return false;
    const layout::Ownership held =
        level_->solution().fragments[use.fragment].Pullback(use.elements[0]);
    return held == op_.anchors[u];
  }

  // Whether the instruction can address an operand: a whole tile (the last two dimensions of its
  // buffer) that lies as it is laid out for products. Descriptors name a warpgroup's part of it,
  // which begins a panel or, where rows run along k, an atom; ldmatrix takes rows of 16 bytes, and
  // turns elements of 16 bits alone. Elements of 32 bits that it would turn are loaded one by one.
  bool Reads(const ir::Region& r, bool major_k, int64_t own) const {
    if (r.buffer->scope != ir::Scope::kShared || r.ranges.size() < 2) return false;
    for (size_t d = 0; d < r.ranges.size(); ++d) {
      const bool matrix = d + 2 >= r.ranges.size();
      if (matrix &&
          !(ir::IsConst(r.ranges[d].min, 0) && ir::Same(r.ranges[d].extent, r.buffer->shape[d]))) {
        return false;
      }
      if (!matrix && !ir::IsConst(r.ranges[d].extent, 1)) return false;
    }
    const int64_t width = PanelWidth(r.buffer);
    if (IsGroupWide()) return width > 0 && own % (major_k ? 8 : width) == 0;
    const int64_t row_bytes = *ir::ConstInt(r.buffer->shape.back()) * r.buffer->dtype.bytes();
    const int bits = r.buffer->dtype.bits;
    return (major_k || bits == 16 || bits == 32) && row_bytes % 16 == 0 && LiesAsExpected(r);
  }

  // A layout that the kernel annotates is kept by mma.sync, which then goes element by element.
  bool LiesAsExpected(const ir::Region& r) const {
    for (const SharedTile& tile : level_->problem().shared) {
      if (tile.buffer != r.buffer) continue;
      std::vector<int64_t> shape;
      for (const Expr& extent : r.buffer->shape) shape.push_back(*ir::ConstInt(extent));
      const auto wanted = SharedOperandLayout(op_.unit, r.buffer->dtype.bits, shape);
      return wanted.ok() && *wanted &&
             layout::Canonical(**wanted).ToString() == layout::Canonical(tile.layout).ToString();
    }
    return PanelWidth(r.buffer) == 0 || op_.unit == MatrixUnit::kFma;
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

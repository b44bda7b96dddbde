#include "compiler/passes/instruct_gemm.h"

#include "absl/strings/str_cat.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/shape.h"
#include "compiler/passes/product_loops.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

bool IsTensorCores(MatrixUnit unit) {
  return unit == MatrixUnit::kWgmma || unit == MatrixUnit::kMma || unit == MatrixUnit::kSparseMma;
}

// Whether an operand lies in registers as the instruction has it.
bool IsHeld(const Operation& op, size_t u, const LayoutSolution& solution) {
  const FragmentUse& use = op.uses[u];
  if (use.elements.size() != 1) return false;
  const layout::Ownership held = solution.fragments[use.fragment].Pullback(use.elements[0]);
  return held == op.anchors[u];
}

// Whether a tile of shared memory lies as the instruction reads it: not where the kernel gives it a
// layout of its own, which mma.sync leaves to it.
bool LiesAsExpected(const ir::Buffer& buffer, int64_t most, const Operation& op,
                    const LayoutProblem& problem) {
  for (const SharedTile& tile : problem.shared) {
    if (tile.buffer != buffer) continue;
    std::vector<int64_t> shape;
    for (const Expr& extent : buffer->shape) shape.push_back(*ir::ConstInt(extent));
    return IsSharedOperandLayout(op.unit, buffer->dtype.bits, shape, tile.layout, most);
  }
  return true;
}

class Instructed {
 public:
  Instructed(int operation, const ir::Gemm& gemm, ThreadLevel* level)
      : level_(level), op_(level->problem().operations[operation]), gemm_(gemm) {
    m_ = op_.extents[0];
    n_ = op_.extents[1];
    const auto dims = *ir::MatrixDims(gemm.a);
    k_ = *ir::ConstInt(gemm.a.ranges[gemm.trans_a ? dims.first : dims.second].extent);
    if (gemm.sparse()) k_ *= 2;
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
    if (!IsGroupWide() && gemm_.b.buffer->dtype.bits == 32 && by_element) notes["pairs"] = "1";
    const SourceLoc loc = gemm_.loc;
    std::vector<ir::Region> regions = {held(0), FromRegisters() ? held(1) : region(gemm_.a),
                                       region(gemm_.b)};
    if (gemm_.sparse()) {
      regions.push_back(region(gemm_.e));
      notes["trans_e"] = gemm_.trans_e ? "1" : "0";
    }
    const Stmt product = ir::MakeStmt<ir::Instruct>(
        loc, Op(), std::move(regions), std::vector<Expr>{uniform(gemm_.clear_accum)}, notes);
    if (!IsGroupWide()) return product;
    return ir::MakeSeq({product, WaitForProducts(loc, {held(0)}, 0)}, loc);
  }

 private:
  ir::Instruction Op() const {
    if (gemm_.sparse()) return ir::Instruction::kSparseMma;
    return IsGroupWide() ? ir::Instruction::kWgmma : ir::Instruction::kMma;
  }
  bool IsGroupWide() const { return op_.unit == MatrixUnit::kWgmma; }
  bool FromRegisters() const { return op_.uses.size() > 1; }

  ThreadLevel* const level_;
  const Operation& op_;
  const ir::Gemm& gemm_;
  int64_t m_, n_, k_;
};

}  // namespace

std::string WhyNotInstructed(const LayoutProblem& problem, const LayoutSolution& solution,
                             int operation) {
  const Operation& op = problem.operations[operation];
  const auto* gemm = op.stmt.As<ir::Gemm>();
  if (gemm == nullptr || !IsTensorCores(op.unit)) return "";
  for (size_t u = 0; u < op.uses.size(); ++u) {
    if (IsHeld(op, u, solution)) continue;
    return absl::StrCat(problem.fragments[op.uses[u].fragment].buffer->name, " is not held as ",
                        NameOf(op.unit), " has it");
  }
  const std::pair<const ir::Buffer&, int64_t> tiles[] = {{gemm->a.buffer, op.a_swizzle},
                                                         {gemm->b.buffer, op.b_swizzle}};
  for (const auto& [tile, most] : tiles) {
    if (tile->scope != ir::Scope::kShared || LiesAsExpected(tile, most, op, problem)) continue;
    return absl::StrCat(tile->name, " lies otherwise than ", NameOf(op.unit), " reads it");
  }
  return "";
}

Stmt InstructGemm(int operation, const ir::Gemm& gemm,
                  const std::function<Expr(const Expr&)>& uniform, ThreadLevel* level) {
  if (!IsTensorCores(level->problem().operations[operation].unit) ||
      !WhyNotInstructed(level->problem(), level->solution(), operation).empty()) {
    return Stmt();
  }
  return Instructed(operation, gemm, level).Build(uniform);
}

}  // namespace kiln::passes

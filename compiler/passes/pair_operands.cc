#include "compiler/passes/pair_operands.h"

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/ir/shape.h"
#include "compiler/passes/build.h"
#include "compiler/passes/lower_gemm_cpu.h"
#include "compiler/passes/lower_pair_gemm.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;

constexpr int64_t kLineElements = 32;  // bfloat16 elements of a cache line
// Short rows far apart escape the processor's own prefetching: those of a tensor are asked for this
// many rows before they are joined.
constexpr int64_t kRowsAhead = 32;

int64_t Extent(const ir::Region& region, size_t dim) {
  return ir::ConstInt(region.ranges[dim].extent).value_or(-1);
}

bool OnChipMatrix(const ir::Buffer& buffer) {
  return buffer->scope != ir::Scope::kGlobal && buffer->shape.size() == 2 &&
         buffer->strides.empty() && buffer->layout.empty() &&
         ir::ConstInt(buffer->shape[0]).has_value() && ir::ConstInt(buffer->shape[1]).has_value();
}

bool Pairs(const ir::Gemm& gemm) {
  return PairsByShape(gemm) && OnChipMatrix(gemm.a.buffer) && OnChipMatrix(gemm.b.buffer) &&
         OnChipMatrix(gemm.c.buffer) && CoversWhole(gemm.b);
}

// A copy that writes a whole matrix, row by row and column by column of a matrix in its source.
bool FillsMatrix(const ir::Copy& copy) {
  return CoversWhole(copy.dst) && NonUnitDims(copy.dst).size() == 2 &&
         NonUnitDims(copy.src).size() == 2;
}

// The buffers whose elements may be kept as pairs, and the A operands that go with them.
struct Plan {
  std::set<const ir::BufferNode*> b, a;
};

Plan MakePlan(const ir::Program& program) {
  Plan plan;
  std::set<const ir::BufferNode*> refused;
  std::vector<const ir::Gemm*> gemms;
  ir::Walk(
      program.body,
      [&](const Stmt& s) {
        if (const auto* gemm = s.As<ir::Gemm>()) {
          refused.insert(gemm->a.buffer.get());
          refused.insert(gemm->c.buffer.get());
          if (Pairs(*gemm)) {
            plan.b.insert(gemm->b.buffer.get());
            gemms.push_back(gemm);
          } else {
            refused.insert(gemm->b.buffer.get());
          }
        } else if (const auto* copy = s.As<ir::Copy>()) {
          refused.insert(copy->src.buffer.get());
          if (!FillsMatrix(*copy)) refused.insert(copy->dst.buffer.get());
        } else if (const auto* fill = s.As<ir::Fill>()) {
          if (!CoversWhole(fill->dst)) refused.insert(fill->dst.buffer.get());
        } else if (const auto* store = s.As<ir::Store>()) {
          refused.insert(store->buffer.get());
        } else if (s.kind() == ir::StmtKind::kReduce || s.kind() == ir::StmtKind::kAtomic) {
          for (const ir::Buffer& b : ir::BuffersRead(s)) refused.insert(b.get());
          for (const ir::Buffer& b : ir::BuffersWritten(s)) refused.insert(b.get());
        }
        return true;
      },
      [&](const Expr& e) {
        if (const auto* load = e.As<ir::Load>()) refused.insert(load->buffer.get());
        return true;
      });
  for (const ir::BufferNode* buffer : refused) plan.b.erase(buffer);
  for (const ir::Gemm* gemm : gemms) {
    if (plan.b.count(gemm->b.buffer.get()) > 0) plan.a.insert(gemm->a.buffer.get());
  }
  return plan;
}

// The bits of a bfloat16 value in the high half of a uint32: those of the float32 it equals.
Expr HighBits(const Expr& value) {
  return ir::MakeCall(kUInt32, ir::Intrinsic::kReinterpret,
                      {ir::MakeCast(kFloat32, ir::MakeCast(kBFloat16, value))});
}

Expr Pair(const Expr& low, const Expr& high) {
  const Expr shifted = ir::MakeBinary(ir::BinaryOp::kShr, HighBits(low), ir::MakeInt(16, kUInt32));
  return ir::MakeBinary(ir::BinaryOp::kBitOr, shifted, HighBits(high));
}

class Rewriter : public FactsMutator {
 public:
  explicit Rewriter(const Plan& plan) : plan_(plan) {}

 protected:
  ir::Buffer VisitBuffer(const ir::Buffer& buffer) override {
    if (plan_.a.count(buffer.get()) == 0) return buffer;
    ir::Buffer& padded = rows_padded_[buffer.get()];
    if (padded == nullptr) padded = PadRows(buffer);
    return padded;
  }

  Stmt VisitStmt(const Stmt& s) override {
    if (const auto* alloc = s.As<ir::Alloc>(); alloc != nullptr && IsPairs(alloc->buffer)) {
      return ir::MakeStmt<ir::Alloc>(s->loc, PairsOf(alloc->buffer));
    }
    if (const auto* gemm = s.As<ir::Gemm>(); gemm != nullptr && IsPairs(gemm->b.buffer)) {
      return Product(*gemm);
    }
    if (const auto* copy = s.As<ir::Copy>(); copy != nullptr && IsPairs(copy->dst.buffer)) {
      return Join(*copy);
    }
    if (const auto* fill = s.As<ir::Fill>(); fill != nullptr && IsPairs(fill->dst.buffer)) {
      return ir::MakeStmt<ir::Fill>(s->loc, ir::WholeBuffer(PairsOf(fill->dst.buffer)),
                                    Pair(fill->value, fill->value));
    }
    return FactsMutator::VisitStmt(s);
  }

 private:
  bool IsPairs(const ir::Buffer& buffer) const { return plan_.b.count(buffer.get()) > 0; }

  static ir::Buffer PadRows(const ir::Buffer& buffer) {
    const int64_t columns = *ir::ConstInt(buffer->shape[1]);
    const int64_t lines = (columns + kLineElements - 1) / kLineElements | 1;
    if (lines * kLineElements == columns) return buffer;
    ir::BufferNode padded = *buffer;
    padded.strides = {MakeInt(lines * kLineElements), MakeInt(1)};
    return std::make_shared<const ir::BufferNode>(padded);
  }

  const ir::Buffer& PairsOf(const ir::Buffer& buffer) {
    ir::Buffer& pairs = pairs_[buffer.get()];
    if (pairs == nullptr) {
      const int64_t columns = *ir::ConstInt(buffer->shape[1]);
      const bool panels = columns > kPairColumns && columns % kPairColumns == 0;
      pairs =
          ir::MakeBuffer(absl::StrCat(buffer->name, "_pairs"), kUInt32,
                         {MakeInt(*ir::ConstInt(buffer->shape[0]) / 2), MakeInt(columns)},
                         buffer->scope, {}, panels ? absl::StrCat("panels:", kPairColumns) : "");
    }
    return pairs;
  }

  // for p, n in parallel: pairs[p, n] = src[2p, n] | src[2p + 1, n] << 16, and prefetches
  Stmt Join(const ir::Copy& copy) {
    const ir::Buffer& pairs = PairsOf(copy.dst.buffer);
    const std::vector<int> dims = NonUnitDims(copy.src);
    const std::vector<Expr> at = {ir::MakeVar("p"), ir::MakeVar("n")};
    std::vector<ir::Axis> axes;
    for (int d = 0; d < 2; ++d) axes.push_back({at[d], MakeInt(0), pairs->shape[d]});
    const ir::Facts saved = facts_;
    for (const ir::Axis& axis : axes) facts_.AddAxis(axis);
    const ir::Region src = MutateRegion(copy.src);
    const auto indices = [&](int64_t ahead) {
      return RegionIndices(src, dims, {at[0] * MakeInt(2) + MakeInt(ahead), at[1]});
    };
    const auto row = [&](int64_t half) {
      const std::vector<Expr> from = indices(half);
      return ir::MakeLoad(src.buffer, from, InsidePredicate(src.buffer, from, facts_));
    };
    std::vector<Stmt> body;
    if (src.buffer->scope == ir::Scope::kGlobal) {
      for (const int64_t half : {0, 1}) {
        body.push_back(ir::MakeStmt<ir::Evaluate>(
            copy.loc, ir::MakeCall(kInt32, ir::Intrinsic::kPrefetch,
                                   {ir::MakeLoad(src.buffer, indices(kRowsAhead + half))})));
      }
    }
    body.push_back(ir::MakeStmt<ir::Store>(copy.loc, pairs, at, Pair(row(0), row(1))));
    facts_ = saved;
    return ir::MakeStmt<ir::For>(copy.loc, ir::ForKind::kParallel, axes,
                                 ir::MakeSeq(std::move(body), copy.loc));
  }

  Stmt Product(const ir::Gemm& gemm) {
    const ir::Region c = MutateRegion(gemm.c);
    const Stmt product = ir::MakeStmt<ir::PairGemm>(gemm.loc, MutateRegion(gemm.a),
                                                    ir::WholeBuffer(PairsOf(gemm.b.buffer)), c);
    if (ir::IsConst(gemm.clear_accum, 0)) return product;
    const Stmt zero = ir::MakeStmt<ir::Fill>(gemm.loc, c, ir::MakeFloat(0));
    const bool always = ir::IsConst(gemm.clear_accum, 1);
    return ir::MakeSeq(
        {always ? zero : ir::MakeStmt<ir::If>(gemm.loc, Mutate(gemm.clear_accum), zero), product},
        gemm.loc);
  }

  const Plan& plan_;
  std::map<const ir::BufferNode*, ir::Buffer> pairs_, rows_padded_;
};

}  // namespace

bool PairsByShape(const ir::Gemm& gemm) {
  if (gemm.trans_a || gemm.trans_b) return false;
  for (const ir::Region* r : {&gemm.a, &gemm.b, &gemm.c}) {
    if (r->ranges.size() != 2) return false;
  }
  if (gemm.a.buffer->dtype != kBFloat16 || gemm.b.buffer->dtype != kBFloat16 ||
      gemm.c.buffer->dtype != kFloat32) {
    return false;
  }
  const int64_t m = Extent(gemm.c, 0), n = Extent(gemm.c, 1), k = Extent(gemm.a, 1);
  return m > kStreamRows && n > 1 && k > 2 && k % 2 == 0 && Extent(gemm.a, 0) == m &&
         Extent(gemm.b, 0) == k && Extent(gemm.b, 1) == n;
}

ir::Program PairOperands(const ir::Program& program) {
  const Plan plan = MakePlan(program);
  if (plan.b.empty()) return program;
  ir::Program out = program;
  out.body = Rewriter(plan).Mutate(program.body);
  return out;
}

}  // namespace kiln::passes

#include "compiler/passes/lower_reductions_cpu.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/shape.h"
#include "compiler/passes/build.h"
#include "compiler/passes/loop_regions.h"
#include "compiler/passes/reduce_arithmetic.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;

constexpr int kAccumulators = 4;  // hides the latency of an add (4 cycles, 2 units would want 8)

class ReduceLowering {
 public:
  ReduceLowering(const ir::Reduce& reduce, const VectorUnit& unit)
      : reduce_(reduce),
        loc_(reduce.loc),
        arithmetic_(reduce.op, reduce.src.buffer->dtype, reduce.dst.buffer->dtype),
        type_(arithmetic_.type()),
        lanes_(unit.Lanes(type_)) {}

  absl::StatusOr<Stmt> Lower() {
    const int rank = static_cast<int>(reduce_.src.ranges.size());
    extent_ = *ir::ConstInt(reduce_.src.ranges[reduce_.dim].extent);
    for (int d = 0; d < rank; ++d) {
      if (d != reduce_.dim) kept_.push_back(d);
    }
    KILN_RETURN_IF_ERROR(MatchDestination());
    return reduce_.dim == rank - 1 ? Rows() : Columns();
  }

 private:
  absl::Status MatchDestination() {
    const auto pairs = ir::ReduceDims(reduce_.src, reduce_.dst, reduce_.dim);
    if (!pairs) {
      return absl::InvalidArgumentError(absl::StrCat("reduction of ", ir::ToString(reduce_.src),
                                                     " into ", ir::ToString(reduce_.dst),
                                                     ": the shapes do not match"));
    }
    dst_dims_.assign(kept_.size(), -1);
    for (size_t d = 0; d < pairs->size(); ++d) {
      const auto kept = std::find(kept_.begin(), kept_.end(), (*pairs)[d]);
      if (kept != kept_.end()) dst_dims_[kept - kept_.begin()] = static_cast<int>(d);
    }
    return absl::OkStatus();
  }

  std::vector<Expr> SourceAt(const std::vector<Expr>& kept, const Expr& reduced) const {
    std::vector<int> dims = kept_;
    std::vector<Expr> offsets = kept;
    dims.push_back(reduce_.dim);
    offsets.push_back(reduced);
    return RegionIndices(reduce_.src, dims, offsets);
  }
  std::vector<Expr> DestinationAt(const std::vector<Expr>& kept) const {
    std::vector<int> dims;
    std::vector<Expr> offsets;
    for (size_t k = 0; k < kept.size(); ++k) {
      if (dst_dims_[k] < 0) continue;
      dims.push_back(dst_dims_[k]);
      offsets.push_back(kept[k]);
    }
    return RegionIndices(reduce_.dst, dims, offsets);
  }

  Stmt NestOverKept(size_t depth, std::vector<Expr>* vars,
                    const std::function<Stmt()>& body) const {
    if (depth == kept_.size()) return body();
    return SerialLoop("r", reduce_.src.ranges[kept_[depth]].extent, loc_, [&](const Expr& var) {
      vars->push_back(var);
      const Stmt inner = NestOverKept(depth + 1, vars, body);
      vars->pop_back();
      return inner;
    });
  }

  // Reduced dimension last: vectors along it.
  Stmt Rows() const {
    std::vector<Expr> kept;
    return NestOverKept(0, &kept, [&] { return Row(kept); });
  }

  Stmt Row(const std::vector<Expr>& kept) const {
    const DType vector = type_.with_lanes(lanes_);
    const ir::Buffer acc =
        ir::MakeBuffer("acc", type_, {MakeInt(kAccumulators * lanes_)}, ir::Scope::kLocal);
    const auto acc_at = [&](int u) {
      return std::vector<Expr>{ir::MakeRamp(MakeInt(u * lanes_), MakeInt(1), lanes_)};
    };
    std::vector<Stmt> body = {ir::MakeStmt<ir::Alloc>(loc_, acc)};
    for (int u = 0; u < kAccumulators; ++u) {
      body.push_back(ir::MakeStmt<ir::Store>(loc_, acc, acc_at(u), arithmetic_.Identity(vector)));
    }
    const auto add = [&](int u, const Expr& at, int64_t valid) {
      std::vector<Expr> indices = SourceAt(kept, at);
      indices.back() = ir::MakeRamp(indices.back(), MakeInt(1), lanes_);
      Expr mask;
      if (valid < lanes_) {
        mask = ir::MakeRamp(MakeInt(0), MakeInt(1), lanes_) <
               ir::MakeBroadcast(MakeInt(valid), lanes_);
      }
      Expr value = arithmetic_.Element(ir::MakeLoad(reduce_.src.buffer, indices, mask));
      if (mask.defined()) value = ir::MakeSelect(mask, value, arithmetic_.Identity(vector));
      return ir::MakeStmt<ir::Store>(loc_, acc, acc_at(u),
                                     arithmetic_.Take(ir::MakeLoad(acc, acc_at(u)), value));
    };
    const int64_t step = kAccumulators * lanes_;
    if (extent_ >= step) {
      body.push_back(SerialLoop("k", MakeInt(extent_ / step), loc_, [&](const Expr& k) {
        std::vector<Stmt> adds;
        for (int u = 0; u < kAccumulators; ++u) {
          adds.push_back(add(u, k * MakeInt(step) + MakeInt(u * lanes_), lanes_));
        }
        return ir::MakeSeq(std::move(adds), loc_);
      }));
    }
    int u = 0;
    for (int64_t at = extent_ / step * step; at < extent_; at += lanes_, ++u) {
      body.push_back(add(u, MakeInt(at), extent_ - at));
    }
    static_assert(kAccumulators == 4);
    for (const auto& [into, from] : {std::pair(0, 1), std::pair(2, 3), std::pair(0, 2)}) {
      body.push_back(ir::MakeStmt<ir::Store>(
          loc_, acc, acc_at(into),
          arithmetic_.Take(ir::MakeLoad(acc, acc_at(into)), ir::MakeLoad(acc, acc_at(from)))));
    }
    body.push_back(FinishRow(kept, ir::MakeLoad(acc, acc_at(0))));
    return ir::MakeSeq(std::move(body), loc_);
  }

  Stmt FinishRow(const std::vector<Expr>& kept, const Expr& folded) const {
    Expr result = ir::MakeCall(type_, arithmetic_.Horizontal(), {folded});
    const std::vector<Expr> at = DestinationAt(kept);
    if (!reduce_.clear) {
      result =
          arithmetic_.Combine(result, ir::MakeCast(type_, ir::MakeLoad(reduce_.dst.buffer, at)));
    }
    return ir::MakeStmt<ir::Store>(loc_, reduce_.dst.buffer, at,
                                   ir::MakeCast(reduce_.dst.buffer->dtype, result));
  }

  // Reduced dimension not last: whole rows are combined, vectors run along the last dimension. The
  // running value lives in a buffer of the compute type, so that a narrow dst rounds once.
  Stmt Columns() const {
    std::vector<Expr> shape;
    for (const int d : kept_) shape.push_back(reduce_.src.ranges[d].extent);
    const ir::Buffer running = ir::MakeBuffer("running", type_, shape, ir::Scope::kFragment);
    const auto over_kept = [&](const std::function<Stmt(const std::vector<Expr>&)>& body) {
      std::vector<ir::Axis> axes;
      std::vector<Expr> vars;
      for (const Expr& extent : shape) {
        vars.push_back(ir::MakeVar("i"));
        axes.push_back({vars.back(), MakeInt(0), extent});
      }
      return ir::MakeStmt<ir::For>(loc_, ir::ForKind::kParallel, axes, body(vars));
    };
    const Stmt start = over_kept([&](const std::vector<Expr>& vars) {
      const Expr old = ir::MakeCast(type_, ir::MakeLoad(reduce_.dst.buffer, DestinationAt(vars)));
      const Expr first = arithmetic_.Identity(type_);
      return ir::MakeStmt<ir::Store>(loc_, running, vars,
                                     reduce_.clear ? first : arithmetic_.Combine(first, old));
    });
    const Stmt sweep = SerialLoop("k", MakeInt(extent_), loc_, [&](const Expr& k) {
      return over_kept([&](const std::vector<Expr>& vars) {
        const Expr value = arithmetic_.Element(ir::MakeLoad(reduce_.src.buffer, SourceAt(vars, k)));
        return ir::MakeStmt<ir::Store>(loc_, running, vars,
                                       arithmetic_.Take(ir::MakeLoad(running, vars), value));
      });
    });
    const Stmt finish = over_kept([&](const std::vector<Expr>& vars) {
      return ir::MakeStmt<ir::Store>(
          loc_, reduce_.dst.buffer, DestinationAt(vars),
          ir::MakeCast(reduce_.dst.buffer->dtype, ir::MakeLoad(running, vars)));
    });
    return ir::MakeSeq({ir::MakeStmt<ir::Alloc>(loc_, running), start, sweep, finish}, loc_);
  }

  const ir::Reduce& reduce_;
  const SourceLoc loc_;
  const ReduceArithmetic arithmetic_;
  const DType type_;
  const int lanes_;
  int64_t extent_ = 0;
  std::vector<int> kept_;
  std::vector<int> dst_dims_;  // of each kept one; -1: of a unit dimension that dst has not
};

}  // namespace

absl::StatusOr<ir::Program> LowerReductionsCpu(const ir::Program& program,
                                               const PassContext& context) {
  absl::Status status;
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [&](const Stmt& s) -> Stmt {
    const auto* reduce = s.As<ir::Reduce>();
    if (reduce == nullptr || !status.ok()) return {};
    if (!ir::ConstInt(reduce->src.ranges[reduce->dim].extent)) {
      status = ExtentOfRunTime(program, s->loc, "reduction");
      return {};
    }
    absl::StatusOr<Stmt> lowered = ReduceLowering(*reduce, context.vector).Lower();
    if (lowered.ok()) return *std::move(lowered);
    status = lowered.status();
    return {};
  });
  KILN_RETURN_IF_ERROR(status);
  return out;
}

}  // namespace kiln::passes

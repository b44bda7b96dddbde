#include "compiler/passes/lower_copies.h"

#include "absl/strings/str_cat.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/stage.h"
#include "compiler/passes/build.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

class LowerTiles : public FactsMutator {
 public:
  explicit LowerTiles(bool threads) : threads_(threads) {}
  absl::Status status;

 protected:
  Stmt VisitStmt(const Stmt& s) override {
    std::vector<Stmt> stmts;
    if (const auto* copy = s.As<ir::Copy>()) {
      if (IsInTensorMemory(copy->src) || IsInTensorMemory(copy->dst)) return s;
      const auto written = Is(copy->dst.buffer);
      const ir::Region dst = ir::Settle(copy->dst, written, s->loc, &stmts);
      const ir::Region src = ir::Settle(copy->src, written, s->loc, &stmts);
      stmts.push_back(LowerCopy(ir::Copy(s->loc, src, dst, copy->annotations)));
      return ir::MakeSeq(std::move(stmts), s->loc);
    }
    if (const auto* fill = s.As<ir::Fill>()) {
      const auto written = Is(fill->dst.buffer);
      const ir::Region dst = ir::Settle(fill->dst, written, s->loc, &stmts);
      const Expr value = ir::Settle(fill->value, written, s->loc, &stmts);
      stmts.push_back(LowerFill(ir::Fill(s->loc, dst, value)));
      return ir::MakeSeq(std::move(stmts), s->loc);
    }
    const auto* atomic = s.As<ir::Atomic>();
    if (atomic != nullptr && !atomic->value.defined()) {
      const auto written = Is(atomic->dst.buffer);
      const ir::Region dst = ir::Settle(atomic->dst, written, s->loc, &stmts);
      const ir::Region src = ir::Settle(atomic->src, written, s->loc, &stmts);
      stmts.push_back(LowerAtomic(ir::Atomic(s->loc, atomic->op, dst, src, {}, atomic->way)));
      return ir::MakeSeq(std::move(stmts), s->loc);
    }
    return FactsMutator::VisitStmt(s);
  }

 private:
  // Such copies are instructions of whole warps.
  static bool IsInTensorMemory(const ir::Region& r) {
    return r.buffer->scope == ir::Scope::kTensor;
  }

  static ir::BufferTest Is(const ir::Buffer& buffer) {
    return [&buffer](const ir::Buffer& other) { return other == buffer; };
  }

  // A parallel loop over the wide dimensions of `shape`, or, where every thread has a tile of its
  // own, serial ones that each of them runs; `body` gets the loop variables.
  Stmt ParallelOver(const ir::Region& shape, const std::vector<int>& dims, SourceLoc loc,
                    const std::function<Stmt(const std::vector<Expr>&)>& body,
                    const std::map<std::string, std::string>& notes = {}) {
    std::vector<ir::Axis> axes;
    std::vector<Expr> vars;
    for (const int d : dims) {
      vars.push_back(ir::MakeVar(absl::StrCat("i", axes.size())));
      axes.push_back({vars.back(), ir::MakeInt(0), shape.ranges[d].extent});
    }
    const ir::Facts saved = facts_;
    for (const ir::Axis& axis : axes) facts_.AddAxis(axis);
    const Stmt inner = body(vars);
    facts_ = saved;
    if (axes.empty()) return inner;
    if (threads_ && shape.buffer->scope == ir::Scope::kLocal) return Serial(axes, inner, loc);
    return ir::MakeStmt<ir::For>(loc, ir::ForKind::kParallel, axes, inner, Expr(), notes);
  }

  static Stmt Serial(const std::vector<ir::Axis>& axes, Stmt body, SourceLoc loc) {
    for (size_t d = axes.size(); d-- > 0;) {
      const std::vector<ir::Axis> axis = {axes[d]};
      body = ir::MakeStmt<ir::For>(loc, ir::ForKind::kSerial, axis, std::move(body));
    }
    return body;
  }

  Stmt LowerCopy(const ir::Copy& copy) {
    const std::vector<int> src_dims = NonUnitDims(copy.src);
    const std::vector<int> dst_dims = NonUnitDims(copy.dst);
    if (src_dims.size() != dst_dims.size()) {
      status = absl::UnimplementedError(
          absl::StrCat("copy of ", ir::ToString(copy.src), " to ", ir::ToString(copy.dst),
                       ": the shapes do not match after dropping extents of one"));
      return ir::MakeSeq({}, copy.loc);
    }
    std::map<std::string, std::string> notes;  // of the loop that the copy becomes
    for (const char* key : {"coalesced_width", "loop_layout"}) {
      const auto note = copy.annotations.find(key);
      if (note != copy.annotations.end()) notes.insert(*note);
    }
    const ir::StoreWay way =
        copy.annotations.count("async") > 0 ? ir::StoreWay::kAsync : ir::StoreWay::kPlain;
    const auto element = [&](const std::vector<Expr>& vars) {
      const std::vector<Expr> from = RegionIndices(copy.src, src_dims, vars);
      const std::vector<Expr> to = RegionIndices(copy.dst, dst_dims, vars);
      const Expr value =
          ir::MakeLoad(copy.src.buffer, from, ClipPredicate(copy.src.buffer, from, facts_));
      return ir::MakeStmt<ir::Store>(copy.loc, copy.dst.buffer, to,
                                     ir::MakeCast(copy.dst.buffer->dtype, value),
                                     ClipPredicate(copy.dst.buffer, to, facts_), way);
    };
    return ParallelOver(copy.dst, dst_dims, copy.loc, element, notes);
  }

  Stmt LowerFill(const ir::Fill& fill) {
    const std::vector<int> dims = NonUnitDims(fill.dst);
    return ParallelOver(fill.dst, dims, fill.loc, [&](const std::vector<Expr>& vars) {
      const std::vector<Expr> to = RegionIndices(fill.dst, dims, vars);
      return ir::MakeStmt<ir::Store>(fill.loc, fill.dst.buffer, to,
                                     ir::MakeCast(fill.dst.buffer->dtype, fill.value),
                                     InsidePredicate(fill.dst.buffer, to, facts_));
    });
  }

  Stmt LowerAtomic(const ir::Atomic& atomic) {
    const std::vector<int> src_dims = NonUnitDims(atomic.src);
    const std::vector<int> dst_dims = NonUnitDims(atomic.dst);
    if (src_dims.size() != dst_dims.size()) {
      status = absl::UnimplementedError(absl::StrCat("atomic update of ", ir::ToString(atomic.dst),
                                                     " from ", ir::ToString(atomic.src),
                                                     ": the shapes do not match"));
      return ir::MakeSeq({}, atomic.loc);
    }
    return ParallelOver(atomic.dst, dst_dims, atomic.loc, [&](const std::vector<Expr>& vars) {
      const std::vector<Expr> from = RegionIndices(atomic.src, src_dims, vars);
      const std::vector<Expr> to = RegionIndices(atomic.dst, dst_dims, vars);
      ir::Region element{atomic.dst.buffer, {}};
      for (const Expr& index : to) element.ranges.push_back({index, ir::MakeInt(1)});
      const Expr value = ir::MakeCast(
          atomic.dst.buffer->dtype,
          ir::MakeLoad(atomic.src.buffer, from, InsidePredicate(atomic.src.buffer, from, facts_)));
      const Stmt update =
          ir::MakeStmt<ir::Atomic>(atomic.loc, atomic.op, element, ir::Region{}, value, atomic.way);
      const Expr inside = InsidePredicate(atomic.dst.buffer, to, facts_);
      return inside.defined() ? ir::MakeStmt<ir::If>(atomic.loc, inside, update) : update;
    });
  }

  const bool threads_;
};

absl::StatusOr<ir::Program> Lower(const ir::Program& program, bool threads) {
  LowerTiles lower(threads);
  ir::Program out = program;
  out.body = lower.Mutate(program.body);
  KILN_RETURN_IF_ERROR(lower.status);
  return out;
}

}  // namespace

absl::StatusOr<ir::Program> LowerCopies(const ir::Program& program, const PassContext&) {
  return Lower(program, /*threads=*/false);
}

absl::StatusOr<ir::Program> LowerCopiesGpu(const ir::Program& program, const PassContext&) {
  return Lower(program, /*threads=*/true);
}

}  // namespace kiln::passes

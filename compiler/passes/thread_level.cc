#include "compiler/passes/thread_level.h"

#include <algorithm>

#include "compiler/base/status.h"
#include "compiler/passes/build.h"
#include "compiler/passes/unroll_lanes.h"

namespace kiln::passes {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;

ThreadLevel::ThreadLevel(const LayoutProblem& problem, const LayoutSolution& solution)
    : problem_(problem), solution_(solution), threads_(problem.threads) {
  for (size_t f = 0; f < problem.fragments.size(); ++f) {
    const ir::Buffer& buffer = problem.fragments[f].buffer;
    const layout::Ownership& held = solution.fragments[f];
    tiles_.push_back({MakeRegisters(buffer->name, buffer->dtype, problem.threads,
                                    std::max<int64_t>(held.slots(), 1)),
                      SlotsOf(held, buffer->name, &tables_)});
  }
}

std::vector<Expr> ThreadLevel::PlaceOf(int fragment, const Expr& thread, const Expr& flat) const {
  return {thread, tiles_[fragment].slot(flat)};
}

std::vector<Expr> ThreadLevel::PlaceIn(int fragment, const ir::Region& region, const Expr& thread,
                                       const Expr& i) const {
  std::vector<Expr> indices = UnflattenExpr(i, ExtentsOf(region));
  for (size_t d = 0; d < indices.size(); ++d) indices[d] = region.ranges[d].min + indices[d];
  return PlaceOf(fragment, thread, FlattenExpr(indices, problem_.fragments[fragment].shape));
}

Stmt ThreadLevel::ForThreads(SourceLoc loc,
                             const std::function<Stmt(const Expr& thread)>& body) const {
  const Expr thread = ir::MakeVar("thread");
  const std::vector<ir::Axis> axis = {{thread, MakeInt(threads_.first), MakeInt(threads_.count)}};
  return ir::MakeStmt<ir::For>(loc, ir::ForKind::kThreads, axis, body(thread));
}

Stmt ThreadLevel::ForShare(const layout::Ownership& loop, const Expr& thread, SourceLoc loc,
                           const std::function<Stmt(const Expr& i, const Expr& acts)>& body) {
  const ThreadShare share = ShareOf(loop, threads_, &tables_);
  return SerialLoop("step", MakeInt(share.steps), loc, [&](const Expr& step) {
    const Expr i = ir::MakeVar("i");
    const Stmt bind = ir::MakeStmt<ir::Bind>(loc, i, share.iteration(thread, step));
    const Expr exists = share.exists(thread, step, i);
    Stmt inner = body(i, share.acts(thread, step));
    if (exists.defined()) inner = ir::MakeStmt<ir::If>(loc, exists, inner);
    return ir::MakeStmt<ir::Seq>(loc, std::vector<Stmt>{bind, inner});
  });
}

Stmt UnrolledWhole(const Stmt& s) {
  const auto* loop = s.As<ir::For>();
  if (loop == nullptr) return s;
  return ir::MakeStmt<ir::For>(loop->loc, loop->loop, loop->axes, loop->body, loop->num_stages,
                               std::map<std::string, std::string>{{kUnrollWhole, "1"}});
}

std::vector<int64_t> ExtentsOf(const ir::Region& region) {
  std::vector<int64_t> extents;
  for (const ir::Range& range : region.ranges) extents.push_back(*ir::ConstInt(range.extent));
  return extents;
}

std::vector<Expr> UnflattenExpr(const Expr& flat, const std::vector<int64_t>& shape) {
  std::vector<Expr> coord(shape.size());
  int64_t inner = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    coord[d] = FloorDiv(flat, MakeInt(inner));
    if (d > 0) coord[d] = FloorMod(coord[d], MakeInt(shape[d]));
    inner *= shape[d];
  }
  return coord;
}

Expr FlattenExpr(const std::vector<Expr>& indices, const std::vector<int64_t>& shape) {
  KILN_CHECK(indices.size() == shape.size());
  Expr flat = MakeInt(0);
  for (size_t d = 0; d < shape.size(); ++d) flat = flat * MakeInt(shape[d]) + indices[d];
  return flat;
}

ir::Buffer MakeRegisters(const std::string& name, DType type, layout::ThreadRange threads,
                         int64_t registers) {
  return ir::MakeBuffer(name, type, {MakeInt(threads.first + threads.count), MakeInt(registers)},
                        ir::Scope::kRegister);
}

}  // namespace kiln::passes

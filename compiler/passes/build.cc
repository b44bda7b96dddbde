#include "compiler/passes/build.h"

#include <algorithm>
#include <set>

namespace kiln::passes {

using ir::Expr;
using ir::Stmt;

Stmt FactsMutator::VisitStmt(const Stmt& s) {
  switch (s.kind()) {
    case ir::StmtKind::kFor:
      return VisitScope(s, s.As<ir::For>()->axes);
    case ir::StmtKind::kLaunch:
      return VisitScope(s, s.As<ir::Launch>()->grid);
    case ir::StmtKind::kSeq:
      return VisitScope(s, {});
    case ir::StmtKind::kIf:
      return VisitIf(s);
    case ir::StmtKind::kBind: {  // stays known to the end of the enclosing Seq
      const auto* bind = s.As<ir::Bind>();
      if (bind->value.dtype().is_int() && bind->value.dtype().is_scalar()) {
        if (const auto bounds = facts_.BoundsOf(bind->value)) facts_.SetBounds(bind->var, *bounds);
      }
      return RebuildStmt(s);
    }
    default:
      return RebuildStmt(s);
  }
}

Stmt FactsMutator::VisitScope(const Stmt& s, const std::vector<ir::Axis>& axes) {
  const ir::Facts saved = facts_;
  for (const ir::Axis& axis : axes) facts_.AddAxis(axis);
  Stmt rebuilt = RebuildStmt(s);
  if (facts_.changes() != saved.changes()) facts_ = saved;
  return rebuilt;
}

Stmt FactsMutator::VisitIf(const Stmt& s) {
  const auto* branch = s.As<ir::If>();
  const Expr condition = Mutate(branch->condition);
  const ir::Facts saved = facts_;
  facts_.Assume(condition);
  const Stmt yes = Mutate(branch->then_case);
  facts_ = saved;
  const Stmt no = branch->else_case.defined() ? Mutate(branch->else_case) : Stmt();
  facts_ = saved;
  if (condition.same_as(branch->condition) && yes.same_as(branch->then_case) &&
      no.same_as(branch->else_case)) {
    return s;
  }
  return ir::MakeStmt<ir::If>(s->loc, condition, yes, no);
}

Stmt DropGuards::VisitStmt(const Stmt& s) {
  const Stmt rebuilt = RebuildStmt(s);
  const auto* store = rebuilt.As<ir::Store>();
  if (store == nullptr || !store->predicate.defined()) return rebuilt;
  return ir::MakeStmt<ir::Store>(s->loc, store->buffer, store->indices, store->value, Expr(),
                                 store->way);
}

Expr DropGuards::VisitExpr(const Expr& e) {
  const Expr rebuilt = RebuildExpr(e);
  const auto* load = rebuilt.As<ir::Load>();
  if (load == nullptr || !load->predicate.defined()) return rebuilt;
  return ir::MakeLoad(load->buffer, load->indices);
}

Stmt SerialLoop(const std::string& name, const Expr& extent, SourceLoc loc,
                const std::function<Stmt(const Expr&)>& body) {
  if (ir::IsConst(extent, 1)) return body(ir::MakeInt(0));
  const Expr var = ir::MakeVar(name);
  return ir::MakeStmt<ir::For>(loc, ir::ForKind::kSerial,
                               std::vector<ir::Axis>{{var, ir::MakeInt(0), extent}}, body(var));
}

Expr RoundedToTf32(const Expr& x) {
  constexpr int64_t kHalf = 1 << 12;
  const Expr bits = ir::MakeCall(kUInt32, ir::Intrinsic::kReinterpret, {x});
  const Expr more = bits + ir::MakeInt(kHalf, kUInt32);
  return ir::MakeSelect(ir::MakeCall(kBool, ir::Intrinsic::kIsNan, {x}), x,
                        ir::MakeCall(kFloat32, ir::Intrinsic::kReinterpret, {more}));
}

std::vector<Expr> RegionIndices(const ir::Region& region, const std::vector<int>& dims,
                                const std::vector<Expr>& offsets) {
  std::vector<Expr> indices;
  for (const ir::Range& range : region.ranges) indices.push_back(range.min);
  for (size_t i = 0; i < dims.size(); ++i) indices[dims[i]] = indices[dims[i]] + offsets[i];
  return indices;
}

bool MovesRegion(const Stmt& s, const ir::Region& region) {
  std::set<const ir::ExprNode*> vars;
  std::set<const ir::BufferNode*> read;
  for (const ir::Range& range : region.ranges) {
    for (const Expr& e : {range.min, range.extent}) {
      ir::Walk(e, [&](const Expr& x) {
        if (x.kind() == ir::ExprKind::kVar) vars.insert(x.get());
        if (const auto* load = x.As<ir::Load>()) read.insert(load->buffer.get());
        return true;
      });
    }
  }
  bool moves = false;
  ir::Walk(s, [&](const Stmt& x) {
    if (const auto* bind = x.As<ir::Bind>()) moves |= vars.count(bind->var.get()) > 0;
    if (const auto* alloc = x.As<ir::Alloc>()) {
      moves |= alloc->buffer == region.buffer || read.count(alloc->buffer.get()) > 0;
    }
    return !moves;
  });
  const std::vector<ir::Buffer> written = ir::BuffersWritten(s);
  return moves || std::any_of(written.begin(), written.end(),
                              [&](const ir::Buffer& b) { return read.count(b.get()) > 0; });
}

bool IndexReads(const ir::Region& region, const ir::Buffer& buffer) {
  bool reads = false;
  for (const ir::Range& range : region.ranges) {
    for (const Expr& e : {range.min, range.extent}) {
      ir::Walk(e, [&](const Expr& x) {
        const auto* load = x.As<ir::Load>();
        reads |= load != nullptr && load->buffer == buffer;
        return !reads;
      });
    }
  }
  return reads;
}

Expr ClipPredicate(const ir::Buffer& buffer, const std::vector<Expr>& indices,
                   const ir::Facts& facts) {
  Expr predicate;
  for (size_t d = 0; d < indices.size(); ++d) {
    const Expr low = indices[d] >= ir::MakeInt(0);
    const Expr high = indices[d] < buffer->shape[d];
    if (!facts.Proves(low)) predicate = ir::AndPredicate(predicate, low);
    if (!facts.Proves(high)) predicate = ir::AndPredicate(predicate, high);
  }
  return predicate;
}

Expr InsidePredicate(const ir::Buffer& buffer, const std::vector<Expr>& indices,
                     const ir::Facts& facts) {
  return buffer->scope == ir::Scope::kGlobal ? ClipPredicate(buffer, indices, facts) : Expr();
}

DType ComputeType(DType type) {
  if (type.is_float()) return type.bits > 32 ? type.element() : kFloat32;
  if (type.is_bool()) return kInt32;
  if (type.bits >= 32) return type.element();
  return kInt32;
}

}  // namespace kiln::passes

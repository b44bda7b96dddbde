#include "compiler/ir/visit.h"

#include "compiler/base/status.h"
#include "compiler/ir/instruct.h"

namespace kiln::ir {
namespace {

void WalkAll(const std::vector<Expr>& v, const ExprCallback& on_expr) {
  for (const Expr& e : v) Walk(e, on_expr);
}

void WalkRegion(const Region& r, const ExprCallback& on_expr) {
  for (const Range& range : r.ranges) {
    Walk(range.min, on_expr);
    Walk(range.extent, on_expr);
  }
}

void WalkAxes(const std::vector<Axis>& axes, const ExprCallback& on_expr) {
  for (const Axis& axis : axes) {
    Walk(axis.min, on_expr);
    Walk(axis.extent, on_expr);
  }
}

void WalkChildren(const Expr& e, const ExprCallback& on_expr) {
  switch (e.kind()) {
    case ExprKind::kIntImm:
    case ExprKind::kFloatImm:
    case ExprKind::kVar:
      return;
    case ExprKind::kUnary:
      return Walk(e.As<Unary>()->a, on_expr);
    case ExprKind::kBinary:
      Walk(e.As<Binary>()->a, on_expr);
      return Walk(e.As<Binary>()->b, on_expr);
    case ExprKind::kSelect:
      Walk(e.As<Select>()->condition, on_expr);
      Walk(e.As<Select>()->a, on_expr);
      return Walk(e.As<Select>()->b, on_expr);
    case ExprKind::kCast:
      return Walk(e.As<Cast>()->a, on_expr);
    case ExprKind::kLoad:
      WalkAll(e.As<Load>()->indices, on_expr);
      return Walk(e.As<Load>()->predicate, on_expr);
    case ExprKind::kCall:
      return WalkAll(e.As<Call>()->args, on_expr);
    case ExprKind::kRamp:
      Walk(e.As<Ramp>()->base, on_expr);
      return Walk(e.As<Ramp>()->stride, on_expr);
    case ExprKind::kBroadcast:
      return Walk(e.As<Broadcast>()->a, on_expr);
  }
}

// The expressions that a statement holds itself, those of its sub-statements excepted.
void WalkOwnExprs(const Stmt& s, const ExprCallback& f) {
  if (const auto* x = s.As<For>()) {
    WalkAxes(x->axes, f);
    Walk(x->num_stages, f);
  } else if (const auto* x = s.As<While>()) {
    Walk(x->condition, f);
  } else if (const auto* x = s.As<If>()) {
    Walk(x->condition, f);
  } else if (const auto* x = s.As<Bind>()) {
    Walk(x->value, f);
  } else if (const auto* x = s.As<Alloc>()) {
    Walk(x->init, f);
  } else if (const auto* x = s.As<Store>()) {
    WalkAll(x->indices, f);
    Walk(x->value, f);
    Walk(x->predicate, f);
  } else if (const auto* x = s.As<Copy>()) {
    WalkRegion(x->src, f);
    WalkRegion(x->dst, f);
  } else if (const auto* x = s.As<Gemm>()) {
    WalkRegion(x->a, f);
    WalkRegion(x->b, f);
    WalkRegion(x->c, f);
    if (x->sparse()) WalkRegion(x->e, f);
    Walk(x->clear_accum, f);
  } else if (const auto* x = s.As<PairGemm>()) {
    WalkRegion(x->a, f);
    WalkRegion(x->b, f);
    WalkRegion(x->c, f);
  } else if (const auto* x = s.As<Fill>()) {
    WalkRegion(x->dst, f);
    Walk(x->value, f);
  } else if (const auto* x = s.As<Reduce>()) {
    WalkRegion(x->src, f);
    WalkRegion(x->dst, f);
  } else if (const auto* x = s.As<Scan>()) {
    WalkRegion(x->src, f);
    WalkRegion(x->dst, f);
  } else if (const auto* x = s.As<Print>()) {
    WalkAll(x->values, f);
  } else if (const auto* x = s.As<Atomic>()) {
    WalkRegion(x->dst, f);
    WalkRegion(x->src, f);
    Walk(x->value, f);
  } else if (const auto* x = s.As<Evaluate>()) {
    Walk(x->value, f);
  } else if (const auto* x = s.As<Instruct>()) {
    for (const Region& r : x->regions) WalkRegion(r, f);
    WalkAll(x->args, f);
  } else if (const auto* x = s.As<Assert>()) {
    Walk(x->condition, f);
  } else if (const auto* x = s.As<Launch>()) {
    WalkAxes(x->grid, f);
    WalkAll(x->threads, f);
  }
}

void WalkSubStmts(const Stmt& s, const StmtCallback& on_stmt, const ExprCallback& on_expr) {
  if (const auto* x = s.As<Seq>()) {
    for (const Stmt& child : x->stmts) Walk(child, on_stmt, on_expr);
  } else if (const auto* x = s.As<For>()) {
    Walk(x->body, on_stmt, on_expr);
  } else if (const auto* x = s.As<While>()) {
    Walk(x->body, on_stmt, on_expr);
  } else if (const auto* x = s.As<If>()) {
    Walk(x->then_case, on_stmt, on_expr);
    Walk(x->else_case, on_stmt, on_expr);
  } else if (const auto* x = s.As<Launch>()) {
    Walk(x->body, on_stmt, on_expr);
  } else if (const auto* x = s.As<OnThreads>()) {
    Walk(x->body, on_stmt, on_expr);
  }
}

bool SameRegion(const Region& a, const Region& b) {
  if (a.buffer != b.buffer) return false;
  for (size_t i = 0; i < a.ranges.size(); ++i) {
    if (!a.ranges[i].min.same_as(b.ranges[i].min)) return false;
    if (!a.ranges[i].extent.same_as(b.ranges[i].extent)) return false;
  }
  return true;
}

bool SameObjects(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].same_as(b[i])) return false;
  }
  return true;
}

bool SameAxes(const std::vector<Axis>& a, const std::vector<Axis>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].var.same_as(b[i].var) || !a[i].min.same_as(b[i].min) ||
        !a[i].extent.same_as(b[i].extent)) {
      return false;
    }
  }
  return true;
}

class Substituter : public Mutator {
 public:
  Substituter(const VarMap& vars, const BufferMap& buffers) : vars_(vars), buffers_(buffers) {}

 protected:
  Expr VisitExpr(const Expr& e) override {
    if (e.kind() == ExprKind::kVar) {
      const auto found = vars_.find(e.get());
      return found == vars_.end() ? e : found->second;
    }
    if (!e.shared()) return RebuildExpr(e);
    const auto known = shared_.find(e.get());  // what was shared stays so
    if (known != shared_.end()) return known->second;
    const Expr rebuilt = RebuildExpr(e);
    shared_.emplace(e.get(), rebuilt);
    return rebuilt;
  }
  Stmt VisitStmt(const Stmt& s) override {
    if (const auto* alloc = s.As<Alloc>()) AdaptShape(alloc->buffer);
    return RebuildStmt(s);
  }
  Buffer VisitBuffer(const Buffer& b) override {
    const auto found = buffers_.find(b.get());
    return found == buffers_.end() ? b : found->second;
  }

 private:
  // A buffer allocated inside the statement whose shape uses a replaced variable is replaced too.
  void AdaptShape(const Buffer& b) {
    if (buffers_.count(b.get())) return;
    std::vector<Expr> shape = MutateAll(b->shape);
    std::vector<Expr> strides = MutateAll(b->strides);
    if (SameObjects(shape, b->shape) && SameObjects(strides, b->strides)) return;
    auto copy = std::make_shared<BufferNode>(*b);
    copy->shape = std::move(shape);
    copy->strides = std::move(strides);
    buffers_[b.get()] = std::move(copy);
    shared_.clear();
  }

  const VarMap& vars_;
  BufferMap buffers_;
  std::unordered_map<const ExprNode*, Expr> shared_;
};

class StmtRewriter : public Mutator {
 public:
  explicit StmtRewriter(const std::function<Stmt(const Stmt&)>& f) : f_(f) {}

 protected:
  Expr VisitExpr(const Expr& e) override { return e; }
  Stmt VisitStmt(const Stmt& s) override {
    Stmt replacement = f_(s);
    return replacement.defined() ? replacement : RebuildStmt(s);
  }

 private:
  const std::function<Stmt(const Stmt&)>& f_;
};

class ExprRewriter : public Mutator {
 public:
  explicit ExprRewriter(const std::function<Expr(const Expr&)>& f) : f_(f) {}

 protected:
  Expr VisitExpr(const Expr& e) override {
    Expr replacement = f_(e);
    return replacement.defined() ? replacement : RebuildExpr(e);
  }

 private:
  const std::function<Expr(const Expr&)>& f_;
};

}  // namespace

void Walk(const Expr& e, const ExprCallback& on_expr) {
  if (!e.defined() || !on_expr) return;
  if (on_expr(e)) WalkChildren(e, on_expr);
}

void Walk(const Stmt& s, const StmtCallback& on_stmt, const ExprCallback& on_expr) {
  if (!s.defined()) return;
  if (on_stmt && !on_stmt(s)) return;
  if (on_expr) WalkOwnExprs(s, on_expr);
  WalkSubStmts(s, on_stmt, on_expr);
}

bool IsJump(const Stmt& s) {
  return s.kind() == StmtKind::kBreak || s.kind() == StmtKind::kContinue;
}

bool HasJump(const Stmt& s) {
  bool found = false;
  Walk(s, [&](const Stmt& x) {
    found |= IsJump(x);
    return !found;
  });
  return found;
}

bool Leaves(const Stmt& s) {
  bool found = false;
  Walk(s, [&](const Stmt& x) {
    found |= IsJump(x);
    return !found && x.kind() != StmtKind::kFor && x.kind() != StmtKind::kWhile;
  });
  return found;
}

Expr Mutator::Mutate(const Expr& e) { return e.defined() ? VisitExpr(e) : e; }
Stmt Mutator::Mutate(const Stmt& s) { return s.defined() ? VisitStmt(s) : s; }
Expr Mutator::VisitExpr(const Expr& e) { return RebuildExpr(e); }
Stmt Mutator::VisitStmt(const Stmt& s) { return RebuildStmt(s); }

std::vector<Expr> Mutator::MutateAll(const std::vector<Expr>& v) {
  std::vector<Expr> result;
  result.reserve(v.size());
  for (const Expr& e : v) result.push_back(Mutate(e));
  return result;
}

Region Mutator::MutateRegion(const Region& r) {
  if (!r.buffer) return r;
  Region result{VisitBuffer(r.buffer), {}};
  for (const Range& range : r.ranges) {
    result.ranges.push_back({Mutate(range.min), Mutate(range.extent)});
  }
  return result;
}

Expr Mutator::RebuildExpr(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::kIntImm:
    case ExprKind::kFloatImm:
    case ExprKind::kVar:
      return e;
    case ExprKind::kUnary: {
      const auto* x = e.As<Unary>();
      Expr a = Mutate(x->a);
      return a.same_as(x->a) ? e : MakeUnary(x->op, std::move(a));
    }
    case ExprKind::kBinary: {
      const auto* x = e.As<Binary>();
      Expr a = Mutate(x->a), b = Mutate(x->b);
      if (a.same_as(x->a) && b.same_as(x->b)) return e;
      return MakeBinary(x->op, std::move(a), std::move(b));
    }
    case ExprKind::kSelect: {
      const auto* x = e.As<Select>();
      Expr c = Mutate(x->condition), a = Mutate(x->a), b = Mutate(x->b);
      if (c.same_as(x->condition) && a.same_as(x->a) && b.same_as(x->b)) return e;
      return MakeSelect(std::move(c), std::move(a), std::move(b));
    }
    case ExprKind::kCast: {
      const auto* x = e.As<Cast>();
      Expr a = Mutate(x->a);
      if (a.same_as(x->a)) return e;
      return MakeCast(e.dtype().with_lanes(a.dtype().lanes), a);
    }
    case ExprKind::kLoad: {
      const auto* x = e.As<Load>();
      Buffer buffer = VisitBuffer(x->buffer);
      std::vector<Expr> indices = MutateAll(x->indices);
      Expr predicate = Mutate(x->predicate);
      if (buffer == x->buffer && SameObjects(indices, x->indices) &&
          predicate.same_as(x->predicate)) {
        return e;
      }
      return MakeLoad(std::move(buffer), std::move(indices), std::move(predicate));
    }
    case ExprKind::kCall: {
      const auto* x = e.As<Call>();
      std::vector<Expr> args = MutateAll(x->args);
      if (SameObjects(args, x->args)) return e;
      return MakeCall(e.dtype(), x->op, std::move(args));
    }
    case ExprKind::kRamp: {
      const auto* x = e.As<Ramp>();
      Expr base = Mutate(x->base), stride = Mutate(x->stride);
      if (base.same_as(x->base) && stride.same_as(x->stride)) return e;
      return MakeRamp(std::move(base), std::move(stride), e.dtype().lanes);
    }
    case ExprKind::kBroadcast: {
      const auto* x = e.As<Broadcast>();
      Expr a = Mutate(x->a);
      return a.same_as(x->a) ? e : MakeBroadcast(std::move(a), e.dtype().lanes);
    }
  }
  return e;
}

namespace {

// A binding site keeps being a variable, whatever a mutator makes of its uses.
Expr BoundVar(const Expr& before, Expr after) { return after.As<Var>() ? after : before; }

}  // namespace

Stmt Mutator::RebuildStmt(const Stmt& s) {
  const auto mutate_axes = [this](const std::vector<Axis>& axes) {
    std::vector<Axis> result;
    for (const Axis& axis : axes) {
      result.push_back(
          {BoundVar(axis.var, Mutate(axis.var)), Mutate(axis.min), Mutate(axis.extent)});
    }
    return result;
  };
  switch (s.kind()) {
    case StmtKind::kBreak:
    case StmtKind::kContinue:
      return s;
    case StmtKind::kSeq: {
      const auto* x = s.As<Seq>();
      std::vector<Stmt> stmts;
      bool changed = false;
      for (const Stmt& child : x->stmts) {
        stmts.push_back(Mutate(child));
        changed |= !stmts.back().same_as(child);
      }
      return changed ? MakeSeq(std::move(stmts), s->loc) : s;
    }
    case StmtKind::kFor: {
      const auto* x = s.As<For>();
      std::vector<Axis> axes = mutate_axes(x->axes);
      Expr stages = Mutate(x->num_stages);
      Stmt body = Mutate(x->body);
      if (SameAxes(axes, x->axes) && stages.same_as(x->num_stages) && body.same_as(x->body)) {
        return s;
      }
      return MakeStmt<For>(s->loc, x->loop, std::move(axes), std::move(body), std::move(stages),
                           x->annotations);
    }
    case StmtKind::kWhile: {
      const auto* x = s.As<While>();
      Expr condition = Mutate(x->condition);
      Stmt body = Mutate(x->body);
      if (condition.same_as(x->condition) && body.same_as(x->body)) return s;
      return MakeStmt<While>(s->loc, std::move(condition), std::move(body));
    }
    case StmtKind::kOnThreads: {
      const auto* x = s.As<OnThreads>();
      Stmt body = Mutate(x->body);
      if (body.same_as(x->body)) return s;
      return MakeStmt<OnThreads>(s->loc, x->first, x->count, std::move(body));
    }
    case StmtKind::kIf: {
      const auto* x = s.As<If>();
      Expr condition = Mutate(x->condition);
      Stmt then_case = Mutate(x->then_case), else_case = Mutate(x->else_case);
      if (condition.same_as(x->condition) && then_case.same_as(x->then_case) &&
          else_case.same_as(x->else_case)) {
        return s;
      }
      return MakeStmt<If>(s->loc, std::move(condition), std::move(then_case), std::move(else_case));
    }
    case StmtKind::kBind: {
      const auto* x = s.As<Bind>();
      Expr value = Mutate(x->value);
      Expr var = BoundVar(x->var, Mutate(x->var));
      if (value.same_as(x->value) && var.same_as(x->var)) return s;
      return MakeStmt<Bind>(s->loc, std::move(var), std::move(value));
    }
    case StmtKind::kAlloc: {
      const auto* x = s.As<Alloc>();
      Buffer buffer = VisitBuffer(x->buffer);
      Expr init = Mutate(x->init);
      if (buffer == x->buffer && init.same_as(x->init)) return s;
      return MakeStmt<Alloc>(s->loc, std::move(buffer), std::move(init), x->place);
    }
    case StmtKind::kLaunch: {
      const auto* x = s.As<Launch>();
      std::vector<Axis> grid = mutate_axes(x->grid);
      std::vector<Expr> threads = MutateAll(x->threads);
      Stmt body = Mutate(x->body);
      if (SameAxes(grid, x->grid) && SameObjects(threads, x->threads) && body.same_as(x->body)) {
        return s;
      }
      return MakeStmt<Launch>(s->loc, std::move(grid), std::move(threads), std::move(body),
                              x->annotations);
    }
    default:
      return RebuildLeaf(s);
  }
}

Stmt Mutator::RebuildLeaf(const Stmt& s) {
  switch (s.kind()) {
    case StmtKind::kStore: {
      const auto* x = s.As<Store>();
      Buffer buffer = VisitBuffer(x->buffer);
      std::vector<Expr> indices = MutateAll(x->indices);
      Expr value = Mutate(x->value), predicate = Mutate(x->predicate);
      if (buffer == x->buffer && SameObjects(indices, x->indices) && value.same_as(x->value) &&
          predicate.same_as(x->predicate)) {
        return s;
      }
      return MakeStmt<Store>(s->loc, std::move(buffer), std::move(indices), std::move(value),
                             std::move(predicate), x->way);
    }
    case StmtKind::kCopy: {
      const auto* x = s.As<Copy>();
      Region src = MutateRegion(x->src), dst = MutateRegion(x->dst);
      if (SameRegion(src, x->src) && SameRegion(dst, x->dst)) return s;
      return MakeStmt<Copy>(s->loc, std::move(src), std::move(dst), x->annotations);
    }
    case StmtKind::kGemm: {
      const auto* x = s.As<Gemm>();
      Region a = MutateRegion(x->a), b = MutateRegion(x->b), c = MutateRegion(x->c);
      Region e = x->sparse() ? MutateRegion(x->e) : x->e;
      Expr clear = Mutate(x->clear_accum);
      if (SameRegion(a, x->a) && SameRegion(b, x->b) && SameRegion(c, x->c) &&
          (!x->sparse() || SameRegion(e, x->e)) && clear.same_as(x->clear_accum)) {
        return s;
      }
      return MakeStmt<Gemm>(s->loc, std::move(a), std::move(b), std::move(c), x->trans_a,
                            x->trans_b, x->policy, std::move(clear), std::move(e), x->trans_e);
    }
    case StmtKind::kPairGemm: {
      const auto* x = s.As<PairGemm>();
      Region a = MutateRegion(x->a), b = MutateRegion(x->b), c = MutateRegion(x->c);
      if (SameRegion(a, x->a) && SameRegion(b, x->b) && SameRegion(c, x->c)) return s;
      return MakeStmt<PairGemm>(s->loc, std::move(a), std::move(b), std::move(c));
    }
    case StmtKind::kFill: {
      const auto* x = s.As<Fill>();
      Region dst = MutateRegion(x->dst);
      Expr value = Mutate(x->value);
      if (SameRegion(dst, x->dst) && value.same_as(x->value)) return s;
      return MakeStmt<Fill>(s->loc, std::move(dst), std::move(value));
    }
    case StmtKind::kReduce: {
      const auto* x = s.As<Reduce>();
      Region src = MutateRegion(x->src), dst = MutateRegion(x->dst);
      if (SameRegion(src, x->src) && SameRegion(dst, x->dst)) return s;
      return MakeStmt<Reduce>(s->loc, x->op, std::move(src), std::move(dst), x->dim, x->clear);
    }
    case StmtKind::kAtomic: {
      const auto* x = s.As<Atomic>();
      Region dst = MutateRegion(x->dst), src = MutateRegion(x->src);
      Expr value = Mutate(x->value);
      AtomicWay way = x->way;
      if (way.previous) way.previous = VisitBuffer(way.previous);
      if (SameRegion(dst, x->dst) && SameRegion(src, x->src) && value.same_as(x->value) &&
          way.previous == x->way.previous) {
        return s;
      }
      return MakeStmt<Atomic>(s->loc, x->op, std::move(dst), std::move(src), std::move(value),
                              std::move(way));
    }
    case StmtKind::kScan: {
      const auto* x = s.As<Scan>();
      Region src = MutateRegion(x->src), dst = MutateRegion(x->dst);
      if (SameRegion(src, x->src) && SameRegion(dst, x->dst)) return s;
      return MakeStmt<Scan>(s->loc, x->op, std::move(src), std::move(dst), x->dim, x->reverse);
    }
    case StmtKind::kPrint: {
      const auto* x = s.As<Print>();
      std::vector<Expr> values = MutateAll(x->values);
      if (SameObjects(values, x->values)) return s;
      return MakeStmt<Print>(s->loc, x->text, std::move(values));
    }
    case StmtKind::kEvaluate: {
      const auto* x = s.As<Evaluate>();
      Expr value = Mutate(x->value);
      return value.same_as(x->value) ? s : MakeStmt<Evaluate>(s->loc, std::move(value));
    }
    case StmtKind::kInstruct: {
      const auto* x = s.As<Instruct>();
      std::vector<Region> regions;
      bool changed = false;
      for (const Region& r : x->regions) {
        regions.push_back(MutateRegion(r));
        changed |= !SameRegion(regions.back(), r);
      }
      std::vector<Expr> args = MutateAll(x->args);
      if (!changed && SameObjects(args, x->args)) return s;
      return MakeStmt<Instruct>(s->loc, x->op, std::move(regions), std::move(args), x->annotations);
    }
    case StmtKind::kAssert: {
      const auto* x = s.As<Assert>();
      Expr condition = Mutate(x->condition);
      if (condition.same_as(x->condition)) return s;
      return MakeStmt<Assert>(s->loc, std::move(condition), x->message);
    }
    default:
      return s;
  }
}

Expr Substitute(const Expr& e, const VarMap& vars) { return Substituter(vars, {}).Mutate(e); }

Stmt Substitute(const Stmt& s, const VarMap& vars, const BufferMap& buffers) {
  return Substituter(vars, buffers).Mutate(s);
}

Stmt RewriteStmts(const Stmt& s, const std::function<Stmt(const Stmt&)>& on_stmt) {
  return StmtRewriter(on_stmt).Mutate(s);
}

Stmt RewriteExprs(const Stmt& s, const std::function<Expr(const Expr&)>& on_expr) {
  return ExprRewriter(on_expr).Mutate(s);
}

Stmt WithoutStmts(const Stmt& s, const std::function<bool(const Stmt&)>& goes) {
  return RewriteStmts(s, [&](const Stmt& x) { return goes(x) ? MakeSeq({}, x->loc) : Stmt(); });
}

Stmt FreshCopy(const Stmt& s, BufferMap* copies) {
  VarMap vars;
  BufferMap buffers;
  const auto refresh = [&](const Expr& var) {
    vars[var.get()] = MakeVar(var.As<Var>()->name, var.dtype());
  };
  Walk(s, [&](const Stmt& x) {
    if (const auto* bind = x.As<Bind>()) refresh(bind->var);
    if (const auto* loop = x.As<For>()) {
      for (const Axis& axis : loop->axes) refresh(axis.var);
    }
    if (const auto* launch = x.As<Launch>()) {
      for (const Axis& axis : launch->grid) refresh(axis.var);
    }
    if (const auto* alloc = x.As<Alloc>()) {
      buffers[alloc->buffer.get()] = std::make_shared<const BufferNode>(*alloc->buffer);
    }
    return true;
  });
  if (copies != nullptr) *copies = buffers;
  return vars.empty() && buffers.empty() ? s : Substitute(s, vars, buffers);
}

}  // namespace kiln::ir

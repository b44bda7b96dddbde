// for i, j in T.Parallel(M, N): body   becomes   for i: { for jj: body[j := jj*L + lane]; tail }
//
// Before:  for j in parallel(40): B[j] = A[j] * s[0]
// After:   for jj in serial(2): B[ramp(jj*16)] = A[ramp(jj*16)] * broadcast(s[0])
//          B[ramp(32)] = ... with predicate ramp(32) < 40
//
// An expression that does not use the axis stays scalar and is broadcast where it meets a vector.
#include "compiler/passes/vectorize_parallel.h"

#include <unordered_map>
#include <unordered_set>

#include "compiler/passes/build.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;

// Rewrites one body for the lanes base + 0 .. base + lanes-1 of an axis.
class Vectorizer {
 public:
  // `base` is the value of the axis in lane 0; `mask` (may be undefined) says which lanes exist.
  Vectorizer(const Expr& var, const Expr& base, int lanes, const Expr& mask)
      : var_(var), base_(base), lanes_(lanes), mask_(mask) {}

  // Whether Vectorize can handle `body`.
  static bool Supports(const Stmt& body, const Expr& var);

  Stmt Vectorize(const Stmt& s) { return Visit(s, mask_); }

 private:
  bool Varies(const Expr& e) const {
    bool varies = false;
    ir::Walk(e, [&](const Expr& x) {
      varies |= x.same_as(var_) || vector_binds_.count(x.get()) > 0;
      return !varies;
    });
    return varies;
  }

  Expr Widen(const Expr& e) const {
    return e.dtype().is_scalar() ? ir::MakeBroadcast(e, lanes_) : e;
  }

  Expr Vector(const Expr& e, const Expr& mask) {
    if (!Varies(e)) return e;
    if (e.same_as(var_)) return ir::MakeRamp(base_, MakeInt(1, base_.dtype()), lanes_);
    switch (e.kind()) {
      case ir::ExprKind::kVar:
        return vector_binds_.at(e.get());
      case ir::ExprKind::kUnary:
        return ir::MakeUnary(e.As<ir::Unary>()->op, Vector(e.As<ir::Unary>()->a, mask));
      case ir::ExprKind::kBinary: {
        const auto* b = e.As<ir::Binary>();
        if (const Expr ramp = AffineRamp(e); ramp.defined()) return ramp;
        return ir::MakeBinary(b->op, Widen(Vector(b->a, mask)), Widen(Vector(b->b, mask)));
      }
      case ir::ExprKind::kSelect: {
        const auto* s = e.As<ir::Select>();
        return ir::MakeSelect(Widen(Vector(s->condition, mask)), Widen(Vector(s->a, mask)),
                              Widen(Vector(s->b, mask)));
      }
      case ir::ExprKind::kCast:
        return ir::MakeCast(e.dtype().with_lanes(lanes_), Vector(e.As<ir::Cast>()->a, mask));
      case ir::ExprKind::kLoad:
        return VectorLoad(*e.As<ir::Load>(), mask);
      case ir::ExprKind::kCall: {
        const auto* call = e.As<ir::Call>();
        std::vector<Expr> args;
        for (const Expr& arg : call->args) args.push_back(Widen(Vector(arg, mask)));
        return ir::MakeCall(e.dtype().with_lanes(lanes_), call->op, args);
      }
      default:
        KILN_CHECK(false && "vector expressions before vectorisation");
        return e;
    }
  }

  // c*var + rest as a ramp; undefined when e is not affine in the axis with a constant coefficient.
  Expr AffineRamp(const Expr& e) const {
    if (!e.dtype().is_int()) return {};
    ir::LinearForm form = ir::Linearize(e);
    int64_t coefficient = 0;
    ir::LinearForm rest;
    rest.constant = form.constant;
    for (const auto& [atom, c] : form.terms) {
      if (atom.same_as(var_)) {
        coefficient = c;
      } else if (Varies(atom)) {
        return {};
      } else {
        rest.terms.push_back({atom, c});
      }
    }
    const DType type = e.dtype().element();
    const Expr start =
        ir::FromLinear(rest, type) + ir::MakeCast(type, base_) * MakeInt(coefficient, type);
    return ir::MakeRamp(start, MakeInt(coefficient, type), lanes_);
  }

  std::vector<Expr> VectorIndices(const std::vector<Expr>& indices, const Expr& mask) {
    std::vector<Expr> out;
    bool any_vector = false;
    for (const Expr& index : indices) {
      if (!Varies(index)) {
        out.push_back(index);
        continue;
      }
      const Expr ramp = AffineRamp(index);
      out.push_back(ramp.defined() ? ramp : Vector(index, mask));
      any_vector = true;
    }
    if (any_vector) out.back() = Widen(out.back());
    return out;
  }

  Expr VectorLoad(const ir::Load& load, const Expr& mask) {
    Expr predicate = mask;
    if (load.predicate.defined()) {
      predicate = AndMask(mask, Widen(Vector(load.predicate, mask)));
    }
    const std::vector<Expr> indices = VectorIndices(load.indices, mask);
    if (indices.back()
            .dtype()
            .is_scalar()) {  // only the predicate varies: load once, choose by lane
      const Expr value = ir::MakeBroadcast(ir::MakeLoad(load.buffer, indices), lanes_);
      return ir::MakeSelect(predicate, value, ir::MakeConst(0, value.dtype()));
    }
    return ir::MakeLoad(load.buffer, indices, predicate);
  }

  static Expr AndMask(const Expr& a, const Expr& b) { return AndPredicate(a, b); }

  Stmt Visit(const Stmt& s, const Expr& mask) {
    switch (s.kind()) {
      case ir::StmtKind::kSeq: {
        std::vector<Stmt> stmts;
        for (const Stmt& child : s.As<ir::Seq>()->stmts) stmts.push_back(Visit(child, mask));
        return ir::MakeSeq(std::move(stmts), s->loc);
      }
      case ir::StmtKind::kBind: {
        const auto* bind = s.As<ir::Bind>();
        if (!Varies(bind->value)) return s;
        const Expr value = Widen(Vector(bind->value, mask));
        const Expr var = ir::MakeVar(bind->var.As<ir::Var>()->name, value.dtype());
        vector_binds_[bind->var.get()] = var;
        return ir::MakeStmt<ir::Bind>(s->loc, var, value);
      }
      case ir::StmtKind::kStore: {
        const auto* store = s.As<ir::Store>();
        Expr predicate = mask;
        if (store->predicate.defined()) {
          predicate = AndMask(mask, Widen(Vector(store->predicate, mask)));
        }
        return ir::MakeStmt<ir::Store>(s->loc, store->buffer, VectorIndices(store->indices, mask),
                                       Widen(Vector(store->value, mask)), predicate);
      }
      case ir::StmtKind::kEvaluate:  // a prefetch: of the first lane's line
        return ir::Substitute(s, {{var_.get(), base_}});
      case ir::StmtKind::kIf:
        return VisitIf(*s.As<ir::If>(), mask);
      case ir::StmtKind::kFor: {
        const auto* loop = s.As<ir::For>();
        return ir::MakeStmt<ir::For>(s->loc, loop->loop, loop->axes, Visit(loop->body, mask),
                                     loop->num_stages, loop->annotations);
      }
      default:
        KILN_CHECK(false && "statement not supported by Vectorizer::Supports");
        return s;
    }
  }

  Stmt VisitIf(const ir::If& branch, const Expr& mask) {
    if (!Varies(branch.condition)) {
      return ir::MakeStmt<ir::If>(
          branch.loc, branch.condition, Visit(branch.then_case, mask),
          branch.else_case.defined() ? Visit(branch.else_case, mask) : Stmt());
    }
    const Expr condition = Widen(Vector(branch.condition, mask));
    std::vector<Stmt> stmts = {Visit(branch.then_case, AndMask(mask, condition))};
    if (branch.else_case.defined()) {
      const Expr otherwise = ir::MakeUnary(ir::UnaryOp::kNot, condition);
      stmts.push_back(Visit(branch.else_case, AndMask(mask, otherwise)));
    }
    return ir::MakeSeq(std::move(stmts), branch.loc);
  }

  const Expr var_;
  const Expr base_;
  const int lanes_;
  const Expr mask_;
  std::unordered_map<const ir::ExprNode*, Expr> vector_binds_;
};

bool Vectorizer::Supports(const Stmt& body, const Expr& var) {
  bool supported = true;
  std::unordered_set<const ir::BufferNode*> stored;
  // Variables whose value depends on the axis, in program order.
  std::unordered_set<const ir::ExprNode*> varying = {var.get()};
  const auto varies = [&](const Expr& e) {
    bool found = false;
    ir::Walk(e, [&](const Expr& x) {
      found |= varying.count(x.get()) > 0;
      return !found;
    });
    return found;
  };
  ir::Walk(body, [&](const Stmt& s) {
    switch (s.kind()) {
      case ir::StmtKind::kSeq:
      case ir::StmtKind::kIf:
        break;
      case ir::StmtKind::kBind:
        if (varies(s.As<ir::Bind>()->value)) varying.insert(s.As<ir::Bind>()->var.get());
        break;
      case ir::StmtKind::kStore: {
        const auto* store = s.As<ir::Store>();
        bool any = false;
        for (const Expr& index : store->indices) any |= varies(index);
        supported &= any;  // one element for all iterations: leave the order alone
        break;
      }
      case ir::StmtKind::kEvaluate: {
        const auto* call = s.As<ir::Evaluate>()->value.As<ir::Call>();
        supported &= call != nullptr && call->op == ir::Intrinsic::kPrefetch;
        break;
      }
      case ir::StmtKind::kFor: {
        const auto* loop = s.As<ir::For>();
        const bool serial =
            loop->loop == ir::ForKind::kSerial || loop->loop == ir::ForKind::kUnroll;
        supported &= serial && !varies(loop->axes[0].min) && !varies(loop->axes[0].extent);
        break;
      }
      default:
        supported = false;
    }
    return supported;
  });
  return supported;
}

class VectorizeLoops : public ir::Mutator {
 public:
  explicit VectorizeLoops(const VectorUnit& unit) : unit_(unit) {}

 protected:
  Stmt VisitStmt(const Stmt& s) override {
    const Stmt rebuilt = RebuildStmt(s);
    const auto* loop = rebuilt.As<ir::For>();
    if (loop == nullptr ||
        (loop->loop != ir::ForKind::kParallel && loop->loop != ir::ForKind::kVectorized)) {
      return rebuilt;
    }
    Stmt inner = LastAxis(loop->axes.back(), loop->body, s->loc);
    for (size_t i = loop->axes.size() - 1; i-- > 0;) {
      inner = ir::MakeStmt<ir::For>(s->loc, ir::ForKind::kSerial,
                                    std::vector<ir::Axis>{loop->axes[i]}, inner);
    }
    return inner;
  }

 private:
  Stmt LastAxis(const ir::Axis& axis, const Stmt& body, SourceLoc loc) const {
    const int lanes = unit_.Lanes(kFloat32);
    if (ir::IsConst(axis.extent, 1) || !Vectorizer::Supports(body, axis.var)) {
      return ir::MakeStmt<ir::For>(loc, ir::ForKind::kSerial, std::vector<ir::Axis>{axis}, body);
    }
    const DType index = axis.var.dtype();
    const Expr count = MakeInt(lanes, index);
    const Expr full = ir::FloorDiv(axis.extent, count);
    std::vector<Stmt> nest;
    if (!ir::IsConst(full, 0)) {
      const Expr jj = ir::MakeVar(axis.var.As<ir::Var>()->name, index);
      const Expr base = axis.min + jj * count;
      nest.push_back(ir::MakeStmt<ir::For>(loc, ir::ForKind::kSerial,
                                           std::vector<ir::Axis>{{jj, MakeInt(0, index), full}},
                                           Vectorizer(axis.var, base, lanes, {}).Vectorize(body)));
    }
    const Expr rest = ir::FloorMod(axis.extent, count);
    if (!ir::IsConst(rest, 0)) {
      const Expr mask = ir::MakeRamp(MakeInt(0, index), MakeInt(1, index), lanes) <
                        ir::MakeBroadcast(rest, lanes);
      const Expr base = axis.min + full * count;
      nest.push_back(Vectorizer(axis.var, base, lanes, mask).Vectorize(FreshCopy(body)));
    }
    return ir::MakeSeq(std::move(nest), loc);
  }

  const VectorUnit& unit_;
};

}  // namespace

absl::StatusOr<ir::Program> VectorizeParallel(const ir::Program& program,
                                              const PassContext& context) {
  VectorizeLoops vectorize(context.vector);
  ir::Program out = program;
  out.body = vectorize.Mutate(program.body);
  return out;
}

}  // namespace kiln::passes

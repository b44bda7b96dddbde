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

#include "compiler/ir/analysis.h"
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
  // `facts` holds in the body.
  Vectorizer(const Expr& var, const Expr& base, int lanes, const Expr& mask, const ir::Facts& facts)
      : var_(var), base_(base), lanes_(lanes), mask_(mask), facts_(facts) {}

  // Whether Vectorize can handle `body`.
  static bool Supports(const Stmt& body, const Expr& var);

  Stmt Vectorize(const Stmt& s) { return Block(s, mask_); }

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

  // Whether evaluating `e` where the program would not may do harm: an access that is not proven to
  // lie inside its buffer (accesses of global tensors carry a guard) or a division.
  bool Harms(const Expr& e) const {
    bool harms = false;
    ir::Walk(e, [&](const Expr& x) {
      if (const auto* load = x.As<ir::Load>()) harms |= MayLeave(*load);
      const auto* b = x.As<ir::Binary>();
      harms |= b != nullptr && MayDivideByZero(*b);
      return !harms;
    });
    return harms;
  }
  bool MayLeave(const ir::Load& load) const {
    if (load.buffer->scope == ir::Scope::kGlobal) return false;
    for (size_t d = 0; d < load.indices.size(); ++d) {
      if (!facts_.Proves(load.indices[d] >= MakeInt(0)) ||
          !facts_.Proves(load.indices[d] < load.buffer->shape[d])) {
        return true;
      }
    }
    return false;
  }
  static bool MayDivideByZero(const ir::Binary& b) {
    const bool divides = b.op == ir::BinaryOp::kFloorDiv || b.op == ir::BinaryOp::kFloorMod;
    return divides && b.dtype.is_int() && ir::ConstInt(b.b).value_or(0) == 0;
  }

  // Whether some lane of `mask` is set, as a scalar.
  Expr AnyLane(const Expr& mask) const {
    const Expr lanes = ir::MakeCast(kInt32.with_lanes(lanes_), mask);
    return ir::MakeCall(kInt32, ir::Intrinsic::kReduceMax, {lanes}) > MakeInt(0);
  }
  // A value that is the same in all lanes: not evaluated when no lane wants it, where that matters.
  Expr Scalar(const Expr& e, const Expr& mask) const {
    if (!mask.defined() || !Harms(e)) return e;
    return ir::MakeSelect(AnyLane(mask), e, ir::MakeConst(0, e.dtype()));
  }

  // A condition under a name, so that it is decided once: what it reads may change before its last
  // use. One that reads nothing stays open to proofs.
  Expr Decide(const Expr& condition, std::vector<Stmt>* before, SourceLoc loc) {
    if (!ReadsMemory(condition)) return condition;
    const Expr name = ir::MakeVar("chosen", condition.dtype());
    before->push_back(ir::MakeStmt<ir::Bind>(loc, name, condition));
    return name;
  }

  // The value of `e` in the lanes of `mask`; in others it may be anything.
  Expr Vector(const Expr& e, const Expr& mask) {
    if (!Varies(e)) return Scalar(e, mask);
    if (e.same_as(var_)) return ir::MakeRamp(base_, MakeInt(1, base_.dtype()), lanes_);
    switch (e.kind()) {
      case ir::ExprKind::kVar:
        return vector_binds_.at(e.get());
      case ir::ExprKind::kUnary:
        return ir::MakeUnary(e.As<ir::Unary>()->op, Vector(e.As<ir::Unary>()->a, mask));
      case ir::ExprKind::kBinary: {
        const auto* b = e.As<ir::Binary>();
        if (const Expr ramp = AffineRamp(e, mask); ramp.defined()) return ramp;
        const Expr x = Widen(Vector(b->a, mask));
        Expr y = Widen(Vector(b->b, mask));
        if (mask.defined() && MayDivideByZero(*b)) {
          y = ir::MakeSelect(mask, y, ir::MakeConst(1, y.dtype()));
        }
        return ir::MakeBinary(b->op, x, y);
      }
      case ir::ExprKind::kSelect: {
        const auto* s = e.As<ir::Select>();
        const bool harms_a = Harms(s->a), harms_b = Harms(s->b);
        Expr condition = Widen(Vector(s->condition, mask));
        if (harms_a || harms_b) condition = Decide(condition, &before_, loc_);
        const Expr otherwise = ir::MakeUnary(ir::UnaryOp::kNot, condition);
        const Expr a = Widen(Vector(s->a, harms_a ? AndMask(mask, condition) : mask));
        const Expr b = Widen(Vector(s->b, harms_b ? AndMask(mask, otherwise) : mask));
        return ir::MakeSelect(condition, a, b);
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
  Expr AffineRamp(const Expr& e, const Expr& mask) const {
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
    const Expr start = Scalar(ir::FromLinear(rest, type), mask) +
                       ir::MakeCast(type, base_) * MakeInt(coefficient, type);
    return ir::MakeRamp(start, MakeInt(coefficient, type), lanes_);
  }

  std::vector<Expr> VectorIndices(const std::vector<Expr>& indices, const Expr& mask) {
    std::vector<Expr> out;
    bool any_vector = false;
    for (const Expr& index : indices) {
      if (!Varies(index)) {
        out.push_back(Scalar(index, mask));
        continue;
      }
      const Expr ramp = AffineRamp(index, mask);
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
      const Expr once = ir::MakeLoad(load.buffer, indices, AnyLane(predicate));
      const Expr value = ir::MakeBroadcast(once, lanes_);
      return ir::MakeSelect(predicate, value, ir::MakeConst(0, value.dtype()));
    }
    return ir::MakeLoad(load.buffer, indices, predicate);
  }

  static Expr AndMask(const Expr& a, const Expr& b) { return ir::AndPredicate(a, b); }

  Stmt Block(const Stmt& s, const Expr& mask) {
    std::vector<Stmt> stmts;
    if (const auto* seq = s.As<ir::Seq>()) {
      for (const Stmt& child : seq->stmts) Visit(child, mask, &stmts);
    } else {
      Visit(s, mask, &stmts);
    }
    return ir::MakeSeq(std::move(stmts), s->loc);
  }

  void Visit(const Stmt& s, const Expr& mask, std::vector<Stmt>* out) {
    loc_ = s->loc;
    switch (s.kind()) {
      case ir::StmtKind::kSeq:
        out->push_back(Block(s, mask));
        return;
      case ir::StmtKind::kBind:
        return VisitBind(s, mask, out);
      case ir::StmtKind::kStore:
        return Append(VisitStore(*s.As<ir::Store>(), mask), out);
      case ir::StmtKind::kEvaluate:  // a prefetch: of the first lane's line
        out->push_back(ir::Substitute(s, {{var_.get(), base_}}));
        return;
      case ir::StmtKind::kIf:
        return VisitIf(*s.As<ir::If>(), mask, out);
      case ir::StmtKind::kFor: {
        const auto* loop = s.As<ir::For>();
        for (const ir::Axis& axis : loop->axes) facts_.AddAxis(axis);
        out->push_back(ir::MakeStmt<ir::For>(s->loc, loop->loop, loop->axes,
                                             Block(loop->body, mask), loop->num_stages,
                                             loop->annotations));
        return;
      }
      default:
        KILN_CHECK(false && "statement not supported by Vectorizer::Supports");
    }
  }

  // `s` after the conditions that its expressions decided.
  void Append(const Stmt& s, std::vector<Stmt>* out) {
    out->insert(out->end(), before_.begin(), before_.end());
    before_.clear();
    out->push_back(s);
  }

  void VisitBind(const Stmt& s, const Expr& mask, std::vector<Stmt>* out) {
    const auto* bind = s.As<ir::Bind>();
    if (!Varies(bind->value)) {
      const Expr value = Scalar(bind->value, mask);
      if (value.dtype().is_int()) {
        if (const auto bounds = facts_.BoundsOf(value)) facts_.SetBounds(bind->var, *bounds);
      }
      out->push_back(value.same_as(bind->value) ? s
                                                : ir::MakeStmt<ir::Bind>(s->loc, bind->var, value));
      return;
    }
    const Expr value = Widen(Vector(bind->value, mask));
    const Expr var = ir::MakeVar(bind->var.As<ir::Var>()->name, value.dtype());
    vector_binds_[bind->var.get()] = var;
    Append(ir::MakeStmt<ir::Bind>(s->loc, var, value), out);
  }

  Stmt VisitStore(const ir::Store& store, const Expr& mask) {
    Expr predicate = mask, wanted = mask;
    if (store.predicate.defined()) {
      predicate = AndMask(mask, Widen(Vector(store.predicate, mask)));
      if (Harms(store.value)) wanted = predicate = Decide(predicate, &before_, store.loc);
    }
    return ir::MakeStmt<ir::Store>(store.loc, store.buffer, VectorIndices(store.indices, mask),
                                   Widen(Vector(store.value, wanted)), predicate);
  }

  void VisitIf(const ir::If& branch, const Expr& mask, std::vector<Stmt>* out) {
    if (!Varies(branch.condition)) {
      out->push_back(ir::MakeStmt<ir::If>(
          branch.loc, Scalar(branch.condition, mask), Block(branch.then_case, mask),
          branch.else_case.defined() ? Block(branch.else_case, mask) : Stmt()));
      return;
    }
    const Expr lanes = Widen(Vector(branch.condition, mask));
    std::vector<Stmt> stmts = std::move(before_);
    before_.clear();
    const Expr condition = Decide(lanes, &stmts, branch.loc);
    stmts.push_back(Block(branch.then_case, AndMask(mask, condition)));
    if (branch.else_case.defined()) {
      const Expr otherwise = ir::MakeUnary(ir::UnaryOp::kNot, condition);
      stmts.push_back(Block(branch.else_case, AndMask(mask, otherwise)));
    }
    out->push_back(ir::MakeSeq(std::move(stmts), branch.loc));
  }

  const Expr var_;
  const Expr base_;
  const int lanes_;
  const Expr mask_;
  ir::Facts facts_;
  SourceLoc loc_;
  std::vector<Stmt> before_;  // conditions decided for the statement at hand
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

class VectorizeLoops : public FactsMutator {
 public:
  explicit VectorizeLoops(const VectorUnit& unit) : unit_(unit) {}

 protected:
  Stmt VisitStmt(const Stmt& s) override {
    const Stmt rebuilt = FactsMutator::VisitStmt(s);
    const auto* loop = rebuilt.As<ir::For>();
    if (loop == nullptr ||
        (loop->loop != ir::ForKind::kParallel && loop->loop != ir::ForKind::kVectorized)) {
      return rebuilt;
    }
    ir::Facts facts = facts_;
    for (const ir::Axis& axis : loop->axes) facts.AddAxis(axis);
    const bool nest = HasLanes(s.As<ir::For>()->body);  // the loop inside has the lanes
    Stmt inner = nest ? loop->body : LastAxis(loop->axes.back(), loop->body, facts, s->loc);
    for (size_t i = loop->axes.size() - (nest ? 0 : 1); i-- > 0;) {
      inner = ir::MakeStmt<ir::For>(s->loc, ir::ForKind::kSerial,
                                    std::vector<ir::Axis>{loop->axes[i]}, inner);
    }
    return inner;
  }

 private:
  static bool HasLanes(const Stmt& body) {
    bool found = false;
    ir::Walk(body, [&](const Stmt& s) {
      const auto* loop = s.As<ir::For>();
      found |= loop != nullptr &&
               (loop->loop == ir::ForKind::kParallel || loop->loop == ir::ForKind::kVectorized);
      return !found;
    });
    return found;
  }

  Stmt LastAxis(const ir::Axis& axis, const Stmt& body, const ir::Facts& facts,
                SourceLoc loc) const {
    const int lanes = unit_.Lanes(kFloat32);
    if (ir::IsConst(axis.extent, 1) || !Vectorizer::Supports(body, axis.var)) {
      return ir::MakeStmt<ir::For>(loc, ir::ForKind::kSerial, std::vector<ir::Axis>{axis}, body);
    }
    const DType index = axis.var.dtype();
    const Expr count = MakeInt(lanes, index);
    // Of fewer than no iterations a remainder would be some.
    const Expr none = MakeInt(0, index);
    const Expr extent =
        facts.Proves(axis.extent >= none) ? axis.extent : ir::Max(axis.extent, none);
    const Expr full = ir::FloorDiv(extent, count);
    std::vector<Stmt> nest;
    if (!ir::IsConst(full, 0)) {
      const Expr jj = ir::MakeVar(axis.var.As<ir::Var>()->name, index);
      const Expr base = axis.min + jj * count;
      nest.push_back(ir::MakeStmt<ir::For>(
          loc, ir::ForKind::kSerial, std::vector<ir::Axis>{{jj, MakeInt(0, index), full}},
          Vectorizer(axis.var, base, lanes, {}, facts).Vectorize(body)));
    }
    const Expr rest = ir::FloorMod(extent, count);
    if (!ir::IsConst(rest, 0)) {
      const Expr mask = ir::MakeRamp(MakeInt(0, index), MakeInt(1, index), lanes) <
                        ir::MakeBroadcast(rest, lanes);
      const Expr base = axis.min + full * count;
      nest.push_back(Vectorizer(axis.var, base, lanes, mask, facts).Vectorize(ir::FreshCopy(body)));
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

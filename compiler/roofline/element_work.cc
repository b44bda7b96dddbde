#include "compiler/roofline/element_work.h"

#include <unordered_set>

#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"
#include "compiler/roofline/constants.h"

namespace kiln::roofline {
namespace {

using ir::Intrinsic;

class Counter {
 public:
  Counter(const ir::ExprNode* vector_var, Symbols& symbols)
      : vector_var_(vector_var), symbols_(symbols) {
    const Num zero = symbols.tape()->Const(0);
    ElementWork& w = out_.work;
    w.alu = w.divide = w.special = w.convert = w.loads = w.stores = w.gathers = zero;
    w.vector = vector_var != nullptr;
    times_ = symbols.tape()->Const(1);
    if (vector_var != nullptr) varying_.insert(vector_var);
  }

  void Statement(const ir::Stmt& s);
  BodyCount Take() { return std::move(out_); }

 private:
  void Expression(const ir::Expr& e);
  void CountCall(const ir::Call& c);
  void Reference(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices, bool write,
                 bool atomic);
  void Loop(const ir::For& loop);
  bool Varies(const ir::Expr& e) const;
  void Add(Num& into, double amount) { into = into + times_ * amount; }
  int StrideKind(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices) const;

  const ir::ExprNode* vector_var_;
  Symbols& symbols_;
  Num times_;
  std::unordered_set<const ir::ExprNode*> varying_;  // variables that differ between lanes
  std::vector<InnerAxis> extra_;
  BodyCount out_;
};

// Work that is the same for all lanes of the vector axis is done once a row and not counted.
bool Counter::Varies(const ir::Expr& e) const {
  if (vector_var_ == nullptr) return true;
  bool varies = false;
  ir::Walk(e, [&](const ir::Expr& x) {
    if (varying_.count(x.get()) > 0) varies = true;
    return !varies;
  });
  return varies;
}

// 0: same address for all lanes; 1: consecutive elements; 2: anything else.
int Counter::StrideKind(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices) const {
  if (vector_var_ == nullptr) return 1;
  bool moves = false;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!Varies(indices[d])) continue;
    moves = true;
    const auto affine = symbols_.AffineOf(indices[d]);
    if (d + 1 != indices.size() || !affine) return 2;
    const Num c = affine->CoefficientOf(vector_var_);
    if (!c.defined() || c.constant() != 1.0) return 2;
  }
  const bool strided = !buffer->strides.empty() && !ir::IsConst(buffer->strides.back(), 1);
  if (moves && strided) return 2;
  return moves ? 1 : 0;
}

void Counter::Reference(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices, bool write,
                        bool atomic) {
  for (const ir::Expr& i : indices) {
    ir::Walk(i, [&](const ir::Expr& x) {  // an index read from memory
      if (const auto* load = x.As<ir::Load>()) Reference(load->buffer, load->indices, false, false);
      return true;
    });
  }
  if (buffer->scope == ir::Scope::kVar) return;  // a register
  for (const ElementAccess& a : out_.accesses) {
    if (a.buffer != buffer || a.write != write || a.indices.size() != indices.size()) continue;
    bool same = true;
    for (size_t i = 0; i < indices.size() && same; ++i) same = ir::Same(a.indices[i], indices[i]);
    if (same) return;
  }
  out_.accesses.push_back({buffer, indices, write, atomic, extra_});
  const int kind = StrideKind(buffer, indices);
  if (kind == 2) {
    Add(out_.work.gathers, 1);
  } else if (kind == 1) {
    Add(write ? out_.work.stores : out_.work.loads, 1);
  }
}

void Counter::CountCall(const ir::Call& c) {
  ElementWork& w = out_.work;
  switch (c.op) {
    case Intrinsic::kSqrt:
      return Add(w.divide, 1);
    case Intrinsic::kRsqrt:
      return Add(w.divide, 2);
    case Intrinsic::kAbs:
    case Intrinsic::kFloor:
    case Intrinsic::kCeil:
    case Intrinsic::kRound:
    case Intrinsic::kTrunc:
    case Intrinsic::kFma:
    case Intrinsic::kIsNan:
    case Intrinsic::kIsInf:
    case Intrinsic::kIsFinite:
      return Add(w.alu, 1);
    case Intrinsic::kReinterpret:
    case Intrinsic::kPrefetch:
      return;
    case Intrinsic::kReduceAdd:
    case Intrinsic::kReduceMax:
    case Intrinsic::kReduceMin:
      return Add(w.alu, 4);
    default:
      return Add(w.special, SpecialWeight(c.op));
  }
}

void Counter::Expression(const ir::Expr& e) {
  if (!e.defined() || !Varies(e)) {
    // The value is shared by the lanes, but what it reads is read.
    if (e.defined()) {
      ir::Walk(e, [&](const ir::Expr& x) {
        const auto* load = x.As<ir::Load>();
        if (load != nullptr) Reference(load->buffer, load->indices, false, false);
        return load == nullptr;
      });
    }
    return;
  }
  if (const auto* load = e.As<ir::Load>()) {
    Reference(load->buffer, load->indices, false, false);
    if (load->dtype.is_float() && load->dtype.bits < 32) Add(out_.work.convert, 1);
    return;
  }
  if (const auto* u = e.As<ir::Unary>()) {
    Expression(u->a);
    return Add(out_.work.alu, 1);
  }
  if (const auto* b = e.As<ir::Binary>()) {
    Expression(b->a);
    Expression(b->b);
    const bool divides = b->op == ir::BinaryOp::kDiv || b->op == ir::BinaryOp::kFloorDiv ||
                         b->op == ir::BinaryOp::kFloorMod;
    return Add(divides ? out_.work.divide : out_.work.alu, 1);
  }
  if (const auto* s = e.As<ir::Select>()) {
    Expression(s->condition);
    Expression(s->a);
    Expression(s->b);
    return Add(out_.work.alu, 1);
  }
  if (const auto* c = e.As<ir::Cast>()) {
    Expression(c->a);
    const bool narrows = c->dtype.is_float() && c->dtype.bits < 32;
    const bool changes_kind = c->dtype.is_float() != c->a.dtype().is_float();
    if (narrows || changes_kind) Add(out_.work.convert, 1);
    return;
  }
  if (const auto* call = e.As<ir::Call>()) {
    for (const ir::Expr& a : call->args) Expression(a);
    CountCall(*call);
  }
}

void Counter::Loop(const ir::For& loop) {
  const Num saved = times_;
  const size_t depth = extra_.size();
  for (const ir::Axis& axis : loop.axes) {
    bool inexact = false;
    const Num one = symbols_.tape()->Const(1);
    const Num trip = symbols_.Mean(axis.extent, &inexact).value_or(one);
    if (Varies(axis.extent) && vector_var_ != nullptr) out_.work.vector = false;
    symbols_.SetLoop(axis.var, symbols_.Value(axis.min).value_or(one * 0.0), trip);
    extra_.push_back({axis.var.get(), trip});
    times_ = times_ * trip;
  }
  Statement(loop.body);
  times_ = saved;
  extra_.resize(depth);
}

void Counter::Statement(const ir::Stmt& s) {
  if (!s.defined()) return;
  if (const auto* seq = s.As<ir::Seq>()) {
    for (const ir::Stmt& child : seq->stmts) Statement(child);
  } else if (const auto* bind = s.As<ir::Bind>()) {
    Expression(bind->value);
    if (Varies(bind->value)) varying_.insert(bind->var.get());
    symbols_.SetBind(bind->var, bind->value);
  } else if (const auto* store = s.As<ir::Store>()) {
    Expression(store->value);
    if (store->predicate.defined()) Expression(store->predicate);
    Reference(store->buffer, store->indices, true, false);
  } else if (const auto* branch = s.As<ir::If>()) {
    Expression(branch->condition);
    Statement(branch->then_case);
    Statement(branch->else_case);
  } else if (const auto* loop = s.As<ir::For>()) {
    Loop(*loop);
  } else if (const auto* atomic = s.As<ir::Atomic>()) {
    std::vector<ir::Expr> indices;
    for (const ir::Range& r : atomic->dst.ranges) indices.push_back(r.min);
    if (atomic->value.defined()) Expression(atomic->value);
    Reference(atomic->dst.buffer, indices, true, true);
    out_.work.vector = false;
  } else if (const auto* alloc = s.As<ir::Alloc>()) {
    if (alloc->init.defined()) Expression(alloc->init);
  } else if (const auto* loop = s.As<ir::While>()) {
    Expression(loop->condition);
    Statement(loop->body);
    out_.work.vector = false;
  } else if (const auto* evaluate = s.As<ir::Evaluate>()) {
    Expression(evaluate->value);
  } else if (s.kind() != ir::StmtKind::kAssert) {
    out_.work.vector = false;  // a tile operation or a jump inside an element loop
  }
}

}  // namespace

BodyCount CountBody(const ir::Stmt& body, const ir::ExprNode* vector_var, Symbols& symbols) {
  Counter counter(vector_var, symbols);
  counter.Statement(body);
  return counter.Take();
}

}  // namespace kiln::roofline

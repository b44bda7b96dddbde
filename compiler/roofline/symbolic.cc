#include "compiler/roofline/symbolic.h"

#include <algorithm>

#include "compiler/ir/visit.h"

namespace kiln::roofline {
namespace {

using ir::BinaryOp;

constexpr double kSamplePoints[] = {1.0 / 6, 1.0 / 2, 5.0 / 6};
constexpr int kPointsBetween = 6;  // exact for 1, 2, 3 and 6
constexpr size_t kMaxSampledLoops = 3;

void AddTerm(Affine& into, const ir::ExprNode* var, Num coefficient) {
  for (auto& [v, c] : into.terms) {
    if (v != var) continue;
    c = c + coefficient;
    return;
  }
  into.terms.emplace_back(var, coefficient);
}

Affine Scaled(const Affine& a, Num factor) {
  Affine out{a.constant * factor, {}};
  for (const auto& [v, c] : a.terms) out.terms.emplace_back(v, c * factor);
  return out;
}

Affine Sum(const Affine& a, const Affine& b) {
  Affine out = a;
  out.constant = a.constant + b.constant;
  for (const auto& [v, c] : b.terms) AddTerm(out, v, c);
  std::erase_if(out.terms, [](const auto& t) { return t.second.constant() == 0.0; });
  return out;
}

}  // namespace

Num Affine::CoefficientOf(const ir::ExprNode* var) const {
  for (const auto& [v, c] : terms) {
    if (v == var) return c;
  }
  return {};
}

std::optional<Num> Symbols::BinaryValue(const ir::Binary& b) const {
  const auto x = Value(b.a);
  const auto y = Value(b.b);
  if (!x || !y) return std::nullopt;
  switch (b.op) {
    case BinaryOp::kAdd:
      return *x + *y;
    case BinaryOp::kSub:
      return *x - *y;
    case BinaryOp::kMul:
      return *x * *y;
    case BinaryOp::kDiv:
      return *x / *y;
    case BinaryOp::kFloorDiv:
      return FloorDiv(*x, *y);
    case BinaryOp::kFloorMod:
      return FloorMod(*x, *y);
    case BinaryOp::kMin:
      return Min(*x, *y);
    case BinaryOp::kMax:
      return Max(*x, *y);
    case BinaryOp::kEq:
      return Eq(*x, *y);
    case BinaryOp::kNe:
      return Not(Eq(*x, *y));
    case BinaryOp::kLt:
      return Lt(*x, *y);
    case BinaryOp::kLe:
      return Le(*x, *y);
    case BinaryOp::kGt:
      return Lt(*y, *x);
    case BinaryOp::kGe:
      return Le(*y, *x);
    case BinaryOp::kAnd:
      return And(*x, *y);
    case BinaryOp::kOr:
      return Or(*x, *y);
    default:
      return std::nullopt;
  }
}

std::optional<Num> Symbols::Value(const ir::Expr& e) const {
  if (const auto* i = e.As<ir::IntImm>()) return tape_->Const(static_cast<double>(i->value));
  if (const auto* f = e.As<ir::FloatImm>()) return tape_->Const(f->value);
  if (e.As<ir::Var>() != nullptr) {
    if (const auto it = values_.find(e.get()); it != values_.end()) return it->second;
    if (const auto it = binds_.find(e.get()); it != binds_.end()) return Value(it->second);
    return std::nullopt;
  }
  if (const auto* u = e.As<ir::Unary>()) {
    const auto a = Value(u->a);
    if (!a || u->op == ir::UnaryOp::kBitNot) return std::nullopt;
    return u->op == ir::UnaryOp::kNeg ? 0.0 - *a : Not(*a);
  }
  if (const auto* b = e.As<ir::Binary>()) return BinaryValue(*b);
  if (const auto* s = e.As<ir::Select>()) {
    const auto c = Value(s->condition), a = Value(s->a), b = Value(s->b);
    if (!c || !a || !b) return std::nullopt;
    return Select(*c, *a, *b);
  }
  if (const auto* c = e.As<ir::Cast>()) {
    const auto a = Value(c->a);
    if (!a) return std::nullopt;
    return c->dtype.is_int() && c->a.dtype().is_float() ? Floor(*a) : *a;
  }
  return std::nullopt;
}

void Symbols::CollectLoops(const ir::Expr& e, std::vector<const ir::ExprNode*>& out) const {
  ir::Walk(e, [&](const ir::Expr& x) {
    if (x.As<ir::Var>() == nullptr) return true;
    if (values_.count(x.get()) > 0) return true;
    if (const auto it = binds_.find(x.get()); it != binds_.end()) {
      CollectLoops(it->second, out);
    } else if (loops_.count(x.get()) > 0 &&
               std::find(out.begin(), out.end(), x.get()) == out.end()) {
      out.push_back(x.get());
    }
    return true;
  });
}

std::vector<const ir::ExprNode*> Symbols::LoopsIn(const ir::Expr& e) const {
  std::vector<const ir::ExprNode*> out;
  CollectLoops(e, out);
  return out;
}

std::vector<const ir::ExprNode*> Symbols::LoopsOfStart(const ir::ExprNode* var) const {
  const ir::Axis& axis = loops_.at(var).axis;
  return axis.min.defined() ? LoopsIn(axis.min) : std::vector<const ir::ExprNode*>();
}

// The loops that `e` depends on and those that their ranges depend on, outer ones first.
std::vector<Symbols::Sampled> Symbols::SampledLoops(const ir::Expr& e) const {
  std::vector<Sampled> out;
  const std::function<void(const ir::Expr&)> add = [&](const ir::Expr& x) {
    for (const ir::ExprNode* v : LoopsIn(x)) {
      const auto same = [&, v = v](const Sampled& other) { return other.var == v; };
      if (std::any_of(out.begin(), out.end(), same)) continue;
      const ir::Axis& axis = loops_.at(v).axis;
      if (axis.var.defined()) {
        add(axis.min);
        add(axis.extent);
      }
      out.push_back({v, Depends(v)});
    }
  };
  add(e);
  return out;
}

// Whether a loop's range depends on loops.
bool Symbols::Depends(const ir::ExprNode* var) const {
  const ir::Axis& axis = loops_.at(var).axis;
  return axis.var.defined() && !(LoopsIn(axis.min).empty() && LoopsIn(axis.extent).empty());
}

std::vector<Symbols::Point> Symbols::PointsOf(const Loop& loop, bool depends) const {
  std::vector<Point> points;
  if (!depends) {
    for (const double p : kSamplePoints) {
      points.push_back({loop.min + Floor((loop.trip - 1.0) * p + 0.5), tape_->Const(1)});
    }
    return points;
  }
  // Known here: the loops around it have values.
  const Num min = Value(loop.axis.min).value_or(loop.min);
  const Num trip = Max(Value(loop.axis.extent).value_or(loop.trip), 0.0);
  const Num between = Max(trip - 2.0, 0.0);
  points.push_back({min, Min(trip, 1.0)});
  for (int i = 0; i < kPointsBetween; ++i) {
    const Num at = min + 1.0 + Floor(between * ((i + 0.5) / kPointsBetween));
    points.push_back({at, between / static_cast<double>(kPointsBetween)});
  }
  points.push_back({min + trip - 1.0, Min(Max(trip - 1.0, 0.0), 1.0)});
  return points;
}

// Of loops[first] and those after it, those before having values. False where `e` has none.
bool Symbols::AddSamples(const ir::Expr& e, const std::vector<Sampled>& loops, size_t first,
                         Num weight, Num* sum, Num* weights) {
  if (first == loops.size()) {
    const auto value = Value(e);
    if (!value) return false;
    *sum = *sum + *value * weight;
    *weights = *weights + weight;
    return true;
  }
  const auto& [v, depends] = loops[first];
  bool known = true;
  for (const Point& point : PointsOf(loops_.at(v), depends)) {
    if (point.weight.constant() == 0.0) continue;
    values_[v] = point.at;
    known = known && AddSamples(e, loops, first + 1, weight * point.weight, sum, weights);
    values_.erase(v);
  }
  return known;
}

std::optional<Num> Symbols::Mean(const ir::Expr& e, bool* inexact) {
  if (LoopsIn(e).empty()) return Value(e);
  const std::vector<Sampled> loops = SampledLoops(e);
  if (loops.size() > kMaxSampledLoops) return std::nullopt;
  *inexact = true;
  Num sum = tape_->Const(0), weights = tape_->Const(0);
  if (!AddSamples(e, loops, 0, tape_->Const(1), &sum, &weights)) return std::nullopt;
  return sum / Max(weights, 1e-9);
}

std::optional<Affine> Symbols::AffineOf(const ir::Expr& e) const {
  if (const auto value = Value(e)) return Affine{*value, {}};
  if (e.As<ir::Var>() != nullptr) {
    if (const auto it = binds_.find(e.get()); it != binds_.end()) return AffineOf(it->second);
    if (loops_.count(e.get()) == 0) return std::nullopt;
    return Affine{tape_->Const(0), {{e.get(), tape_->Const(1)}}};
  }
  if (const auto* c = e.As<ir::Cast>()) {
    return c->a.dtype().is_int() ? AffineOf(c->a) : std::nullopt;
  }
  if (const auto* u = e.As<ir::Unary>()) {
    if (u->op != ir::UnaryOp::kNeg) return std::nullopt;
    const auto a = AffineOf(u->a);
    if (!a) return std::nullopt;
    return Scaled(*a, tape_->Const(-1));
  }
  const auto* b = e.As<ir::Binary>();
  if (b == nullptr) return std::nullopt;
  const auto x = AffineOf(b->a), y = AffineOf(b->b);
  if (!x || !y) return std::nullopt;
  if (b->op == BinaryOp::kAdd) return Sum(*x, *y);
  if (b->op == BinaryOp::kSub) return Sum(*x, Scaled(*y, tape_->Const(-1)));
  if (b->op == BinaryOp::kMul && x->terms.empty()) return Scaled(*y, x->constant);
  if (b->op == BinaryOp::kMul && y->terms.empty()) return Scaled(*x, y->constant);
  return std::nullopt;
}

}  // namespace kiln::roofline

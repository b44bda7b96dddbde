// Bounds and proofs: the Facts methods that answer questions.
#include <algorithm>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <utility>

#include "compiler/base/status.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/linear.h"
#include "compiler/ir/scalar.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

constexpr int kMaxSplits = 6;        // of min, max and symbolic axes on one path of a proof
constexpr int kMaxAssumptions = 2;   // that a proof puts together
constexpr int kSplitsAsAssumed = 2;  // with those
constexpr size_t kMaxTerms = 64;     // of a linear form that is reasoned about
constexpr size_t kMaxAssumed = 8;    // conditions that a proof tries, and terms of each

using MaybeBounds = std::optional<Bounds>;

MaybeBounds Union(const MaybeBounds& a, const MaybeBounds& b) {
  if (!a || !b) return std::nullopt;
  return Bounds{std::min(a->min, b->min), std::max(a->max, b->max)};
}

MaybeBounds Intersect(const MaybeBounds& a, const MaybeBounds& b) {
  if (!a || !b) return a ? a : b;
  return Bounds{std::max(a->min, b->min), std::min(a->max, b->max)};
}

MaybeBounds Hull(std::initializer_list<std::optional<int64_t>> corners) {
  MaybeBounds hull;
  for (const std::optional<int64_t>& c : corners) {
    if (!c) return std::nullopt;
    hull = hull ? Bounds{std::min(hull->min, *c), std::max(hull->max, *c)} : Bounds{*c, *c};
  }
  return hull;
}

MaybeBounds Scale(const Bounds& b, int64_t k) {
  return Hull({CheckedMul(b.min, k), CheckedMul(b.max, k)});
}

MaybeBounds Add(const Bounds& a, const Bounds& b) {
  const std::optional<int64_t> low = CheckedAdd(a.min, b.min), high = CheckedAdd(a.max, b.max);
  if (!low || !high) return std::nullopt;
  return Bounds{*low, *high};
}

// The values of a narrow type; nothing useful is said of 32 and 64 bits.
MaybeBounds TypeBounds(DType type) {
  if (type.is_bool()) return Bounds{0, 1};
  if (!type.is_int() || type.bits > 16) return std::nullopt;
  if (type.is_uint()) return Bounds{0, (int64_t{1} << type.bits) - 1};
  return Bounds{-(int64_t{1} << (type.bits - 1)), (int64_t{1} << (type.bits - 1)) - 1};
}

MaybeBounds FloorModBounds(const Bounds& a, const Bounds& b) {
  if (b.min > 0) {
    if (a.min >= 0 && a.max < b.min) return a;
    if (b.min == b.max && FloorDivide(a.min, b.min) == FloorDivide(a.max, b.min)) {
      const int64_t shift = FloorDivide(a.min, b.min) * b.min;
      return Bounds{a.min - shift, a.max - shift};
    }
    return Bounds{0, a.min >= 0 ? std::min(a.max, b.max - 1) : b.max - 1};
  }
  if (b.max < 0) return Bounds{b.min + 1, 0};
  return std::nullopt;
}

MaybeBounds FloorDivBounds(const Bounds& a, const Bounds& b) {
  if (b.min <= 0 && b.max >= 0) return std::nullopt;
  const auto divide = [](int64_t x, int64_t y) {
    return EvalInt(BinaryOp::kFloorDiv, x, y, kInt64);
  };
  return Hull(
      {divide(a.min, b.min), divide(a.min, b.max), divide(a.max, b.min), divide(a.max, b.max)});
}

int64_t OnesCovering(int64_t value) {
  int64_t ones = 0;
  while (ones < value) ones = ones * 2 + 1;
  return ones;
}

MaybeBounds BitwiseBounds(BinaryOp op, const MaybeBounds& a, const MaybeBounds& b) {
  const bool a_natural = a && a->min >= 0, b_natural = b && b->min >= 0;
  if (op == BinaryOp::kBitAnd) {
    if (a_natural && b_natural) return Bounds{0, std::min(a->max, b->max)};
    if (a_natural) return Bounds{0, a->max};
    if (b_natural) return Bounds{0, b->max};
    return std::nullopt;
  }
  if (!a_natural || !b_natural) return std::nullopt;
  return Bounds{0, OnesCovering(std::max(a->max, b->max))};
}

// One lane of a vector expression: Ramp and Broadcast become arithmetic on the lane's number.
class LaneOf : public Mutator {
 public:
  explicit LaneOf(Expr lane) : lane_(std::move(lane)) {}

  // Whether every vector in `e` is made of others by operators that work lane by lane.
  static bool Has(const Expr& e) {
    bool has = true;
    Walk(e, [&](const Expr& x) {
      if (x.dtype().is_scalar()) return false;
      has &= x.kind() != ExprKind::kVar && x.kind() != ExprKind::kCall;
      return has;
    });
    return has;
  }

 protected:
  Expr VisitExpr(const Expr& e) override {
    if (e.dtype().is_scalar()) return e;
    if (const auto* x = e.As<Cast>()) return MakeCast(e.dtype().element(), Mutate(x->a));
    if (const auto* x = e.As<Ramp>()) {
      const Expr lane = MakeCast(x->base.dtype(), lane_);
      return MakeBinary(BinaryOp::kAdd, x->base, MakeBinary(BinaryOp::kMul, lane, x->stride));
    }
    if (const auto* x = e.As<Broadcast>()) return x->a;
    return RebuildExpr(e);
  }

 private:
  Expr lane_;
};

Expr NegateCondition(const Expr& condition) { return MakeUnary(UnaryOp::kNot, condition); }

// Whether a term is k*c*(x//c), which is k*(x - x%c).
bool UnfoldsQuotient(const std::pair<Expr, int64_t>& term) {
  const auto* div = term.first.As<Binary>();
  if (div == nullptr || div->op != BinaryOp::kFloorDiv) return false;
  const std::optional<int64_t> c = ConstInt(div->b);
  return c && *c > 1 && term.second % *c == 0;
}

LinearForm Without(const LinearForm& form, size_t term) {
  LinearForm rest = form;
  rest.terms.erase(rest.terms.begin() + static_cast<int64_t>(term));
  return rest;
}

}  // namespace

Expr PositiveForm(const Expr& condition) {
  const auto* b = condition.As<Binary>();
  if (b == nullptr || !b->a.dtype().is_int() || !b->a.dtype().is_scalar()) return {};
  switch (b->op) {
    case BinaryOp::kLt:
      return b->b - b->a;
    case BinaryOp::kLe:
      return b->b - b->a + MakeInt(1, b->a.dtype());
    case BinaryOp::kGt:
      return b->a - b->b;
    case BinaryOp::kGe:
      return b->a - b->b + MakeInt(1, b->a.dtype());
    default:
      return {};
  }
}

void Facts::Assume(const Expr& condition) {
  const auto* b = condition.As<Binary>();
  if (b != nullptr && b->op == BinaryOp::kAnd) {
    Assume(b->a);
    return Assume(b->b);
  }
  const Expr positive = PositiveForm(condition);
  if (!positive.defined() || !IsIndex(positive.dtype())) return;
  LinearForm form = Linearize(positive);
  if (form.terms.size() > 1 && form.terms.size() <= kMaxAssumed && !ReadsMemory(positive)) {
    const std::optional<int64_t> constant = CheckedAdd(form.constant, -1);
    if (!constant) return;
    form.constant = *constant;
    Learn();
    natural_.push_back(std::move(form));
    return;
  }
  if (form.terms.size() != 1 || form.terms[0].first.kind() != ExprKind::kVar) return;
  const auto& [var, step] = form.terms[0];
  auto known = BoundsOf(var);
  if (!known) return;
  // step * var + constant > 0.
  if (step > 0) known->min = std::max(known->min, FloorDivide(-form.constant, step) + 1);
  if (step < 0) known->max = std::min(known->max, FloorDivide(form.constant - 1, -step));
  // A variable of one value is not made a number: a thread's own registers are known by its name.
  if (known->min < known->max) SetBounds(var, *known);
}

void Facts::Learn() {
  memo_ = {};
  ++changes_;
}

void Facts::SetBounds(const Expr& var, Bounds bounds) {
  KILN_CHECK(var.As<Var>());
  Learn();
  bounds_[var.get()] = bounds;
}

void Facts::SetValue(const Expr& var, const Expr& value) {
  KILN_CHECK(var.As<Var>());
  bool pure = true;  // what is loaded may change after the binding
  Walk(value, [&](const Expr& x) {
    pure &= x.kind() != ExprKind::kLoad;
    return pure;
  });
  if (pure) {
    Learn();
    values_[var.get()] = value;
  } else if (const MaybeBounds bounds = BoundsOf(value)) {
    SetBounds(var, *bounds);
  }
}

void Facts::AddAxis(const Axis& axis) {
  const MaybeBounds min = BoundsOf(axis.min), extent = BoundsOf(axis.extent);
  Learn();
  bounds_.erase(axis.var.get());
  axes_.erase(axis.var.get());
  if (min && extent && extent->max >= 1) {
    const std::optional<int64_t> end = CheckedAdd(min->max, extent->max - 1);
    if (end) bounds_[axis.var.get()] = {min->min, *end};
  }
  if (ConstInt(axis.min) && ConstInt(axis.extent)) return;
  if (ReadsMemory(axis.min) || ReadsMemory(axis.extent)) return;  // the body may write that
  axes_[axis.var.get()] = {axis.min, axis.min + axis.extent - Expr(1), axes_.size()};
}

LinearForm Facts::Expand(const Expr& e) const {
  LinearForm form = Linearize(e);
  for (size_t i = 0; i < form.terms.size();) {
    const auto value = values_.find(form.terms[i].first.get());
    if (value == values_.end() || form.terms.size() > kMaxTerms) {
      ++i;
      continue;
    }
    LinearForm replaced = Without(form, i);
    if (!AddScaled(Linearize(value->second), form.terms[i].second, &replaced)) break;
    form = std::move(replaced);
  }
  JoinDivMod(&form);
  return form;
}

MaybeBounds Facts::SumBounds(const LinearForm& form) const {
  MaybeBounds sum = Bounds{form.constant, form.constant};
  for (const auto& [atom, k] : form.terms) {
    const MaybeBounds bounds = AtomBounds(atom);
    const MaybeBounds scaled = bounds ? Scale(*bounds, k) : std::nullopt;
    sum = scaled && sum ? Add(*sum, *scaled) : std::nullopt;
  }
  // k*c*(x//c) is k*(x - x%c), which may cancel against other terms.
  for (size_t i = 0; i < form.terms.size() && form.terms.size() > 1; ++i) {
    if (!UnfoldsQuotient(form.terms[i])) continue;
    const auto* div = form.terms[i].first.As<Binary>();
    LinearForm rest = Without(form, i);
    const int64_t k = form.terms[i].second / *ConstInt(div->b);
    const Expr mod = MakeBinary(BinaryOp::kFloorMod, div->a, div->b);
    if (!AddScaled(Expand(div->a), k, &rest)) continue;
    if (!AddScaled(Linearize(mod), -k, &rest)) continue;
    return Intersect(sum, SumBounds(rest));
  }
  return sum;
}

// The most that a form with symbolic axes can be, as far as their ends say: the innermost axis
// gives way to its end, which speaks of outer ones alone, and so on.
std::optional<int64_t> Facts::MostByAxes(LinearForm form) const {
  std::optional<int64_t> most;
  while (form.terms.size() > 1) {
    const SymbolicAxis* innermost = nullptr;
    size_t at = 0;
    for (size_t i = 0; i < form.terms.size(); ++i) {
      const auto axis = axes_.find(form.terms[i].first.get());
      if (axis == axes_.end() || (innermost && axis->second.depth < innermost->depth)) continue;
      innermost = &axis->second;
      at = i;
    }
    if (innermost == nullptr) break;
    const int64_t k = form.terms[at].second;
    const LinearForm end = Expand(k > 0 ? innermost->last : innermost->first);
    LinearForm next = Without(form, at);
    if (!AddScaled(end, k, &next)) break;
    const bool cancels = next.terms.size() < form.terms.size() - 1 + end.terms.size();
    // Of what is left of a quotient the bounds are looked for without unfolding others.
    const bool unfolds =
        !unfolding_ && std::any_of(next.terms.begin(), next.terms.end(), UnfoldsQuotient);
    const bool around = std::exchange(unfolding_, unfolding_ || unfolds);
    const MaybeBounds bounds = cancels || unfolds ? SumBounds(next) : std::nullopt;
    unfolding_ = around;
    if (bounds) most = std::min(most.value_or(bounds->max), bounds->max);
    if (std::any_of(end.terms.begin(), end.terms.end(), [&](const auto& term) {
          const auto axis = axes_.find(term.first.get());
          return axis != axes_.end() && axis->second.depth >= innermost->depth;
        })) {
      break;  // no end of this axis: it was known under another's name
    }
    form = std::move(next);
  }
  return most;
}

MaybeBounds Facts::FormBounds(const LinearForm& form) const {
  MaybeBounds bounds = SumBounds(form);
  LinearForm negative;
  if (axes_.empty() || form.terms.size() < 2 || !AddScaled(form, -1, &negative)) return bounds;
  const std::optional<int64_t> high = MostByAxes(form), least = MostByAxes(std::move(negative));
  const std::optional<int64_t> low = least ? CheckedMul(*least, -1) : std::nullopt;
  if (bounds && low) bounds->min = std::max(bounds->min, *low);
  if (bounds && high) bounds->max = std::min(bounds->max, *high);
  if (!bounds && low && high) return Bounds{*low, *high};
  return bounds;
}

// max(min(x, high), low), or min(max(x, low), high), of any x: `outer` bounds the outer number.
MaybeBounds Facts::ClampBounds(BinaryOp op, const Expr& inner, Bounds outer) const {
  const auto* x = inner.As<Binary>();
  const BinaryOp other = op == BinaryOp::kMax ? BinaryOp::kMin : BinaryOp::kMax;
  if (x == nullptr || x->op != other) return std::nullopt;
  MaybeBounds limit = BoundsOf(x->a);
  if (!limit) limit = BoundsOf(x->b);
  if (!limit) return std::nullopt;
  if (op == BinaryOp::kMax) return Bounds{outer.min, std::max(limit->max, outer.max)};
  return Bounds{std::min(limit->min, outer.min), outer.max};
}

MaybeBounds Facts::BinaryBounds(const Binary& e) const {
  const MaybeBounds a = BoundsOf(e.a), b = BoundsOf(e.b);
  if (e.op == BinaryOp::kBitAnd || e.op == BinaryOp::kBitOr || e.op == BinaryOp::kBitXor) {
    return BitwiseBounds(e.op, a, b);
  }
  if (e.op == BinaryOp::kFloorMod && b && !a) {
    constexpr Bounds kAny{INT64_MIN / 2, INT64_MAX / 2};
    return FloorModBounds(kAny, *b);
  }
  if (e.op == BinaryOp::kMin || e.op == BinaryOp::kMax) {
    if (!a && b) return ClampBounds(e.op, e.a, *b);
    if (!b && a) return ClampBounds(e.op, e.b, *a);
  }
  if (!a || !b) return std::nullopt;
  switch (e.op) {
    case BinaryOp::kAdd:
      return Add(*a, *b);
    case BinaryOp::kSub: {
      const MaybeBounds minus = Scale(*b, -1);
      return minus ? Add(*a, *minus) : minus;
    }
    case BinaryOp::kMul:
      return Hull({CheckedMul(a->min, b->min), CheckedMul(a->min, b->max),
                   CheckedMul(a->max, b->min), CheckedMul(a->max, b->max)});
    case BinaryOp::kFloorDiv:
      return FloorDivBounds(*a, *b);
    case BinaryOp::kFloorMod:
      return FloorModBounds(*a, *b);
    case BinaryOp::kMin:
      return Bounds{std::min(a->min, b->min), std::min(a->max, b->max)};
    case BinaryOp::kMax:
      return Bounds{std::max(a->min, b->min), std::max(a->max, b->max)};
    case BinaryOp::kShr:
      if (b->min < 0 || b->max > 62) return std::nullopt;
      return Hull({a->min >> b->min, a->min >> b->max, a->max >> b->min, a->max >> b->max});
    case BinaryOp::kShl:
      if (b->min < 0 || b->max > 62) return std::nullopt;
      return Hull(
          {CheckedMul(a->min, int64_t{1} << b->min), CheckedMul(a->min, int64_t{1} << b->max),
           CheckedMul(a->max, int64_t{1} << b->min), CheckedMul(a->max, int64_t{1} << b->max)});
    default:
      return std::nullopt;
  }
}

MaybeBounds Facts::AtomBounds(const Expr& e) const {
  if (e.kind() == ExprKind::kIntImm || e.kind() == ExprKind::kVar) return FindAtomBounds(e);
  const auto known = memo_.known.find(e.get());
  if (known != memo_.known.end()) return known->second.second;
  const bool inside = std::exchange(inside_atom_, true);
  const MaybeBounds found = FindAtomBounds(e);
  inside_atom_ = inside;
  memo_.known[e.get()] = {e, found};
  return found;
}

// Of an expression that is not itself a sum: recurses into its children only.
MaybeBounds Facts::FindAtomBounds(const Expr& e) const {
  const DType type = e.dtype();
  MaybeBounds result;
  if (e.kind() == ExprKind::kIntImm) {
    result = Bounds{e.As<IntImm>()->value, e.As<IntImm>()->value};
  } else if (e.kind() == ExprKind::kVar) {
    const auto known = bounds_.find(e.get());
    if (known != bounds_.end()) result = known->second;
    const auto value = values_.find(e.get());
    if (!result && value != values_.end()) result = BoundsOf(value->second);
  } else if (type.is_bool()) {
    if (Proves(e)) return Bounds{1, 1};
    if (Refutes(e)) return Bounds{0, 0};
  } else if (const auto* x = e.As<Binary>()) {
    result = BinaryBounds(*x);
    if (result && !IsIndex(type) && !Fits(*result, type)) result.reset();  // it may wrap around
  } else if (const auto* x = e.As<Unary>(); x && x->op == UnaryOp::kBitNot) {
    const MaybeBounds a = type.is_uint() ? std::nullopt : BoundsOf(x->a);
    if (a) result = Bounds{-1 - a->max, -1 - a->min};
  } else if (const auto* x = e.As<Select>()) {
    if (Proves(x->condition)) return BoundsOf(x->a);
    if (Refutes(x->condition)) return BoundsOf(x->b);
    result = Union(BoundsOf(x->a), BoundsOf(x->b));
  } else if (const auto* x = e.As<Cast>(); x && !x->a.dtype().is_float()) {
    const MaybeBounds a = BoundsOf(x->a);
    if (a && Fits(*a, type)) result = a;
  } else if (const auto* x = e.As<Call>(); x && x->op == Intrinsic::kAbs) {
    const MaybeBounds a = BoundsOf(x->args[0]);
    if (a && a->min > INT64_MIN) {
      const int64_t low = a->min > 0 ? a->min : a->max < 0 ? -a->max : 0;
      result = Bounds{low, std::max(-a->min, a->max)};
      if (!Fits(*result, type)) result.reset();
    }
  }
  return result ? result : TypeBounds(type);
}

MaybeBounds Facts::BoundsOf(const Expr& e) const {
  if (!e.defined() || e.dtype().is_float() || e.dtype().code == TypeCode::kHandle) {
    return std::nullopt;
  }
  if (!e.dtype().is_scalar()) {
    if (!LaneOf::Has(e)) return TypeBounds(e.dtype().element());
    const Expr lane = MakeVar("lane");
    const Expr scalar = LaneOf(lane).Mutate(e);
    Facts inner = *this;
    inner.SetBounds(lane, {0, e.dtype().lanes - 1});
    return inner.BoundsOf(scalar);
  }
  if (!IsIndex(e.dtype())) return AtomBounds(e);
  return BoundsOf(Expand(e));
}

MaybeBounds Facts::BoundsOf(const LinearForm& form) const {
  return form.terms.size() > kMaxTerms ? std::nullopt : FormBounds(form);
}

// Axes give way to their ends from the inside out: only those outside of axis number `inside` do.
bool Facts::ProvesAtMost(const LinearForm& form, int64_t bound, int depth, size_t inside) const {
  const MaybeBounds bounds = FormBounds(form);
  if (bounds && bounds->max <= bound) return true;
  if (depth >= kMaxSplits) return false;
  const auto with = [&](size_t i, const Expr& replacement, size_t then) {
    LinearForm next = Without(form, i);
    return AddScaled(Expand(replacement), form.terms[i].second, &next) &&
           ProvesAtMost(next, bound, depth + 1, then);
  };
  for (size_t i = 0; i < form.terms.size(); ++i) {
    const auto& [atom, k] = form.terms[i];
    if (const auto* x = atom.As<Binary>();
        x && (x->op == BinaryOp::kMin || x->op == BinaryOp::kMax)) {
      const bool either = (x->op == BinaryOp::kMin) == (k > 0);
      return either ? with(i, x->a, inside) || with(i, x->b, inside)
                    : with(i, x->a, inside) && with(i, x->b, inside);
    }
    if (const auto* x = atom.As<Select>()) {
      return with(i, x->a, inside) && with(i, x->b, inside);
    }
  }
  for (size_t i = 0; i < form.terms.size(); ++i) {
    const auto& [atom, k] = form.terms[i];
    const auto axis = axes_.find(atom.get());
    if (axis != axes_.end() && axis->second.depth < inside &&
        with(i, k > 0 ? axis->second.last : axis->second.first, axis->second.depth)) {
      return true;
    }
    if (!UnfoldsQuotient(form.terms[i])) continue;
    const auto* div = atom.As<Binary>();
    const int64_t c = *ConstInt(div->b);
    LinearForm next = Without(form, i);
    const Expr mod = MakeBinary(BinaryOp::kFloorMod, div->a, div->b);
    if (AddScaled(Expand(div->a), k / c, &next) && AddScaled(Linearize(mod), -k / c, &next) &&
        ProvesAtMost(next, bound, depth + 1, inside)) {
      return true;
    }
  }
  return false;
}

// As it is, or with multiples of up to `more` conditions added, each of which is at least 0 and
// takes an atom away.
bool Facts::ProvesAsAssumed(const LinearForm& form, int64_t bound, int more) const {
  const bool as_is = more == kMaxAssumptions;
  if (ProvesAtMost(form, bound, as_is ? 0 : kMaxSplits - kSplitsAsAssumed)) return true;
  if (inside_atom_) return false;
  const size_t skipped = natural_.size() > kMaxAssumed ? natural_.size() - kMaxAssumed : 0;
  for (size_t i = natural_.size(); more > 0 && i-- > skipped;) {
    const LinearForm& natural = natural_[i];
    for (const auto& [atom, step] : natural.terms) {
      const int64_t k = form.CoefficientOf(atom);
      if (k == 0 || k == INT64_MIN || k % step != 0 || (k > 0) == (step > 0)) continue;
      LinearForm next = form;
      if (!AddScaled(natural, -k / step, &next)) continue;
      if (next.terms.size() > form.terms.size() + 1) continue;
      if (ProvesAsAssumed(next, bound, more - 1)) return true;
    }
  }
  return false;
}

bool Facts::ProvesComparison(BinaryOp op, const Expr& a, const Expr& b) const {
  if (!IsIndex(a.dtype())) {
    const MaybeBounds x = BoundsOf(a), y = BoundsOf(b);
    if (!x || !y) return false;
    switch (op) {
      case BinaryOp::kEq:
        return x->min == x->max && y->min == y->max && x->min == y->min;
      case BinaryOp::kNe:
        return x->max < y->min || y->max < x->min;
      case BinaryOp::kLt:
        return x->max < y->min;
      case BinaryOp::kLe:
        return x->max <= y->min;
      case BinaryOp::kGt:
        return x->min > y->max;
      case BinaryOp::kGe:
        return x->min >= y->max;
      default:
        return false;
    }
  }
  LinearForm difference = Expand(a);
  if (!AddScaled(Expand(b), -1, &difference)) return false;
  JoinDivMod(&difference);
  if (difference.terms.size() > kMaxTerms) return false;
  LinearForm reversed;
  if (!AddScaled(difference, -1, &reversed)) return false;
  const auto most = [&](const LinearForm& form, int64_t bound) {
    return ProvesAsAssumed(form, bound, kMaxAssumptions);
  };
  switch (op) {
    case BinaryOp::kLt:
      return most(difference, -1);
    case BinaryOp::kLe:
      return most(difference, 0);
    case BinaryOp::kGt:
      return most(reversed, -1);
    case BinaryOp::kGe:
      return most(reversed, 0);
    case BinaryOp::kEq:
      return most(difference, 0) && most(reversed, 0);
    case BinaryOp::kNe: {
      if (most(difference, -1) || most(reversed, -1)) return true;
      int64_t g = 0;
      for (const auto& [atom, k] : difference.terms) {
        g = std::gcd(g, CheckedMul(k, MultipleOf(atom)).value_or(k));
      }
      return g > 1 && difference.constant % g != 0;
    }
    default:
      return false;
  }
}

bool Facts::Proves(const Expr& condition) const {
  KILN_CHECK(condition.dtype().is_bool());
  if (!condition.dtype().is_scalar()) {
    if (!LaneOf::Has(condition)) return false;
    const Expr lane = MakeVar("lane");
    const Expr scalar = LaneOf(lane).Mutate(condition);
    Facts inner = *this;
    inner.SetBounds(lane, {0, condition.dtype().lanes - 1});
    return inner.Proves(scalar);
  }
  if (const auto* c = condition.As<IntImm>()) return c->value != 0;
  if (condition.kind() == ExprKind::kVar) {
    const auto value = values_.find(condition.get());
    if (value != values_.end()) return Proves(value->second);
    const auto known = bounds_.find(condition.get());
    return known != bounds_.end() && known->second.min == 1;
  }
  if (const auto* x = condition.As<Unary>()) return x->op == UnaryOp::kNot && Refutes(x->a);
  if (const auto* x = condition.As<Select>()) {
    return (Proves(x->a) || Refutes(x->condition)) && (Proves(x->b) || Proves(x->condition));
  }
  const auto* x = condition.As<Binary>();
  if (!x) return false;
  if (x->op == BinaryOp::kAnd) return Proves(x->a) && Proves(x->b);
  if (x->op == BinaryOp::kOr) return Proves(x->a) || Proves(x->b);
  if (!IsComparison(x->op) || x->a.dtype().is_float()) return false;
  return ProvesComparison(x->op, x->a, x->b);
}

bool Facts::Refutes(const Expr& condition) const {
  KILN_CHECK(condition.dtype().is_bool());
  if (!condition.dtype().is_scalar()) {
    const auto* x = condition.As<Binary>();
    if (const auto* all = condition.As<Broadcast>()) return Refutes(all->a);
    return x && IsComparison(x->op) && !x->a.dtype().is_float() &&
           Proves(NegateCondition(condition));
  }
  if (const auto* c = condition.As<IntImm>()) return c->value == 0;
  if (condition.kind() == ExprKind::kVar) {
    const auto value = values_.find(condition.get());
    if (value != values_.end()) return Refutes(value->second);
    const auto known = bounds_.find(condition.get());
    return known != bounds_.end() && known->second.max == 0;
  }
  if (const auto* x = condition.As<Unary>()) return x->op == UnaryOp::kNot && Proves(x->a);
  if (const auto* x = condition.As<Select>()) {
    return (Refutes(x->a) || Refutes(x->condition)) && (Refutes(x->b) || Proves(x->condition));
  }
  const auto* x = condition.As<Binary>();
  if (!x) return false;
  if (x->op == BinaryOp::kAnd) return Refutes(x->a) || Refutes(x->b);
  if (x->op == BinaryOp::kOr) return Refutes(x->a) && Refutes(x->b);
  if (!IsComparison(x->op) || x->a.dtype().is_float()) return false;
  return Proves(NegateCondition(condition));
}

// The largest g known with e % g == 0 always; 0 when e is always zero.
int64_t Facts::MultipleOf(const Expr& e) const {
  if (const auto* c = e.As<IntImm>()) return c->value == INT64_MIN ? 1 : std::abs(c->value);
  if (!IsIndex(e.dtype())) return 1;
  const auto known = memo_.multiples.find(e.get());
  if (known != memo_.multiples.end()) return known->second.second;
  const int64_t found = FindMultipleOf(e);
  memo_.multiples[e.get()] = {e, found};
  return found;
}

int64_t Facts::AtomMultiple(const Expr& atom) const {
  const MaybeBounds bounds = AtomBounds(atom);
  if (bounds && bounds->min == bounds->max && bounds->min != INT64_MIN) {
    return std::abs(bounds->min);
  }
  if (const auto* x = atom.As<Select>()) return std::gcd(MultipleOf(x->a), MultipleOf(x->b));
  const auto* x = atom.As<Binary>();
  if (!x) return 1;
  switch (x->op) {
    case BinaryOp::kMul: {
      const int64_t a = MultipleOf(x->a);
      return CheckedMul(a, MultipleOf(x->b)).value_or(std::max<int64_t>(a, 1));
    }
    case BinaryOp::kFloorMod:
    case BinaryOp::kMin:
    case BinaryOp::kMax:
      return std::gcd(MultipleOf(x->a), MultipleOf(x->b));
    case BinaryOp::kFloorDiv: {
      const std::optional<int64_t> c = ConstInt(x->b);
      if (!c || *c <= 0) return 1;
      const int64_t a = MultipleOf(x->a);
      return a % *c == 0 ? a / *c : 1;
    }
    default:
      return 1;
  }
}

int64_t Facts::FindMultipleOf(const Expr& e) const {
  const LinearForm form = Expand(e);
  int64_t g = form.constant == INT64_MIN ? 1 : std::abs(form.constant);
  for (const auto& [atom, k] : form.terms) {
    if (k == INT64_MIN) return 1;
    g = std::gcd(g, CheckedMul(std::abs(k), AtomMultiple(atom)).value_or(std::abs(k)));
    if (g == 1) return 1;
  }
  return g;
}

bool Facts::Divides(int64_t divisor, const Expr& e) const {
  KILN_CHECK(divisor != 0 && divisor != INT64_MIN);
  if (!e.dtype().is_scalar()) return false;
  return MultipleOf(e) % std::abs(divisor) == 0;
}

}  // namespace kiln::ir

// Facts::Simplify.
#include <algorithm>
#include <numeric>

#include "compiler/ir/analysis.h"
#include "compiler/ir/linear.h"
#include "compiler/ir/scalar.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {

namespace {

constexpr int kMaxRounds = 8;

int Size(const Expr& e) {
  int size = 0;
  Walk(e, [&](const Expr&) {
    ++size;
    return true;
  });
  return size;
}

LinearForm Part(const LinearForm& form, int64_t divisor, bool multiples) {
  LinearForm part;
  for (const auto& [atom, k] : form.terms) {
    if ((k % divisor == 0) == multiples) part.terms.emplace_back(atom, multiples ? k / divisor : k);
  }
  return part;
}

int64_t CommonFactor(const LinearForm& form, int64_t c) {
  int64_t g = c;
  for (const auto& [atom, k] : form.terms) g = std::gcd(g, k);
  return g;
}

LinearForm DividedBy(const LinearForm& form, int64_t g, int64_t constant) {
  LinearForm result{constant, {}};
  for (const auto& [atom, k] : form.terms) result.terms.emplace_back(atom, k / g);
  return result;
}

// All values of a signed type.
Bounds RangeOf(DType type) {
  const int64_t last = type.bits >= 64 ? INT64_MAX : (int64_t{1} << (type.bits - 1)) - 1;
  return {-last - 1, last};
}

// FromLinear writes the constant and the factors, or their negatives, as numbers of the type.
bool HasNumbersOf(DType type, const LinearForm& form) {
  const int64_t last = RangeOf(type).max;
  const auto fits = [&](int64_t number) { return number >= -last && number <= last; };
  return fits(form.constant) && std::all_of(form.terms.begin(), form.terms.end(),
                                            [&](const auto& term) { return fits(term.second); });
}

bool SameTerms(const LinearForm& a, const LinearForm& b) {
  return std::equal(
      a.terms.begin(), a.terms.end(), b.terms.begin(), b.terms.end(),
      [](const auto& x, const auto& y) { return x.second == y.second && Same(x.first, y.first); });
}

bool IsComparisonOfInts(const Binary& x) {
  return IsComparison(x.op) && !x.a.dtype().is_float() && x.a.dtype().is_scalar();
}

}  // namespace

class Simplifier : public Mutator {
 public:
  explicit Simplifier(const Facts& facts) : facts_(facts) {}

 protected:
  Expr VisitExpr(const Expr& e) override {
    if (e.kind() == ExprKind::kIntImm || e.kind() == ExprKind::kFloatImm) return e;
    if (e.kind() == ExprKind::kVar) return OneRound(e);
    const auto known = facts_.memo_.simpler.find(e.get());
    if (known != facts_.memo_.simpler.end()) return known->second.second;
    const Expr simpler = OneRound(e);
    facts_.memo_.simpler[e.get()] = {e, simpler};
    return simpler;
  }

 private:
  Expr OneRound(const Expr& e) {
    const Expr rebuilt = RebuildExpr(e);
    if (!rebuilt.dtype().is_scalar()) return VisitVector(rebuilt);
    const Expr simpler = Node(rebuilt);
    return Same(simpler, e) ? e : simpler;
  }

  Expr VisitVector(const Expr& e) {
    if (!e.dtype().is_bool()) return e;
    if (facts_.Proves(e)) return MakeBroadcast(MakeBool(true), e.dtype().lanes);
    if (facts_.Refutes(e)) return MakeBroadcast(MakeBool(false), e.dtype().lanes);
    return e;
  }

  Expr Node(const Expr& e) {
    if (e.kind() == ExprKind::kIntImm || e.dtype().is_float()) return SelectNode(e);
    if (e.dtype().is_bool()) return Condition(e);
    if (const auto bounds = facts_.BoundsOf(e); bounds && bounds->min == bounds->max) {
      return MakeInt(bounds->min, e.dtype());
    }
    if (e.kind() == ExprKind::kVar) return ValueOf(e);
    if (e.kind() == ExprKind::kSelect) return SelectNode(e);
    const auto* x = e.As<Binary>();
    if (!x || !IsIndex(e.dtype())) return e;
    switch (x->op) {
      case BinaryOp::kAdd:
      case BinaryOp::kSub:
      case BinaryOp::kMul:
        return Sum(e);
      case BinaryOp::kMin:
        if (facts_.ProvesComparison(BinaryOp::kLe, x->a, x->b)) return x->a;
        return facts_.ProvesComparison(BinaryOp::kLe, x->b, x->a) ? x->b : e;
      case BinaryOp::kMax:
        if (facts_.ProvesComparison(BinaryOp::kGe, x->a, x->b)) return x->a;
        return facts_.ProvesComparison(BinaryOp::kGe, x->b, x->a) ? x->b : e;
      case BinaryOp::kFloorDiv:
      case BinaryOp::kFloorMod:
        return DivMod(e, *x);
      case BinaryOp::kBitXor:
        return Xor(e, x->a, x->b);
      default:
        return e;
    }
  }

  Expr SelectNode(const Expr& e) {
    const auto* x = e.As<Select>();
    if (!x || !x->condition.dtype().is_scalar()) return e;
    if (facts_.Proves(x->condition)) return x->a;
    return facts_.Refutes(x->condition) ? x->b : e;
  }

  // A variable that is bound to a constant or to another variable.
  Expr ValueOf(const Expr& var) {
    const auto value = facts_.values_.find(var.get());
    if (value == facts_.values_.end()) return var;
    const bool plain = value->second.As<IntImm>() || value->second.As<Var>();
    return plain && value->second.dtype() == var.dtype() ? value->second : var;
  }

  Expr Condition(const Expr& e) {
    if (facts_.Proves(e)) return MakeBool(true);
    if (facts_.Refutes(e)) return MakeBool(false);
    if (e.kind() == ExprKind::kSelect) return SelectNode(e);
    const auto* x = e.As<Binary>();
    if (!x) return e;
    if (x->op == BinaryOp::kAnd) {
      if (facts_.Proves(x->a)) return x->b;
      return facts_.Proves(x->b) ? x->a : e;
    }
    if (x->op == BinaryOp::kOr) {
      if (facts_.Refutes(x->a)) return x->b;
      return facts_.Refutes(x->b) ? x->a : e;
    }
    return IsComparisonOfInts(*x) && IsIndex(x->a.dtype()) ? Comparison(e, *x) : e;
  }

  // Cancels what both sides have in common.
  Expr Comparison(const Expr& e, const Binary& x) {
    LinearForm difference = Linearize(x.a);
    if (!AddScaled(Linearize(x.b), -1, &difference)) return e;
    LinearForm left, right;
    for (const auto& [atom, k] : difference.terms) {
      if (k == INT64_MIN) return e;
      if (k > 0) left.terms.emplace_back(atom, k);
      if (k < 0) right.terms.emplace_back(atom, -k);
    }
    if (difference.constant == INT64_MIN) return e;
    right.constant = -difference.constant;
    if (left.terms.empty() || right.terms.empty()) return Smaller(x, left, right, e);
    if (right.constant < 0) {
      left.constant = -right.constant;
      right.constant = 0;
    }
    return Smaller(x, left, right, e);
  }

  Expr Smaller(const Binary& x, const LinearForm& left, const LinearForm& right, const Expr& e) {
    const DType type = x.a.dtype();
    if (!HasValue(left, Linearize(x.a), type) || !HasValue(right, Linearize(x.b), type)) return e;
    const Expr candidate = MakeBinary(x.op, FromLinear(left, type), FromLinear(right, type));
    return Size(candidate) < Size(e) ? candidate : e;
  }

  Expr Sum(const Expr& e) {
    LinearForm form = Linearize(e);
    JoinDivMod(&form);
    if (!HasNumbersOf(e.dtype(), form)) return e;
    const Expr candidate = FromLinear(form, e.dtype());
    return Size(candidate) < Size(e) ? candidate : e;
  }

  // Whether a sum that takes the place of `before` is a value of its type wherever that one is.
  // What is not known of an atom is the range of its type.
  bool HasValue(const LinearForm& sum, const LinearForm& before, DType type) {
    if (!HasNumbersOf(type, sum)) return false;
    if (SameTerms(sum, before)) {
      const bool is_atom = sum.terms.size() == 1 && sum.terms[0].second == 1;
      const auto [low, high] = std::minmax({is_atom ? 0 : before.constant, before.constant});
      if (sum.constant >= low && sum.constant <= high) return true;  // it lies between the two
    }
    std::optional<Bounds> bounds = facts_.FormBounds(sum);
    if (!bounds) bounds = BoundsByTypes(sum);
    const Bounds range = RangeOf(type);
    return bounds && bounds->min >= range.min && bounds->max <= range.max;
  }

  std::optional<Bounds> BoundsByTypes(const LinearForm& form) {
    Bounds sum{form.constant, form.constant};
    for (const auto& [atom, k] : form.terms) {
      const Bounds bounds = facts_.AtomBounds(atom).value_or(RangeOf(atom.dtype()));
      const auto at_min = CheckedMul(bounds.min, k), at_max = CheckedMul(bounds.max, k);
      if (!at_min || !at_max) return std::nullopt;
      const auto low = CheckedAdd(sum.min, std::min(*at_min, *at_max));
      const auto high = CheckedAdd(sum.max, std::max(*at_min, *at_max));
      if (!low || !high) return std::nullopt;
      sum = {*low, *high};
    }
    return sum;
  }

  // (w m + rest) ^ small = w m + (rest ^ small), where small is in [0, w) and w a power of two:
  // what unrolled copies have in common is then one number, and the rest a constant of each.
  Expr Xor(const Expr& e, const Expr& from, const Expr& small) {
    const auto bounds = facts_.BoundsOf(small);
    constexpr int64_t kWidest = int64_t{1} << 12;
    if (!bounds || bounds->min < 0 || bounds->max >= kWidest) return e;
    int64_t width = 1;
    while (width <= bounds->max) width *= 2;
    const LinearForm form = Linearize(from);
    LinearForm whole = Part(form, width, true), rest = Part(form, width, false);
    whole.constant = FloorDivide(form.constant, width);
    rest.constant = form.constant - whole.constant * width;
    if (whole.terms.empty() && whole.constant == 0) return e;
    // Nothing on the way may be out of range.
    const auto parts = facts_.FormBounds(whole), remains = facts_.FormBounds(rest);
    constexpr int64_t kFar = int64_t{1} << 30;
    if (!parts || !remains || remains->min < 0 || remains->max >= kFar / 2) return e;
    if (parts->min < -kFar / (2 * width) || parts->max > kFar / (2 * width)) return e;
    const Expr multiples = FromLinear(whole, e.dtype()) * MakeInt(width, e.dtype());
    const Expr low = FromLinear(rest, e.dtype());
    return Sum(MakeBinary(BinaryOp::kBitXor, low, small) + multiples);
  }

  Expr DivMod(const Expr& e, const Binary& x) {
    const std::optional<int64_t> c = ConstInt(x.b);
    if (!c || *c <= 1) return e;
    const bool div = x.op == BinaryOp::kFloorDiv;
    const LinearForm form = Linearize(x.a);
    const Expr direct = div ? Div(form, *c, e) : Mod(form, *c, e);
    if (!Same(direct, e)) return direct;
    const LinearForm expanded = facts_.Expand(x.a);
    const Expr inlined = div ? Div(expanded, *c, e) : Mod(expanded, *c, e);
    return Size(inlined) < Size(e) ? inlined : e;
  }

  // The quotient q when all values of `form` lie in [q*c, (q+1)*c).
  std::optional<int64_t> OneQuotient(const LinearForm& form, int64_t c) {
    const auto bounds = facts_.FormBounds(form);
    if (!bounds) return std::nullopt;
    const int64_t q = FloorDivide(bounds->min, c);
    return q == FloorDivide(bounds->max, c) ? std::optional(q) : std::nullopt;
  }

  // floor((c*q + r) / c) = q + floor(r / c).
  Expr Div(const LinearForm& form, int64_t c, const Expr& e) {
    const DType type = e.dtype();
    LinearForm quotient = Part(form, c, true);
    LinearForm rest = Part(form, c, false);
    quotient.constant = FloorDivide(form.constant, c);
    rest.constant = form.constant - quotient.constant * c;
    if (const auto q = OneQuotient(rest, c)) {
      const std::optional<int64_t> constant = CheckedAdd(quotient.constant, *q);
      if (!constant) return e;
      quotient.constant = *constant;
      return HasNumbersOf(type, quotient) ? FromLinear(quotient, type) : e;
    }
    if (!HasValue(rest, form, type)) {  // rounded towards zero it may have one
      quotient.constant = form.constant / c;
      rest.constant = form.constant % c;
      if (!HasValue(rest, form, type)) return e;
    }
    const Expr outside = FromLinear(quotient, type);
    const int64_t g = CommonFactor(rest, c);
    if (g > 1) {
      const Expr inner = FromLinear(DividedBy(rest, g, FloorDivide(rest.constant, g)), type);
      return outside + MakeBinary(BinaryOp::kFloorDiv, inner, MakeInt(c / g, type));
    }
    if (const Expr coarse = CoarseDiv(rest, c, type); coarse.defined()) return outside + coarse;
    if (rest.constant == 0 && rest.terms.size() == 1 && rest.terms[0].second == 1) {
      if (Expr nested = NestedDiv(rest.terms[0].first, c, type); nested.defined()) {
        return outside + nested;
      }
    }
    if (quotient.terms.empty() && quotient.constant == 0) return e;
    return outside + MakeBinary(BinaryOp::kFloorDiv, FromLinear(rest, type), MakeInt(c, type));
  }

  // form = g*high + low where g divides c and 0 <= low < g; nothing where no coefficient is such a
  // g.
  struct Coarse {
    LinearForm high, low;
    int64_t g;
  };
  std::optional<Coarse> Coarsen(const LinearForm& form, int64_t c) {
    for (const auto& term : form.terms) {
      const int64_t g = std::gcd(term.second, c);
      if (g <= 1) continue;
      LinearForm high = Part(form, g, true), low = Part(form, g, false);
      high.constant = FloorDivide(form.constant, g);
      low.constant = form.constant - high.constant * g;
      if (OneQuotient(low, g) == 0) return Coarse{std::move(high), std::move(low), g};
    }
    return std::nullopt;
  }

  // (g*high + low) // c = high // (c/g).
  Expr CoarseDiv(const LinearForm& form, int64_t c, DType type) {
    const auto parts = Coarsen(form, c);
    if (!parts) return {};
    return MakeBinary(BinaryOp::kFloorDiv, FromLinear(parts->high, type),
                      MakeInt(c / parts->g, type));
  }

  // (g*high + low) % c = high % (c/g) * g + low.
  Expr CoarseMod(const LinearForm& form, int64_t c, DType type) {
    const auto parts = Coarsen(form, c);
    if (!parts) return {};
    const Expr mod =
        MakeBinary(BinaryOp::kFloorMod, FromLinear(parts->high, type), MakeInt(c / parts->g, type));
    return MakeBinary(BinaryOp::kAdd, MakeBinary(BinaryOp::kMul, mod, MakeInt(parts->g, type)),
                      FromLinear(parts->low, type));
  }

  // (z // d) // c = z // (d*c).
  Expr NestedDiv(const Expr& atom, int64_t c, DType type) {
    const auto* x = atom.As<Binary>();
    if (!x || x->op != BinaryOp::kFloorDiv) return {};
    const std::optional<int64_t> d = ConstInt(x->b);
    const std::optional<int64_t> product = d && *d > 0 ? CheckedMul(*d, c) : std::nullopt;
    if (!product || *product > INT32_MAX) return {};
    return MakeBinary(BinaryOp::kFloorDiv, MakeCast(type, x->a), MakeInt(*product, type));
  }

  Expr Mod(const LinearForm& form, int64_t c, const Expr& e) {
    const DType type = e.dtype();
    LinearForm rest{form.constant - FloorDivide(form.constant, c) * c, {}};
    bool changed = rest.constant != form.constant;
    for (const auto& [atom, k] : form.terms) {
      const int64_t reduced = k > 0 ? k % c : k % c == 0 ? 0 : k;
      changed |= reduced != k;
      if (reduced == 0) continue;
      const auto* mod = atom.As<Binary>();
      const bool inner_mod = mod && mod->op == BinaryOp::kFloorMod && ConstInt(mod->b) &&
                             *ConstInt(mod->b) > 0 && *ConstInt(mod->b) % c == 0;
      changed |= inner_mod;
      if (!AddScaled(Linearize(inner_mod ? mod->a : atom), reduced, &rest)) return e;
    }
    if (const auto q = OneQuotient(rest, c)) {
      rest.constant -= *q * c;
      return HasNumbersOf(type, rest) ? FromLinear(rest, type) : e;
    }
    if (!HasValue(rest, form, type)) {
      rest = form;
      rest.constant = form.constant % c;
      if (!HasValue(rest, form, type)) return e;
      changed = rest.constant != form.constant;
    }
    const int64_t g = CommonFactor(rest, c);
    if (g > 1) {
      const int64_t low = rest.constant - FloorDivide(rest.constant, g) * g;
      const Expr inner = FromLinear(DividedBy(rest, g, (rest.constant - low) / g), type);
      const Expr mod = MakeBinary(BinaryOp::kFloorMod, inner, MakeInt(c / g, type));
      return MakeBinary(BinaryOp::kAdd, MakeBinary(BinaryOp::kMul, mod, MakeInt(g, type)),
                        MakeInt(low, type));
    }
    if (const Expr coarse = CoarseMod(rest, c, type); coarse.defined()) return coarse;
    if (!changed) return e;
    return MakeBinary(BinaryOp::kFloorMod, FromLinear(rest, type), MakeInt(c, type));
  }

  const Facts& facts_;
};

Expr Facts::Simplify(const Expr& e) const {
  Expr current = e;
  for (int round = 0; round < kMaxRounds; ++round) {
    const Expr next = Simplifier(*this).Mutate(current);
    if (next.same_as(current)) break;
    current = next;
  }
  return Same(current, e) ? e : current;
}

}  // namespace kiln::ir

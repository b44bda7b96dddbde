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

// FromLinear writes the constant and the factors, or their negatives, as numbers of the type.
bool HasNumbersOf(DType type, const LinearForm& form) {
  const int64_t last = IndexBounds(type).max;
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
    const Expr a = Replacing(x.a, left), b = Replacing(x.b, right);
    if (!a.defined() || !b.defined()) return e;
    const Expr candidate = MakeBinary(x.op, a, b);
    return Size(candidate) < Size(e) ? candidate : e;
  }

  Expr Sum(const Expr& e) {
    LinearForm form = Linearize(e);
    JoinDivMod(&form);
    const Expr candidate = Written(form, e);
    return candidate.defined() && Size(candidate) < Size(e) ? candidate : e;
  }

  // `sum`, a value of the type of `from`, whose place it takes, as FromLinear writes it; undefined
  // where a sum or a product on the way may be none.
  Expr Written(const LinearForm& sum, const Expr& from) {
    const DType type = from.dtype();
    if (!HasNumbersOf(type, sum)) return {};
    std::vector<Bounds> parts;  // in FromLinear's order
    for (const bool positive : {true, false}) {
      for (const auto& [atom, k] : sum.terms) {
        if ((k > 0) != positive) continue;
        const auto part = BoundsByTypes({0, {{atom, k}}});
        if (!part || !HasProduct(atom, k < 0 && !parts.empty() ? -k : k, from)) return {};
        parts.push_back(*part);
      }
    }
    parts.push_back({sum.constant, sum.constant});
    return StaysWithin(type, parts) ? FromLinear(sum, type) : Expr();
  }

  // Whether the product is a value of the type of `from`: by its bounds, or as `from` computes such
  // a one, or a larger one.
  bool HasProduct(const Expr& atom, int64_t k, const Expr& from) {
    if (k == 1) return true;
    const auto product = BoundsByTypes({0, {{atom, k}}});
    if (product && Fits(*product, from.dtype())) return true;
    bool found = false;
    Walk(from, [&](const Expr& e) {
      const bool counts = IsIndex(e.dtype()) && e.dtype().bits <= from.dtype().bits;
      const LinearForm form = counts ? Linearize(e) : LinearForm();
      if (form.terms.size() == 1 && form.constant == 0 && Same(form.terms[0].first, atom)) {
        found |= k > 0 ? k <= form.terms[0].second : k >= form.terms[0].second;
      }
      return !found && EvaluatesAll(e);
    });
    return found;
  }

  // Whether the sums from left to right, of which the last is a value of the type, all are.
  static bool StaysWithin(DType type, const std::vector<Bounds>& parts) {
    Bounds sum{0, 0};
    for (auto part = parts.begin(); part != parts.end(); ++part) {
      // From here on they lie between the last one and the whole.
      if (std::all_of(part, parts.end(), [](const Bounds& b) { return b.min >= 0; })) return true;
      if (std::all_of(part, parts.end(), [](const Bounds& b) { return b.max <= 0; })) return true;
      const auto low = CheckedAdd(sum.min, part->min), high = CheckedAdd(sum.max, part->max);
      if (!low || !high) return false;
      sum = {*low, *high};
      if (part != parts.begin() && !Fits(sum, type)) return false;
    }
    return true;
  }

  // `sum` in place of `from`: undefined where it may have no value though that one has.
  Expr Replacing(const Expr& from, const LinearForm& sum) {
    return HasValue(sum, Linearize(from), from.dtype()) ? Written(sum, from) : Expr();
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
    return bounds && Fits(*bounds, type);
  }

  std::optional<Bounds> BoundsByTypes(const LinearForm& form) {
    Bounds sum{form.constant, form.constant};
    for (const auto& [atom, k] : form.terms) {
      const Bounds bounds = facts_.AtomBounds(atom).value_or(IndexBounds(atom.dtype()));
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
    const Expr high = Written(whole, from), low = Written(rest, from);
    if (!high.defined() || !low.defined()) return e;
    const Expr multiples = high * MakeInt(width, e.dtype());
    return Sum(MakeBinary(BinaryOp::kBitXor, low, small) + multiples);
  }

  Expr DivMod(const Expr& e, const Binary& x) {
    const std::optional<int64_t> c = ConstInt(x.b);
    if (!c || *c <= 1) return e;
    const bool div = x.op == BinaryOp::kFloorDiv;
    const auto simpler = [&](const LinearForm& form) {
      return div ? Div(form, *c, x.a) : Mod(form, *c, x.a);
    };
    const Expr direct = simpler(Linearize(x.a));
    if (direct.defined() && !Same(direct, e)) return direct;
    const Expr inlined = simpler(facts_.Expand(x.a));
    return inlined.defined() && Size(inlined) < Size(e) ? inlined : e;
  }

  // The quotient q when all values of `form` lie in [q*c, (q+1)*c).
  std::optional<int64_t> OneQuotient(const LinearForm& form, int64_t c) {
    const auto bounds = facts_.FormBounds(form);
    if (!bounds) return std::nullopt;
    const int64_t q = FloorDivide(bounds->min, c);
    return q == FloorDivide(bounds->max, c) ? std::optional(q) : std::nullopt;
  }

  // floor((c*q + r) / c) = q + floor(r / c). Undefined where nothing is known to be simpler.
  Expr Div(const LinearForm& form, int64_t c, const Expr& from) {
    const DType type = from.dtype();
    LinearForm quotient = Part(form, c, true);
    LinearForm rest = Part(form, c, false);
    quotient.constant = FloorDivide(form.constant, c);
    rest.constant = form.constant - quotient.constant * c;
    if (const auto q = OneQuotient(rest, c)) {
      const std::optional<int64_t> constant = CheckedAdd(quotient.constant, *q);
      if (!constant) return {};
      quotient.constant = *constant;
      return Written(quotient, from);
    }
    if (!HasValue(rest, form, type)) {  // rounded towards zero it may have one
      quotient.constant = form.constant / c;
      rest.constant = form.constant % c;
      if (!HasValue(rest, form, type)) return {};
    }
    const Expr outside = Written(quotient, from);
    if (!outside.defined()) return {};
    const int64_t g = CommonFactor(rest, c);
    if (g > 1) {
      const LinearForm parts = DividedBy(rest, g, FloorDivide(rest.constant, g));
      const Expr inner = Written(parts, from);
      if (!inner.defined()) return {};
      return outside + MakeBinary(BinaryOp::kFloorDiv, inner, MakeInt(c / g, type));
    }
    if (const Expr coarse = CoarseDiv(rest, c, from); coarse.defined()) return outside + coarse;
    if (rest.constant == 0 && rest.terms.size() == 1 && rest.terms[0].second == 1) {
      if (Expr nested = NestedDiv(rest.terms[0].first, c, type); nested.defined()) {
        return outside + nested;
      }
    }
    const Expr inside = Written(rest, from);
    if ((quotient.terms.empty() && quotient.constant == 0) || !inside.defined()) return {};
    return outside + MakeBinary(BinaryOp::kFloorDiv, inside, MakeInt(c, type));
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
  Expr CoarseDiv(const LinearForm& form, int64_t c, const Expr& from) {
    const auto parts = Coarsen(form, c);
    const Expr high = parts ? Written(parts->high, from) : Expr();
    if (!high.defined()) return {};
    return MakeBinary(BinaryOp::kFloorDiv, high, MakeInt(c / parts->g, from.dtype()));
  }

  // (g*high + low) % c = high % (c/g) * g + low.
  Expr CoarseMod(const LinearForm& form, int64_t c, const Expr& from) {
    const DType type = from.dtype();
    const auto parts = Coarsen(form, c);
    if (!parts) return {};
    const Expr high = Written(parts->high, from), low = Written(parts->low, from);
    if (!high.defined() || !low.defined()) return {};
    const Expr mod = MakeBinary(BinaryOp::kFloorMod, high, MakeInt(c / parts->g, type));
    return MakeBinary(BinaryOp::kMul, mod, MakeInt(parts->g, type)) + low;
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

  Expr Mod(const LinearForm& form, int64_t c, const Expr& from) {
    const DType type = from.dtype();
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
      if (!AddScaled(Linearize(inner_mod ? mod->a : atom), reduced, &rest)) return {};
    }
    if (const auto q = OneQuotient(rest, c)) {
      const auto whole = CheckedMul(*q, -c);
      const auto constant = whole ? CheckedAdd(rest.constant, *whole) : whole;
      if (!constant) return {};
      rest.constant = *constant;
      return Written(rest, from);
    }
    if (!HasValue(rest, form, type)) {
      rest = form;
      rest.constant = form.constant % c;
      if (!HasValue(rest, form, type)) return {};
      changed = rest.constant != form.constant;
    }
    const int64_t g = CommonFactor(rest, c);
    if (g > 1) {
      const int64_t low = rest.constant - FloorDivide(rest.constant, g) * g;
      const Expr inner = Written(DividedBy(rest, g, (rest.constant - low) / g), from);
      if (!inner.defined()) return {};
      const Expr mod = MakeBinary(BinaryOp::kFloorMod, inner, MakeInt(c / g, type));
      return MakeBinary(BinaryOp::kAdd, MakeBinary(BinaryOp::kMul, mod, MakeInt(g, type)),
                        MakeInt(low, type));
    }
    if (const Expr coarse = CoarseMod(rest, c, from); coarse.defined()) return coarse;
    const Expr inside = changed ? Written(rest, from) : Expr();
    if (!inside.defined()) return {};
    return MakeBinary(BinaryOp::kFloorMod, inside, MakeInt(c, type));
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

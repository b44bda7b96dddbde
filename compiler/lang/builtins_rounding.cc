// ieee_*: arithmetic that rounds as it is told, whatever the pass options say of speed. A result
// that is rounded to nearest is moved by one unit where what the rounding lost asks for it (Boldo,
// Melquiond, "Computer Arithmetic and Formal Proofs", on error-free transformations), so that all
// targets agree. What is lost of float32 is found in double, where it is exact; products, quotients
// and roots of float64 that come near the smallest normal number are rounded to nearest in every
// mode. A sum of opposite numbers is +0 in every mode.
#include "absl/strings/str_cat.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {
namespace {

using ir::BinaryOp;
using ir::Expr;

enum class Mode : uint8_t { kNearest, kZero, kUp, kDown };

// The operands of one call in their common type, under names.
class Rounding {
 public:
  Rounding(Elaborator& e, const BoundArgs& args) : e_(e), args_(args) {}

  absl::Status Read(size_t count, const char* name) {
    DType type;
    std::vector<Operand> operands;
    for (size_t i = 0; i < count; ++i) {
      KILN_ASSIGN_OR_RETURN(const Operand x, e_.ToOperand(args_[i], args_.LocOf(i), "the operand"));
      type = i == 0 ? x.e.dtype() : ir::CommonType(type, x.e.dtype());
      operands.push_back(x);
      info = Join(info, x.info);
    }
    if (!type.is_float()) type = kFloat32;
    if (type.bits < 32) {
      return e_.Error(args_.loc, absl::StrCat(name, " of ", type.ToString()),
                      "use float32 or float64");
    }
    type_ = type;
    for (const Operand& x : operands) {
      KILN_ASSIGN_OR_RETURN(const Expr v, Named(ir::MakeCast(type, x.e)));
      v_.push_back(v);
    }
    if (!args_.Given(count)) return absl::OkStatus();
    KILN_ASSIGN_OR_RETURN(const std::string mode,
                          e_.ToStr(args_[count], args_.LocOf(count), "rounding_mode"));
    static constexpr const char* kModes[] = {"rn", "rz", "ru", "rd"};
    for (int m = 0; m < 4; ++m) {
      if (mode != kModes[m]) continue;
      mode_ = static_cast<Mode>(m);
      return absl::OkStatus();
    }
    return e_.Error(args_.LocOf(count), absl::StrCat("the rounding mode '", mode, "'"),
                    "use 'rn', 'rz', 'ru' or 'rd'");
  }

  const Expr& operator[](size_t i) const { return v_[i]; }
  DType type() const { return type_; }
  Mode mode() const { return mode_; }
  Expr F(double v) const { return ir::MakeFloat(v, type_); }

  absl::StatusOr<Expr> Named(const Expr& value) {
    KILN_ASSIGN_OR_RETURN(const Value v, e_.NewExpr(value, info, args_.loc));
    KILN_ASSIGN_OR_RETURN(const Value named,
                          e_.Keep(v, "item", args_.loc, Elaborator::Use::kRepeated));
    KILN_ASSIGN_OR_RETURN(const Operand x, e_.ToOperand(named, args_.loc, "the value"));
    return x.e.dtype() == value.dtype() ? x.e : ir::MakeCast(value.dtype(), x.e);
  }

  // `nearest`, and what the exact value is more than it; `exact` where an infinite one is no
  // overflow.
  absl::StatusOr<Value> Result(const Expr& nearest, const Expr& rest, const Expr& exact = {}) {
    if (mode_ == Mode::kNearest) return e_.NewExpr(nearest, info, args_.loc);
    KILN_ASSIGN_OR_RETURN(const Expr value, Named(nearest));
    KILN_ASSIGN_OR_RETURN(const Expr lost, Named(rest));
    const DType whole = {TypeCode::kUInt, type_.bits};
    const Expr bits = ir::MakeCall(whole, ir::Intrinsic::kReinterpret, {value});
    const Expr one = ir::MakeInt(1, whole);
    const auto moved = [&](const Expr& to) {
      return ir::MakeCall(type_, ir::Intrinsic::kReinterpret, {to});
    };
    // One unit away from zero and towards it.
    const Expr away = moved(bits + one), back = moved(bits - one);
    const Expr nothing = ir::MakeFloat(0, lost.dtype());
    const Expr above = lost > nothing, below = lost < nothing;
    const Expr positive = value > F(0), negative = value < F(0);
    const int64_t sign = static_cast<int64_t>(uint64_t{1} << (type_.bits - 1));
    Expr out;
    if (mode_ == Mode::kUp) {
      const Expr up = ir::MakeSelect(negative, back, ir::MakeSelect(positive, away, moved(one)));
      out = ir::MakeSelect(above, up, value);
    } else if (mode_ == Mode::kDown) {
      const Expr least = moved(ir::MakeInt(sign | 1, whole));
      const Expr down = ir::MakeSelect(positive, back, ir::MakeSelect(negative, away, least));
      out = ir::MakeSelect(below, down, value);
    } else {
      const Expr past = (positive && below) || (negative && above);
      out = ir::MakeSelect(past, back, value);
    }
    return e_.NewExpr(Finite(value, out, exact), info, args_.loc);
  }

  ExprInfo info;

 private:
  // An infinite value of finite operands: the largest number, where the mode does not go there.
  Expr Finite(const Expr& value, const Expr& otherwise, const Expr& exact) const {
    Expr overflow = ir::MakeCall(kBool, ir::Intrinsic::kIsInf, {value});
    for (const Expr& v : v_) {
      overflow = overflow && ir::MakeCall(kBool, ir::Intrinsic::kIsFinite, {v});
    }
    if (exact.defined()) overflow = overflow && ir::MakeUnary(ir::UnaryOp::kNot, exact);
    const double most = type_.bits == 64 ? 1.7976931348623157e308 : 3.4028234663852886e38;
    const Expr high = mode_ == Mode::kUp ? F(HUGE_VAL) : F(most);
    const Expr low = mode_ == Mode::kDown ? F(-HUGE_VAL) : F(-most);
    return ir::MakeSelect(overflow, ir::MakeSelect(value > F(0), high, low), otherwise);
  }

  Elaborator& e_;
  const BoundArgs& args_;
  DType type_;
  Mode mode_ = Mode::kNearest;
  std::vector<Expr> v_;
};

Expr Fma(const Expr& a, const Expr& b, const Expr& c) {
  return ir::MakeCall(a.dtype(), ir::Intrinsic::kFma, {a, b, c});
}
Expr Minus(const Expr& a) { return ir::MakeUnary(ir::UnaryOp::kNeg, a); }
Expr Wide(const Expr& x) { return ir::MakeCast(kFloat64, x); }

// What a + b is more than `sum`, which is it to nearest.
absl::StatusOr<Expr> LostBySum(Rounding& r, const Expr& a, const Expr& b, const Expr& sum) {
  KILN_ASSIGN_OR_RETURN(const Expr part, r.Named(sum - a));
  return (a - (sum - part)) + (b - part);
}

template <bool minus>
absl::StatusOr<Value> Sum(Elaborator& e, const BoundArgs& args) {
  Rounding r(e, args);
  KILN_RETURN_IF_ERROR(r.Read(2, minus ? "T.ieee_sub" : "T.ieee_add"));
  const Expr b = minus ? Minus(r[1]) : r[1];
  KILN_ASSIGN_OR_RETURN(const Expr sum, r.Named(r[0] + b));
  KILN_ASSIGN_OR_RETURN(const Expr lost, LostBySum(r, r[0], b, sum));
  return r.Result(sum, lost);
}

absl::StatusOr<Value> Product(Elaborator& e, const BoundArgs& args) {
  Rounding r(e, args);
  KILN_RETURN_IF_ERROR(r.Read(2, "T.ieee_mul"));
  KILN_ASSIGN_OR_RETURN(const Expr product, r.Named(r[0] * r[1]));
  return r.Result(product, Fma(Wide(r[0]), Wide(r[1]), Minus(Wide(product))));
}

// a / b: of float32 by way of double, which rounds the same in the end and is never approximate.
absl::StatusOr<Value> QuotientOf(Rounding& r, const Expr& a, const Expr& b) {
  KILN_ASSIGN_OR_RETURN(
      const Expr quotient,
      r.Named(ir::MakeCast(r.type(), ir::MakeBinary(BinaryOp::kDiv, Wide(a), Wide(b)))));
  const Expr rest = Fma(Minus(Wide(quotient)), Wide(b), Wide(a));
  const Expr zero = r.F(0);
  return r.Result(quotient, ir::MakeSelect(b < zero, Minus(rest), rest), Equal(b, zero));
}

absl::StatusOr<Value> Quotient(Elaborator& e, const BoundArgs& args) {
  Rounding r(e, args);
  KILN_RETURN_IF_ERROR(r.Read(2, "T.ieee_fdiv"));
  return QuotientOf(r, r[0], r[1]);
}

absl::StatusOr<Value> Reciprocal(Elaborator& e, const BoundArgs& args) {
  Rounding r(e, args);
  KILN_RETURN_IF_ERROR(r.Read(1, "T.ieee_frcp"));
  return QuotientOf(r, r.F(1), r[0]);
}

absl::StatusOr<Value> Root(Elaborator& e, const BoundArgs& args) {
  Rounding r(e, args);
  KILN_RETURN_IF_ERROR(r.Read(1, "T.ieee_fsqrt"));
  KILN_ASSIGN_OR_RETURN(const Expr root,
                        r.Named(ir::MakeCall(r.type(), ir::Intrinsic::kSqrt, {r[0]})));
  return r.Result(root, Fma(Minus(Wide(root)), Wide(root), Wide(r[0])));
}

// To nearest: two roundings of double and one of float32.
absl::StatusOr<Value> ReciprocalRoot(Elaborator& e, const BoundArgs& args) {
  Rounding r(e, args);
  KILN_RETURN_IF_ERROR(r.Read(1, "T.ieee_frsqrt"));
  const Expr root = ir::MakeCall(kFloat64, ir::Intrinsic::kSqrt, {ir::MakeCast(kFloat64, r[0])});
  const Expr value = ir::MakeBinary(BinaryOp::kDiv, ir::MakeFloat(1, kFloat64), root);
  return e.NewExpr(ir::MakeCast(r.type(), value), r.info, args.loc);
}

// The exact value is the sum of two doubles, as a product of floats is exact in double.
absl::StatusOr<Value> Fused(Elaborator& e, const BoundArgs& args) {
  Rounding r(e, args);
  KILN_RETURN_IF_ERROR(r.Read(3, "T.ieee_fmaf"));
  const Expr nearest = Fma(r[0], r[1], r[2]);
  if (r.mode() == Mode::kNearest) return r.Result(nearest, r.F(0));
  if (r.type().bits == 64) {
    return e.Error(args.loc, "T.ieee_fmaf of float64 in another mode than 'rn'",
                   "use float32, or T.ieee_mul and T.ieee_add");
  }
  KILN_ASSIGN_OR_RETURN(const Expr product, r.Named(Wide(r[0]) * Wide(r[1])));
  KILN_ASSIGN_OR_RETURN(const Expr sum, r.Named(product + Wide(r[2])));
  KILN_ASSIGN_OR_RETURN(const Expr low, LostBySum(r, product, Wide(r[2]), sum));
  KILN_ASSIGN_OR_RETURN(const Expr value, r.Named(nearest));
  KILN_ASSIGN_OR_RETURN(const Expr high, r.Named(sum - Wide(value)));
  const Expr zero = ir::MakeFloat(0, kFloat64);
  const Expr lost = ir::MakeSelect(Equal(high, zero), low, high);
  return r.Result(value, lost);
}

constexpr Builtin kRows[] = {
    {"T.ieee_add", "x y rounding_mode?", Sum<false>},
    {"T.ieee_sub", "x y rounding_mode?", Sum<true>},
    {"T.ieee_mul", "x y rounding_mode?", Product},
    {"T.ieee_fmaf", "x y z rounding_mode?", Fused},
    {"T.ieee_frcp", "x rounding_mode?", Reciprocal},
    {"T.ieee_fsqrt", "x rounding_mode?", Root},
    {"T.ieee_frsqrt", "x", ReciprocalRoot},
    {"T.ieee_fdiv", "x y rounding_mode?", Quotient},
};

}  // namespace

BuiltinTable RoundingBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang

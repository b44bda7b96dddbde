// Logarithms of double, and powers, whose logarithm and product with the exponent are sums of two
// doubles.
#include <limits>

#include "compiler/codegen/emit_wide.h"
#include "compiler/codegen/wide_builder.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

constexpr int64_t kRootHalf = 0x3fe6a09e667f3bcd;  // sqrt(1/2) as bits
constexpr int64_t kMantissaBits = 52;
constexpr int64_t kMantissaMask = (int64_t{1} << kMantissaBits) - 1;
constexpr double kLeastNormal = 2.2250738585072014e-308;
constexpr int64_t kUp = 54;  // denormal numbers are so many binary places too small
constexpr WideConstant kTwoOverLn2 = {2.8853900817779268, 4.0710547481862066e-17};
constexpr WideConstant kThird = {0.3333333333333333, 1.850371707708594e-17};
constexpr double kLn2High = 0.693147180559663;  // as in emit_wide.cc
constexpr double kLn2Low = 2.8235290563031577e-13;
constexpr double kFarthest = 1100;  // of exponents: beyond any double's
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
// Of artanh(s) = s + s^3/3 + ...; |s| <= 0.172, so that what is left out is below 2^-60.
constexpr int kLastOdd = 23;

// x = f 2^exponent, f in [sqrt(1/2), sqrt(2)).
struct Parts {
  Value *f, *exponent;
};
Parts Split(llvm::IRBuilder<>& b, WideBuilder& m, Value* x) {
  Value* tiny = b.CreateFCmpOLT(x, m.D(kLeastNormal));
  Value* scaled = m.Select(tiny, m.Mul(x, m.D(static_cast<double>(int64_t{1} << kUp))), x);
  Value* bits = b.CreateSub(m.Bits(scaled), m.L(kRootHalf));
  Value* exponent = b.CreateAShr(bits, m.L(kMantissaBits));
  exponent = b.CreateSub(exponent, b.CreateSelect(tiny, m.L(kUp), m.L(0)));
  Value* f = m.FromBits(b.CreateAdd(b.CreateAnd(bits, m.L(kMantissaMask)), m.L(kRootHalf)));
  return {f, b.CreateSIToFP(exponent, b.getDoubleTy())};
}

// 2/first + 2/(first + 2) z + ...
std::vector<double> ArtanhSeries(int first, double factor) {
  std::vector<double> c;
  for (int odd = first; odd <= kLastOdd; odd += 2) c.push_back(factor / odd);
  return c;
}

// log f = t - (t^2/2 - s (t^2/2 + R)), where t = f - 1, s = t/(t + 2) and R = 2 artanh(s)/s - 2:
// an identity, by which no rounding of s counts in full. What is taken from t, with `more` added.
struct LogParts {
  Value *t, *taken;
};
LogParts LogNearOne(WideBuilder& m, Value* f, Value* more) {
  Value* t = m.Sub(f, m.D(1));
  Value* s = m.Div(t, m.Add(t, m.D(2)));
  Value* z = m.Mul(s, s);
  Value* rest = m.Mul(z, m.Polynomial(z, ArtanhSeries(3, 2)));
  Value* half = m.Mul(m.Mul(t, t), m.D(0.5));
  Value* back = m.Mul(s, m.Add(half, rest));
  return {t, m.Sub(half, more == nullptr ? back : m.Add(back, more))};
}

Value* WithLimits(llvm::IRBuilder<>& b, WideBuilder& m, Value* x, Value* log) {
  log = m.Select(b.CreateFCmpOEQ(x, m.D(kInfinity64)), m.D(kInfinity64), log);
  log = m.Select(b.CreateFCmpOEQ(x, m.D(0)), m.D(-kInfinity64), log);
  return m.Select(b.CreateFCmpULT(x, m.D(0)), m.D(kNan), log);
}

class WidePower {
 public:
  WidePower(llvm::IRBuilder<>& b, Value* x, Value* y) : b_(b), m_(b), x_(x), y_(y) {}

  Value* Emit() {
    Value* a = m_.Abs(x_);
    Pair log = Log2(a);
    for (const auto& [edge, limit] : {std::pair(0.0, -kInfinity64), {kInfinity64, kInfinity64}}) {
      Value* there = b_.CreateFCmpOEQ(a, m_.D(edge));
      log = {m_.Select(there, m_.D(limit), log.high), m_.Select(there, m_.D(0), log.low)};
    }
    Value* high = m_.Mul(y_, log.high);
    Value* low = m_.Fma(y_, log.low, m_.Fma(y_, log.high, b_.CreateFNeg(high)));
    Value* one = b_.CreateFCmpOEQ(a, m_.D(1));
    high = m_.Select(one, m_.D(0), high);
    Value* near = b_.CreateAnd(b_.CreateNot(one), b_.CreateFCmpOLT(m_.Abs(high), m_.D(kFarthest)));
    Value* power = Exp2(m_.Clamp(high, -kFarthest, kFarthest), m_.Select(near, low, m_.D(0)));
    power = Signed(power, a);
    power = m_.Select(b_.CreateFCmpUNO(x_, y_), m_.D(kNan), power);
    Value* unit = b_.CreateOr(b_.CreateFCmpOEQ(y_, m_.D(0)), b_.CreateFCmpOEQ(x_, m_.D(1)));
    return m_.Select(unit, m_.D(1), power);
  }

 private:
  // Of a positive number, to about 2^-64 of itself: the first two terms of artanh's series are sums
  // of two, the others are small beside them.
  Pair Log2(Value* a) {
    const Parts parts = Split(b_, m_, a);
    const Pair more = m_.Sum(parts.f, m_.D(1));
    const Pair s = m_.Quotient({m_.Sub(parts.f, m_.D(1)), m_.D(0)}, more);
    const Pair z = m_.Product(s, s);
    const Pair second = m_.Product(z, kThird);
    Value* tail = m_.Mul(m_.Mul(z.high, z.high), m_.Polynomial(z.high, ArtanhSeries(5, 1)));
    Pair terms = m_.FastSum(second.high, tail);
    terms.low = m_.Add(terms.low, second.low);
    Pair series = m_.FastSum(m_.D(1), terms.high);
    series.low = m_.Add(series.low, terms.low);
    const Pair log = m_.Product(m_.Product(s, series), kTwoOverLn2);
    Pair sum = m_.FastSum(parts.exponent, log.high);
    sum.low = m_.Add(sum.low, log.low);
    return sum;
  }

  Value* Exp2(Value* high, Value* low) {
    Value* n = m_.Nearest(high);
    const Pair rest = m_.Sum(m_.Sub(high, n), low);  // `low` may be large beside it
    const Pair less = m_.ExpSmall(m_.Product(rest, kLn2Pair));
    const Pair sum = m_.FastSum(m_.D(1), less.high);
    return m_.Scale(m_.Add(sum.high, m_.Add(sum.low, less.low)), n);
  }

  // Of a negative number: odd powers are negative, broken ones none at all.
  Value* Signed(Value* power, Value* a) {
    Value* half = m_.Mul(y_, m_.D(0.5));
    Value* whole = b_.CreateFCmpOEQ(m_.Nearest(y_), y_);
    Value* odd = b_.CreateAnd(whole, b_.CreateFCmpUNE(m_.Nearest(half), half));
    Value* negative = b_.CreateICmpSLT(m_.Bits(x_), m_.L(0));
    Value* turned = m_.Select(b_.CreateAnd(negative, odd), b_.CreateFNeg(power), power);
    Value* inner =
        b_.CreateAnd(b_.CreateFCmpOGT(a, m_.D(0)), b_.CreateFCmpOLT(a, m_.D(kInfinity64)));
    Value* broken = b_.CreateAnd(b_.CreateAnd(negative, inner), b_.CreateNot(whole));
    return m_.Select(broken, m_.D(kNan), turned);
  }

  llvm::IRBuilder<>& b_;
  WideBuilder m_;
  Value* x_;
  Value* y_;
};

}  // namespace

Value* EmitWideLog(llvm::IRBuilder<>& b, Value* x) {
  WideBuilder m(b);
  const Parts parts = Split(b, m, x);
  const LogParts log = LogNearOne(m, parts.f, m.Mul(parts.exponent, m.D(kLn2Low)));
  Value* fraction = m.Sub(log.taken, log.t);
  Value* sum = m.Sub(m.Mul(parts.exponent, m.D(kLn2High)), fraction);
  return WithLimits(b, m, x, sum);
}

Value* EmitWideLog2(llvm::IRBuilder<>& b, Value* x) {
  WideBuilder m(b);
  const Parts parts = Split(b, m, x);
  const LogParts log = LogNearOne(m, parts.f, nullptr);
  const Pair fraction = m.Product(m.FastSum(log.t, b.CreateFNeg(log.taken)), kLog2EPair);
  const Pair sum = m.FastSum(parts.exponent, fraction.high);
  return WithLimits(b, m, x, m.Add(sum.high, m.Add(sum.low, fraction.low)));
}

Value* EmitWidePow(llvm::IRBuilder<>& b, Value* x, Value* y) { return WidePower(b, x, y).Emit(); }

}  // namespace kiln::codegen

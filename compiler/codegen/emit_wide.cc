// Exponentials of double, and what is made of them.
#include "compiler/codegen/emit_wide.h"

#include <cmath>

#include "compiler/codegen/wide_builder.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

// ln 2 cut after 41 bits, and the rest: a product with a whole number below 2^11 is exact.
constexpr double kLn2High = 0.693147180559663;
constexpr double kLn2Low = 2.8235290563031577e-13;
constexpr double kFarthestExp = 750;    // beyond any result but 0 and infinity
constexpr double kFarthestExp2 = 1100;  // the same
constexpr double kFarthestTanh = 22;    // rounds to 1 from here on
constexpr double kFarthestErf = 6;      // the same

double Factorial(int n) { return n < 2 ? 1 : n * Factorial(n - 1); }

// x = n ln 2 + r, |r| <= ln(2)/2.
struct Reduced {
  Value* n;
  Pair r;
};
Reduced Reduce(llvm::IRBuilder<>& b, WideBuilder& m, Value* x) {
  Value* n = m.Nearest(m.Mul(x, m.D(kLog2EPair.high)));
  Value* minus = b.CreateFNeg(n);
  return {n, m.Sum(m.Fma(minus, m.D(kLn2High), x), m.Mul(minus, m.D(kLn2Low)))};
}

// e^r.
Pair PowerOfE(WideBuilder& m, const Pair& r) {
  const Pair less = m.ExpSmall(r);
  Pair sum = m.FastSum(m.D(1), less.high);
  sum.low = m.Add(sum.low, less.low);
  return sum;
}

// e^r 2^n.
Value* Power(WideBuilder& m, const Pair& r, Value* n) {
  const Pair power = PowerOfE(m, r);
  return m.Scale(m.Add(power.high, power.low), n);
}

// The coefficients of erf's series, less x itself, in powers of x^2: what is left out at 1 is below
// 2^-58.
std::vector<double> ErfSeries() {
  constexpr int kTerms = 19;
  std::vector<double> c;
  for (int k = 0; k < kTerms; ++k) {
    const double term = M_2_SQRTPI / (Factorial(k) * (2 * k + 1));
    c.push_back(k % 2 == 0 ? term : -term);
  }
  c[0] = 0.1283791670955126;  // 2/sqrt(pi) - 1
  return c;
}

// e^(x^2) erfc(x) for x from 1 to 6 by powers of (x - 3)/(x + 3): fit_erf.py.
const std::vector<double>& ErfcCoefficients() {
  static const auto& c = *new std::vector<double>{
      0.17900115118138996,     -0.3262335600430372,    0.24560380171233093,
      -0.15011593650077582,    0.07166583719797331,    -0.024392499318790735,
      0.004269136333077869,    0.0007077464435611972,  -0.0005970619531815352,
      4.525520140579536e-05,   6.405657794051666e-05,  -1.2859347351455289e-05,
      -7.977696579644072e-06,  2.1124428949403864e-06, 1.2459620847174093e-06,
      -2.6915157592850126e-07, -2.0355575642200858e-07};
  return c;
}

}  // namespace

Pair WideBuilder::ExpSmall(const Pair& r) {
  // What is left out is below 2^-60 of r.
  constexpr int kTerms = 14;
  std::vector<double> c;
  for (int k = 2; k < kTerms; ++k) c.push_back(1 / Factorial(k));
  Value* rest = Mul(Mul(r.high, r.high), Polynomial(r.high, c));
  Pair sum = FastSum(r.high, rest);
  sum.low = Add(sum.low, Fma(r.low, r.high, r.low));
  return sum;
}

Value* EmitWideExp(llvm::IRBuilder<>& b, Value* x) {
  WideBuilder m(b);
  const Reduced reduced = Reduce(b, m, m.Clamp(x, -kFarthestExp, kFarthestExp));
  return Power(m, reduced.r, reduced.n);
}

Value* EmitWideExp2(llvm::IRBuilder<>& b, Value* x) {
  WideBuilder m(b);
  Value* clamped = m.Clamp(x, -kFarthestExp2, kFarthestExp2);
  Value* n = m.Nearest(clamped);
  return Power(m, m.Product({m.Sub(clamped, n), m.D(0)}, kLn2Pair), n);
}

// u/(u + 2) for u = e^(2x) - 1.
Value* EmitWideTanh(llvm::IRBuilder<>& b, Value* x) {
  WideBuilder m(b);
  Value* a = m.Clamp(m.Abs(x), 0, kFarthestTanh);
  const Reduced reduced = Reduce(b, m, m.Add(a, a));
  const Pair less = m.ExpSmall(reduced.r);
  Value* scale = m.PowerOfTwo(m.SafeInteger(reduced.n));
  Pair u = m.Sum(m.Sub(scale, m.D(1)), m.Mul(less.high, scale));
  u.low = m.Fma(less.low, scale, u.low);
  Pair more = m.Sum(u.high, m.D(2));
  more.low = m.Add(more.low, u.low);
  const Pair value = m.Quotient(u, more);
  return m.CopySign(m.Add(value.high, value.low), x);
}

Value* EmitWideSigmoid(llvm::IRBuilder<>& b, Value* x) {
  WideBuilder m(b);
  const Reduced reduced = Reduce(b, m, m.Clamp(b.CreateFNeg(m.Abs(x)), -kFarthestExp, 0));
  const Pair power = PowerOfE(m, reduced.r);
  const Pair e = {m.Scale(power.high, reduced.n), m.Scale(power.low, reduced.n)};
  Pair more = m.FastSum(m.D(1), e.high);
  more.low = m.Add(more.low, e.low);
  Value* positive = b.CreateFCmpOGE(x, m.D(0));
  const Pair value = m.Quotient({m.Select(positive, m.D(1), e.high),  // 1/(1 + e) or e/(1 + e)
                                 m.Select(positive, m.D(0), e.low)},
                                more);
  return m.Add(value.high, value.low);
}

// Below 1 by its series, from there on 1 - erfc.
Value* EmitWideErf(llvm::IRBuilder<>& b, Value* x) {
  WideBuilder m(b);
  Value* near = m.Fma(x, m.Polynomial(m.Mul(x, x), ErfSeries()), x);
  Value* a = m.Clamp(m.Abs(x), 1, kFarthestErf);
  Value* t = m.Div(m.Sub(a, m.D(3)), m.Add(a, m.D(3)));
  Value* square = m.Mul(a, a);
  Value* lost = m.Fma(a, a, b.CreateFNeg(square));
  Value* e = EmitWideExp(b, b.CreateFNeg(square));
  e = m.Fma(b.CreateFNeg(e), lost, e);
  Value* far = m.Fma(b.CreateFNeg(e), m.Polynomial(t, ErfcCoefficients()), m.D(1));
  return m.Select(b.CreateFCmpOLT(m.Abs(x), m.D(1)), near, m.CopySign(far, x));
}

}  // namespace kiln::codegen

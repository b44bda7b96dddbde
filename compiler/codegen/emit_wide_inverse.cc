// Hyperbolic functions, inverse functions and what they are made of, of double.
#include <initializer_list>

#include "compiler/codegen/emit_wide.h"
#include "compiler/codegen/wide_builder.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

constexpr double kPi = 3.14159265358979323846;
constexpr double kPiLow = 1.22464679914735320717e-16;  // pi - kPi
constexpr double kFar = 268435456;                     // 2^28: asinh(x) is log(2 x) from here on

Value* Sqrt(llvm::IRBuilder<>& b, Value* x) {
  return b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x);
}

Value* Nan(WideBuilder& m) { return m.D(__builtin_nan("")); }

// Where atan is known to more than a double: x, and atan(x) in two parts.
struct Anchor {
  double from;  // arguments from here on are measured from x
  double x;     // infinite: from the right angle
  double high, low;
};
constexpr Anchor kAnchors[] = {
    {7.0 / 16, 0.5, 4.63647609000806093515e-01, 2.26987774529616870924e-17},
    {11.0 / 16, 1, 7.85398163397448278999e-01, 3.06161699786838301793e-17},
    {19.0 / 16, 1.5, 9.82793723247329054082e-01, 1.39033110312309984516e-17},
    {39.0 / 16, kInfinity64, 1.57079632679489655800e+00, 6.12323399573676603587e-17},
};

// atan(a) for a >= 0: atan(x) + atan((a - x)/(1 + a x)), the last by a polynomial of its square
// that is least wrong for up to 7/16.
Value* AtanOf(llvm::IRBuilder<>& b, WideBuilder& m, Value* a) {
  Value* top = a;
  Value* bottom = m.D(1);
  Value* high = m.D(0);
  Value* low = m.D(0);
  for (const Anchor& anchor : kAnchors) {
    const bool right = anchor.x == kInfinity64;
    Value* beyond = b.CreateFCmpOGE(a, m.D(anchor.from));
    Value* difference = right ? m.D(-1) : m.Sub(a, m.D(anchor.x));
    Value* sum = right ? a : m.Fma(a, m.D(anchor.x), m.D(1));
    top = m.Select(beyond, difference, top);
    bottom = m.Select(beyond, sum, bottom);
    high = m.Select(beyond, m.D(anchor.high), high);
    low = m.Select(beyond, m.D(anchor.low), low);
  }
  Value* t = m.Div(top, bottom);
  Value* z = m.Mul(t, t);
  Value* series = m.Polynomial(
      z, {3.33333333333329318027e-01, -1.99999999998764832476e-01, 1.42857142725034663711e-01,
          -1.11111104054623557880e-01, 9.09088713343650656196e-02, -7.69187620504482999495e-02,
          6.66107313738753120669e-02, -5.83357013379057348645e-02, 4.97687799461593236017e-02,
          -3.65315727442169155270e-02, 1.62858201153657823623e-02});
  Value* less = m.Mul(t, m.Mul(z, series));
  return m.Sub(high, m.Sub(m.Sub(less, low), t));
}

// e^a / 2 for a >= 0: by halves, so that it is finite as long as sinh is.
Value* HalfExp(llvm::IRBuilder<>& b, WideBuilder& m, Value* a) {
  Value* root = EmitWideExp(b, m.Mul(a, m.D(0.5)));
  return m.Mul(m.Mul(root, m.D(0.5)), root);
}

}  // namespace

Value* EmitWideExp10(llvm::IRBuilder<>& b, Value* x) {
  return EmitWidePow(b, llvm::ConstantFP::get(b.getDoubleTy(), 10.0), x);
}

Value* EmitWideLog1p(llvm::IRBuilder<>& b, Value* x) {
  WideBuilder m(b);
  Value* u = m.Add(m.D(1), x);
  Value* y = m.Mul(EmitWideLog(b, u), m.Div(x, m.Sub(u, m.D(1))));
  y = m.Select(b.CreateFCmpOEQ(x, m.D(kInfinity64)), x, y);
  return m.Select(b.CreateFCmpOEQ(u, m.D(1)), x, y);
}

Value* EmitWideSinh(llvm::IRBuilder<>& b, Value* x) {
  WideBuilder m(b);
  std::vector<double> series;
  double factorial = 1;
  for (int k = 3; k <= 21; k += 2) {
    factorial *= (k - 1) * k;
    series.push_back(1 / factorial);
  }
  Value* a = m.Abs(x);
  Value* z = m.Mul(x, x);
  Value* small = m.Fma(m.Mul(m.Polynomial(z, series), z), x, x);
  Value* half = HalfExp(b, m, a);
  Value* large = m.Sub(half, m.Div(m.D(0.25), half));
  return m.Select(b.CreateFCmpOLT(a, m.D(1)), small, m.CopySign(large, x));
}

Value* EmitWideCosh(llvm::IRBuilder<>& b, Value* x) {
  WideBuilder m(b);
  Value* half = HalfExp(b, m, m.Abs(x));
  return m.Add(half, m.Div(m.D(0.25), half));
}

Value* EmitWideAtan(llvm::IRBuilder<>& b, Value* x) {
  WideBuilder m(b);
  return m.CopySign(AtanOf(b, m, m.Abs(x)), x);
}

Value* EmitWideAtan2(llvm::IRBuilder<>& b, Value* y, Value* x) {
  WideBuilder m(b);
  Value* height = m.Abs(y);
  Value* width = m.Abs(x);
  Value* steep = b.CreateFCmpOGT(height, width);
  Value* low = m.Select(steep, width, height);
  Value* high = m.Select(steep, height, width);
  Value* equal = m.Select(b.CreateFCmpOEQ(high, m.D(0)), m.D(0), m.D(1));  // even infinite
  Value* slope = m.Select(b.CreateFCmpOEQ(low, high), equal, m.Div(low, high));
  Value* value = AtanOf(b, m, slope);
  const auto from = [&](double whole, double rest) {
    return m.Sub(m.D(whole), m.Sub(value, m.D(rest)));
  };
  value = m.Select(steep, from(kPi / 2, kPiLow / 2), value);
  Value* left = b.CreateICmpSLT(m.Bits(x), m.L(0));
  value = m.Select(left, from(kPi, kPiLow), value);
  return m.CopySign(value, y);
}

Value* EmitWideAsin(llvm::IRBuilder<>& b, Value* x) {
  WideBuilder m(b);
  return EmitWideAtan2(b, x, Sqrt(b, m.Mul(m.Sub(m.D(1), x), m.Add(m.D(1), x))));
}

Value* EmitWideAcos(llvm::IRBuilder<>& b, Value* x) {
  WideBuilder m(b);
  Value* half = EmitWideAtan2(b, Sqrt(b, m.Sub(m.D(1), x)), Sqrt(b, m.Add(m.D(1), x)));
  return m.Add(half, half);
}

Value* EmitWideAsinh(llvm::IRBuilder<>& b, Value* x) {
  WideBuilder m(b);
  Value* a = m.Abs(x);
  Value* square = m.Mul(a, a);
  Value* more = m.Div(square, m.Add(m.D(1), Sqrt(b, m.Add(m.D(1), square))));
  Value* far = m.Add(EmitWideLog(b, a), m.D(kLn2Pair.high));
  Value* value = m.Select(b.CreateFCmpOGT(a, m.D(kFar)), far, EmitWideLog1p(b, m.Add(a, more)));
  return m.CopySign(value, x);
}

Value* EmitWideAcosh(llvm::IRBuilder<>& b, Value* x) {
  WideBuilder m(b);
  Value* t = m.Sub(x, m.D(1));
  Value* near = EmitWideLog1p(b, m.Add(t, Sqrt(b, m.Mul(t, m.Add(t, m.D(2))))));
  Value* far = m.Add(EmitWideLog(b, x), m.D(kLn2Pair.high));
  Value* value = m.Select(b.CreateFCmpOGT(x, m.D(kFar)), far, near);
  return m.Select(b.CreateFCmpOLT(x, m.D(1)), Nan(m), value);
}

Value* EmitWideAtanh(llvm::IRBuilder<>& b, Value* x) {
  WideBuilder m(b);
  Value* a = m.Abs(x);
  Value* log = EmitWideLog1p(b, m.Div(m.Add(a, a), m.Sub(m.D(1), a)));
  return m.CopySign(m.Mul(m.D(0.5), log), x);
}

}  // namespace kiln::codegen

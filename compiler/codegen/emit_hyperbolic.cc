// Hyperbolic functions, their inverses, and what they are made of: of float, by exponentials and
// logarithms where those are exact enough, by series near zero. The coefficients are Moshier's
// single-precision ones, or Taylor's.
#include <limits>

#include "compiler/codegen/emit_math.h"
#include "compiler/codegen/float_builder.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

constexpr double kLog2E = 1.44269504088896340736;
constexpr double kLn2 = 0.69314718055994530942;
constexpr double kLn2High = 0.693145751953125;
constexpr double kLn2Low = 1.42860682030941723212e-6;
constexpr double kLog2Of10 = 3.32192809488736234787;
constexpr double kLn10 = 2.30258509299404568402;
constexpr double kLog10Of2High = 0.301025390625;  // 11 bits: n * it is exact
constexpr double kLog10Of2Low = 4.60503898119521373889e-6;
constexpr double kFarAsinh = 1e4;  // log(2 x) from here on, to less than half a unit

// e^x / 2, which is finite as long as sinh and cosh are.
Value* HalfExp(llvm::IRBuilder<>& b, FloatBuilder& m, Value* x) {
  Value* clamped = m.ClampHigh(x, 92);
  Value* n = m.Nearest(b.CreateFMul(clamped, m.F(kLog2E)));
  Value* r = m.Fma(n, m.F(-kLn2High), clamped);
  r = m.Fma(n, m.F(-kLn2Low), r);
  return m.Scale(m.ExpSmall(r), b.CreateFSub(n, m.F(1)));
}

}  // namespace

Value* EmitExp10(llvm::IRBuilder<>& b, Value* x) {
  FloatBuilder m(b, x);
  Value* clamped = m.ClampHigh(m.ClampLow(x, -46), 39);
  Value* n = m.Nearest(b.CreateFMul(clamped, m.F(kLog2Of10)));
  Value* r = m.Fma(n, m.F(-kLog10Of2High), clamped);
  r = m.Fma(n, m.F(-kLog10Of2Low), r);
  return m.Scale(m.ExpSmall(b.CreateFMul(r, m.F(kLn10))), n);
}

// log(u) for u = 1 + x as it is rounded, and what the rounding lost.
Value* EmitLog1p(llvm::IRBuilder<>& b, Value* x) {
  FloatBuilder m(b, x);
  Value* u = b.CreateFAdd(m.F(1), x);
  Value* whole = b.CreateFSub(u, m.F(1));
  Value* y = b.CreateFMul(EmitLog(b, u), b.CreateFDiv(x, whole));
  Value* infinity = m.F(std::numeric_limits<float>::infinity());
  y = b.CreateSelect(b.CreateFCmpOEQ(x, infinity), infinity, y);
  return b.CreateSelect(b.CreateFCmpOEQ(u, m.F(1)), x, y);
}

Value* EmitSinh(llvm::IRBuilder<>& b, Value* x) {
  FloatBuilder m(b, x);
  Value* a = m.Abs(x);
  Value* z = b.CreateFMul(x, x);
  Value* series = m.Polynomial(z, {1.0 / 6, 1.0 / 120, 1.0 / 5040, 1.0 / 362880, 1.0 / 39916800});
  Value* small = m.Fma(b.CreateFMul(series, z), x, x);
  Value* half = HalfExp(b, m, a);
  Value* large = b.CreateFSub(half, b.CreateFDiv(m.F(0.25), half));
  return b.CreateSelect(b.CreateFCmpOLT(a, m.F(1)), small, m.CopySign(large, x));
}

Value* EmitCosh(llvm::IRBuilder<>& b, Value* x) {
  FloatBuilder m(b, x);
  Value* half = HalfExp(b, m, m.Abs(x));
  return b.CreateFAdd(half, b.CreateFDiv(m.F(0.25), half));
}

Value* EmitAsinh(llvm::IRBuilder<>& b, Value* x) {
  FloatBuilder m(b, x);
  Value* a = m.Abs(x);
  Value* z = b.CreateFMul(x, x);
  Value* series =
      m.Polynomial(z, {-1.6666288134e-1, 7.4847586088e-2, -4.2699340972e-2, 2.0122003309e-2});
  Value* small = m.Fma(b.CreateFMul(series, z), x, x);
  Value* far = b.CreateFCmpOGT(a, m.F(kFarAsinh));
  Value* root = EmitSqrt(b, m.Fma(a, a, m.F(1)));
  Value* log = EmitLog(b, b.CreateSelect(far, a, b.CreateFAdd(a, root)));
  Value* large = b.CreateSelect(far, b.CreateFAdd(log, m.F(kLn2)), log);
  return b.CreateSelect(b.CreateFCmpOLT(a, m.F(0.5)), small, m.CopySign(large, x));
}

Value* EmitAcosh(llvm::IRBuilder<>& b, Value* x) {
  FloatBuilder m(b, x);
  Value* z = b.CreateFSub(x, m.F(1));
  Value* series = m.Polynomial(
      z, {1.4142135263, -1.1784741703e-1, 2.6454905019e-2, -7.5272886713e-3, 1.7596881071e-3});
  Value* near = b.CreateFMul(EmitSqrt(b, z), series);
  Value* far = b.CreateFCmpOGT(x, m.F(kFarAsinh));
  Value* root = EmitSqrt(b, b.CreateFMul(z, b.CreateFAdd(x, m.F(1))));
  Value* log = EmitLog(b, b.CreateSelect(far, x, b.CreateFAdd(x, root)));
  Value* large = b.CreateSelect(far, b.CreateFAdd(log, m.F(kLn2)), log);
  return b.CreateSelect(b.CreateFCmpOLT(z, m.F(0.5)), near, large);
}

Value* EmitAtanh(llvm::IRBuilder<>& b, Value* x) {
  FloatBuilder m(b, x);
  Value* a = m.Abs(x);
  Value* z = b.CreateFMul(x, x);
  Value* series = m.Polynomial(z, {3.33337300303e-1, 1.99782164500e-1, 1.46691431730e-1,
                                   8.24370301058e-2, 1.81740078349e-1});
  Value* small = m.Fma(b.CreateFMul(series, z), x, x);
  Value* ratio = b.CreateFDiv(b.CreateFAdd(m.F(1), a), b.CreateFSub(m.F(1), a));
  Value* large = b.CreateFMul(m.F(0.5), EmitLog(b, ratio));
  return b.CreateSelect(b.CreateFCmpOLT(a, m.F(0.5)), small, m.CopySign(large, x));
}

}  // namespace kiln::codegen

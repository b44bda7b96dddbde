// Inverse trigonometric functions of float: arguments are brought near zero by the functions'
// symmetries, what is left are Moshier's single-precision polynomials.
#include "compiler/codegen/emit_math.h"
#include "compiler/codegen/float_builder.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

constexpr double kPi = 3.14159265358979323846;
constexpr double kTan22 = 0.41421356237309503;  // of pi/8
constexpr double kTan67 = 2.41421356237309503;  // of 3 pi/8

// asin(|x|) where that is below a half, else asin(sqrt((1 - |x|)/2)).
Value* HalfAsin(llvm::IRBuilder<>& b, FloatBuilder& m, Value* a, Value* far) {
  Value* z =
      b.CreateSelect(far, b.CreateFMul(m.F(0.5), b.CreateFSub(m.F(1), a)), b.CreateFMul(a, a));
  Value* s = b.CreateSelect(far, EmitSqrt(b, z), a);
  Value* series = m.Polynomial(
      z, {1.6666752422e-1, 7.4953002686e-2, 4.5470025998e-2, 2.4181311049e-2, 4.2163199048e-2});
  return m.Fma(b.CreateFMul(series, z), s, s);
}

// atan(t) for |t| <= tan(pi/8).
Value* AtanSmall(llvm::IRBuilder<>& b, FloatBuilder& m, Value* t) {
  Value* z = b.CreateFMul(t, t);
  Value* series =
      m.Polynomial(z, {-3.33329491539e-1, 1.99777106478e-1, -1.38776856032e-1, 8.05374449538e-2});
  return m.Fma(b.CreateFMul(series, z), t, t);
}

}  // namespace

Value* EmitAsin(llvm::IRBuilder<>& b, Value* x) {
  FloatBuilder m(b, x);
  Value* a = m.Abs(x);
  Value* far = b.CreateFCmpOGT(a, m.F(0.5));
  Value* part = HalfAsin(b, m, a, far);
  Value* value = b.CreateSelect(far, m.Fma(m.F(-2), part, m.F(kPi / 2)), part);
  return m.CopySign(value, x);
}

Value* EmitAcos(llvm::IRBuilder<>& b, Value* x) {
  FloatBuilder m(b, x);
  Value* a = m.Abs(x);
  Value* far = b.CreateFCmpOGT(a, m.F(0.5));
  Value* part = HalfAsin(b, m, a, far);
  Value* twice = b.CreateFAdd(part, part);
  Value* negative = b.CreateFCmpOLT(x, m.F(0));
  Value* at_end = b.CreateSelect(negative, b.CreateFSub(m.F(kPi), twice), twice);
  return b.CreateSelect(far, at_end, b.CreateFSub(m.F(kPi / 2), m.CopySign(part, x)));
}

Value* EmitAtan(llvm::IRBuilder<>& b, Value* x) {
  FloatBuilder m(b, x);
  Value* a = m.Abs(x);
  Value* far = b.CreateFCmpOGT(a, m.F(kTan67));
  Value* beyond = b.CreateFCmpOGT(a, m.F(kTan22));
  Value* top = b.CreateSelect(far, m.F(-1), b.CreateSelect(beyond, b.CreateFSub(a, m.F(1)), a));
  Value* bottom = b.CreateSelect(far, a, b.CreateSelect(beyond, b.CreateFAdd(a, m.F(1)), m.F(1)));
  Value* from = b.CreateSelect(far, m.F(kPi / 2), b.CreateSelect(beyond, m.F(kPi / 4), m.F(0)));
  Value* value = b.CreateFAdd(from, AtanSmall(b, m, b.CreateFDiv(top, bottom)));
  return m.CopySign(value, x);
}

Value* EmitAtan2(llvm::IRBuilder<>& b, Value* y, Value* x) {
  FloatBuilder m(b, x);
  Value* height = m.Abs(y);
  Value* width = m.Abs(x);
  Value* steep = b.CreateFCmpOGT(height, width);
  Value* low = b.CreateSelect(steep, width, height);
  Value* high = b.CreateSelect(steep, height, width);
  // Two zeros are an angle of zero, two infinities one of pi/4.
  Value* equal = b.CreateSelect(b.CreateFCmpOEQ(high, m.F(0)), m.F(0), m.F(1));
  Value* slope = b.CreateSelect(b.CreateFCmpOEQ(low, high), equal, b.CreateFDiv(low, high));
  Value* beyond = b.CreateFCmpOGT(slope, m.F(kTan22));
  Value* turned = b.CreateFDiv(b.CreateFSub(slope, m.F(1)), b.CreateFAdd(slope, m.F(1)));
  Value* part = AtanSmall(b, m, b.CreateSelect(beyond, turned, slope));
  Value* value = b.CreateSelect(beyond, b.CreateFAdd(m.F(kPi / 4), part), part);
  value = b.CreateSelect(steep, b.CreateFSub(m.F(kPi / 2), value), value);
  Value* left = b.CreateICmpSLT(m.Bits(x), m.I(0));
  value = b.CreateSelect(left, b.CreateFSub(m.F(kPi), value), value);
  return m.CopySign(value, y);
}

}  // namespace kiln::codegen

// Range reduction and minimax polynomials, as textbooks have them (Muller, "Elementary Functions";
// Cody and Waite for the two-part ln 2). The coefficients are Moshier's single-precision ones.
#include "compiler/codegen/emit_math.h"

#include <limits>

#include "compiler/codegen/float_builder.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

constexpr double kLog2E = 1.44269504088896340736;
constexpr double kLn2 = 0.69314718055994530942;
constexpr double kLn2High = 0.693145751953125;         // 12 bits: n * kLn2High is exact
constexpr double kLn2Low = 1.42860682030941723212e-6;  // ln 2 - kLn2High
constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

Value* EmitExp(llvm::IRBuilder<>& b, Value* x) {
  FloatBuilder m(b, x);
  Value* clamped = m.ClampHigh(m.ClampLow(x, -105), 90);
  Value* n = m.Nearest(b.CreateFMul(clamped, m.F(kLog2E)));
  Value* r = m.Fma(n, m.F(-kLn2High), clamped);
  r = m.Fma(n, m.F(-kLn2Low), r);
  return m.Scale(m.ExpSmall(r), n);
}

Value* EmitExp2(llvm::IRBuilder<>& b, Value* x) {
  FloatBuilder m(b, x);
  Value* clamped = m.ClampHigh(m.ClampLow(x, -151), 129);
  Value* n = m.Nearest(clamped);
  Value* r = b.CreateFMul(b.CreateFSub(clamped, n), m.F(kLn2));
  return m.Scale(m.ExpSmall(r), n);
}

// log(x) = e*ln2 + log(f), f in [sqrt(1/2), sqrt(2)).
Value* EmitLog(llvm::IRBuilder<>& b, Value* x) {
  FloatBuilder m(b, x);
  Value* tiny = b.CreateFCmpOLT(x, m.F(1.17549435e-38));
  Value* scaled = b.CreateSelect(tiny, b.CreateFMul(x, m.F(8388608)), x);  // 2^23
  Value* bits = b.CreateSub(m.Bits(scaled), m.I(0x3f3504f3));              // sqrt(1/2)
  Value* exponent = b.CreateAShr(bits, m.I(23));
  Value* f = m.FromBits(b.CreateAdd(b.CreateAnd(bits, m.I(0x007fffff)), m.I(0x3f3504f3)));
  exponent = b.CreateSub(exponent, b.CreateSelect(tiny, m.I(23), m.I(0)));
  Value* e = m.ToFloat(exponent);
  Value* t = b.CreateFSub(f, m.F(1));
  Value* tail = m.Polynomial(
      t, {3.3333331174e-1, -2.4999993993e-1, 2.0000714765e-1, -1.6668057665e-1, 1.4249322787e-1,
          -1.2420140846e-1, 1.1676998740e-1, -1.1514610310e-1, 7.0376836292e-2});
  Value* t2 = b.CreateFMul(t, t);
  Value* y = b.CreateFMul(b.CreateFMul(tail, t), t2);
  y = m.Fma(e, m.F(kLn2Low), y);
  y = m.Fma(t2, m.F(-0.5), y);
  y = b.CreateFAdd(y, t);
  y = m.Fma(e, m.F(kLn2High), y);
  y = b.CreateSelect(b.CreateFCmpOEQ(x, m.F(kInfinity)), m.F(kInfinity), y);
  y = b.CreateSelect(b.CreateFCmpOEQ(x, m.F(0)), m.F(-kInfinity), y);
  return b.CreateSelect(b.CreateFCmpULT(x, m.F(0)), m.F(std::numeric_limits<float>::quiet_NaN()),
                        y);
}

Value* EmitLog2(llvm::IRBuilder<>& b, Value* x) {
  FloatBuilder m(b, x);
  return b.CreateFMul(EmitLog(b, x), m.F(kLog2E));
}

Value* EmitTanh(llvm::IRBuilder<>& b, Value* x) {
  FloatBuilder m(b, x);
  Value* a = m.Abs(x);
  Value* z = b.CreateFMul(x, x);
  Value* p = m.Polynomial(z, {-3.33332819422e-1, 1.33314422036e-1, -5.37397155531e-2,
                              2.06390887954e-2, -5.70498872745e-3});
  Value* small = m.Fma(b.CreateFMul(p, z), x, x);
  Value* e = EmitExp(b, b.CreateFAdd(a, a));
  Value* large = b.CreateFSub(m.F(1), b.CreateFDiv(m.F(2), b.CreateFAdd(e, m.F(1))));
  return b.CreateSelect(b.CreateFCmpOLT(a, m.F(0.625)), small, m.CopySign(large, x));
}

Value* EmitSigmoid(llvm::IRBuilder<>& b, Value* x) {
  FloatBuilder m(b, x);
  Value* e = EmitExp(b, b.CreateFNeg(x));
  return b.CreateFDiv(m.F(1), b.CreateFAdd(m.F(1), e));
}

// Polynomials for erf(x)/x - 1, and for -log(1 - erf(x)) from 0.875 on; from 4 on it rounds to 1.
Value* EmitErf(llvm::IRBuilder<>& b, Value* x) {
  FloatBuilder m(b, x);
  Value* a = m.Abs(x);
  Value* near =
      m.Fma(x,
            m.Polynomial(b.CreateFMul(x, x),
                         {0.128379158133213, -0.3761255450658528, 0.11282496599595332,
                          -0.02679294777815063, 0.005034370663643656, -0.0006214585364130965}),
            x);
  Value* log = m.Polynomial(
      m.ClampHigh(a, 4), {-0.0003151541501351376, 1.1302188147181635, 0.6318424224208558,
                          0.11007184605405079, -0.02642001539574916, 0.004760285722584454,
                          -0.000597151543339224, 4.611922838583166e-05, -1.6411144004954486e-06});
  Value* far = b.CreateFSub(m.F(1), EmitExp(b, b.CreateFNeg(log)));
  return b.CreateSelect(b.CreateFCmpOLT(a, m.F(0.875)), near, m.CopySign(far, x));
}

Value* EmitSqrt(llvm::IRBuilder<>& b, Value* x) {
  return b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x);
}

Value* EmitRsqrt(llvm::IRBuilder<>& b, Value* x) {
  return b.CreateFDiv(llvm::ConstantFP::get(x->getType(), 1.0), EmitSqrt(b, x));
}

Value* EmitLibm(llvm::IRBuilder<>& b, const char* name, llvm::ArrayRef<Value*> args) {
  llvm::Type* scalar = args[0]->getType()->getScalarType();
  const std::vector<llvm::Type*> types(args.size(), scalar);
  llvm::Module* module = b.GetInsertBlock()->getModule();
  llvm::FunctionCallee callee =
      module->getOrInsertFunction(name, llvm::FunctionType::get(scalar, types, false));
  if (auto* function = llvm::dyn_cast<llvm::Function>(callee.getCallee())) {
    function->setDoesNotAccessMemory();
    function->setDoesNotThrow();
  }
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(args[0]->getType());
  if (vector == nullptr) return b.CreateCall(callee, args);
  Value* out = llvm::PoisonValue::get(vector);
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    std::vector<Value*> elements;
    for (Value* arg : args) elements.push_back(b.CreateExtractElement(arg, lane));
    out = b.CreateInsertElement(out, b.CreateCall(callee, elements), lane);
  }
  return out;
}

}  // namespace kiln::codegen

// Range reduction and minimax polynomials, as textbooks have them (Muller, "Elementary Functions";
// Cody and Waite for the two-part ln 2). The coefficients are Moshier's single-precision ones.
#include "compiler/codegen/emit_math.h"

#include <limits>

#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

constexpr double kLog2E = 1.44269504088896340736;
constexpr double kLn2 = 0.69314718055994530942;
constexpr double kLn2High = 0.693145751953125;         // 12 bits: n * kLn2High is exact
constexpr double kLn2Low = 1.42860682030941723212e-6;  // ln 2 - kLn2High
constexpr int kCurrentRounding = 4;                    // _MM_FROUND_CUR_DIRECTION
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Builds expressions over one float type.
class Math {
 public:
  Math(llvm::IRBuilder<>& b, Value* like) : b_(b), type_(like->getType()) {
    llvm::Type* i32 = b.getInt32Ty();
    auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type_);
    int_type_ = vector ? llvm::FixedVectorType::get(i32, vector->getNumElements()) : i32;
  }

  Value* F(double v) { return llvm::ConstantFP::get(type_, v); }
  Value* I(int64_t v) { return llvm::ConstantInt::get(int_type_, v, true); }
  Value* Fma(Value* a, Value* x, Value* c) {
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {type_}, {a, x, c});
  }
  Value* Nearest(Value* x) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, x); }
  Value* Abs(Value* x) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
  Value* CopySign(Value* magnitude, Value* sign) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign);
  }
  // Keeps NaN: the comparison is false and x stays.
  Value* ClampLow(Value* x, double low) {
    return b_.CreateSelect(b_.CreateFCmpOLT(x, F(low)), F(low), x);
  }
  Value* ClampHigh(Value* x, double high) {
    return b_.CreateSelect(b_.CreateFCmpOGT(x, F(high)), F(high), x);
  }
  Value* ToInt(Value* x) { return b_.CreateFPToSI(x, int_type_); }
  Value* ToFloat(Value* n) { return b_.CreateSIToFP(n, type_); }
  Value* Bits(Value* x) { return b_.CreateBitCast(x, int_type_); }
  Value* FromBits(Value* n) { return b_.CreateBitCast(n, type_); }

  // c[0] + x*c[1] + ... by Horner's rule.
  Value* Polynomial(Value* x, std::initializer_list<double> coefficients) {
    Value* sum = nullptr;
    for (auto c = std::rbegin(coefficients); c != std::rend(coefficients); ++c) {
      sum = sum ? Fma(sum, x, F(*c)) : F(*c);
    }
    return sum;
  }

  // x * 2^n for whole n in [-252, 254]; NaN where n is. Results may be denormal or infinite: one
  // instruction on AVX-512 (the only target with vectors of sixteen floats), else two exact steps.
  Value* Scale(Value* x, Value* whole) {
    auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type_);
    if (vector != nullptr && vector->getNumElements() == 16) {
      return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                                {x, whole, x, b_.getInt16(-1), b_.getInt32(kCurrentRounding)});
    }
    Value* n = SafeInteger(whole);
    Value* half = b_.CreateAShr(n, I(1));
    Value* rest = b_.CreateSub(n, half);
    return b_.CreateFMul(b_.CreateFMul(x, PowerOfTwo(half)), PowerOfTwo(rest));
  }
  // NaN goes through fptosi, which would be poison: the integer is taken of a value where NaN is
  // replaced, the fraction keeps it.
  Value* SafeInteger(Value* n) { return ToInt(b_.CreateSelect(b_.CreateFCmpUNO(n, n), F(0), n)); }
  Value* PowerOfTwo(Value* n) { return FromBits(b_.CreateShl(b_.CreateAdd(n, I(127)), I(23))); }

  // e^r for |r| <= ln(2)/2.
  Value* ExpSmall(Value* r) {
    Value* tail = Polynomial(r, {0.5, 1.6666665459e-1, 4.1665795894e-2, 8.3334519073e-3,
                                 1.3981999507e-3, 1.9875691500e-4});
    return b_.CreateFAdd(Fma(tail, b_.CreateFMul(r, r), r), F(1));
  }

 private:
  llvm::IRBuilder<>& b_;
  llvm::Type* type_;
  llvm::Type* int_type_;
};

}  // namespace

Value* EmitExp(llvm::IRBuilder<>& b, Value* x) {
  Math m(b, x);
  Value* clamped = m.ClampHigh(m.ClampLow(x, -105), 90);
  Value* n = m.Nearest(b.CreateFMul(clamped, m.F(kLog2E)));
  Value* r = m.Fma(n, m.F(-kLn2High), clamped);
  r = m.Fma(n, m.F(-kLn2Low), r);
  return m.Scale(m.ExpSmall(r), n);
}

Value* EmitExp2(llvm::IRBuilder<>& b, Value* x) {
  Math m(b, x);
  Value* clamped = m.ClampHigh(m.ClampLow(x, -151), 129);
  Value* n = m.Nearest(clamped);
  Value* r = b.CreateFMul(b.CreateFSub(clamped, n), m.F(kLn2));
  return m.Scale(m.ExpSmall(r), n);
}

// log(x) = e*ln2 + log(f), f in [sqrt(1/2), sqrt(2)).
Value* EmitLog(llvm::IRBuilder<>& b, Value* x) {
  Math m(b, x);
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
  Math m(b, x);
  return b.CreateFMul(EmitLog(b, x), m.F(kLog2E));
}

Value* EmitTanh(llvm::IRBuilder<>& b, Value* x) {
  Math m(b, x);
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
  Math m(b, x);
  Value* e = EmitExp(b, b.CreateFNeg(x));
  return b.CreateFDiv(m.F(1), b.CreateFAdd(m.F(1), e));
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

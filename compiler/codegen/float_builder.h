// Builds LLVM IR over one float type, for the functions of emit_math.h. Private to
// compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_FLOAT_BUILDER_H_
#define KILN_COMPILER_CODEGEN_FLOAT_BUILDER_H_

#include <initializer_list>
#include <iterator>

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace kiln::codegen {

// On f32 or <n x f32>; integers have as many lanes.
class FloatBuilder {
 public:
  FloatBuilder(llvm::IRBuilder<>& b, llvm::Value* like) : b_(b), type_(like->getType()) {
    llvm::Type* i32 = b.getInt32Ty();
    auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type_);
    int_type_ = vector ? llvm::FixedVectorType::get(i32, vector->getNumElements()) : i32;
  }

  llvm::Value* F(double v) { return llvm::ConstantFP::get(type_, v); }
  llvm::Value* I(int64_t v) { return llvm::ConstantInt::get(int_type_, v, true); }
  llvm::Value* Fma(llvm::Value* a, llvm::Value* x, llvm::Value* c) {
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {type_}, {a, x, c});
  }
  llvm::Value* Nearest(llvm::Value* x) {
    return b_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, x);
  }
  llvm::Value* Abs(llvm::Value* x) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
  llvm::Value* CopySign(llvm::Value* magnitude, llvm::Value* sign) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign);
  }
  // Keeps NaN: the comparison is false and x stays.
  llvm::Value* ClampLow(llvm::Value* x, double low) {
    return b_.CreateSelect(b_.CreateFCmpOLT(x, F(low)), F(low), x);
  }
  llvm::Value* ClampHigh(llvm::Value* x, double high) {
    return b_.CreateSelect(b_.CreateFCmpOGT(x, F(high)), F(high), x);
  }
  llvm::Value* ToInt(llvm::Value* x) { return b_.CreateFPToSI(x, int_type_); }
  llvm::Value* ToFloat(llvm::Value* n) { return b_.CreateSIToFP(n, type_); }
  llvm::Value* Bits(llvm::Value* x) { return b_.CreateBitCast(x, int_type_); }
  llvm::Value* FromBits(llvm::Value* n) { return b_.CreateBitCast(n, type_); }

  // c[0] + x*c[1] + ... by Horner's rule.
  llvm::Value* Polynomial(llvm::Value* x, std::initializer_list<double> coefficients) {
    llvm::Value* sum = nullptr;
    for (auto c = std::rbegin(coefficients); c != std::rend(coefficients); ++c) {
      sum = sum ? Fma(sum, x, F(*c)) : F(*c);
    }
    return sum;
  }

  // x * 2^n for whole n in [-252, 254]; NaN where n is. Results may be denormal or infinite: one
  // instruction on AVX-512 (the only target with vectors of sixteen floats), else two exact steps.
  llvm::Value* Scale(llvm::Value* x, llvm::Value* whole) {
    auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type_);
    if (vector != nullptr && vector->getNumElements() == 16) {
      return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                                {x, whole, x, b_.getInt16(-1), b_.getInt32(kCurrentRounding)});
    }
    llvm::Value* n = SafeInteger(whole);
    llvm::Value* half = b_.CreateAShr(n, I(1));
    llvm::Value* rest = b_.CreateSub(n, half);
    return b_.CreateFMul(b_.CreateFMul(x, PowerOfTwo(half)), PowerOfTwo(rest));
  }
  // NaN goes through fptosi, which would be poison: the integer is taken of a value where NaN is
  // replaced, the fraction keeps it.
  llvm::Value* SafeInteger(llvm::Value* n) {
    return ToInt(b_.CreateSelect(b_.CreateFCmpUNO(n, n), F(0), n));
  }
  llvm::Value* PowerOfTwo(llvm::Value* n) {
    return FromBits(b_.CreateShl(b_.CreateAdd(n, I(127)), I(23)));
  }

  // e^r for |r| <= ln(2)/2.
  llvm::Value* ExpSmall(llvm::Value* r) {
    llvm::Value* tail = Polynomial(r, {0.5, 1.6666665459e-1, 4.1665795894e-2, 8.3334519073e-3,
                                       1.3981999507e-3, 1.9875691500e-4});
    return b_.CreateFAdd(Fma(tail, b_.CreateFMul(r, r), r), F(1));
  }

 private:
  static constexpr int kCurrentRounding = 4;  // _MM_FROUND_CUR_DIRECTION
  llvm::IRBuilder<>& b_;
  llvm::Type* type_;
  llvm::Type* int_type_;
};

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_FLOAT_BUILDER_H_

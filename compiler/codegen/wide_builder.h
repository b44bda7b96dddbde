// Builds LLVM IR over double, and over sums of two doubles, for the functions of emit_wide.h.
// Private to compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_WIDE_BUILDER_H_
#define KILN_COMPILER_CODEGEN_WIDE_BUILDER_H_

#include <cstdint>
#include <vector>

#include "llvm/IR/IRBuilder.h"

namespace kiln::codegen {

// The value high + low, where |low| is at most half a unit in the last place of high.
struct Pair {
  llvm::Value* high;
  llvm::Value* low;
};

// A constant to twice the precision of double.
struct WideConstant {
  double high, low;
};

inline constexpr WideConstant kLn2Pair = {0.6931471805599453, 2.3190468138462996e-17};
inline constexpr WideConstant kLog2EPair = {1.4426950408889634, 2.0355273740931033e-17};
inline constexpr double kInfinity64 = __builtin_huge_val();

// On scalars. While one lives, nothing is contracted: sums of two doubles live on what each
// operation loses.
class WideBuilder {
 public:
  explicit WideBuilder(llvm::IRBuilder<>& b) : b_(b), flags_(b) { b.clearFastMathFlags(); }

  llvm::Value* D(double v) { return llvm::ConstantFP::get(b_.getDoubleTy(), v); }
  llvm::Value* L(int64_t v) { return b_.getInt64(static_cast<uint64_t>(v)); }
  llvm::Value* Add(llvm::Value* a, llvm::Value* c) { return b_.CreateFAdd(a, c); }
  llvm::Value* Sub(llvm::Value* a, llvm::Value* c) { return b_.CreateFSub(a, c); }
  llvm::Value* Mul(llvm::Value* a, llvm::Value* c) { return b_.CreateFMul(a, c); }
  llvm::Value* Div(llvm::Value* a, llvm::Value* c) { return b_.CreateFDiv(a, c); }
  llvm::Value* Fma(llvm::Value* a, llvm::Value* x, llvm::Value* c) {
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {b_.getDoubleTy()}, {a, x, c});
  }
  llvm::Value* Nearest(llvm::Value* x) {
    return b_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, x);
  }
  llvm::Value* Abs(llvm::Value* x) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
  llvm::Value* CopySign(llvm::Value* magnitude, llvm::Value* sign) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign);
  }
  llvm::Value* Bits(llvm::Value* x) { return b_.CreateBitCast(x, b_.getInt64Ty()); }
  llvm::Value* FromBits(llvm::Value* n) { return b_.CreateBitCast(n, b_.getDoubleTy()); }
  llvm::Value* Select(llvm::Value* c, llvm::Value* x, llvm::Value* y) {
    return b_.CreateSelect(c, x, y);
  }
  // Keeps NaN: comparisons are false and x stays.
  llvm::Value* Clamp(llvm::Value* x, double low, double high) {
    x = Select(b_.CreateFCmpOLT(x, D(low)), D(low), x);
    return Select(b_.CreateFCmpOGT(x, D(high)), D(high), x);
  }

  // c[0] + x c[1] + ... by Horner's rule.
  llvm::Value* Polynomial(llvm::Value* x, const std::vector<double>& c) {
    llvm::Value* sum = D(c.back());
    for (size_t i = c.size() - 1; i-- > 0;) sum = Fma(sum, x, D(c[i]));
    return sum;
  }

  // The exact sum; of Fast, |a| >= |c| or a is 0.
  Pair FastSum(llvm::Value* a, llvm::Value* c) {
    llvm::Value* sum = Add(a, c);
    return {sum, Sub(c, Sub(sum, a))};
  }
  Pair Sum(llvm::Value* a, llvm::Value* c) {
    llvm::Value* sum = Add(a, c);
    llvm::Value* part = Sub(sum, a);
    return {sum, Add(Sub(a, Sub(sum, part)), Sub(c, part))};
  }
  // To about 2^-104 of itself.
  Pair Product(const Pair& a, const Pair& c) {
    llvm::Value* high = Mul(a.high, c.high);
    llvm::Value* low = Fma(a.high, c.high, b_.CreateFNeg(high));
    return {high, Fma(a.high, c.low, Fma(a.low, c.high, low))};
  }
  Pair Product(const Pair& a, const WideConstant& c) { return Product(a, {D(c.high), D(c.low)}); }
  Pair Quotient(const Pair& a, const Pair& c) {
    llvm::Value* high = Div(a.high, c.high);
    llvm::Value* rest = Add(Fma(b_.CreateFNeg(high), c.high, a.high), a.low);
    return {high, Div(Fma(b_.CreateFNeg(high), c.low, rest), c.high)};
  }

  // x * 2^n for whole n in [-2044, 2046], by two exact steps but for denormal results; NaN where n
  // is.
  llvm::Value* Scale(llvm::Value* x, llvm::Value* whole) {
    llvm::Value* n = SafeInteger(whole);
    llvm::Value* half = b_.CreateAShr(n, L(1));
    return Mul(Mul(x, PowerOfTwo(half)), PowerOfTwo(b_.CreateSub(n, half)));
  }
  // fptosi of NaN would be poison.
  llvm::Value* SafeInteger(llvm::Value* n) {
    n = Select(b_.CreateFCmpUNO(n, n), D(0), n);
    return b_.CreateFPToSI(n, b_.getInt64Ty());
  }
  llvm::Value* PowerOfTwo(llvm::Value* n) {
    return FromBits(b_.CreateShl(b_.CreateAdd(n, L(1023)), L(52)));
  }

  // e^r - 1 for r = high + low of at most ln(2)/2 and a little, as a sum of two.
  Pair ExpSmall(const Pair& r);

 private:
  llvm::IRBuilder<>& b_;
  llvm::IRBuilderBase::FastMathFlagGuard flags_;
};

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_WIDE_BUILDER_H_

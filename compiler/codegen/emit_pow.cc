// pow, by log2 and exp2 in double precision.
#include <limits>

#include "compiler/codegen/emit_math.h"
#include "compiler/codegen/float_builder.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

constexpr double kLn2 = 0.69314718055994530942;
constexpr int64_t kMantissa = 52;                  // bits of a double
constexpr int64_t kRootHalf = 0x3fe6a09e667f3bcd;  // sqrt(1/2) as bits
constexpr int64_t kMantissaMask = 0x000fffffffffffff;
constexpr int64_t kBias = 1023;
constexpr double kFarthest = 400;  // of exponents: beyond any float's

class Power {
 public:
  Power(llvm::IRBuilder<>& b, Value* x, Value* y) : b_(b), m_(b, x), x_(x), y_(y) {
    double_ = b.getDoubleTy();
    long_ = b.getInt64Ty();
    if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType())) {
      double_ = llvm::FixedVectorType::get(double_, vector->getNumElements());
      long_ = llvm::FixedVectorType::get(long_, vector->getNumElements());
    }
  }

  Value* Emit() {
    Value* a = m_.Abs(x_);
    Value* one = b_.CreateFCmpOEQ(a, m_.F(1));
    Value* log = Log2(b_.CreateFPExt(a, double_));
    log = b_.CreateSelect(b_.CreateFCmpOEQ(a, m_.F(0)), D(-kInfinity), log);
    log = b_.CreateSelect(b_.CreateFCmpOEQ(a, m_.F(kInfinity)), D(kInfinity), log);
    Value* exponent = b_.CreateFMul(log, b_.CreateFPExt(y_, double_));
    exponent = b_.CreateSelect(one, D(0), exponent);
    Value* power = b_.CreateFPTrunc(Exp2(exponent), x_->getType());
    power = Signed(power, a);
    Value* nan = b_.CreateFCmpUNO(x_, y_);
    power = b_.CreateSelect(nan, m_.F(std::numeric_limits<float>::quiet_NaN()), power);
    Value* unit = b_.CreateOr(b_.CreateFCmpOEQ(y_, m_.F(0)), b_.CreateFCmpOEQ(x_, m_.F(1)));
    return b_.CreateSelect(unit, m_.F(1), power);
  }

 private:
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();

  Value* D(double v) { return llvm::ConstantFP::get(double_, v); }
  Value* L(int64_t v) { return llvm::ConstantInt::get(long_, static_cast<uint64_t>(v)); }
  Value* Fma(Value* a, Value* x, Value* c) {
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {double_}, {a, x, c});
  }
  Value* Nearest(Value* x) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, x); }

  // Of a positive number: the exponent, and the series of artanh of (f - 1)/(f + 1) for f between
  // sqrt(1/2) and sqrt(2), to 2^-39.
  Value* Log2(Value* a) {
    Value* bits = b_.CreateSub(b_.CreateBitCast(a, long_), L(kRootHalf));
    Value* exponent = b_.CreateSIToFP(b_.CreateAShr(bits, L(kMantissa)), double_);
    Value* f =
        b_.CreateBitCast(b_.CreateAdd(b_.CreateAnd(bits, L(kMantissaMask)), L(kRootHalf)), double_);
    Value* t = b_.CreateFDiv(b_.CreateFSub(f, D(1)), b_.CreateFAdd(f, D(1)));
    Value* square = b_.CreateFMul(t, t);
    Value* sum = D(2 / kLn2 / 15);
    for (const int odd : {13, 11, 9, 7, 5, 3, 1}) sum = Fma(sum, square, D(2 / kLn2 / odd));
    return Fma(sum, t, exponent);
  }

  // Of any number, by Taylor's series to 2^-37.
  Value* Exp2(Value* z) {
    z = b_.CreateSelect(b_.CreateFCmpULT(z, D(kFarthest)), z, D(kFarthest));
    z = b_.CreateSelect(b_.CreateFCmpOGT(z, D(-kFarthest)), z, D(-kFarthest));
    Value* n = Nearest(z);
    Value* r = b_.CreateFMul(b_.CreateFSub(z, n), D(kLn2));
    double factorial = 362880;
    Value* sum = D(1 / factorial);
    for (int k = 8; k >= 0; --k) {
      factorial /= k + 1;
      sum = Fma(sum, r, D(1 / factorial));
    }
    Value* scale = b_.CreateShl(b_.CreateAdd(b_.CreateFPToSI(n, long_), L(kBias)), L(kMantissa));
    return b_.CreateFMul(sum, b_.CreateBitCast(scale, double_));
  }

  // Of a negative number: odd powers are negative, broken ones none at all.
  Value* Signed(Value* power, Value* a) {
    Value* half = b_.CreateFMul(y_, m_.F(0.5));
    Value* whole = b_.CreateFCmpOEQ(m_.Nearest(y_), y_);
    Value* odd = b_.CreateAnd(whole, b_.CreateFCmpUNE(m_.Nearest(half), half));
    Value* negative = b_.CreateICmpSLT(m_.Bits(x_), m_.I(0));
    Value* turned = b_.CreateSelect(b_.CreateAnd(negative, odd), b_.CreateFNeg(power), power);
    Value* inner = b_.CreateAnd(b_.CreateFCmpOGT(a, m_.F(0)), b_.CreateFCmpOLT(a, m_.F(kInfinity)));
    Value* broken = b_.CreateAnd(b_.CreateAnd(negative, inner), b_.CreateNot(whole));
    return b_.CreateSelect(broken, m_.F(std::numeric_limits<float>::quiet_NaN()), turned);
  }

  llvm::IRBuilder<>& b_;
  FloatBuilder m_;
  Value* x_;
  Value* y_;
  llvm::Type* double_;
  llvm::Type* long_;
};

}  // namespace

Value* EmitPow(llvm::IRBuilder<>& b, Value* x, Value* y) { return Power(b, x, y).Emit(); }

}  // namespace kiln::codegen

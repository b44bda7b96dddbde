// sin and cos. The argument is divided by 2 pi in integers, as Payne and Hanek do (SIGNUM
// Newsletter 18, 1983): of the product of its mantissa and 1/(2 pi) only those bits are formed that
// whole turns leave, so that any float is as good as a small one.
#include <array>

#include "compiler/codegen/emit_math.h"
#include "compiler/codegen/float_builder.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

// 1/(2 pi) in words of 32 bits, a zero before the point.
constexpr std::array<uint32_t, 8> kTurns = {0,          0x28be60db, 0x9391054a, 0x7f09d5f4,
                                            0x7d4d3770, 0x36d8a566, 0x4f10e410, 0x7f9458ea};
constexpr double kUnit = 3.4061215800865545e-19;  // 2 pi / 2^64
constexpr double kQuarter = 0.785398163397448;    // pi/4

class Periodic {
 public:
  Periodic(llvm::IRBuilder<>& b, Value* x) : b_(b), m_(b, x), x_(x) {
    int32_ = m_.I(0)->getType();
    int64_ = int32_->getWithNewBitWidth(64);
  }

  // sin(x + quarters * pi/2).
  Value* Emit(int quarters) {
    Value* size = b_.CreateAnd(m_.Bits(x_), m_.I(0x7fffffff));
    Value* turn = Turn(size);
    // To the nearest quarter, and what is left of it.
    Value* quarter = b_.CreateLShr(b_.CreateAdd(turn, L(uint64_t{1} << 61)), L(62));
    Value* rest = b_.CreateSub(turn, b_.CreateShl(quarter, L(62)));
    Value* r = b_.CreateFMul(b_.CreateSIToFP(rest, x_->getType()), m_.F(kUnit));
    Value* n = b_.CreateTrunc(quarter, int32_);
    Value* a = m_.Abs(x_);
    Value* small = b_.CreateFCmpOLE(a, m_.F(kQuarter));
    r = b_.CreateSelect(small, a, r);
    n = b_.CreateSelect(small, m_.I(0), n);
    // sin(-x) = -sin(x): the sign of x turns a sine, and not a cosine.
    n = b_.CreateAdd(n, m_.I(quarters));
    Value* cosine = b_.CreateICmpNE(b_.CreateAnd(n, m_.I(1)), m_.I(0));
    Value* value = b_.CreateSelect(cosine, CosOf(r), SinOf(r));
    Value* sign = b_.CreateShl(b_.CreateAnd(n, m_.I(2)), m_.I(30));
    if (quarters == 0) sign = b_.CreateXor(sign, b_.CreateAnd(m_.Bits(x_), m_.I(INT32_MIN)));
    value = m_.FromBits(b_.CreateXor(m_.Bits(value), sign));
    Value* finite = b_.CreateICmpULT(size, m_.I(0x7f800000));
    return b_.CreateSelect(finite, value, b_.CreateFSub(x_, x_));  // NaN of infinity
  }

 private:
  Value* L(uint64_t v) { return llvm::ConstantInt::get(int64_, v); }

  // |x| / (2 pi) less its whole turns, in units of 2^-64. |x| = mantissa * 2^(e - 32); below 1/2 it
  // is none of our business.
  Value* Turn(Value* size) {
    Value* mantissa = b_.CreateOr(b_.CreateShl(size, m_.I(8)), m_.I(INT32_MIN));
    Value* e = b_.CreateSub(b_.CreateLShr(size, m_.I(23)), m_.I(126));
    Value* low = b_.CreateAnd(e, m_.I(31));
    Value* word = b_.CreateLShr(e, m_.I(5));
    std::array<Value*, 4> window;
    for (size_t i = 0; i < window.size(); ++i) window[i] = WordAt(word, i);
    std::array<Value*, 3> shifted;
    for (size_t i = 0; i < shifted.size(); ++i) {
      shifted[i] = Wide(
          b_.CreateIntrinsic(llvm::Intrinsic::fshl, {int32_}, {window[i], window[i + 1], low}));
    }
    Value* wide = Wide(mantissa);
    Value* sum = b_.CreateShl(b_.CreateMul(wide, shifted[0]), L(32));
    sum = b_.CreateAdd(sum, b_.CreateMul(wide, shifted[1]));
    return b_.CreateAdd(sum, b_.CreateLShr(b_.CreateMul(wide, shifted[2]), L(32)));
  }

  // kTurns[word + i] for a word of 0 to 4.
  Value* WordAt(Value* word, size_t i) {
    const auto at = [&](size_t w) {
      return m_.I(static_cast<int32_t>(w + i < kTurns.size() ? kTurns[w + i] : 0));
    };
    Value* value = at(4);
    for (size_t w = 4; w-- > 0;) {
      value = b_.CreateSelect(b_.CreateICmpEQ(word, m_.I(static_cast<int64_t>(w))), at(w), value);
    }
    return value;
  }

  Value* Wide(Value* v) { return b_.CreateZExt(v, int64_); }

  // For |r| <= pi/4.
  Value* SinOf(Value* r) {
    Value* square = b_.CreateFMul(r, r);
    Value* tail = m_.Polynomial(square, {-0.16666666663854163, 0.008333331874272805,
                                         -0.0001984008649922925, 2.7249895192972314e-06});
    return m_.Fma(b_.CreateFMul(tail, square), r, r);
  }
  Value* CosOf(Value* r) {
    Value* square = b_.CreateFMul(r, r);
    return m_.Polynomial(
        square, {1, -0.5, 0.0416666646589014, -0.001388830291911292, 2.4547916853574606e-05});
  }

  llvm::IRBuilder<>& b_;
  FloatBuilder m_;
  Value* x_;
  llvm::Type* int32_;
  llvm::Type* int64_;
};

}  // namespace

Value* EmitSin(llvm::IRBuilder<>& b, Value* x) { return Periodic(b, x).Emit(0); }
Value* EmitCos(llvm::IRBuilder<>& b, Value* x) { return Periodic(b, x).Emit(1); }

}  // namespace kiln::codegen

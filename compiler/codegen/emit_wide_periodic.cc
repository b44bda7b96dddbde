// sin and cos of double. As in emit_periodic.cc the argument is divided by 2 pi in integers; here
// 128 bits are kept of what whole turns leave, since a double may come within 2^-61 of a quarter
// turn.
#include <array>

#include "compiler/codegen/emit_wide.h"
#include "compiler/codegen/wide_builder.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

// 1/(2 pi) in words of 64 bits, a zero before the point.
constexpr std::array<uint64_t, 20> kTurns = {0,
                                             0x28be60db9391054a,
                                             0x7f09d5f47d4d3770,
                                             0x36d8a5664f10e410,
                                             0x7f9458eaf7aef158,
                                             0x6dc91b8e909374b8,
                                             0x01924bba82746487,
                                             0x3f877ac72c4a69cf,
                                             0xba208d7d4baed121,
                                             0x3a671c09ad17df90,
                                             0x4e64758e60d4ce7d,
                                             0x272117e2ef7e4a0e,
                                             0xc7fe25fff7816603,
                                             0xfbcbc462d6829b47,
                                             0xdb4d9fb3c9f2c26d,
                                             0xd3d18fd9a797fa8b,
                                             0x5d49eeb1faf97c5e,
                                             0xcf41ce7de294a4ba,
                                             0x9afed7ec47e35742,
                                             0x1580cc11bf1edaea};
constexpr WideConstant kTurn = {6.283185307179586, 2.4492935982947064e-16};  // 2 pi
constexpr double kQuarter = 0.7853981633974483;                              // pi/4
constexpr unsigned kGlobalSpace = 1;                                         // of NVPTX

double Factorial(int n) { return n < 2 ? 1 : n * Factorial(n - 1); }

// (-1)^k / (first + 2k)!, so many of them: what is left out at pi/4 is below 2^-62.
std::vector<double> Alternating(int first, int terms) {
  std::vector<double> c;
  for (int k = 0; k < terms; ++k) {
    c.push_back((k % 2 == 0 ? 1 : -1) / Factorial(first + 2 * k));
  }
  return c;
}

class WidePeriodic {
 public:
  WidePeriodic(llvm::IRBuilder<>& b, Value* x) : b_(b), m_(b), x_(x), wide_(b.getInt128Ty()) {}

  // sin(x + quarters * pi/2).
  Value* Emit(int quarters) {
    Value* size = b_.CreateAnd(m_.Bits(x_), m_.L(INT64_MAX));
    Value* turn = Turn(size);
    // To the nearest quarter, and what is left of it.
    Value* quarter = b_.CreateLShr(b_.CreateAdd(turn, Bit(125)), 126);
    Value* rest = b_.CreateSub(turn, b_.CreateShl(quarter, 126));
    Pair r = Angle(rest);
    Value* n = b_.CreateTrunc(quarter, b_.getInt64Ty());
    Value* a = m_.Abs(x_);
    Value* small = b_.CreateFCmpOLE(a, m_.D(kQuarter));
    r = {m_.Select(small, a, r.high), m_.Select(small, m_.D(0), r.low)};
    n = b_.CreateAdd(m_.Select(small, m_.L(0), n), m_.L(quarters));
    // sin(-x) = -sin(x): the sign of x turns a sine, and not a cosine.
    Value* cosine = b_.CreateICmpNE(b_.CreateAnd(n, m_.L(1)), m_.L(0));
    Value* value = m_.Select(cosine, CosOf(r), SinOf(r));
    Value* sign = b_.CreateShl(b_.CreateAnd(n, m_.L(2)), 62);
    if (quarters == 0) sign = b_.CreateXor(sign, b_.CreateAnd(m_.Bits(x_), m_.L(INT64_MIN)));
    value = m_.FromBits(b_.CreateXor(m_.Bits(value), sign));
    Value* finite = b_.CreateICmpULT(size, m_.L(0x7ff0000000000000));
    return m_.Select(finite, value, m_.Sub(x_, x_));  // NaN of infinity
  }

 private:
  Value* Wide(Value* v) { return b_.CreateZExt(v, wide_); }
  Value* Bit(unsigned place) {
    return llvm::ConstantInt::get(wide_, llvm::APInt::getOneBitSet(128, place));
  }

  // |x| / (2 pi) less its whole turns, in units of 2^-128. |x| = mantissa * 2^(e - 64), e >= 0;
  // smaller numbers are none of our business.
  Value* Turn(Value* size) {
    Value* mantissa = b_.CreateOr(b_.CreateShl(size, 11), m_.L(INT64_MIN));
    Value* e = b_.CreateSub(b_.CreateLShr(size, 52), m_.L(1022));
    Value* word = b_.CreateAnd(b_.CreateLShr(e, 6), m_.L(31));
    word = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, word, m_.L(kTurns.size() - 4));
    Value* bit = b_.CreateAnd(e, m_.L(63));
    std::array<Value*, 4> window;
    for (size_t i = 0; i < window.size(); ++i) window[i] = WordAt(word, i);
    std::array<Value*, 3> part;
    for (size_t i = 0; i < part.size(); ++i) {
      part[i] = Wide(b_.CreateIntrinsic(llvm::Intrinsic::fshl, {b_.getInt64Ty()},
                                        {window[i], window[i + 1], bit}));
    }
    Value* m = Wide(mantissa);
    Value* sum = b_.CreateShl(b_.CreateMul(m, part[0]), 64);
    sum = b_.CreateAdd(sum, b_.CreateMul(m, part[1]));
    return b_.CreateAdd(sum, b_.CreateLShr(b_.CreateMul(m, part[2]), 64));
  }

  Value* WordAt(Value* word, size_t i) {
    Value* at = b_.CreateAdd(word, m_.L(static_cast<int64_t>(i)));
    Value* address = b_.CreateInBoundsGEP(b_.getInt64Ty(), Table(), at);
    return b_.CreateLoad(b_.getInt64Ty(), address);
  }

  llvm::GlobalVariable* Table() {
    constexpr char kName[] = "kiln_turns";
    llvm::Module& module = *b_.GetInsertBlock()->getModule();
    if (llvm::GlobalVariable* known = module.getNamedGlobal(kName)) return known;
    llvm::Constant* words = llvm::ConstantDataArray::get(b_.getContext(), kTurns);
    const bool gpu = llvm::StringRef(module.getTargetTriple()).starts_with("nvptx");
    return new llvm::GlobalVariable(module, words->getType(), true,
                                    llvm::GlobalValue::InternalLinkage, words, kName, nullptr,
                                    llvm::GlobalValue::NotThreadLocal, gpu ? kGlobalSpace : 0);
  }

  // A signed part of a turn in units of 2^-128 as an angle: its first 53 bits, and the next.
  Pair Angle(Value* rest) {
    Value* negative = b_.CreateICmpSLT(rest, llvm::ConstantInt::get(wide_, 0));
    Value* size = b_.CreateSelect(negative, b_.CreateNeg(rest), rest);
    Value* zeros = b_.CreateIntrinsic(llvm::Intrinsic::ctlz, {wide_}, {size, b_.getFalse()});
    zeros =
        b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, zeros, llvm::ConstantInt::get(wide_, 127));
    Value* from_one = b_.CreateShl(size, zeros);
    const auto part = [&](unsigned first, double unit) {
      Value* bits = b_.CreateTrunc(b_.CreateLShr(from_one, first), b_.getInt64Ty());
      bits = b_.CreateAnd(bits, m_.L((int64_t{1} << 53) - 1));
      return m_.Mul(b_.CreateUIToFP(bits, b_.getDoubleTy()), m_.D(unit));
    };
    const Pair angle = m_.Product({part(75, 0x1p-53), part(22, 0x1p-106)}, kTurn);
    Value* scale = m_.PowerOfTwo(b_.CreateNeg(b_.CreateTrunc(zeros, b_.getInt64Ty())));
    scale = m_.Select(negative, b_.CreateFNeg(scale), scale);
    return {m_.Mul(angle.high, scale), m_.Mul(angle.low, scale)};
  }

  // For |r| <= pi/4.
  Value* SinOf(const Pair& r) {
    Value* z = m_.Mul(r.high, r.high);
    std::vector<double> c = Alternating(3, 9);
    for (double& x : c) x = -x;
    Value* tail = m_.Mul(m_.Mul(z, r.high), m_.Polynomial(z, c));
    Value* low = m_.Fma(r.low, m_.Fma(z, m_.D(-0.5), m_.D(1)), tail);
    return m_.Add(r.high, low);
  }
  Value* CosOf(const Pair& r) {
    Value* z = m_.Mul(r.high, r.high);
    Value* half = m_.Mul(z, m_.D(0.5));
    const Pair first = m_.FastSum(m_.D(1), b_.CreateFNeg(half));
    Value* tail = m_.Mul(m_.Mul(z, z), m_.Polynomial(z, Alternating(4, 8)));
    Value* low = m_.Fma(b_.CreateFNeg(r.high), r.low, tail);
    return m_.Add(first.high, m_.Add(first.low, low));
  }

  llvm::IRBuilder<>& b_;
  WideBuilder m_;
  Value* x_;
  llvm::Type* wide_;
};

}  // namespace

Value* EmitWideSin(llvm::IRBuilder<>& b, Value* x) { return WidePeriodic(b, x).Emit(0); }
Value* EmitWideCos(llvm::IRBuilder<>& b, Value* x) { return WidePeriodic(b, x).Emit(1); }

}  // namespace kiln::codegen

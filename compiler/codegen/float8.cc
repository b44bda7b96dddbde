#include "compiler/codegen/float8.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

struct Format {
  unsigned mantissa_bits;
  unsigned bias;
  uint32_t largest, nan;
};

Format FormatOf(DType type) {
  return type.code == TypeCode::kE4M3 ? Format{3, 7, 0x7e, 0x7f} : Format{2, 15, 0x7b, 0x7e};
}

// `scalar`, or a vector of it with the lanes of `like`.
llvm::Type* WithLanesOf(Value* like, llvm::Type* scalar) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(like->getType());
  return vector == nullptr ? scalar : llvm::FixedVectorType::get(scalar, vector->getNumElements());
}

}  // namespace

Value* EmitToFloat8(llvm::IRBuilder<>& b, Value* value, DType type) {
  constexpr uint32_t kSign = 0x80000000, kInfinity = 0x7f800000;
  constexpr unsigned kFloatBias = 127, kFloatMantissa = 23;
  const Format format = FormatOf(type);
  const unsigned shift = kFloatMantissa - format.mantissa_bits;
  llvm::Type* wide = WithLanesOf(value, b.getInt32Ty());
  const auto constant = [&](uint32_t v) { return llvm::ConstantInt::get(wide, v); };
  Value* bits = b.CreateBitCast(value, wide);
  Value* size = b.CreateAnd(bits, constant(~kSign));
  // A normal number: half of the last place is added, less one bit where that place is even.
  Value* odd = b.CreateAnd(b.CreateLShr(size, constant(shift)), constant(1));
  Value* rounded = b.CreateAdd(size, b.CreateAdd(odd, constant((1u << (shift - 1)) - 1)));
  Value* normal = b.CreateSub(b.CreateLShr(rounded, constant(shift)),
                              constant((kFloatBias - format.bias) << format.mantissa_bits));
  // A subnormal one: beside a number whose last place is the smallest step, it is rounded to steps.
  const unsigned step = kFloatBias + 1 - format.bias - format.mantissa_bits + kFloatMantissa;
  Value* anchor = constant(step << kFloatMantissa);
  Value* sum = b.CreateFAdd(b.CreateBitCast(size, value->getType()),
                            b.CreateBitCast(anchor, value->getType()));
  Value* steps = b.CreateSub(b.CreateBitCast(sum, wide), anchor);
  Value* least = constant((kFloatBias + 1 - format.bias) << kFloatMantissa);
  Value* out = b.CreateSelect(b.CreateICmpULT(size, least), steps, normal);
  out =
      b.CreateSelect(b.CreateICmpULT(out, constant(format.largest)), out, constant(format.largest));
  out = b.CreateSelect(b.CreateICmpUGT(size, constant(kInfinity)), constant(format.nan), out);
  Value* sign = b.CreateAnd(b.CreateLShr(bits, constant(24)), constant(0x80));
  return b.CreateTrunc(b.CreateOr(out, sign), WithLanesOf(value, b.getInt8Ty()));
}

// Through float16, which has every float8_e5m2, and every float8_e4m3fn a factor of 2^8 smaller.
Value* EmitFromFloat8(llvm::IRBuilder<>& b, Value* bits, DType type) {
  llvm::Type* wide = WithLanesOf(bits, b.getInt16Ty());
  llvm::Type* single = WithLanesOf(bits, b.getFloatTy());
  const auto constant = [&](uint32_t v) { return llvm::ConstantInt::get(wide, v); };
  const auto widen = [&](Value* half_bits) {
    return b.CreateFPExt(b.CreateBitCast(half_bits, WithLanesOf(bits, b.getHalfTy())), single);
  };
  Value* raw = b.CreateZExt(bits, wide);
  if (type.code == TypeCode::kE5M2) return widen(b.CreateShl(raw, constant(8)));
  Value* sign = b.CreateShl(b.CreateAnd(raw, constant(0x80)), constant(8));
  Value* size = b.CreateAnd(raw, constant(0x7f));
  Value* value = b.CreateFMul(widen(b.CreateOr(sign, b.CreateShl(size, constant(7)))),
                              llvm::ConstantFP::get(single, 256.0));
  return b.CreateSelect(b.CreateICmpEQ(size, constant(0x7f)), llvm::ConstantFP::getNaN(single),
                        value);
}

}  // namespace kiln::codegen

#include "compiler/codegen/float8.h"

#include <cmath>

namespace kiln::codegen {
namespace {

using llvm::Value;

constexpr uint32_t kSign = 0x80000000, kInfinity = 0x7f800000;
constexpr unsigned kFloatBias = 127, kFloatMantissa = 23;

struct Format {
  unsigned mantissa_bits;
  unsigned bias;
  uint32_t largest, nan;
  uint32_t sign = 0x80;
  bool signed_nan = true, signed_zero = true;
};

Format FormatOf(DType type) {
  switch (type.code) {
    case TypeCode::kE4M3:
      return {3, 7, 0x7e, 0x7f};
    case TypeCode::kE4M3Fnuz:
      return {3, 8, 0x7f, 0x80, 0x80, true, false};
    case TypeCode::kE5M2Fnuz:
      return {2, 16, 0x7f, 0x80, 0x80, true, false};
    case TypeCode::kE2M1:
      return {1, 1, 7, 7, 8, false, true};
    default:
      return {2, 15, 0x7b, 0x7e};
  }
}

// `scalar`, or a vector of it with the lanes of `like`.
llvm::Type* WithLanesOf(Value* like, llvm::Type* scalar) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(like->getType());
  return vector == nullptr ? scalar : llvm::FixedVectorType::get(scalar, vector->getNumElements());
}

// float8_e8m0fnu: the exponent of the size, one more where anything is behind it.
Value* EmitToPower(llvm::IRBuilder<>& b, Value* value) {
  llvm::Type* wide = WithLanesOf(value, b.getInt32Ty());
  const auto constant = [&](uint32_t v) { return llvm::ConstantInt::get(wide, v); };
  Value* size = b.CreateAnd(b.CreateBitCast(value, wide), constant(~kSign));
  // 2^-127, the least power, is half of the least normal number.
  constexpr uint32_t kFraction = (1u << kFloatMantissa) - 1, kLeast = 1u << (kFloatMantissa - 1);
  Value* up = b.CreateLShr(b.CreateAdd(size, constant(kFraction)), constant(kFloatMantissa));
  Value* code = b.CreateSelect(b.CreateICmpULE(size, constant(kLeast)), constant(0), up);
  code = b.CreateSelect(b.CreateICmpULT(code, constant(254)), code, constant(254));
  code = b.CreateSelect(b.CreateICmpUGT(size, constant(kInfinity)), constant(255), code);
  return b.CreateTrunc(code, WithLanesOf(value, b.getInt8Ty()));
}

Value* EmitFromPower(llvm::IRBuilder<>& b, Value* bits) {
  llvm::Type* wide = WithLanesOf(bits, b.getInt32Ty());
  const auto constant = [&](uint32_t v) { return llvm::ConstantInt::get(wide, v); };
  Value* raw = b.CreateZExt(bits, wide);
  Value* power =
      b.CreateSelect(b.CreateICmpEQ(raw, constant(0)), constant(1u << (kFloatMantissa - 1)),
                     b.CreateShl(raw, constant(kFloatMantissa)));
  power = b.CreateSelect(b.CreateICmpEQ(raw, constant(255)), constant(0x7fc00000), power);
  return b.CreateBitCast(power, WithLanesOf(bits, b.getFloatTy()));
}

// From the bits of a normal number, or from how many of the smallest steps a subnormal one is.
Value* EmitFromBits(llvm::IRBuilder<>& b, Value* bits, const Format& format) {
  llvm::Type* wide = WithLanesOf(bits, b.getInt32Ty());
  llvm::Type* single = WithLanesOf(bits, b.getFloatTy());
  const auto constant = [&](uint32_t v) { return llvm::ConstantInt::get(wide, v); };
  Value* raw = b.CreateZExt(bits, wide);
  Value* size = b.CreateAnd(raw, constant(format.sign - 1));
  Value* normal = b.CreateAdd(b.CreateShl(size, constant(kFloatMantissa - format.mantissa_bits)),
                              constant((kFloatBias - format.bias) << kFloatMantissa));
  const double step = std::ldexp(1.0, 1 - static_cast<int>(format.bias + format.mantissa_bits));
  Value* steps = b.CreateFMul(b.CreateUIToFP(size, single), llvm::ConstantFP::get(single, step));
  Value* is_normal = b.CreateICmpUGE(size, constant(1u << format.mantissa_bits));
  Value* out = b.CreateSelect(is_normal, normal, b.CreateBitCast(steps, wide));
  Value* negative = b.CreateICmpNE(b.CreateAnd(raw, constant(format.sign)), constant(0));
  out = b.CreateOr(out, b.CreateSelect(negative, constant(kSign), constant(0)));
  if (!format.signed_zero) {  // the negative one's pattern
    out = b.CreateSelect(b.CreateICmpEQ(raw, constant(format.nan)), constant(0x7fc00000), out);
  }
  return b.CreateBitCast(out, single);
}

}  // namespace

Value* EmitToFloat8(llvm::IRBuilder<>& b, Value* value, DType type) {
  if (type.code == TypeCode::kE8M0) return EmitToPower(b, value);
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
  Value* is_nan = b.CreateICmpUGT(size, constant(kInfinity));
  out = b.CreateSelect(is_nan, constant(format.nan), out);
  const unsigned down = format.sign == 0x80 ? 24 : 28;
  Value* sign = b.CreateAnd(b.CreateLShr(bits, constant(down)), constant(format.sign));
  if (!format.signed_nan) sign = b.CreateSelect(is_nan, constant(0), sign);
  if (!format.signed_zero) {
    sign = b.CreateSelect(b.CreateICmpEQ(out, constant(0)), constant(0), sign);
  }
  return b.CreateTrunc(b.CreateOr(out, sign), WithLanesOf(value, b.getInt8Ty()));
}

// float8_e5m2 and float8_e4m3fn by way of float16, which has every one of the first, and of the
// second a factor of 2^8 smaller.
Value* EmitFromFloat8(llvm::IRBuilder<>& b, Value* bits, DType type) {
  if (type.code == TypeCode::kE8M0) return EmitFromPower(b, bits);
  if (type.code != TypeCode::kE4M3 && type.code != TypeCode::kE5M2) {
    return EmitFromBits(b, bits, FormatOf(type));
  }
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

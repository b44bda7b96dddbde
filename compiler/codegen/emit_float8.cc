// Floats of eight bits in arithmetic that every machine has.
#include <cmath>

#include "compiler/codegen/emit_math.h"
#include "compiler/codegen/float_builder.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

struct Form {
  int mantissa_bits;
  int min_exponent;  // of the smallest normal number
  int64_t largest;   // the code of the largest number; the sizes after it are infinity and NaN
};

Form FormOf(DType type) {
  return type.code == TypeCode::kE4M3 ? Form{3, -6, 0x7e} : Form{2, -14, 0x7b};
}

Value* Resized(llvm::IRBuilder<>& b, Value* integers, unsigned bits) {
  return b.CreateZExtOrTrunc(integers, integers->getType()->getWithNewBitWidth(bits));
}

}  // namespace

Value* EmitToFloat8(llvm::IRBuilder<>& b, Value* x, DType type) {
  const Form form = FormOf(type);
  FloatBuilder m(b, x);
  const int dropped = 23 - form.mantissa_bits;
  Value* bits = m.Bits(x);
  Value* size = b.CreateAnd(bits, m.I(0x7fffffff));
  Value* odd = b.CreateAnd(b.CreateLShr(size, m.I(dropped)), m.I(1));
  Value* half = m.I((int64_t{1} << (dropped - 1)) - 1);
  Value* rounded = b.CreateLShr(b.CreateAdd(size, b.CreateAdd(odd, half)), m.I(dropped));
  // float32's exponents are biased by 127, these by 1 - min_exponent.
  Value* normal = b.CreateSub(rounded, m.I(int64_t{126 + form.min_exponent} << form.mantissa_bits));
  // Below the smallest normal number the codes count units of one size: those of this sum.
  Value* unit = m.F(std::ldexp(1.0, 23 + form.min_exponent - form.mantissa_bits));
  Value* sum = b.CreateFAdd(m.FromBits(size), unit);
  Value* subnormal = b.CreateSub(m.Bits(sum), m.Bits(unit));
  Value* smallest = m.Bits(m.F(std::ldexp(1.0, form.min_exponent)));
  Value* code = b.CreateSelect(b.CreateICmpULT(size, smallest), subnormal, normal);
  Value* largest = m.I(form.largest);
  code = b.CreateSelect(b.CreateICmpULT(code, largest), code, largest);
  code = b.CreateSelect(b.CreateICmpUGT(size, m.I(0x7f800000)), m.I(0x7f), code);
  Value* sign = b.CreateAnd(b.CreateLShr(bits, m.I(24)), m.I(0x80));
  return Resized(b, b.CreateOr(code, sign), 8);
}

// As a float16 whose exponent field is that of the code; both formats keep subnormal numbers.
Value* EmitFromFloat8(llvm::IRBuilder<>& b, Value* code, DType type) {
  Value* bits = Resized(b, code, 16);
  llvm::Type* int16 = bits->getType();
  const auto constant = [&](uint64_t v) { return llvm::ConstantInt::get(int16, v); };
  const bool e4m3 = type.code == TypeCode::kE4M3;
  Value* size = b.CreateAnd(bits, constant(0x7f));
  Value* sign = b.CreateShl(b.CreateAnd(bits, constant(0x80)), constant(8));
  Value* wide = b.CreateOr(sign, b.CreateShl(size, constant(e4m3 ? 7 : 8)));
  const auto lanes_of = [&](llvm::Type* scalar) -> llvm::Type* {
    auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(int16);
    return vector ? llvm::FixedVectorType::get(scalar, vector->getNumElements()) : scalar;
  };
  Value* half = b.CreateBitCast(wide, lanes_of(b.getHalfTy()));
  llvm::Type* float_type = lanes_of(b.getFloatTy());
  Value* value = b.CreateFPExt(half, float_type);
  if (!e4m3) return value;
  Value* scaled = b.CreateFMul(value, llvm::ConstantFP::get(float_type, 256));  // 2^(15 - 7)
  Value* is_nan = b.CreateICmpEQ(size, constant(0x7f));
  return b.CreateSelect(is_nan, llvm::ConstantFP::getNaN(float_type), scaled);
}

}  // namespace kiln::codegen

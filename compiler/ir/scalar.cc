#include "compiler/ir/scalar.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "compiler/base/status.h"

namespace kiln::ir {
namespace {

bool IsUnsigned64(DType type) { return type.bits == 64 && type.code != TypeCode::kInt; }

std::optional<int64_t> FloorDivInt(int64_t a, int64_t b, DType type) {
  if (b == 0) return std::nullopt;
  if (IsUnsigned64(type)) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
  }
  if (b == -1) return WrapInt(static_cast<int64_t>(0 - static_cast<uint64_t>(a)), type);
  const int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

std::optional<int64_t> FloorModInt(int64_t a, int64_t b, DType type) {
  if (b == 0) return std::nullopt;
  if (IsUnsigned64(type)) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) % static_cast<uint64_t>(b));
  }
  if (b == -1) return 0;
  const int64_t remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

std::optional<int64_t> ShiftInt(BinaryOp op, int64_t a, int64_t b, DType type) {
  if (b < 0 || b >= type.bits) return std::nullopt;
  if (op == BinaryOp::kShl)
    return WrapInt(static_cast<int64_t>(static_cast<uint64_t>(a) << b), type);
  if (IsUnsigned64(type)) return static_cast<int64_t>(static_cast<uint64_t>(a) >> b);
  return a >> b;
}

bool LessInt(int64_t a, int64_t b, DType type) {
  return IsUnsigned64(type) ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}

// A rounded quotient just below an integer is that integer: one too much, which the sign of what is
// left tells.
double FloorDivFloat(double a, double b) {
  const double q = std::floor(a / b), left = std::fma(-q, b, a);
  return (b < 0 ? left > 0 : left < 0) ? q - 1 : q;
}

double FloorModFloat(double a, double b) {
  const double remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(0.0, b);
  return (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

}  // namespace

int64_t WrapInt(int64_t value, DType type) {
  if (type.is_bool()) return value != 0;
  if (type.bits >= 64) return value;
  const int unused = 64 - type.bits;
  const uint64_t high = static_cast<uint64_t>(value) << unused;
  return type.code == TypeCode::kInt ? static_cast<int64_t>(high) >> unused
                                     : static_cast<int64_t>(high >> unused);
}

std::optional<int64_t> EvalInt(BinaryOp op, int64_t a, int64_t b, DType type) {
  const auto ua = static_cast<uint64_t>(a);
  const auto ub = static_cast<uint64_t>(b);
  switch (op) {
    case BinaryOp::kAdd:
      return WrapInt(static_cast<int64_t>(ua + ub), type);
    case BinaryOp::kSub:
      return WrapInt(static_cast<int64_t>(ua - ub), type);
    case BinaryOp::kMul:
      return WrapInt(static_cast<int64_t>(ua * ub), type);
    case BinaryOp::kDiv:
      return std::nullopt;
    case BinaryOp::kFloorDiv:
      return FloorDivInt(a, b, type);
    case BinaryOp::kFloorMod:
      return FloorModInt(a, b, type);
    case BinaryOp::kMin:
      return LessInt(b, a, type) ? b : a;
    case BinaryOp::kMax:
      return LessInt(a, b, type) ? b : a;
    case BinaryOp::kEq:
      return a == b;
    case BinaryOp::kNe:
      return a != b;
    case BinaryOp::kLt:
      return LessInt(a, b, type);
    case BinaryOp::kLe:
      return !LessInt(b, a, type);
    case BinaryOp::kGt:
      return LessInt(b, a, type);
    case BinaryOp::kGe:
      return !LessInt(a, b, type);
    case BinaryOp::kAnd:
      return a != 0 && b != 0;
    case BinaryOp::kOr:
      return a != 0 || b != 0;
    case BinaryOp::kBitAnd:
      return a & b;
    case BinaryOp::kBitOr:
      return a | b;
    case BinaryOp::kBitXor:
      return a ^ b;
    case BinaryOp::kShl:
    case BinaryOp::kShr:
      return ShiftInt(op, a, b, type);
  }
  return std::nullopt;
}

std::optional<double> EvalFloat(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd:
      return a + b;
    case BinaryOp::kSub:
      return a - b;
    case BinaryOp::kMul:
      return a * b;
    case BinaryOp::kDiv:
      return a / b;
    case BinaryOp::kFloorDiv:
      return FloorDivFloat(a, b);
    case BinaryOp::kFloorMod:
      return FloorModFloat(a, b);
    case BinaryOp::kMin:
      return std::fmin(a, b);
    case BinaryOp::kMax:
      return std::fmax(a, b);
    case BinaryOp::kEq:
      return a == b;
    case BinaryOp::kNe:
      return a != b;
    case BinaryOp::kLt:
      return a < b;
    case BinaryOp::kLe:
      return a <= b;
    case BinaryOp::kGt:
      return a > b;
    case BinaryOp::kGe:
      return a >= b;
    default:
      return std::nullopt;
  }
}

std::optional<double> EvalUnaryIntrinsic(Intrinsic op, double a) {
  switch (op) {
    case Intrinsic::kExp:
      return std::exp(a);
    case Intrinsic::kExp2:
      return std::exp2(a);
    case Intrinsic::kLog:
      return std::log(a);
    case Intrinsic::kLog2:
      return std::log2(a);
    case Intrinsic::kSqrt:
      return std::sqrt(a);
    case Intrinsic::kRsqrt:
      return 1 / std::sqrt(a);
    case Intrinsic::kTanh:
      return std::tanh(a);
    case Intrinsic::kSigmoid:
      return 1 / (1 + std::exp(-a));
    case Intrinsic::kAbs:
      return std::fabs(a);
    case Intrinsic::kSin:
      return std::sin(a);
    case Intrinsic::kCos:
      return std::cos(a);
    case Intrinsic::kErf:
      return std::erf(a);
    case Intrinsic::kFloor:
      return std::floor(a);
    case Intrinsic::kCeil:
      return std::ceil(a);
    case Intrinsic::kRound:
      return std::nearbyint(a);
    case Intrinsic::kTrunc:
      return std::trunc(a);
    case Intrinsic::kIsNan:
      return std::isnan(a);
    case Intrinsic::kIsInf:
      return std::isinf(a);
    case Intrinsic::kIsFinite:
      return std::isfinite(a);
    case Intrinsic::kExp10:
      return std::pow(10.0, a);
    case Intrinsic::kLog1p:
      return std::log1p(a);
    case Intrinsic::kSinh:
      return std::sinh(a);
    case Intrinsic::kCosh:
      return std::cosh(a);
    case Intrinsic::kAsin:
      return std::asin(a);
    case Intrinsic::kAcos:
      return std::acos(a);
    case Intrinsic::kAtan:
      return std::atan(a);
    case Intrinsic::kAsinh:
      return std::asinh(a);
    case Intrinsic::kAcosh:
      return std::acosh(a);
    case Intrinsic::kAtanh:
      return std::atanh(a);
    default:
      return std::nullopt;
  }
}

std::optional<double> EvalBinaryIntrinsic(Intrinsic op, double a, double b) {
  switch (op) {
    case Intrinsic::kPow:
      return std::pow(a, b);
    case Intrinsic::kAtan2:
      return std::atan2(a, b);
    case Intrinsic::kFmod:
      return std::fmod(a, b);
    default:
      return std::nullopt;
  }
}

std::optional<int64_t> EvalIntIntrinsic(Intrinsic op, int64_t a, DType type) {
  const int bits = type.bits;
  const uint64_t raw = static_cast<uint64_t>(a) & (~uint64_t{0} >> (64 - bits));
  switch (op) {
    case Intrinsic::kAbs:
      return a < 0 && type.code == TypeCode::kInt
                 ? WrapInt(static_cast<int64_t>(0 - static_cast<uint64_t>(a)), type)
                 : a;
    case Intrinsic::kPopCount:
      return std::popcount(raw);
    case Intrinsic::kClz:
      return std::countl_zero(raw) - (64 - bits);
    default:
      return std::nullopt;
  }
}

double IntToFloat(int64_t value, DType from, DType to) {
  if (to == kFloat32) {
    return IsUnsigned64(from) ? static_cast<float>(static_cast<uint64_t>(value))
                              : static_cast<float>(value);
  }
  const double wide = IsUnsigned64(from) ? static_cast<double>(static_cast<uint64_t>(value))
                                         : static_cast<double>(value);
  return RoundToType(wide, to);
}

int64_t FloatToInt(double value, DType to) {
  if (to.is_bool()) return value != 0;
  if (std::isnan(value)) return 0;
  const double whole = std::trunc(value);
  if (IsUnsigned64(to) && whole >= 0x1p63) {
    return static_cast<int64_t>(whole >= 0x1p64 ? ~uint64_t{0} : static_cast<uint64_t>(whole));
  }
  const int value_bits = to.code == TypeCode::kInt ? to.bits - 1 : to.bits;
  const double past = std::ldexp(1.0, value_bits);
  if (whole >= past)
    return WrapInt(value_bits < 63 ? (int64_t{1} << value_bits) - 1 : INT64_MAX, to);
  if (to.code != TypeCode::kInt) return whole < 0 ? 0 : static_cast<int64_t>(whole);
  return whole < -past ? -(int64_t{1} << (value_bits - 1)) * 2 : static_cast<int64_t>(whole);
}

ScalarBits Reinterpret(ScalarBits value, DType from, DType to) {
  KILN_CHECK(from.bits == to.bits);
  uint64_t raw = 0;
  if (from.is_float()) {
    StoreElement(&raw, from.element(), value.real);
  } else {
    raw = static_cast<uint64_t>(value.integer);
  }
  ScalarBits result;
  if (to.is_float()) {
    result.real = LoadElement(&raw, to.element());
  } else {
    result.integer = WrapInt(static_cast<int64_t>(raw), to);
  }
  return result;
}

bool IsComparison(BinaryOp op) { return op >= BinaryOp::kEq && op <= BinaryOp::kGe; }

}  // namespace kiln::ir

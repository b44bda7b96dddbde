#include "compiler/base/dtype.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"

namespace kiln {
namespace {

struct NamedType {
  absl::string_view name;
  DType type;
};

// The first name of each type is the one that ToString prints.
constexpr NamedType kTypes[] = {
    {"float32", {TypeCode::kFloat, 32}},
    {"float16", {TypeCode::kFloat, 16}},
    {"float64", {TypeCode::kFloat, 64}},
    {"bfloat16", {TypeCode::kBFloat, 16}},
    {"float8_e4m3fn", {TypeCode::kE4M3, 8}},
    {"float8_e5m2", {TypeCode::kE5M2, 8}},
    {"float8_e4m3fnuz", {TypeCode::kE4M3Fnuz, 8}},
    {"float8_e5m2fnuz", {TypeCode::kE5M2Fnuz, 8}},
    {"float8_e8m0fnu", {TypeCode::kE8M0, 8}},
    {"float4_e2m1_unpacked", {TypeCode::kE2M1, 8}},
    {"float4_e2m1fn", {TypeCode::kE2M1, 4}},
    {"int4", {TypeCode::kInt, 4}},
    {"uint4", {TypeCode::kUInt, 4}},
    {"int8", {TypeCode::kInt, 8}},
    {"int16", {TypeCode::kInt, 16}},
    {"int32", {TypeCode::kInt, 32}},
    {"int64", {TypeCode::kInt, 64}},
    {"uint8", {TypeCode::kUInt, 8}},
    {"uint16", {TypeCode::kUInt, 16}},
    {"uint32", {TypeCode::kUInt, 32}},
    {"uint64", {TypeCode::kUInt, 64}},
    {"bool", {TypeCode::kBool, 8}},
    {"handle", {TypeCode::kHandle, 64}},
    {"float", {TypeCode::kFloat, 32}},
    {"half", {TypeCode::kFloat, 16}},
    {"double", {TypeCode::kFloat, 64}},
    {"int", {TypeCode::kInt, 32}},
    {"long", {TypeCode::kInt, 64}},
    {"short", {TypeCode::kInt, 16}},
    {"uint", {TypeCode::kUInt, 32}},
    {"float8_e4m3", {TypeCode::kE4M3, 8}},
};

// A binary floating-point format narrower than double.
struct Format {
  int mantissa_bits;
  int min_exponent;  // of the smallest normal number, unbiased
  double max;        // largest finite value
  bool has_infinity;
  bool saturates;         // what is too large becomes `max`
  bool has_zeros = true;  // of both signs; else the pattern of the negative one is NaN
  bool has_nan = true;    // else NaN becomes `max`
  int bits = 0;           // of a code; 0: those of the type
};

Format FormatOf(DType type) {
  switch (type.code) {
    case TypeCode::kBFloat:
      return {7, -126, 0x1.FEp127, true, false};
    case TypeCode::kE4M3:
      return {3, -6, 448, false, true};
    case TypeCode::kE5M2:
      return {2, -14, 57344, true, true};
    case TypeCode::kE4M3Fnuz:
      return {3, -7, 240, false, true, false};
    case TypeCode::kE5M2Fnuz:
      return {2, -15, 57344, false, true, false};
    case TypeCode::kE2M1:
      return {1, 0, 6, false, true, true, false, 4};
    default:
      return {10, -14, 65504, true, false};
  }
}

// Rounds to nearest even in `format`.
double RoundToFormat(double value, const Format& format) {
  if (std::isnan(value)) return format.has_nan ? value : format.max;
  if (value == 0) return format.has_zeros ? value : 0;
  const double beyond = format.saturates ? format.max : std::numeric_limits<double>::infinity();
  if (std::isinf(value)) return std::copysign(beyond, value);
  int exponent;
  std::frexp(value, &exponent);  // value = m * 2^exponent, 0.5 <= |m| < 1
  const int lsb = std::max(exponent - 1, format.min_exponent) - format.mantissa_bits;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -lsb)), lsb);
  if (rounded == 0 && !format.has_zeros) return 0;
  if (std::abs(rounded) <= format.max) return rounded;
  return std::copysign(beyond, value);
}

uint32_t EncodeFormat(double value, DType type) {
  const Format format = FormatOf(type);
  const int total = format.bits ? format.bits : type.bits;
  const int exponent_bits = total - 1 - format.mantissa_bits;
  const int bias = 1 - format.min_exponent;
  if (!format.has_nan || !format.has_zeros) value = RoundToFormat(value, format);
  const uint32_t sign = std::signbit(value) ? 1u << (total - 1) : 0;
  const uint32_t exponent_mask = (1u << exponent_bits) - 1;
  if (std::isnan(value)) {
    if (!format.has_zeros) return 1u << (total - 1);
    if (!format.has_infinity) return sign | ((1u << (total - 1)) - 1);
    return sign | (exponent_mask << format.mantissa_bits) | (1u << (format.mantissa_bits - 1));
  }
  // An infinity that is there stays.
  const bool is_held = std::isinf(value) && format.has_infinity;
  const double r = is_held ? value : RoundToFormat(value, format);
  if (std::isinf(r)) return sign | (exponent_mask << format.mantissa_bits);
  if (r == 0) return sign;
  int exponent;
  std::frexp(std::abs(r), &exponent);
  exponent -= 1;
  if (exponent < format.min_exponent) {  // subnormal
    return sign | static_cast<uint32_t>(
                      std::ldexp(std::abs(r), format.mantissa_bits - format.min_exponent));
  }
  const auto mantissa =
      static_cast<uint32_t>(std::ldexp(std::abs(r), format.mantissa_bits - exponent));
  return sign | static_cast<uint32_t>(exponent + bias) << format.mantissa_bits |
         (mantissa & ((1u << format.mantissa_bits) - 1));
}

double DecodeFormat(uint32_t raw, DType type) {
  const Format format = FormatOf(type);
  const int total = format.bits ? format.bits : type.bits;
  const int exponent_bits = total - 1 - format.mantissa_bits;
  const int bias = 1 - format.min_exponent;
  if (!format.has_zeros && raw == 1u << (total - 1)) return NAN;
  const double sign = raw >> (total - 1) & 1 ? -1.0 : 1.0;
  const uint32_t exponent = raw >> format.mantissa_bits & ((1u << exponent_bits) - 1);
  const uint32_t mantissa = raw & ((1u << format.mantissa_bits) - 1);
  const bool top = exponent == (1u << exponent_bits) - 1;
  if (format.has_infinity && top) return mantissa ? NAN : sign * INFINITY;
  if (type.code == TypeCode::kE4M3 && top && mantissa == (1u << format.mantissa_bits) - 1) {
    return NAN;
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, format.min_exponent - format.mantissa_bits);
  return sign * std::ldexp(mantissa + (1u << format.mantissa_bits),
                           static_cast<int>(exponent) - bias - format.mantissa_bits);
}

// The code of the power of two that float8_e8m0fnu makes of `value`, and a code's power.
uint8_t EncodePower(double value) {
  constexpr int kBias = 127, kLargest = 254;
  const double size = std::abs(static_cast<double>(static_cast<float>(value)));
  if (std::isnan(size)) return 255;
  if (std::isinf(size)) return kLargest;
  if (size <= std::ldexp(1.0, -kBias)) return 0;
  int exponent;
  const double mantissa = std::frexp(size, &exponent);  // in [0.5, 1)
  return static_cast<uint8_t>(std::min(exponent - (mantissa == 0.5) + kBias, kLargest));
}
double DecodePower(uint8_t code) { return code == 255 ? NAN : std::ldexp(1.0, code - 127); }

double WrapInteger(double value, DType type) {
  if (std::isnan(value)) return 0;
  value = std::trunc(value);
  if (type.bits == 64) return value;
  const double modulus = std::ldexp(1.0, type.bits);
  double wrapped = std::fmod(value, modulus);
  if (wrapped < 0) wrapped += modulus;
  if (type.code == TypeCode::kInt && wrapped >= modulus / 2) wrapped -= modulus;
  return wrapped;
}

template <typename T>
T ReadAs(const void* address) {
  T value;
  std::memcpy(&value, address, sizeof(value));
  return value;
}

template <typename T>
void WriteAs(void* address, T value) {
  std::memcpy(address, &value, sizeof(value));
}

// Integers out of the range of int64/uint64 saturate: the conversion itself would be undefined.
template <typename T>
T ClampCast(double value) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) {
    return std::numeric_limits<T>::min();
  }
  if (value >= static_cast<double>(std::numeric_limits<T>::max())) {
    return std::numeric_limits<T>::max();
  }
  return static_cast<T>(value);
}

}  // namespace

std::string DType::ToString() const {
  const DType scalar = element();
  std::string name = absl::StrCat("type", static_cast<int>(code), "_", bits);
  for (const NamedType& known : kTypes) {
    if (known.type == scalar) {
      name = std::string(known.name);
      break;
    }
  }
  if (lanes != 1) absl::StrAppend(&name, "x", lanes);
  return name;
}

std::optional<DType> ParseDType(absl::string_view name) {
  for (const NamedType& known : kTypes) {
    if (known.name == name) return known.type;
  }
  return std::nullopt;
}

double RoundToType(double value, DType type) {
  switch (type.code) {
    case TypeCode::kFloat:
      if (type.bits == 64) return value;
      if (type.bits == 32) return static_cast<double>(static_cast<float>(value));
      return RoundToFormat(value, FormatOf(type));
    case TypeCode::kBFloat:
    case TypeCode::kE4M3:
    case TypeCode::kE5M2:
    case TypeCode::kE4M3Fnuz:
    case TypeCode::kE5M2Fnuz:
    case TypeCode::kE2M1:
      return RoundToFormat(value, FormatOf(type));
    case TypeCode::kE8M0:
      return DecodePower(EncodePower(value));
    case TypeCode::kBool:
      return value != 0 ? 1 : 0;
    case TypeCode::kInt:
    case TypeCode::kUInt:
    case TypeCode::kHandle:
      return WrapInteger(value, type);
  }
  return value;
}

double EpsilonOf(DType type) {
  switch (type.code) {
    case TypeCode::kFloat:
      return type.bits == 64 ? 0x1p-52 : type.bits == 32 ? 0x1p-23 : 0x1p-10;
    case TypeCode::kBFloat:
      return 0x1p-7;
    case TypeCode::kE4M3:
    case TypeCode::kE4M3Fnuz:
      return 0x1p-3;
    case TypeCode::kE5M2:
    case TypeCode::kE5M2Fnuz:
      return 0x1p-2;
    case TypeCode::kE2M1:
      return 0x1p-1;
    case TypeCode::kE8M0:
      return 1;
    default:
      return 0;
  }
}

double LoadElement(const void* address, DType type) {
  switch (type.code) {
    case TypeCode::kFloat:
      if (type.bits == 64) return ReadAs<double>(address);
      if (type.bits == 32) return ReadAs<float>(address);
      return DecodeFormat(ReadAs<uint16_t>(address), type);
    case TypeCode::kBFloat:
      return DecodeFormat(ReadAs<uint16_t>(address), type);
    case TypeCode::kE4M3:
    case TypeCode::kE5M2:
    case TypeCode::kE4M3Fnuz:
    case TypeCode::kE5M2Fnuz:
      return DecodeFormat(ReadAs<uint8_t>(address), type);
    case TypeCode::kE2M1:
      return DecodeFormat(ReadAs<uint8_t>(address) & 15u, type);
    case TypeCode::kE8M0:
      return DecodePower(ReadAs<uint8_t>(address));
    case TypeCode::kBool:
      return ReadAs<uint8_t>(address) != 0;
    case TypeCode::kInt:
      if (type.bits == 8) return ReadAs<int8_t>(address);
      if (type.bits == 16) return ReadAs<int16_t>(address);
      if (type.bits == 32) return ReadAs<int32_t>(address);
      return static_cast<double>(ReadAs<int64_t>(address));
    case TypeCode::kUInt:
    case TypeCode::kHandle:
      if (type.bits == 8) return ReadAs<uint8_t>(address);
      if (type.bits == 16) return ReadAs<uint16_t>(address);
      if (type.bits == 32) return ReadAs<uint32_t>(address);
      return static_cast<double>(ReadAs<uint64_t>(address));
  }
  return 0;
}

void StoreElement(void* address, DType type, double value) {
  switch (type.code) {
    case TypeCode::kFloat:
      if (type.bits == 64) return WriteAs<double>(address, value);
      if (type.bits == 32) return WriteAs<float>(address, static_cast<float>(value));
      return WriteAs<uint16_t>(address, EncodeFormat(value, type));
    case TypeCode::kBFloat:
      return WriteAs<uint16_t>(address, EncodeFormat(value, type));
    case TypeCode::kE4M3:
    case TypeCode::kE5M2:
    case TypeCode::kE4M3Fnuz:
    case TypeCode::kE5M2Fnuz:
    case TypeCode::kE2M1:
      return WriteAs<uint8_t>(address, EncodeFormat(value, type));
    case TypeCode::kE8M0:
      return WriteAs<uint8_t>(address, EncodePower(value));
    case TypeCode::kBool:
      return WriteAs<uint8_t>(address, value != 0);
    case TypeCode::kInt: {
      const double wrapped = WrapInteger(value, type);
      if (type.bits == 8) return WriteAs<int8_t>(address, wrapped);
      if (type.bits == 16) return WriteAs<int16_t>(address, wrapped);
      if (type.bits == 32) return WriteAs<int32_t>(address, wrapped);
      return WriteAs<int64_t>(address, ClampCast<int64_t>(wrapped));
    }
    case TypeCode::kUInt:
    case TypeCode::kHandle: {
      const double wrapped = WrapInteger(value, type);
      if (type.bits == 8) return WriteAs<uint8_t>(address, wrapped);
      if (type.bits == 16) return WriteAs<uint16_t>(address, wrapped);
      if (type.bits == 32) return WriteAs<uint32_t>(address, wrapped);
      return WriteAs<uint64_t>(address, ClampCast<uint64_t>(wrapped));
    }
  }
}

}  // namespace kiln

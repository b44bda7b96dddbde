// Element types of tensors and expressions.
#ifndef KILN_COMPILER_BASE_DTYPE_H_
#define KILN_COMPILER_BASE_DTYPE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace kiln {

enum class TypeCode : uint8_t {
  kInt,
  kUInt,
  kFloat,     // IEEE: 16, 32 or 64 bits
  kBFloat,    // bfloat16
  kE4M3,      // float8_e4m3fn: no infinities, one NaN pattern
  kE5M2,      // float8_e5m2: IEEE-like
  kE4M3Fnuz,  // float8_e4m3fnuz: no infinities, no negative zero, whose pattern is the one NaN
  kE5M2Fnuz,  // float8_e5m2fnuz: the same
  kE8M0,      // float8_e8m0fnu: 2^(code - 127), no sign and no zero; 255 is NaN
  kE2M1,      // float4_e2m1: neither infinities nor NaN; 8 bits: one in the low half of a byte
  kBool,      // stored as one byte
  kHandle,    // opaque 64-bit pointer
};

// A scalar type and a lane count. Value type; compares by value.
struct DType {
  TypeCode code = TypeCode::kFloat;
  uint8_t bits = 32;
  uint16_t lanes = 1;

  bool operator==(const DType&) const = default;

  bool is_float() const {
    return code != TypeCode::kInt && code != TypeCode::kUInt && code != TypeCode::kBool &&
           code != TypeCode::kHandle;
  }
  bool is_int() const { return code == TypeCode::kInt || code == TypeCode::kUInt; }
  bool is_uint() const { return code == TypeCode::kUInt; }
  bool is_bool() const { return code == TypeCode::kBool; }
  bool is_scalar() const { return lanes == 1; }
  // Two elements lie in a byte of a tensor: int4, uint4, float4_e2m1fn.
  bool is_packed() const { return bits == 4; }

  // Bytes of one element in memory; sub-byte types round up to one byte.
  int64_t bytes() const { return (bits + 7) / 8; }
  DType element() const { return {code, bits, 1}; }
  DType with_lanes(int n) const { return {code, bits, static_cast<uint16_t>(n)}; }

  // "float32", "bfloat16", "float8_e4m3fn", "int8", "bool", "float32x16".
  std::string ToString() const;
};

inline constexpr DType kInt32{TypeCode::kInt, 32};
inline constexpr DType kInt64{TypeCode::kInt, 64};
inline constexpr DType kInt8{TypeCode::kInt, 8};
inline constexpr DType kUInt8{TypeCode::kUInt, 8};
inline constexpr DType kUInt32{TypeCode::kUInt, 32};
inline constexpr DType kUInt64{TypeCode::kUInt, 64};
inline constexpr DType kFloat16{TypeCode::kFloat, 16};
inline constexpr DType kFloat32{TypeCode::kFloat, 32};
inline constexpr DType kFloat64{TypeCode::kFloat, 64};
inline constexpr DType kBFloat16{TypeCode::kBFloat, 16};
inline constexpr DType kBool{TypeCode::kBool, 8};
inline constexpr DType kHandle{TypeCode::kHandle, 64};

// Parses a TileLang dtype name, with the spellings "float", "half", "int", "long", "short",
// "float8_e4m3" included. nullopt for an unknown name.
std::optional<DType> ParseDType(absl::string_view name);

// Round-trips a double through the storage type: float32 rounding for kFloat32, round-to-nearest-
// even for float16/bfloat16/float8/float4 (of 8 bits and less they saturate, as cvt's satfinite of
// PTX), truncation and wrap-around for integers, 0/1 for bool. float8_e8m0fnu takes the size of
// what float32 holds of the value up to a power of two, 0 to the least (cvt.rp.satfinite.ue8m0x2 of
// PTX); float4_e2m1 takes NaN to its largest number.
double RoundToType(double value, DType type);

// The distance from 1 to the next number of a float type; 0 of types that are exact.
double EpsilonOf(DType type);

// Reads one element of `type`, which is not packed, at `address` as a double, and stores one
// (rounding as RoundToType).
// 64-bit integers lose precision above 2^53; use the typed accessors of the caller for those.
double LoadElement(const void* address, DType type);
void StoreElement(void* address, DType type, double value);

}  // namespace kiln

#endif  // KILN_COMPILER_BASE_DTYPE_H_

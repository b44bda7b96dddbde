#include "worker/profile/seeded.h"

#include <cmath>
#include <cstring>

namespace kiln::worker {
namespace {

uint64_t Mix(uint64_t z) {  // the finaliser of SplitMix64
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

uint64_t StreamOf(uint64_t seed, int parameter) {
  return Mix(seed * 0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(parameter) + 1);
}

uint64_t Bits(uint64_t stream, int64_t index) {
  return Mix(stream + static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15ULL);
}

// Uniform in [-1, 1) with 24 bits: exact in float32.
float UniformFloat(uint64_t bits) {
  return static_cast<float>(static_cast<int64_t>(bits >> 40) - (int64_t{1} << 23)) * 0x1p-23f;
}

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// The bits of a float32 of no NaN with `dropped` fewer of its mantissa, to nearest, ties to even.
// The dropped ones are of no meaning.
uint32_t RoundedBits(float value, int dropped) {
  const uint32_t bits = BitsOf(value);
  return bits + ((1u << (dropped - 1)) - 1) + (bits >> dropped & 1);
}

double RawValue(DType type, uint64_t bits) {
  if (type.is_float()) return UniformFloat(bits);
  if (type.is_bool()) return static_cast<double>(bits >> 63);
  if (type.is_uint()) return static_cast<double>((bits >> 32) % 9);
  return static_cast<double>(static_cast<int64_t>((bits >> 32) % 17) - 8);
}

// A float type of `kBits` with `kDropped` fewer bits of mantissa than float32 and 2^-`kLeast` the
// least normal number, for numbers of UniformFloat: finite, at most 1, multiples of 2^-23.
template <typename Type, int kBits, int kDropped, int kLeast>
struct Narrow {
  using Word = Type;
  // To nearest, ties to even.
  static float Round(float value) {
    constexpr int kMantissa = 23 - kDropped;
    if constexpr (kLeast < 24) {  // else no number is subnormal
      // Adding as much as makes a unit of the last place one of the subnormals' rounds to it.
      constexpr float kAnchor = 1.5f * static_cast<float>(int64_t{1} << 23) /
                                static_cast<float>(int64_t{1} << (kLeast + kMantissa));
      const float subnormal = std::copysign((value + kAnchor) - kAnchor, value);
      const bool small = std::abs(value) < 1.0f / static_cast<float>(int64_t{1} << kLeast);
      return small ? subnormal : FromBits(RoundedBits(value, kDropped) & ~Dropped());
    }
    return FromBits(RoundedBits(value, kDropped) & ~Dropped());
  }
  // The code of a number that Round gave.
  static Word Code(float value) {
    constexpr int kMantissa = 23 - kDropped;
    const uint32_t bits = BitsOf(value), sign = bits >> (32 - kBits) & (1u << (kBits - 1));
    const uint32_t magnitude = (bits & 0x7fffffff) >> kDropped;
    if constexpr (kLeast < 24) {
      constexpr uint32_t kBias = static_cast<uint32_t>(127 - kLeast - 1) << kMantissa;
      constexpr auto kUnits = static_cast<float>(int64_t{1} << (kLeast + kMantissa));
      const bool small = std::abs(value) < 1.0f / static_cast<float>(int64_t{1} << kLeast);
      const auto subnormal = static_cast<uint32_t>(std::abs(value) * kUnits);
      return static_cast<Word>(sign | (small ? subnormal : magnitude - kBias));
    }
    return static_cast<Word>(sign | magnitude);
  }

 private:
  static constexpr uint32_t Dropped() { return (1u << kDropped) - 1; }
};
struct NarrowFloat32 {
  using Word = float;
  static float Round(float value) { return value; }
  static float Code(float value) { return value; }
};
using NarrowBFloat16 = Narrow<uint16_t, 16, 16, 126>;
using NarrowFloat16 = Narrow<uint16_t, 16, 13, 14>;
using NarrowE4M3 = Narrow<uint8_t, 8, 20, 6>;
using NarrowE5M2 = Narrow<uint8_t, 8, 21, 14>;

// Calls body with the type's Narrow, where it has one.
template <typename Body>
bool WithNarrow(DType type, const Body& body) {
  if (type == kFloat32) {
    body(NarrowFloat32());
  } else if (type == kBFloat16) {
    body(NarrowBFloat16());
  } else if (type == kFloat16) {
    body(NarrowFloat16());
  } else if (type.code == TypeCode::kE4M3) {
    body(NarrowE4M3());
  } else if (type.code == TypeCode::kE5M2) {
    body(NarrowE5M2());
  } else {
    return false;
  }
  return true;
}

template <typename Narrow>
__attribute__((always_inline)) inline void FillBody(uint64_t stream, int64_t first, int64_t count,
                                                    typename Narrow::Word* out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = Narrow::Code(Narrow::Round(UniformFloat(Bits(stream, first + i))));
  }
}
template <typename Narrow>
__attribute__((always_inline)) inline void ValuesBody(uint64_t stream, int64_t first, int64_t step,
                                                      int64_t count, double* out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = double{Narrow::Round(UniformFloat(Bits(stream, first + i * step)))};
  }
}

// With the widest multiplications that the processor has: a number costs three of 64 bits.
#if defined(__x86_64__)
#define KILN_WIDE __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw")))
#define KILN_AVX2 __attribute__((target("avx2")))
template <typename Narrow>
KILN_WIDE void FillWide(uint64_t stream, int64_t first, int64_t count, typename Narrow::Word* out) {
  FillBody<Narrow>(stream, first, count, out);
}
template <typename Narrow>
KILN_AVX2 void FillAvx2(uint64_t stream, int64_t first, int64_t count, typename Narrow::Word* out) {
  FillBody<Narrow>(stream, first, count, out);
}
template <typename Narrow>
KILN_WIDE void ValuesWide(uint64_t stream, int64_t first, int64_t step, int64_t count,
                          double* out) {
  ValuesBody<Narrow>(stream, first, step, count, out);
}
template <typename Narrow>
KILN_AVX2 void ValuesAvx2(uint64_t stream, int64_t first, int64_t step, int64_t count,
                          double* out) {
  ValuesBody<Narrow>(stream, first, step, count, out);
}
bool HasWide() {
  return __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bw");
}
#endif

template <typename Narrow>
void QuickFill(uint64_t stream, int64_t first, int64_t count, typename Narrow::Word* out) {
#if defined(__x86_64__)
  if (HasWide()) return FillWide<Narrow>(stream, first, count, out);
  if (__builtin_cpu_supports("avx2")) return FillAvx2<Narrow>(stream, first, count, out);
#endif
  FillBody<Narrow>(stream, first, count, out);
}

template <typename Narrow>
void QuickValues(uint64_t stream, int64_t first, int64_t step, int64_t count, double* out) {
#if defined(__x86_64__)
  if (HasWide()) return ValuesWide<Narrow>(stream, first, step, count, out);
  if (__builtin_cpu_supports("avx2")) return ValuesAvx2<Narrow>(stream, first, step, count, out);
#endif
  ValuesBody<Narrow>(stream, first, step, count, out);
}

}  // namespace

double SeededValue(uint64_t seed, int parameter, DType type, int64_t index) {
  return RoundToType(RawValue(type, Bits(StreamOf(seed, parameter), index)), type);
}

void FillSeeded(uint64_t seed, int parameter, DType type, int64_t first, int64_t count, void* out) {
  const uint64_t stream = StreamOf(seed, parameter);
  uint8_t* bytes = static_cast<uint8_t*>(out);
  const bool quick = WithNarrow(type, [&](auto narrow) {
    using Narrow = decltype(narrow);
    QuickFill<Narrow>(stream, first, count, static_cast<typename Narrow::Word*>(out));
  });
  if (quick) return;
  for (int64_t i = 0; i < count; ++i) {
    StoreElement(bytes + i * type.bytes(), type, RawValue(type, Bits(stream, first + i)));
  }
}

void SeededValues(uint64_t seed, int parameter, DType type, int64_t first, int64_t step,
                  int64_t count, double* out) {
  const uint64_t stream = StreamOf(seed, parameter);
  const bool quick = WithNarrow(
      type, [&](auto narrow) { QuickValues<decltype(narrow)>(stream, first, step, count, out); });
  if (quick) return;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = RoundToType(RawValue(type, Bits(stream, first + i * step)), type);
  }
}

}  // namespace kiln::worker

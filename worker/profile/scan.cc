#include "worker/profile/scan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "worker/profile/parallel.h"

namespace kiln::worker {
namespace {

constexpr int64_t kStretch = 4096;  // elements of a quick look

template <typename Word>
Word WordAt(const uint8_t* bytes, int64_t i) {
  Word word;
  std::memcpy(&word, bytes + i * static_cast<int64_t>(sizeof(Word)), sizeof(Word));
  return word;
}

float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// The numbers of the three types that most outputs have, as float32. Infinities and NaNs of float16
// come out as something else: Special tells them.
struct OfFloat32 {
  using Word = uint32_t;
  static constexpr Word kSpecial = 0x7f800000;
  static float Value(Word word) { return FromBits(word); }
};
struct OfBFloat16 {
  using Word = uint16_t;
  static constexpr Word kSpecial = 0x7f80;
  static float Value(Word word) { return FromBits(uint32_t{word} << 16); }
};
struct OfFloat16 {
  using Word = uint16_t;
  static constexpr Word kSpecial = 0x7c00;
  static float Value(Word word) {
    const float magnitude = FromBits((word & 0x7fffu) << 13) * 0x1p112f;
    return word & 0x8000 ? -magnitude : magnitude;
  }
};

// Infinite or NaN.
template <typename Type>
bool Special(typename Type::Word word) {
  return (word & Type::kSpecial) == Type::kSpecial;
}

template <typename Type>
bool AnySpecial(const uint8_t* bytes, int64_t first, int64_t last) {
  int found = 0;
  for (int64_t i = first; i < last; ++i) {
    found |= Special<Type>(WordAt<typename Type::Word>(bytes, i)) ? 1 : 0;
  }
  return found != 0;
}

// False only where all are within the tolerance: a little stricter than it is in float64.
template <typename Type>
bool AnyDifference(const uint8_t* a, const uint8_t* b, float rtol, float atol, int64_t first,
                   int64_t last) {
  int found = 0;
  for (int64_t i = first; i < last; ++i) {
    const auto x = WordAt<typename Type::Word>(a, i), y = WordAt<typename Type::Word>(b, i);
    const float got = Type::Value(x), want = Type::Value(y);
    const bool fine = std::abs(got - want) <= atol + rtol * std::abs(want);
    found |= !fine || Special<Type>(x) || Special<Type>(y) ? 1 : 0;
  }
  return found != 0;
}

template <typename Word>
bool AnyEqual(const uint8_t* bytes, Word pattern, int64_t first, int64_t last) {
  int found = 0;
  for (int64_t i = first; i < last; ++i) found |= WordAt<Word>(bytes, i) == pattern ? 1 : 0;
  return found != 0;
}

// Visits, in order, the elements of those stretches that `suspect(first, last)` does not clear,
// until `visit(flat)` returns false.
template <typename Suspect, typename Visit>
void ForSuspects(int64_t elements, const Suspect& suspect, const Visit& visit) {
  const int64_t stretches = (elements + kStretch - 1) / kStretch;
  std::vector<uint8_t> suspects(static_cast<size_t>(stretches), 0);
  ParallelFor(elements, [&](int64_t first, int64_t last) {
    // Pieces begin at multiples of 64, not of a stretch.
    for (int64_t at = first; at < last;) {
      const int64_t end = std::min(last, (at / kStretch + 1) * kStretch);
      if (suspect(at, end)) {
        __atomic_store_n(&suspects[static_cast<size_t>(at / kStretch)], 1, __ATOMIC_RELAXED);
      }
      at = end;
    }
  });
  for (int64_t s = 0; s < stretches; ++s) {
    if (suspects[static_cast<size_t>(s)] == 0) continue;
    for (int64_t i = s * kStretch; i < std::min(elements, (s + 1) * kStretch); ++i) {
      if (!visit(i)) return;
    }
  }
}

template <typename Type>
double SumOf(const uint8_t* bytes, int64_t first, absl::Span<const double> factors) {
  double sums[8] = {};  // independent of each other, so that the loop vectorises
  const auto count = static_cast<int64_t>(factors.size());
  for (int64_t i = 0; i < count; ++i) {
    sums[i % 8] += factors[static_cast<size_t>(i)] *
                   double{Type::Value(WordAt<typename Type::Word>(bytes, first + i))};
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// Calls body with the type's reader where there is a quick one for it; else returns `otherwise`.
template <typename Result, typename Body>
Result ByType(const TensorShape& shape, Result otherwise, const Body& body) {
  if (!shape.dense) return otherwise;
  if (shape.type == kFloat32) return body(OfFloat32());
  if (shape.type == kBFloat16) return body(OfBFloat16());
  if (shape.type == kFloat16) return body(OfFloat16());
  return otherwise;
}

}  // namespace

bool Tolerance::Accepts(double got, double expected) const {
  if (std::isnan(got) || std::isnan(expected)) return std::isnan(got) && std::isnan(expected);
  if (got == expected) return true;  // infinities included
  if (std::isinf(got) || std::isinf(expected)) return false;
  return std::abs(got - expected) <= atol + rtol * std::abs(expected);
}

double ElementAt(const TensorShape& shape, const Bytes& bytes, int64_t flat) {
  return LoadElement(&bytes[static_cast<size_t>(shape.OffsetOf(flat) * shape.type.bytes())],
                     shape.type);
}

std::vector<int64_t> PoisonedElements(const TensorShape& shape, const Bytes& bytes,
                                      uint8_t poison) {
  const int64_t width = shape.type.bytes();
  const std::vector<uint8_t> pattern(static_cast<size_t>(width), poison);
  std::vector<int64_t> found;
  const auto suspect = [&](int64_t first, int64_t last) {
    if (!shape.dense) return true;
    const uint64_t wide = poison * 0x0101010101010101u;
    switch (width) {
      case 1:
        return AnyEqual<uint8_t>(bytes.data(), poison, first, last);
      case 2:
        return AnyEqual<uint16_t>(bytes.data(), static_cast<uint16_t>(wide), first, last);
      case 4:
        return AnyEqual<uint32_t>(bytes.data(), static_cast<uint32_t>(wide), first, last);
      default:
        return AnyEqual<uint64_t>(bytes.data(), wide, first, last);
    }
  };
  ForSuspects(shape.elements, suspect, [&](int64_t i) {
    const auto at = static_cast<size_t>(shape.OffsetOf(i) * width);
    if (std::memcmp(&bytes[at], pattern.data(), pattern.size()) == 0) found.push_back(i);
    return true;
  });
  return found;
}

std::vector<int64_t> FindNaNs(const TensorShape& shape, const Bytes& bytes,
                              const std::vector<int64_t>& known, size_t limit) {
  std::vector<int64_t> found;
  const auto suspect = [&](int64_t first, int64_t last) {
    return ByType(shape, true,
                  [&](auto type) { return AnySpecial<decltype(type)>(bytes.data(), first, last); });
  };
  ForSuspects(shape.elements, suspect, [&](int64_t i) {
    if (std::isnan(ElementAt(shape, bytes, i)) &&
        !std::binary_search(known.begin(), known.end(), i)) {
      found.push_back(i);
    }
    return found.size() < limit;
  });
  return found;
}

std::vector<int64_t> FindDifferences(const TensorShape& shape, const Bytes& bytes,
                                     const Bytes& peer, const Tolerance& tolerance, size_t limit) {
  constexpr float kStricter = 1 - 1e-5f;
  const float rtol = static_cast<float>(tolerance.rtol) * kStricter;
  const float atol = static_cast<float>(tolerance.atol) * kStricter;
  std::vector<int64_t> found;
  const int64_t width = shape.type.bytes();
  const auto suspect = [&](int64_t first, int64_t last) {
    const auto at = static_cast<size_t>(first * width);
    const auto size = static_cast<size_t>((last - first) * width);
    if (shape.dense && std::memcmp(&bytes[at], &peer[at], size) == 0) return false;
    return ByType(shape, true, [&](auto type) {
      return AnyDifference<decltype(type)>(bytes.data(), peer.data(), rtol, atol, first, last);
    });
  };
  ForSuspects(shape.elements, suspect, [&](int64_t i) {
    if (!tolerance.Accepts(ElementAt(shape, bytes, i), ElementAt(shape, peer, i))) {
      found.push_back(i);
    }
    return found.size() < limit;
  });
  return found;
}

double WeightedSum(const TensorShape& shape, const Bytes& bytes, int64_t first,
                   absl::Span<const double> factors) {
  const auto count = static_cast<int64_t>(factors.size());
  const std::optional<double> quick =
      ByType(shape, std::optional<double>(), [&](auto type) -> std::optional<double> {
        using Type = decltype(type);
        if (AnySpecial<Type>(bytes.data(), first, first + count)) return std::nan("");
        return SumOf<Type>(bytes.data(), first, factors);
      });
  if (quick.has_value()) return *quick;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += factors[static_cast<size_t>(i)] * ElementAt(shape, bytes, first + i);
  }
  return std::isfinite(sum) ? sum : std::nan("");
}

}  // namespace kiln::worker

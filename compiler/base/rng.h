// A seeded random generator with a fixed algorithm: the same seed gives the same numbers on every
// platform and library version (std::shuffle and the std distributions do not promise that).
#ifndef KILN_COMPILER_BASE_RNG_H_
#define KILN_COMPILER_BASE_RNG_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace kiln {

// SplitMix64. Value type, not thread-safe; one owner draws from one Rng.
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  // Uniform in [0, bound); bound > 0. Rejection-sampled, so there is no modulo bias.
  uint64_t Below(uint64_t bound) {
    const uint64_t threshold = (0 - bound) % bound;
    for (;;) {
      const uint64_t value = Next();
      if (value >= threshold) return value % bound;
    }
  }

  // Uniform in [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

  // Fisher-Yates.
  template <typename T>
  void Shuffle(std::vector<T>* items) {
    for (size_t i = items->size(); i > 1; --i) std::swap((*items)[i - 1], (*items)[Below(i)]);
  }

 private:
  uint64_t state_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_BASE_RNG_H_

// Exact integer helpers shared by the layout operations. Every layout keeps its size, its copies
// and its reach on every axis below kMaxReach, so sums of two of them never overflow.
#ifndef KILN_COMPILER_LAYOUT_INTEGERS_H_
#define KILN_COMPILER_LAYOUT_INTEGERS_H_

#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/types/span.h"

namespace kiln::layout {

inline constexpr int64_t kMaxReach = int64_t{1} << 60;
inline constexpr int64_t kMaxCopies = int64_t{1} << 20;

// Quotient towards minus infinity and its remainder in [0, b); b > 0.
inline int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b < 0); }
inline int64_t FloorMod(int64_t a, int64_t b) { return a % b + (a % b < 0 ? b : 0); }

inline bool IsPowerOfTwo(int64_t a) { return a > 0 && (a & (a - 1)) == 0; }
inline int Log2(int64_t a) { return 63 - __builtin_clzll(static_cast<uint64_t>(a)); }

// The product, or -1 when a factor is not positive or the product passes kMaxReach.
inline int64_t CheckedProduct(absl::Span<const int64_t> factors) {
  int64_t product = 1;
  for (const int64_t f : factors) {
    if (f <= 0 || __builtin_mul_overflow(product, f, &product) || product > kMaxReach) return -1;
  }
  return product;
}

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_INTEGERS_H_

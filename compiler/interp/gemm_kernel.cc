#include "compiler/interp/gemm_kernel.h"

#include <algorithm>
#include <cstring>

namespace kiln::interp {
namespace {

constexpr int kRows = 4;
constexpr int kVector = 4;  // doubles
constexpr int kColumns = 2 * kVector;
constexpr int64_t kDepth = 256;  // of b that is packed at once: 16 KiB, half of a first cache

using Vec = double __attribute__((vector_size(kVector * sizeof(double))));

// Four doubles at any address.
__attribute__((always_inline)) inline Vec Load(const double* p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
__attribute__((always_inline)) inline void Store(double* p, const Vec& v) {
  std::memcpy(p, &v, sizeof v);
}

// A tile of kRows x kColumns in registers: `depth` of the k columns of a, times as many packed rows
// of b.
__attribute__((always_inline)) inline void Tile(int64_t n, int64_t k, int64_t depth,
                                                const double* a, const double* b, double* c) {
  Vec sum[kRows][2];
  for (int r = 0; r < kRows; ++r) {
    sum[r][0] = Load(c + r * n);
    sum[r][1] = Load(c + r * n + kVector);
  }
  for (int64_t p = 0; p < depth; ++p) {
    const Vec b0 = Load(b + p * kColumns);
    const Vec b1 = Load(b + p * kColumns + kVector);
    for (int r = 0; r < kRows; ++r) {
      const double x = a[r * k + p];
      const Vec wide = {x, x, x, x};
      sum[r][0] += wide * b0;
      sum[r][1] += wide * b1;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    Store(c + r * n, sum[r][0]);
    Store(c + r * n + kVector, sum[r][1]);
  }
}

// Rows [r0, r1) and columns [c0, c1), one element at a time but vectorisable along a row.
template <typename T>
__attribute__((always_inline)) inline void Edge(int64_t n, int64_t k, int64_t r0, int64_t r1,
                                                int64_t c0, int64_t c1, const T* a, const T* b,
                                                T* c) {
  for (int64_t i = r0; i < r1; ++i) {
    for (int64_t p = 0; p < k; ++p) {
      const T x = a[i * k + p];
      for (int64_t j = c0; j < c1; ++j) c[i * n + j] += x * b[p * n + j];
    }
  }
}

__attribute__((always_inline)) inline void Gemm(int64_t m, int64_t n, int64_t k, const double* a,
                                                const double* b, double* c) {
  const int64_t rows = m / kRows * kRows, columns = n / kColumns * kColumns;
  alignas(64) double packed[kDepth * kColumns];
  for (int64_t first = 0; first < k; first += kDepth) {
    const int64_t depth = std::min(kDepth, k - first);
    for (int64_t j = 0; j < columns; j += kColumns) {
      const double* panel = b + first * n + j;
      for (int64_t p = 0; p < depth; ++p) {
        std::memcpy(packed + p * kColumns, panel + p * n, kColumns * sizeof(double));
      }
      for (int64_t i = 0; i < rows; i += kRows) {
        Tile(n, k, depth, a + i * k + first, packed, c + i * n + j);
      }
    }
  }
  Edge(n, k, 0, rows, columns, n, a, b, c);
  Edge(n, k, rows, m, 0, n, a, b, c);
}

#if defined(__x86_64__)
// Wider registers, the same operations: no fused multiply-add, so the same results.
__attribute__((target("avx2"))) void GemmAvx2(int64_t m, int64_t n, int64_t k, const double* a,
                                              const double* b, double* c) {
  Gemm(m, n, k, a, b, c);
}
bool HasAvx2() { return __builtin_cpu_supports("avx2"); }
#endif

}  // namespace

void GemmF64(int64_t m, int64_t n, int64_t k, const double* a, const double* b, double* c) {
#if defined(__x86_64__)
  if (HasAvx2()) return GemmAvx2(m, n, k, a, b, c);
#endif
  Gemm(m, n, k, a, b, c);
}

void GemmI64(int64_t m, int64_t n, int64_t k, const int64_t* a, const int64_t* b, int64_t* c) {
  // Unsigned arithmetic, so that a sum beyond 64 bits wraps around.
  Edge(n, k, 0, m, 0, n, reinterpret_cast<const uint64_t*>(a), reinterpret_cast<const uint64_t*>(b),
       reinterpret_cast<uint64_t*>(c));
}

}  // namespace kiln::interp

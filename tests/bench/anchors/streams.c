#include "tests/bench/anchors/streams.h"

enum { kLanes = 64 };

static void read_all(const float* x, int64_t count) {
  float sums[kLanes] = {0};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += x[i + lane];
  }
  for (; i < count; ++i) sums[0] += x[i];
  for (int lane = 0; lane < kLanes; ++lane) __asm__ volatile("" : : "x"(sums[lane])); /* used */
}

static void copy_all(const float* restrict x, float* restrict y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] * 0.5f;
}

static void multiply_all(const float* restrict a, const float* restrict b, float* restrict y,
                         int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = a[i] * b[i];
}

#ifdef __clang__
const struct kiln_streams kiln_streams_clang = {"clang", read_all, copy_all, multiply_all};
#else
const struct kiln_streams kiln_streams_gcc = {"gcc", read_all, copy_all, multiply_all};
#endif

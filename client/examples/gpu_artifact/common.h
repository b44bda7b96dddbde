/* What the examples in C and C++ share: the problem, and a check of its result on the CPU. */
#ifndef KILN_EXAMPLE_COMMON_H_
#define KILN_EXAMPLE_COMMON_H_

#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { M = 256, N = 512, K = 384 };

#define CUDA(call)                                                    \
  do {                                                                \
    cudaError_t error_ = (call);                                      \
    if (error_ != cudaSuccess) {                                      \
      fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_)); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

/* Small integers: their products and sums are exact, whatever the order. */
static inline float element(int row, int column, int seed) {
  return (float)((row * 7 + column * 3 + seed) % 5 - 2);
}

/* C[M, N] = A[M, K] B[N, K]^T */
static inline int wrong(const float* c) {
  int count = 0;
  for (int i = 0; i < M; ++i) {
    for (int j = 0; j < N; ++j) {
      float sum = 0;
      for (int k = 0; k < K; ++k) sum += element(i, k, 1) * element(j, k, 2);
      count += fabsf(c[i * N + j] - sum) > 0;
    }
  }
  return count;
}

#endif

/* A small C program that links a fetched winner through its generated header, runs it, and checks
 * its numbers at sampled places against plain arithmetic in double.
 *
 * Compiled once a winner: -DHEADER="\"kiln_matmul.h\"" -DKERNEL=kiln_matmul -DOP_gemm -DM=.. ... */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include HEADER

static unsigned state = 1;
static float next_random(void) {
  state = state * 1664525u + 1013904223u;
  return (float)(state >> 8) / 8388608.0f - 1.0f;
}

static float* tensor(long count) {
  float* x = aligned_alloc(64, ((size_t)count * 4 + 63) / 64 * 64);
  if (!x) {
    fprintf(stderr, "out of memory\n");
    exit(2);
  }
  for (long i = 0; i < count; ++i) x[i] = next_random();
  return x;
}

static int wrong;
static void expect(const char* what, long i, long j, float got, double want, double scale) {
  if (fabs(got - want) <= 2e-5 * scale + 1e-5 * fabs(want)) return;
  if (!wrong++) fprintf(stderr, "%s[%ld,%ld]: got %.9g, want %.9g\n", what, i, j, got, want);
}

int main(void) {
  int code;
  long samples = 2000;
#if defined(OP_gemm)
  float *a = tensor((long)M * K), *b = tensor((long)K * N), *c = tensor((long)M * N);
  code = KERNEL(NULL, a, b, c);
  for (long s = 0; s < samples; ++s) {
    const long i = s == 0 ? M - 1 : rand() % M, j = s == 0 ? N - 1 : rand() % N;
    double sum = 0;
    for (long k = 0; k < K; ++k) sum += (double)a[i * K + k] * b[k * N + j];
    expect("C", i, j, c[i * N + j], sum, sqrt((double)K));
  }
#elif defined(OP_rowsum)
  float *x = tensor((long)M * N), *y = tensor(M);
  code = KERNEL(NULL, x, y);
  samples = M;
  for (long i = 0; i < M; ++i) {
    double sum = 0;
    for (long j = 0; j < N; ++j) sum += x[i * N + j];
    expect("out", i, 0, y[i], sum, sqrt((double)N));
  }
#elif defined(OP_swiglu)
  float *gate = tensor((long)M * N), *up = tensor((long)M * N), *y = tensor((long)M * N);
  code = KERNEL(NULL, gate, up, y);
  samples = (long)M * N;
  for (long i = 0; i < samples; ++i) {
    expect("out", i / N, i % N, y[i], gate[i] / (1 + exp(-(double)gate[i])) * up[i], 1);
  }
#else /* softmax, rmsnorm: whole rows */
  float *x = tensor((long)M * N), *y = tensor((long)M * N);
#if defined(OP_rmsnorm)
  float* weight = tensor(N);
  code = KERNEL(NULL, x, weight, y);
#else
  code = KERNEL(NULL, x, y);
#endif
  samples = 64 * N;
  for (long s = 0; s < 64; ++s) {
    const long i = s == 0 ? M - 1 : rand() % M;
    double sum = 0;
#if defined(OP_rmsnorm)
    for (long j = 0; j < N; ++j) sum += (double)x[i * N + j] * x[i * N + j];
    const double scale = 1 / sqrt(sum / N + 1e-6);
    for (long j = 0; j < N; ++j)
      expect("out", i, j, y[i * N + j], x[i * N + j] * scale * weight[j], 1);
#else
    for (long j = 0; j < N; ++j) sum += exp(x[i * N + j]);
    for (long j = 0; j < N; ++j)
      expect("out", i, j, y[i * N + j], exp(x[i * N + j]) / sum, 1.0 / N);
#endif
  }
#endif
  if (code != 0) {
    fprintf(stderr, "the kernel returned error %d\n", code);
    return 1;
  }
  if (wrong) {
    fprintf(stderr, "%d of %ld elements are wrong\n", wrong, samples);
    return 1;
  }
  printf("%ld elements right\n", samples);
  return 0;
}

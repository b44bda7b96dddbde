/* Calls the tuned kernel and checks its numbers against the three loops that it replaces. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "gemm.h"

enum { M = 96, N = 80, K = 64 };

int main(void) {
  float* a = malloc(sizeof(float) * M * K);
  float* b = malloc(sizeof(float) * K * N);
  float* c = malloc(sizeof(float) * M * N);
  if (a == NULL || b == NULL || c == NULL) return 2;
  for (int i = 0; i < M * K; ++i) a[i] = (float)(i % 17) / 8.0f - 1.0f;
  for (int i = 0; i < K * N; ++i) b[i] = (float)(i % 13) / 4.0f - 1.5f;
  for (int i = 0; i < M * N; ++i) c[i] = NAN;

  const int32_t code = kiln_matmul(NULL, a, b, c);
  if (code != 0) {
    fprintf(stderr, "kiln_matmul returned %d\n", (int)code);
    return 1;
  }
  double worst = 0;
  for (int i = 0; i < M; ++i) {
    for (int j = 0; j < N; ++j) {
      double want = 0;
      for (int k = 0; k < K; ++k) want += (double)a[i * K + k] * (double)b[k * N + j];
      const double error = fabs((double)c[i * N + j] - want);
      if (!(error <= worst)) worst = error;
    }
  }
  printf("largest error %g\n", worst);
  free(a);
  free(b);
  free(c);
  return worst < 1e-3 ? 0 : 1;
}

/* Calls the artifact by its C function. */
#include "common.h"
#include "matmul.h"

/* Round to nearest is not needed: the values are small integers. */
static unsigned short bfloat16(float value) {
  union {
    float f;
    unsigned u;
  } bits = {value};
  return (unsigned short)(bits.u >> 16);
}

int main(void) {
  unsigned short* a = malloc(sizeof(short) * M * K);
  unsigned short* b = malloc(sizeof(short) * N * K);
  float* c = malloc(sizeof(float) * M * N);
  for (int i = 0; i < M * K; ++i) a[i] = bfloat16(element(i / K, i % K, 1));
  for (int i = 0; i < N * K; ++i) b[i] = bfloat16(element(i / K, i % K, 2));

  void *device_a, *device_b, *device_c;
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  CUDA(cudaMalloc(&device_a, sizeof(short) * M * K));
  CUDA(cudaMalloc(&device_b, sizeof(short) * N * K));
  CUDA(cudaMalloc(&device_c, sizeof(float) * M * N));
  CUDA(cudaMemcpyAsync(device_a, a, sizeof(short) * M * K, cudaMemcpyHostToDevice, stream));
  CUDA(cudaMemcpyAsync(device_b, b, sizeof(short) * N * K, cudaMemcpyHostToDevice, stream));

  kiln_launch launch = {.size = sizeof(launch), .version = 1, .stream = stream};
  const int status = kiln_matmul(&launch, device_a, device_b, device_c);
  if (status != KILN_OK) {
    fprintf(stderr, "kiln_matmul: error %d\n", status);
    return 1;
  }
  CUDA(cudaMemcpyAsync(c, device_c, sizeof(float) * M * N, cudaMemcpyDeviceToHost, stream));
  CUDA(cudaStreamSynchronize(stream));
  printf("call.c: %d of %d elements wrong\n", wrong(c), M * N);
  return wrong(c) != 0;
}

/* Kernels in the launch ABI, for the tests of the host device. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "compiler/codegen/runtime/kiln_launch.h"

int32_t kernel_add(const kiln_launch* launch, const float* a, float* b, int64_t n) {
  if (launch->size != sizeof(kiln_launch) || launch->version != 1) return KILN_ERROR_ARGUMENT;
  for (int64_t i = 0; i < n; ++i) b[i] = a[i] + 1;
  return KILN_OK;
}

int32_t kernel_threads(const kiln_launch* launch, int64_t* out) {
  *out = launch->threads;
  return KILN_OK;
}

int32_t kernel_fail(const kiln_launch* launch, int64_t code) { return (int32_t)code; }

/* Twelve arguments: six go in registers, the rest on the stack. */
int32_t kernel_many(const kiln_launch* launch, int64_t* out, int64_t a, int64_t b, int64_t c,
                    int64_t d, int64_t e, int64_t f, int64_t g, int64_t h, int64_t i, int64_t j,
                    int64_t k) {
  *out = a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k;
  return KILN_OK;
}

int32_t kernel_spin(const kiln_launch* launch, int64_t microseconds) {
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 <
           microseconds);
  return KILN_OK;
}

/* Candidates that misbehave, for the tests of the real runner. */
int32_t kernel_crash(const kiln_launch* launch, const float* a, float* b) {
  *(volatile int*)0 = 1;
  return KILN_OK;
}

int32_t kernel_illegal(const kiln_launch* launch, const float* a, float* b) { __builtin_trap(); }

int32_t kernel_abort(const kiln_launch* launch, const float* a, float* b) { abort(); }

int32_t kernel_exit(const kiln_launch* launch, const float* a, float* b) { _exit(0); }

int32_t kernel_hang(const kiln_launch* launch, const float* a, float* b) {
  for (;;) pause();
}

/* A compiler may leave out memory that nobody can see. */
static char* volatile bomb;

int32_t kernel_bomb(const kiln_launch* launch, const float* a, float* b) {
  for (;;) {
    char* block = malloc(64 << 20);
    if (!block) return KILN_ERROR_MEMORY;
    memset(block, 1, 64 << 20);
    bomb = block;
  }
}

int32_t kernel_flood(const kiln_launch* launch, const float* a, float* b) {
  for (int i = 0; i < 1 << 20; ++i) fprintf(stderr, "the candidate talks and talks %d\n", i);
  abort();
}

/* Writes to the runner's own channel. */
int32_t kernel_forge(const kiln_launch* launch, const float* a, float* b) {
  for (int i = 0; i < 100; ++i) (void)!write(3, "\x08\x00\x00\x00garbage!", 12);
  return KILN_OK;
}

/* How often this very object was called. */
int32_t kernel_count(const kiln_launch* launch, int64_t* out) {
  static int64_t calls = 0;
  *out = ++calls;
  return KILN_OK;
}

int32_t kernel_zero(const kiln_launch* launch, const float* a, float* b) {
  memset(b, 0, 1024 * sizeof(float));
  return KILN_OK;
}

/* What a bad kernel does to a GPU, through the driver of the tests (tests/util/fake_cuda). */
int32_t kernel_break_gpu(const kiln_launch* launch, int64_t result) {
  void (*broken)(int) = (void (*)(int))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fake_cuda_break");
  broken((int)result);
  return KILN_OK;
}

int32_t kernel_hang_gpu(const kiln_launch* launch) {
  void (*hang)(void) = (void (*)(void))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fake_cuda_hang");
  hang();
  return KILN_OK;
}

/* So many kernels, each of so many microseconds of that driver's time. */
int32_t kernel_on_gpu(const kiln_launch* launch, int64_t kernels, int64_t microseconds) {
  int (*run)(void*, double) =
      (int (*)(void*, double))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fake_cuda_run");
  for (int64_t i = 0; i < kernels; ++i) {
    if (run(launch->stream, (double)microseconds) != 0) return KILN_ERROR_DEVICE;
  }
  return KILN_OK;
}

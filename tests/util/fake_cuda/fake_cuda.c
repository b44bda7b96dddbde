/* A CUDA driver without a GPU, for tests: libcuda.so.1 as far as the runner uses it. The memory of
 * its one device is the host's, and streams run at once. Kernels of tests are plain C and call
 * fake_cuda_break() or fake_cuda_hang() to behave as a bad kernel does on a GPU. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int Result;
enum { OK = 0, INVALID = 1, OUT_OF_MEMORY = 2, NOT_READY = 600 };
enum { MULTIPROCESSORS = 16, L2_BYTES = 38, MAJOR = 75, MINOR = 76 };
static const uint64_t kMemory = (uint64_t)8 << 30;

static Result broken; /* of the context, once a kernel has broken it */
static int hanging;
static uint64_t allocated;
static double canary_us = 200; /* of the canary: its clock is this, not the machine's */
static double virtual_us;      /* that kernels have taken so */

void fake_cuda_canary(double us) { canary_us = us; }
void fake_cuda_break(int result) { broken = result; }
void fake_cuda_hang(void) { hanging = 1; }

Result cuGetErrorName(Result result, const char** name) {
  *name = result == 700             ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : result == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                    : "CUDA_ERROR_UNKNOWN";
  return OK;
}
Result cuGetErrorString(Result result, const char** text) {
  *text = result == 700 ? "an illegal memory access was encountered" : "something went wrong";
  return OK;
}
Result cuInit(unsigned flags) { return flags ? INVALID : OK; }
Result cuDriverGetVersion(int* version) { return *version = 13000, OK; }
Result cuDeviceGetCount(int* count) { return *count = 1, OK; }
Result cuDeviceGet(int* device, int ordinal) { return *device = ordinal, ordinal ? 101 : OK; }
Result cuDeviceGetName(char* name, int size, int device) {
  (void)device;
  strncpy(name, "Fake H200", (size_t)size);
  return OK;
}
Result cuDeviceGetAttribute(int* value, int what, int device) {
  (void)device;
  *value = what == MULTIPROCESSORS ? 66 : what == L2_BYTES ? 1 << 20 : what == MAJOR ? 9 : 0;
  return OK;
}
Result cuDeviceGetPCIBusId(char* id, int size, int device) {
  (void)device;
  strncpy(id, "0000:00:00.0", (size_t)size);
  return OK;
}
Result cuDevicePrimaryCtxRetain(void** context, int device) {
  (void)device;
  return *context = &broken, OK;
}
Result cuCtxSetCurrent(void* context) { return context ? OK : INVALID; }
Result cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  return *free_bytes = kMemory - allocated, *total = kMemory, OK;
}
Result cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  if (allocated + bytes > kMemory) return OUT_OF_MEMORY;
  uint64_t* block = aligned_alloc(256, (bytes + 511) / 256 * 256);
  if (!block) return OUT_OF_MEMORY;
  block[0] = bytes;
  allocated += bytes;
  return *address = (uint64_t)(uintptr_t)block + 256, OK;
}
Result cuMemFree_v2(uint64_t address) {
  uint64_t* block = (uint64_t*)(uintptr_t)(address - 256);
  allocated -= block[0];
  free(block);
  return OK;
}
Result cuMemHostAlloc(void** memory, size_t bytes, unsigned flags) {
  (void)flags;
  return (*memory = malloc(bytes)) ? OK : OUT_OF_MEMORY;
}
Result cuMemHostGetDevicePointer_v2(uint64_t* address, void* memory, unsigned flags) {
  (void)flags;
  return *address = (uint64_t)(uintptr_t)memory, OK;
}
Result cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  (void)stream;
  return memcpy((void*)(uintptr_t)to, from, bytes), OK;
}
Result cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  (void)stream;
  return memcpy(to, (void*)(uintptr_t)from, bytes), OK;
}
Result cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  return cuMemcpyHtoDAsync_v2(to, (void*)(uintptr_t)from, bytes, stream);
}
Result cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, void* stream) {
  (void)stream;
  return memset((void*)(uintptr_t)to, byte, bytes), OK;
}
Result cuStreamCreate(void** stream, unsigned flags) {
  (void)flags;
  return *stream = &allocated, OK;
}
Result cuStreamQuery(void* stream) {
  (void)stream;
  return broken ? broken : hanging ? NOT_READY : OK;
}
Result cuStreamWaitValue32_v2(void* stream, uint64_t address, uint32_t value, unsigned flags) {
  (void)stream, (void)address, (void)value, (void)flags;
  return broken;
}
struct Event {
  struct timespec real;
  double virtual_us;
};
Result cuEventCreate(void** event, unsigned flags) {
  (void)flags;
  return (*event = calloc(1, sizeof(struct Event))) ? OK : OUT_OF_MEMORY;
}
Result cuEventRecord(void* event, void* stream) {
  (void)stream;
  struct Event* at = event;
  at->virtual_us = virtual_us;
  clock_gettime(CLOCK_MONOTONIC, &at->real);
  return broken;
}
Result cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  const struct Event *a = begin, *b = end;
  const double us = b->virtual_us - a->virtual_us;
  *milliseconds = (float)((double)(b->real.tv_sec - a->real.tv_sec) * 1e3 +
                          (double)(b->real.tv_nsec - a->real.tv_nsec) / 1e6);
  if (us > 0) *milliseconds = (float)(us / 1e3);
  return OK;
}
/* The runner's own kernels are known by name; nobody reads their PTX. */
Result cuModuleLoadData(void** module, const void* image) {
  return *module = (void*)image, image ? OK : INVALID;
}
Result cuModuleGetFunction(const char** function, void* module, const char* name) {
  (void)module;
  return *function = name, OK;
}
Result cuLaunchKernel(const char* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                      unsigned by, unsigned bz, unsigned shared, void* stream, void** arguments,
                      void** extra) {
  (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream,
      (void)extra;
  if (strcmp(function, "kiln_canary") == 0) virtual_us += canary_us;
  if (strcmp(function, "kiln_digest") != 0) return broken;
  const uint64_t* words = *(uint64_t**)arguments[0];
  const uint64_t count = 2 * *(uint64_t*)arguments[1];
  uint64_t* sum = *(uint64_t**)arguments[2];
  for (uint64_t i = 0; i < count; ++i) *sum += (words[i] ^ (i + 1)) * 0x9fb21c651e98df25u;
  return broken;
}

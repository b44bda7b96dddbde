/* Calls a winner from C, through the CUDA driver alone:
 *
 *   call_winner LIBRARY ENTRY OUTPUT BYTES INPUT...
 *
 * Each INPUT is a file with a tensor's bytes, in the order of the entry's parameters; the output is
 * the last of them. Fills it with bytes of 0xFF first, calls once, writes OUTPUT, and prints the
 * microseconds that a launch takes, and those until the call is back, means of twenty more. Exit
 * code 1 and a sentence when anything fails. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_TENSORS = 6, LAUNCHES = 20 };
typedef uint64_t address;

static struct {
  int (*Init)(unsigned);
  int (*DeviceGet)(int*, int);
  int (*DevicePrimaryCtxRetain)(void**, int);
  int (*CtxSetCurrent)(void*);
  int (*MemAlloc_v2)(address*, size_t);
  int (*MemcpyHtoD_v2)(address, const void*, size_t);
  int (*MemcpyDtoH_v2)(void*, address, size_t);
  int (*MemsetD8_v2)(address, unsigned char, size_t);
  int (*CtxSynchronize)(void);
  int (*EventCreate)(void**, unsigned);
  int (*EventRecord)(void*, void*);
  int (*EventElapsedTime)(float*, void*, void*);
} cuda;

static void fail(const char* what) {
  fprintf(stderr, "call_winner: %s failed\n", what);
  exit(1);
}
#define CHECK(call) \
  if ((call) != 0) fail(#call)

static void load_driver(void) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) fail("loading the CUDA driver, libcuda.so.1,");
#define FIND(name) \
  if (!(*(void**)& cuda.name = dlsym(library, "cu" #name))) fail("finding cu" #name)
  FIND(Init);
  FIND(DeviceGet);
  FIND(DevicePrimaryCtxRetain);
  FIND(CtxSetCurrent);
  FIND(MemAlloc_v2);
  FIND(MemcpyHtoD_v2);
  FIND(MemcpyDtoH_v2);
  FIND(MemsetD8_v2);
  FIND(CtxSynchronize);
  FIND(EventCreate);
  FIND(EventRecord);
  FIND(EventElapsedTime);
}

static address upload(const char* path) {
  FILE* const file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0) fail(path);
  const long size = ftell(file);
  void* const bytes = malloc((size_t)size);
  rewind(file);
  if (!bytes || fread(bytes, 1, (size_t)size, file) != (size_t)size) fail(path);
  fclose(file);
  address tensor;
  CHECK(cuda.MemAlloc_v2(&tensor, (size_t)size));
  CHECK(cuda.MemcpyHtoD_v2(tensor, bytes, (size_t)size));
  free(bytes);
  return tensor;
}

typedef int32_t (*entry1)(const void*, address);
typedef int32_t (*entry2)(const void*, address, address);
typedef int32_t (*entry3)(const void*, address, address, address);
typedef int32_t (*entry4)(const void*, address, address, address, address);
typedef int32_t (*entry5)(const void*, address, address, address, address, address);
typedef int32_t (*entry6)(const void*, address, address, address, address, address, address);

static int32_t call(void* entry, int count, const address* t) {
  switch (count) { /* the launch is null: every default, the current context's device among them */
    case 1:
      return ((entry1)entry)(NULL, t[0]);
    case 2:
      return ((entry2)entry)(NULL, t[0], t[1]);
    case 3:
      return ((entry3)entry)(NULL, t[0], t[1], t[2]);
    case 4:
      return ((entry4)entry)(NULL, t[0], t[1], t[2], t[3]);
    case 5:
      return ((entry5)entry)(NULL, t[0], t[1], t[2], t[3], t[4]);
    default:
      return ((entry6)entry)(NULL, t[0], t[1], t[2], t[3], t[4], t[5]);
  }
}

int main(int argc, char** argv) {
  const int count = argc - 4; /* of tensors: inputs, and the output */
  if (count < 1 || count > MOST_TENSORS) {
    fprintf(stderr, "usage: call_winner LIBRARY ENTRY OUTPUT BYTES INPUT... (at most %d inputs)\n",
            MOST_TENSORS - 1);
    return 2;
  }
  load_driver();
  int device;
  void* context;
  CHECK(cuda.Init(0));
  CHECK(cuda.DeviceGet(&device, 0));
  CHECK(cuda.DevicePrimaryCtxRetain(&context, device));
  CHECK(cuda.CtxSetCurrent(context));
  void* const library = dlopen(argv[1], RTLD_NOW);
  void* const entry = library ? dlsym(library, argv[2]) : NULL;
  if (!entry) fail(library ? argv[2] : dlerror());

  address tensors[MOST_TENSORS];
  for (int i = 0; i + 1 < count; ++i) tensors[i] = upload(argv[5 + i]);
  const size_t bytes = strtoull(argv[4], NULL, 10);
  CHECK(cuda.MemAlloc_v2(&tensors[count - 1], bytes));
  CHECK(cuda.MemsetD8_v2(tensors[count - 1], 0xFF, bytes));
  CHECK(call(entry, count, tensors));
  CHECK(cuda.CtxSynchronize());
  void* const result = malloc(bytes);
  if (!result) fail("memory for the output");
  CHECK(cuda.MemcpyDtoH_v2(result, tensors[count - 1], bytes));
  FILE* const file = fopen(argv[3], "wb");
  if (!file || fwrite(result, 1, bytes, file) != bytes || fclose(file) != 0) fail(argv[3]);

  void *first, *last;
  CHECK(cuda.EventCreate(&first, 0));
  CHECK(cuda.EventCreate(&last, 0));
  CHECK(cuda.EventRecord(first, NULL));
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < LAUNCHES; ++i) CHECK(call(entry, count, tensors));
  clock_gettime(CLOCK_MONOTONIC, &end);
  CHECK(cuda.EventRecord(last, NULL));
  CHECK(cuda.CtxSynchronize());
  float ms;
  CHECK(cuda.EventElapsedTime(&ms, first, last));
  const double host_us =
      (double)(end.tv_sec - begin.tv_sec) * 1e6 + (double)(end.tv_nsec - begin.tv_nsec) / 1e3;
  printf("%.2f %.2f\n", ms * 1e3 / LAUNCHES, host_us / LAUNCHES);
  free(result);
  return 0;
}

/* A CUDA driver without a GPU, for tests: libcuda.so.1 as far as the runner and GPU artifacts use
 * it. The memory of its devices is the host's. What a kernel does is done at once; the time that it
 * takes passes afterwards, device by device, without the host's help: a stream is not done until
 * then, and no earlier than its gate opens. Kernels of tests are plain C and call fake_cuda_break()
 * or fake_cuda_hang() to behave as a bad kernel does on a GPU; one that an artifact brings doubles
 * its argument and takes as long as it is told (fake_settings.h). */
#include <fcntl.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fake_settings.h"

typedef int Result;
enum { OK = 0, INVALID = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 101, NO_CONTEXT = 201, NOT_READY = 600 };
enum { CLOCK_KHZ = 13, MULTIPROCESSORS = 16, MEMORY_CLOCK_KHZ = 36, MEMORY_BUS_BITS = 37 };
enum { L2_BYTES = 38, MAJOR = 75, MINOR = 76 };
enum { MOST_QUEUED = 256, MOST_NAME = 64, KINDS = 12 };
static const uint64_t kMemory = (uint64_t)8 << 30;

struct Work {
  char name[MOST_NAME]; /* empty: not in the log */
  double us;
};
/* A device, its primary context and its one stream. */
static struct Device {
  Result broken;        /* the context, once a kernel has broken it */
  _Atomic int retained; /* a context, since NVML last looked the device up */
  int hanging;
  int own_launches; /* of kernels of the runner's own */
  uint64_t allocated;
  double virtual_us;             /* that kernels have taken */
  double free_us;                /* when it will have done all that it has begun */
  const volatile uint32_t* gate; /* behind which the queue waits; null: it is open */
  uint32_t ticket;
  struct Work queue[MOST_QUEUED];
  int queued;
} devices[MOST_DEVICES];

static __thread struct Device* current;
static double nothing_us;      /* of the empty kernel */
static double reading_us = 50; /* of the canary of the memory */
static double canary_us = 200; /* of the canary: its clock is this, not the machine's */
static double canary_mhz = 1980;
static double host_us; /* that the host takes for every call that begins something */

static struct Device* here(void) { return current ? current : &devices[0]; }
static int index_of(const struct Device* device) { return (int)(device - devices); }
static int count(void) {
  const long wanted = fake_number("FAKE_CUDA_DEVICES", 1);
  return wanted < 0 ? 0 : wanted > MOST_DEVICES ? MOST_DEVICES : (int)wanted;
}

static void (*observer)(double begin_us, double end_us); /* of kernels, by the virtual clock */

static int other_kind(int device) {
  return device >= fake_number("FAKE_CUDA_OTHERS", MOST_DEVICES);
}

int fake_cuda_retained(int device) { return devices[device].retained; }
void fake_cuda_forget(int device) { devices[device].retained = 0; }
void fake_cuda_canary(double us) { canary_us = us; }
void fake_cuda_host(double us) { host_us = us; }
void fake_cuda_clock(double mhz) { canary_mhz = mhz; }
void fake_cuda_reading(double us) { reading_us = us; }
void fake_cuda_nothing(double us) { nothing_us = us; }
void fake_cuda_observe(void (*function)(double, double)) { observer = function; }
double fake_cuda_virtual_us(void) { return here()->virtual_us; }
void fake_cuda_break(int result) { here()->broken = result; }
void fake_cuda_hang(void) { here()->hanging = 1; }

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* One line a kernel: the process, the kernel, when it began and ended. */
static void note(const struct Device* device, const char* name, double begin_us, double end_us) {
  char path[MOST_TEXT], line[MOST_TEXT];
  if (!name[0] || !fake_folder(index_of(device), path)) return;
  strncat(path, "/log", MOST_TEXT - strlen(path) - 1);
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int size =
      snprintf(line, MOST_TEXT, "%d %s %.0f %.0f\n", (int)getpid(), name, begin_us, end_us);
  if (file >= 0 && write(file, line, (size_t)size) < 0) perror(path);
  if (file >= 0) close(file);
}

/* Begins what waits, once its gate is open. */
static void advance(struct Device* device) {
  if (device->gate && (int32_t)(*device->gate - device->ticket) < 0) return;
  device->gate = NULL;
  double at = now_us();
  if (at < device->free_us) at = device->free_us;
  for (int i = 0; i < device->queued; ++i) {
    note(device, device->queue[i].name, at, at + device->queue[i].us);
    at += device->queue[i].us;
  }
  if (device->queued) device->free_us = at;
  device->queued = 0;
}

static Result busy(struct Device* device, const char* name, double us) {
  if (observer) observer(device->virtual_us, device->virtual_us + us);
  if (us <= 0) return device->broken;
  if (device->queued == MOST_QUEUED) return INVALID;
  struct Work* work = &device->queue[device->queued++];
  snprintf(work->name, MOST_NAME, "%s", name);
  work->us = us;
  device->virtual_us += us;
  advance(device);
  return device->broken;
}

/* A kernel that takes so long, of a test's. */
Result fake_cuda_run(void* stream, double us) { return busy(stream, "", us); }

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
Result cuDeviceGetCount(int* number) { return *number = count(), OK; }
Result cuDeviceGet(int* device, int ordinal) {
  return *device = ordinal, ordinal < 0 || ordinal >= count() ? NO_DEVICE : OK;
}
Result cuDeviceGetName(char* name, int size, int device) {
  strncpy(name, other_kind(device) ? "Fake A100" : "Fake H200", (size_t)size);
  return OK;
}
Result cuDeviceGetAttribute(int* value, int what, int device) {
  switch (what) {
    case MULTIPROCESSORS:
      return *value = 66, OK;
    case L2_BYTES:
      return *value = 1 << 20, OK;
    case MAJOR:
      return *value = other_kind(device) ? 8 : 9, OK;
    case CLOCK_KHZ:
      return *value = (int)fake_number("FAKE_CUDA_CLOCK_KHZ", 0), OK;
    case MEMORY_CLOCK_KHZ:
      return *value = (int)fake_number("FAKE_CUDA_MEMORY_KHZ", 0), OK;
    case MEMORY_BUS_BITS:
      return *value = (int)fake_number("FAKE_CUDA_MEMORY_BITS", 0), OK;
    default:
      return *value = 0, OK;
  }
}
Result cuDeviceGetPCIBusId(char* id, int size, int device) {
  return snprintf(id, (size_t)size, "0000:%02x:00.0", (unsigned)device) < size ? OK : INVALID;
}
Result cuDevicePrimaryCtxRetain(void** context, int device) {
  if (device < 0 || device >= count()) return NO_DEVICE;
  usleep((useconds_t)fake_number("FAKE_CUDA_START_US", 0));
  char path[MOST_TEXT], own[2 * MOST_TEXT];
  if (fake_folder(device, path)) {
    mkdir(path, 0700);
    snprintf(own, sizeof(own), "%s/%d", path, (int)getpid());
    close(open(own, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  }
  devices[device].retained = 1;
  return *context = &devices[device], OK;
}
Result cuCtxSetCurrent(void* context) { return (current = context) ? OK : INVALID; }
Result cuCtxGetCurrent(void** context) { return *context = current, OK; }
Result cuCtxPushCurrent_v2(void* context) { return cuCtxSetCurrent(context); }
Result cuCtxPopCurrent_v2(void** context) {
  *context = current;
  current = NULL;
  return OK;
}
Result cuCtxGetDevice(int* device) {
  return current ? (*device = index_of(current), OK) : NO_CONTEXT;
}
Result cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  return *free_bytes = kMemory - here()->allocated, *total = kMemory, OK;
}
Result cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  struct Device* device = here();
  if (device->allocated + bytes > kMemory) return OUT_OF_MEMORY;
  uint64_t* block = aligned_alloc(256, (bytes + 511) / 256 * 256);
  if (!block) return OUT_OF_MEMORY;
  block[0] = bytes;
  block[1] = (uint64_t)index_of(device);
  device->allocated += bytes;
  return *address = (uint64_t)(uintptr_t)block + 256, OK;
}
static size_t bytes_of(uint64_t allocation) { return *(uint64_t*)(uintptr_t)(allocation - 256); }
Result cuMemFree_v2(uint64_t address) {
  uint64_t* block = (uint64_t*)(uintptr_t)(address - 256);
  devices[block[1]].allocated -= block[0];
  free(block);
  return OK;
}
Result cuMemAllocAsync(uint64_t* address, size_t bytes, void* stream) {
  (void)stream;
  return cuMemAlloc_v2(address, bytes);
}
Result cuMemFreeAsync(uint64_t address, void* stream) {
  (void)stream;
  return cuMemFree_v2(address);
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
  return *stream = here(), OK;
}
Result cuStreamQuery(void* stream) {
  struct Device* device = stream;
  advance(device);
  if (device->broken) return device->broken;
  return device->hanging || device->queued || now_us() < device->free_us ? NOT_READY : OK;
}
Result cuStreamWaitValue32_v2(void* stream, uint64_t address, uint32_t value, unsigned flags) {
  (void)flags;
  struct Device* device = stream;
  if (device->queued) return INVALID; /* nothing here waits behind two gates */
  device->gate = (const volatile uint32_t*)(uintptr_t)address;
  device->ticket = value;
  return device->broken;
}
/* What the runner's own kernels take is the virtual clock's, nothing included: how long the host
 * is about it is not the device's time. What a test's kernel does is done by the host, and takes
 * what that takes. */
struct Event {
  struct timespec real;
  int own_launches;
  double virtual_us;
};
Result cuEventCreate(void** event, unsigned flags) {
  (void)flags;
  return (*event = calloc(1, sizeof(struct Event))) ? OK : OUT_OF_MEMORY;
}
Result cuEventRecord(void* event, void* stream) {
  const struct Device* device = stream;
  struct Event* at = event;
  at->virtual_us = device->virtual_us;
  at->own_launches = device->own_launches;
  clock_gettime(CLOCK_MONOTONIC, &at->real);
  return device->broken;
}
Result cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  const struct Event *a = begin, *b = end;
  const double us = b->virtual_us - a->virtual_us;
  *milliseconds = (float)((double)(b->real.tv_sec - a->real.tv_sec) * 1e3 +
                          (double)(b->real.tv_nsec - a->real.tv_nsec) / 1e6);
  if (us > 0 || b->own_launches != a->own_launches) *milliseconds = (float)(us / 1e3);
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
/* Cycles and nanoseconds are added up at the address that the argument holds. */
static Result canary(struct Device* device, double us, const void* argument) {
  uint64_t* clock = *(uint64_t* const*)argument;
  clock[0] += (uint64_t)(us * canary_mhz);
  clock[1] += (uint64_t)(us * 1e3);
  return busy(device, "", us);
}
static Result gather(void** arguments) {
  const char* from = *(char**)arguments[0];
  const int64_t* places = *(int64_t**)arguments[1];
  const uint64_t count = *(uint64_t*)arguments[2];
  const uint32_t width = *(uint32_t*)arguments[3];
  char* to = *(char**)arguments[4];
  for (uint64_t i = 0; i < count; ++i) memcpy(to + i * width, from + places[i] * width, width);
  return OK;
}
/* An element of float32 (kind 0), bfloat16 (1) or float16 (2). */
static float number(const char* from, uint64_t i, uint32_t kind) {
  uint32_t word = 0;
  const size_t width = kind == 0 ? 4 : 2;
  memcpy(&word, from + i * width, width);
  const int is_special = kind == 2 && (word & 0x7c00) == 0x7c00;
  const float sign = kind == 2 && word >> 15 ? -1 : 1;
  if (kind == 1) word <<= 16;
  if (kind == 2) word = (word & 0x7fff) << 13;
  float value;
  memcpy(&value, &word, sizeof(value));
  if (is_special) return INFINITY;
  return kind == 2 ? sign * value * 0x1p112f : value;
}
static Result apart(void** arguments) {
  const char *a = *(char**)arguments[0], *b = *(char**)arguments[1];
  const uint64_t count = *(uint64_t*)arguments[2];
  const uint32_t kind = *(uint32_t*)arguments[3];
  const float rtol = *(float*)arguments[4], atol = *(float*)arguments[5];
  if (kind > 2) return INVALID;
  for (uint64_t i = 0; i < count; ++i) {
    const float x = number(a, i, kind), y = number(b, i, kind);
    const int is_near = isfinite(x) && isfinite(y) && fabsf(x - y) <= atol + rtol * fabsf(y);
    **(uint64_t**)arguments[6] += !is_near;
  }
  return OK;
}
Result cuLaunchKernel(const char* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                      unsigned by, unsigned bz, unsigned shared, void* stream, void** arguments,
                      void** extra) {
  (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
  struct Device* device = stream;
  if (host_us > 0) usleep((useconds_t)host_us);
  ++device->own_launches;
  if (strcmp(function, "kiln_canary") == 0) return canary(device, canary_us, arguments[2]);
  if (strcmp(function, "kiln_reading") == 0) return canary(device, reading_us, arguments[3]);
  if (strcmp(function, "kiln_nothing") == 0) return busy(device, "", nothing_us);
  if (strcmp(function, "kiln_gather") == 0) return gather(arguments);
  if (strcmp(function, "kiln_apart") == 0) return apart(arguments);
  const uint64_t* words = *(uint64_t**)arguments[0];
  const uint64_t pairs = 2 * *(uint64_t*)arguments[1];
  uint64_t* sum = *(uint64_t**)arguments[2];
  for (uint64_t i = 0; i < pairs; ++i) *sum += (words[i] ^ (i + 1)) * 0x9fb21c651e98df25u;
  return device->broken;
}

/* What artifacts launch. */
Result cuLibraryLoadData(void** library, const void* code, void* options, void* values,
                         unsigned options_count, void* library_options, void* library_values,
                         unsigned library_count) {
  (void)options, (void)values, (void)options_count, (void)library_options, (void)library_values,
      (void)library_count;
  return *library = (void*)code, code ? OK : INVALID;
}
Result cuLibraryGetKernel(const char** kernel, void* library, const char* name) {
  (void)library;
  return *kernel = name, OK;
}
Result cuKernelSetAttribute(int attribute, int value, void* kernel, int device) {
  (void)attribute, (void)value, (void)kernel;
  return device < count() ? OK : INVALID;
}
struct Launch {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  void* attributes;
  unsigned attribute_count;
};
/* From one tensor to another. Each is an allocation but for a zone at both ends. */
static void double_floats(uint64_t from, uint64_t to, size_t zone) {
  const size_t bytes =
      bytes_of(from - zone) < bytes_of(to - zone) ? bytes_of(from - zone) : bytes_of(to - zone);
  const size_t elements = (bytes - 2 * zone) / sizeof(float);
  for (size_t i = 0; i < elements; ++i) ((float*)to)[i] = 2 * ((const float*)from)[i];
}
Result cuLaunchKernelEx(const struct Launch* launch, const char* kernel, void** parameters,
                        void** extra) {
  (void)extra;
  struct Device* device = launch->stream ? launch->stream : here();
  if (device != current) return INVALID; /* a stream of another device's */
  const long zone = fake_number("FAKE_CUDA_ZONE", 0);
  if (zone > 0) double_floats(*(uint64_t*)parameters[0], *(uint64_t*)parameters[1], (size_t)zone);
  const unsigned kind = (31 * launch->grid[0] + launch->block[0] / 32) % KINDS;
  char name[MOST_NAME];
  snprintf(name, MOST_NAME, "%.30s/%u/%u", kernel, launch->grid[0], launch->block[0]);
  return busy(device, name,
              (double)fake_number("FAKE_CUDA_KERNEL_US", 0) * (1 + 2.0 * kind / KINDS));
}
/* No kernel here reads a map. */
Result cuTensorMapEncodeTiled(void) { return INVALID; }
Result cuTensorMapEncodeIm2col(void) { return INVALID; }

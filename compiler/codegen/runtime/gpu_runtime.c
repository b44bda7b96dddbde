/* What GPU artifacts need at run time, compiled to assembly at build time and part of every one of
 * them: the CUDA driver by dlopen (libcuda.so.1; 12.0 or later), the cubin loaded once for all
 * devices, tensor maps encoded on first use, launches. Thread-safe. Needs libc alone. */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "gpu_launch.h"
#include "kiln_launch.h"

/* The driver's interface, as far as it is used (CUDA Driver API). */
typedef int CUresult;
typedef int CUdevice;
typedef void* CUcontext;
typedef void* CUstream;
typedef void* CUlibrary;
typedef void* CUkernel;
typedef unsigned long long CUdeviceptr;
typedef struct __attribute__((aligned(64))) tensor_map {
  uint64_t words[16];
} tensor_map;

typedef struct launch_attribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int allowed;
  } value;
} launch_attribute;
typedef struct launch_config {
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  CUstream stream;
  launch_attribute* attributes;
  unsigned attribute_count;
} launch_config;

enum {
  CLUSTER_DIMENSION = 4, /* CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION */
  EARLY_START = 6,       /* CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */
  DYNAMIC_SHARED = 8,    /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
  NOT_INITIALIZED = 3,   /* CUDA_ERROR_NOT_INITIALIZED */
  NO_BINARY = 209,       /* CUDA_ERROR_NO_BINARY_FOR_GPU */
  L2_PROMOTION_128 = 2,  /* CU_TENSOR_MAP_L2_PROMOTION_L2_128B */
  L2_PROMOTION_256 = 3,  /* CU_TENSOR_MAP_L2_PROMOTION_L2_256B */
  STATIC_SHARED = 48 << 10,
  KEPT_MAPS = 64
};

static struct {
  CUresult (*Init)(unsigned);
  CUresult (*CtxGetCurrent)(CUcontext*);
  CUresult (*CtxPushCurrent)(CUcontext);
  CUresult (*CtxPopCurrent)(CUcontext*);
  CUresult (*CtxGetDevice)(CUdevice*);
  CUresult (*DeviceGet)(CUdevice*, int);
  CUresult (*DevicePrimaryCtxRetain)(CUcontext*, CUdevice);
  CUresult (*LoadData)(CUlibrary*, const void*, void*, void*, unsigned, void*, void*, unsigned);
  CUresult (*GetKernel)(CUkernel*, CUlibrary, const char*);
  CUresult (*KernelSetAttribute)(int, int, CUkernel, CUdevice);
  CUresult (*LaunchKernelEx)(const launch_config*, void*, void**, void**);
  CUresult (*TensorMapEncodeTiled)(tensor_map*, int, uint32_t, void*, const uint64_t*,
                                   const uint64_t*, const uint32_t*, const uint32_t*, int, int, int,
                                   int);
  CUresult (*TensorMapEncodeIm2col)(tensor_map*, int, uint32_t, void*, const uint64_t*,
                                    const uint64_t*, const int*, const int*, uint32_t, uint32_t,
                                    const uint32_t*, int, int, int, int);
  CUresult (*MemAllocAsync)(CUdeviceptr*, size_t, CUstream);
  CUresult (*MemFreeAsync)(CUdeviceptr, CUstream);
} driver;

static pthread_once_t driver_once = PTHREAD_ONCE_INIT;
static int driver_result;
static pthread_mutex_t image_lock = PTHREAD_MUTEX_INITIALIZER;

static void load_driver(void) {
  driver_result = KILN_ERROR_UNSUPPORTED;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  const struct {
    const char* name;
    void* place;
  } functions[] = {
      {"cuInit", &driver.Init},
      {"cuCtxGetCurrent", &driver.CtxGetCurrent},
      {"cuCtxPushCurrent_v2", &driver.CtxPushCurrent},
      {"cuCtxPopCurrent_v2", &driver.CtxPopCurrent},
      {"cuCtxGetDevice", &driver.CtxGetDevice},
      {"cuDeviceGet", &driver.DeviceGet},
      {"cuDevicePrimaryCtxRetain", &driver.DevicePrimaryCtxRetain},
      {"cuLibraryLoadData", &driver.LoadData},
      {"cuLibraryGetKernel", &driver.GetKernel},
      {"cuKernelSetAttribute", &driver.KernelSetAttribute},
      {"cuLaunchKernelEx", &driver.LaunchKernelEx},
      {"cuTensorMapEncodeTiled", &driver.TensorMapEncodeTiled},
      {"cuTensorMapEncodeIm2col", &driver.TensorMapEncodeIm2col},
      {"cuMemAllocAsync", &driver.MemAllocAsync},
      {"cuMemFreeAsync", &driver.MemFreeAsync},
  };
  for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); ++i) {
    void* found = dlsym(library, functions[i].name);
    if (!found) return;
    memcpy(functions[i].place, &found, sizeof(found));
  }
  if (driver.Init(0)) return;
  driver_result = KILN_OK;
}

static CUstream stream_of(const kiln_launch* launch) { return launch ? launch->stream : 0; }

/* Makes a context of the launch's device current: the caller's own where it is of that device (or
 * no launch says which), else the primary one. *pushed tells whether to pop it. */
static int enter(const kiln_launch* launch, CUdevice* device, int* pushed) {
  *pushed = 0;
  pthread_once(&driver_once, load_driver);
  if (driver_result) return driver_result;
  CUcontext context = 0;
  if (driver.CtxGetCurrent(&context)) return KILN_ERROR_DEVICE;
  if (context && driver.CtxGetDevice(device)) return KILN_ERROR_DEVICE;
  if (context && !launch) return KILN_OK;
  CUdevice wanted;
  if (driver.DeviceGet(&wanted, launch ? launch->device : 0)) return KILN_ERROR_ARGUMENT;
  if (context && *device == wanted) return KILN_OK;
  if (driver.DevicePrimaryCtxRetain(&context, wanted)) return KILN_ERROR_DEVICE;
  if (driver.CtxPushCurrent(context)) return KILN_ERROR_DEVICE;
  *device = wanted;
  *pushed = 1;
  return KILN_OK;
}

static void leave(int pushed) {
  CUcontext context;
  if (pushed) driver.CtxPopCurrent(&context);
}

static int load_image(kiln_image* image, CUlibrary* library) {
  pthread_mutex_lock(&image_lock);
  CUresult result = 0;
  if (!image->library) {
    CUlibrary loaded = 0;
    result = driver.LoadData(&loaded, image->cubin, 0, 0, 0, 0, 0, 0);
    if (!result) image->library = loaded;
  }
  *library = image->library;
  pthread_mutex_unlock(&image_lock);
  return result == NO_BINARY ? KILN_ERROR_UNSUPPORTED : result ? KILN_ERROR_DEVICE : KILN_OK;
}

/* What the L2 cache reads at once for a box. Twice its line pays where every row begins at such a
 * block; where one does not, each row of a box would bring up to a line that nobody asked for. */
static int promotion_of(const kiln_tensor_map* m, const uint64_t* strides) {
  uint64_t begins = m->address;
  for (int d = 0; d + 1 < m->rank; ++d) begins |= strides[d];
  return begins % 256 ? L2_PROMOTION_128 : L2_PROMOTION_256;
}

static int encode(const kiln_tensor_map* m, tensor_map* out) {
  uint64_t strides[KILN_TENSOR_RANK];
  uint32_t steps[KILN_TENSOR_RANK];
  for (int d = 0; d < m->rank; ++d) {
    steps[d] = m->pixels && d > 0 && d + 1 < m->rank ? m->stride : 1;
    if (d > 0) strides[d - 1] = m->strides[d] * (uint64_t)m->bytes;
  }
  const int promotion = promotion_of(m, strides);
  if (m->pixels) {
    return driver.TensorMapEncodeIm2col(out, m->type, (uint32_t)m->rank, (void*)m->address,
                                        m->extents, strides, m->low, m->high, m->box[0],
                                        (uint32_t)m->pixels, steps, 0, m->swizzle, promotion, 0)
               ? KILN_ERROR_ARGUMENT
               : KILN_OK;
  }
  return driver.TensorMapEncodeTiled(out, m->type, (uint32_t)m->rank, (void*)m->address, m->extents,
                                     strides, m->box, steps, 0, m->swizzle, promotion, 0)
             ? KILN_ERROR_ARGUMENT
             : KILN_OK;
}

/* The maps that were encoded last, each where its tensor and box say: a map depends on nothing but
 * what it is of, so those of tensors that are used again are ready. */
static struct {
  kiln_tensor_map of; /* rank 0: none yet */
  tensor_map map;
} kept_maps[KEPT_MAPS];
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static int find_map(const kiln_tensor_map* m, tensor_map* out) {
  const uint64_t mixed =
      (m->address ^ ((uint64_t)m->box[0] << 1) ^ ((uint64_t)m->box[1] << 10)) * 0x9e3779b97f4a7c15u;
  const size_t place = mixed >> 32 & (KEPT_MAPS - 1);
  int result = KILN_OK;
  pthread_mutex_lock(&kept_lock);
  if (memcmp(&kept_maps[place].of, m, sizeof(*m)) != 0) {
    result = encode(m, &kept_maps[place].map);
    if (result) {
      kept_maps[place].of.rank = 0;
    } else {
      memcpy(&kept_maps[place].of, m, sizeof(*m));
    }
  }
  *out = kept_maps[place].map;
  pthread_mutex_unlock(&kept_lock);
  return result;
}

static int find_function(kiln_image* image, kiln_kernel* kernel, CUkernel* function) {
  *function = __atomic_load_n(&kernel->function, __ATOMIC_ACQUIRE);
  if (*function) return KILN_OK;
  CUlibrary library;
  const int loaded = load_image(image, &library);
  if (loaded) return loaded;
  const CUresult found = driver.GetKernel(function, library, kernel->name);
  if (found) return found == NO_BINARY ? KILN_ERROR_UNSUPPORTED : KILN_ERROR_DEVICE;
  __atomic_store_n(&kernel->function, *function, __ATOMIC_RELEASE);
  return KILN_OK;
}

/* Lets a block of the kernel have its shared memory on this device. */
static int allow_shared(kiln_kernel* kernel, CUkernel function, CUdevice device) {
  const uint64_t bit = device < 64 ? (uint64_t)1 << device : 0;
  if (kernel->shared_bytes <= STATIC_SHARED ||
      (__atomic_load_n(&kernel->devices, __ATOMIC_ACQUIRE) & bit)) {
    return KILN_OK;
  }
  if (driver.KernelSetAttribute(DYNAMIC_SHARED, kernel->shared_bytes, function, device)) {
    return KILN_ERROR_UNSUPPORTED;
  }
  __atomic_fetch_or(&kernel->devices, bit, __ATOMIC_RELEASE);
  return KILN_OK;
}

static int start(const kiln_launch* launch, CUdevice device, kiln_image* image, kiln_kernel* kernel,
                 int64_t blocks, uint64_t* slots, const kiln_tensor_map* maps) {
  if (kernel->slots > KILN_MOST_SLOTS || kernel->maps > KILN_MOST_MAPS)
    return KILN_ERROR_UNSUPPORTED;
  CUkernel function;
  int result = find_function(image, kernel, &function);
  if (!result) result = allow_shared(kernel, function, device);
  if (result) return result;
  tensor_map encoded[KILN_MOST_MAPS];
  void* parameters[KILN_MOST_SLOTS + KILN_MOST_MAPS];
  for (int i = 0; i < kernel->slots; ++i) parameters[i] = &slots[i];
  for (int i = 0; i < kernel->maps; ++i) {
    result = find_map(&maps[i], &encoded[i]);
    if (result) return result;
    parameters[kernel->slots + i] = &encoded[i];
  }
  launch_attribute attributes[2];
  unsigned count = 0;
  if (kernel->cluster > 1) {
    attributes[count++] = (launch_attribute){.id = CLUSTER_DIMENSION,
                                             .value.cluster = {(unsigned)kernel->cluster, 1, 1}};
  }
  if (kernel->follows) {
    attributes[count++] = (launch_attribute){.id = EARLY_START, .value.allowed = 1};
  }
  const launch_config config = {.grid = {(unsigned)blocks, 1, 1},
                                .block = {(unsigned)kernel->threads, 1, 1},
                                .shared_bytes = (unsigned)kernel->shared_bytes,
                                .stream = stream_of(launch),
                                .attributes = attributes,
                                .attribute_count = count};
  return driver.LaunchKernelEx(&config, function, parameters, 0) ? KILN_ERROR_DEVICE : KILN_OK;
}

/* What the host half of an artifact calls. */
#ifndef KILN_ENTRY
#define KILN_ENTRY
#endif

KILN_ENTRY int32_t kiln_gpu_run(const kiln_launch* launch, kiln_image* image, kiln_kernel* kernel,
                                int64_t blocks, uint64_t* slots, const kiln_tensor_map* maps) {
  if (blocks <= 0) return blocks < 0 ? KILN_ERROR_ARGUMENT : KILN_OK;
  if (blocks > INT32_MAX) return KILN_ERROR_ARGUMENT;
  CUdevice device = 0;
  int pushed = 0;
  int result = enter(launch, &device, &pushed);
  if (!result) result = start(launch, device, image, kernel, blocks, slots, maps);
  leave(pushed);
  return result;
}

KILN_ENTRY void* kiln_gpu_take(const kiln_launch* launch, uint64_t bytes) {
  CUdevice device = 0;
  int pushed = 0;
  CUdeviceptr memory = 0;
  if (!enter(launch, &device, &pushed) &&
      driver.MemAllocAsync(&memory, bytes ? bytes : 1, stream_of(launch))) {
    memory = 0;
  }
  leave(pushed);
  return (void*)memory;
}

KILN_ENTRY void kiln_gpu_give_back(const kiln_launch* launch, void* memory) {
  CUdevice device = 0;
  int pushed = 0;
  if (!memory) return;
  if (!enter(launch, &device, &pushed)) driver.MemFreeAsync((CUdeviceptr)memory, stream_of(launch));
  leave(pushed);
}

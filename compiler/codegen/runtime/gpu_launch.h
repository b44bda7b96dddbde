/* Between the host half of a GPU artifact (compiler/codegen/gpu_host.cc) and its run-time support
 * (gpu_runtime.c). Private: both sides are compiled into the artifact. */
#ifndef KILN_GPU_LAUNCH_H_
#define KILN_GPU_LAUNCH_H_

#include <stdint.h>

#define KILN_TENSOR_RANK 5  /* the most that a tensor map has */
#define KILN_MOST_SLOTS 256 /* of a kernel */
#define KILN_MOST_MAPS 16

/* A cubin, and what the run-time support keeps of it. */
typedef struct kiln_image {
  const void* cubin;
  void* library; /* a CUlibrary once it is loaded */
} kiln_image;

/* One box shape in which a kernel loads a tensor: dimensions innermost first. With `pixels`, that
 * many of a tensor [c, w, h, n] under a window whose corners are so far from the image's. What is
 * not said is zero, between the fields too: maps are compared as bytes. */
typedef struct kiln_tensor_map {
  int32_t rank;
  int32_t type;    /* CUtensorMapDataType */
  int32_t swizzle; /* CUtensorMapSwizzle */
  int32_t bytes;   /* of an element */
  uint64_t address;
  uint64_t extents[KILN_TENSOR_RANK]; /* elements */
  uint64_t strides[KILN_TENSOR_RANK]; /* elements; the first is 1 */
  uint32_t box[KILN_TENSOR_RANK];     /* elements; with pixels: the first, channels of each */
  int32_t pixels;
  uint32_t stride; /* of the window */
  int32_t low[KILN_TENSOR_RANK - 2];
  int32_t high[KILN_TENSOR_RANK - 2];
} kiln_tensor_map;

/* A kernel of a cubin, and what the run-time support keeps of it. */
typedef struct kiln_kernel {
  const char* name;
  int32_t threads;
  int32_t shared_bytes;
  int32_t slots; /* parameters of 64 bits, before the tensor maps */
  int32_t maps;
  int32_t cluster;  /* blocks that are launched together, along x */
  int32_t follows;  /* it waits for the kernel before by itself: it may be started early */
  void* function;   /* a CUkernel once it is found */
  uint64_t devices; /* a bit for each of the first 64 that allows it its shared memory */
} kiln_kernel;

#endif /* KILN_GPU_LAUNCH_H_ */

/* The launch ABI of every artifact, CPU and GPU alike. FROZEN from the first release: fields are
 * only ever added at the end, and `size` says which are there.
 *
 *   int32_t <name>(const kiln_launch* launch, <tensor pointers in order>, <int64 scalars and
 *                  run-time dims in order>);
 *
 * Returns 0, or a negative kiln_error. `launch` may be null: all defaults. Thread-safe: the same
 * entry may run from several threads at once. */
#ifndef KILN_LAUNCH_H_
#define KILN_LAUNCH_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Runs task(context, i) for every i in [0, count), in any order and on any threads, and returns
 * when all are done. */
typedef void (*kiln_task)(void* context, int64_t index);
typedef void (*kiln_parallel_for)(void* pool, int64_t count, kiln_task task, void* context);

typedef struct kiln_launch {
  uint32_t size;    /* sizeof(kiln_launch) as the caller knows it */
  uint32_t version; /* 1 */
  void* stream;     /* GPU: a CUstream; CPU: ignored */
  int32_t device;   /* GPU: device ordinal; CPU: ignored */
  int32_t threads;  /* CPU: most threads of the built-in pool; 0 = all cores this process may use */
  kiln_parallel_for parallel_for; /* CPU: the caller's thread pool; null = the built-in one */
  void* pool;                     /* first argument of parallel_for */
  void* workspace;                /* null: the artifact allocates what it needs */
  uint64_t workspace_bytes;
} kiln_launch;

enum {
  KILN_OK = 0,
  KILN_ERROR_ARGUMENT = -1,    /* a null or misaligned pointer, a dimension that is out of range
                                 or that the kernel does not take (T.assume), or dimensions of
                                 which a tensor's or the grid's extent is more than its type has */
  KILN_ERROR_MEMORY = -2,      /* scratch memory could not be allocated */
  KILN_ERROR_ASSERT = -3,      /* a run-time assertion of the kernel failed */
  KILN_ERROR_UNSUPPORTED = -4, /* the processor lacks what the artifact was compiled
                                 for, or the system does not let the process use it */
  KILN_ERROR_DEVICE = -5       /* the GPU's driver failed, now or in an earlier launch */
};

#ifdef __cplusplus
}
#endif

#endif /* KILN_LAUNCH_H_ */

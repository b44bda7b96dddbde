// The CUDA driver, found at run time: libcuda.so.1 of driver 525 (CUDA 12.0) or later. Its types
// and functions are declared here as far as they are used (CUDA Driver API), so that nothing of
// CUDA is needed to build.
#ifndef KILN_WORKER_PROFILE_CUDA_DRIVER_H_
#define KILN_WORKER_PROFILE_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::worker::cuda {

using Result = int;
using Ordinal = int;
using Context = void*;
using Stream = void*;
using Event = void*;
using Module = void*;
using Function = void*;
using Address = uint64_t;  // CUdeviceptr

inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY
inline constexpr Result kNotReady = 600;   // CUDA_ERROR_NOT_READY

// CUdevice_attribute.
inline constexpr int kClockKhz = 13;
inline constexpr int kMultiprocessors = 16;
inline constexpr int kMemoryClockKhz = 36;
inline constexpr int kMemoryBusBits = 37;
inline constexpr int kL2Bytes = 38;
inline constexpr int kMajor = 75;
inline constexpr int kMinor = 76;

inline constexpr unsigned kStreamNonBlocking = 1;      // CU_STREAM_NON_BLOCKING
inline constexpr unsigned kHostAllocDeviceMapped = 2;  // CU_MEMHOSTALLOC_DEVICEMAP
inline constexpr unsigned kWaitGreaterOrEqual = 0;     // CU_STREAM_WAIT_VALUE_GEQ

struct Driver {
  Result (*GetErrorName)(Result, const char**);
  Result (*GetErrorString)(Result, const char**);
  Result (*Init)(unsigned);
  Result (*DriverGetVersion)(int*);
  Result (*DeviceGetCount)(int*);
  Result (*DeviceGet)(Ordinal*, int);
  Result (*DeviceGetName)(char*, int, Ordinal);
  Result (*DeviceGetAttribute)(int*, int, Ordinal);
  Result (*DeviceGetPCIBusId)(char*, int, Ordinal);
  Result (*DevicePrimaryCtxRetain)(Context*, Ordinal);
  Result (*CtxSetCurrent)(Context);
  Result (*MemGetInfo)(size_t*, size_t*);
  Result (*MemAlloc)(Address*, size_t);
  Result (*MemFree)(Address);
  Result (*MemHostAlloc)(void**, size_t, unsigned);
  Result (*MemHostGetDevicePointer)(Address*, void*, unsigned);
  Result (*MemcpyHtoDAsync)(Address, const void*, size_t, Stream);
  Result (*MemcpyDtoHAsync)(void*, Address, size_t, Stream);
  Result (*MemcpyDtoDAsync)(Address, Address, size_t, Stream);
  Result (*MemsetD8Async)(Address, unsigned char, size_t, Stream);
  Result (*StreamCreate)(Stream*, unsigned);
  Result (*StreamQuery)(Stream);
  Result (*StreamWaitValue32)(Stream, Address, uint32_t, unsigned);
  Result (*EventCreate)(Event*, unsigned);
  Result (*EventRecord)(Event, Stream);
  Result (*EventElapsedTime)(float*, Event, Event);  // milliseconds
  Result (*ModuleLoadData)(Module*, const void*);
  Result (*ModuleGetFunction)(Function*, Module, const char*);
  Result (*LaunchKernel)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, Stream, void**, void**);

  // "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered".
  std::string Words(Result result) const;
  // OK for kSuccess; kResourceExhausted for kOutOfMemory; else kUnavailable. "cannot <what>: ...".
  absl::Status Check(Result result, absl::string_view what) const;
};

// Loaded and initialised once a process. kUnavailable, with what to do, when there is no driver, it
// is too old, or it cannot be initialised. Thread-safe.
absl::StatusOr<const Driver*> LoadDriver();

}  // namespace kiln::worker::cuda

#endif  // KILN_WORKER_PROFILE_CUDA_DRIVER_H_

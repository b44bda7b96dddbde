#include "worker/profile/cuda_driver.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "worker/profile/dynamic_library.h"

namespace kiln::worker::cuda {
namespace {

constexpr int kOldestVersion = 12000;

absl::Status Fill(void* library, Driver* driver) {
  const Symbol symbols[] = {
      {"cuGetErrorName", &driver->GetErrorName},
      {"cuGetErrorString", &driver->GetErrorString},
      {"cuInit", &driver->Init},
      {"cuDriverGetVersion", &driver->DriverGetVersion},
      {"cuDeviceGetCount", &driver->DeviceGetCount},
      {"cuDeviceGet", &driver->DeviceGet},
      {"cuDeviceGetName", &driver->DeviceGetName},
      {"cuDeviceGetAttribute", &driver->DeviceGetAttribute},
      {"cuDeviceGetPCIBusId", &driver->DeviceGetPCIBusId},
      {"cuDevicePrimaryCtxRetain", &driver->DevicePrimaryCtxRetain},
      {"cuCtxSetCurrent", &driver->CtxSetCurrent},
      {"cuMemGetInfo_v2", &driver->MemGetInfo},
      {"cuMemAlloc_v2", &driver->MemAlloc},
      {"cuMemFree_v2", &driver->MemFree},
      {"cuMemHostAlloc", &driver->MemHostAlloc},
      {"cuMemHostGetDevicePointer_v2", &driver->MemHostGetDevicePointer},
      {"cuMemcpyHtoDAsync_v2", &driver->MemcpyHtoDAsync},
      {"cuMemcpyDtoHAsync_v2", &driver->MemcpyDtoHAsync},
      {"cuMemcpyDtoDAsync_v2", &driver->MemcpyDtoDAsync},
      {"cuMemsetD8Async", &driver->MemsetD8Async},
      {"cuStreamCreate", &driver->StreamCreate},
      {"cuStreamQuery", &driver->StreamQuery},
      {"cuStreamWaitValue32_v2", &driver->StreamWaitValue32},
      {"cuEventCreate", &driver->EventCreate},
      {"cuEventRecord", &driver->EventRecord},
      {"cuEventElapsedTime", &driver->EventElapsedTime},
      {"cuModuleLoadData", &driver->ModuleLoadData},
      {"cuModuleGetFunction", &driver->ModuleGetFunction},
      {"cuLaunchKernel", &driver->LaunchKernel},
  };
  return Resolve(library, symbols, "the CUDA driver", ": it is too old; install 525 or later");
}

absl::StatusOr<const Driver*> Load() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    return absl::UnavailableError(
        absl::StrCat("no CUDA driver: ", why == nullptr ? "libcuda.so.1 is not there" : why,
                     "; install NVIDIA's driver, or measure on the CPU"));
  }
  static Driver driver;
  KILN_RETURN_IF_ERROR(Fill(library, &driver));
  KILN_RETURN_IF_ERROR(driver.Check(driver.Init(0), "initialise the CUDA driver"));
  int version = 0;
  KILN_RETURN_IF_ERROR(driver.Check(driver.DriverGetVersion(&version), "ask for the version"));
  if (version < kOldestVersion) {
    return absl::UnavailableError(absl::StrCat("the CUDA driver is of CUDA ", version / 1000, ".",
                                               version % 1000 / 10, "; 12.0 or later is needed"));
  }
  return &driver;
}

}  // namespace

std::string Driver::Words(Result result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (GetErrorName(result, &name) != kSuccess || name == nullptr) name = "CUDA error";
  if (GetErrorString(result, &text) != kSuccess || text == nullptr) text = "no text";
  return absl::StrCat(name, " (", result, "): ", text);
}

absl::Status Driver::Check(Result result, absl::string_view what) const {
  if (result == kSuccess) return absl::OkStatus();
  const std::string words = absl::StrCat("cannot ", what, ": ", Words(result));
  if (result == kOutOfMemory) return absl::ResourceExhaustedError(words);
  return absl::UnavailableError(words);
}

absl::StatusOr<const Driver*> LoadDriver() {
  static const absl::StatusOr<const Driver*> driver = Load();
  return driver;
}

}  // namespace kiln::worker::cuda

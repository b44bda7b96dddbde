#include "worker/profile/gpu_facts.h"

#include <dlfcn.h>

#include <cstring>

#include "absl/status/statusor.h"
#include "worker/profile/cuda_driver.h"

namespace kiln::worker {
namespace {

// NVML API.
using Result = int;
constexpr Result kSuccess = 0;
struct Memory {  // nvmlMemory_t
  unsigned long long total, free, used;
};

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  void* const found = ::dlsym(library, name);
  std::memcpy(function, &found, sizeof(found));
  return found != nullptr;
}

// NVML's name of the device; null when it does not know it.
void* HandleOf(void* library, int ordinal) {
  Result (*get)(const char*, void**) = nullptr;
  const absl::StatusOr<const cuda::Driver*> cu = cuda::LoadDriver();
  if (!cu.ok() || !Find(library, "nvmlDeviceGetHandleByPciBusId_v2", &get)) return nullptr;
  cuda::Ordinal device = 0;
  char bus_id[64] = {};
  void* handle = nullptr;
  const bool known = (*cu)->DeviceGet(&device, ordinal) == cuda::kSuccess &&
                     (*cu)->DeviceGetPCIBusId(bus_id, sizeof(bus_id), device) == cuda::kSuccess &&
                     get(bus_id, &handle) == kSuccess;
  return known ? handle : nullptr;
}

}  // namespace

void AddGpuFacts(int ordinal, v1::ArchRecord* record) {
  void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  Result (*init)() = nullptr;
  if (library == nullptr || !Find(library, "nvmlInit_v2", &init) || init() != kSuccess) return;
  Result (*get_driver)(char*, unsigned) = nullptr;
  char driver[96] = {};
  if (Find(library, "nvmlSystemGetDriverVersion", &get_driver) &&
      get_driver(driver, sizeof(driver) - 1) == kSuccess) {
    record->set_driver(driver);
  }
  void* const device = HandleOf(library, ordinal);
  if (device == nullptr) return;
  Result (*get_power)(void*, unsigned*) = nullptr;
  unsigned milliwatts = 0;
  if (Find(library, "nvmlDeviceGetEnforcedPowerLimit", &get_power) &&
      get_power(device, &milliwatts) == kSuccess) {
    record->set_power_watts(milliwatts / 1e3);
  }
  Result (*get_memory)(void*, Memory*) = nullptr;
  Memory memory = {};
  if (Find(library, "nvmlDeviceGetMemoryInfo", &get_memory) &&
      get_memory(device, &memory) == kSuccess) {
    record->set_memory_bytes(static_cast<int64_t>(memory.total));
  }
}

}  // namespace kiln::worker

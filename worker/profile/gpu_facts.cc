#include "worker/profile/gpu_facts.h"

#include <dlfcn.h>

#include "absl/status/statusor.h"
#include "worker/profile/cuda_driver.h"
#include "worker/profile/dynamic_library.h"

namespace kiln::worker {
namespace {

// NVML API.
using Result = int;
constexpr Result kSuccess = 0;
struct Memory {  // nvmlMemory_t
  unsigned long long total, free, used;
};

struct Nvml {
  Result (*Init)();
  Result (*GetHandle)(const char*, void**);
  Result (*GetDriver)(char*, unsigned);
  Result (*GetPowerLimit)(void*, unsigned*);  // milliwatts
  Result (*GetMemory)(void*, Memory*);
};

absl::StatusOr<Nvml> LoadNvml() {
  void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::UnavailableError("no NVML (libnvidia-ml.so.1)");
  Nvml api = {};
  const Symbol symbols[] = {
      {"nvmlInit_v2", &api.Init},
      {"nvmlDeviceGetHandleByPciBusId_v2", &api.GetHandle},
      {"nvmlSystemGetDriverVersion", &api.GetDriver},
      {"nvmlDeviceGetEnforcedPowerLimit", &api.GetPowerLimit},
      {"nvmlDeviceGetMemoryInfo", &api.GetMemory},
  };
  const absl::Status found = Resolve(library, symbols, "NVML");
  if (!found.ok()) return found;
  if (api.Init() != kSuccess) return absl::UnavailableError("NVML does not start");
  return api;
}

// NVML's name of the device; null when it does not know it.
void* HandleOf(const Nvml& nvml, int ordinal) {
  const absl::StatusOr<const cuda::Driver*> cu = cuda::LoadDriver();
  if (!cu.ok()) return nullptr;
  cuda::Ordinal device = 0;
  char bus_id[64] = {};
  void* handle = nullptr;
  const bool known = (*cu)->DeviceGet(&device, ordinal) == cuda::kSuccess &&
                     (*cu)->DeviceGetPCIBusId(bus_id, sizeof(bus_id), device) == cuda::kSuccess &&
                     nvml.GetHandle(bus_id, &handle) == kSuccess;
  return known ? handle : nullptr;
}

}  // namespace

void AddGpuFacts(int ordinal, v1::ArchRecord* record) {
  const absl::StatusOr<Nvml> nvml = LoadNvml();
  if (!nvml.ok()) return;
  char driver[96] = {};
  if (nvml->GetDriver(driver, sizeof(driver) - 1) == kSuccess) record->set_driver(driver);
  void* const device = HandleOf(*nvml, ordinal);
  if (device == nullptr) return;
  unsigned milliwatts = 0;
  if (nvml->GetPowerLimit(device, &milliwatts) == kSuccess) {
    record->set_power_watts(milliwatts / 1e3);
  }
  Memory memory = {};
  if (nvml->GetMemory(device, &memory) == kSuccess) {
    record->set_memory_bytes(static_cast<int64_t>(memory.total));
  }
}

}  // namespace kiln::worker

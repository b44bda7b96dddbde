// A stand-in for NVML that knows one device, that of the fake driver, and says what a GPU's facts
// are. It has no clocks: what watches them does without.
#include <string.h>

typedef int Result;
typedef struct {
  unsigned long long total, free, used;
} Memory;

Result nvmlInit_v2(void) { return 0; }
Result nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  static int the_device;
  *device = &the_device;
  return bus_id[0] == 0 ? 6 : 0;  // NVML_ERROR_NOT_FOUND
}
Result nvmlSystemGetDriverVersion(char* text, unsigned length) {
  strncpy(text, "570.86.15", length);
  return 0;
}
Result nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) {
  (void)device;
  *milliwatts = 699900;
  return 0;
}
Result nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  (void)device;
  memory->total = 150754820096ull;
  return 0;
}

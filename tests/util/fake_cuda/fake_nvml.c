/* NVML without GPUs, for tests: libnvidia-ml.so.1 as far as the runner uses it. Errors, events and
 * processes of the first device are what a test says with the fake_nvml_* functions; where
 * processes share a folder (fake_settings.h), each device has those that have a context of it. */
#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include "fake_settings.h"

typedef int Result;
enum { OK = 0, INVALID = 2, TIMEOUT = 10 };
enum { UNCORRECTED = 1, VOLATILE = 0, SM_CLOCK = 1, MOST = 64 };
static const unsigned long long kXid = 8;

static int devices[MOST_DEVICES];
static _Atomic unsigned long long ecc_errors;
static _Atomic unsigned remapped_rows;
static const unsigned sm_mhz = 1980;
static _Atomic unsigned long long clock_reasons; /* why it is low */
static _Atomic unsigned long long xids[MOST];
static _Atomic int xid_count;
static _Atomic unsigned others[MOST];
static _Atomic int other_count;

void fake_nvml_ecc(unsigned long long errors) { ecc_errors = errors; }
void fake_nvml_remap(unsigned rows) { remapped_rows = rows; }
void fake_nvml_reasons(unsigned long long reasons) { clock_reasons = reasons; }
void fake_nvml_xid(unsigned long long xid) { xids[xid_count++ % MOST] = xid; }
void fake_nvml_process(unsigned pid) { others[other_count++ % MOST] = pid; }
void fake_nvml_no_processes(void) { other_count = 0; }

static void* driver(const char* function) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  return library ? dlsym(library, function) : NULL;
}

Result nvmlInit_v2(void) { return OK; }
Result nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** handle) {
  unsigned bus = 0;
  if (fake_number("FAKE_NVML_ABSENT", 0)) return INVALID;
  if (sscanf(id, "0000:%x:00.0", &bus) != 1 || bus >= MOST_DEVICES) return INVALID;
  void (*forget)(int) = (void (*)(int))driver("fake_cuda_forget");
  if (forget) forget((int)bus);
  return *handle = &devices[bus], OK;
}
static int index_of(void* handle) { return (int)((int*)handle - devices); }
Result nvmlSystemGetDriverVersion(char* text, unsigned length) {
  return strncpy(text, "570.86.15", length), OK;
}
Result nvmlDeviceGetEnforcedPowerLimit(void* handle, unsigned* milliwatts) {
  return *milliwatts = 699900, handle ? OK : INVALID;
}
struct Memory {
  unsigned long long total, free, used;
};
Result nvmlDeviceGetMemoryInfo(void* handle, struct Memory* memory) {
  return memory->total = 150754820096ull, handle ? OK : INVALID;
}
Result nvmlDeviceGetClockInfo(void* handle, int clock, unsigned* mhz) {
  return *mhz = sm_mhz, handle && clock == SM_CLOCK ? OK : INVALID;
}
Result nvmlDeviceGetPowerUsage(void* handle, unsigned* milliwatts) {
  return *milliwatts = 300000, handle ? OK : INVALID;
}
Result nvmlDeviceGetCurrentClocksThrottleReasons(void* handle, unsigned long long* reasons) {
  return *reasons = clock_reasons, handle ? OK : INVALID;
}
struct ProcessInfo {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};
/* Those that left a file in the device's folder and live. */
static unsigned sharers(const char* folder, struct ProcessInfo* found, unsigned most) {
  DIR* listing = opendir(folder);
  unsigned n = 0;
  for (struct dirent* entry = listing ? readdir(listing) : NULL; entry && n < most;
       entry = readdir(listing)) {
    const int pid = atoi(entry->d_name);
    if (pid > 0 && kill(pid, 0) == 0) found[n++].pid = (unsigned)pid;
  }
  if (listing) closedir(listing);
  return n;
}
/* Without a folder this process is listed, as in a container, under a number of the host, once it
 * has made a context since it looked the device up. */
Result nvmlDeviceGetComputeRunningProcesses_v3(void* handle, unsigned* count,
                                               struct ProcessInfo* found) {
  char folder[MOST_TEXT];
  if (!handle) return INVALID;
  unsigned n = 0;
  if (fake_folder(index_of(handle), folder)) {
    n = sharers(folder, found, *count);
  } else {
    int (*retained)(int) = (int (*)(int))driver("fake_cuda_retained");
    if (retained && retained(index_of(handle))) found[n++].pid = 1000000;
  }
  for (int i = 0; index_of(handle) == 0 && i < other_count && n < *count; ++i)
    found[n++].pid = others[i];
  return *count = n, OK;
}
Result nvmlDeviceGetTotalEccErrors(void* handle, int type, int counter,
                                   unsigned long long* errors) {
  if (!handle || type != UNCORRECTED || counter != VOLATILE) return INVALID;
  if (index_of(handle) != 0) return *errors = 0, OK;
  return *errors = ecc_errors + (unsigned long long)fake_number("FAKE_NVML_ECC", 0), OK;
}
Result nvmlDeviceGetRemappedRows(void* handle, unsigned* corrected, unsigned* uncorrected,
                                 unsigned* pending, unsigned* failed) {
  *corrected = *pending = *failed = 0;
  return *uncorrected = index_of(handle) == 0 ? remapped_rows : 0, OK;
}
struct EventData {
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
Result nvmlEventSetCreate(void** set) { return *set = &xid_count, OK; }
Result nvmlDeviceRegisterEvents(void* handle, unsigned long long types, void* set) {
  return handle == &devices[0] && set && types == kXid ? OK : INVALID;
}
Result nvmlEventSetWait_v2(void* set, struct EventData* event, unsigned milliseconds) {
  (void)set, (void)milliseconds;
  if (!xid_count) return TIMEOUT;
  memset(event, 0, sizeof(*event));
  event->device = &devices[0];
  event->type = kXid;
  event->data = xids[--xid_count];
  return OK;
}
Result nvmlEventSetFree(void* set) { return set ? OK : INVALID; }

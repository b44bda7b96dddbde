#include "worker/profile/gpu_faults.h"

#include <dlfcn.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/status.h"
#include "worker/profile/dynamic_library.h"

namespace kiln::worker {
namespace {

// NVML API.
using Result = int;
constexpr int kUncorrected = 1;                // NVML_MEMORY_ERROR_TYPE_UNCORRECTED
constexpr int kVolatile = 0;                   // NVML_VOLATILE_ECC
constexpr unsigned long long kXidEvent = 0x8;  // nvmlEventTypeXidCriticalError
constexpr int kMostEvents = 64;                // of one look

struct EventData {  // nvmlEventData_t
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

struct {
  Result (*Init)();
  Result (*GetHandle)(const char*, void**);
  // Missing in some drivers, and on some devices.
  Result (*GetEccErrors)(void*, int, int, unsigned long long*);
  Result (*GetRemappedRows)(void*, unsigned*, unsigned*, unsigned*, unsigned*);
  Result (*GetPagesPending)(void*, int*);
  Result (*EventSetCreate)(void**);
  Result (*RegisterEvents)(void*, unsigned long long, void*);
  Result (*EventSetWait)(void*, EventData*, unsigned);
  Result (*EventSetFree)(void*);
} api;

absl::Status Load() {
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::UnavailableError(
        "no NVML (libnvidia-ml.so.1, of the driver): faults of the GPU are not watched");
  }
  const Symbol symbols[] = {
      {"nvmlInit_v2", &api.Init},
      {"nvmlDeviceGetHandleByPciBusId_v2", &api.GetHandle},
      {"nvmlDeviceGetTotalEccErrors", &api.GetEccErrors, true},
      {"nvmlDeviceGetRemappedRows", &api.GetRemappedRows, true},
      {"nvmlDeviceGetRetiredPagesPendingStatus", &api.GetPagesPending, true},
      {"nvmlEventSetCreate", &api.EventSetCreate, true},
      {"nvmlDeviceRegisterEvents", &api.RegisterEvents, true},
      {"nvmlEventSetWait_v2", &api.EventSetWait, true},
      {"nvmlEventSetFree", &api.EventSetFree, true},
  };
  KILN_RETURN_IF_ERROR(Resolve(library, symbols, "NVML"));
  if (Result result = api.Init(); result != 0) {
    return absl::UnavailableError(absl::StrCat("NVML does not start (", result, ")"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<GpuFaults>> GpuFaults::Watch(const std::string& bus_id) {
  static const absl::Status loaded = Load();
  KILN_RETURN_IF_ERROR(loaded);
  void* device = nullptr;
  if (Result result = api.GetHandle(bus_id.c_str(), &device); result != 0) {
    return absl::UnavailableError(
        absl::StrCat("NVML does not know the device ", bus_id, " (", result, ")"));
  }
  std::unique_ptr<GpuFaults> faults(new GpuFaults(device, bus_id));
  faults->WatchEvents();
  return faults;
}

GpuFaults::~GpuFaults() {
  if (events_ != nullptr && api.EventSetFree != nullptr) (void)api.EventSetFree(events_);
}

// By NVIDIA's list of Xid errors: what they are called, and which of them are the device's.
GpuFaults::Fault GpuFaults::FaultOf(int xid) {
  struct Known {
    int xid;
    const char* name;
    bool hardware;
  };
  constexpr Known kKnown[] = {
      {13, "graphics engine exception", false},
      {31, "memory page fault", false},
      {43, "channel reset", false},
      {45, "preemptive cleanup", false},
      {48, "double-bit ECC error", true},
      {61, "microcontroller breakpoint", true},
      {62, "microcontroller halt", true},
      {63, "memory row remapped", true},
      {64, "memory row could not be remapped", true},
      {69, "graphics engine class error", false},
      {74, "NVLink error", true},
      {79, "fallen off the bus", true},
      {92, "many single-bit ECC errors", true},
      {94, "contained ECC error", true},
      {95, "uncontained ECC error", true},
      {119, "no answer of the system processor", true},
      {120, "error of the system processor", true},
      {140, "unrecovered ECC error", true},
  };
  for (const Known& known : kKnown) {
    if (known.xid == xid) return {absl::StrCat("Xid ", xid, " (", known.name, ")"), known.hardware};
  }
  return {absl::StrCat("Xid ", xid), false};
}

void GpuFaults::WatchEvents() {
  std::vector<Fault> before;
  TakeErrorCounts(&before);  // what happened before this process is none of its business
  log_ = KernelLog::Open();
  if (api.EventSetCreate == nullptr || api.RegisterEvents == nullptr ||
      api.EventSetWait == nullptr) {
    return;
  }
  void* events = nullptr;
  if (api.EventSetCreate(&events) != 0) return;
  if (api.RegisterEvents(device_, kXidEvent, events) == 0) {
    events_ = events;
  } else if (api.EventSetFree != nullptr) {
    (void)api.EventSetFree(events);
  }
}

void GpuFaults::TakeErrorCounts(std::vector<Fault>* faults) {
  unsigned long long uncorrected = 0;
  if (api.GetEccErrors != nullptr &&
      api.GetEccErrors(device_, kUncorrected, kVolatile, &uncorrected) == 0) {
    if (uncorrected > uncorrected_) {
      faults->push_back(
          {absl::StrCat(uncorrected - uncorrected_, " uncorrected ECC errors"), true});
    }
    uncorrected_ = uncorrected;  // a reset clears it
  }
  unsigned corrected = 0, remapped = 0, pending = 0, failed = 0;
  if (api.GetRemappedRows != nullptr &&
      api.GetRemappedRows(device_, &corrected, &remapped, &pending, &failed) == 0) {
    if (remapped > remapped_) {
      faults->push_back({absl::StrCat(remapped - remapped_, " memory rows remapped"), true});
    }
    remapped_ = remapped;
  }
  int retired = 0;
  if (api.GetPagesPending != nullptr && api.GetPagesPending(device_, &retired) == 0) {
    if (retired != 0 && retired_ == 0) faults->push_back({"memory pages to be retired", true});
    retired_ = static_cast<unsigned>(retired);
  }
}

DeviceHealth GpuFaults::Take() {
  std::set<int> xids;  // NVML and the log tell of the same ones
  EventData event = {};
  for (int i = 0; i < kMostEvents && events_ != nullptr; ++i) {
    if (api.EventSetWait(events_, &event, 0) != 0) break;
    if (event.type == kXidEvent) xids.insert(static_cast<int>(event.data));
  }
  if (log_ != nullptr) {
    for (const int xid : log_->TakeXids(bus_id_)) xids.insert(xid);
  }
  std::vector<Fault> faults;
  for (const int xid : xids) faults.push_back(FaultOf(xid));
  TakeErrorCounts(&faults);
  std::vector<std::string> own, others;
  for (const Fault& fault : faults) (fault.hardware ? own : others).push_back(fault.what);
  return {absl::StrJoin(own, ", "), absl::StrJoin(others, ", ")};
}

std::function<DeviceHealth()> WithinSeconds(double seconds, std::function<DeviceHealth()> faults) {
  struct State {
    std::mutex mutex;
    std::condition_variable said;
    std::optional<DeviceHealth> answer;
    bool asking = false;
  };
  const auto state = std::make_shared<State>();
  return [seconds, state, faults = std::move(faults)]() -> DeviceHealth {
    std::unique_lock<std::mutex> lock(state->mutex);
    if (!std::exchange(state->asking, true)) {
      // Left behind where the driver never answers.
      std::thread([state, faults] {
        DeviceHealth health = faults();
        std::lock_guard<std::mutex> done(state->mutex);
        state->answer = std::move(health);
        state->said.notify_all();
      }).detach();
    }
    state->said.wait_for(lock, std::chrono::duration<double>(seconds),
                         [&] { return state->answer.has_value(); });
    if (!state->answer.has_value()) {
      return {absl::StrCat("its driver does not say within ", seconds, " s what happened to it"),
              ""};
    }
    state->asking = false;
    return *std::exchange(state->answer, std::nullopt);
  };
}

}  // namespace kiln::worker

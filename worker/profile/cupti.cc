#include "worker/profile/cupti.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/cuda_toolkit.h"
#include "compiler/base/status.h"
#include "worker/profile/dynamic_library.h"

namespace kiln::worker::cuda {
namespace {

// CUPTI Activity API.
using Result = int;
using Request = void (*)(uint8_t** buffer, size_t* size, size_t* max_records);
using Complete = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t size,
                          size_t valid_size);
constexpr int kConcurrentKernel = 10;  // CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr size_t kBufferAlignment = 8;

// The head of CUpti_ActivityKernel4 and all later ones, which only add behind it.
struct __attribute__((packed, aligned(8))) Record {
  uint32_t kind;
  uint8_t cache_config;
  uint8_t shared_config;
  uint16_t registers;
  uint32_t partitioned_requested;
  uint32_t partitioned_executed;
  uint64_t begin;
  uint64_t end;
  uint64_t completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3];
  int32_t static_shared, dynamic_shared;
  uint32_t local_thread, local_all;
  uint32_t correlation;
};
static_assert(offsetof(Record, begin) == 16 && offsetof(Record, correlation) == 92);

struct {
  Result (*GetVersion)(uint32_t*);
  Result (*GetTimestamp)(uint64_t*);
  Result (*RegisterCallbacks)(Request, Complete);
  Result (*Enable)(int);
  Result (*FlushAll)(uint32_t);
  Result (*GetNextRecord)(uint8_t*, size_t, Record**);
  Result (*GetNumDroppedRecords)(void*, uint32_t, size_t*);
} api;

std::mutex mutex;  // records arrive on a thread of CUPTI's
std::vector<KernelRecord> records;
size_t timeless = 0;  // records without sensible times, since the last Take()
size_t lost = 0;      // that CUPTI had no room for, likewise

void OnRequest(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;
}

void OnComplete(void* context, uint32_t stream, uint8_t* buffer, size_t, size_t valid_size) {
  Record* record = nullptr;
  size_t dropped = 0;
  if (api.GetNumDroppedRecords(context, stream, &dropped) != 0) dropped = 0;
  std::lock_guard<std::mutex> lock(mutex);
  lost += dropped;
  while (api.GetNextRecord(buffer, valid_size, &record) == 0) {
    if (record->kind != kConcurrentKernel) continue;
    if (record->begin == 0 || record->end < record->begin) {
      ++timeless;
    } else {
      records.push_back({record->begin, record->end, record->correlation, record->registers});
    }
  }
  std::free(buffer);
}

}  // namespace

absl::StatusOr<void*> OpenCupti() {
  for (const std::string& name : ToolkitLibraries("libcupti", "cuda_cupti")) {
    if (void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return absl::UnavailableError(
      absl::StrCat("no CUPTI (libcupti.so.13 or .12): ", ToolkitRemedy()));
}

absl::Status KernelTimes::Load() {
  KILN_ASSIGN_OR_RETURN(void* library, OpenCupti());
  const Symbol symbols[] = {
      {"cuptiGetVersion", &api.GetVersion},
      {"cuptiGetTimestamp", &api.GetTimestamp},
      {"cuptiActivityRegisterCallbacks", &api.RegisterCallbacks},
      {"cuptiActivityEnable", &api.Enable},
      {"cuptiActivityFlushAll", &api.FlushAll},
      {"cuptiActivityGetNextRecord", &api.GetNextRecord},
      {"cuptiActivityGetNumDroppedRecords", &api.GetNumDroppedRecords},
  };
  KILN_RETURN_IF_ERROR(Resolve(library, symbols, "CUPTI"));
  uint32_t version = 0;
  if (api.GetVersion(&version) != 0) return absl::UnavailableError("CUPTI does not answer");
  version_ = absl::StrCat("CUPTI ", version / 10000, ".", version % 10000 / 100);
  if (Result result = api.RegisterCallbacks(OnRequest, OnComplete); result != 0) {
    return absl::UnavailableError(absl::StrCat(version_, " takes no callbacks (", result, ")"));
  }
  if (Result result = api.Enable(kConcurrentKernel); result != 0) {
    return absl::UnavailableError(absl::StrCat(
        version_, " cannot record kernels (", result,
        "): another profiler may be attached, or the driver is older than this CUPTI"));
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelTimes*> KernelTimes::Start() {
  static KernelTimes times;
  static const absl::Status loaded = times.Load();
  KILN_RETURN_IF_ERROR(loaded);
  return &times;
}

uint64_t KernelTimes::Now() const {
  uint64_t now = 0;
  return api.GetTimestamp(&now) == 0 ? now : 0;
}

absl::StatusOr<std::vector<KernelRecord>> KernelTimes::Take(uint64_t since) {
  if (Result result = api.FlushAll(0); result != 0) {
    return absl::UnavailableError(absl::StrCat("CUPTI cannot flush its records (", result, ")"));
  }
  std::vector<KernelRecord> taken;
  size_t without_times = 0;
  size_t dropped = 0;
  {
    std::lock_guard<std::mutex> lock(mutex);
    taken.swap(records);
    without_times = std::exchange(timeless, 0);
    dropped = std::exchange(lost, 0);
  }
  if (without_times > 0 || dropped > 0) {
    return absl::UnavailableError(
        absl::StrCat("CUPTI gave ", without_times, " records without times, and lost ", dropped));
  }
  std::erase_if(taken, [&](const KernelRecord& record) { return record.begin_ns < since; });
  std::sort(taken.begin(), taken.end(), [](const KernelRecord& a, const KernelRecord& b) {
    return a.correlation < b.correlation;
  });
  return taken;
}

}  // namespace kiln::worker::cuda

#include "worker/profile/counters.h"

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "worker/profile/cupti.h"
#include "worker/profile/dynamic_library.h"

namespace kiln::worker::cuda {
namespace {

using Result = int;
constexpr Result kInsufficientPrivileges = 35;  // CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
constexpr int kMostPasses = 64;
constexpr uint32_t kRangeProfiler = 0;  // CUPTI_PROFILER_TYPE_RANGE_PROFILER
constexpr uint32_t kUserRange = 2,
                   kUserReplay = 3;  // CUpti_ProfilerRange, CUpti_ProfilerReplayMode
constexpr double kBytesOfWavefront = 128;

struct Entry {
  const char* name;
  const char* metric;
  double factor = 1;
};

constexpr Entry kTable[] = {
    {"dram_read_bytes", "dram__bytes_read.sum"},
    {"dram_write_bytes", "dram__bytes_write.sum"},
    {"l2_bytes", "lts__t_bytes.sum"},
    {"shared_bytes", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", kBytesOfWavefront},
    {"shared_conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"},
    {"tensor_percent", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"},
    {"issue_percent", "sm__inst_issued.avg.pct_of_peak_sustained_elapsed"},
    {"occupancy_percent", "sm__warps_active.avg.pct_of_peak_sustained_active"},
    {"stall_barrier", "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio"},
    {"stall_gmma", "smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio"},
    {"stall_long_scoreboard",
     "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"},
    {"stall_short_scoreboard",
     "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio"},
    {"stall_math_pipe",
     "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio"},
    {"stall_mio", "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio"},
    {"stall_lg", "smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio"},
    {"stall_wait", "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio"},
    {"stall_sleeping", "smsp__average_warps_issue_stalled_sleeping_per_issue_active.ratio"},
};

// Bytes behind the last field of a parameter block, which its size does not count.
template <typename Fields>
constexpr size_t kPadding = 0;

// The parameter blocks of the range profiler's functions (CUPTI 12.6 and later): each begins with
// its size and a pointer that is null, and grows only behind its end.
struct ChipNameFields {
  size_t ordinal;
  const char* name;
};
struct HostInitializeFields {
  uint32_t type;
  const char* chip;
  const uint8_t* availability;
  void* host;
};
struct HostAddMetricsFields {
  void* host;
  const char* const* names;
  size_t count;
};
struct HostConfigSizeFields {
  void* host;
  size_t bytes;
};
struct HostConfigFields {
  void* host;
  size_t bytes;
  uint8_t* image;
};
struct HostEvaluateFields {
  void* host;
  const uint8_t* data;
  size_t bytes;
  size_t range;
  const char* const* names;
  size_t count;
  double* values;
};
struct ObjectFields {  // of the functions that take a profiler, or a host, alone
  void* object;
};
struct EnableFields {
  void* context;  // null: the current one
  void* profiler;
};
struct DataSizeFields {
  void* profiler;
  const char* const* names;
  size_t count;
  size_t ranges;
  uint32_t nodes;
  size_t bytes;
};
struct DataInitializeFields {
  void* profiler;
  size_t bytes;
  uint8_t* data;
};
struct SetConfigFields {
  void* profiler;
  size_t config_bytes;
  const uint8_t* config;
  size_t data_bytes;
  uint8_t* data;
  uint32_t range, replay;
  size_t ranges_a_pass;
  uint16_t levels, least_level;
  size_t pass;
  uint16_t target_level;
};
template <>
constexpr size_t kPadding<SetConfigFields> = 6;
struct PushRangeFields {
  void* profiler;
  const char* name;
};
struct StopFields {
  void* profiler;
  size_t pass, target_level;
  uint8_t all_submitted;
};
template <>
constexpr size_t kPadding<StopFields> = 7;
struct DecodeFields {
  void* profiler;
  size_t dropped;
};
struct NothingFields {};
template <>
constexpr size_t kPadding<NothingFields> = 8;

template <typename Fields>
struct Block {
  size_t size = sizeof(Block) - kPadding<Fields>;
  void* reserved = nullptr;
  Fields fields = {};
};

template <typename Fields>
using Function = Result (*)(Block<Fields>*);

struct {
  Function<NothingFields> Initialize;
  Function<ChipNameFields> GetChipName;
  Function<HostInitializeFields> HostInitialize;
  Function<ObjectFields> HostDeinitialize;
  Function<HostAddMetricsFields> HostConfigAddMetrics;
  Function<HostConfigSizeFields> HostGetConfigImageSize;
  Function<HostConfigFields> HostGetConfigImage;
  Function<HostEvaluateFields> HostEvaluateToGpuValues;
  Function<EnableFields> Enable;
  Function<ObjectFields> Disable;
  Function<DataSizeFields> GetCounterDataSize;
  Function<DataInitializeFields> CounterDataImageInitialize;
  Function<SetConfigFields> SetConfig;
  Function<ObjectFields> Start;
  Function<StopFields> Stop;
  Function<PushRangeFields> PushRange;
  Function<ObjectFields> PopRange;
  Function<DecodeFields> DecodeData;
} api;

absl::Status Failed(const char* what, Result result) {
  if (result == kInsufficientPrivileges) {
    return absl::PermissionDeniedError(
        "this user may not read the GPU's counters; let an administrator set NVreg_"
        "RestrictProfilingToAdminUsers=0 for the nvidia module, or run the worker with "
        "CAP_SYS_ADMIN");
  }
  return absl::UnavailableError(absl::StrCat("CUPTI cannot ", what, " (", result, ")"));
}

// The fields as the call leaves them.
template <typename Fields>
absl::StatusOr<Fields> Call(const char* what, Function<Fields> function, Fields fields) {
  Block<Fields> block;
  block.fields = fields;
  const Result result = function(&block);
  if (result != 0) return Failed(what, result);
  return block.fields;
}

absl::Status LoadFunctions() {
  KILN_ASSIGN_OR_RETURN(void* library, OpenCupti());
  const Symbol symbols[] = {
      {"cuptiProfilerInitialize", &api.Initialize},
      {"cuptiDeviceGetChipName", &api.GetChipName},
      {"cuptiProfilerHostInitialize", &api.HostInitialize},
      {"cuptiProfilerHostDeinitialize", &api.HostDeinitialize},
      {"cuptiProfilerHostConfigAddMetrics", &api.HostConfigAddMetrics},
      {"cuptiProfilerHostGetConfigImageSize", &api.HostGetConfigImageSize},
      {"cuptiProfilerHostGetConfigImage", &api.HostGetConfigImage},
      {"cuptiProfilerHostEvaluateToGpuValues", &api.HostEvaluateToGpuValues},
      {"cuptiRangeProfilerEnable", &api.Enable},
      {"cuptiRangeProfilerDisable", &api.Disable},
      {"cuptiRangeProfilerGetCounterDataSize", &api.GetCounterDataSize},
      {"cuptiRangeProfilerCounterDataImageInitialize", &api.CounterDataImageInitialize},
      {"cuptiRangeProfilerSetConfig", &api.SetConfig},
      {"cuptiRangeProfilerStart", &api.Start},
      {"cuptiRangeProfilerStop", &api.Stop},
      {"cuptiRangeProfilerPushRange", &api.PushRange},
      {"cuptiRangeProfilerPopRange", &api.PopRange},
      {"cuptiRangeProfilerDecodeData", &api.DecodeData},
  };
  return Resolve(library, symbols, "this CUPTI", ": counters need CUDA 12.6 or later");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Counters>> Counters::Open(int ordinal) {
  static const absl::Status loaded = LoadFunctions();
  KILN_RETURN_IF_ERROR(loaded);
  std::unique_ptr<Counters> counters(new Counters());
  KILN_RETURN_IF_ERROR(counters->Configure(ordinal));
  return counters;
}

Counters::~Counters() {
  if (host_ != nullptr) (void)Call<ObjectFields>("end", api.HostDeinitialize, {host_});
}

absl::Status Counters::Configure(int ordinal) {
  KILN_RETURN_IF_ERROR(
      Call<NothingFields>("start its profiler", api.Initialize, NothingFields{}).status());
  KILN_ASSIGN_OR_RETURN(const ChipNameFields chip,
                        Call<ChipNameFields>("name the chip", api.GetChipName,
                                             {static_cast<size_t>(ordinal), nullptr}));
  KILN_ASSIGN_OR_RETURN(const HostInitializeFields host,
                        Call<HostInitializeFields>("count on this chip", api.HostInitialize,
                                                   {kRangeProfiler, chip.name, nullptr, nullptr}));
  host_ = host.host;
  for (size_t i = 0; i < std::size(kTable); ++i) {
    const char* metric = kTable[i].metric;
    if (!Call<HostAddMetricsFields>("count", api.HostConfigAddMetrics, {host_, &metric, 1}).ok())
      continue;
    taken_.push_back(i);
    metrics_.push_back(metric);
  }
  if (metrics_.empty()) return absl::UnavailableError("CUPTI knows none of the counters here");
  KILN_ASSIGN_OR_RETURN(
      const HostConfigSizeFields size,
      Call<HostConfigSizeFields>("lay out the counters", api.HostGetConfigImageSize, {host_, 0}));
  config_.resize(size.bytes);
  return Call<HostConfigFields>("lay out the counters", api.HostGetConfigImage,
                                {host_, config_.size(), config_.data()})
      .status();
}

absl::Status Counters::Arm(void* profiler, std::vector<uint8_t>* data) {
  KILN_ASSIGN_OR_RETURN(
      const DataSizeFields size,
      Call<DataSizeFields>("make room for counters", api.GetCounterDataSize,
                           {profiler, metrics_.data(), metrics_.size(), 1, 1, 0}));
  data->resize(size.bytes);
  KILN_RETURN_IF_ERROR(Call<DataInitializeFields>("make room for counters",
                                                  api.CounterDataImageInitialize,
                                                  {profiler, data->size(), data->data()})
                           .status());
  return Call<SetConfigFields>("set the counters", api.SetConfig,
                               {profiler, config_.size(), config_.data(), data->size(),
                                data->data(), kUserRange, kUserReplay, 1, 1, 1, 0, 1})
      .status();
}

absl::Status Counters::RunPasses(void* profiler, const std::function<absl::Status(int)>& launch) {
  for (int pass = 0; pass < kMostPasses; ++pass) {
    KILN_RETURN_IF_ERROR(Call<ObjectFields>("start a pass", api.Start, {profiler}).status());
    KILN_RETURN_IF_ERROR(
        Call<PushRangeFields>("begin a range", api.PushRange, {profiler, "launch"}).status());
    const absl::Status launched = launch(pass);
    KILN_RETURN_IF_ERROR(Call<ObjectFields>("end a range", api.PopRange, {profiler}).status());
    KILN_ASSIGN_OR_RETURN(const StopFields stop,
                          Call<StopFields>("end a pass", api.Stop, {profiler, 0, 0, 0}));
    KILN_RETURN_IF_ERROR(launched);
    if (stop.all_submitted != 0) {
      return Call<DecodeFields>("read the counters", api.DecodeData, {profiler, 0}).status();
    }
  }
  return absl::UnavailableError(absl::StrCat("CUPTI wants more than ", kMostPasses, " passes"));
}

absl::StatusOr<CounterValues> Counters::Evaluate(const std::vector<uint8_t>& data) {
  std::vector<double> values(metrics_.size());
  KILN_RETURN_IF_ERROR(Call<HostEvaluateFields>("tell the counters", api.HostEvaluateToGpuValues,
                                                {host_, data.data(), data.size(), 0,
                                                 metrics_.data(), metrics_.size(), values.data()})
                           .status());
  CounterValues out;
  for (size_t i = 0; i < values.size(); ++i) {
    const Entry& entry = kTable[taken_[i]];
    out[entry.name] = values[i] * entry.factor;
  }
  return out;
}

absl::StatusOr<CounterValues> Counters::Count(const std::function<absl::Status(int pass)>& launch) {
  KILN_ASSIGN_OR_RETURN(const EnableFields enabled,
                        Call<EnableFields>("reach the counters", api.Enable, {nullptr, nullptr}));
  const absl::Cleanup disable = [&] {
    (void)Call<ObjectFields>("let go of the counters", api.Disable, {enabled.profiler});
  };
  std::vector<uint8_t> data;
  KILN_RETURN_IF_ERROR(Arm(enabled.profiler, &data));
  KILN_RETURN_IF_ERROR(RunPasses(enabled.profiler, launch));
  return Evaluate(data);
}

}  // namespace kiln::worker::cuda

#include "worker/profile/gpu_device.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "compiler/base/status.h"
#include "compiler/target/arch.h"
#include "compiler/target/gpu_figures.h"
#include "worker/elapsed.h"
#include "worker/profile/artifact_library.h"
#include "worker/profile/canary.h"
#include "worker/profile/counters.h"
#include "worker/profile/cuda_driver.h"
#include "worker/profile/cupti.h"
#include "worker/profile/exit_codes.h"
#include "worker/profile/gpu_kernels.h"
#include "worker/profile/launch_limit.h"
#include "worker/profile/nvml.h"
#include "worker/profile/parallel.h"
#include "worker/profile/stats.h"

namespace kiln::worker {
namespace {

using Clock = std::chrono::steady_clock;
using cuda::Address;
using cuda::Driver;

constexpr int64_t kStageBytes = 64 << 20;  // pinned memory that copies go through
constexpr int64_t kHalfStage = kStageBytes / 2;
constexpr size_t kBatch = 32;              // launches behind one gate
constexpr int kCalibrationLaunches = 50;   // of the empty kernel
constexpr int64_t kUnalignedBytes = 16;    // kiln_digest reads pairs of words
constexpr int64_t kReadBytes = 256 << 20;  // least that the canary of the memory reads
constexpr int kRecordTries = 3;            // of a batch, until events take over
constexpr double kTransferSeconds = 60;    // longest wait for a copy
constexpr auto kSpin = std::chrono::microseconds(300);
constexpr auto kNap = std::chrono::microseconds(50);
constexpr double kFaultSeconds = 0.2;  // within which the system tells why a context was lost
constexpr DType kApartTypes[] = {kFloat32, kBFloat16, kFloat16};  // of kiln_apart, by their kind

Address AddressOf(const void* pointer) { return reinterpret_cast<Address>(pointer); }

class GpuKernel : public LoadedKernel {
 public:
  GpuKernel(std::unique_ptr<ArtifactLibrary> library, cuda::Stream stream, int ordinal)
      : library_(std::move(library)) {
    launch_.size = sizeof(launch_);
    launch_.version = 1;
    launch_.stream = stream;
    launch_.device = ordinal;
  }

  int32_t Call(const LaunchArguments& arguments) {
    started_ = true;
    return library_->Call(launch_, arguments);
  }
  bool started() const { return started_; }
  size_t* parts() { return &parts_; }

 private:
  const std::unique_ptr<ArtifactLibrary> library_;
  kiln_launch launch_ = {};
  bool started_ = false;
  size_t parts_ = 0;
};

class GpuDevice : public Device {
 public:
  GpuDevice(const Driver* driver, const GpuOptions& options) : cu_(*driver), options_(options) {}

  absl::Status Open();

  std::string name() const override { return absl::StrCat("gpu", options_.ordinal); }
  int64_t cache_bytes() const override { return cache_bytes_; }
  double cache_turns() const override { return 3; }
  // The first loads the module; nothing on the host has to wake.
  int warm_up_launches() const override { return 3; }
  // A card at its power limit runs large products 2 to 4 % slower in finals without a pause than
  // their winner by itself (H200, 4096 x 4096 x 4096 in bfloat16).
  double settle_seconds() const override { return 300e-6; }
  // A tenth of its time at work no card is at its power limit.
  double rest_turns() const override { return 9; }
  double cool_seconds() const override { return 0.1; }
  absl::StatusOr<std::unique_ptr<LoadedKernel>> Load(const v1::ArtifactBundle& bundle,
                                                     int threads) override;
  bool has_own_memory() const override { return true; }
  absl::StatusOr<void*> Allocate(int64_t bytes) override;
  void Free(void* address, int64_t bytes) override;
  absl::Status Write(void* to, const void* from_host, int64_t bytes) override;
  absl::Status Read(void* to_host, const void* from, int64_t bytes) override;
  absl::Status Fill(void* to, uint8_t byte, int64_t bytes) override;
  absl::Status Copy(void* to, const void* from, int64_t bytes) override;
  absl::StatusOr<uint64_t> Digest(const void* from, int64_t bytes) override;
  absl::Status Gather(void* to_host, const void* from, absl::Span<const int64_t> places,
                      int64_t width) override;
  absl::StatusOr<int64_t> CountApart(const void* a, const void* b, DType type, int64_t count,
                                     float rtol, float atol) override;
  void LimitLaunches(double seconds) override { launch_seconds_ = seconds; }
  absl::Status Launch(LoadedKernel* kernel, const LaunchArguments& arguments) override;
  void BeginTask() override;
  absl::StatusOr<std::vector<Sample>> Time(LoadedKernel* kernel,
                                           absl::Span<const LaunchArguments> launches) override;
  absl::StatusOr<std::map<std::string, double>> Count(
      LoadedKernel* kernel, absl::Span<const LaunchArguments> launches) override;
  std::string Conditions() override;
  std::string Slowdown() override { return slowdown_; }
  std::vector<std::string> Missing() const override { return missing_; }
  DeviceHealth Faults() override;
  DeviceHealth Examine() override;
  std::vector<std::string> Company() override;

 private:
  struct Pair {
    cuda::Event begin = nullptr, end = nullptr;
  };

  absl::Status MakeContext();
  absl::Status MakeTools();
  absl::StatusOr<uint64_t> SumBy(cuda::Function kernel, void** arguments, const char* what);
  absl::Status Calibrate();
  absl::Status OpenCanary();
  absl::StatusOr<std::vector<double>> TimeCanary(const std::string& of, cuda::Function kernel,
                                                 std::vector<void*> arguments, size_t launches);
  double ClockShare() const;
  std::unique_ptr<Canary> MakeCanary(const std::string& of, const std::string& file,
                                     cuda::Function kernel, std::vector<void*> arguments);
  // Waits for the stream. Ends the process when it fails or takes longer.
  [[noreturn]] void Lose(const std::string& why, int exit_code = kDeviceLost);
  void Await(double limit_seconds, absl::string_view what);
  // A launch's code, or the end of the process when the driver has a sticky error.
  absl::Status Explain(int32_t code);
  // Starts the launches behind a closed gate where `gate`, so that the host's part in a launch is
  // over before the first one begins, and times them.
  // `parts`: how many kernels a launch is as far as is known, 0 = not at all; null: not to be
  // learned from this one, which may load a module.
  absl::Status TimeBatch(size_t count, bool gate, size_t* parts,
                         const std::function<absl::Status(size_t)>& start,
                         std::vector<Sample>* samples);
  // A batch of the runner's own `kernel`, again where its records are bad.
  absl::Status TimeOwn(size_t count, bool gate, const std::function<absl::Status(size_t)>& kernel,
                       std::vector<Sample>* samples);
  absl::Status CloseGate();
  // Spans by CUPTI's records; empty when they do not fit the launches.
  std::vector<double> Spans(size_t count, uint64_t since, size_t* parts);
  bool recording() const { return records_ != nullptr && !without_records_; }
  // The last batch has no records. True: none is tried any more for this task.
  bool GiveUpRecords();

  const Driver& cu_;
  const GpuOptions options_;
  double launch_seconds_ = kLaunchSeconds;
  cuda::Stream stream_ = nullptr;
  double clock_mhz_ = 0;  // the highest; 0: the driver does not say
  int64_t cache_bytes_ = 0;
  int blocks_ = 1;  // of a digest
  cuda::Function digest_ = nullptr, gather_ = nullptr, apart_ = nullptr;
  cuda::Function nothing_ = nullptr;
  cuda::Function canary_kernel_ = nullptr;
  cuda::Function reading_kernel_ = nullptr;
  std::vector<std::unique_ptr<Canary>> canaries_;  // none: not asked for
  unsigned rounds_ = cuda::kCanaryRounds;          // arguments of their kernels
  Address clock_ = 0;                              // where they leave what it was
  double canary_mhz_ = 0;                          // in the last batch of one of them; 0: unknown
  Address read_from_ = 0;
  uint64_t read_pairs_ = 0;
  std::vector<std::string> missing_;
  std::string bus_id_;
  Address sum_ = 0;
  uint8_t* stage_ = nullptr;
  uint32_t* gate_ = nullptr;  // host memory that the stream waits on
  Address gate_on_device_ = 0;
  uint32_t ticket_ = 0;
  std::vector<Pair> events_;
  cuda::KernelTimes* records_ = nullptr;
  std::string why_no_records_;
  bool without_records_ = false;  // until the next task, as they were bad
  int bad_in_a_row_ = 0;          // batches whose records were
  bool calibrated_by_records_ = false;
  std::unique_ptr<cuda::Monitor> monitor_;
  std::string why_no_monitor_;
  std::string slowdown_;  // what throttled samples since the last Conditions()
  std::optional<absl::StatusOr<std::unique_ptr<cuda::Counters>>>
      counters_;          // opened when asked for
  double launch_ns_ = 0;  // between two events around an empty kernel, less the kernel
};

absl::Status GpuDevice::Open() {
  if (options_.records) {
    absl::StatusOr<cuda::KernelTimes*> records = cuda::KernelTimes::Start();
    if (records.ok()) records_ = *records;
    why_no_records_ = std::string(records.status().message());
    if (!records.ok()) missing_.push_back(why_no_records_);
  }
  KILN_RETURN_IF_ERROR(MakeContext());
  KILN_RETURN_IF_ERROR(MakeTools());
  KILN_RETURN_IF_ERROR(Calibrate());
  return OpenCanary();
}

absl::Status GpuDevice::MakeContext() {
  cuda::Ordinal device = 0;
  KILN_RETURN_IF_ERROR(cu_.Check(cu_.DeviceGet(&device, options_.ordinal),
                                 absl::StrCat("open GPU ", options_.ordinal)));
  char bus_id[32] = {};
  if (cu_.DeviceGetPCIBusId(bus_id, sizeof(bus_id), device) == cuda::kSuccess) {
    bus_id_ = bus_id;
    auto monitor = cuda::Monitor::Start(bus_id_);
    if (monitor.ok()) monitor_ = *std::move(monitor);
    why_no_monitor_ = std::string(monitor.status().message());
    if (!monitor.ok()) missing_.push_back(why_no_monitor_);
  }
  const std::set<unsigned> before =
      monitor_ == nullptr ? std::set<unsigned>() : monitor_->Processes();
  cuda::Context context = nullptr;
  KILN_RETURN_IF_ERROR(cu_.Check(cu_.DevicePrimaryCtxRetain(&context, device), "make a context"));
  KILN_RETURN_IF_ERROR(cu_.Check(cu_.CtxSetCurrent(context), "enter the context"));
  int l2 = 0;
  int sms = 1;
  int khz = 0;
  KILN_RETURN_IF_ERROR(
      cu_.Check(cu_.DeviceGetAttribute(&khz, cuda::kClockKhz, device), "ask for the clock"));
  KILN_RETURN_IF_ERROR(
      cu_.Check(cu_.DeviceGetAttribute(&l2, cuda::kL2Bytes, device), "ask for the cache"));
  KILN_RETURN_IF_ERROR(
      cu_.Check(cu_.DeviceGetAttribute(&sms, cuda::kMultiprocessors, device), "ask for the SMs"));
  clock_mhz_ = khz / 1e3;
  cache_bytes_ = l2;
  blocks_ = sms * 8;
  if (monitor_ != nullptr) monitor_->Claim(before);
  return cu_.Check(cu_.StreamCreate(&stream_, cuda::kStreamNonBlocking), "make a stream");
}

absl::Status GpuDevice::MakeTools() {
  cuda::Module module = nullptr;
  KILN_RETURN_IF_ERROR(
      cu_.Check(cu_.ModuleLoadData(&module, cuda::kGpuKernels), "load the runner's own kernels"));
  KILN_RETURN_IF_ERROR(
      cu_.Check(cu_.ModuleGetFunction(&digest_, module, "kiln_digest"), "find kiln_digest"));
  KILN_RETURN_IF_ERROR(
      cu_.Check(cu_.ModuleGetFunction(&gather_, module, "kiln_gather"), "find kiln_gather"));
  KILN_RETURN_IF_ERROR(
      cu_.Check(cu_.ModuleGetFunction(&apart_, module, "kiln_apart"), "find kiln_apart"));
  KILN_RETURN_IF_ERROR(
      cu_.Check(cu_.ModuleGetFunction(&nothing_, module, "kiln_nothing"), "find kiln_nothing"));
  KILN_RETURN_IF_ERROR(
      cu_.Check(cu_.ModuleGetFunction(&canary_kernel_, module, "kiln_canary"), "find kiln_canary"));
  KILN_RETURN_IF_ERROR(cu_.Check(cu_.ModuleGetFunction(&reading_kernel_, module, "kiln_reading"),
                                 "find kiln_reading"));
  KILN_RETURN_IF_ERROR(cu_.Check(cu_.MemAlloc(&sum_, sizeof(uint64_t)), "allocate"));
  KILN_RETURN_IF_ERROR(cu_.Check(cu_.MemAlloc(&clock_, 2 * sizeof(uint64_t)), "allocate"));
  void* pinned = nullptr;
  KILN_RETURN_IF_ERROR(cu_.Check(cu_.MemHostAlloc(&pinned, kStageBytes, 0), "allocate"));
  stage_ = static_cast<uint8_t*>(pinned);
  KILN_RETURN_IF_ERROR(cu_.Check(
      cu_.MemHostAlloc(&pinned, sizeof(uint32_t), cuda::kHostAllocDeviceMapped), "allocate"));
  gate_ = static_cast<uint32_t*>(pinned);
  *gate_ = 0;
  KILN_RETURN_IF_ERROR(
      cu_.Check(cu_.MemHostGetDevicePointer(&gate_on_device_, gate_, 0), "map memory"));
  for (size_t i = 0; i < kBatch; ++i) {
    Pair& pair = events_.emplace_back();
    KILN_RETURN_IF_ERROR(cu_.Check(cu_.EventCreate(&pair.begin, 0), "make an event"));
    KILN_RETURN_IF_ERROR(cu_.Check(cu_.EventCreate(&pair.end, 0), "make an event"));
  }
  return absl::OkStatus();
}

// What a pair of events adds to a kernel's time: seen on a kernel that does nothing.
absl::Status GpuDevice::Calibrate() {
  std::vector<Sample> samples;
  auto start = [this](size_t) {
    return cu_.Check(cu_.LaunchKernel(nothing_, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr),
                     "launch");
  };
  launch_ns_ = 0;
  std::vector<double> costs;
  for (int done = 0; done < kCalibrationLaunches; done += static_cast<int>(kBatch)) {
    samples.clear();
    KILN_RETURN_IF_ERROR(TimeOwn(kBatch, /*gate=*/done > 0, start, &samples));
    if (done == 0) continue;
    for (const Sample& sample : samples) {
      // Without records the kernel's own time, about a microsecond, is part of the cost.
      const double own = sample.source == TimeSource::kRecords ? sample.ns : 0;
      costs.push_back(sample.events_ns - own);
    }
  }
  launch_ns_ = costs.empty() ? 0 : Median(costs);
  calibrated_by_records_ = recording();
  return absl::OkStatus();
}

void GpuDevice::BeginTask() {
  if (!without_records_) return;
  without_records_ = false;
  bad_in_a_row_ = 0;
  // A driver that fails here fails the next call too, and says why.
  if (!calibrated_by_records_) (void)Calibrate();
}

bool GpuDevice::GiveUpRecords() {
  if (++bad_in_a_row_ < kRecordTries) return false;
  without_records_ = true;
  return true;
}

absl::Status GpuDevice::TimeOwn(size_t count, bool gate,
                                const std::function<absl::Status(size_t)>& kernel,
                                std::vector<Sample>* samples) {
  while (true) {
    size_t parts = 1;
    samples->clear();
    KILN_RETURN_IF_ERROR(TimeBatch(count, gate, &parts, kernel, samples));
    if (!recording() || samples->front().source == TimeSource::kRecords) break;
    if (GiveUpRecords()) break;
  }
  if (recording()) bad_in_a_row_ = 0;
  return absl::OkStatus();
}

// The baseline is this very device's, as long as its driver stays.
absl::Status GpuDevice::OpenCanary() {
  if (options_.drift <= 0) return absl::OkStatus();
  int version = 0;
  KILN_RETURN_IF_ERROR(cu_.Check(cu_.DriverGetVersion(&version), "ask for the version"));
  const std::string file =
      absl::StrCat(options_.scratch_dir, "/canary-", absl::StrReplaceAll(bus_id_, {{":", "-"}}),
                   "-cuda", version);
  canaries_.push_back(MakeCanary("arithmetic", file, canary_kernel_, {&rounds_, &sum_, &clock_}));
  const int64_t bytes = std::max(kReadBytes, static_cast<int64_t>(cache_turns()) * cache_bytes_);
  if (cu_.MemAlloc(&read_from_, static_cast<size_t>(bytes)) == cuda::kSuccess) {
    read_pairs_ = static_cast<uint64_t>(bytes / kUnalignedBytes);
    canaries_.push_back(MakeCanary("memory", absl::StrCat(file, "-memory"), reading_kernel_,
                                   {&read_from_, &read_pairs_, &sum_, &clock_}));
  } else {
    missing_.push_back(
        absl::StrCat("no look at the memory's speed: there are no ", bytes >> 20, " MiB for it"));
  }
  for (const std::unique_ptr<Canary>& canary : canaries_) KILN_RETURN_IF_ERROR(canary->Open());
  return absl::OkStatus();
}

std::unique_ptr<Canary> GpuDevice::MakeCanary(const std::string& of, const std::string& file,
                                              cuda::Function kernel, std::vector<void*> arguments) {
  CanaryOptions options;
  options.of = of;
  options.drift = options_.drift;
  options.file = file;
  options.clock_share = [this] { return ClockShare(); };
  const auto measure = [this, of, kernel, arguments](int launches) {
    return TimeCanary(of, kernel, arguments, static_cast<size_t>(launches));
  };
  return std::make_unique<Canary>(measure, options);
}

absl::StatusOr<std::vector<double>> GpuDevice::TimeCanary(const std::string& of,
                                                          cuda::Function kernel,
                                                          std::vector<void*> arguments,
                                                          size_t launches) {
  const auto start = [&](size_t) {
    return cu_.Check(
        cu_.LaunchKernel(kernel, static_cast<unsigned>(blocks_), 1, 1, cuda::kDigestThreads, 1, 1,
                         0, stream_, arguments.data(), nullptr),
        absl::StrCat("launch the canary of ", of));
  };
  uint64_t clock[2] = {};  // cycles and nanoseconds of all launches
  KILN_RETURN_IF_ERROR(
      cu_.Check(cu_.MemsetD8Async(clock_, 0, sizeof(clock), stream_), "clear memory"));
  std::vector<Sample> samples;
  KILN_RETURN_IF_ERROR(TimeOwn(std::min(kBatch, launches), /*gate=*/true, start, &samples));
  KILN_RETURN_IF_ERROR(Read(clock, reinterpret_cast<const void*>(clock_), sizeof(clock)));
  canary_mhz_ =
      clock[1] == 0 ? 0 : static_cast<double>(clock[0]) / static_cast<double>(clock[1]) * 1e3;
  std::vector<double> times;
  for (const Sample& sample : samples) times.push_back(sample.ns);
  return times;
}

// What the power limit left of the highest clock in the last batch of a canary.
double GpuDevice::ClockShare() const {
  const bool held_down = monitor_ != nullptr && monitor_->AtPowerLimit();
  return held_down && canary_mhz_ > 0 && clock_mhz_ > 0 ? std::min(canary_mhz_ / clock_mhz_, 1.0)
                                                        : 1;
}

DeviceHealth GpuDevice::Faults() {
  return monitor_ == nullptr ? DeviceHealth() : monitor_->TakeFaults();
}

DeviceHealth GpuDevice::Examine() {
  DeviceHealth health = Faults();
  for (const std::unique_ptr<Canary>& canary : canaries_) {
    if (!health.broken.empty()) break;
    const absl::StatusOr<std::string> drift = canary->Look();
    health.broken = drift.ok() ? *drift : std::string(drift.status().message());
  }
  return health;
}

std::vector<std::string> GpuDevice::Company() {
  std::vector<std::string> company;
  if (monitor_ == nullptr) return company;
  for (const unsigned other : monitor_->TakeOthers()) {
    company.push_back(absl::StrCat("process ", other));
  }
  return company;
}

// The end of the process. Whether it is the candidate's doing or the device's own the system says a
// moment later.
void GpuDevice::Lose(const std::string& why, int exit_code) {
  const Clock::time_point begin = Clock::now();
  DeviceHealth health = Faults();
  while (health.broken.empty() && monitor_ != nullptr && SecondsSince(begin) < kFaultSeconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    health = Faults();
  }
  const bool broken = !health.broken.empty();
  std::fprintf(stderr, "%s%s%s\n", why.c_str(), broken ? ": " : "", health.broken.c_str());
  std::fflush(stderr);
  ::_exit(broken ? kDeviceBroken : exit_code);
}

void GpuDevice::Await(double limit_seconds, absl::string_view what) {
  const Clock::time_point begin = Clock::now();
  while (true) {
    const cuda::Result result = cu_.StreamQuery(stream_);
    if (result == cuda::kSuccess) return;
    if (result != cuda::kNotReady) Lose(absl::StrCat(what, ": ", cu_.Words(result)));
    const double seconds = SecondsSince(begin);
    if (seconds > limit_seconds) {
      Lose(absl::StrCat(what, " did not come back after ", limit_seconds, " s"), kLaunchStopped);
    }
    if (Clock::now() - begin > kSpin) std::this_thread::sleep_for(kNap);
  }
}

absl::Status GpuDevice::Explain(int32_t code) {
  if (code != KILN_ERROR_DEVICE) return ExplainReturn(code);
  const cuda::Result result = cu_.StreamQuery(stream_);
  if (result == cuda::kSuccess || result == cuda::kNotReady) return ExplainReturn(code);
  Lose(absl::StrCat("a launch: ", cu_.Words(result)));
}

absl::StatusOr<std::unique_ptr<LoadedKernel>> GpuDevice::Load(const v1::ArtifactBundle& bundle,
                                                              int) {
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<ArtifactLibrary> library,
                        ArtifactLibrary::Open(bundle, options_.scratch_dir));
  return std::unique_ptr<LoadedKernel>(
      std::make_unique<GpuKernel>(std::move(library), stream_, options_.ordinal));
}

absl::StatusOr<void*> GpuDevice::Allocate(int64_t bytes) {
  Address address = 0;
  KILN_RETURN_IF_ERROR(cu_.Check(cu_.MemAlloc(&address, static_cast<size_t>(bytes)),
                                 absl::StrCat("allocate ", bytes, " bytes on the GPU")));
  return reinterpret_cast<void*>(address);
}

void GpuDevice::Free(void* address, int64_t) { (void)cu_.MemFree(AddressOf(address)); }

// While one half of the stage travels, the host fills the other.
absl::Status GpuDevice::Write(void* to, const void* from_host, int64_t bytes) {
  const auto* from = static_cast<const uint8_t*>(from_host);
  for (int64_t done = 0, half = 0; done < bytes; done += kHalfStage, half ^= 1) {
    const int64_t step = std::min(kHalfStage, bytes - done);
    uint8_t* stage = stage_ + half * kHalfStage;
    ParallelFor(step, [&](int64_t first, int64_t last) {
      std::memcpy(stage + first, from + done + first, static_cast<size_t>(last - first));
    });
    Await(kTransferSeconds, "a copy to the GPU");  // of the other half
    KILN_RETURN_IF_ERROR(cu_.Check(cu_.MemcpyHtoDAsync(AddressOf(to) + static_cast<Address>(done),
                                                       stage, static_cast<size_t>(step), stream_),
                                   "copy to the GPU"));
  }
  Await(kTransferSeconds, "a copy to the GPU");
  return absl::OkStatus();
}

// While one half of the stage is filled, the host empties the other.
absl::Status GpuDevice::Read(void* to_host, const void* from, int64_t bytes) {
  auto* to = static_cast<uint8_t*>(to_host);
  const auto start = [&](int64_t done, int64_t half) {
    if (done >= bytes) return absl::OkStatus();
    return cu_.Check(cu_.MemcpyDtoHAsync(
                         stage_ + half * kHalfStage, AddressOf(from) + static_cast<Address>(done),
                         static_cast<size_t>(std::min(kHalfStage, bytes - done)), stream_),
                     "copy from the GPU");
  };
  KILN_RETURN_IF_ERROR(start(0, 0));
  for (int64_t done = 0, half = 0; done < bytes; done += kHalfStage, half ^= 1) {
    Await(kTransferSeconds, "a copy from the GPU");
    KILN_RETURN_IF_ERROR(start(done + kHalfStage, half ^ 1));
    const uint8_t* stage = stage_ + half * kHalfStage;
    ParallelFor(std::min(kHalfStage, bytes - done), [&](int64_t first, int64_t last) {
      std::memcpy(to + done + first, stage + first, static_cast<size_t>(last - first));
    });
  }
  return absl::OkStatus();
}

absl::Status GpuDevice::Fill(void* to, uint8_t byte, int64_t bytes) {
  return cu_.Check(cu_.MemsetD8Async(AddressOf(to), byte, static_cast<size_t>(bytes), stream_),
                   "fill memory");
}

absl::Status GpuDevice::Copy(void* to, const void* from, int64_t bytes) {
  return cu_.Check(
      cu_.MemcpyDtoDAsync(AddressOf(to), AddressOf(from), static_cast<size_t>(bytes), stream_),
      "copy within the GPU");
}

absl::StatusOr<uint64_t> GpuDevice::Digest(const void* from, int64_t bytes) {
  Address base = AddressOf(from);
  uint64_t pairs = static_cast<uint64_t>((bytes + kUnalignedBytes - 1) / kUnalignedBytes);
  void* arguments[] = {&base, &pairs, &sum_};
  return SumBy(digest_, arguments, "launch a digest");
}

absl::Status GpuDevice::Gather(void* to_host, const void* from, absl::Span<const int64_t> places,
                               int64_t width) {
  const auto count = static_cast<int64_t>(places.size());
  const int64_t bytes = count * static_cast<int64_t>(sizeof(int64_t));
  KILN_ASSIGN_OR_RETURN(void* const memory, Allocate(bytes + count * width));
  const auto release = absl::MakeCleanup([&] { Free(memory, bytes + count * width); });
  KILN_RETURN_IF_ERROR(Write(memory, places.data(), bytes));
  Address first = AddressOf(from), where = AddressOf(memory), into = where + bytes;
  uint64_t elements = static_cast<uint64_t>(count);
  auto each = static_cast<uint32_t>(width);
  void* arguments[] = {&first, &where, &elements, &each, &into};
  KILN_RETURN_IF_ERROR(
      cu_.Check(cu_.LaunchKernel(gather_, static_cast<unsigned>(blocks_), 1, 1,
                                 cuda::kDigestThreads, 1, 1, 0, stream_, arguments, nullptr),
                "gather elements"));
  return Read(to_host, reinterpret_cast<const void*>(into), count * width);
}

absl::StatusOr<int64_t> GpuDevice::CountApart(const void* a, const void* b, DType type,
                                              int64_t count, float rtol, float atol) {
  const DType* const known = std::find(std::begin(kApartTypes), std::end(kApartTypes), type);
  if (known == std::end(kApartTypes)) {
    return absl::UnimplementedError(absl::StrCat("no comparison of ", type.ToString()));
  }
  auto kind = static_cast<uint32_t>(known - std::begin(kApartTypes));
  Address first = AddressOf(a), second = AddressOf(b);
  uint64_t elements = static_cast<uint64_t>(count);
  void* arguments[] = {&first, &second, &elements, &kind, &rtol, &atol, &sum_};
  KILN_ASSIGN_OR_RETURN(const uint64_t found, SumBy(apart_, arguments, "launch a comparison"));
  return static_cast<int64_t>(found);
}

// What all threads of one of the runner's own kernels add to the word at sum_.
absl::StatusOr<uint64_t> GpuDevice::SumBy(cuda::Function kernel, void** arguments,
                                          const char* what) {
  KILN_RETURN_IF_ERROR(
      cu_.Check(cu_.MemsetD8Async(sum_, 0, sizeof(uint64_t), stream_), "clear memory"));
  KILN_RETURN_IF_ERROR(
      cu_.Check(cu_.LaunchKernel(kernel, static_cast<unsigned>(blocks_), 1, 1, cuda::kDigestThreads,
                                 1, 1, 0, stream_, arguments, nullptr),
                what));
  uint64_t sum = 0;
  KILN_RETURN_IF_ERROR(Read(&sum, reinterpret_cast<const void*>(sum_), sizeof(sum)));
  return sum;
}

absl::Status GpuDevice::Launch(LoadedKernel* kernel, const LaunchArguments& arguments) {
  KILN_RETURN_IF_ERROR(CheckArgumentCount(arguments));
  KILN_RETURN_IF_ERROR(Explain(static_cast<GpuKernel*>(kernel)->Call(arguments)));
  Await(launch_seconds_, "a launch");
  return absl::OkStatus();
}

absl::Status GpuDevice::CloseGate() {
  return cu_.Check(
      cu_.StreamWaitValue32(stream_, gate_on_device_, ++ticket_, cuda::kWaitGreaterOrEqual),
      "hold the stream");
}

absl::Status GpuDevice::TimeBatch(size_t count, bool gate, size_t* parts,
                                  const std::function<absl::Status(size_t)>& start,
                                  std::vector<Sample>* samples) {
  const uint64_t since = recording() ? records_->Now() : 0;
  const Clock::time_point begin = Clock::now();
  if (gate) KILN_RETURN_IF_ERROR(CloseGate());
  absl::Status started;
  size_t launched = 0;
  for (; launched < count && started.ok(); ++launched) {
    const Pair& pair = events_[launched];
    started = cu_.Check(cu_.EventRecord(pair.begin, stream_), "record an event");
    if (started.ok()) started = start(launched);
    if (started.ok()) started = cu_.Check(cu_.EventRecord(pair.end, stream_), "record an event");
  }
  *static_cast<volatile uint32_t*>(gate_) = ticket_;
  Await(launch_seconds_, "a timed launch");
  KILN_RETURN_IF_ERROR(started);
  const std::vector<double> spans = Spans(count, since, parts);
  const uint64_t reasons = monitor_ == nullptr ? 0 : monitor_->ReasonsSince(begin);
  const std::string slowdown = cuda::Monitor::SlowdownWords(reasons);
  if (!slowdown.empty()) slowdown_ = slowdown;
  for (size_t i = 0; i < count; ++i) {
    float ms = 0;
    KILN_RETURN_IF_ERROR(cu_.Check(cu_.EventElapsedTime(&ms, events_[i].begin, events_[i].end),
                                   "read an event's time"));
    Sample& sample = samples->emplace_back();
    sample.events_ns = std::max(double{ms} * 1e6 - launch_ns_, 1.0);
    sample.ns = spans.empty() ? sample.events_ns : spans[i];
    sample.source = spans.empty() ? TimeSource::kEvents : TimeSource::kRecords;
    sample.throttled = !slowdown.empty();
  }
  return absl::OkStatus();
}

std::vector<double> GpuDevice::Spans(size_t count, uint64_t since, size_t* parts) {
  if (!recording()) return {};
  const absl::StatusOr<std::vector<cuda::KernelRecord>> records = records_->Take(since);
  const size_t known = parts == nullptr ? 0 : *parts;
  if (!records.ok() || records->empty() || records->size() % count != 0 ||
      records->size() / count < known) {
    why_no_records_ = records.ok()
                          ? absl::StrCat(records->size(), " records of ", count, " launches")
                          : std::string(records.status().message());
    return {};
  }
  const size_t kernels = records->size() / count;
  if (parts != nullptr) *parts = kernels;
  std::vector<double> spans;
  for (size_t i = 0; i < count; ++i) {
    uint64_t begin = UINT64_MAX;
    uint64_t end = 0;
    for (size_t k = 0; k < kernels; ++k) {
      const cuda::KernelRecord& record = (*records)[i * kernels + k];
      begin = std::min(begin, record.begin_ns);
      end = std::max(end, record.end_ns);
    }
    spans.push_back(static_cast<double>(end - begin));
  }
  return spans;
}

absl::StatusOr<std::vector<Sample>> GpuDevice::Time(LoadedKernel* kernel,
                                                    absl::Span<const LaunchArguments> launches) {
  auto* gpu_kernel = static_cast<GpuKernel*>(kernel);
  std::vector<Sample> samples;
  for (size_t done = 0; done < launches.size();) {
    KILN_RETURN_IF_ERROR(CheckArgumentCount(launches[done]));
    // The first launch of all loads the module, for which the driver may wait for the stream.
    const bool first = !gpu_kernel->started();
    const size_t count = first ? 1 : std::min(kBatch, launches.size() - done);
    KILN_RETURN_IF_ERROR(TimeBatch(
        count, /*gate=*/!first, first ? nullptr : gpu_kernel->parts(),
        [&](size_t i) { return Explain(gpu_kernel->Call(launches[done + i])); }, &samples));
    const bool bad = recording() && samples.back().source == TimeSource::kEvents;
    if (bad && !GiveUpRecords()) return absl::AbortedError(why_no_records_);
    done += count;
  }
  if (recording()) bad_in_a_row_ = 0;
  return samples;
}

absl::StatusOr<std::map<std::string, double>> GpuDevice::Count(
    LoadedKernel* kernel, absl::Span<const LaunchArguments> launches) {
  if (!counters_.has_value()) counters_ = cuda::Counters::Open(options_.ordinal);
  KILN_RETURN_IF_ERROR(counters_->status());
  return (**counters_)->Count([&](int pass) {
    return Launch(kernel, launches[static_cast<size_t>(pass) % launches.size()]);
  });
}

std::string GpuDevice::Conditions() {
  slowdown_.clear();
  std::string text =
      recording()
          ? absl::StrCat(records_->version(), " records")
          : absl::StrCat("events, less ", absl::SixDigits(launch_ns_ / 1e3), " us a launch",
                         why_no_records_.empty() ? "" : absl::StrCat(" (", why_no_records_, ")"));
  if (monitor_ == nullptr) {
    // Told once: it is the same for all that this process measures.
    if (!why_no_monitor_.empty()) absl::StrAppend(&text, "; ", std::exchange(why_no_monitor_, ""));
    return text;
  }
  const std::string seen = monitor_->Take().ToString();
  if (!seen.empty()) absl::StrAppend(&text, "; ", seen);
  return text;
}

// "sm_90a" of compute capability 9.0: with the instructions of this architecture alone where there
// are such.
std::string ArchNameOf(int major, int minor) {
  return absl::StrCat("sm_", major * 10 + minor, major >= 9 ? "a" : "");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> MakeGpuDevice(const GpuOptions& options) {
  KILN_ASSIGN_OR_RETURN(const Driver* driver, cuda::LoadDriver());
  auto device = std::make_unique<GpuDevice>(driver, options);
  KILN_RETURN_IF_ERROR(device->Open());
  return std::unique_ptr<Device>(std::move(device));
}

absl::StatusOr<v1::ArchRecord> GpuRecord(int ordinal) {
  KILN_ASSIGN_OR_RETURN(const Driver* cu, cuda::LoadDriver());
  cuda::Ordinal device = 0;
  KILN_RETURN_IF_ERROR(
      cu->Check(cu->DeviceGet(&device, ordinal), absl::StrCat("find GPU ", ordinal)));
  char name[256] = {};
  KILN_RETURN_IF_ERROR(cu->Check(cu->DeviceGetName(name, sizeof(name) - 1, device), "name it"));
  int major = 0, minor = 0, sms = 0, l2 = 0, clock = 0, memory_clock = 0, bus = 0;
  for (auto [what, to] :
       {std::pair{cuda::kMajor, &major}, std::pair{cuda::kMinor, &minor},
        std::pair{cuda::kMultiprocessors, &sms}, std::pair{cuda::kL2Bytes, &l2},
        std::pair{cuda::kClockKhz, &clock}, std::pair{cuda::kMemoryClockKhz, &memory_clock},
        std::pair{cuda::kMemoryBusBits, &bus}}) {
    KILN_RETURN_IF_ERROR(cu->Check(cu->DeviceGetAttribute(to, what, device), "describe it"));
  }
  absl::StatusOr<target::Arch> arch =
      target::GpuArchOf(ArchNameOf(major, minor), {sms, clock / 1e3, memory_clock / 1e3, bus, l2});
  if (!arch.ok()) {
    return absl::UnimplementedError(absl::StrCat("GPU ", ordinal, " (", name, ") is ",
                                                 ArchNameOf(major, minor), ": ",
                                                 arch.status().message()));
  }
  arch->model = name;
  v1::ArchRecord record;
  record.set_name(arch->name);
  record.set_record(target::ToText(*arch));
  record.set_device_model(name);
  return record;
}

absl::StatusOr<std::string> GpuBusId(int ordinal) {
  KILN_ASSIGN_OR_RETURN(const Driver* driver, cuda::LoadDriver());
  cuda::Ordinal device = 0;
  KILN_RETURN_IF_ERROR(
      driver->Check(driver->DeviceGet(&device, ordinal), absl::StrCat("find GPU ", ordinal)));
  char bus_id[32] = {};
  KILN_RETURN_IF_ERROR(driver->Check(driver->DeviceGetPCIBusId(bus_id, sizeof(bus_id), device),
                                     "ask for its place on the bus"));
  return std::string(bus_id);
}

absl::StatusOr<int> GpuCount() {
  KILN_ASSIGN_OR_RETURN(const Driver* driver, cuda::LoadDriver());
  int count = 0;
  KILN_RETURN_IF_ERROR(driver->Check(driver->DeviceGetCount(&count), "count the GPUs"));
  return count;
}

}  // namespace kiln::worker

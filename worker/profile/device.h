// The seam to what runs kernels. HostDevice runs them on this machine's cores; FakeDevice is the
// scripted twin of the tests; a GPU is one more implementation of these methods.
//
// One device belongs to one runner and one thread. Memory is named by address: on the host it can
// be dereferenced, elsewhere only Write, Read and kernels may touch it.
#ifndef KILN_WORKER_PROFILE_DEVICE_H_
#define KILN_WORKER_PROFILE_DEVICE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/base/dtype.h"
#include "kiln/v1/common.pb.h"
#include "worker/profile/device_health.h"
#include "worker/profile/stats.h"

namespace kiln::worker {

// Arguments in ABI order: the tensors' addresses, then the int64 scalars and run-time dimensions.
struct LaunchArguments {
  std::vector<void*> pointers;
  std::vector<int64_t> values;
};

// A loaded artifact. Unloaded by its destructor.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
};

class Device {
 public:
  virtual ~Device() = default;

  // Stable short name: "cpu", "gpu0".
  virtual std::string name() const = 0;
  // Of the last cache before memory; 0 = unknown.
  virtual int64_t cache_bytes() const = 0;
  // A cold measurement rotates over so many times the cache.
  virtual double cache_turns() const = 0;

  // `threads`: of a launch on a CPU; 0 = all. kInvalidArgument: the bytes are not an artifact of
  // this device; kNotFound: no such entry point.
  virtual absl::StatusOr<std::unique_ptr<LoadedKernel>> Load(const v1::ArtifactBundle& bundle,
                                                             int threads) = 0;

  // Whether what Allocate() gives is no part of the host's memory.
  virtual bool has_own_memory() const { return false; }
  // At least page-aligned. kResourceExhausted when there is no room.
  virtual absl::StatusOr<void*> Allocate(int64_t bytes) = 0;
  virtual void Free(void* address, int64_t bytes) = 0;
  virtual absl::Status Write(void* to, const void* from_host, int64_t bytes) = 0;
  virtual absl::Status Read(void* to_host, const void* from, int64_t bytes) = 0;

  // Within the device's own memory.
  virtual absl::Status Fill(void* to, uint8_t byte, int64_t bytes) = 0;
  virtual absl::Status Copy(void* to, const void* from, int64_t bytes) = 0;
  // Equal bytes have equal digests, others almost surely differ; meant to notice accidents. `from`
  // is 64-byte aligned and `bytes` may be read up to the next multiple of 64. One device's digests
  // say nothing about another's.
  virtual absl::StatusOr<uint64_t> Digest(const void* from, int64_t bytes) = 0;

  // Reads what lies at `places`, counted in `width` bytes: a power of two up to 8.
  virtual absl::Status Gather(void* to_host, const void* from, absl::Span<const int64_t> places,
                              int64_t width);
  // How many of `count` elements at `a` are not within the tolerance |a - b| <= atol + rtol |b|,
  // in float32, of those at `b`. Infinities and NaNs never are. Both are aligned to their elements.
  // kUnimplemented: the host must look; always of other types than float32, float16 and bfloat16.
  virtual absl::StatusOr<int64_t> CountApart(const void* a, const void* b, DType type,
                                             int64_t count, float rtol, float atol);

  // From here on a launch that takes longer ends the process, with kLaunchStopped (exit_codes.h),
  // or all of those that are timed together: such batches are of short ones. Not called: 10 s.
  virtual void LimitLaunches(double seconds) = 0;

  // Runs once, to completion. kInternal: the kernel reported an error code, which the message
  // explains. A fault takes the process with it.
  virtual absl::Status Launch(LoadedKernel* kernel, const LaunchArguments& arguments) = 0;

  // A request begins: what was given up for the one before may be tried again.
  virtual void BeginTask() {}

  // Runs the launches one after another and times each; nothing else is inside the spans. kAborted:
  // their times were lost; call again, with the next inputs in turn, as these are in the cache now.
  // A device says so at most twice in a row.
  virtual absl::StatusOr<std::vector<Sample>> Time(LoadedKernel* kernel,
                                                   absl::Span<const LaunchArguments> launches) = 0;

  // Hardware counters of one launch, by name (counters.h). Takes the launches in turn, one a pass,
  // again from the first when there are more passes. kUnimplemented: the device has none.
  virtual absl::StatusOr<std::map<std::string, double>> Count(
      LoadedKernel* kernel, absl::Span<const LaunchArguments> launches);

  // How Time() measures and what the device did meanwhile, since the last call: one line for the
  // measurement's record; may be empty.
  virtual std::string Conditions() { return ""; }

  // What held its clocks down while samples were throttled, since the last call of Conditions().
  virtual std::string Slowdown() { return ""; }

  // What it does without, and why, as found when it was opened.
  virtual std::vector<std::string> Missing() const { return {}; }

  // What candidates need on it: untimed launches before the first that counts, at most, and seconds
  // of quiet after another one ran.
  virtual int warm_up_launches() const { return 10; }
  virtual double settle_seconds() const { return 0; }
  // Of a time that is to be stored: quiet before each turn, as a multiple of what the turn takes,
  // so that it does not depend on how hard the device worked before.
  virtual double rest_turns() const { return 0; }
  // Quiet before the first of such times, in seconds: how long the work before holds clocks down.
  virtual double cool_seconds() const { return 0; }

  // What the system reported since the last call; told once. Cheap: asked after every candidate.
  virtual DeviceHealth Faults() { return {}; }
  // The same, and whether it is as fast as it was; takes its time.
  virtual DeviceHealth Examine() { return Faults(); }
  // Who else uses the device, or did since the last call: "process 4711"; empty = nobody, or the
  // system does not say.
  virtual std::vector<std::string> Company() { return {}; }
};

inline absl::Status Device::Gather(void* to_host, const void* from,
                                   absl::Span<const int64_t> places, int64_t width) {
  auto* to = static_cast<uint8_t*>(to_host);
  for (size_t i = 0; i < places.size(); ++i, to += width) {
    const auto* at = static_cast<const uint8_t*>(from) + places[i] * width;
    if (absl::Status read = Read(to, at, width); !read.ok()) return read;
  }
  return absl::OkStatus();
}

inline absl::StatusOr<int64_t> Device::CountApart(const void*, const void*, DType, int64_t, float,
                                                  float) {
  return absl::UnimplementedError("the device compares nothing");
}

inline absl::StatusOr<std::map<std::string, double>> Device::Count(
    LoadedKernel*, absl::Span<const LaunchArguments>) {
  return absl::UnimplementedError("the device has no counters");
}

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_DEVICE_H_

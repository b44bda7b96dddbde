// A device for tests: kernels are C++ functions, launches take scripted times, faults come on
// command. Deterministic for a seed.
#ifndef KILN_WORKER_PROFILE_FAKE_DEVICE_H_
#define KILN_WORKER_PROFILE_FAKE_DEVICE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/base/rng.h"
#include "worker/profile/device.h"

namespace kiln::worker {

class FakeDevice : public Device {
 public:
  // What a kernel does. Addresses are host memory.
  using Body = std::function<absl::Status(const LaunchArguments& arguments)>;
  struct Script {
    Body body;
    double ns = 1000;  // time of an undisturbed launch
    double noise = 0;  // relative, uniform in [-noise, noise]
    double disturbed_share =
        0;  // of launches; a disturbed one takes `disturbed_factor` times as long
    double disturbed_factor = 2;
    double throttled_share = 0;  // of launches
  };

  explicit FakeDevice(uint64_t seed = 1) : random_(seed) {}

  // The kernel of bundles with this name.
  void Define(const std::string& name, Script script) { scripts_[name] = std::move(script); }
  void set_cache_bytes(int64_t bytes) { cache_bytes_ = bytes; }
  void set_warm_up_launches(int launches) { warm_up_launches_ = launches; }
  void set_rest_turns(double turns) { rest_turns_ = turns; }
  void set_cool_seconds(double seconds) { cool_seconds_ = seconds; }
  // Allocations beyond this sum fail.
  void set_memory_bytes(int64_t bytes) { memory_bytes_ = bytes; }

  void set_own_memory(bool own) { own_memory_ = own; }

  // Changes the sample of the n-th timed launch, from 0; may say that a call's times were lost.
  std::function<absl::Status(int launch, Sample* sample)> alter;
  std::function<void()> begin_task;
  // What Faults(), Examine() and Company() say; by default nothing.
  std::function<DeviceHealth()> faults;
  std::function<DeviceHealth()> examine;
  std::function<std::vector<std::string>()> company;

  // Names of the kernels in the order in which Time() ran them.
  const std::vector<std::string>& timed() const { return timed_; }
  // How many launches each call of Time() was given.
  const std::vector<int>& batches() const { return batches_; }
  // First addresses of the launches that Time() ran.
  const std::vector<void*>& timed_addresses() const { return timed_addresses_; }
  int launches() const { return launches_; }
  int64_t allocated_bytes() const { return allocated_; }
  int64_t read_bytes() const { return read_bytes_; }

  std::string name() const override { return "fake"; }
  int64_t cache_bytes() const override { return cache_bytes_; }
  double cache_turns() const override { return 2; }
  int warm_up_launches() const override { return warm_up_launches_; }
  double rest_turns() const override { return rest_turns_; }
  double cool_seconds() const override { return cool_seconds_; }
  absl::StatusOr<std::unique_ptr<LoadedKernel>> Load(const v1::ArtifactBundle& bundle,
                                                     int threads) override;
  bool has_own_memory() const override { return own_memory_; }
  absl::StatusOr<void*> Allocate(int64_t bytes) override;
  void Free(void* address, int64_t bytes) override;
  absl::Status Write(void* to, const void* from_host, int64_t bytes) override;
  absl::Status Read(void* to_host, const void* from, int64_t bytes) override;
  absl::Status Fill(void* to, uint8_t byte, int64_t bytes) override;
  absl::Status Copy(void* to, const void* from, int64_t bytes) override;
  absl::StatusOr<uint64_t> Digest(const void* from, int64_t bytes) override;
  absl::StatusOr<int64_t> CountApart(const void* a, const void* b, DType type, int64_t count,
                                     float rtol, float atol) override;
  void LimitLaunches(double seconds) override { launch_seconds_ = seconds; }
  double launch_seconds() const { return launch_seconds_; }
  absl::Status Launch(LoadedKernel* kernel, const LaunchArguments& arguments) override;
  void BeginTask() override {
    if (begin_task) begin_task();
  }
  absl::StatusOr<std::vector<Sample>> Time(LoadedKernel* kernel,
                                           absl::Span<const LaunchArguments> launches) override;
  std::string Slowdown() override { return "heat"; }
  DeviceHealth Faults() override { return faults ? faults() : DeviceHealth(); }
  DeviceHealth Examine() override { return examine ? examine() : Faults(); }
  std::vector<std::string> Company() override {
    return company ? company() : std::vector<std::string>();
  }

 private:
  Rng random_;
  bool own_memory_ = false;
  int64_t cache_bytes_ = 0;
  int warm_up_launches_ = 10;
  double rest_turns_ = 0;
  double cool_seconds_ = 0;
  double launch_seconds_ = 0;
  int64_t memory_bytes_ = int64_t{1} << 40;
  int64_t allocated_ = 0;
  int64_t read_bytes_ = 0;
  int launches_ = 0;
  std::map<std::string, Script> scripts_;
  std::vector<std::string> timed_;
  std::vector<int> batches_;
  std::vector<void*> timed_addresses_;
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_FAKE_DEVICE_H_

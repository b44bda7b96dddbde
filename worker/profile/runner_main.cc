// kiln-runner: the child process that loads, checks and times candidates on one device. Serves one
// request at a time on descriptor 3 until its parent closes it. Started by kiln-worker; of no use
// by hand, but for --devices, which lists what it can measure, and --describe, which prints a
// device's record.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/base/subprocess.h"
#include "compiler/target/host_arch.h"
#include "worker/profile/device_lock.h"
#include "worker/profile/gpu_device.h"
#include "worker/profile/gpu_facts.h"
#include "worker/profile/host_device.h"
#include "worker/profile/interp_reference.h"
#include "worker/profile/runner.h"

namespace kiln::worker {
namespace {

struct Flags {
  std::string device_name = "worker";
  std::string cache_dir;
  int64_t cache_bytes = 0;
  int64_t rotation_mib = 1024;
  int64_t peer_mib = 1024;
  std::string device = "cpu";
  double launch_seconds = kLaunchSeconds;
  bool no_records = false;
  double drift = 0.03;
  double company_seconds = 3;
  bool with_company = false;
  std::string lock_dir = "/tmp";
  int measuring_core = -1;
  bool describe = false;
  bool devices = false;
};

absl::StatusOr<v1::ArchRecord> HostRecord(const std::string& cache_dir) {
  KILN_ASSIGN_OR_RETURN(target::Arch arch, target::HostArch(cache_dir));
  v1::ArchRecord record;
  record.set_name(arch.name);
  record.set_record(target::ToText(arch));
  record.set_device_model(arch.model);
  return record;
}

// "gpu3" -> 3; none for "cpu".
absl::StatusOr<std::optional<int>> GpuOf(const std::string& device) {
  if (device == "cpu") return std::nullopt;
  int ordinal = 0;
  if (absl::StartsWith(device, "gpu") && absl::SimpleAtoi(device.substr(3), &ordinal) &&
      ordinal >= 0) {
    return ordinal;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no device '", device, "'; devices are cpu, gpu0, gpu1, ..."));
}

absl::StatusOr<v1::ArchRecord> RecordOf(const Flags& flags) {
  KILN_ASSIGN_OR_RETURN(const std::optional<int> gpu, GpuOf(flags.device));
  if (!gpu.has_value()) return HostRecord(flags.cache_dir);
  KILN_ASSIGN_OR_RETURN(v1::ArchRecord record, GpuRecord(*gpu));
  AddGpuFacts(*gpu, &record);
  return record;
}

absl::StatusOr<std::unique_ptr<Device>> MakeDevice(const Flags& flags) {
  const std::string scratch = flags.cache_dir.empty() ? std::string("/tmp") : flags.cache_dir;
  KILN_ASSIGN_OR_RETURN(const std::optional<int> gpu, GpuOf(flags.device));
  if (!gpu.has_value()) return MakeHostDevice(flags.cache_bytes, scratch);
  GpuOptions options;
  options.ordinal = *gpu;
  options.records = !flags.no_records;
  options.scratch_dir = scratch;
  options.drift = flags.drift;
  return MakeGpuDevice(options);
}

// Long enough for the runner before this one to let go of its context.
constexpr double kLockSeconds = 5;

// A GPU is one process's; the cores of a machine are many others' anyway.
absl::StatusOr<DeviceLock> LockDevice(const Flags& flags) {
  KILN_ASSIGN_OR_RETURN(const std::optional<int> gpu, GpuOf(flags.device));
  if (!gpu.has_value()) return DeviceLock();
  KILN_ASSIGN_OR_RETURN(const std::string id, GpuBusId(*gpu));
  return DeviceLock::Take(flags.lock_dir, id, flags.device, kLockSeconds);
}

absl::Status Serve(const Flags& flags) {
  FrameChannel channel(kChildChannelFd);
  KILN_ASSIGN_OR_RETURN(const DeviceLock lock, LockDevice(flags));
  v1::ChildHello hello;
  KILN_ASSIGN_OR_RETURN(*hello.add_archs(), RecordOf(flags));
  KILN_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, MakeDevice(flags));
  hello.set_quarantined(device->Examine().broken);
  for (const std::string& missing : device->Missing()) hello.add_notes(missing);
  KILN_RETURN_IF_ERROR(channel.Write(hello.SerializeAsString()));
  RunnerOptions options;
  options.device_name = absl::StrCat(flags.device_name, "/", device->name());
  options.rotation_bytes = flags.rotation_mib << 20;
  options.peer_bytes = flags.peer_mib << 20;
  options.launch_seconds = flags.launch_seconds;
  options.company_seconds = flags.company_seconds;
  options.with_company = flags.with_company;
  options.measuring_core = flags.measuring_core;
  Runner runner(device.get(), MakeInterpReference, options);
  while (true) {
    KILN_ASSIGN_OR_RETURN(std::optional<std::string> frame, channel.Read());
    if (!frame.has_value()) return absl::OkStatus();
    v1::ProfileRequest request;
    if (!request.ParseFromString(*frame)) {
      return absl::DataLossError("the parent sent bytes that are not a ProfileRequest");
    }
    absl::Status written;
    runner.Serve(request, [&](const v1::ProfileEvent& event) {
      if (written.ok()) written = channel.Write(event.SerializeAsString());
    });
    KILN_RETURN_IF_ERROR(written);
  }
}

absl::Status Describe(const Flags& flags) {
  KILN_ASSIGN_OR_RETURN(v1::ArchRecord record, RecordOf(flags));
  std::printf("%s", record.record().c_str());
  return absl::OkStatus();
}

// One line a GPU: "gpu0 sm_90a NVIDIA H200 at 0000:17:00.0". Why there is none goes to stderr.
absl::Status ListDevices() {
  KILN_ASSIGN_OR_RETURN(const int count, GpuCount());
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const absl::StatusOr<v1::ArchRecord> record = GpuRecord(ordinal);
    if (!record.ok()) {
      std::fprintf(stderr, "kiln-runner: %s\n", std::string(record.status().message()).c_str());
      continue;
    }
    const absl::StatusOr<std::string> bus = GpuBusId(ordinal);
    std::printf("gpu%d %s %s%s\n", ordinal, record->name().c_str(), record->device_model().c_str(),
                bus.ok() ? absl::StrCat(" at ", *bus).c_str() : "");
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace kiln::worker

int main(int argc, char** argv) {
  kiln::worker::Flags flags;
  CLI::App app("kiln-runner: measures candidates for kiln-worker");
  app.set_version_flag("--version", "kiln-runner " KILN_VERSION);
  app.add_option("--device-name", flags.device_name, "the worker's name, for measurements")
      ->capture_default_str();
  app.add_option(
      "--cache-dir", flags.cache_dir,
      "folder that keeps the CPU's calibration and a GPU's baselines (default: /tmp, and a "
      "CPU is calibrated anew)");
  app.add_option("--llc-bytes", flags.cache_bytes,
                 "size of the last-level cache; 0 = ask the system")
      ->capture_default_str();
  app.add_option("--rotation-mib", flags.rotation_mib,
                 "most memory that a cold measurement rotates over")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--peer-mib", flags.peer_mib,
                 "most memory for outputs kept to compare candidates with each other")
      ->capture_default_str();
  app.add_option("--device", flags.device, "cpu, or gpu0, gpu1, ...")->capture_default_str();
  app.add_option("--launch-seconds", flags.launch_seconds,
                 "longest that a launch may take before the child ends itself; or twenty times "
                 "what is known of the sweep's launches, if that is longer")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--no-records", flags.no_records,
               "GPU: time by events though CUPTI is there (default: by its records)");
  app.add_option("--canary-drift", flags.drift,
                 "GPU: how much longer a fixed kernel may take than it once did before the GPU is "
                 "out of use; 0 = do not look")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--company-seconds", flags.company_seconds,
                 "GPU: how many seconds to wait while other processes compute on it")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_flag("--with-company", flags.with_company,
               "GPU: then measure beside them, and say so, rather than not at all");
  app.add_option("--lock-dir", flags.lock_dir,
                 "GPU: folder of the locks that keep two processes from measuring on one")
      ->capture_default_str();
  app.add_option("--measuring-core", flags.measuring_core,
                 "GPU: the thread that measures runs on this core meanwhile; -1 = on any")
      ->capture_default_str();
  app.add_flag("--describe", flags.describe, "print the device's record and exit");
  app.add_flag("--devices", flags.devices, "list the GPUs that can be measured and exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const bool asked = flags.describe || flags.devices;
  if (!asked && !kiln::HasParentChannel()) {
    std::fprintf(stderr,
                 "kiln-runner: descriptor 3 is no channel to a parent: kiln-worker starts this "
                 "program; by hand it answers --devices and --describe\n");
    return 1;
  }
  if (!asked) kiln::EnterChild();
  absl::Status status = flags.devices    ? kiln::worker::ListDevices()
                        : flags.describe ? kiln::worker::Describe(flags)
                                         : kiln::worker::Serve(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "kiln-runner: %s\n", std::string(status.message()).c_str());
  return 1;
}

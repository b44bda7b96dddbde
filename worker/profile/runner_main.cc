// kiln-runner: the child process that loads, checks and times candidates on one device. Serves one
// request at a time on descriptor 3 until its parent closes it. Started by kiln-worker; of no use
// by hand, but for --describe, which prints the machine's record.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/base/subprocess.h"
#include "compiler/target/host_arch.h"
#include "worker/profile/host_device.h"
#include "worker/profile/interp_reference.h"
#include "worker/profile/runner.h"

namespace kiln::worker {
namespace {

struct Flags {
  int slot = 0;
  std::string device_name = "worker";
  std::string cache_dir;
  int64_t cache_bytes = 0;
  int64_t rotation_mib = 1024;
  int64_t peer_mib = 1024;
  bool describe = false;
};

absl::StatusOr<v1::ArchRecord> HostRecord(const std::string& cache_dir) {
  KILN_ASSIGN_OR_RETURN(target::Arch arch, target::HostArch(cache_dir));
  v1::ArchRecord record;
  record.set_name(arch.name);
  record.set_record(target::ToText(arch));
  record.set_device_model(arch.model);
  return record;
}

absl::Status Serve(const Flags& flags) {
  FrameChannel channel(kChildChannelFd);
  v1::ChildHello hello;
  KILN_ASSIGN_OR_RETURN(*hello.add_archs(), HostRecord(flags.cache_dir));
  KILN_RETURN_IF_ERROR(channel.Write(hello.SerializeAsString()));

  std::unique_ptr<Device> device = MakeHostDevice(
      flags.cache_bytes, flags.cache_dir.empty() ? std::string("/tmp") : flags.cache_dir);
  RunnerOptions options;
  options.device_name = absl::StrCat(flags.device_name, "/", device->name());
  options.rotation_bytes = flags.rotation_mib << 20;
  options.peer_bytes = flags.peer_mib << 20;
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
  KILN_ASSIGN_OR_RETURN(v1::ArchRecord record, HostRecord(flags.cache_dir));
  std::printf("%s", record.record().c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace kiln::worker

int main(int argc, char** argv) {
  kiln::worker::Flags flags;
  CLI::App app("kiln-runner: measures candidates for kiln-worker");
  app.add_option("--slot", flags.slot, "number of the profile slot");
  app.add_option("--device-name", flags.device_name, "the worker's name, for measurements");
  app.add_option("--cache-dir", flags.cache_dir, "where the machine's calibration is kept");
  app.add_option("--llc-bytes", flags.cache_bytes,
                 "size of the last-level cache; 0 = ask the system");
  app.add_option("--rotation-mib", flags.rotation_mib,
                 "most memory that a cold measurement rotates over")
      ->check(CLI::PositiveNumber);
  app.add_option("--peer-mib", flags.peer_mib,
                 "most memory for outputs kept to compare candidates with each other");
  app.add_flag("--describe", flags.describe, "print this machine's record and exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (!flags.describe) kiln::EnterChild();
  absl::Status status = flags.describe ? kiln::worker::Describe(flags) : kiln::worker::Serve(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "kiln-runner: %s\n", std::string(status.message()).c_str());
  return 1;
}

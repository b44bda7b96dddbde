// kiln-worker: the agent's process. Flags, logs, metrics, signals; no decisions.
#include <fcntl.h>
#include <signal.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/affinity.h"
#include "compiler/base/status.h"
#include "proto/address.h"
#include "worker/agent.h"
#include "worker/blob_cache.h"
#include "worker/compile_executor.h"
#include "worker/cores.h"
#include "worker/devices.h"
#include "worker/grpc_link.h"
#include "worker/metrics.h"
#include "worker/profile/gpu_faults.h"
#include "worker/profile_executor.h"

namespace kiln::worker {
namespace {

namespace fs = std::filesystem;

constexpr double kSystemSeconds = 10;  // in which a driver says what happened to its GPU

struct Flags {
  std::string coordinator;
  std::string name;
  int compile_slots = -1;
  int profile_slots = -1;
  std::string devices = "auto";
  std::string work_dir;
  std::string metrics;
  std::string log_file;
  std::string compile_binary;
  std::string runner_binary;
  std::vector<std::string> runner_args;
  double compile_seconds = 60;
  double silence_seconds = 120;
  double drain_seconds = 30;
  int64_t compile_memory_mib = 4096;
  int64_t runner_memory_mib = 0;
  int64_t cache_mib = 4096;
  bool share_cores = false;
  bool with_company = false;
  std::string quiet_cores = "auto";
  bool die_with_parent = false;
};

std::string HostName() {
  char name[256] = {};
  ::gethostname(name, sizeof(name) - 1);
  return name[0] == 0 ? "worker" : name;
}

std::string OwnFolder() {
  std::error_code error;
  fs::path self = fs::read_symlink("/proc/self/exe", error);
  return error ? "." : self.parent_path().string();
}

std::string CheckCoordinator(const std::string& address) {
  return std::string(CheckAddress(address, /*allow_port_zero=*/false).message());
}

std::string CheckNames(const std::string& devices) {
  return std::string(CheckDevices(devices).message());
}

void AddFlags(CLI::App* app, Flags* flags) {
  app->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app->add_option("--coordinator", flags->coordinator,
                  "where the coordinator is: unix:/path or host:port")
      ->required()
      ->check(CheckCoordinator);
  app->add_option("--name", flags->name, "stable name of this worker (default: the host's name)");
  app->add_option("--compile-slots", flags->compile_slots,
                  "candidates compiled at once (default: the number of cores, less one for each "
                  "measured GPU and one more where there are GPUs)");
  app->add_option("--profile-slots", flags->profile_slots,
                  "devices measured at once (default: all that --devices names); 0 for none")
      ->check(CLI::Range(0, 64));
  app->add_option(
         "--devices", flags->devices,
         "what is measured: cpu; GPUs, gpu0,gpu2; gpu: all of them; auto: the same, but the "
         "CPU where there is none")
      ->check(CheckNames)
      ->capture_default_str();
  app->add_option("--work-dir", flags->work_dir,
                  "cache and scratch folder (default: $TMPDIR/kiln-worker-<name>)");
  app->add_option("--metrics", flags->metrics,
                  "host:port of the Prometheus endpoint (default: none)");
  app->add_option("--log-file", flags->log_file,
                  "append the log to this file (default: standard output)");
  app->add_option("--compile-binary", flags->compile_binary,
                  "path of kiln-compile (default: beside this binary)");
  app->add_option("--runner-binary", flags->runner_binary,
                  "path of kiln-runner (default: beside this binary)");
  app->add_option("--runner-arg", flags->runner_args,
                  "passed on to kiln-runner (its --help lists them); repeatable")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_option("--compile-seconds", flags->compile_seconds,
                  "longest that the compile of one candidate may take")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--silence-seconds", flags->silence_seconds,
                  "kiln-runner is stopped after this long without a sign of life")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--drain-seconds", flags->drain_seconds,
                  "after SIGTERM running tasks get this long to finish")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app->add_option("--compile-memory-mib", flags->compile_memory_mib,
                  "address space of a kiln-compile child; 0 = no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app->add_option(
         "--runner-memory-mib", flags->runner_memory_mib,
         "address space of a kiln-runner child that measures a CPU; 0 = three quarters of the "
         "memory (of a GPU's there is no limit)")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app->add_option("--cache-mib", flags->cache_mib, "limit of the blob cache, in MiB")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_flag("--share-cores", flags->share_cores,
                "compile while a CPU measurement runs: faster, but the times are disturbed");
  app->add_flag("--with-company", flags->with_company,
                "measure on a GPU that other processes compute on too, and say so in the result: "
                "for desktops, whose display server never leaves");
  app->add_option(
         "--quiet-cores", flags->quiet_cores,
         "the core that measures for each GPU, on which nothing else of this worker runs, nor "
         "on its hyperthread: auto (near the GPU; none on small machines), off, or one number "
         "a GPU, 7,15")
      ->capture_default_str();
  app->add_flag("--die-with-parent", flags->die_with_parent,
                "end at once, as by SIGKILL, when the process that started this one ends");
}

void FillDefaults(Flags* flags) {
  if (flags->name.empty()) flags->name = HostName();
  if (flags->work_dir.empty()) {
    const char* tmp = std::getenv("TMPDIR");
    flags->work_dir = absl::StrCat(tmp == nullptr ? "/tmp" : tmp, "/kiln-worker-", flags->name);
  }
  if (flags->compile_binary.empty()) flags->compile_binary = OwnFolder() + "/kiln-compile";
  if (flags->runner_binary.empty()) flags->runner_binary = OwnFolder() + "/kiln-runner";
  if (flags->runner_memory_mib == 0) {
    int64_t pages = ::sysconf(_SC_PHYS_PAGES);
    int64_t page = ::sysconf(_SC_PAGESIZE);
    flags->runner_memory_mib = pages * page / 4 * 3 >> 20;
  }
}

// Cores next to a measuring GPU stay quiet: one launches, one more serves the rest.
void FillSlots(const Devices& devices, Flags* flags) {
  const int found = static_cast<int>(devices.names.size());
  if (flags->profile_slots < 0) flags->profile_slots = found;
  if (flags->compile_slots >= 0) return;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int quiet = devices.gpus() && flags->profile_slots > 0 ? flags->profile_slots + 1 : 0;
  flags->compile_slots = std::max(1, cores - quiet);
}

// All threads and children that come inherit this thread's cores.
absl::StatusOr<QuietCores> KeepCoresQuiet(const Flags& flags, const Devices& devices) {
  std::vector<std::string> places = devices.places;
  places.resize(std::min(places.size(), static_cast<size_t>(flags.profile_slots)));
  KILN_ASSIGN_OR_RETURN(QuietCores cores, PlanCores(flags.quiet_cores, places, AllowedCores()));
  if (!cores.notes.empty()) spdlog::info("cores: {}", cores.notes);
  if (cores.measuring.empty()) return cores;
  const absl::Status moved = RunOn(cores.others);
  if (moved.ok()) return cores;
  spdlog::warn("cores: {}", std::string(moved.message()));
  return QuietCores();
}

absl::Status SetUpLog(const Flags& flags) {
  try {
    std::shared_ptr<spdlog::logger> logger;
    if (flags.log_file.empty()) {
      logger = spdlog::stdout_logger_mt("kiln-worker");
    } else {
      logger = spdlog::basic_logger_mt("kiln-worker", flags.log_file);
    }
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
    logger->flush_on(spdlog::level::info);  // a crash test counts the lines
    spdlog::set_default_logger(std::move(logger));
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot open the log ", flags.log_file, ": ", error.what()));
  }
  return absl::OkStatus();
}

// One worker a folder: two would evict each other's files. Held until the process ends.
absl::Status LockWorkDir(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  std::string path = directory + "/lock";
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot write into ", directory, "; give another --work-dir"));
  }
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
  ::close(fd);
  return absl::FailedPreconditionError(
      absl::StrCat("another worker uses ", directory, "; give another --name or --work-dir"));
}

ChildOptions MakeChildOptions(const std::string& binary, int64_t memory_mib,
                              const std::string& kind, Metrics* metrics) {
  ChildOptions options;
  options.binary = binary;
  options.memory_bytes = memory_mib << 20;
  options.on_death = [metrics, kind](const std::string& reason) {
    metrics->ChildDied(kind);
    spdlog::warn("child died kind={} reason={}", kind, reason);
  };
  return options;
}

// Of the GPU at this place; none where the system does not say.
DeviceLook WatchGpu(const std::string& place) {
  if (place.empty()) return nullptr;
  absl::StatusOr<std::unique_ptr<GpuFaults>> watched = GpuFaults::Watch(place);
  if (!watched.ok()) {
    spdlog::info("gpu {}: {}", place, std::string(watched.status().message()));
    return nullptr;
  }
  const std::shared_ptr<GpuFaults> faults = *std::move(watched);
  return WithinSeconds(kSystemSeconds, [faults] { return faults->Take(); });
}

// Waits for SIGTERM or SIGINT in a thread of its own, so that no handler runs anywhere. The thread
// is left behind at exit.
void WatchSignals(const sigset_t& signals, Agent* agent) {
  std::thread([signals, agent] {
    while (true) {
      int signal = 0;
      if (::sigwait(&signals, &signal) != 0) continue;
      agent->Drain(signal == SIGTERM ? "SIGTERM" : "SIGINT");
    }
  }).detach();
}

absl::Status Run(Flags flags, const sigset_t& signals) {
  KILN_RETURN_IF_ERROR(SetUpLog(flags));
  KILN_RETURN_IF_ERROR(LockWorkDir(flags.work_dir));
  Devices devices{{"cpu"}, ""};
  if (flags.profile_slots != 0) {
    KILN_ASSIGN_OR_RETURN(devices, ChooseDevices(flags.devices, flags.runner_binary));
  }
  FillSlots(devices, &flags);
  if (flags.profile_slots > static_cast<int>(devices.names.size())) {
    return absl::InvalidArgumentError(absl::StrCat("--profile-slots=", flags.profile_slots,
                                                   ", but ", absl::StrJoin(devices.names, ", "),
                                                   " is all there is to measure"));
  }
  if (!devices.notes.empty()) spdlog::info("devices: {}", devices.notes);
  KILN_ASSIGN_OR_RETURN(const QuietCores cores, KeepCoresQuiet(flags, devices));
  static Metrics metrics;
  if (!flags.metrics.empty()) KILN_RETURN_IF_ERROR(metrics.Serve(flags.metrics));
  std::unique_ptr<Link> link = MakeGrpcLink(flags.coordinator);
  KILN_ASSIGN_OR_RETURN(
      std::unique_ptr<BlobCache> cache,
      BlobCache::Open(flags.work_dir + "/blobs", flags.cache_mib << 20, link.get()));

  AgentOptions options;
  options.name = flags.name;
  options.compile_slots = flags.compile_slots;
  options.profile_slots = flags.profile_slots;
  options.devices = devices.names;
  options.devices.resize(static_cast<size_t>(flags.profile_slots));
  options.mixed_devices = devices.models(options.devices.size()) > 1;
  options.drain_seconds = flags.drain_seconds;
  options.exclusive_measurement = !flags.share_cores && !devices.gpus();
  auto make_compile = [&](int) -> std::unique_ptr<CompileExecutor> {
    ChildOptions child =
        MakeChildOptions(flags.compile_binary, flags.compile_memory_mib, "compile", &metrics);
    CompileLimits limits;
    limits.seconds = flags.compile_seconds;
    return std::make_unique<ChildCompileExecutor>(std::move(child), limits);
  };
  auto make_profile = [&](int index) -> std::unique_ptr<ProfileExecutor> {
    // A driver maps far more addresses than there is memory: a GPU's runner has no such limit.
    ChildOptions child = MakeChildOptions(
        flags.runner_binary, devices.gpus() ? 0 : flags.runner_memory_mib, "runner", &metrics);
    child.arguments = {"--device=" + devices.names[static_cast<size_t>(index)],
                       "--device-name=" + flags.name, "--cache-dir=" + flags.work_dir};
    if (flags.with_company) child.arguments.push_back("--with-company");
    if (!cores.measuring.empty()) {
      child.arguments.push_back(
          absl::StrCat("--measuring-core=", cores.measuring[static_cast<size_t>(index)]));
    }
    child.arguments.insert(child.arguments.end(), flags.runner_args.begin(),
                           flags.runner_args.end());
    return std::make_unique<ChildProfileExecutor>(
        std::move(child), ProfileLimits{flags.silence_seconds},
        WatchGpu(devices.gpus() ? devices.places[static_cast<size_t>(index)] : ""));
  };
  // Leaked on purpose: the signal thread may touch it until the process ends.
  Agent* agent = std::make_unique<Agent>(options, link.get(), cache.get(), &metrics, make_compile,
                                         make_profile)
                     .release();
  WatchSignals(signals, agent);
  spdlog::info("kiln-worker name={} coordinator={} compile_slots={} profile_slots={} devices={}",
               flags.name, flags.coordinator, flags.compile_slots, flags.profile_slots,
               absl::StrJoin(devices.names, ","));
  absl::Status status = agent->Run();
  spdlog::default_logger()->flush();
  return status;
}

}  // namespace
}  // namespace kiln::worker

int main(int argc, char** argv) {
  kiln::worker::Flags flags;
  CLI::App app("kiln-worker: compiles and measures candidates for a Kiln coordinator");
  app.set_version_flag("--version", "kiln-worker " KILN_VERSION);
  kiln::worker::AddFlags(&app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  kiln::worker::FillDefaults(&flags);
  // Before any thread exists, so that all of them inherit the mask.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans of a killed child end up here and are reaped
  if (flags.die_with_parent) {
    pid_t parent = ::getppid();
    // Not SIGTERM: a drain would wait for a coordinator that ended with the parent.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) return 1;
  }
  absl::Status status = kiln::worker::Run(flags, signals);
  if (status.ok()) std::_Exit(0);
  std::fprintf(stderr, "kiln-worker: %s\n", std::string(status.message()).c_str());
  std::_Exit(1);
}

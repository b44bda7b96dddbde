#include "coordinator/rpc/daemon.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <mutex>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "compiler/base/clock.h"
#include "compiler/base/status.h"
#include "coordinator/core/farm.h"
#include "coordinator/rpc/metrics.h"
#include "coordinator/store/blob_store.h"
#include "coordinator/store/kv.h"
#include "coordinator/store/meta_store.h"
#include "proto/address.h"
#include "proto/limits.h"

namespace kiln::rpc {
namespace {

constexpr int64_t kWakeNs = 200'000'000;

sigset_t EndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

// A store goes into a folder of its own: an empty one, or one that has held a store before.
absl::Status CheckFolder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::is_directory(folder + "/meta", error)) return absl::OkStatus();
  if (fs::is_directory(fs::path(folder) / "farm" / "meta", error)) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, " is a store of tunectl tune, whose farm's own is ", folder,
                     "/farm: give that, while no tunectl tune runs"));
  }
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name == "lost+found") continue;  // the folder is a file system of its own
    return absl::FailedPreconditionError(absl::StrCat(folder, " is no store and not empty, '", name,
                                                      "' is in it: give a folder of its own"));
  }
  return error ? absl::InternalError(absl::StrCat("cannot read ", folder, ": ", error.message()))
               : absl::OkStatus();
}

class Daemon {
 public:
  explicit Daemon(const DaemonOptions& options) : options_(options), metrics_(Metrics::New()) {}

  ExitCode Run(search::Expander* expander);
  // Ends the farm and the server. False when an expansion still runs: then this object, whose
  // stores it uses, must not be destroyed.
  bool Stop();

 private:
  absl::Status OpenStores();
  absl::Status StartFarm(search::Expander* expander);
  absl::Status Listen();
  // The signal that came, or 0 when the farm cannot go on.
  int Wait();
  absl::Status fatal() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return fatal_;
  }

  const DaemonOptions& options_;
  const std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<store::MetaStore> meta_;
  std::unique_ptr<store::BlobStore> blobs_;
  std::unique_ptr<core::Farm> farm_;
  std::unique_ptr<Server> server_;
  mutable std::mutex mutex_;
  absl::Status fatal_;  // guarded by mutex_
};

absl::Status Daemon::OpenStores() {
  std::error_code error;
  if (!std::filesystem::is_directory(options_.store, error)) {
    if (std::filesystem::is_symlink(options_.store, error)) {
      return absl::InternalError(
          absl::StrCat(options_.store, " is a link to a folder that is not there"));
    }
    std::filesystem::create_directories(options_.store, error);
    if (error) {
      return absl::InternalError(
          absl::StrCat("cannot create the store's folder ", options_.store, ": ", error.message()));
    }
    chmod(options_.store.c_str(), 0700);
  }
  KILN_RETURN_IF_ERROR(CheckFolder(options_.store));
  for (const char* part : {"/meta", "/blobs"}) {
    KILN_RETURN_IF_ERROR(store::CheckRocksFiles(options_.store + part));
  }
  KILN_ASSIGN_OR_RETURN(meta_, store::OpenRocksMetaStore(options_.store + "/meta"));
  store::BlobStoreOptions blob_options;
  blob_options.limit_bytes = options_.blob_limit_bytes;
  blob_options.max_blob_bytes = RpcLimits::kMaxBlobBytes;
  KILN_ASSIGN_OR_RETURN(
      blobs_, store::OpenRocksBlobStore(options_.store + "/blobs", blob_options, RealClock::Get()));
  return absl::OkStatus();
}

absl::Status Daemon::StartFarm(search::Expander* expander) {
  core::Farm::Parts parts;
  parts.meta = meta_.get();
  parts.blobs = blobs_.get();
  parts.expander = expander;
  parts.clock = RealClock::Get();
  parts.observer = metrics_.get();
  parts.store_directory = options_.store;
  KILN_ASSIGN_OR_RETURN(farm_, core::Farm::Start(parts, options_.core));
  farm_->OnFatal([this](const absl::Status& status) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (fatal_.ok()) fatal_ = status;
  });
  metrics_->SetFarm(farm_.get());
  return absl::OkStatus();
}

absl::Status Daemon::Listen() {
  KILN_ASSIGN_OR_RETURN(server_, Server::Start(farm_.get(), metrics_.get(), options_.server));
  if (!options_.metrics.empty()) {
    KILN_ASSIGN_OR_RETURN(const int port, metrics_->Serve(options_.metrics));
    spdlog::info("metrics on {}:{}", options_.metrics.substr(0, options_.metrics.rfind(':')), port);
  }
  if (options_.server.allow_remote) {
    spdlog::warn(
        "--allow-remote: the RPC port is neither encrypted nor authenticated; whoever can "
        "connect can run code on the workers");
  }
  for (const std::string& address : server_->addresses()) {
    spdlog::info("listening on {}", address);
  }
  return absl::OkStatus();
}

int Daemon::Wait() {
  const sigset_t signals = EndSignals();
  while (true) {
    const timespec wake{0, kWakeNs};
    const int signal = sigtimedwait(&signals, nullptr, &wake);
    if (signal > 0) return signal;
    if (!fatal().ok()) return 0;
  }
}

bool Daemon::Stop() {
  metrics_->SetFarm(nullptr);
  if (farm_ != nullptr) farm_->Stop();
  if (server_ != nullptr) server_->Shutdown(options_.grace_seconds);
  server_.reset();
  if (farm_ != nullptr && !farm_->AwaitExpansions(options_.grace_seconds)) return false;
  farm_.reset();
  return true;
}

ExitCode StoreExitCode(const absl::Status& status) {
  if (absl::IsDataLoss(status)) return kExitDamagedStore;
  return absl::IsFailedPrecondition(status) ? kExitStoreInUse : kExitFailed;
}

ExitCode CannotListen(const absl::Status& status) {
  spdlog::error("{}", std::string(status.message()));
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitCannotListen;
}

ExitCode Daemon::Run(search::Expander* expander) {
  absl::Status status = Server::CheckAddresses(options_.server);
  if (!status.ok()) return CannotListen(status);
  status = OpenStores();
  if (status.ok()) status = StartFarm(expander);
  if (!status.ok()) {
    spdlog::error("cannot use the store {}: {}", options_.store, std::string(status.message()));
    return StoreExitCode(status);
  }
  status = Listen();
  if (!status.ok()) return CannotListen(status);
  const int signal = Wait();
  if (signal == 0) {
    spdlog::error("the store is lost: {}", std::string(fatal().message()));
    return kExitLostStore;
  }
  spdlog::info("{}: stopping", strsignal(signal));
  return kExitOk;
}

}  // namespace

void BlockEndSignals() {
  const sigset_t signals = EndSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

ExitCode RunDaemon(const DaemonOptions& options, search::Expander* expander) {
  auto daemon = std::make_unique<Daemon>(options);
  const ExitCode code = daemon->Run(expander);
  if (daemon->Stop()) return code;
  // All that was acknowledged is on disk; the submit behind the expansion was told to come again.
  spdlog::warn("an expansion still runs; ending without it");
  spdlog::default_logger()->flush();
  std::_Exit(code);
}

}  // namespace kiln::rpc

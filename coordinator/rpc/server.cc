#include "coordinator/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/codegen/service_type.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "compiler/base/status.h"
#include "coordinator/rpc/disk_pool.h"
#include "coordinator/rpc/services.h"
#include "proto/address.h"
#include "proto/limits.h"

namespace kiln::rpc {
namespace {

constexpr std::chrono::milliseconds kHealthPeriod{500};
const char* const kServiceNames[] = {"kiln.v1.Tuning", "kiln.v1.Work", "kiln.v1.Blobs"};

// True when somebody accepts connections on the Unix socket `path`: gRPC would take the path away
// from them without a word.
bool IsServed(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool served =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return served;
}

absl::Status CheckListen(const std::string& address, bool allow_remote) {
  KILN_RETURN_IF_ERROR(CheckAddress(address, /*allow_port_zero=*/true));
  if (!IsLocalAddress(address) && !allow_remote) {
    return absl::InvalidArgumentError(
        absl::StrCat("listen address '", address,
                     "' can be reached from other machines, and nothing is encrypted or "
                     "authenticated; use a Unix socket or 127.0.0.1, or say --allow-remote"));
  }
  const std::string path = UnixPath(address);
  if (!path.empty() && IsServed(path)) {
    return absl::FailedPreconditionError(absl::StrCat("another process serves the socket ", path));
  }
  return absl::OkStatus();
}

// What the system says of "host:port", by asking it again.
std::string WhyPortIsNot(const std::string& address) {
  const size_t colon = address.rfind(':');
  const std::string bracketed = address.substr(0, colon);
  const bool v6 = bracketed.size() > 2 && bracketed.front() == '[';
  const std::string host = v6 ? bracketed.substr(1, bracketed.size() - 2) : bracketed;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int unknown = getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found);
  if (unknown != 0) return absl::StrCat(host, " is no address: ", gai_strerror(unknown));
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int code = fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) == 0 ? 0 : errno;
  if (fd >= 0) close(fd);
  freeaddrinfo(found);
  switch (code) {
    case EADDRINUSE:
      return "another process listens there: choose another port, or 0 for any free one";
    case EACCES:
      return "this user may not: choose a port from 1024 on, or 0 for any free one";
    case EADDRNOTAVAIL:
      return "no network interface of this machine has that address";
    default:
      return code == 0 ? "the system did not say why; try again" : std::strerror(code);
  }
}

// Why nothing listens on `address`, which gRPC tells nobody but its log.
std::string WhyNotBound(const std::string& address) {
  const std::string path = UnixPath(address);
  if (path.empty()) return WhyPortIsNot(address);
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  if (access(folder.c_str(), F_OK) != 0) return absl::StrCat("there is no folder ", folder);
  if (access(folder.c_str(), W_OK) != 0) return absl::StrCat("no writing into ", folder);
  return absl::StrCat("the path is taken, or longer than ", sizeof(sockaddr_un().sun_path) - 1,
                      " characters");
}

void SetLimits(grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(RpcLimits::kMaxReceiveBytes);
  builder->SetMaxSendMessageSize(-1);
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  grpc::ResourceQuota quota("kiln");
  quota.Resize(size_t{1} << 30);
  builder->SetResourceQuota(quota);
}

class GrpcServer : public Server {
 public:
  GrpcServer(core::Farm* farm, Metrics* metrics, const ServerOptions& options)
      : farm_(farm), options_(options), disk_(options.disk_threads) {
    const ServiceParts parts{farm, &disk_, metrics};
    services_.push_back(NewTuningService(parts));
    services_.push_back(NewWorkService(parts));
    services_.push_back(NewBlobsService(parts));
  }
  ~GrpcServer() override { Shutdown(0); }

  absl::Status Listen();
  const std::vector<std::string>& addresses() const override { return addresses_; }
  void Shutdown(double grace_seconds) override;

 private:
  void WatchHealth();
  void PublishHealth(bool serving);

  core::Farm* const farm_;
  const ServerOptions options_;
  DiskPool disk_;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::string> addresses_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread health_;
};

absl::Status GrpcServer::Listen() {
  static std::once_flag plugins;
  std::call_once(plugins, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
  grpc::ServerBuilder builder;
  SetLimits(&builder);
  std::vector<int> ports(options_.listen.size(), 0);
  for (size_t i = 0; i < ports.size(); ++i) {
    builder.AddListeningPort(options_.listen[i], grpc::InsecureServerCredentials(), &ports[i]);
  }
  for (const auto& service : services_) builder.RegisterService(service.get());
  const mode_t old_mask = umask(0777 & ~options_.socket_mode);
  server_ = builder.BuildAndStart();
  umask(old_mask);
  for (size_t i = 0; i < ports.size(); ++i) {
    const std::string& address = options_.listen[i];
    if (server_ == nullptr || ports[i] == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot listen on ", address, ": ", WhyNotBound(address)));
    }
    addresses_.push_back(UnixPath(address).empty()
                             ? absl::StrCat(address.substr(0, address.rfind(':')), ":", ports[i])
                             : address);
  }
  PublishHealth(farm_->Health().ok());
  health_ = std::thread([this] { WatchHealth(); });
  return absl::OkStatus();
}

void GrpcServer::PublishHealth(bool serving) {
  grpc::HealthCheckServiceInterface* const health = server_->GetHealthCheckService();
  if (health == nullptr) return;
  health->SetServingStatus(serving);
  for (const char* name : kServiceNames) health->SetServingStatus(name, serving);
}

void GrpcServer::WatchHealth() {
  while (true) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (stop_.wait_for(lock, kHealthPeriod, [this] { return stopping_; })) return;
    }
    PublishHealth(farm_->Health().ok());
  }
}

void GrpcServer::Shutdown(double grace_seconds) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (health_.joinable()) health_.join();
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now() +
                    std::chrono::milliseconds(static_cast<int64_t>(grace_seconds * 1000)));
  server_->Wait();
  server_.reset();
  for (const std::string& address : addresses_) {
    const std::string path = UnixPath(address);
    if (!path.empty()) unlink(path.c_str());
  }
}

}  // namespace

absl::Status Server::CheckAddresses(const ServerOptions& options) {
  if (options.listen.empty()) return absl::InvalidArgumentError("there is no address to listen on");
  for (const std::string& address : options.listen) {
    KILN_RETURN_IF_ERROR(CheckListen(address, options.allow_remote));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(core::Farm* farm, Metrics* metrics,
                                                      const ServerOptions& options) {
  KILN_RETURN_IF_ERROR(CheckAddresses(options));
  auto server = std::make_unique<GrpcServer>(farm, metrics, options);
  KILN_RETURN_IF_ERROR(server->Listen());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace kiln::rpc

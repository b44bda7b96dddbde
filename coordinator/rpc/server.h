// The coordinator's listening side: the three services, health checking and server reflection.
#ifndef KILN_COORDINATOR_RPC_SERVER_H_
#define KILN_COORDINATOR_RPC_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/core/farm.h"
#include "coordinator/rpc/metrics.h"

namespace kiln::rpc {

struct ServerOptions {
  // "unix:/path" or "host:port"; port 0 = any free one. Nothing is encrypted or authenticated:
  // who can connect can submit, and so run code on workers.
  std::vector<std::string> listen;
  bool allow_remote = false;  // addresses that other machines can reach
  int socket_mode = 0600;     // permissions of Unix sockets
  int disk_threads = 4;
};

class Server {
 public:
  // The same refusals as Start's, before a store is opened for it.
  static absl::Status CheckAddresses(const ServerOptions& options);

  // Listens when it returns OK. kInvalidArgument: an address is malformed, or reachable from
  // outside without `allow_remote`. kFailedPrecondition: an address is in use. `farm` and `metrics`
  // must outlive the server.
  static absl::StatusOr<std::unique_ptr<Server>> Start(core::Farm* farm, Metrics* metrics,
                                                       const ServerOptions& options);
  // Shuts down, if that has not happened.
  virtual ~Server() = default;

  // The addresses with real ports, in the order of the options.
  virtual const std::vector<std::string>& addresses() const = 0;

  // Refuses new calls, gives running ones `grace_seconds` to end, then ends them. Stop the farm
  // first: it ends the streams with a word of its own. Blocks.
  virtual void Shutdown(double grace_seconds) = 0;
};

}  // namespace kiln::rpc

#endif  // KILN_COORDINATOR_RPC_SERVER_H_

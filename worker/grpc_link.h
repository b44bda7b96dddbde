// The coordinator over gRPC: unix:/path or host:port.
#ifndef KILN_WORKER_GRPC_LINK_H_
#define KILN_WORKER_GRPC_LINK_H_

#include <memory>
#include <string>

#include "worker/link.h"

namespace kiln::worker {

// Never fails: an unreachable address shows in the calls. Insecure credentials; the address is
// expected to be a Unix socket, the loopback, or a network that only the farm uses.
std::unique_ptr<Link> MakeGrpcLink(const std::string& address);

}  // namespace kiln::worker

#endif  // KILN_WORKER_GRPC_LINK_H_

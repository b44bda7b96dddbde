// Between absl::Status and what travels in a gRPC trailer.
#ifndef KILN_COORDINATOR_RPC_STATUS_H_
#define KILN_COORDINATOR_RPC_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace grpc {
class Status;
}

namespace kiln::rpc {

// The codes are the same numbers. The message is cut so that its encoded form stays below the
// trailer limit of every client: a longer one would arrive as another error.
grpc::Status ToGrpc(const absl::Status& status);

// `message` without its middle when it needs more than `limit` bytes percent-encoded.
std::string CutMessage(absl::string_view message, size_t limit);

}  // namespace kiln::rpc

#endif  // KILN_COORDINATOR_RPC_STATUS_H_

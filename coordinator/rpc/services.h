// The three gRPC services over a core::Farm. RPC threads decode, check sizes and form, post to the
// farm, and encode what comes back; they decide nothing. Nothing here blocks a gRPC thread: what
// reads or writes the disk runs on the DiskPool.
#ifndef KILN_COORDINATOR_RPC_SERVICES_H_
#define KILN_COORDINATOR_RPC_SERVICES_H_

#include <memory>

#include "coordinator/core/farm.h"
#include "coordinator/rpc/disk_pool.h"
#include "coordinator/rpc/metrics.h"

namespace grpc {
class Service;
}

namespace kiln::rpc {

// All must outlive the services and their open calls.
struct ServiceParts {
  core::Farm* farm = nullptr;
  DiskPool* disk = nullptr;
  Metrics* metrics = nullptr;
};

std::unique_ptr<grpc::Service> NewTuningService(const ServiceParts& parts);
std::unique_ptr<grpc::Service> NewWorkService(const ServiceParts& parts);
std::unique_ptr<grpc::Service> NewBlobsService(const ServiceParts& parts);

}  // namespace kiln::rpc

#endif  // KILN_COORDINATOR_RPC_SERVICES_H_

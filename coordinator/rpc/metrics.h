// The coordinator's metrics, in Prometheus form. Names begin with kiln_, units are seconds and
// bytes, labels take a bounded set of values (never a sweep, a task or a worker). The list with
// meanings is in deploy/prometheus/README.md.
#ifndef KILN_COORDINATOR_RPC_METRICS_H_
#define KILN_COORDINATOR_RPC_METRICS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/core/farm.h"
#include "coordinator/store/blob_store.h"

namespace kiln::rpc {

// Thread-safe.
class Metrics : public core::Observer {
 public:
  static std::unique_ptr<Metrics> New();

  // Where the gauges come from, read at every scrape; call once, after the farm has started, and
  // with nullptr before it goes away.
  virtual void SetFarm(core::Farm* farm) = 0;

  // One RPC ended. `method` is one of the services' names, e.g. "SubmitSweep".
  virtual void OnRpc(absl::string_view method, absl::StatusCode code, double seconds) = 0;
  virtual void OnBlobBytes(int64_t received, int64_t sent) = 0;
  virtual void OnStream(absl::string_view method, int change) = 0;

  // The text that a scrape returns now.
  virtual std::string Text() = 0;

  // Serves /metrics on "host:port" until the Metrics are destroyed; returns the port.
  // kFailedPrecondition when the address cannot be bound.
  virtual absl::StatusOr<int> Serve(const std::string& address) = 0;
};

}  // namespace kiln::rpc

#endif  // KILN_COORDINATOR_RPC_METRICS_H_

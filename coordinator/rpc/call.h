// What every call does at its beginning and end: count itself.
#ifndef KILN_COORDINATOR_RPC_CALL_H_
#define KILN_COORDINATOR_RPC_CALL_H_

#include <chrono>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "coordinator/rpc/metrics.h"

namespace kiln::rpc {

// Times one RPC. `method` must outlive it (a literal). End() is called once; not thread-safe.
class CallTimer {
 public:
  CallTimer(Metrics* metrics, absl::string_view method)
      : metrics_(metrics), method_(method), begin_(std::chrono::steady_clock::now()) {}

  void End(absl::StatusCode code) const {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
    metrics_->OnRpc(method_, code, elapsed.count());
  }
  Metrics* metrics() const { return metrics_; }
  absl::string_view method() const { return method_; }

 private:
  Metrics* metrics_;
  absl::string_view method_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace kiln::rpc

#endif  // KILN_COORDINATOR_RPC_CALL_H_

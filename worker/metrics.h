// The worker's Prometheus metrics, kiln_worker_*. Thread-safe. Labels are bounded: kinds, outcomes
// and stages, never tasks or sweeps.
#ifndef KILN_WORKER_METRICS_H_
#define KILN_WORKER_METRICS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kiln/v1/work.pb.h"

namespace kiln::worker {

struct BlobCacheStats;

class Metrics {
 public:
  Metrics();
  ~Metrics();

  // Serves /metrics on "host:port". kUnavailable when the address cannot be bound.
  absl::Status Serve(const std::string& address);
  // Of all that is registered, whether it was counted yet or not, with kiln_worker_ before each.
  const std::vector<std::string>& Names() const;
  // The text of a scrape.
  std::string Render() const;

  void TaskStarted(v1::TaskKind kind);
  void TaskFinished(v1::TaskKind kind, bool released, double seconds);
  // `used`: the result was made durable; false: it was stale.
  void TaskAcknowledged(bool used);
  void TaskRevoked();
  // One candidate's end: "ok", or the stage of its failure.
  void CandidateFinished(v1::TaskKind kind, const v1::CandidateResult& result);
  // Seconds of a step: "fetch", "compile", "put", "setup", "check", "measure".
  void ObserveStep(const std::string& step, double seconds);
  void ChildDied(const std::string& child);
  void Connected(bool connected);
  void Reconnected();
  void SetSlots(int compile, int profile);
  void SetBusy(int compile, int profile);
  void SetUnacknowledged(size_t results);
  void SetCache(const BlobCacheStats& stats);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_METRICS_H_

// The whole coordinator without sockets: core, loop thread, stores and the expansion pool behind
// one object. The RPC layer decodes, calls a method here, and encodes what comes back.
#ifndef KILN_COORDINATOR_CORE_FARM_H_
#define KILN_COORDINATOR_CORE_FARM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/base/clock.h"
#include "coordinator/core/events.h"
#include "coordinator/core/options.h"
#include "coordinator/search/expander.h"
#include "coordinator/store/blob_store.h"
#include "coordinator/store/meta_store.h"
#include "kiln/v1/tuning.pb.h"
#include "kiln/v1/work.pb.h"

namespace kiln::core {

// A worker's stream, as the farm sees it. Called on one thread at a time (the loop's, a pool's, or
// that of Stop), never after Close; must not block (queue the message, write it elsewhere).
class WorkerSink {
 public:
  virtual ~WorkerSink() = default;
  virtual void Send(const v1::CoordinatorMessage& message) = 0;
  // The last call: end the stream with this status. The farm has forgotten the connection.
  virtual void Close(const absl::Status& status) = 0;
};

// A watcher's stream; rules as for WorkerSink. A slow watcher may drop events that carry neither a
// `changed` candidate nor a terminal state; progress is repeated whole in each event.
class WatchSink {
 public:
  virtual ~WatchSink() = default;
  virtual void OnEvent(const v1::SweepEvent& event) = 0;
  // The last call. OK after the terminal event; kNotFound and others instead of one.
  virtual void OnDone(const absl::Status& status) = 0;
};

// Receives what happens, for metrics. Thread-safe, fast.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void OnObservation(const Observation& observation) {}
  virtual void OnCommit(double seconds, int rows) {}
  virtual void OnTurn(int events, double seconds) {}
};

// Gauges for the metrics endpoint; each a snapshot of the last turn.
struct FarmGauges {
  int64_t active_sweeps = 0;
  int64_t ready_tasks = 0;
  int64_t leased_tasks = 0;
  int64_t workers = 0;
  int64_t misses = 0;  // requests that were looked up and not found
  int64_t queued_events = 0;
  int64_t stale_results = 0;   // since the start
  int64_t leases_granted = 0;  // since the start
  int64_t tasks_done = 0;      // since the start
  uint64_t term = 0;
};

// A blob that FetchWinner streams.
struct ArtifactRef {
  v1::Winner info;  // compile-only sweeps: only config, artifact, sweep_digest, spec are set
  std::string digest;
  int64_t size_bytes = 0;
};

// Called once, on the loop thread or a pool thread; must not block.
template <typename T>
using Callback = std::function<void(absl::StatusOr<T>)>;

// All methods are thread-safe and none blocks on the loop, unless the comment says so. Errors that
// every call may give: kUnavailable while the store cannot be written (the message says why) and
// after Stop; kNotFound and kInvalidArgument for sweep names, as MetaStore::ResolveSweep.
class Farm {
 public:
  struct Parts {
    store::MetaStore* meta = nullptr;  // all must outlive the farm
    store::BlobStore* blobs = nullptr;
    search::Expander* expander = nullptr;
    const Clock* clock = nullptr;
    Observer* observer = nullptr;  // may be null
    std::string store_directory =
        {};  // backups into it are refused; empty = the stores are not on disk
  };

  // Begins a new term, loads the store, restores pins, and starts the threads.
  static absl::StatusOr<std::unique_ptr<Farm>> Start(const Parts& parts, const Options& options);
  // Stops, if that has not happened.
  virtual ~Farm() = default;

  // Closes every stream with kUnavailable ("the coordinator is stopping"), answers what waits, and
  // joins the threads, but for expansions under way: they cannot be interrupted, and only the
  // destructor waits for them to the end. Blocks. Nothing that was acknowledged is lost by it.
  virtual void Stop() = 0;
  // After Stop: true once no expansion runs any more, false when one still does after `seconds`.
  virtual bool AwaitExpansions(double seconds) = 0;

  // OK while events are processed and the store takes writes; else why not. For health checks.
  virtual absl::Status Health() const = 0;
  // Runs once when the farm cannot go on (another coordinator took the store). The process should
  // exit.
  virtual void OnFatal(std::function<void(const absl::Status&)> callback) = 0;

  virtual void SubmitSweep(v1::SweepSpec spec, Callback<v1::SubmitSweepResponse> done) = 0;
  virtual void LookupWinner(v1::LookupWinnerRequest request,
                            Callback<v1::LookupWinnerResponse> done) = 0;
  virtual void ListMisses(const v1::ListMissesRequest& request,
                          Callback<v1::ListMissesResponse> done) = 0;
  virtual void ClearMisses(const v1::ClearMissesRequest& request,
                           Callback<v1::ClearMissesResponse> done) = 0;
  virtual void ListBars(const v1::ListBarsRequest& request,
                        Callback<v1::ListBarsResponse> done) = 0;
  virtual void LiftBars(const v1::LiftBarsRequest& request,
                        Callback<v1::LiftBarsResponse> done) = 0;
  virtual void ListSweeps(const v1::ListSweepsRequest& request,
                          Callback<v1::ListSweepsResponse> done) = 0;
  virtual void GetSweep(const v1::GetSweepRequest& request,
                        Callback<v1::GetSweepResponse> done) = 0;
  virtual void CancelSweep(const v1::CancelSweepRequest& request,
                           Callback<v1::CancelSweepResponse> done) = 0;
  virtual void ListWorkers(const v1::ListWorkersRequest& request,
                           Callback<v1::ListWorkersResponse> done) = 0;

  // The sink gets the state at once, then every change. Unwatch may be called at any time, also
  // from another thread; a call into the sink may be under way, none starts after the loop saw it.
  virtual WatchId WatchSweep(std::string sweep, std::shared_ptr<WatchSink> sink) = 0;
  virtual void Unwatch(WatchId watch) = 0;

  // What FetchWinner streams: kFailedPrecondition while the sweep runs, kNotFound when it has no
  // winner, no such config, or the artifact has been collected. Reads the store; may block on disk.
  virtual absl::StatusOr<ArtifactRef> FindArtifact(const v1::FetchWinnerRequest& request) = 0;

  // A worker's stream opened, said something, ended. Messages of one connection keep their order.
  // Detach may be called by the RPC layer whenever the stream breaks; after a Close it is not
  // needed.
  virtual ConnectionId AttachWorker(std::shared_ptr<WorkerSink> sink) = 0;
  virtual void WorkerSaid(ConnectionId connection, v1::WorkerMessage message) = 0;
  virtual void DetachWorker(ConnectionId connection) = 0;

  // Both block on disk; call them on an RPC thread. Backup writes <directory>/meta and
  // <directory>/blobs.
  virtual absl::StatusOr<v1::CollectGarbageResponse> CollectGarbage(
      const v1::CollectGarbageRequest& request) = 0;
  virtual absl::StatusOr<v1::BackupResponse> Backup(const v1::BackupRequest& request) = 0;

  virtual store::BlobStore* blobs() = 0;
  virtual FarmGauges Gauges() const = 0;
};

}  // namespace kiln::core

#endif  // KILN_COORDINATOR_CORE_FARM_H_

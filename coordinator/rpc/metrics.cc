#include "coordinator/rpc/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/core/account.h"

namespace kiln::rpc {
namespace {

using core::Observation;
using prometheus::Counter;
using prometheus::Family;
using prometheus::Histogram;
using Buckets = Histogram::BucketBoundaries;

// 1 ms to 1 h, about three a decade: queues, compiles, profiles, sweeps.
const Buckets& LongBuckets() {
  static const Buckets* const buckets =
      new Buckets{0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3600};
  return *buckets;
}

// 20 us to 10 s: commits, turns of the loop, RPCs.
const Buckets& ShortBuckets() {
  static const Buckets* const buckets =
      new Buckets{0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005,
                  0.01,    0.02,    0.05,   0.1,    0.3,    1,     3,     10};
  return *buckets;
}

const Buckets& CountBuckets() {
  static const Buckets* const buckets =
      new Buckets{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384};
  return *buckets;
}

// One series for each value that a label may take, all there from the start: what has not happened
// yet is 0, not absent, so that rates and alerts see the first event. Other values count as
// "other".
template <typename Series>
class Bounded {
 public:
  template <typename... Arguments>
  Bounded(Family<Series>& family, const char* label, std::vector<std::string> values,
          const Arguments&... arguments)
      : values_(std::move(values)) {
    for (const std::string& value : values_) {
      series_.push_back(&family.Add({{label, value}}, arguments...));
    }
    series_.push_back(&family.Add({{label, "other"}}, arguments...));
  }
  Series& operator[](absl::string_view value) const {
    return *series_[std::find(values_.begin(), values_.end(), value) - values_.begin()];
  }

 private:
  const std::vector<std::string> values_;
  std::vector<Series*> series_;  // one more than values_
};

const std::vector<std::string>& TaskKinds() {
  static const auto* const kinds =
      new std::vector<std::string>{"compile", "screen", "race", "finals", "empty"};
  return *kinds;
}

const std::vector<std::string>& FailureStages() {
  static const auto* const stages = new std::vector<std::string>{
      "elaborate", "compile", "load", "check", "run", "resources", "cancelled"};
  return *stages;
}

const std::vector<std::string>& SecondsStages() {
  static const auto* const stages = new std::vector<std::string>{
      "queue",   "fetch", "compile", "put",  "check",   "setup", "warmup",
      "measure", "count", "health",  "turn", "company", "idle",  "other"};
  return *stages;
}

const std::vector<std::string>& DeviceParts() {
  static const auto* const parts = [] {
    auto* names = new std::vector<std::string>;
    for (int i = 0; i < core::kParts; ++i) names->push_back(PartName(static_cast<core::Part>(i)));
    return names;
  }();
  return *parts;
}

const std::vector<std::string>& SweepStates() {
  static const auto* const states = new std::vector<std::string>{"done", "failed", "cancelled"};
  return *states;
}

const std::vector<std::string>& LookupResults() {
  static const auto* const results =
      new std::vector<std::string>{"exact", "compatible", "arch", "miss"};
  return *results;
}

const std::vector<std::string>& Methods() {
  static const auto* const methods = new std::vector<std::string>{
      "SubmitSweep", "WatchSweep",  "FetchWinner",    "LookupWinner", "ListSweeps", "GetSweep",
      "CancelSweep", "ListWorkers", "CollectGarbage", "Backup",       "ListMisses", "ClearMisses",
      "ListBars",    "LiftBars",    "Attach",         "PutBlob",      "GetBlob"};
  return *methods;
}

const char* CodeName(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return "OK";
    case absl::StatusCode::kCancelled:
      return "CANCELLED";
    case absl::StatusCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case absl::StatusCode::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case absl::StatusCode::kNotFound:
      return "NOT_FOUND";
    case absl::StatusCode::kAlreadyExists:
      return "ALREADY_EXISTS";
    case absl::StatusCode::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case absl::StatusCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case absl::StatusCode::kAborted:
      return "ABORTED";
    case absl::StatusCode::kOutOfRange:
      return "OUT_OF_RANGE";
    case absl::StatusCode::kUnimplemented:
      return "UNIMPLEMENTED";
    case absl::StatusCode::kInternal:
      return "INTERNAL";
    case absl::StatusCode::kUnavailable:
      return "UNAVAILABLE";
    case absl::StatusCode::kDataLoss:
      return "DATA_LOSS";
    default:
      return "other";
  }
}

prometheus::MetricFamily GaugeFamily(const char* name, const char* help, double value) {
  prometheus::MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = prometheus::MetricType::Gauge;
  prometheus::ClientMetric metric;
  metric.gauge.value = value;
  family.metric.push_back(metric);
  return family;
}

// Gauges that are read when somebody asks.
class FarmCollectable : public prometheus::Collectable {
 public:
  void SetFarm(core::Farm* farm) {
    std::lock_guard<std::mutex> lock(mutex_);
    farm_ = farm;
  }

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (farm_ == nullptr) return {GaugeFamily("kiln_healthy", kHealthyHelp, 0)};
    const core::FarmGauges g = farm_->Gauges();
    const store::BlobUsage blobs = farm_->blobs()->Usage();
    const auto value = [](int64_t n) { return static_cast<double>(n); };
    return {
        GaugeFamily("kiln_healthy", kHealthyHelp, farm_->Health().ok() ? 1 : 0),
        GaugeFamily("kiln_active_sweeps", "Sweeps that are expanding or running.",
                    value(g.active_sweeps)),
        GaugeFamily("kiln_tasks_ready", "Tasks that wait for a worker (queue depth).",
                    value(g.ready_tasks)),
        GaugeFamily("kiln_tasks_leased", "Tasks that a worker holds.", value(g.leased_tasks)),
        GaugeFamily("kiln_misses", "Requests in the list of misses.", value(g.misses)),
        GaugeFamily("kiln_workers", "Workers that are attached.", value(g.workers)),
        GaugeFamily("kiln_loop_queued_events", "Events that wait for the core's loop.",
                    value(g.queued_events)),
        GaugeFamily("kiln_coordinator_term", "Term of this coordinator on its store.",
                    static_cast<double>(g.term)),
        GaugeFamily("kiln_blob_store_bytes", "Bytes of all stored blobs.", value(blobs.bytes)),
        GaugeFamily("kiln_blob_store_pinned_bytes", "Bytes of blobs that are never collected.",
                    value(blobs.pinned_bytes)),
        GaugeFamily("kiln_blob_store_blobs", "Number of stored blobs.", value(blobs.blobs)),
    };
  }

 private:
  static constexpr char kHealthyHelp[] = "1 while events are processed and the store takes writes.";
  mutable std::mutex mutex_;
  core::Farm* farm_ = nullptr;  // guarded by mutex_
};

class PrometheusMetrics : public Metrics {
 public:
  ~PrometheusMetrics() override { exposer_.reset(); }

  void OnObservation(const Observation& observation) override;
  void OnCommit(double seconds, int rows) override;
  void OnTurn(int events, double seconds) override;
  void SetFarm(core::Farm* farm) override { farm_->SetFarm(farm); }
  void OnRpc(absl::string_view method, absl::StatusCode code, double seconds) override;
  void OnBlobBytes(int64_t received, int64_t sent) override;
  void OnStream(absl::string_view method, int change) override;
  std::string Text() override;
  absl::StatusOr<int> Serve(const std::string& address) override;

 private:
  Family<Counter>& NewCounter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(*registry_);
  }
  Family<Histogram>& NewHistogram(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(*registry_);
  }

  const std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  const std::shared_ptr<FarmCollectable> farm_ = std::make_shared<FarmCollectable>();

  const Bounded<Counter> leases_{NewCounter("kiln_leases_total", "Leases granted, by task kind."),
                                 "kind", TaskKinds()};
  const Bounded<Histogram> queue_{
      NewHistogram("kiln_queue_seconds", "How long a task waited for its lease, by task kind."),
      "kind", TaskKinds(), LongBuckets()};
  const Bounded<Counter> tasks_{
      NewCounter("kiln_tasks_done_total", "Tasks that ended with a result, by task kind."), "kind",
      TaskKinds()};
  const Bounded<Histogram> task_seconds_{
      NewHistogram("kiln_task_seconds", "From a task's lease to its result, by task kind."), "kind",
      TaskKinds(), LongBuckets()};
  const Bounded<Histogram> stage_seconds_{
      NewHistogram("kiln_stage_seconds", "Time that a task spent on a worker, by stage."), "stage",
      SecondsStages(), LongBuckets()};
  const Bounded<Counter> device_seconds_{
      NewCounter("kiln_device_seconds_total",
                 "Time of measuring devices while a sweep ran that they worked for, by what they "
                 "did; a device counts once for each such sweep."),
      "part", DeviceParts()};
  const Bounded<Counter> failures_{
      NewCounter("kiln_candidate_failures_total", "Candidates that failed, by stage."), "stage",
      FailureStages()};
  Counter& expired_ =
      NewCounter("kiln_lease_expiries_total", "Leases that ran out or ended with their worker.")
          .Add({});
  Counter& stale_ =
      NewCounter("kiln_stale_completions_total", "Results under an old epoch, dropped.").Add({});
  Counter& released_ =
      NewCounter("kiln_task_releases_total", "Tasks that a worker gave back unrun.").Add({});
  Counter& reused_ =
      NewCounter("kiln_compile_reuses_total", "Candidates whose artifact was stored already.")
          .Add({});
  Counter& equal_ =
      NewCounter("kiln_equal_binaries_total", "Candidates that share another one's binary.")
          .Add({});
  const Bounded<Counter> lookups_{
      NewCounter("kiln_lookups_total", "Lookups of winners, by the level that matched, or miss."),
      "result", LookupResults()};
  Counter& misses_evicted_ =
      NewCounter("kiln_misses_evicted_total", "Misses dropped because the list of them was full.")
          .Add({});
  const Bounded<Counter> sweeps_{NewCounter("kiln_sweeps_total", "Sweeps that ended, by state."),
                                 "state", SweepStates()};
  const Bounded<Histogram> sweep_seconds_{
      NewHistogram("kiln_sweep_seconds", "From a sweep's start to its end, by state."), "state",
      SweepStates(), LongBuckets()};
  Histogram& commit_seconds_ =
      NewHistogram("kiln_store_commit_seconds", "One synced batch.").Add({}, ShortBuckets());
  Histogram& commit_rows_ =
      NewHistogram("kiln_store_commit_rows", "Rows in one batch.").Add({}, CountBuckets());
  Histogram& turn_seconds_ =
      NewHistogram("kiln_loop_turn_seconds", "One turn of the core's loop, its commit included.")
          .Add({}, ShortBuckets());
  Histogram& turn_events_ =
      NewHistogram("kiln_loop_turn_events", "Events in one turn.").Add({}, CountBuckets());
  Family<Counter>& rpcs_ =
      NewCounter("kiln_rpc_requests_total", "RPCs that ended, by method and code.");
  const Bounded<Histogram> rpc_seconds_{
      NewHistogram("kiln_rpc_seconds", "RPCs from start to end, by method; streams live long."),
      "method", Methods(), ShortBuckets()};
  const Bounded<prometheus::Gauge> streams_{
      prometheus::BuildGauge()
          .Name("kiln_rpc_streams")
          .Help("Streams that are open, by method.")
          .Register(*registry_),
      "method",
      {"WatchSweep", "FetchWinner", "Attach", "PutBlob", "GetBlob"}};
  Counter& received_ =
      NewCounter("kiln_blob_received_bytes_total", "Bytes of blobs that came in.").Add({});
  Counter& sent_ =
      NewCounter("kiln_blob_sent_bytes_total", "Bytes of blobs that went out.").Add({});

  std::unique_ptr<prometheus::Exposer> exposer_;
};

void PrometheusMetrics::OnObservation(const Observation& o) {
  switch (o.kind) {
    case Observation::Kind::kLease:
      leases_[o.label].Increment();
      queue_[o.label].Observe(o.value);
      return;
    case Observation::Kind::kTaskDone:
      tasks_[o.label].Increment();
      task_seconds_[o.label].Observe(o.value);
      return;
    case Observation::Kind::kLeaseExpired:
      expired_.Increment();
      return;
    case Observation::Kind::kStaleResult:
      stale_.Increment();
      return;
    case Observation::Kind::kCandidateFailed:
      failures_[o.label].Increment();
      return;
    case Observation::Kind::kStageSeconds:
      stage_seconds_[o.label].Observe(o.value);
      return;
    case Observation::Kind::kDeviceSeconds:
      device_seconds_[o.label].Increment(o.value);
      return;
    case Observation::Kind::kSweepDone:
      sweeps_[o.label].Increment();
      sweep_seconds_[o.label].Observe(o.value);
      return;
    case Observation::Kind::kCompileReused:
      reused_.Increment();
      return;
    case Observation::Kind::kEqualBinary:
      equal_.Increment();
      return;
    case Observation::Kind::kReleased:
      released_.Increment();
      return;
    case Observation::Kind::kLookup:
      lookups_[o.label].Increment(o.value);
      return;
    case Observation::Kind::kMissEvicted:
      misses_evicted_.Increment(o.value);
      return;
  }
}

void PrometheusMetrics::OnCommit(double seconds, int rows) {
  commit_seconds_.Observe(seconds);
  commit_rows_.Observe(rows);
}

void PrometheusMetrics::OnTurn(int events, double seconds) {
  turn_seconds_.Observe(seconds);
  turn_events_.Observe(events);
}

void PrometheusMetrics::OnRpc(absl::string_view method, absl::StatusCode code, double seconds) {
  rpcs_.Add({{"method", std::string(method)}, {"code", CodeName(code)}}).Increment();
  rpc_seconds_[method].Observe(seconds);
}

void PrometheusMetrics::OnBlobBytes(int64_t received, int64_t sent) {
  if (received > 0) received_.Increment(static_cast<double>(received));
  if (sent > 0) sent_.Increment(static_cast<double>(sent));
}

void PrometheusMetrics::OnStream(absl::string_view method, int change) {
  streams_[method].Increment(change);
}

std::string PrometheusMetrics::Text() {
  std::vector<prometheus::MetricFamily> families = registry_->Collect();
  std::vector<prometheus::MetricFamily> gauges = farm_->Collect();
  std::move(gauges.begin(), gauges.end(), std::back_inserter(families));
  return prometheus::TextSerializer().Serialize(families);
}

absl::StatusOr<int> PrometheusMetrics::Serve(const std::string& address) {
  try {
    exposer_ = std::make_unique<prometheus::Exposer>(address, 1);
    exposer_->RegisterCollectable(registry_);
    exposer_->RegisterCollectable(farm_);
    const std::vector<int> ports = exposer_->GetListeningPorts();
    if (!ports.empty()) return ports.front();
  } catch (const std::exception& e) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot serve metrics on ", address, ": ", e.what(), "; is the port taken?"));
  }
  return absl::FailedPreconditionError(absl::StrCat("cannot serve metrics on ", address));
}

}  // namespace

std::unique_ptr<Metrics> Metrics::New() { return std::make_unique<PrometheusMetrics>(); }

}  // namespace kiln::rpc

#include "worker/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <exception>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "worker/blob_cache.h"

namespace kiln::worker {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;

// 1 ms to 1 h.
const Histogram::BucketBoundaries& SecondsBuckets() {
  static const Histogram::BucketBoundaries buckets{0.001, 0.003, 0.01, 0.03, 0.1, 0.3,  1,
                                                   3,     10,    30,   100,  300, 1000, 3600};
  return buckets;
}

std::string KindLabel(v1::TaskKind kind) {
  std::string name = v1::TaskKind_Name(kind);
  return absl::AsciiStrToLower(absl::StripPrefix(name, "TASK_"));
}

std::string OutcomeLabel(const v1::CandidateResult& result) {
  if (result.not_run()) return "not_run";
  if (!result.has_failure()) return "ok";
  return absl::AsciiStrToLower(v1::Failure::Stage_Name(result.failure().stage()));
}

}  // namespace

struct Metrics::Impl {
  std::shared_ptr<prometheus::Registry> registry = std::make_shared<prometheus::Registry>();
  std::unique_ptr<prometheus::Exposer> exposer;
  std::vector<std::string> names;  // of all families below
  Family<Counter>& started = Counters("tasks_started_total", "Tasks that a slot began, by kind.");
  Family<Counter>& finished =
      Counters("tasks_finished_total", "Tasks that ended here, by kind and by done or released.");
  Counter& acknowledged =
      Counters("tasks_acknowledged_total", "Results that the coordinator made durable.").Add({});
  Counter& stale =
      Counters("results_stale_total", "Results that came after their lease was over.").Add({});
  Counter& revoked = Counters("tasks_revoked_total", "Leases that were taken away.").Add({});
  Family<Counter>& candidates =
      Counters("candidates_total", "Candidates that ended, by kind and outcome.");
  Family<Counter>& child_deaths =
      Counters("child_deaths_total", "Child processes that died or were killed.");
  Counter& reconnects = Counters("reconnects_total", "Attachments after the first one.").Add({});
  Family<Histogram>& task_seconds =
      Histograms("task_seconds", "Seconds from a task's start to its end, by kind.");
  Family<Histogram>& step_seconds = Histograms("step_seconds", "Seconds of one step of a task.");
  Gauge& connected = Gauges("connected", "1 while attached to the coordinator.").Add({});
  Family<Gauge>& slots = Gauges("slots", "Slots, by kind.");
  Family<Gauge>& busy = Gauges("slots_busy", "Slots at work, by kind.");
  Gauge& unacknowledged =
      Gauges("results_unacknowledged", "Results that wait for their acknowledgement.").Add({});
  Gauge& cache_bytes = Gauges("blob_cache_bytes", "Bytes in the blob cache.").Add({});
  Gauge& cache_hits =
      Gauges("blob_cache_hits", "Blobs found in the cache since the start.").Add({});
  Gauge& cache_misses =
      Gauges("blob_cache_misses", "Blobs not found in the cache since the start.").Add({});
  Gauge& cache_corrupt =
      Gauges("blob_cache_corrupt", "Damaged files found in the cache since the start.").Add({});
  Gauge& fetched =
      Gauges("blob_fetched_bytes", "Bytes fetched from the coordinator since the start.").Add({});

  std::string Named(const std::string& name) {
    names.push_back("kiln_worker_" + name);
    return names.back();
  }
  Family<Counter>& Counters(const std::string& name, const std::string& help) {
    return prometheus::BuildCounter().Name(Named(name)).Help(help).Register(*registry);
  }
  Family<Gauge>& Gauges(const std::string& name, const std::string& help) {
    return prometheus::BuildGauge().Name(Named(name)).Help(help).Register(*registry);
  }
  Family<Histogram>& Histograms(const std::string& name, const std::string& help) {
    return prometheus::BuildHistogram().Name(Named(name)).Help(help).Register(*registry);
  }
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

absl::Status Metrics::Serve(const std::string& address) {
  try {
    impl_->exposer = std::make_unique<prometheus::Exposer>(address, 1);
    impl_->exposer->RegisterCollectable(impl_->registry);
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics on ", address, ": ", error.what()));
  }
  return absl::OkStatus();
}

const std::vector<std::string>& Metrics::Names() const { return impl_->names; }

std::string Metrics::Render() const {
  return prometheus::TextSerializer().Serialize(impl_->registry->Collect());
}

void Metrics::TaskStarted(v1::TaskKind kind) {
  impl_->started.Add({{"kind", KindLabel(kind)}}).Increment();
}

void Metrics::TaskFinished(v1::TaskKind kind, bool released, double seconds) {
  impl_->finished.Add({{"kind", KindLabel(kind)}, {"end", released ? "released" : "done"}})
      .Increment();
  impl_->task_seconds.Add({{"kind", KindLabel(kind)}}, SecondsBuckets()).Observe(seconds);
}

void Metrics::TaskAcknowledged(bool used) {
  (used ? impl_->acknowledged : impl_->stale).Increment();
}
void Metrics::TaskRevoked() { impl_->revoked.Increment(); }

void Metrics::CandidateFinished(v1::TaskKind kind, const v1::CandidateResult& result) {
  impl_->candidates.Add({{"kind", KindLabel(kind)}, {"outcome", OutcomeLabel(result)}}).Increment();
}

void Metrics::ObserveStep(const std::string& step, double seconds) {
  impl_->step_seconds.Add({{"step", step}}, SecondsBuckets()).Observe(seconds);
}

void Metrics::ChildDied(const std::string& child) {
  impl_->child_deaths.Add({{"child", child}}).Increment();
}

void Metrics::Connected(bool connected) { impl_->connected.Set(connected ? 1 : 0); }
void Metrics::Reconnected() { impl_->reconnects.Increment(); }

void Metrics::SetSlots(int compile, int profile) {
  impl_->slots.Add({{"kind", "compile"}}).Set(compile);
  impl_->slots.Add({{"kind", "profile"}}).Set(profile);
}

void Metrics::SetBusy(int compile, int profile) {
  impl_->busy.Add({{"kind", "compile"}}).Set(compile);
  impl_->busy.Add({{"kind", "profile"}}).Set(profile);
}

void Metrics::SetUnacknowledged(size_t results) {
  impl_->unacknowledged.Set(static_cast<double>(results));
}

void Metrics::SetCache(const BlobCacheStats& stats) {
  impl_->cache_bytes.Set(static_cast<double>(stats.bytes));
  impl_->cache_hits.Set(static_cast<double>(stats.hits));
  impl_->cache_misses.Set(static_cast<double>(stats.misses));
  impl_->cache_corrupt.Set(static_cast<double>(stats.corrupt));
  impl_->fetched.Set(static_cast<double>(stats.fetched_bytes));
}

}  // namespace kiln::worker

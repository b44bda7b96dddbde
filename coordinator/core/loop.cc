#include "coordinator/core/loop.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "coordinator/core/winner_key.h"

namespace kiln::core {
namespace {

constexpr double kTickSeconds = 0.1;
constexpr double kFirstRetrySeconds = 0.1;
constexpr double kMaxRetrySeconds = 2;

int Rows(const store::Batch& batch) {
  return static_cast<int>(batch.sweeps.size() + batch.statuses.size() + batch.candidates.size() +
                          batch.tasks.size() + batch.deleted_tasks.size() + batch.winners.size() +
                          batch.compiled.size() + batch.kills.size() + batch.deleted_kills.size() +
                          batch.workers.size() + batch.deleted_workers.size() +
                          batch.deleted_misses.size() + batch.misses.size() +
                          batch.miss_counts.size() + batch.deleted_winners.size());
}

}  // namespace

absl::Status Persist(const Effects& effects, uint64_t term, store::MetaStore* meta,
                     store::BlobStore* blobs) {
  for (const PutBlob& blob : effects.blobs) {
    KILN_RETURN_IF_ERROR(blobs->PutBytes(blob.bytes).status());
  }
  for (const PinEdit& pin : effects.pins) {
    const absl::Status status = blobs->Pin(pin.digest, pin.owner);
    if (!status.ok() && !absl::IsNotFound(status)) return status;
  }
  if (effects.batch.empty()) return absl::OkStatus();
  return meta->Commit(term, effects.batch);
}

void ReleasePins(const Effects& effects, store::BlobStore* blobs) {
  for (const v1::Winner& winner : effects.batch.winners) {
    blobs->UnpinOwner(absl::StrCat("winner:", RowNameOf(winner)), winner.artifact().digest())
        .IgnoreError();
  }
  for (const PinEdit& pin : effects.unpins) {
    if (pin.digest.empty()) {
      blobs->UnpinOwner(pin.owner, "").IgnoreError();
    } else {
      blobs->Unpin(pin.digest, pin.owner).IgnoreError();
    }
  }
}

void Loop::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Loop::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Loop::Post(Event event) {
  bool first = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return;
    first = queue_.empty();
    queue_.push_back(std::move(event));
  }
  if (first) wake_.notify_one();
}

absl::Status Loop::Health() const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_ && health_.ok()) return absl::UnavailableError("the coordinator is stopping");
  return health_;
}

int64_t Loop::queued() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(queue_.size());
}

void Loop::SetHealth(const absl::Status& status) {
  std::lock_guard<std::mutex> lock(mutex_);
  health_ = status;
}

bool Loop::PauseUnlessStopped(double seconds) {
  std::unique_lock<std::mutex> lock(mutex_);
  wake_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return stopping_; });
  return !stopping_;
}

void Loop::Run() {
  int64_t last_tick = 0;
  if (!Turn({Tick{}})) return;  // what a restart found may have work to hand out
  for (;;) {
    std::vector<Event> events;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait_for(lock, std::chrono::duration<double>(kTickSeconds),
                     [this] { return stopping_ || !queue_.empty(); });
      if (!stopping_) events.swap(queue_);
      if (stopping_) break;
    }
    const int64_t now = parts_.clock->Now().mono_ns;
    if (now - last_tick >= SecondsToNs(kTickSeconds)) {
      last_tick = now;
      events.push_back(Tick{});
    }
    if (!events.empty() && !Turn(std::move(events))) return;
  }
  Turn({Stopping{}});
}

// False when the loop has to end.
bool Loop::Turn(std::vector<Event> events) {
  const Time now = parts_.clock->Now();
  const int count = static_cast<int>(events.size());
  for (Event& event : events) parts_.core->Handle(std::move(event), now);
  Effects effects = parts_.core->EndTurn(now);
  if (!PersistWithRetry(&effects)) return false;
  std::vector<PinEdit> unpins = std::move(effects.unpins);
  Effects last;
  last.unpins = std::move(unpins);
  last.batch.winners = effects.batch.winners;
  parts_.outside->Deliver(std::move(effects));
  ReleasePins(last, parts_.blobs);
  parts_.outside->Turned(count, NsToSeconds(parts_.clock->Now().mono_ns - now.mono_ns),
                         parts_.core->Stats());
  return true;
}

// Nobody sees a turn that is not on disk. While the disk is full or broken the loop stands still;
// what it was asked meanwhile is answered by Health.
bool Loop::PersistWithRetry(Effects* effects) {
  double pause = kFirstRetrySeconds;
  for (bool failed = false;; failed = true) {
    const int64_t start = parts_.clock->Now().mono_ns;
    const absl::Status status = Persist(*effects, parts_.term, parts_.meta, parts_.blobs);
    if (status.ok()) {
      if (!effects->batch.empty()) {
        parts_.outside->Committed(NsToSeconds(parts_.clock->Now().mono_ns - start),
                                  Rows(effects->batch));
      }
      if (failed) spdlog::info("the store takes writes again");
      SetHealth(absl::OkStatus());
      return true;
    }
    if (absl::IsAborted(status)) {
      spdlog::critical("{}", std::string(status.message()));
      SetHealth(absl::UnavailableError(status.message()));
      parts_.outside->Fatal(status);
      return false;
    }
    const absl::Status health = absl::UnavailableError(
        absl::StrCat("the farm's store cannot be written: ", status.message()));
    SetHealth(health);
    spdlog::error("{}", std::string(health.message()));
    parts_.outside->RepliesFailed(std::exchange(effects->replies, {}), health);
    if (!PauseUnlessStopped(pause)) return false;
    pause = std::min(kMaxRetrySeconds, 2 * pause);
    parts_.meta->Recover().IgnoreError();
  }
}

}  // namespace kiln::core

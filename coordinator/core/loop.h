// The one thread that runs the core: takes events from any thread, gives them to the core in turns,
// makes each turn durable, and only then lets anybody see what came of it.
#ifndef KILN_COORDINATOR_CORE_LOOP_H_
#define KILN_COORDINATOR_CORE_LOOP_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "compiler/base/clock.h"
#include "coordinator/core/core.h"
#include "coordinator/core/events.h"
#include "coordinator/store/blob_store.h"
#include "coordinator/store/meta_store.h"

namespace kiln::core {

// The durable half of a turn: blobs, pins, then the batch, synced. Idempotent, so that a failed
// call may be repeated with the same effects.
absl::Status Persist(const Effects& effects, uint64_t term, store::MetaStore* meta,
                     store::BlobStore* blobs);
// The last part of a turn. Failures only leave bytes pinned, and are ignored.
void ReleasePins(const Effects& effects, store::BlobStore* blobs);

// Where a turn's visible effects go. Called on the loop thread.
class Outside {
 public:
  virtual ~Outside() = default;
  // Sends, replies, publishes, expansions and observations of a turn that is durable.
  virtual void Deliver(Effects effects) = 0;
  // The turn's batch could not be written (yet): its replies fail with `status`; the rest is
  // delivered when the write succeeds.
  virtual void RepliesFailed(std::vector<Reply> replies, const absl::Status& status) = 0;
  virtual void Committed(double seconds, int rows) = 0;
  virtual void Turned(int events, double seconds, const CoreStats& stats) = 0;
  // The store belongs to another coordinator now. Nothing is delivered any more.
  virtual void Fatal(const absl::Status& status) = 0;
};

class Loop {
 public:
  struct Parts {
    Core* core = nullptr;
    store::MetaStore* meta = nullptr;
    store::BlobStore* blobs = nullptr;
    const Clock* clock = nullptr;
    Outside* outside = nullptr;
    uint64_t term = 0;
  };

  explicit Loop(const Parts& parts) : parts_(parts) {}
  ~Loop() { Stop(); }

  void Start();
  // Ends after the turn under way; events that are still queued are dropped. Joins. Idempotent.
  void Stop();

  // Thread-safe, never blocks on the core. Events posted by one thread keep their order.
  void Post(Event event);

  // OK, or why nothing can be written at the moment. Thread-safe.
  absl::Status Health() const;
  int64_t queued() const;

 private:
  void Run();
  bool Turn(std::vector<Event> events);
  bool PersistWithRetry(Effects* effects);
  bool PauseUnlessStopped(double seconds);
  void SetHealth(const absl::Status& status);

  const Parts parts_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Event> queue_;
  bool stopping_ = false;
  absl::Status health_;
  std::thread thread_;
};

}  // namespace kiln::core

#endif  // KILN_COORDINATOR_CORE_LOOP_H_

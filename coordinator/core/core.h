// The coordinator's decisions, as a state machine: events in, effects out. It reads no clock, holds
// no lock, opens no socket and starts no thread, so a test can drive it through any history.
//
// Invariants (the tests hold it to them):
//  - A result is accepted at most once, and only under the newest epoch that was granted.
//  - What was acknowledged to a worker or answered to a client is in the batch of the same or an
//    earlier turn; a finished task is never leased again, over restarts too.
//  - Every sweep reaches exactly one terminal state, as long as workers come back.
//  - Given the same results, the winner is the same, whatever the order in which they came.
#ifndef KILN_COORDINATOR_CORE_CORE_H_
#define KILN_COORDINATOR_CORE_CORE_H_

#include <cstdint>
#include <memory>

#include "compiler/base/clock.h"
#include "coordinator/core/events.h"
#include "coordinator/core/options.h"
#include "coordinator/store/meta_store.h"

namespace kiln::core {

// Counts since the start, and gauges.
struct CoreStats {
  int64_t active_sweeps = 0;
  int64_t ready_tasks = 0;
  int64_t leased_tasks = 0;
  int64_t workers = 0;  // attached
  int64_t misses = 0;
  int64_t stale_results = 0;
  int64_t leases_granted = 0;
  int64_t tasks_done = 0;
};

// Not thread-safe: one owner calls it.
class Core {
 public:
  // `term` is the store's current term and `state` what it holds; lease epochs are above all that
  // any earlier term granted.
  Core(const Options& options, uint64_t term, store::FarmState state, Time now);
  ~Core();

  // Takes one event. Effects are collected until EndTurn.
  void Handle(Event event, Time now);

  // Moves every touched sweep on, hands out leases, and returns all effects since the last EndTurn.
  // They must be carried out in the order that Effects states, before the next event's are.
  Effects EndTurn(Time now);

  CoreStats Stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kiln::core

#endif  // KILN_COORDINATOR_CORE_CORE_H_

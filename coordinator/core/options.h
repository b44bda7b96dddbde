// The numbers by which the coordinator runs. Every default is meant for production.
#ifndef KILN_COORDINATOR_CORE_OPTIONS_H_
#define KILN_COORDINATOR_CORE_OPTIONS_H_

#include <cstdint>
#include <set>
#include <string>

namespace kiln::core {

struct Options {
  std::string coordinator_name = "kiln";

  // Workers.
  double heartbeat_seconds = 2;
  double lease_seconds = 4;     // two heartbeats: a dead worker's tasks are back after that
  double reattach_seconds = 4;  // after a restart: how long unfinished tasks wait for their workers
  std::set<std::string> targets;    // that exist; empty = any name may. A worker may know others
  double arch_wait_seconds = 30;    // a sweep for a target that no worker has reported yet waits
  double build_wait_seconds = 120;  // a sweep whose compiler build has left the farm waits
  int compile_queue_per_slot = 2;   // tasks leased for each compile slot, the running one included
  int profile_queue_per_slot = 2;
  int empty_queue_per_slot = 16;
  // A device that changes to another sweep makes that one's inputs and references: while one has
  // work, its worker measures for it so long before another of equal priority has its turn.
  double stay_seconds = 2;

  // Tasks.
  int compile_batch = 4;  // candidates in one task, at most
  int screen_batch = 4;
  int max_task_losses = 3;  // leases of one single-candidate task that may end with the worker
  int max_releases = 20;
  double release_backoff_seconds = 0.25;  // doubles each time, at most 10 s
  double compile_limit_seconds = 120;     // per candidate
  double profile_limit_seconds = 120;     // per candidate
  int screen_samples = 5;
  int max_finalists = 8;

  // Admission.
  int max_active_sweeps = 2000;
  int max_active_sweeps_per_user = 500;
  int max_pending_submits = 256;
  int max_candidates = 200'000;  // listed for one sweep
  int64_t max_empty_tasks = 100'000'000;

  // Lookups that found nothing. Over a limit the rarest goes, of equals the one that is longest
  // ago.
  int max_misses = 4096;                       // distinct requests
  int64_t max_miss_bytes = int64_t{32} << 20;  // of all their specs, the kernels' texts included
  // Counts wait in memory for so many misses or so long: a crash loses no more than that.
  int miss_flush_count = 64;
  double miss_flush_seconds = 1;
};

}  // namespace kiln::core

#endif  // KILN_COORDINATOR_CORE_OPTIONS_H_

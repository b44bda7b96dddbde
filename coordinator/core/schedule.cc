// Who gets the next lease: fair between users, then between the sweeps of a user, with priority and
// ageing; workers with the most free slots first.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/core/core_impl.h"

namespace kiln::core {
namespace {

// A sweep that waits doubles its claim every ten seconds, so that no priority starves it for ever.
constexpr double kAgePointsPerSecond = 10;
constexpr double kMaxAgePoints = 400;
constexpr double kPointsPerDoubling = 100;
constexpr int kEmptyChunk = 32;

double AgePoints(int64_t waited_ns) {
  return std::min(kMaxAgePoints, kAgePointsPerSecond * NsToSeconds(waited_ns));
}

// Smaller = sooner.
double Score(int running, double points) {
  return (running + 1) * std::exp2(-points / kPointsPerDoubling);
}

}  // namespace

// The next task of a queue for this worker: one whose candidates its devices measured last, or none
// did, where there is one, else one of another worker's. Ids of tasks that are gone or elsewhere
// are dropped.
Task* Core::Impl::PopReady(std::deque<std::string>* queue, int* count, const Worker& worker) {
  const std::string prefix = absl::StrCat(worker.name(), "/");
  Task* next = nullptr;
  size_t place = 0;
  for (size_t at = 0; at < queue->size();) {
    const auto found = tasks_.find((*queue)[at]);
    if (found == tasks_.end() || found->second->state != Task::State::kReady) {
      queue->erase(queue->begin() + static_cast<std::ptrdiff_t>(at));
      continue;
    }
    const std::string device = DeviceOf(*found->second);
    const bool own = device.empty() || absl::StartsWith(device, prefix);
    if (own || next == nullptr) {
      next = found->second.get();
      place = at;
    }
    if (own) break;
    ++at;
  }
  if (next == nullptr) return nullptr;
  queue->erase(queue->begin() + static_cast<std::ptrdiff_t>(place));
  --*count;
  return next;
}

// A task on its last chance goes to an idle worker and has it alone, so that if the worker dies
// there is one suspect. Where none is idle, one takes no new leases until it is.
void Core::Impl::ScheduleSuspects(Pool pool) {
  for (const auto& [digest, sweep] : sweeps_) {
    while (sweep->suspect_count[pool] > 0) {
      Worker* calmest = nullptr;
      for (const auto& [name, worker] : workers_) {
        if (Capacity(*worker, pool) == 0 || !Eligible(*worker, *sweep, pool)) continue;
        if (!HasRoom(*worker, *sweep, pool)) continue;
        if (calmest == nullptr || worker->leased.size() < calmest->leased.size()) {
          calmest = worker.get();
        }
      }
      if (calmest == nullptr) break;
      if (!calmest->leased.empty()) {
        calmest->reserved = true;
        break;
      }
      Task* task = PopReady(&sweep->suspects[pool], &sweep->suspect_count[pool], *calmest);
      if (task == nullptr) break;
      Lease(task, calmest);
    }
  }
}

// The sweep that the worker's devices are busy with, while it may keep them; else null.
Sweep* Core::Impl::SweepToStayWith(const Worker& worker, const std::vector<Sweep*>& able) const {
  if (NsToSeconds(now_.mono_ns - worker.measuring_since_ns) >= options_.stay_seconds) {
    return nullptr;
  }
  Sweep* same = nullptr;
  int32_t most = std::numeric_limits<int32_t>::min();
  for (Sweep* sweep : able) {
    most = std::max(most, sweep->row.spec().priority());
    if (sweep->digest() == worker.measuring) same = sweep;
  }
  return same != nullptr && same->row.spec().priority() == most ? same : nullptr;
}

// Where a device need not change, its sweep; else first the user with the smallest score, then that
// user's sweep with the smallest score, among those that the worker can serve.
Sweep* Core::Impl::PickSweep(Pool pool, const Worker& worker, const std::vector<Sweep*>& sweeps,
                             const std::map<std::string, int>& user_running) const {
  std::map<std::string, double> oldest;  // user -> age points of the longest waiting sweep
  std::vector<Sweep*> able;
  for (Sweep* sweep : sweeps) {
    if (sweep->ready_count[pool] == 0 || !Eligible(worker, *sweep, pool)) continue;
    if (!HasRoom(worker, *sweep, pool)) continue;
    able.push_back(sweep);
    double& age = oldest[sweep->user()];
    age = std::max(age, AgePoints(now_.mono_ns - sweep->last_lease_ns[pool]));
  }
  Sweep* const stay = pool == kProfilePool ? SweepToStayWith(worker, able) : nullptr;
  if (stay != nullptr) return stay;
  const std::string* user = nullptr;
  double best_user = 0;
  for (const auto& [name, age] : oldest) {
    auto running = user_running.find(name);
    const double score = Score(running == user_running.end() ? 0 : running->second, age);
    if (user != nullptr && score >= best_user) continue;
    user = &name;
    best_user = score;
  }
  Sweep* best = nullptr;
  double best_score = 0;
  for (Sweep* sweep : able) {
    if (sweep->user() != *user) continue;
    const double points =
        sweep->row.spec().priority() + AgePoints(now_.mono_ns - sweep->last_lease_ns[pool]);
    const double score = Score(sweep->running[pool], points);
    if (best != nullptr && score >= best_score) continue;
    best = sweep;
    best_score = score;
  }
  return best;
}

void Core::Impl::SchedulePool(Pool pool) {
  std::vector<Sweep*> sweeps;
  std::map<std::string, int> user_running;
  for (const auto& [digest, sweep] : sweeps_) {
    user_running[sweep->user()] += sweep->running[pool];
    if (sweep->ready_count[pool] > 0) sweeps.push_back(sweep.get());
  }
  if (sweeps.empty()) return;
  std::sort(sweeps.begin(), sweeps.end(), [](const Sweep* a, const Sweep* b) {
    return std::make_pair(a->row.submitted_unix_ms(), a->digest()) <
           std::make_pair(b->row.submitted_unix_ms(), b->digest());
  });
  std::vector<Worker*> free;
  for (const auto& [name, worker] : workers_) {
    if (Capacity(*worker, pool) > worker->busy[pool]) free.push_back(worker.get());
  }
  std::stable_sort(free.begin(), free.end(), [&](const Worker* a, const Worker* b) {
    return static_cast<double>(a->busy[pool]) / Capacity(*a, pool) <
           static_cast<double>(b->busy[pool]) / Capacity(*b, pool);
  });
  // One lease a worker a round, so that a few tasks spread over many workers.
  while (!free.empty()) {
    std::vector<Worker*> still_free;
    for (Worker* worker : free) {
      Sweep* sweep = PickSweep(pool, *worker, sweeps, user_running);
      if (sweep == nullptr) continue;
      int room = Capacity(*worker, pool) - worker->busy[pool];
      int chunk = pool == kEmptyPool ? std::min(room, kEmptyChunk) : 1;
      for (; chunk > 0; --chunk, --room) {
        Task* task = PopReady(&sweep->ready[pool], &sweep->ready_count[pool], *worker);
        if (task == nullptr) break;
        Lease(task, worker);
        ++user_running[sweep->user()];
      }
      if (pool == kProfilePool) MakeScreenTasks(sweep);  // so that it need not wait for a result
      if (room > 0) still_free.push_back(worker);
    }
    free = std::move(still_free);
  }
}

void Core::Impl::Schedule() {
  for (const auto& [name, worker] : workers_) worker->reserved = false;
  for (int pool = 0; pool < kPools; ++pool) ScheduleSuspects(static_cast<Pool>(pool));
  for (int pool = 0; pool < kPools; ++pool) SchedulePool(static_cast<Pool>(pool));
}

}  // namespace kiln::core

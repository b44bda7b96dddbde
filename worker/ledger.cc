#include "worker/ledger.h"

#include <algorithm>
#include <utility>

#include "compiler/base/status.h"

namespace kiln::worker {

bool IsCompileKind(v1::TaskKind kind) {
  return kind == v1::TASK_COMPILE || kind == v1::TASK_COMPILE_RAGGED ||
         kind == v1::TASK_COMPILE_PLAIN;
}

Ledger::Added Ledger::Add(const v1::Task& task) {
  auto found = held_.find(task.id());
  if (found != held_.end()) {
    HeldTask& held = *found->second;
    held.task.set_epoch(std::max(held.task.epoch(), task.epoch()));
    return Added::kKnown;
  }
  for (Waiting& waiting : results_) {
    if (waiting.result.task() != task.id()) continue;
    waiting.result.set_epoch(std::max(waiting.result.epoch(), task.epoch()));
    if (waiting.sent) ++unsent_;
    waiting.sent = false;
    return Added::kFinished;
  }
  auto held = std::make_shared<HeldTask>();
  held->task = task;
  held->results.resize(static_cast<size_t>(task.candidates_size()));
  held_[task.id()] = held;
  if (IsCompileKind(task.kind())) {
    compile_queue_.push_back(held);
  } else {
    profile_queue_.push_back(held);
  }
  if (task.kind() == v1::TASK_EMPTY) {
    for (std::optional<v1::CandidateResult>& result : held->results) result.emplace();
    held->next_candidate = held->results.size();
  }
  if (held->next_candidate == held->results.size()) {
    held->started = true;
    EndIfDone(held);
  }
  return Added::kNew;
}

std::optional<CompileItem> Ledger::NextCompile() {
  if (compile_queue_.empty()) return std::nullopt;
  HeldTaskPtr held = compile_queue_.front();
  CompileItem item{held, static_cast<int>(held->next_candidate++)};
  held->started = true;
  ++held->in_flight;
  if (held->next_candidate == held->results.size()) compile_queue_.pop_front();
  return item;
}

HeldTaskPtr Ledger::NextProfile(absl::string_view device,
                                const std::function<bool(const v1::Task& task)>& fits) {
  auto next = profile_queue_.end();
  for (auto at = profile_queue_.begin(); at != profile_queue_.end(); ++at) {
    const v1::Task& task = (*at)->task;
    if (fits && !fits(task)) continue;
    const bool own = task.device().empty() || task.device() == device;
    if (own || next == profile_queue_.end()) next = at;
    if (own) break;
  }
  if (next == profile_queue_.end()) return nullptr;
  HeldTaskPtr held = *next;
  profile_queue_.erase(next);
  held->started = true;
  held->in_flight = 1;
  return held;
}

bool Ledger::FinishCandidate(const CompileItem& item, v1::CandidateResult result) {
  HeldTask& held = *item.held;
  KILN_CHECK(held.in_flight > 0);
  --held.in_flight;
  held.results[static_cast<size_t>(item.index)] = std::move(result);
  return EndIfDone(item.held);
}

bool Ledger::ReturnCandidate(const CompileItem& item) {
  KILN_CHECK(item.held->in_flight > 0);
  --item.held->in_flight;
  return EndIfDone(item.held);
}

bool Ledger::FinishProfile(const HeldTaskPtr& held, std::vector<v1::CandidateResult> results) {
  KILN_CHECK(held->in_flight == 1);
  held->in_flight = 0;
  held->next_candidate = held->results.size();
  for (v1::CandidateResult& result : results) {
    for (int i = 0; i < held->task.candidates_size(); ++i) {
      std::optional<v1::CandidateResult>& slot = held->results[static_cast<size_t>(i)];
      if (held->task.candidates(i).config() != result.config() || slot.has_value()) continue;
      slot = std::move(result);
      break;
    }
  }
  return EndIfDone(held);
}

bool Ledger::Release(const HeldTaskPtr& held, absl::string_view reason) {
  if (held->dropped || held_.count(held->task.id()) == 0) return false;
  held->released = std::string(reason);
  held->next_candidate = held->results.size();
  RemoveFromQueues(held);
  return EndIfDone(held);
}

std::vector<HeldTaskPtr> Ledger::Revoke(absl::string_view task) {
  results_.remove_if([&](const Waiting& waiting) {
    bool same = waiting.result.task() == task;
    if (same && !waiting.sent) --unsent_;
    return same;
  });
  auto found = held_.find(task);
  if (found == held_.end()) return {};
  HeldTaskPtr held = found->second;
  held_.erase(found);
  RemoveFromQueues(held);
  held->dropped = true;
  if (held->in_flight == 0) return {};
  return {held};
}

bool Ledger::Acknowledge(absl::string_view task) {
  for (auto it = results_.begin(); it != results_.end(); ++it) {
    if (it->result.task() != task) continue;
    if (!it->sent) --unsent_;
    results_.erase(it);
    return true;
  }
  return false;
}

std::vector<v1::TaskResult> Ledger::TakeUnsent(size_t max_bytes) {
  std::vector<v1::TaskResult> batch;
  size_t bytes = 0;
  for (Waiting& waiting : results_) {
    if (waiting.sent) continue;
    size_t size = waiting.result.ByteSizeLong();
    if (!batch.empty() && bytes + size > max_bytes) break;
    bytes += size;
    waiting.sent = true;
    --unsent_;
    batch.push_back(waiting.result);
  }
  return batch;
}

void Ledger::MarkAllUnsent() {
  for (Waiting& waiting : results_) waiting.sent = false;
  unsent_ = results_.size();
}

std::vector<v1::RunningTask> Ledger::Held() const {
  std::vector<v1::RunningTask> held;
  for (const auto& [id, task] : held_) {
    v1::RunningTask& running = held.emplace_back();
    running.set_task(id);
    running.set_epoch(task->task.epoch());
  }
  return held;
}

std::vector<HeldTaskPtr> Ledger::HeldTasks() const {
  std::vector<HeldTaskPtr> tasks;
  for (const auto& [id, task] : held_) tasks.push_back(task);
  return tasks;
}

int Ledger::waiting_compile() const {
  size_t candidates = 0;
  for (const HeldTaskPtr& held : compile_queue_) {
    candidates += held->results.size() - held->next_candidate;
  }
  return static_cast<int>(candidates);
}

int Ledger::waiting_profile() const { return static_cast<int>(profile_queue_.size()); }

bool Ledger::EndIfDone(const HeldTaskPtr& held) {
  if (held->dropped || held->in_flight > 0) return false;
  if (held->next_candidate < held->results.size()) return false;
  auto found = held_.find(held->task.id());
  if (found == held_.end() || found->second != held) return false;

  Waiting& waiting = results_.emplace_back();
  ++unsent_;
  v1::TaskResult& result = waiting.result;
  result.set_task(held->task.id());
  result.set_epoch(held->task.epoch());
  bool some = std::any_of(held->results.begin(), held->results.end(),
                          [](const auto& candidate) { return candidate.has_value(); });
  // What did run counts; the rest is marked as not run.
  if (!some) result.set_released(held->released);
  if (some) result.set_unavailable(held->unavailable);
  for (const auto& [stage, seconds] : held->seconds) (*result.mutable_seconds())[stage] = seconds;
  result.set_device(held->device);
  result.set_began_ns(held->began_ns);
  result.set_ended_ns(held->ended_ns);
  for (size_t i = 0; i < held->results.size(); ++i) {
    v1::CandidateResult* candidate = result.add_candidates();
    if (held->results[i].has_value()) {
      *candidate = std::move(*held->results[i]);
    } else {
      candidate->set_not_run(true);
    }
    candidate->set_config(held->task.candidates(static_cast<int>(i)).config());
  }
  RemoveFromQueues(held);
  held_.erase(found);
  return true;
}

void Ledger::RemoveFromQueues(const HeldTaskPtr& held) {
  for (std::deque<HeldTaskPtr>* queue : {&compile_queue_, &profile_queue_}) {
    queue->erase(std::remove(queue->begin(), queue->end(), held), queue->end());
  }
}

}  // namespace kiln::worker

#include "worker/agent.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "worker/agent_slot.h"
#include "worker/elapsed.h"

namespace kiln::worker {
namespace {

// Well below the 4 MiB that the coordinator takes in one message.
constexpr size_t kBatchBytes = 1 << 20;
constexpr double kWelcomeSeconds = 15;  // a coordinator that takes longer is tried anew
constexpr double kGoodbyeSeconds = 1;
constexpr double kRejectedSeconds = 2;  // shortest pause after the coordinator said no

std::string MakeInstance() {
  std::random_device device;
  return absl::StrCat(::getpid(), "-", absl::Hex((uint64_t{device()} << 32) | device()));
}

std::chrono::nanoseconds Nanoseconds(double seconds) {
  return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

}  // namespace

Agent::Agent(AgentOptions options, Link* link, BlobCache* cache, Metrics* metrics,
             CompileFactory make_compile, ProfileFactory make_profile)
    : options_(std::move(options)),
      link_(link),
      cache_(cache),
      metrics_(metrics),
      make_compile_(std::move(make_compile)),
      make_profile_(std::move(make_profile)),
      instance_(MakeInstance()),
      heartbeat_seconds_(options_.heartbeat_seconds),
      random_(options_.seed != 0 ? options_.seed : std::random_device{}()) {}

Agent::~Agent() { StopSlots(); }

absl::Status Agent::Run() {
  absl::Status started = StartSlots();
  if (!started.ok()) {
    StopSlots();
    return started;
  }
  std::thread drain_watch([this] { DrainWatch(); });
  for (int attempt = 0;;) {
    auto begin = Clock::now();
    absl::Status status = Serve();
    bool was_welcome;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (finished_) break;
      was_welcome = std::exchange(welcomed_, false);
    }
    // A stream that lived makes the next attempt prompt; one that breaks at once does not.
    bool lived = was_welcome && Clock::now() - begin > std::chrono::seconds(1);
    attempt = lived ? 0 : attempt + 1;
    double pause = Backoff(attempt);
    if (absl::IsFailedPrecondition(status)) pause = std::max(pause, kRejectedSeconds);
    spdlog::warn("detached: {}; next attempt in {:.2f} s", std::string(status.message()), pause);
    Sleep(pause);
  }
  drain_watch.join();
  StopSlots();
  spdlog::info("drained");
  return absl::OkStatus();
}

absl::Status Agent::Serve() {
  std::unique_ptr<Stream> stream = link_->Attach();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (finished_) return absl::OkStatus();
    stream_ = stream.get();
    drain_said_ = false;
  }
  std::thread writer;
  absl::Status status;
  if (SendRegister(stream.get())) {
    writer = std::thread([this, &stream] { WriteLoop(stream.get()); });
    v1::CoordinatorMessage message;
    while (status.ok() && stream->Read(&message)) status = Handle(message);
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stream_ = nullptr;
    metrics_->Connected(false);
    outbox_.notify_all();
    changed_.notify_all();
  }
  stream->Cancel();
  if (writer.joinable()) writer.join();
  absl::Status finish = stream->Finish();
  if (!status.ok()) return status;
  return finish.ok() ? absl::UnavailableError("the coordinator ended the stream") : finish;
}

bool Agent::SendRegister(Stream* stream) {
  v1::WorkerMessage message;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    *message.mutable_register_() = registration_;
    for (v1::QuarantinedDevice& device : QuarantinedLocked()) {
      *message.mutable_register_()->add_quarantined() = std::move(device);
    }
    for (v1::RunningTask& running : ledger_.Held()) {
      *message.mutable_register_()->add_running() = std::move(running);
    }
    ledger_.MarkAllUnsent();
    for (v1::TaskResult& result : ledger_.TakeUnsent(kBatchBytes)) {
      *message.mutable_register_()->add_unacknowledged() = std::move(result);
    }
    message.mutable_register_()->set_sent_ns(SteadyNs());
  }
  return stream->Write(message);
}

void Agent::WriteLoop(Stream* stream) {
  std::unique_lock<std::mutex> lock(mutex_);
  outbox_.wait_for(lock, Nanoseconds(kWelcomeSeconds),
                   [&] { return welcomed_ || stream_ != stream; });
  Clock::time_point next_heartbeat = Clock::now();
  while (stream_ == stream && welcomed_) {
    v1::WorkerMessage message;
    if (finished_) {
      lock.unlock();
      stream->WritesDone();
      return;
    }
    if (draining_ && !drain_said_) {
      drain_said_ = true;
      changed_.notify_all();
      message.mutable_drain()->set_reason(drain_reason_);
    } else if (!health_said_) {
      // Before the results that go back because of it: else they come again.
      health_said_ = true;
      FillHeartbeatLocked(message.mutable_heartbeat());
    } else if (ledger_.has_unsent()) {
      for (v1::TaskResult& result : ledger_.TakeUnsent(kBatchBytes)) {
        *message.mutable_results()->add_results() = std::move(result);
      }
      message.mutable_results()->set_sent_ns(SteadyNs());
    } else if (Clock::now() >= next_heartbeat) {
      next_heartbeat = Clock::now() + Nanoseconds(heartbeat_seconds_);
      FillHeartbeatLocked(message.mutable_heartbeat());
      metrics_->SetCache(cache_->stats());
    } else {
      outbox_.wait_until(lock, next_heartbeat);
      continue;
    }
    lock.unlock();
    bool written = stream->Write(message);
    lock.lock();
    if (!written) break;
  }
  lock.unlock();
  stream->Cancel();
}

void Agent::FillHeartbeatLocked(v1::Heartbeat* heartbeat) {
  for (v1::RunningTask& running : ledger_.Held()) *heartbeat->add_running() = std::move(running);
  int free_compile = 0;
  int free_profile = 0;
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (slot->current != nullptr || !slot->quarantined.empty()) continue;
    ++(slot->is_compile ? free_compile : free_profile);
  }
  heartbeat->set_free_compile(std::max(0, free_compile - ledger_.waiting_compile()));
  heartbeat->set_free_profile(std::max(0, free_profile - ledger_.waiting_profile()));
  for (v1::QuarantinedDevice& device : QuarantinedLocked()) {
    *heartbeat->add_quarantined() = std::move(device);
  }
}

absl::Status Agent::Handle(const v1::CoordinatorMessage& message) {
  switch (message.update_case()) {
    case v1::CoordinatorMessage::kWelcome: {
      const v1::Welcome& welcome = message.welcome();
      {
        std::lock_guard<std::mutex> lock(mutex_);
        welcomed_ = true;
        heartbeat_seconds_ = options_.heartbeat_seconds;
        // Half the period that was asked for: one late heartbeat must not cost the leases.
        if (welcome.heartbeat_seconds() > 0) {
          heartbeat_seconds_ = std::min(heartbeat_seconds_, welcome.heartbeat_seconds() / 2);
        }
        metrics_->Connected(true);
        outbox_.notify_all();
        if (std::exchange(attached_once_, true)) metrics_->Reconnected();
      }
      spdlog::info("attached to coordinator={}", welcome.coordinator());
      for (const v1::RunningTask& drop : welcome.drop()) {
        OnDrop(drop.task(), "the coordinator does not know the lease");
      }
      return absl::OkStatus();
    }
    case v1::CoordinatorMessage::kLeases:
      OnLeases(message.leases());
      return absl::OkStatus();
    case v1::CoordinatorMessage::kAcknowledge: {
      std::lock_guard<std::mutex> lock(mutex_);
      const v1::Acknowledge& acknowledge = message.acknowledge();
      std::set<std::string> stale(acknowledge.stale().begin(), acknowledge.stale().end());
      for (const std::string& task : acknowledge.tasks()) {
        if (!ledger_.Acknowledge(task)) continue;
        bool used = stale.count(task) == 0;
        metrics_->TaskAcknowledged(used);
        spdlog::info("task {} id={}", used ? "acknowledged" : "was stale", task);
      }
      metrics_->SetUnacknowledged(ledger_.unacknowledged());
      changed_.notify_all();
      return absl::OkStatus();
    }
    case v1::CoordinatorMessage::kRevoke:
      for (const std::string& task : message.revoke().tasks()) {
        OnDrop(task, message.revoke().reason());
      }
      return absl::OkStatus();
    case v1::CoordinatorMessage::kReject:
      return absl::FailedPreconditionError(
          absl::StrCat("the coordinator refuses this worker: ", message.reject().reason()));
    case v1::CoordinatorMessage::UPDATE_NOT_SET:
      return absl::OkStatus();  // a newer coordinator's message
  }
  return absl::OkStatus();
}

void Agent::OnLeases(const v1::Leases& leases) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const v1::Task& task : leases.tasks()) {
    Ledger::Added added = ledger_.Add(task);
    if (added != Ledger::Added::kNew) {
      spdlog::info("task leased again id={} epoch={}", task.id(), task.epoch());
    }
  }
  if (draining_) ReleaseWaitingLocked(drain_reason_);
  work_.notify_all();
  outbox_.notify_all();
}

void Agent::OnDrop(const std::string& task, const std::string& why) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<HeldTaskPtr> running = ledger_.Revoke(task);
  metrics_->TaskRevoked();
  spdlog::info("task revoked id={} running={} reason={}", task, !running.empty(), why);
  for (const HeldTaskPtr& held : running) InterruptLocked(held);
  changed_.notify_all();
}

void Agent::InterruptLocked(const HeldTaskPtr& held) {
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (slot->current == held) slot->Interrupt();
  }
  changed_.notify_all();
}

void Agent::Drain(const std::string& reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (draining_) {
    drain_now_ = true;
  } else {
    spdlog::info("draining: {}", reason);
    draining_ = true;
    drain_reason_ = absl::StrCat("draining: ", reason);
    ReleaseWaitingLocked(drain_reason_);
  }
  changed_.notify_all();
  outbox_.notify_all();
  work_.notify_all();
}

// Candidates that no slot has begun go back; what runs, runs on.
void Agent::ReleaseWaitingLocked(const std::string& reason) {
  for (const HeldTaskPtr& held : ledger_.HeldTasks()) {
    bool whole = !IsCompileKind(held->task.kind()) && held->in_flight > 0;
    if (whole || !held->released.empty()) continue;
    bool waits = held->next_candidate < held->results.size();
    if (waits && ledger_.Release(held, reason)) {
      spdlog::info("task released id={} reason={}", held->task.id(), reason);
    }
  }
}

void Agent::DrainWatch() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return draining_; });
  Clock::time_point deadline = Clock::now() + Nanoseconds(options_.drain_seconds);
  auto idle = [this] { return ledger_.idle(); };
  changed_.wait_until(lock, deadline, [&] { return idle() || drain_now_; });
  if (!idle()) {
    drain_now_ = true;
    for (const HeldTaskPtr& held : ledger_.HeldTasks()) InterruptLocked(held);
    changed_.wait_for(lock, Nanoseconds(options_.acknowledge_seconds), idle);
  }
  deadline = Clock::now() + Nanoseconds(options_.acknowledge_seconds);
  changed_.wait_until(lock, deadline, [this] { return ledger_.unacknowledged() == 0; });
  if (ledger_.unacknowledged() > 0) {
    spdlog::warn("{} results were not acknowledged", ledger_.unacknowledged());
  }
  changed_.wait_for(lock, Nanoseconds(kGoodbyeSeconds),
                    [this] { return drain_said_ || !welcomed_; });
  finished_ = true;
  changed_.notify_all();
  outbox_.notify_all();
  // The writer says that no more will come; the coordinator should then end the stream.
  changed_.wait_for(lock, Nanoseconds(kGoodbyeSeconds), [this] { return stream_ == nullptr; });
  if (stream_ != nullptr) stream_->Cancel();
}

void Agent::Sleep(double seconds) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, Nanoseconds(seconds), [this] { return finished_; });
}

double Agent::Backoff(int attempt) {
  std::lock_guard<std::mutex> lock(mutex_);
  double ceiling = options_.backoff_min_seconds * static_cast<double>(1 << std::min(attempt, 16));
  ceiling = std::min(ceiling, options_.backoff_max_seconds);
  std::uniform_real_distribution<double> jitter(options_.backoff_min_seconds,
                                                std::max(ceiling, options_.backoff_min_seconds));
  return jitter(random_);
}

}  // namespace kiln::worker

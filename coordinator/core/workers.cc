// Workers: their streams, what they can do, and what they hold.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/core/core_impl.h"
#include "coordinator/core/identity.h"
#include "coordinator/core/text.h"

namespace kiln::core {
namespace {

constexpr int kProtocol = 1;
constexpr int kMaxSlots = 4096;
constexpr size_t kMaxName = 256;
constexpr double kForgetSeconds = 300;  // a worker that stays away is no longer listed
constexpr int kMaxNotes = 5;
constexpr size_t kMaxReason = 500;

bool SameModel(const v1::ArchRecord& a, const v1::ArchRecord& b) {
  return a.name() == b.name() && a.device_model() == b.device_model();
}

// The worker's record of the model; null: it has none, or cannot measure now.
const v1::ArchRecord* FindDevice(const Worker& worker, const v1::ArchRecord& arch) {
  if (worker.connection == 0 || worker.profile_slots(arch) == 0) return nullptr;
  for (const v1::ArchRecord& own : worker.info.archs()) {
    if (SameModel(own, arch)) return &own;
  }
  return nullptr;
}

}  // namespace

int Worker::profile_slots(const v1::ArchRecord& arch) const {
  if (info.slots().empty()) {
    const bool has = std::any_of(info.archs().begin(), info.archs().end(),
                                 [&](const auto& own) { return SameModel(own, arch); });
    return has ? profile_slots() : 0;
  }
  return static_cast<int>(
      std::count_if(info.slots().begin(), info.slots().end(), [&](const v1::ProfileSlot& slot) {
        return SameModel(slot.arch(), arch) &&
               std::none_of(info.quarantined().begin(), info.quarantined().end(),
                            [&](const auto& out) { return out.device() == slot.device(); });
      }));
}

bool Worker::measures(const std::string& device, const v1::ArchRecord& arch) const {
  const auto slot = std::find_if(info.slots().begin(), info.slots().end(), [&](const auto& own) {
    return absl::StrCat(name(), "/", own.device()) == device;
  });
  return slot == info.slots().end() || SameModel(slot->arch(), arch);
}

int Worker::measuring_on(const v1::ArchRecord& arch) const {
  return static_cast<int>(std::count_if(leased.begin(), leased.end(), [&](const Task* task) {
    return task->pool() == kProfilePool && SameModel(task->sweep->row.arch(), arch);
  }));
}

void Core::Impl::On(WorkerAttached& event) { connections_.emplace(event.connection, nullptr); }

void Core::Impl::Reject(ConnectionId connection, const std::string& reason) {
  v1::CoordinatorMessage message;
  message.mutable_reject()->set_reason(reason);
  out_.sends.push_back({connection, std::move(message), true});
  connections_.erase(connection);
}

void Core::Impl::On(WorkerSaid& event) {
  auto it = connections_.find(event.connection);
  if (it == connections_.end()) return;  // already closed
  Worker* worker = it->second;
  v1::WorkerMessage& message = event.message;
  absent_ = std::move(event.absent);
  if (message.has_register_()) {
    if (worker != nullptr) return Reject(event.connection, "Register comes once, first");
    return Register(event.connection, *message.mutable_register_());
  }
  if (worker == nullptr) {
    return Reject(event.connection, "the first message of a stream must be Register");
  }
  worker->last_seen_ns = now_.mono_ns;
  if (worker->lost) BackLanes(worker);
  if (message.has_heartbeat()) {
    Heartbeat(worker, message.heartbeat());
  } else if (message.has_results()) {
    for (v1::TaskResult& result : *message.mutable_results()->mutable_results()) {
      TakeResult(worker, result, message.results().sent_ns());
    }
  } else if (message.has_drain()) {
    worker->draining = true;
  }
}

void Core::Impl::On(WorkerDetached& event) {
  auto it = connections_.find(event.connection);
  if (it == connections_.end()) return;
  Worker* worker = it->second;
  connections_.erase(it);
  if (worker == nullptr) return;
  worker->connection = 0;
  // A worker that said goodbye and holds nothing is gone for good.
  if (worker->draining && worker->leased.empty()) ForgetWorker(worker);
}

absl::Status Core::Impl::CheckRegister(const v1::Register& message) const {
  if (message.protocol() != kProtocol) {
    return absl::InvalidArgumentError(absl::StrCat("this coordinator speaks protocol ", kProtocol,
                                                   ", the worker ", message.protocol(),
                                                   "; run the same release on both"));
  }
  if (message.worker().empty() || message.worker().size() > kMaxName ||
      absl::StrContains(message.worker(), "/")) {
    return absl::InvalidArgumentError("a worker needs a name without '/', at most 256 bytes");
  }
  if (message.compile_slots() < 0 || message.compile_slots() > kMaxSlots ||
      message.profile_slots() < 0 || message.profile_slots() > kMaxSlots) {
    return absl::InvalidArgumentError(absl::StrCat("slots must be 0 to ", kMaxSlots));
  }
  if (message.compile_slots() + message.profile_slots() == 0) {
    return absl::InvalidArgumentError("a worker needs at least one slot");
  }
  return absl::OkStatus();
}

void Core::Impl::Register(ConnectionId connection, v1::Register& message) {
  const absl::Status valid = CheckRegister(message);
  if (!valid.ok()) return Reject(connection, std::string(valid.message()));
  std::unique_ptr<Worker>& slot = workers_[message.worker()];
  if (slot == nullptr) {
    slot = std::make_unique<Worker>();
    slot->attached_ns = now_.mono_ns;
  }
  Worker* worker = slot.get();
  if (worker->connection != 0) Reject(worker->connection, "replaced by a newer stream");
  if (worker->info.instance() != message.instance()) {
    // Another process: what the old one held is lost.
    LoseWorker(worker, absl::StrCat(message.worker(), " was started again"));
  }
  v1::WorkerRow row;
  row.set_name(message.worker());
  row.set_instance(message.instance());
  row.set_attached_unix_ms(now_.wall_ms);
  out_.batch.workers.push_back(std::move(row));
  for (const v1::ArchRecord& arch : message.archs()) RememberArch(arch);
  worker->info = message;
  worker->info.clear_running();
  worker->info.clear_unacknowledged();
  worker->connection = connection;
  worker->last_seen_ns = now_.mono_ns;
  worker->draining = false;
  BackLanes(worker);
  connections_[connection] = worker;
  const size_t index = out_.sends.size();
  out_.sends.push_back({connection, {}, false});
  v1::Welcome welcome;
  welcome.set_heartbeat_seconds(options_.heartbeat_seconds);
  welcome.set_coordinator(options_.coordinator_name);
  for (v1::TaskResult& result : *message.mutable_unacknowledged()) {
    TakeResult(worker, result, message.sent_ns());
  }
  Adopt(worker, message, &welcome);
  *out_.sends[index].message.mutable_welcome() = std::move(welcome);
  expected_workers_.erase(message.worker());
  if (expected_workers_.empty() && held_until_ns_ != 0) ReleaseHeld();
  for (const auto& [digest, sweep] : sweeps_) MarkDirty(sweep.get());
  RetryArchWaits();
}

void Core::Impl::RememberArch(const v1::ArchRecord& arch) {
  auto known = std::find_if(known_archs_.begin(), known_archs_.end(), [&](const v1::ArchRow& row) {
    return row.arch().name() == arch.name() && row.arch().device_model() == arch.device_model();
  });
  if (known == known_archs_.end()) known = known_archs_.emplace(known_archs_.end());
  *known->mutable_arch() = arch;
  known->set_seen_unix_ms(now_.wall_ms);
  out_.batch.archs.push_back(*known);
}

// What the worker says that it runs stays with it if nothing newer was granted. What it was leased
// but does not name never reached it.
void Core::Impl::Adopt(Worker* worker, const v1::Register& message, v1::Welcome* welcome) {
  std::unordered_set<Task*> named;
  for (const v1::RunningTask& running : message.running()) {
    auto it = tasks_.find(running.task());
    Task* task = it == tasks_.end() ? nullptr : it->second.get();
    if (task == nullptr || !Accepts(*task, *worker, running.epoch())) {
      *welcome->add_drop() = running;
      continue;
    }
    named.insert(task);
    if (task->state != Task::State::kLeased) {
      Unlease(task);
      task->state = Task::State::kLeased;
      task->epoch = running.epoch();
      task->worker = worker;
      task->leased_ns = now_.mono_ns;
      task->hard_deadline_ns =
          now_.mono_ns + SecondsToNs(2 * TaskMessage(*task, *worker).limit_seconds() + 60);
      worker->leased.insert(task);
      ++worker->busy[task->pool()];
      worker->exclusive |= task->suspect;
      ++task->sweep->running[task->pool()];
      task->sweep->idle_since_ns = 0;
      ++stats_.leased_tasks;
      const v1::CandidateState state = task->pool() == kCompilePool ? v1::COMPILING : v1::PROFILING;
      for (int ordinal : task->row.ordinals()) SetState(task->sweep, ordinal, state);
    }
    task->deadline_ns = now_.mono_ns + SecondsToNs(options_.lease_seconds);
  }
  std::vector<Task*> never_arrived;
  for (Task* task : worker->leased) {
    if (named.count(task) == 0) never_arrived.push_back(task);
  }
  std::sort(never_arrived.begin(), never_arrived.end(),
            [](const Task* a, const Task* b) { return a->epoch > b->epoch; });
  for (Task* task : never_arrived) {
    Unlease(task);
    for (int ordinal : task->row.ordinals()) IndexCandidate(task->sweep, ordinal);
    MakeReady(task, true);
  }
}

void Core::Impl::Heartbeat(Worker* worker, const v1::Heartbeat& message) {
  const bool other = worker->info.quarantined_size() != message.quarantined_size();
  *worker->info.mutable_quarantined() = message.quarantined();
  if (other) BackLanes(worker);
  const int64_t deadline = now_.mono_ns + SecondsToNs(options_.lease_seconds);
  for (const v1::RunningTask& running : message.running()) {
    auto it = tasks_.find(running.task());
    const bool valid = it != tasks_.end() && it->second->state == Task::State::kLeased &&
                       it->second->worker == worker && it->second->epoch == running.epoch();
    if (valid) {
      it->second->deadline_ns = deadline;
    } else {
      v1::Revoke* revoke = MessageTo(worker, v1::CoordinatorMessage::kRevoke)->mutable_revoke();
      revoke->add_tasks(running.task());
      revoke->set_reason("the lease is over");
    }
  }
}

void Core::Impl::ForgetWorker(Worker* worker) {
  out_.batch.deleted_workers.push_back(worker->name());
  expected_workers_.erase(worker->name());
  workers_.erase(worker->name());
}

void Core::Impl::ForgetLostWorkers() {
  std::vector<Worker*> lost;
  for (const auto& [name, worker] : workers_) {
    const bool away = now_.mono_ns - worker->last_seen_ns > SecondsToNs(kForgetSeconds);
    if (worker->connection == 0 && worker->leased.empty() && (away || worker->draining)) {
      lost.push_back(worker.get());
    }
  }
  for (Worker* worker : lost) ForgetWorker(worker);
}

void Core::Impl::On(Tick&) {
  ExpireLeases();
  WakeBackoffs();
  ExpireArchWaits();
  ForgetLostWorkers();
  if (held_until_ns_ != 0 && now_.mono_ns >= held_until_ns_) {
    for (const std::string& name : expected_workers_) out_.batch.deleted_workers.push_back(name);
    expected_workers_.clear();
    ReleaseHeld();
  }
  for (const auto& [digest, sweep] : sweeps_) {
    CheckBuildGone(sweep.get());
    const v1::SweepSpec& spec = sweep->row.spec();
    if (spec.max_seconds() > 0 || spec.deadline_seconds() > 0 || spec.has_range()) {
      MarkDirty(sweep.get());
    }
  }
}

void Core::Impl::On(Stopping&) { misses_.Flush(&out_.batch); }

// The message of this kind that goes to the worker's stream in this turn.
v1::CoordinatorMessage* Core::Impl::MessageTo(Worker* worker, int kind) {
  auto& open = kind == v1::CoordinatorMessage::kLeases        ? lease_message_
               : kind == v1::CoordinatorMessage::kAcknowledge ? ack_message_
                                                              : revoke_message_;
  auto [it, fresh] = open.try_emplace(worker->connection, out_.sends.size());
  if (fresh) out_.sends.push_back({worker->connection, {}, false});
  return &out_.sends[it->second].message;
}

bool Core::Impl::Alive(const Worker& worker) const {
  return worker.connection != 0 &&
         now_.mono_ns - worker.last_seen_ns <= SecondsToNs(options_.lease_seconds);
}

bool Core::Impl::CanCompile(const Worker& worker, const std::string& arch) const {
  if (worker.connection == 0 || worker.info.compile_slots() == 0) return false;
  return std::any_of(worker.info.compile_targets().begin(), worker.info.compile_targets().end(),
                     [&](const std::string& family) { return absl::StartsWith(arch, family); });
}

// On a device of the model, and of its class (winner_key.h) as long as somebody has one.
bool Core::Impl::CanProfile(const Worker& worker, const v1::ArchRecord& arch) const {
  const v1::ArchRecord* own = FindDevice(worker, arch);
  if (own == nullptr || SameClass(*own, arch)) return own != nullptr;
  return std::none_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
    const v1::ArchRecord* other = FindDevice(*entry.second, arch);
    return other != nullptr && SameClass(*other, arch);
  });
}

bool Core::Impl::Eligible(const Worker& worker, const Sweep& sweep, Pool pool) const {
  if (pool == kEmptyPool) return true;
  if (worker.info.compiler_build() != sweep.status.compiler_build()) return false;
  if (pool == kProfilePool) return CanProfile(worker, sweep.row.arch());
  return worker.info.assembler() == sweep.status.assembler() &&
         CanCompile(worker, sweep.row.arch().name());
}

int Core::Impl::Capacity(const Worker& worker, Pool pool) const {
  if (!Alive(worker) || worker.draining || worker.exclusive || worker.reserved) return 0;
  switch (pool) {
    case kCompilePool:
      return worker.info.compile_slots() * options_.compile_queue_per_slot;
    case kProfilePool:
      // Of several kinds each has its own bound, too (HasRoom).
      return (worker.info.slots().empty() ? worker.profile_slots() : worker.info.profile_slots()) *
             options_.profile_queue_per_slot;
    default:
      return (worker.info.compile_slots() + worker.info.profile_slots()) *
             options_.empty_queue_per_slot;
  }
}

// Where its devices are of several kinds, those of the sweep's must have room themselves.
bool Core::Impl::HasRoom(const Worker& worker, const Sweep& sweep, Pool pool) const {
  if (pool != kProfilePool || worker.info.slots().empty()) return true;
  const v1::ArchRecord& arch = sweep.row.arch();
  return worker.measuring_on(arch) < worker.profile_slots(arch) * options_.profile_queue_per_slot;
}

// Slots of a kind that are attached now, at least 1.
int Core::Impl::Slots(Pool pool) const {
  int slots = 0;
  for (const auto& [name, worker] : workers_) {
    if (worker->connection == 0 || worker->draining) continue;
    slots += pool == kCompilePool ? worker->info.compile_slots() : worker->profile_slots();
  }
  return std::max(1, slots);
}

v1::WorkerInfo Core::Impl::Describe(const Worker& worker) const {
  v1::WorkerInfo out;
  out.set_name(worker.name());
  out.set_compile_slots(worker.info.compile_slots());
  out.set_profile_slots(worker.info.profile_slots());
  out.set_busy_compile(std::min(worker.info.compile_slots(), worker.busy[kCompilePool]));
  out.set_busy_profile(std::min(worker.info.profile_slots(), worker.busy[kProfilePool]));
  *out.mutable_archs() = worker.info.archs();
  out.set_compiler_build(worker.info.compiler_build());
  out.set_assembler(worker.info.assembler());
  out.set_seconds_since_heartbeat(NsToSeconds(now_.mono_ns - worker.last_seen_ns));
  int refused = 0;
  int served = 0;
  for (const auto& [digest, sweep] : sweeps_) {
    if (IsEmptySweep(sweep->row.spec()) || sweep->status.compiler_build().empty()) continue;
    if (worker.info.compiler_build() == sweep->status.compiler_build()) {
      ++served;
    } else if (++refused <= kMaxNotes) {
      out.add_notes(absl::StrCat(
          "no leases from sweep ", digest.substr(0, 12), ": it is pinned to ", "compiler build ",
          sweep->status.compiler_build(), ", this worker has ", worker.info.compiler_build()));
    }
  }
  for (const v1::QuarantinedDevice& device : worker.info.quarantined()) {
    out.add_notes(absl::StrCat(device.device(),
                               " is quarantined: ", Cut(device.reason(), kMaxReason),
                               "; it gets no leases until the worker is started again"));
  }
  for (int i = 0; i < std::min(kMaxNotes, worker.info.notes_size()); ++i) {
    out.add_notes(Cut(worker.info.notes(i), kMaxReason));
  }
  if (worker.connection == 0) {
    out.set_state("lost");
    out.add_notes("the stream is closed");
  } else if (!Alive(worker)) {
    out.set_state("lost");
    out.add_notes("no heartbeat: gets no leases until the next one");
  } else if (worker.draining) {
    out.set_state("draining");
    out.add_notes("gets no new leases");
  } else if (refused > 0 && served == 0) {
    out.set_state("incompatible: compiler build " + worker.info.compiler_build());
  } else if (worker.info.profile_slots() > 0 && worker.profile_slots() == 0) {
    out.set_state("quarantined");
  } else {
    out.set_state("ready");
  }
  return out;
}

}  // namespace kiln::core

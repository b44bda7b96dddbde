// The slots' half of the agent: take work from the ledger, run it in the executor, hand the result
// back to the ledger.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/config.h"
#include "compiler/base/status.h"
#include "worker/agent.h"
#include "worker/agent_slot.h"
#include "worker/elapsed.h"

namespace kiln::worker {
namespace {

constexpr int kProtocolVersion = 1;
constexpr size_t kInputsKept = 64;
constexpr auto kTendPeriod = std::chrono::milliseconds(500);
constexpr double kBrokenChildPause = 1.0;  // so that a child that does not start cannot spin

// A coordinator that stops cuts calls off with CANCELLED; what this side gives up, it knows itself.
bool IsTransient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsAborted(status) || absl::IsUnknown(status) || absl::IsCancelled(status);
}

// The store does not have the blob, or has other bytes under its name: the coordinator can make it
// again when the task comes back with these words and the digest.
absl::Status Lost(const absl::Status& status, const std::string& digest) {
  if (!absl::IsNotFound(status) && !absl::IsDataLoss(status)) return status;
  return absl::Status(status.code(),
                      absl::StrCat("lost inputs: blob ", digest, ": ", status.message()));
}

// The inputs that a task of this kind works with.
v1::SweepInputs InputsFor(v1::TaskKind kind, const v1::SweepInputs& inputs) {
  v1::SweepInputs own = inputs;
  if (kind != v1::TASK_COMPILE_RAGGED && kind != v1::TASK_CHECK_RAGGED) return own;
  for (const auto& [name, size] : inputs.ragged()) {
    const bool compiled_in = inputs.arguments().count(name) > 0;
    (*(compiled_in ? own.mutable_arguments() : own.mutable_runtime_values()))[name] = size;
  }
  return own;
}

// What the compiler is given for a candidate. What is no config is the compiler's to refuse.
std::string ConfigFor(v1::TaskKind kind, const std::string& config) {
  absl::StatusOr<Config> parsed = Config::Parse(config);
  if (kind != v1::TASK_COMPILE_PLAIN || !parsed.ok()) return config;
  parsed->Set("kiln.plain", "1");
  return parsed->ToString();
}

}  // namespace

absl::Status Agent::StartSlots() {
  metrics_->SetSlots(options_.compile_slots, options_.profile_slots);
  std::unique_lock<std::mutex> lock(mutex_);
  for (int i = 0; i < options_.compile_slots + options_.profile_slots; ++i) {
    auto slot = std::make_unique<Slot>();
    slot->is_compile = i < options_.compile_slots;
    slot->index = slot->is_compile ? i : i - options_.compile_slots;
    slots_.push_back(std::move(slot));
  }
  for (const std::unique_ptr<Slot>& slot : slots_) {
    Slot* raw = slot.get();
    slot->thread =
        std::thread([this, raw] { raw->is_compile ? CompileLoop(raw) : ProfileLoop(raw); });
  }
  v1::Register fixed;
  fixed.set_worker(options_.name);
  fixed.set_instance(instance_);
  fixed.set_compile_slots(options_.compile_slots);
  fixed.set_profile_slots(options_.profile_slots);
  fixed.set_protocol(kProtocolVersion);
  for (const std::unique_ptr<Slot>& slot : slots_) {
    const bool kind_unknown = options_.mixed_devices && !slot->is_compile;
    if (slot->index != 0 && !kind_unknown) continue;
    changed_.wait(lock, [&] { return slot->ready; });
    if (slot->index != 0) continue;
    KILN_RETURN_IF_ERROR(slot->start_status);
    if (slot->is_compile) {
      fixed.set_compiler_build(slot->hello.compiler_build());
      fixed.set_assembler(slot->hello.assembler());
      *fixed.mutable_compile_targets() = slot->hello.compile_targets();
    } else {
      *fixed.mutable_archs() = slot->hello.archs();
    }
  }
  if (options_.compile_slots == 0) {
    lock.unlock();
    KILN_ASSIGN_OR_RETURN(*fixed.mutable_compiler_build(), OwnBuild());
    lock.lock();
  }
  if (options_.mixed_devices) DescribeSlotsLocked(&fixed);
  // Of those that have started by now: of several devices of one kind the first says it for all.
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (!slot->ready || (slot->is_compile && slot->index != 0)) continue;
    for (std::string& note : Missing(*slot)) fixed.add_notes(std::move(note));
  }
  registration_ = std::move(fixed);
  return absl::OkStatus();
}

absl::StatusOr<std::string> Agent::OwnBuild() {
  const std::unique_ptr<CompileExecutor> executor = make_compile_(0);
  KILN_ASSIGN_OR_RETURN(const v1::ChildHello hello, executor->Start());
  return hello.compiler_build();
}

std::vector<std::string> Agent::Missing(const Slot& slot) const {
  std::vector<std::string> lines;
  const std::string who = slot.is_compile ? "compiling" : DeviceOf(slot);
  for (const std::string& note : slot.hello.notes()) {
    lines.push_back(absl::StrCat(who, " does without: ", note));
  }
  return lines;
}

// Each with its own record. One that did not start is of no known kind: it gets no leases.
void Agent::DescribeSlotsLocked(v1::Register* fixed) const {
  fixed->clear_archs();
  std::set<std::pair<std::string, std::string>> told;
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (slot->is_compile || slot->hello.archs().empty()) continue;
    const v1::ArchRecord& arch = slot->hello.archs(0);
    v1::ProfileSlot* out = fixed->add_slots();
    out->set_device(DeviceOf(*slot));
    *out->mutable_arch() = arch;
    if (told.emplace(arch.name(), arch.device_model()).second) *fixed->add_archs() = arch;
  }
  fixed->set_profile_slots(fixed->slots_size());
}

bool Agent::IsFor(const v1::Task& task, const Slot& slot) const {
  if (!options_.mixed_devices || task.arch().empty()) return true;
  return !slot.hello.archs().empty() && slot.hello.archs(0).name() == task.arch() &&
         slot.hello.archs(0).device_model() == task.device_model();
}

void Agent::StopSlots() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    finished_ = true;
    draining_ = true;
    for (const std::unique_ptr<Slot>& slot : slots_) {
      if (slot->current != nullptr) slot->Interrupt();
    }
    work_.notify_all();
    changed_.notify_all();
  }
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (slot->thread.joinable()) slot->thread.join();
  }
}

// The executor lives and dies in this thread, which is also the parent thread of its child.
void Agent::CompileLoop(Slot* slot) {
  std::unique_ptr<CompileExecutor> executor = make_compile_(slot->index);
  absl::StatusOr<v1::ChildHello> hello = v1::ChildHello();
  if (slot->index == 0) hello = executor->Start();
  std::unique_lock<std::mutex> lock(mutex_);
  slot->compile = std::move(executor);
  slot->start_status = hello.status();
  if (hello.ok()) slot->hello = *std::move(hello);
  for (const std::string& line : Missing(*slot)) spdlog::warn("{}", line);
  slot->ready = true;
  changed_.notify_all();
  while (!stopping_) {
    std::optional<CompileItem> item;
    if (MayCompileLocked()) item = ledger_.NextCompile();
    if (!item.has_value()) {
      work_.wait_for(lock, kTendPeriod);
      slot->compile->Tend();
      continue;
    }
    ++compiling_;
    compile_turns_ = std::max(0, compile_turns_ - 1);
    slot->current = item->held;
    slot->ClearInterrupt();
    NoteStarted(item->held);
    lock.unlock();
    RunCompileItem(slot, *item);
    lock.lock();
    --compiling_;
    changed_.notify_all();
  }
  executor = std::move(slot->compile);
  lock.unlock();
}

void Agent::ProfileLoop(Slot* slot) {
  std::unique_ptr<ProfileExecutor> executor = make_profile_(slot->index);
  // Of all devices, before there is work: a driver takes seconds for a context. One that does not
  // start is tried again with its first task; without the first one there is no worker.
  absl::StatusOr<v1::ChildHello> hello = executor->Start();
  if (!hello.ok() && slot->index != 0) {
    spdlog::error("profile slot {}: {}", slot->index, std::string(hello.status().message()));
  }
  std::unique_lock<std::mutex> lock(mutex_);
  slot->profile = std::move(executor);
  slot->start_status = hello.status();
  if (hello.ok()) slot->hello = *std::move(hello);
  for (const std::string& line : Missing(*slot)) spdlog::warn("{}", line);
  if (!slot->hello.quarantined().empty()) QuarantineLocked(slot, slot->hello.quarantined());
  slot->ready = true;
  changed_.notify_all();
  while (!stopping_) {
    // What other slots can still measure is theirs; else it goes back.
    HeldTaskPtr held = ledger_.NextProfile(DeviceOf(*slot), [&](const v1::Task& task) {
      return IsFor(task, *slot) && (slot->quarantined.empty() || AllQuarantinedLocked(task));
    });
    if (held == nullptr) {
      work_.wait_for(lock, kTendPeriod);
      slot->profile->Tend();
      continue;
    }
    slot->current = held;
    slot->ClearInterrupt();
    NoteStarted(held);
    lock.unlock();
    RunProfileTask(slot, held);
    lock.lock();
  }
  executor = std::move(slot->profile);
  lock.unlock();
}

void Agent::QuarantineLocked(Slot* slot, const std::string& reason) {
  if (!slot->quarantined.empty()) return;
  slot->quarantined = reason;
  health_said_ = false;
  spdlog::error("profile slot {} is quarantined: {}", slot->index, reason);
  outbox_.notify_all();
  work_.notify_all();
}

bool Agent::AllQuarantinedLocked(const v1::Task& task) const {
  return std::all_of(slots_.begin(), slots_.end(), [&](const std::unique_ptr<Slot>& slot) {
    return slot->is_compile || !slot->quarantined.empty() || !IsFor(task, *slot);
  });
}

std::vector<v1::QuarantinedDevice> Agent::QuarantinedLocked() const {
  std::vector<v1::QuarantinedDevice> devices;
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (slot->quarantined.empty()) continue;
    v1::QuarantinedDevice& device = devices.emplace_back();
    device.set_device(DeviceOf(*slot));
    device.set_reason(slot->quarantined);
  }
  return devices;
}

std::string Agent::DeviceOf(const Slot& slot) const {
  const auto index = static_cast<size_t>(slot.index);
  return index < options_.devices.size() ? options_.devices[index]
                                         : absl::StrCat("profile slot ", index);
}

void Agent::NoteStarted(const HeldTaskPtr& held) {
  UpdateGaugesLocked();
  if (!started_.emplace(held->task.id(), Clock::now()).second) return;
  metrics_->TaskStarted(held->task.kind());
  spdlog::info("task started id={} epoch={} kind={} attempt={} candidates={}", held->task.id(),
               held->task.epoch(), v1::TaskKind_Name(held->task.kind()), held->task.attempt(),
               held->task.candidates_size());
}

void Agent::NoteEnded(const HeldTaskPtr& held) {
  auto begin = started_.find(held->task.id());
  double seconds = begin == started_.end() ? 0 : SecondsSince(begin->second);
  if (begin != started_.end()) started_.erase(begin);
  metrics_->TaskFinished(held->task.kind(), !held->released.empty() || held->dropped, seconds);
  metrics_->SetUnacknowledged(ledger_.unacknowledged());
  std::string steps;
  for (const auto& [step, value] : held->seconds) {
    absl::StrAppend(&steps, " ", step, "=", absl::SixDigits(value));
  }
  spdlog::info("task finished id={} epoch={} seconds={:.3f}{}{}{}", held->task.id(),
               held->task.epoch(), seconds, steps,
               held->released.empty() ? "" : " released=", held->released);
  outbox_.notify_all();
  changed_.notify_all();
}

void Agent::UpdateGaugesLocked() {
  int compile = 0;
  int profile = 0;
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (slot->current != nullptr) ++(slot->is_compile ? compile : profile);
  }
  metrics_->SetBusy(compile, profile);
}

bool Agent::MayCompileLocked() const {
  if (!options_.exclusive_measurement) return true;
  return !measuring_ && (measure_waiting_ == 0 || compile_turns_ > 0);
}

absl::Status Agent::BeginMeasuring(const HeldTaskPtr& held) {
  if (!options_.exclusive_measurement) return absl::OkStatus();
  std::unique_lock<std::mutex> lock(mutex_);
  ++measure_waiting_;
  changed_.wait(lock, [&] {
    bool turn = compile_turns_ == 0 || ledger_.waiting_compile() == 0;
    return UnwantedLocked(held) || (!measuring_ && compiling_ == 0 && turn);
  });
  --measure_waiting_;
  work_.notify_all();
  if (UnwantedLocked(held)) return absl::CancelledError("not wanted any more");
  measuring_ = true;
  return absl::OkStatus();
}

// Every compile slot gets a turn before the next measurement, so that neither kind starves.
void Agent::EndMeasuring() {
  if (!options_.exclusive_measurement) return;
  std::lock_guard<std::mutex> lock(mutex_);
  measuring_ = false;
  compile_turns_ = options_.compile_slots;
  work_.notify_all();
  changed_.notify_all();
}

std::string Agent::QuarantineOf(Slot* slot) {
  std::lock_guard<std::mutex> lock(mutex_);
  return slot->quarantined;
}

bool Agent::Unwanted(const HeldTaskPtr& held) {
  std::lock_guard<std::mutex> lock(mutex_);
  return UnwantedLocked(held);
}

bool Agent::UnwantedLocked(const HeldTaskPtr& held) const {
  return held->dropped || stopping_ || drain_now_;
}

absl::Status Agent::Persist(const HeldTaskPtr& held, const std::function<absl::Status()>& call) {
  for (int attempt = 0;; ++attempt) {
    absl::Status status = call();
    if (!IsTransient(status)) return status;
    double pause = Backoff(attempt);
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(pause),
                      [&] { return UnwantedLocked(held); });
    if (UnwantedLocked(held)) {
      return absl::CancelledError(absl::StrCat("given up: ", status.message()));
    }
  }
}

absl::StatusOr<std::shared_ptr<const v1::SweepInputs>> Agent::Inputs(const HeldTaskPtr& held) {
  const std::string& digest = held->task.inputs_digest();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = inputs_.find(digest);
    if (found != inputs_.end()) return found->second;
  }
  std::string bytes;
  absl::Status status = Persist(held, [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(bytes, cache_->Read(digest));
    return absl::OkStatus();
  });
  KILN_RETURN_IF_ERROR(Lost(status, digest));
  auto inputs = std::make_shared<v1::SweepInputs>();
  if (!inputs->ParseFromString(bytes)) {
    return absl::DataLossError(
        absl::StrCat("lost inputs: blob ", digest, " is not a SweepInputs message"));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (inputs_.size() >= kInputsKept) inputs_.clear();
  inputs_[digest] = inputs;
  return std::shared_ptr<const v1::SweepInputs>(inputs);
}

void Agent::RunCompileItem(Slot* slot, const CompileItem& item) {
  std::map<std::string, double> seconds;
  absl::StatusOr<v1::CandidateResult> result = CompileOne(slot, item.held, item.index, &seconds);
  bool broken = !result.ok() && !absl::IsCancelled(result.status());
  std::unique_lock<std::mutex> lock(mutex_);
  slot->current = nullptr;
  for (const auto& [step, value] : seconds) item.held->seconds[step] += value;
  if (result.ok()) metrics_->CandidateFinished(item.held->task.kind(), *result);
  bool ended;
  if (result.ok()) {
    ended = ledger_.FinishCandidate(item, *std::move(result));
  } else {
    // Not this candidate's fault: it and all that waits behind it go back.
    std::string why = broken ? std::string(result.status().message()) : drain_reason_;
    if (item.held->released.empty() && !item.held->dropped) ledger_.Release(item.held, why);
    ended = ledger_.ReturnCandidate(item);
  }
  if (ended || (item.held->dropped && item.held->in_flight == 0)) NoteEnded(item.held);
  UpdateGaugesLocked();
  if (!broken) return;
  spdlog::error("compile slot {}: {}", slot->index, std::string(result.status().message()));
  changed_.wait_for(lock, std::chrono::duration<double>(kBrokenChildPause),
                    [this] { return stopping_; });
}

absl::StatusOr<v1::CandidateResult> Agent::CompileOne(Slot* slot, const HeldTaskPtr& held,
                                                      int index,
                                                      std::map<std::string, double>* seconds) {
  auto begin = Clock::now();
  auto lap = [&](const std::string& step) {
    double value = SecondsSince(begin);
    (*seconds)[step] = value;
    metrics_->ObserveStep(step, value);
    begin = Clock::now();
  };
  if (Unwanted(held)) return absl::CancelledError("not wanted any more");
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const v1::SweepInputs> inputs, Inputs(held));
  lap("fetch");
  const std::string& config = held->task.candidates(index).config();
  const v1::TaskKind kind = held->task.kind();
  KILN_ASSIGN_OR_RETURN(CompileOutcome outcome,
                        slot->compile->Compile(InputsFor(kind, *inputs), ConfigFor(kind, config),
                                               held->task.limit_seconds()));
  lap("compile");
  v1::CandidateResult& result = outcome.result;
  result.set_config(config);
  if (result.has_failure()) {
    result.mutable_failure()->set_worker(options_.name);
    return result;
  }
  const std::string& digest = result.artifact().digest();
  absl::Status cached = cache_->Add(digest, outcome.bundle);
  if (!cached.ok()) spdlog::warn("{}", std::string(cached.message()));
  absl::Status put = Persist(held, [&] { return link_->PutBlob(digest, outcome.bundle); });
  lap("put");
  KILN_RETURN_IF_ERROR(put);
  return result;
}

void Agent::RunProfileTask(Slot* slot, const HeldTaskPtr& held) {
  const int64_t began_ns = SteadyNs();
  std::map<std::string, double> seconds;
  absl::StatusOr<ProfileOutcome> outcome = ProfileAll(slot, held, &seconds);
  bool broken = !outcome.ok() && !absl::IsCancelled(outcome.status());
  std::unique_lock<std::mutex> lock(mutex_);
  slot->current = nullptr;
  held->seconds = std::move(seconds);
  held->device = DeviceOf(*slot);
  held->began_ns = began_ns;
  held->ended_ns = SteadyNs();
  if (outcome.ok()) {
    held->unavailable = outcome->unavailable;
    for (v1::CandidateResult& result : outcome->results) {
      if (result.has_failure()) result.mutable_failure()->set_worker(options_.name);
      metrics_->CandidateFinished(held->task.kind(), result);
    }
    ledger_.FinishProfile(held, std::move(outcome->results));
  } else {
    held->released = broken ? std::string(outcome.status().message()) : drain_reason_;
    ledger_.FinishProfile(held, {});
  }
  NoteEnded(held);
  UpdateGaugesLocked();
  if (!broken) return;
  spdlog::error("profile slot {}: {}", slot->index, std::string(outcome.status().message()));
  changed_.wait_for(lock, std::chrono::duration<double>(kBrokenChildPause),
                    [this] { return stopping_; });
}

absl::StatusOr<ProfileOutcome> Agent::ProfileAll(Slot* slot, const HeldTaskPtr& held,
                                                 std::map<std::string, double>* seconds) {
  const auto begin = Clock::now();
  if (Unwanted(held)) return absl::CancelledError("not wanted any more");
  if (const std::string reason = QuarantineOf(slot); !reason.empty()) {
    return absl::UnavailableError(absl::StrCat("quarantined: ", reason));
  }
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const v1::SweepInputs> inputs, Inputs(held));
  v1::ProfileRequest request;
  request.set_kind(held->task.kind());
  *request.mutable_inputs() = InputsFor(held->task.kind(), *inputs);
  request.set_samples(held->task.samples());
  request.set_best_ns(held->task.best_ns());
  std::vector<BlobCache::Pin> pins;
  const auto fetch = [&](const std::string& digest) -> absl::StatusOr<std::string> {
    BlobCache::Pin pin;
    absl::Status status = Persist(held, [&]() -> absl::Status {
      KILN_ASSIGN_OR_RETURN(pin, cache_->Get(digest));
      return absl::OkStatus();
    });
    KILN_RETURN_IF_ERROR(Lost(status, digest));
    return pins.emplace_back(std::move(pin)).path();
  };
  for (const v1::TaskCandidate& candidate : held->task.candidates()) {
    v1::ProfileCandidate* out = request.add_candidates();
    out->set_config(candidate.config());
    out->set_numbers_checked(candidate.numbers_checked());
    out->set_expected_ns(candidate.expected_ns());
    KILN_ASSIGN_OR_RETURN(*out->mutable_bundle_path(), fetch(candidate.artifact_digest()));
    if (candidate.plain_digest().empty()) continue;
    KILN_ASSIGN_OR_RETURN(*out->mutable_plain_path(), fetch(candidate.plain_digest()));
  }
  (*seconds)["fetch"] = SecondsSince(begin);
  ProfileOutcome outcome;
  if (request.candidates_size() > 0) {
    const auto turn = Clock::now();
    const absl::Status begun = BeginMeasuring(held);
    if (options_.exclusive_measurement) (*seconds)["turn"] = SecondsSince(turn);
    KILN_RETURN_IF_ERROR(begun);
    absl::StatusOr<ProfileOutcome> ran =
        slot->profile->Profile(request, held->task.limit_seconds());
    EndMeasuring();
    KILN_ASSIGN_OR_RETURN(outcome, std::move(ran));
  }
  if (!outcome.quarantined.empty()) {
    std::lock_guard<std::mutex> lock(mutex_);
    QuarantineLocked(slot, outcome.quarantined);
    if (outcome.results.empty()) {
      return absl::UnavailableError(absl::StrCat("quarantined: ", outcome.quarantined));
    }
  }
  double told = 0;
  for (const auto& [stage, value] : outcome.seconds) {
    if (stage != "other") (*seconds)[stage] += value;
  }
  for (const auto& [stage, value] : *seconds) told += value;
  (*seconds)["other"] = std::max(0.0, SecondsSince(begin) - told);
  for (const auto& [step, value] : *seconds) metrics_->ObserveStep(step, value);
  return outcome;
}

}  // namespace kiln::worker

#include "tests/util/in_process_farm.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "coordinator/core/expansion.h"
#include "coordinator/core/stored_view.h"

namespace kiln::testing {
namespace {

constexpr double kTick = 0.1;
constexpr double kCompileSeconds = 0.05;
constexpr double kProfileSeconds = 0.02;
constexpr double kAskAgainSeconds = 5;

bool IsProfile(v1::TaskKind kind) {
  return kind == v1::TASK_SCREEN || kind == v1::TASK_RACE || kind == v1::TASK_FINALS ||
         kind == v1::TASK_CHECK_RAGGED || kind == v1::TASK_CHECK_PLAIN;
}

std::string RoundOf(const v1::Task& task) {
  if (task.kind() == v1::TASK_SCREEN) return "screen";
  if (task.kind() == v1::TASK_FINALS) return "finals";
  return absl::StrCat("race-", task.round());
}

}  // namespace

struct InProcessFarm::Moment {
  int64_t at_ns = 0;
  uint64_t order = 0;
  std::function<void()> what;
  bool operator<(const Moment& other) const {
    return std::make_pair(at_ns, order) > std::make_pair(other.at_ns, other.order);
  }
};

struct InProcessFarm::WorkerNode {
  FakeWorkerOptions options;
  std::string name;
  uint64_t life = 1;
  uint64_t connection = 0;
  bool attaching = false;
  std::deque<v1::Task> queue;
  std::map<std::string, v1::Task> running;
  struct Place {
    int slot = 0;
    int64_t began_ns = 0;
  };
  std::map<std::string, Place> places;  // of running tasks to measure
  int64_t clock_ns = 0;                 // its clock is ahead by so much
  std::map<std::string, v1::TaskResult> unacknowledged;
  int64_t up_last_ns = 0;  // arrival of the last message each way: streams keep their order
  int64_t down_last_ns = 0;
  int64_t stalled_until_ns = 0;

  int FreeSlot() const {
    std::set<int> taken;
    for (const auto& [id, place] : places) {
      if (running.count(id) > 0) taken.insert(place.slot);
    }
    int slot = 0;
    while (taken.count(slot) > 0) ++slot;
    return slot;
  }
  int Busy(bool profile) const {
    int busy = 0;
    for (const auto& [id, task] : running) busy += IsProfile(task.kind()) == profile;
    return busy;
  }
};

InProcessFarm::InProcessFarm(const Options& options)
    : options_(options), rng_(options.seed), times_(options.seed), expander_(options.space) {
  store::BlobStoreOptions blob_options;
  meta_ = store::NewMemoryMetaStore();
  blobs_ = store::NewMemoryBlobStore(blob_options, &clock_);
  StartCoordinator();
  for (const FakeWorkerOptions& worker : options.workers) {
    auto node = std::make_unique<WorkerNode>();
    node->options = worker;
    node->name = absl::StrCat("w", nodes_.size());
    node->clock_ns = SecondsToNs(1 + 1e6 * times_.Uniform());
    WorkerNode* raw = node.get();
    nodes_.push_back(std::move(node));
    At(worker.start_seconds, [this, raw] { Attach(raw); });
  }
}

InProcessFarm::~InProcessFarm() = default;

double InProcessFarm::Delay() { return 0.0001 + 0.004 * rng_.Uniform(); }

void InProcessFarm::At(double seconds, std::function<void()> what) {
  agenda_.push_back(
      {clock_.Now().mono_ns + SecondsToNs(seconds), ++agenda_order_, std::move(what)});
  std::push_heap(agenda_.begin(), agenda_.end());
}

bool InProcessFarm::RunUntil(const std::function<bool()>& done, double seconds) {
  const int64_t end = clock_.Now().mono_ns + SecondsToNs(seconds);
  while (!done()) {
    if (agenda_.empty() || agenda_.front().at_ns > end) return false;
    std::pop_heap(agenda_.begin(), agenda_.end());
    Moment moment = std::move(agenda_.back());
    agenda_.pop_back();
    clock_.Advance(std::max<int64_t>(0, moment.at_ns - clock_.Now().mono_ns));
    moment.what();
  }
  return true;
}

void InProcessFarm::RunFor(double seconds) {
  RunUntil([] { return false; }, seconds);
}

// ---- the coordinator's side ----

void InProcessFarm::StartCoordinator() {
  const absl::StatusOr<uint64_t> term = meta_->BeginTerm();
  KILN_CHECK(term.ok());
  term_ = *term;
  absl::StatusOr<store::FarmState> state = meta_->Load();
  KILN_CHECK(state.ok());
  core_ = std::make_unique<core::Core>(options_.core, term_, *std::move(state), clock_.Now());
  const uint64_t life = ++life_;
  Post(core::Tick{});
  auto tick = std::make_shared<std::function<void()>>();
  *tick = [this, life, weak = std::weak_ptr<std::function<void()>>(tick)] {
    auto self = weak.lock();
    if (life != life_ || core_ == nullptr || self == nullptr) return;
    Post(core::Tick{});
    At(kTick, [self] { (*self)(); });
  };
  At(kTick, [tick] { (*tick)(); });
  if (!watched_.empty()) {
    watch_ = next_id_++;
    Post(core::Watch{watch_, watched_});
  }
}

void InProcessFarm::CrashCoordinator() {
  core_.reset();
  ++life_;
  pending_.clear();
  for (const auto& node : nodes_) Detach(node.get(), false);
  At(options_.coordinator_restart_seconds, [this] { StartCoordinator(); });
}

void InProcessFarm::Post(core::Event event) {
  if (core_ == nullptr) return;
  pending_.push_back(std::move(event));
  if (turn_planned_) return;
  turn_planned_ = true;
  At(rng_.Uniform() * 0.002, [this] { Turn(); });
}

void InProcessFarm::Turn() {
  turn_planned_ = false;
  if (core_ == nullptr) return;
  std::vector<core::Event> events;
  events.swap(pending_);
  for (core::Event& event : events) core_->Handle(std::move(event), clock_.Now());
  core::Effects effects = core_->EndTurn(clock_.Now());
  ++turns_;
  bool crash = turns_ == options_.faults.crash_at_turn;
  Faults::Point point = options_.faults.crash_point;
  if (Chance(options_.faults.coordinator_crash)) {
    crash = true;
    point = static_cast<Faults::Point>(rng_.Below(3));
  }
  if (crash && point == Faults::Point::kBeforeCommit) return CrashCoordinator();
  const absl::Status status = core::Persist(effects, term_, meta_.get(), blobs_.get());
  KILN_CHECK(status.ok());
  if (crash && point == Faults::Point::kAfterCommit) return CrashCoordinator();
  core::Effects last;
  last.unpins = effects.unpins;
  last.batch.winners = effects.batch.winners;
  Deliver(std::move(effects), crash);
  if (crash) return CrashCoordinator();
  core::ReleasePins(last, blobs_.get());
}

void InProcessFarm::Deliver(core::Effects effects, bool amid) {
  size_t sends = effects.sends.size();
  if (amid) sends = rng_.Below(sends + 1);
  for (size_t i = 0; i < sends; ++i) {
    core::Send& send = effects.sends[i];
    for (const v1::Task& task : send.message.leases().tasks()) CheckLease(task);
    NoteAck(send.message.acknowledge());
    ToWorker(send.connection, std::move(send.message), send.close);
  }
  if (amid) return;
  for (core::Reply& reply : effects.replies) replies_.emplace(reply.request, std::move(reply.body));
  for (core::Publish& publish : effects.publishes) {
    if (publish.watch == watch_ && publish.status.ok()) events_.push_back(std::move(publish.event));
  }
  for (core::ExpandJob& job : effects.expand) {
    At(Delay(), [this, life = life_, job = std::move(job)] {
      if (life != life_) return;
      Post(core::RunExpandJob(job, &expander_, meta_.get(), blobs_.get()));
    });
  }
}

void InProcessFarm::CheckLease(const v1::Task& task) {
  ++leases_seen_;
  if (acknowledged_.count(task.id()) > 0) {
    violations_.push_back(absl::StrCat("task ", task.id(), " is leased after its acknowledgement"));
  }
  uint64_t& newest = newest_epoch_[task.id()];
  if (task.epoch() <= newest) {
    violations_.push_back(absl::StrCat("task ", task.id(), ": epoch ", task.epoch(),
                                       " is granted after epoch ", newest));
  }
  newest = task.epoch();
}

void InProcessFarm::NoteAck(const v1::Acknowledge& ack) {
  const std::set<std::string> stale(ack.stale().begin(), ack.stale().end());
  for (const std::string& task : ack.tasks()) {
    if (stale.count(task) > 0) continue;
    acknowledged_.insert(task);
  }
}

core::RequestId InProcessFarm::Ask(core::Event event) {
  const core::RequestId request = next_id_++;
  std::visit(
      [&](auto& e) {
        if constexpr (requires { e.request; }) e.request = request;
      },
      event);
  Post(std::move(event));
  return request;
}

core::RequestId InProcessFarm::Submit(const v1::SweepSpec& spec) {
  return Ask(core::Submit{0, spec});
}

const absl::StatusOr<core::ReplyBody>* InProcessFarm::ReplyTo(core::RequestId request) const {
  auto it = replies_.find(request);
  return it == replies_.end() ? nullptr : &it->second;
}

void InProcessFarm::Watch(const std::string& sweep) {
  watched_ = sweep;
  watch_ = next_id_++;
  Post(core::Watch{watch_, sweep});
}

absl::StatusOr<v1::GetSweepResponse> InProcessFarm::Stored(const std::string& sweep) {
  return core::StoredSweep(meta_.get(), sweep, true);
}

absl::StatusOr<v1::GetSweepResponse> InProcessFarm::RunSweep(const v1::SweepSpec& spec,
                                                             double seconds) {
  const int64_t end = clock_.Now().mono_ns + SecondsToNs(seconds);
  while (clock_.Now().mono_ns < end) {
    const core::RequestId request = Submit(spec);
    if (!RunUntil([&] { return ReplyTo(request) != nullptr; }, kAskAgainSeconds)) continue;
    const absl::StatusOr<core::ReplyBody>& reply = *ReplyTo(request);
    if (!reply.ok()) return reply.status();
    const std::string sweep = std::get<v1::SubmitSweepResponse>(*reply).sweep();
    int seen_turn = -1;
    bool over = false;
    RunUntil(
        [&] {
          if (turns_ == seen_turn) return over;
          seen_turn = turns_;
          const auto record = meta_->GetSweep(sweep, false);
          return over = record.ok() && core::IsTerminal(record->status.state());
        },
        NsToSeconds(end - clock_.Now().mono_ns));
    if (over) return Stored(sweep);
  }
  return absl::DeadlineExceededError("the sweep did not end");
}

int InProcessFarm::compiles(const std::string& config) const {
  auto it = compiles_.find(config);
  return it == compiles_.end() ? 0 : it->second;
}

// ---- the network ----

void InProcessFarm::Attach(WorkerNode* node) {
  node->attaching = false;
  if (node->connection != 0) return;
  if (core_ == nullptr) {
    node->attaching = true;
    At(0.2, [this, node] { Attach(node); });
    return;
  }
  node->connection = next_id_++;
  connections_[node->connection] = node;
  Post(core::WorkerAttached{node->connection});
  v1::WorkerMessage message;
  v1::Register* r = message.mutable_register_();
  r->set_worker(node->name);
  r->set_instance(absl::StrCat(node->life));
  r->set_compile_slots(node->options.compile_slots);
  r->set_profile_slots(node->options.profile_slots);
  *r->add_archs() = node->options.arch;
  r->add_compile_targets("x86-64");
  r->set_compiler_build(node->options.build);
  r->set_protocol(1);
  for (const auto& [id, task] : node->running) {
    v1::RunningTask* running = r->add_running();
    running->set_task(id);
    running->set_epoch(task.epoch());
  }
  for (const v1::Task& task : node->queue) {
    v1::RunningTask* running = r->add_running();
    running->set_task(task.id());
    running->set_epoch(task.epoch());
  }
  for (const auto& [id, result] : node->unacknowledged) *r->add_unacknowledged() = result;
  FromWorker(node, std::move(message));
  At(options_.core.heartbeat_seconds, [this, node, life = node->life] { Beat(node, life); });
}

void InProcessFarm::Detach(WorkerNode* node, bool tell) {
  if (node->connection != 0) {
    connections_.erase(node->connection);
    if (tell) {
      At(Delay(), [this, life = life_, connection = node->connection] {
        if (life == life_) Post(core::WorkerDetached{connection});
      });
    }
  }
  node->connection = 0;
  if (node->attaching) return;
  node->attaching = true;
  At(0.1 + rng_.Uniform() * 0.5, [this, node] { Attach(node); });
}

void InProcessFarm::FromWorker(WorkerNode* node, v1::WorkerMessage message) {
  if (node->connection == 0 || Chance(options_.faults.lost_message)) return;
  if (Chance(options_.faults.stream_break)) return Detach(node, true);
  if (node->options.tells_times) {
    const int64_t sent_ns = clock_.Now().mono_ns + node->clock_ns;
    if (message.has_results()) message.mutable_results()->set_sent_ns(sent_ns);
    if (message.has_register_()) message.mutable_register_()->set_sent_ns(sent_ns);
  }
  node->up_last_ns = std::max(node->up_last_ns, clock_.Now().mono_ns + SecondsToNs(Delay()));
  At(NsToSeconds(node->up_last_ns - clock_.Now().mono_ns),
     [this, life = life_, connection = node->connection, message = std::move(message)] {
       if (life == life_ && connections_.count(connection) > 0) {
         Post(core::WorkerSaid{connection, message});
       }
     });
}

void InProcessFarm::ToWorker(uint64_t connection, v1::CoordinatorMessage message, bool close) {
  auto it = connections_.find(connection);
  if (it == connections_.end() || Chance(options_.faults.lost_message)) return;
  WorkerNode* node = it->second;
  node->down_last_ns = std::max(node->down_last_ns, clock_.Now().mono_ns + SecondsToNs(Delay()));
  At(NsToSeconds(node->down_last_ns - clock_.Now().mono_ns),
     [this, node, connection, close, message = std::move(message)] {
       const int64_t asleep_ns = node->stalled_until_ns - clock_.Now().mono_ns;
       const auto hear = [this, node, connection, close, message] {
         if (node->connection != connection) return;
         OnMessage(node, message);
         if (close) Detach(node, false);
       };
       if (asleep_ns <= 0) return hear();
       At(NsToSeconds(asleep_ns), hear);
     });
}

// ---- a worker ----

void InProcessFarm::OnMessage(WorkerNode* node, const v1::CoordinatorMessage& message) {
  const auto drop = [&](const std::string& id) {
    node->running.erase(id);
    node->queue.erase(std::remove_if(node->queue.begin(), node->queue.end(),
                                     [&](const v1::Task& t) { return t.id() == id; }),
                      node->queue.end());
  };
  for (const v1::RunningTask& running : message.welcome().drop()) drop(running.task());
  for (const std::string& id : message.revoke().tasks()) drop(id);
  const auto& stale = message.acknowledge().stale();
  for (const std::string& id : message.acknowledge().tasks()) {
    auto it = node->unacknowledged.find(id);
    if (it == node->unacknowledged.end()) continue;
    const bool used = std::find(stale.begin(), stale.end(), id) == stale.end();
    if (used && it->second.epoch() < newest_epoch_[id]) {
      violations_.push_back(absl::StrCat("task ", id, ": a result under epoch ", it->second.epoch(),
                                         " is used though epoch ", newest_epoch_[id],
                                         " was granted"));
    }
    node->unacknowledged.erase(it);
  }
  for (const v1::Task& task : message.leases().tasks()) node->queue.push_back(task);
  StartTasks(node);
}

void InProcessFarm::StartTasks(WorkerNode* node) {
  std::deque<v1::Task> waiting;
  for (v1::Task& task : node->queue) {
    const bool profile = IsProfile(task.kind());
    const int slots = profile ? node->options.profile_slots : node->options.compile_slots;
    if (task.kind() != v1::TASK_EMPTY && node->Busy(profile) >= slots) {
      waiting.push_back(std::move(task));
      continue;
    }
    double each = profile ? kProfileSeconds : kCompileSeconds;
    if (task.kind() == v1::TASK_EMPTY) each = 0.0001;
    double seconds = each * std::max(1, task.candidates_size()) * (0.5 + rng_.Uniform());
    if (Chance(options_.faults.worker_stall)) {
      const double stall = 3 * options_.core.lease_seconds * rng_.Uniform();
      node->stalled_until_ns = clock_.Now().mono_ns + SecondsToNs(stall);
      seconds = stall;  // wakes up with its result before it hears what happened meanwhile
    }
    if (task.kind() == v1::TASK_COMPILE) {
      for (const v1::TaskCandidate& c : task.candidates()) ++compiles_[c.config()];
    }
    const std::string id = task.id();
    if (profile) node->places[id] = {node->FreeSlot(), clock_.Now().mono_ns};
    At(seconds, [this, node, life = node->life, id] { FinishTask(node, life, id); });
    node->running[id] = std::move(task);
  }
  node->queue = std::move(waiting);
}

void InProcessFarm::FinishTask(WorkerNode* node, uint64_t life, const std::string& id) {
  auto it = node->running.find(id);
  if (node->life != life || it == node->running.end()) return;
  if (Chance(options_.faults.worker_crash)) return KillWorker(node);
  const v1::Task task = it->second;
  bool dies = false;
  v1::TaskResult result = Execute(node, task, &dies);
  if (dies) return KillWorker(node);
  if (IsProfile(task.kind())) TellTimes(node, task, &result);
  node->running.erase(id);
  node->unacknowledged[id] = result;
  v1::WorkerMessage message;
  *message.mutable_results()->add_results() = std::move(result);
  if (Chance(options_.faults.repeated_result)) FromWorker(node, message);
  FromWorker(node, std::move(message));
  StartTasks(node);
}

// The stages are less than the whole; the rest is "other".
void InProcessFarm::TellTimes(WorkerNode* node, const v1::Task& task, v1::TaskResult* result) {
  const WorkerNode::Place place = node->places[task.id()];
  node->places.erase(task.id());
  const int64_t now = clock_.Now().mono_ns;
  double left = NsToSeconds(now - place.began_ns);
  for (const char* stage : {"fetch", "setup", "check", "warmup", "measure", "health"}) {
    const double seconds = left * 0.5 * times_.Uniform();
    (*result->mutable_seconds())[stage] = seconds;
    left -= seconds;
  }
  const std::string device = absl::StrCat("gpu", place.slot);
  spans_.push_back({absl::StrCat(node->name, "/", device), task.sweep(), place.began_ns, now});
  if (!node->options.tells_times) return;
  result->set_device(device);
  result->set_began_ns(place.began_ns + node->clock_ns);
  result->set_ended_ns(now + node->clock_ns);
}

v1::TaskResult InProcessFarm::Execute(WorkerNode* node, const v1::Task& task, bool* dies) {
  v1::TaskResult result;
  result.set_task(task.id());
  result.set_epoch(task.epoch());
  if (task.kind() == v1::TASK_EMPTY) return result;
  const absl::StatusOr<std::string> bytes = blobs_->ReadAll(task.inputs_digest());
  v1::SweepInputs inputs;
  if (!bytes.ok() || !inputs.ParseFromString(*bytes)) {
    result.set_released(absl::StrCat("lost inputs: ", task.inputs_digest()));
    return result;
  }
  const FakeSpace space = SpaceOf(options_.space, inputs);
  const bool profile = IsProfile(task.kind());
  for (const v1::TaskCandidate& candidate : task.candidates()) {
    const bool gone = profile && (!blobs_->Contains(candidate.artifact_digest()) ||
                                  Chance(options_.faults.lost_blob));
    if (!gone) continue;
    result.set_released(absl::StrCat("lost inputs: ", candidate.artifact_digest()));
    return result;
  }
  bool broken = false;
  for (const v1::TaskCandidate& candidate : task.candidates()) {
    v1::CandidateResult* out = result.add_candidates();
    out->set_config(candidate.config());
    if (broken) {
      out->set_not_run(true);
      continue;
    }
    if (profile && space.Of(candidate.config()) == Behaviour::kKillsWorker) {
      *dies = true;
      return result;
    }
    if (profile) {
      ProfileOne(node, space, task, candidate, out);
    } else {
      CompileOne(node, space, inputs, candidate.config(), out);
    }
    broken = out->failure().killed_child();
  }
  if (!profile) (*result.mutable_seconds())["compile"] = 0.01;
  return result;
}

void InProcessFarm::CompileOne(WorkerNode* node, const FakeSpace& space,
                               const v1::SweepInputs& inputs, const std::string& config,
                               v1::CandidateResult* out) {
  const Behaviour behaviour = space.Of(config);
  if (behaviour == Behaviour::kCompileError || behaviour == Behaviour::kKillsCompiler) {
    out->mutable_failure()->set_stage(v1::Failure::COMPILE);
    out->mutable_failure()->set_message("modelled compile failure");
    out->mutable_failure()->set_killed_child(behaviour == Behaviour::kKillsCompiler);
    return;
  }
  std::string bytes;
  *out->mutable_artifact() = space.Compile(inputs, config, node->options.build, &bytes);
  KILN_CHECK(blobs_->PutBytes(bytes).ok());
}

void InProcessFarm::ProfileOne(WorkerNode* node, const FakeSpace& space, const v1::Task& task,
                               const v1::TaskCandidate& candidate, v1::CandidateResult* out) {
  const Behaviour behaviour = space.Of(candidate.config());
  if (behaviour == Behaviour::kWrongNumbers && !candidate.numbers_checked()) {
    out->mutable_failure()->set_stage(v1::Failure::CHECK);
    out->mutable_failure()->set_message("C[3,4] is 1.5 instead of 1.25");
    return;
  }
  if (behaviour == Behaviour::kKillsRunner) {
    out->mutable_failure()->set_stage(v1::Failure::RUN);
    out->mutable_failure()->set_message("signal 11");
    out->mutable_failure()->set_killed_child(true);
    return;
  }
  if (behaviour == Behaviour::kWrongRagged && task.kind() == v1::TASK_CHECK_RAGGED) {
    out->mutable_failure()->set_stage(v1::Failure::CHECK);
    out->mutable_failure()->set_message("C[207,4] is 1.5 instead of 1.25");
    return;
  }
  const int least = task.kind() == v1::TASK_SCREEN ? space.model().screen_samples : 1;
  *out->mutable_measurement() =
      space.Measure(candidate.config(), RoundOf(task), std::max(task.samples(), least),
                    absl::StrCat(node->name, "/cpu"));
  if (behaviour == Behaviour::kWrongPlain && task.kind() == v1::TASK_CHECK_PLAIN) {
    out->clear_measurement();
    out->mutable_failure()->set_stage(v1::Failure::CHECK);
    out->mutable_failure()->set_message("wrong numbers, found by comparison with its plain code");
    return;
  }
  if (task.kind() == v1::TASK_CHECK_RAGGED) {
    out->mutable_measurement()->set_check_summary("at N=208: right");
  }
  if (task.kind() == v1::TASK_CHECK_PLAIN) {
    out->mutable_measurement()->set_check_summary("its plain code: right");
  }
  if (task.kind() != v1::TASK_FINALS) return;
  *out->mutable_fresh() =
      space.Measure(candidate.config(), "fresh", task.samples(), absl::StrCat(node->name, "/cpu"));
}

void InProcessFarm::KillWorker(WorkerNode* node) {
  ++node->life;
  node->clock_ns = SecondsToNs(1 + 1e6 * times_.Uniform());
  node->places.clear();
  node->queue.clear();
  node->running.clear();
  node->unacknowledged.clear();
  const uint64_t connection = node->connection;
  node->connection = 0;
  connections_.erase(connection);
  if (connection != 0) {
    At(Delay(), [this, life = life_, connection] {
      if (life == life_) Post(core::WorkerDetached{connection});
    });
  }
  if (node->attaching) return;
  node->attaching = true;
  At(options_.worker_restart_seconds, [this, node] { Attach(node); });
}

void InProcessFarm::Beat(WorkerNode* node, uint64_t life) {
  if (node->life != life || node->connection == 0) return;
  const uint64_t connection = node->connection;
  if (node->stalled_until_ns <= clock_.Now().mono_ns) {
    v1::WorkerMessage message;
    v1::Heartbeat* beat = message.mutable_heartbeat();
    const auto add = [&](const v1::Task& task) {
      v1::RunningTask* running = beat->add_running();
      running->set_task(task.id());
      running->set_epoch(task.epoch());
    };
    for (const auto& [id, task] : node->running) add(task);
    for (const v1::Task& task : node->queue) add(task);
    FromWorker(node, std::move(message));
  }
  if (node->connection != connection) return;
  At(options_.core.heartbeat_seconds, [this, node, life, connection] {
    if (node->connection == connection) Beat(node, life);
  });
}

InProcessFarm::Options FaultySpace(uint64_t seed) {
  InProcessFarm::Options options;
  options.seed = seed;
  options.space.seed = 11;
  options.space.compile_errors = 0.08;
  options.space.wrong_numbers = 0.05;
  return options;
}

int Seeds(int usual) {
  const char* scale = std::getenv("KILN_TEST_SCALE");
  return scale == nullptr ? usual : usual * std::atoi(scale);
}

}  // namespace kiln::testing

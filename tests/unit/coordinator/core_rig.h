// Drives a Core by hand: one call, one turn, and a look at what came out.
#ifndef KILN_TESTS_UNIT_COORDINATOR_CORE_RIG_H_
#define KILN_TESTS_UNIT_COORDINATOR_CORE_RIG_H_

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/clock.h"
#include "compiler/base/status.h"
#include "coordinator/core/core.h"
#include "coordinator/core/expansion.h"
#include "coordinator/core/loop.h"
#include "tests/util/fake_space.h"

namespace kiln::testing {

class CoreRig {
 public:
  explicit CoreRig(core::Options options = {}, SpaceModel space = {})
      : options_(options), expander_(space), space_(space) {
    meta_ = store::NewMemoryMetaStore();
    blobs_ = store::NewMemoryBlobStore({}, &clock_);
    Restart();
  }

  // A new core over the same store; workers have to attach again.
  void Restart() {
    term_ = *meta_->BeginTerm();
    core_ = std::make_unique<core::Core>(options_, term_, *meta_->Load(), clock_.Now());
    leases_.clear();
    Turn(core::Tick{});
  }

  // One turn with these events; expansions run at once, in further turns.
  core::Effects Turn(core::Event event) {
    core_->Handle(std::move(event), clock_.Now());
    core::Effects effects = core_->EndTurn(clock_.Now());
    KILN_CHECK(core::Persist(effects, term_, meta_.get(), blobs_.get()).ok());
    core::ReleasePins(effects, blobs_.get());
    for (const core::Send& send : effects.sends) {
      for (const v1::Task& task : send.message.leases().tasks()) {
        leases_[send.connection].push_back(task);
      }
    }
    for (const core::Reply& reply : effects.replies) replies_.emplace(reply.request, reply.body);
    for (const core::ExpandJob& job : effects.expand) {
      Append(Turn(core::RunExpandJob(job, &expander_, meta_.get(), blobs_.get())), &effects);
    }
    return effects;
  }

  core::Effects Advance(double seconds) {
    clock_.AdvanceSeconds(seconds);
    return Turn(core::Tick{});
  }

  // ---- clients ----
  absl::StatusOr<v1::SubmitSweepResponse> Submit(const v1::SweepSpec& spec) {
    const uint64_t request = next_++;
    Turn(core::Submit{request, spec});
    return Get<v1::SubmitSweepResponse>(request);
  }
  template <typename T>
  absl::StatusOr<T> Get(uint64_t request) {
    auto it = replies_.find(request);
    if (it == replies_.end()) return absl::UnavailableError("no reply yet");
    if (!it->second.ok()) return it->second.status();
    return std::get<T>(*it->second);
  }
  v1::GetSweepResponse Show(const std::string& sweep) {
    const uint64_t request = next_++;
    Turn(core::GetSweep{request, sweep, true});
    return *Get<v1::GetSweepResponse>(request);
  }
  v1::ListWorkersResponse Workers() {
    const uint64_t request = next_++;
    Turn(core::ListWorkers{request});
    return *Get<v1::ListWorkersResponse>(request);
  }
  uint64_t NewId() { return next_++; }

  // ---- workers ----
  static v1::Register Info(const std::string& name, int compile, int profile) {
    v1::Register r;
    r.set_worker(name);
    r.set_instance("1");
    r.set_compile_slots(compile);
    r.set_profile_slots(profile);
    *r.add_archs() = FakeArch();
    r.add_compile_targets("x86-64");
    r.set_compiler_build("build-1");
    r.set_protocol(1);
    return r;
  }
  uint64_t Attach(const v1::Register& info) {
    const uint64_t connection = next_++;
    Turn(core::WorkerAttached{connection});
    v1::WorkerMessage message;
    *message.mutable_register_() = info;
    last_ = Turn(core::WorkerSaid{connection, message});
    return connection;
  }
  uint64_t Attach(const std::string& name, int compile, int profile) {
    return Attach(Info(name, compile, profile));
  }
  // What the last Attach caused.
  const core::Effects& last() const { return last_; }

  core::Effects Say(uint64_t connection, const v1::TaskResult& result) {
    v1::WorkerMessage message;
    *message.mutable_results()->add_results() = result;
    return Turn(core::WorkerSaid{connection, message});
  }
  core::Effects Beat(uint64_t connection, const std::vector<v1::Task>& running) {
    v1::WorkerMessage message;
    message.mutable_heartbeat();
    for (const v1::Task& task : running) {
      v1::RunningTask* r = message.mutable_heartbeat()->add_running();
      r->set_task(task.id());
      r->set_epoch(task.epoch());
    }
    return Turn(core::WorkerSaid{connection, message});
  }
  // Leases that a connection got and that Take has not returned yet.
  std::vector<v1::Task> Take(uint64_t connection) { return std::exchange(leases_[connection], {}); }

  // The result that an honest worker would send.
  v1::TaskResult Run(const v1::Task& task, const std::string& worker = "w",
                     const std::string& build = "build-1") {
    v1::TaskResult result;
    result.set_task(task.id());
    result.set_epoch(task.epoch());
    v1::SweepInputs inputs;
    if (!task.inputs_digest().empty()) {
      KILN_CHECK(inputs.ParseFromString(*blobs_->ReadAll(task.inputs_digest())));
    }
    const FakeSpace space = SpaceOf(space_, inputs);
    for (const v1::TaskCandidate& c : task.candidates()) {
      v1::CandidateResult* out = result.add_candidates();
      out->set_config(c.config());
      if (task.kind() == v1::TASK_COMPILE || task.kind() == v1::TASK_COMPILE_RAGGED ||
          task.kind() == v1::TASK_COMPILE_PLAIN) {
        std::string bytes;
        const bool plain = task.kind() == v1::TASK_COMPILE_PLAIN;
        const std::string config = absl::StrCat(c.config(), plain ? ",kiln.plain=1" : "");
        *out->mutable_artifact() = space.Compile(inputs, config, build, &bytes);
        KILN_CHECK(blobs_->PutBytes(bytes).ok());
      } else {
        *out->mutable_measurement() =
            space.Measure(c.config(), absl::StrCat(task.kind(), "-", task.round()),
                          std::max(1, task.samples()), worker + "/cpu");
        if (task.kind() == v1::TASK_FINALS) {
          *out->mutable_fresh() =
              space.Measure(c.config(), "fresh", task.samples(), worker + "/cpu");
        }
      }
    }
    return result;
  }

  // Serves these connections until nothing is leased any more.
  void Serve(const std::vector<uint64_t>& connections) {
    for (bool any = true; any;) {
      any = false;
      for (uint64_t connection : connections) {
        for (const v1::Task& task : Take(connection)) {
          any = true;
          Say(connection, Run(task));
        }
      }
    }
  }

  core::Core* core() { return core_.get(); }
  SimulatedClock* clock() { return &clock_; }
  store::MetaStore* meta() { return meta_.get(); }
  store::BlobStore* blobs() { return blobs_.get(); }

 private:
  static void Append(core::Effects from, core::Effects* to) {
    for (auto& send : from.sends) to->sends.push_back(std::move(send));
    for (auto& publish : from.publishes) to->publishes.push_back(std::move(publish));
  }

  core::Options options_;
  SimulatedClock clock_;
  FakeExpander expander_;
  SpaceModel space_;
  std::unique_ptr<store::MetaStore> meta_;
  std::unique_ptr<store::BlobStore> blobs_;
  std::unique_ptr<core::Core> core_;
  uint64_t term_ = 0;
  uint64_t next_ = 1;
  std::map<uint64_t, absl::StatusOr<core::ReplyBody>> replies_;
  std::map<uint64_t, std::vector<v1::Task>> leases_;
  core::Effects last_;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_UNIT_COORDINATOR_CORE_RIG_H_

// The agent with everything outside it in memory.
#include "worker/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/unit/worker/memory_link.h"
#include "worker/elapsed.h"

namespace kiln::worker {
namespace {

// What the fake executors do with a config that has these words in it.
struct Behaviour {
  std::atomic<int> compiled{0};
  std::atomic<int> running{0};
  std::atomic<int> most_running{0};
  std::atomic<int> profiling{0};
  std::atomic<int> overlaps{0};  // a compile and a measurement at the same time
  std::atomic<bool> starts{true};
  std::atomic<int> first_starts{0};   // of executors
  std::atomic<int> late_start{-1};    // the slot whose first start fails
  std::map<int, std::string> models;  // of slots, of several kinds
  std::string missing;                // what every child does without
  std::mutex mutex;
  std::map<std::string, int> measured_by;    // config -> slot
  std::map<std::string, std::string> plain;  // config -> what lay at its plain_path
};

class FakeExecutor : public CompileExecutor, public ProfileExecutor {
 public:
  explicit FakeExecutor(Behaviour* behaviour, int index = 0)
      : behaviour_(behaviour), index_(index) {}

  absl::StatusOr<v1::ChildHello> Start() override {
    if (!std::exchange(started_, true)) {
      ++behaviour_->first_starts;
      if (behaviour_->late_start == index_) return absl::UnavailableError("no context yet");
    }
    if (!behaviour_->starts) return absl::UnavailableError("the child does not start");
    v1::ChildHello hello;
    hello.set_compiler_build("b1");
    hello.add_archs()->set_name("x86-64-v3");
    if (!behaviour_->missing.empty()) hello.add_notes(behaviour_->missing);
    const auto model = behaviour_->models.find(index_);
    if (model != behaviour_->models.end()) {
      std::this_thread::sleep_for(
          std::chrono::milliseconds(30 * index_));  // a driver takes its time
      hello.mutable_archs(0)->set_name("sm_90a");
      hello.mutable_archs(0)->set_device_model(model->second);
    }
    return hello;
  }
  absl::StatusOr<CompileOutcome> Compile(const v1::SweepInputs& inputs, const std::string& config,
                                         double limit_seconds) override {
    int now = ++behaviour_->running;
    behaviour_->most_running = std::max(behaviour_->most_running.load(), now);
    if (behaviour_->profiling > 0) ++behaviour_->overlaps;
    absl::Status status = Work(config);
    --behaviour_->running;
    if (!status.ok()) return status;
    ++behaviour_->compiled;
    CompileOutcome outcome;
    outcome.result.set_config(config);
    if (absl::StrContains(config, "bad")) {
      outcome.result.mutable_failure()->set_stage(v1::Failure::COMPILE);
      return outcome;
    }
    outcome.bundle = "bundle of " + config;
    outcome.result.mutable_artifact()->set_digest(Sha256Hex(outcome.bundle));
    return outcome;
  }
  absl::StatusOr<ProfileOutcome> Profile(const v1::ProfileRequest& request,
                                         double limit_seconds) override {
    ProfileOutcome outcome;
    for (const v1::ProfileCandidate& candidate : request.candidates()) {
      ++behaviour_->profiling;
      if (behaviour_->running > 0) ++behaviour_->overlaps;
      absl::Status status = Work(candidate.config());
      --behaviour_->profiling;
      if (absl::StrContains(candidate.config(), "drift")) {
        outcome.quarantined = "13 % slower";
        return outcome;
      }
      if (!status.ok()) return status;
      if (absl::StrContains(candidate.config(), "company")) {
        outcome.unavailable = "not measured here: process 7";
        return outcome;
      }
      {
        std::lock_guard<std::mutex> lock(behaviour_->mutex);
        behaviour_->measured_by[candidate.config()] = index_;
        std::ifstream plain(candidate.plain_path());
        std::getline(plain, behaviour_->plain[candidate.config()]);
      }
      v1::CandidateResult& result = outcome.results.emplace_back();
      result.set_config(candidate.config());
      result.mutable_measurement()->set_median_ns(7);
    }
    return outcome;
  }
  void Interrupt() override { interrupted_ = true; }
  void ClearInterrupt() override { interrupted_ = false; }

 private:
  absl::Status Work(const std::string& config) {
    if (!behaviour_->starts) return absl::UnavailableError("the child does not start");
    if (absl::StrContains(config, "slow")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    while (absl::StrContains(config, "hang") && !interrupted_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return interrupted_ ? absl::CancelledError("interrupted") : absl::OkStatus();
  }

  Behaviour* behaviour_;
  const int index_;
  bool started_ = false;
  std::atomic<bool> interrupted_{false};
};

class AgentTest : public testing::Test {
 protected:
  AgentTest() {
    static const std::string base = std::filesystem::temp_directory_path().string();
    std::string pattern = base + "/kiln-agent-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    cache_ = *BlobCache::Open(folder_, 1 << 20, &link_);
    inputs_ = link_.AddBlob(v1::SweepInputs().SerializeAsString());
    artifact_ = link_.AddBlob("artifact");
    options_.name = "w";
    options_.compile_slots = 3;
    options_.drain_seconds = 0.2;
    options_.acknowledge_seconds = 5;
    options_.seed = 1;
  }
  ~AgentTest() override {
    Stop();
    std::filesystem::remove_all(folder_);
  }

  void Start() {
    agent_ = std::make_unique<Agent>(
        options_, &link_, cache_.get(), &metrics_,
        [this](int) { return std::make_unique<FakeExecutor>(&behaviour_); },
        [this](int index) { return std::make_unique<FakeExecutor>(&behaviour_, index); });
    thread_ = std::thread([this] { status_ = agent_->Run(); });
  }
  void Stop() {
    if (!thread_.joinable()) return;
    agent_->Drain("the test ends");
    agent_->Drain("now");
    if (line_ != nullptr) Acknowledge(line_.get());
    thread_.join();
    EXPECT_TRUE(status_.ok()) << status_;
  }
  // Welcomes the attachment number `index`.
  void Welcome(size_t index) {
    line_ = link_.WaitLine(index);
    ASSERT_NE(line_, nullptr);
    ASSERT_TRUE(line_->WaitSaid([](const auto& message) { return message.has_register_(); }));
    v1::CoordinatorMessage message;
    message.mutable_welcome()->set_heartbeat_seconds(0.05);
    line_->Say(message);
  }
  void Acknowledge(MemoryLink::Line* line) {
    v1::CoordinatorMessage message;
    for (const auto& [id, result] : Results()) message.mutable_acknowledge()->add_tasks(id);
    line->Say(message);
  }
  v1::Task MakeTask(const std::string& id, v1::TaskKind kind,
                    const std::vector<std::string>& configs) {
    v1::Task task;
    task.set_id(id);
    task.set_epoch(3);
    task.set_kind(kind);
    task.set_inputs_digest(inputs_);
    for (const std::string& config : configs) {
      task.add_candidates()->set_config(config);
      task.mutable_candidates()->rbegin()->set_artifact_digest(artifact_);
    }
    return task;
  }
  void Lease(const v1::Task& task) {
    v1::CoordinatorMessage message;
    *message.mutable_leases()->add_tasks() = task;
    line_->Say(message);
  }
  // All results on the present line, by task.
  std::map<std::string, v1::TaskResult> Results() {
    std::map<std::string, v1::TaskResult> results;
    std::lock_guard<std::mutex> lock(line_->mutex);
    for (const v1::WorkerMessage& message : line_->said) {
      for (const v1::TaskResult& result : message.results().results()) {
        results[result.task()] = result;
      }
    }
    return results;
  }
  v1::TaskResult WaitResult(const std::string& id) {
    bool there = line_->WaitSaid([&](const v1::WorkerMessage& message) {
      for (const v1::TaskResult& result : message.results().results()) {
        if (result.task() == id) return true;
      }
      return false;
    });
    EXPECT_TRUE(there) << id;
    return there ? Results()[id] : v1::TaskResult();
  }
  bool WaitHeld(const std::string& id) {
    return line_->WaitSaid([&](const v1::WorkerMessage& message) {
      for (const v1::RunningTask& running : message.heartbeat().running()) {
        if (running.task() == id) return true;
      }
      return false;
    });
  }

  std::string folder_;
  MemoryLink link_;
  std::unique_ptr<BlobCache> cache_;
  Metrics metrics_;
  AgentOptions options_;
  Behaviour behaviour_;
  std::string inputs_;
  std::string artifact_;
  std::unique_ptr<Agent> agent_;
  std::shared_ptr<MemoryLink::Line> line_;
  std::thread thread_;
  absl::Status status_;
};

// A proof's objects: the compiler is asked for plain code, the result is the candidate's; the
// runner gets both artifacts.
TEST_F(AgentTest, PlainCodeIsOfTheCandidate) {
  Start();
  Welcome(0);
  Lease(MakeTask("c", v1::TASK_COMPILE_PLAIN, {"a=1,z=2"}));
  const v1::TaskResult compiled = WaitResult("c");
  ASSERT_EQ(compiled.candidates_size(), 1);
  EXPECT_EQ(compiled.candidates(0).config(), "a=1,z=2");
  EXPECT_EQ(compiled.candidates(0).artifact().digest(),
            Sha256Hex("bundle of a=1,kiln.plain=1,z=2"));
  v1::Task check = MakeTask("p", v1::TASK_CHECK_PLAIN, {"a=1,z=2"});
  check.mutable_candidates(0)->set_plain_digest(link_.AddBlob("plain artifact"));
  Lease(check);
  EXPECT_EQ(WaitResult("p").candidates_size(), 1);
  EXPECT_EQ(behaviour_.plain["a=1,z=2"], "plain artifact");
  check.set_id("lost");
  check.mutable_candidates(0)->set_plain_digest(std::string(64, '0'));
  Lease(check);
  EXPECT_NE(WaitResult("lost").released().find("lost inputs"), std::string::npos);
}

// What was measured before counts; the rest goes back, and the coordinator hears it first.
TEST_F(AgentTest, TellsWhereAndWhenItMeasured) {
  options_.devices = {"gpu3"};
  Start();
  Welcome(0);
  const int64_t before = SteadyNs();
  Lease(MakeTask("p", v1::TASK_SCREEN, {"a=1", "a=2"}));
  const v1::TaskResult result = WaitResult("p");
  EXPECT_EQ(result.device(), "gpu3");
  EXPECT_GE(result.began_ns(), before);
  EXPECT_GE(result.ended_ns(), result.began_ns());
  double sum = 0;
  for (const auto& [stage, seconds] : result.seconds()) sum += seconds;
  const double whole = static_cast<double>(result.ended_ns() - result.began_ns()) / 1e9;
  EXPECT_LE(sum, whole);
  EXPECT_TRUE(line_->WaitSaid([&](const v1::WorkerMessage& message) {
    return message.has_results() && message.results().sent_ns() >= result.ended_ns();
  }));
}

TEST_F(AgentTest, AQuarantinedDeviceIsToldAndMeasuresNoMore) {
  options_.devices = {"gpu0"};
  Start();
  Welcome(0);
  Lease(MakeTask("t-1", v1::TASK_SCREEN, {"a=1", "drift=1", "a=2"}));
  const v1::TaskResult result = WaitResult("t-1");
  ASSERT_EQ(result.candidates_size(), 3);
  EXPECT_TRUE(result.candidates(0).has_measurement());
  EXPECT_TRUE(result.candidates(1).not_run());
  EXPECT_TRUE(result.candidates(2).not_run());
  {
    std::lock_guard<std::mutex> lock(line_->mutex);
    bool told = false;
    for (const v1::WorkerMessage& message : line_->said) {
      for (const v1::QuarantinedDevice& device : message.heartbeat().quarantined()) {
        EXPECT_EQ(device.device(), "gpu0");
        EXPECT_EQ(device.reason(), "13 % slower");
        told = true;
      }
      if (message.has_results()) EXPECT_TRUE(told) << "the results came first";
    }
  }
  Lease(MakeTask("t-2", v1::TASK_SCREEN, {"a=3"}));
  EXPECT_THAT(WaitResult("t-2").released(), testing::HasSubstr("quarantined: 13 % slower"));
  Lease(MakeTask("t-3", v1::TASK_COMPILE, {"a=4"}));
  EXPECT_TRUE(WaitResult("t-3").candidates(0).has_artifact()) << "compiling goes on";
  // A new attachment hears it at once.
  line_->Break();
  Welcome(1);
  std::lock_guard<std::mutex> lock(line_->mutex);
  ASSERT_EQ(line_->said.front().register_().quarantined_size(), 1);
}

TEST_F(AgentTest, OneOfTwoDevicesGoesOn) {
  options_.profile_slots = 2;
  Start();
  Welcome(0);
  Lease(MakeTask("t-1", v1::TASK_SCREEN, {"drift=1"}));
  EXPECT_THAT(WaitResult("t-1").released(), testing::HasSubstr("quarantined"));
  for (int i = 2; i < 6; ++i) {
    const std::string id = absl::StrCat("t-", i);
    Lease(MakeTask(id, v1::TASK_SCREEN, {"a=1"}));
    EXPECT_TRUE(WaitResult(id).candidates(0).has_measurement());
  }
}

TEST_F(AgentTest, WhatItDoesWithoutIsTold) {
  options_.compile_slots = 2;
  options_.devices = {"gpu0"};
  behaviour_.missing = "no CUPTI";
  Start();
  Welcome(0);
  std::lock_guard<std::mutex> lock(line_->mutex);
  EXPECT_THAT(line_->said.front().register_().notes(),
              testing::ElementsAre("compiling does without: no CUPTI",
                                   testing::EndsWith("does without: no CUPTI")));
}

// Each device is told with its own record, and measures what is for its kind.
TEST_F(AgentTest, DevicesOfSeveralKindsGetTheirOwnTasks) {
  options_.profile_slots = 4;
  options_.devices = {"gpu0", "gpu1", "gpu2", "gpu3"};
  options_.mixed_devices = true;
  behaviour_.models = {{0, "H200"}, {1, "A100"}, {2, "H200"}, {3, "B200"}};
  behaviour_.late_start = 3;
  Start();
  Welcome(0);
  {
    std::lock_guard<std::mutex> lock(line_->mutex);
    const v1::Register& said = line_->said.front().register_();
    ASSERT_EQ(said.slots_size(), 3) << "what does not start is of no known kind";
    EXPECT_EQ(said.profile_slots(), 3);
    EXPECT_EQ(said.slots(1).device(), "gpu1");
    EXPECT_EQ(said.slots(1).arch().device_model(), "A100");
    EXPECT_EQ(said.slots(2).arch().device_model(), "H200");
    ASSERT_EQ(said.archs_size(), 2) << "each kind once";
    EXPECT_EQ(said.archs(1).device_model(), "A100");
  }
  const auto lease = [&](int i, const std::string& model, const std::string& config) {
    v1::Task task = MakeTask(absl::StrCat("t-", i), v1::TASK_SCREEN, {config});
    task.set_arch("sm_90a");
    task.set_device_model(model);
    Lease(task);
  };
  for (int i = 0; i < 8; ++i) lease(i, i % 2 == 0 ? "A100" : "H200", absl::StrCat("slow=", i));
  for (int i = 0; i < 8; ++i) WaitResult(absl::StrCat("t-", i));
  for (const auto& [config, slot] : behaviour_.measured_by) {
    const bool even = (config.back() - '0') % 2 == 0;
    EXPECT_EQ(slot == 1, even) << config;
  }
  // The only one of its kind that is out gives its tasks back; the others go on.
  lease(8, "A100", "drift=1");
  EXPECT_THAT(WaitResult("t-8").released(), testing::HasSubstr("quarantined"));
  lease(9, "A100", "a=9");
  EXPECT_THAT(WaitResult("t-9").released(), testing::HasSubstr("quarantined"));
  lease(10, "H200", "a=10");
  EXPECT_TRUE(WaitResult("t-10").candidates(0).has_measurement());
}

TEST_F(AgentTest, WhatADeviceCouldNotMeasureForNowIsToldWithWhatItDid) {
  Start();
  Welcome(0);
  Lease(MakeTask("t-1", v1::TASK_SCREEN, {"a=1", "company=1"}));
  const v1::TaskResult result = WaitResult("t-1");
  EXPECT_EQ(result.unavailable(), "not measured here: process 7");
  EXPECT_EQ(result.released(), "");
  EXPECT_TRUE(result.candidates(0).has_measurement());
  EXPECT_TRUE(result.candidates(1).not_run());
}

// A driver takes seconds to start: no device waits with that for its first task.
TEST_F(AgentTest, EveryDeviceIsOpenedAtTheStartAndOneThatIsNotReadyIsTriedAgain) {
  options_.profile_slots = 3;
  behaviour_.late_start = 2;
  Start();
  Welcome(0);
  const auto begin = std::chrono::steady_clock::now();
  while (behaviour_.first_starts < 4 && SecondsSince(begin) < 20) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(behaviour_.first_starts, 4) << "three devices and the first compile slot";
  for (int i = 0; i < 6; ++i) {
    Lease(MakeTask(absl::StrCat("t-", i), v1::TASK_SCREEN, {"slow=1"}));
  }
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(WaitResult(absl::StrCat("t-", i)).candidates(0).has_measurement());
  }
}

TEST_F(AgentTest, CompilesAndPutsBlobsBeforeItReports) {
  Start();
  Welcome(0);
  Lease(MakeTask("c", v1::TASK_COMPILE, {"a=1", "a=bad", "a=3"}));
  v1::TaskResult result = WaitResult("c");
  EXPECT_EQ(result.epoch(), 3u);
  EXPECT_TRUE(link_.HasBlob(result.candidates(0).artifact().digest()));
  EXPECT_EQ(result.candidates(1).failure().worker(), "w");
  EXPECT_TRUE(link_.HasBlob(result.candidates(2).artifact().digest()));
  Acknowledge(line_.get());
}

TEST_F(AgentTest, OneCompileTaskUsesAllSlots) {
  Start();
  Welcome(0);
  std::vector<std::string> configs;
  for (int i = 0; i < 9; ++i) configs.push_back(absl::StrCat("slow=", i));
  Lease(MakeTask("c", v1::TASK_COMPILE, configs));
  WaitResult("c");
  EXPECT_EQ(behaviour_.most_running, 3);
}

// On a CPU the compilers would disturb the measurement; and neither may starve the other.
TEST_F(AgentTest, NothingIsCompiledWhileSomethingIsMeasuredAndTheyTakeTurns) {
  Start();
  Welcome(0);
  std::vector<std::string> many;
  for (int i = 0; i < 24; ++i) many.push_back(absl::StrCat("slow=", i));
  Lease(MakeTask("c", v1::TASK_COMPILE, many));
  for (int i = 0; i < 4; ++i) {
    Lease(MakeTask(absl::StrCat("p", i), v1::TASK_SCREEN, {"slow=1"}));
  }
  WaitResult("p3");
  EXPECT_LT(behaviour_.compiled, 24) << "measurements wait for no more than a turn";
  EXPECT_GE(behaviour_.compiled, 6) << "and compiles have theirs";
  WaitResult("c");
  EXPECT_EQ(behaviour_.overlaps, 0);
}

TEST_F(AgentTest, OnOtherDevicesTheyRunTogether) {
  options_.exclusive_measurement = false;
  Start();
  Welcome(0);
  Lease(MakeTask("c", v1::TASK_COMPILE, {"hang=1"}));
  ASSERT_TRUE(WaitHeld("c"));
  Lease(MakeTask("p", v1::TASK_SCREEN, {"a=1"}));
  EXPECT_EQ(WaitResult("p").candidates(0).measurement().median_ns(), 7);
}

TEST_F(AgentTest, BlobCallsAreRetriedWhileTheNetworkIsGone) {
  Start();
  Welcome(0);
  link_.FailBlobCalls(6);
  Lease(MakeTask("c", v1::TASK_COMPILE, {"a=1"}));
  v1::TaskResult result = WaitResult("c");
  EXPECT_TRUE(link_.HasBlob(result.candidates(0).artifact().digest()));
  EXPECT_EQ(behaviour_.compiled, 1);
}

TEST_F(AgentTest, AReconnectReattachesRunningTasksAndOffersResultsAgain) {
  Start();
  Welcome(0);
  Lease(MakeTask("done", v1::TASK_COMPILE, {"a=1"}));
  WaitResult("done");
  Lease(MakeTask("running", v1::TASK_SCREEN, {"hang=1"}));
  ASSERT_TRUE(WaitHeld("running"));
  line_->Break();
  Welcome(1);
  v1::Register registration;
  {
    std::lock_guard<std::mutex> lock(line_->mutex);
    registration = line_->said[0].register_();
  }
  ASSERT_EQ(registration.running_size(), 1);
  EXPECT_EQ(registration.running(0).task(), "running");
  EXPECT_EQ(registration.running(0).epoch(), 3u);
  ASSERT_EQ(registration.unacknowledged_size(), 1);
  EXPECT_EQ(registration.unacknowledged(0).task(), "done");
  v1::CoordinatorMessage message;
  message.mutable_acknowledge()->add_tasks("done");
  line_->Say(message);
  EXPECT_EQ(behaviour_.compiled, 1) << "not run again";
}

TEST_F(AgentTest, WelcomeMayDropTasks) {
  Start();
  Welcome(0);
  Lease(MakeTask("p", v1::TASK_SCREEN, {"hang=1"}));
  ASSERT_TRUE(WaitHeld("p"));
  line_->Break();
  line_ = link_.WaitLine(1);
  v1::CoordinatorMessage message;
  message.mutable_welcome()->add_drop()->set_task("p");
  line_->Say(message);
  Lease(MakeTask("q", v1::TASK_SCREEN, {"a=1"}));
  EXPECT_EQ(WaitResult("q").candidates(0).measurement().median_ns(), 7);
  EXPECT_EQ(Results().count("p"), 0u);
}

TEST_F(AgentTest, ARejectedWorkerComesBackLater) {
  Start();
  line_ = link_.WaitLine(0);
  v1::CoordinatorMessage message;
  message.mutable_reject()->set_reason("test");
  line_->Say(message);
  auto begin = std::chrono::steady_clock::now();
  Welcome(1);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1500));
}

TEST_F(AgentTest, AChildThatCannotStartLaterReleasesTheTask) {
  Start();
  Welcome(0);
  behaviour_.starts = false;
  Lease(MakeTask("c", v1::TASK_COMPILE, {"a=1", "a=2", "a=3", "a=4", "a=5"}));
  v1::TaskResult result = WaitResult("c");
  EXPECT_NE(result.released().find("does not start"), std::string::npos);
  for (const v1::CandidateResult& candidate : result.candidates()) {
    EXPECT_TRUE(candidate.not_run()) << "no candidate is to blame";
  }
  Acknowledge(line_.get());
}

TEST_F(AgentTest, AChildThatCannotStartAtFirstEndsTheAgent) {
  behaviour_.starts = false;
  Start();
  thread_.join();
  EXPECT_TRUE(absl::IsUnavailable(status_)) << status_;
}

TEST_F(AgentTest, DrainFinishesReleasesSaysGoodbye) {
  options_.compile_slots = 1;
  Start();
  Welcome(0);
  Lease(MakeTask("c", v1::TASK_COMPILE, {"slow=1", "a=2", "a=3"}));
  Lease(MakeTask("p", v1::TASK_SCREEN, {"hang=1"}));
  Lease(MakeTask("q", v1::TASK_SCREEN, {"a=1"}));
  ASSERT_TRUE(WaitHeld("q"));
  agent_->Drain("test");
  EXPECT_TRUE(line_->WaitSaid([](const auto& message) { return message.has_drain(); }));
  EXPECT_EQ(WaitResult("q").released(), "draining: test");
  EXPECT_EQ(WaitResult("p").released(), "draining: test");
  WaitResult("c");
  Acknowledge(line_.get());
  thread_.join();
  EXPECT_TRUE(status_.ok()) << status_;
}

TEST_F(AgentTest, StaleResultsAreForgottenButNotCountedAsAcknowledged) {
  Start();
  Welcome(0);
  Lease(MakeTask("c", v1::TASK_COMPILE, {"a=1"}));
  WaitResult("c");
  v1::CoordinatorMessage message;
  message.mutable_acknowledge()->add_tasks("c");
  message.mutable_acknowledge()->add_stale("c");
  line_->Say(message);
  std::string text;
  for (int i = 0; i < 500; ++i) {
    text = metrics_.Render();
    if (absl::StrContains(text, "results_stale_total 1") &&
        absl::StrContains(text, "results_unacknowledged 0")) {
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(absl::StrContains(text, "kiln_worker_results_stale_total 1")) << text;
  EXPECT_TRUE(absl::StrContains(text, "kiln_worker_tasks_acknowledged_total 0")) << text;
  EXPECT_TRUE(absl::StrContains(text, "kiln_worker_results_unacknowledged 0")) << text;
}

TEST_F(AgentTest, EmptyTasksComeBackAtOnceInBatches) {
  Start();
  Welcome(0);
  constexpr int kTasks = 5000;
  v1::CoordinatorMessage message;
  for (int i = 0; i < kTasks; ++i) {
    *message.mutable_leases()->add_tasks() =
        MakeTask(absl::StrCat("e", i), v1::TASK_EMPTY, {"a=1"});
  }
  line_->Say(message);
  WaitResult(absl::StrCat("e", kTasks - 1));
  EXPECT_EQ(Results().size(), static_cast<size_t>(kTasks));
  {
    std::lock_guard<std::mutex> lock(line_->mutex);
    EXPECT_LT(line_->said.size(), 100u) << "results travel in batches";
  }
  Acknowledge(line_.get());
}

TEST_F(AgentTest, MetricsTellWhatHappened) {
  Start();
  Welcome(0);
  Lease(MakeTask("c", v1::TASK_COMPILE, {"a=1", "a=bad"}));
  WaitResult("c");
  Acknowledge(line_.get());
  Lease(MakeTask("p", v1::TASK_SCREEN, {"a=1"}));
  WaitResult("p");
  Acknowledge(line_.get());
  std::string text;
  for (int i = 0; i < 500; ++i) {
    text = metrics_.Render();
    if (absl::StrContains(text, "kiln_worker_tasks_acknowledged_total 2")) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (const char* line : {"kiln_worker_tasks_started_total{kind=\"compile\"} 1",
                           "kiln_worker_tasks_acknowledged_total 2", "kiln_worker_connected 1",
                           "kiln_worker_candidates_total{kind=\"compile\",outcome=\"compile\"} 1",
                           "kiln_worker_candidates_total{kind=\"compile\",outcome=\"ok\"} 1",
                           "kiln_worker_slots{kind=\"compile\"} 3",
                           "kiln_worker_step_seconds_count{step=\"compile\"} 2",
                           "kiln_worker_task_seconds_count{kind=\"screen\"} 1"}) {
    EXPECT_TRUE(absl::StrContains(text, line)) << line << " is not in\n" << text;
  }
}

}  // namespace
}  // namespace kiln::worker

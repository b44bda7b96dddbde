// The kiln-worker process against a scripted coordinator and scripted children: kill -9 of
// everything, at random moments, and what must survive it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/subprocess.h"
#include "tests/fault/worker/fake_coordinator.h"
#include "tests/fault/worker/paths.h"

namespace kiln::worker {
namespace {

using std::chrono::milliseconds;

class WorkerProcessTest : public testing::Test {
 protected:
  WorkerProcessTest() : address_("unix:" + scratch_.path() + "/farm.sock") {
    // The scratch folder is in the children's command lines: so the tests find them in /proc.
    for (const char* name : {"/kiln-compile", "/kiln-runner"}) {
      std::filesystem::copy_file(FakeChildPath(), scratch_.path() + name);
    }
    ::setenv("TMPDIR", scratch_.path().c_str(), 1);
    coordinator_ = std::make_unique<FakeCoordinator>(address_);
    inputs_ = coordinator_->AddBlob(v1::SweepInputs().SerializeAsString());
    artifact_ = coordinator_->AddBlob(v1::ArtifactBundle().SerializeAsString());
  }
  ~WorkerProcessTest() override {
    if (worker_ != nullptr) worker_->Kill();
    EXPECT_TRUE(ChildrenGone()) << "children outlive the worker";
  }

  // With `under_shell`, worker_ is a shell whose child the worker is.
  void StartWorker(std::vector<std::string> more = {}, bool under_shell = false) {
    SubprocessOptions options;
    options.argv = {WorkerPath(),
                    "--coordinator=" + address_,
                    "--name=w",
                    "--compile-slots=2",
                    "--devices=cpu",
                    "--work-dir=" + scratch_.path() + "/cache",
                    "--log-file=" + log(),
                    "--compile-binary=" + scratch_.path() + "/kiln-compile",
                    "--runner-binary=" + scratch_.path() + "/kiln-runner"};
    options.argv.insert(options.argv.end(), more.begin(), more.end());
    const std::vector<std::string> shell = {"/bin/sh", "-c", "\"$@\" & wait", "sh"};
    if (under_shell) options.argv.insert(options.argv.begin(), shell.begin(), shell.end());
    absl::StatusOr<std::unique_ptr<Subprocess>> worker = Subprocess::Spawn(options);
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
  }
  std::string log() const { return scratch_.path() + "/worker.log"; }
  std::string LogText() const {
    std::ifstream in(log());
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  int LogLines(const std::string& part) const {
    std::ifstream in(log());
    int count = 0;
    for (std::string line; std::getline(in, line);) {
      if (line.find(part) != std::string::npos) ++count;
    }
    return count;
  }

  v1::Task Compile(const std::string& id, const std::vector<std::string>& configs) {
    v1::Task task;
    task.set_id(id);
    task.set_epoch(1);
    task.set_kind(v1::TASK_COMPILE);
    task.set_inputs_digest(inputs_);
    for (const std::string& config : configs) task.add_candidates()->set_config(config);
    return task;
  }
  v1::Task Profile(const std::string& id, const std::vector<std::string>& configs) {
    v1::Task task = Compile(id, configs);
    task.set_kind(v1::TASK_SCREEN);
    for (v1::TaskCandidate& candidate : *task.mutable_candidates()) {
      candidate.set_artifact_digest(artifact_);
    }
    return task;
  }

  // The pids of live (not zombie) processes whose command line names this test's children.
  std::vector<pid_t> Children() const {
    std::vector<pid_t> pids;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      int pid = 0;
      if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
      std::ifstream in(entry.path() / "cmdline");
      std::string line;
      std::getline(in, line, '\0');
      if (line.find(scratch_.path() + "/kiln-") == 0) pids.push_back(pid);
    }
    return pids;
  }
  bool ChildrenGone() const {
    for (int i = 0; i < 200; ++i) {
      if (Children().empty()) return true;
      std::this_thread::sleep_for(milliseconds(20));
    }
    return false;
  }
  int Zombies() const {
    int zombies = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream in(entry.path() / "stat");
      std::string line;
      std::getline(in, line);
      size_t end = line.rfind(')');
      if (end == std::string::npos) continue;
      std::istringstream rest(line.substr(end + 1));
      std::string state;
      pid_t parent = 0;
      rest >> state >> parent;
      if (parent == worker_->pid() && state == "Z") ++zombies;
    }
    return zombies;
  }
  // Ends by SIGTERM; the exit code.
  int Terminate(double seconds = 20) {
    ::kill(worker_->pid(), SIGTERM);
    std::optional<ExitStatus> status = worker_->WaitExit(
        Subprocess::Clock::now() + std::chrono::duration_cast<Subprocess::Clock::duration>(
                                       std::chrono::duration<double>(seconds)));
    if (!status.has_value()) return -1;
    return status->signalled ? -status->code : status->code;
  }

  ScratchDir scratch_;
  std::string address_;
  std::unique_ptr<FakeCoordinator> coordinator_;
  std::string inputs_;
  std::string artifact_;
  std::unique_ptr<Subprocess> worker_;
};

TEST_F(WorkerProcessTest, RunsTasksAcknowledgesAndDrains) {
  StartWorker();
  ASSERT_TRUE(coordinator_->WaitRegistrations(1)) << LogText();
  v1::Register registration = coordinator_->registration(0);
  EXPECT_EQ(registration.worker(), "w");
  EXPECT_EQ(registration.compile_slots(), 2);
  EXPECT_EQ(registration.compiler_build(), "fake-build-1");
  ASSERT_EQ(registration.archs_size(), 1);
  EXPECT_EQ(registration.archs(0).name(), "x86-64-v3");

  coordinator_->Lease(Compile("c-1", {"id=1", "act=crash", "act=fail", "id=2"}));
  std::optional<v1::TaskResult> result = coordinator_->WaitResult("c-1");
  ASSERT_TRUE(result.has_value()) << LogText();
  ASSERT_EQ(result->candidates_size(), 4);
  EXPECT_TRUE(coordinator_->HasBlob(result->candidates(0).artifact().digest()));
  EXPECT_EQ(result->candidates(1).failure().stage(), v1::Failure::COMPILE);
  EXPECT_EQ(result->candidates(1).failure().worker(), "w");
  EXPECT_EQ(result->candidates(2).failure().stage(), v1::Failure::ELABORATE);
  EXPECT_TRUE(coordinator_->HasBlob(result->candidates(3).artifact().digest()));

  coordinator_->Lease(Profile("p-1", {"id=1", "act=crash", "id=2"}));
  result = coordinator_->WaitResult("p-1");
  ASSERT_TRUE(result.has_value()) << LogText();
  EXPECT_TRUE(result->candidates(0).has_measurement());
  EXPECT_EQ(result->candidates(1).failure().stage(), v1::Failure::RUN);
  EXPECT_TRUE(result->candidates(2).has_measurement());
  EXPECT_EQ(Zombies(), 0);

  EXPECT_EQ(Terminate(), 0) << LogText();
  EXPECT_TRUE(coordinator_->WaitDrain());
  EXPECT_EQ(LogLines("task started"), 2) << LogText();
  EXPECT_EQ(LogLines("task acknowledged"), 2) << LogText();
}

TEST_F(WorkerProcessTest, AResultThatWasNotAcknowledgedIsOfferedAgainAndNotRunAgain) {
  coordinator_->set_acknowledging(false);
  StartWorker();
  coordinator_->Lease(Compile("c-1", {"id=1"}));
  ASSERT_TRUE(coordinator_->WaitResult("c-1").has_value()) << LogText();
  coordinator_->Stop();
  coordinator_->set_acknowledging(true);
  std::this_thread::sleep_for(milliseconds(300));
  coordinator_->Start();
  ASSERT_TRUE(coordinator_->WaitRegistrations(2)) << LogText();
  EXPECT_EQ(coordinator_->registration(1).unacknowledged_size(), 1);
  EXPECT_EQ(coordinator_->registration(1).instance(), coordinator_->registration(0).instance());
  for (int i = 0; i < 500 && LogLines("task acknowledged") == 0; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(LogLines("task started"), 1) << LogText();
  EXPECT_EQ(LogLines("task acknowledged"), 1) << LogText();
  EXPECT_EQ(Terminate(), 0);
}

TEST_F(WorkerProcessTest, WorkGoesOnWhileTheCoordinatorIsAway) {
  StartWorker();
  std::vector<std::string> configs;
  for (int i = 0; i < 40; ++i) configs.push_back(absl::StrCat("act=slow,id=", i));
  coordinator_->Lease(Compile("c-1", configs));
  ASSERT_TRUE(coordinator_->WaitHeartbeatWith("c-1")) << LogText();
  coordinator_->Stop();
  std::this_thread::sleep_for(milliseconds(200));
  coordinator_->Start();
  ASSERT_TRUE(coordinator_->WaitRegistrations(2)) << LogText();
  std::optional<v1::TaskResult> result = coordinator_->WaitResult("c-1");
  ASSERT_TRUE(result.has_value()) << LogText();
  for (const v1::CandidateResult& candidate : result->candidates()) {
    EXPECT_TRUE(coordinator_->HasBlob(candidate.artifact().digest()))
        << candidate.ShortDebugString() << "\n"
        << LogText();
  }
  EXPECT_EQ(LogLines("task started"), 1);
}

TEST_F(WorkerProcessTest, KillingTheWorkerLeavesNoChildAndTheNextOneStartsClean) {
  StartWorker({"--share-cores"});  // or a waiting measurement keeps the second compiler from work
  coordinator_->Lease(Compile("c-1", {"act=hang,id=1", "act=hang,id=2"}));
  coordinator_->Lease(Profile("p-1", {"act=hang,id=3"}));
  ASSERT_TRUE(coordinator_->WaitHeartbeatWith("p-1")) << LogText();
  for (int i = 0; i < 500 && Children().size() < 3; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_GE(Children().size(), 3u);
  ::kill(worker_->pid(), SIGKILL);
  worker_->WaitExit(Subprocess::Clock::now() + std::chrono::seconds(10));
  EXPECT_TRUE(ChildrenGone());

  StartWorker();
  ASSERT_TRUE(coordinator_->WaitRegistrations(2)) << LogText();
  EXPECT_EQ(coordinator_->registration(1).running_size(), 0);
  EXPECT_NE(coordinator_->registration(1).instance(), coordinator_->registration(0).instance());
  coordinator_->Lease(Compile("c-2", {"id=1"}));
  EXPECT_TRUE(coordinator_->WaitResult("c-2").has_value()) << LogText();
}

TEST_F(WorkerProcessTest, RevokeKillsTheTaskAndFreesTheSlot) {
  StartWorker();
  coordinator_->Lease(Profile("p-1", {"act=hang"}));
  ASSERT_TRUE(coordinator_->WaitHeartbeatWith("p-1")) << LogText();
  coordinator_->Revoke("p-1");
  coordinator_->Lease(Profile("p-2", {"id=1"}));
  ASSERT_TRUE(coordinator_->WaitResult("p-2").has_value()) << LogText();
  EXPECT_EQ(coordinator_->Arrivals("p-1"), 0) << "a revoked task has no result";
  EXPECT_EQ(Zombies(), 0);
}

TEST_F(WorkerProcessTest, DrainReleasesWhatDoesNotEnd) {
  StartWorker({"--drain-seconds=0.5"});
  coordinator_->Lease(Profile("p-1", {"act=hang"}));
  coordinator_->Lease(Profile("p-2", {"id=1"}));
  ASSERT_TRUE(coordinator_->WaitHeartbeatWith("p-2")) << LogText();
  EXPECT_EQ(Terminate(), 0) << LogText();
  std::optional<v1::TaskResult> running = coordinator_->WaitResult("p-1", 1);
  std::optional<v1::TaskResult> waiting = coordinator_->WaitResult("p-2", 1);
  ASSERT_TRUE(running.has_value() && waiting.has_value()) << LogText();
  EXPECT_NE(running->released(), "");
  EXPECT_TRUE(running->candidates(0).not_run());
  EXPECT_FALSE(running->candidates(0).has_failure());
  EXPECT_NE(waiting->released(), "");
}

// The coordinator puts lost inputs again and compiles lost artifacts again: it needs the words and
// the digest.
TEST_F(WorkerProcessTest, BadBlobsReleaseTheTaskAndAreNamed) {
  StartWorker();
  v1::Task lost = Compile("c-1", {"id=1"});
  lost.set_inputs_digest(Sha256Hex("nobody has this"));
  coordinator_->Lease(lost);
  std::optional<v1::TaskResult> result = coordinator_->WaitResult("c-1");
  ASSERT_TRUE(result.has_value()) << LogText();
  EXPECT_NE(result->released().find("lost inputs"), std::string::npos) << result->released();
  EXPECT_NE(result->released().find(lost.inputs_digest()), std::string::npos);
  EXPECT_TRUE(result->candidates(0).not_run());

  std::string rotten = coordinator_->AddBlob("an artifact");
  coordinator_->CorruptBlob(rotten);
  v1::Task task = Profile("p-1", {"id=1", "id=2"});
  task.mutable_candidates(0)->set_artifact_digest(rotten);
  coordinator_->Lease(task);
  result = coordinator_->WaitResult("p-1");
  ASSERT_TRUE(result.has_value()) << LogText();
  EXPECT_NE(result->released().find("lost inputs"), std::string::npos) << result->released();
  EXPECT_NE(result->released().find(rotten), std::string::npos);
  EXPECT_TRUE(result->candidates(0).not_run());
  EXPECT_TRUE(result->candidates(1).not_run());
}

// A damaged file in the cache is noticed and fetched anew.
TEST_F(WorkerProcessTest, ADamagedCacheFileIsNotUsed) {
  StartWorker();
  coordinator_->Lease(Profile("p-1", {"id=1"}));
  ASSERT_TRUE(coordinator_->WaitResult("p-1").has_value()) << LogText();
  std::ofstream(scratch_.path() + "/cache/blobs/" + artifact_) << "scribble";
  coordinator_->Lease(Profile("p-2", {"id=2"}));
  std::optional<v1::TaskResult> result = coordinator_->WaitResult("p-2");
  ASSERT_TRUE(result.has_value()) << LogText();
  EXPECT_TRUE(result->candidates(0).has_measurement());
}

// Children die by kill -9 at random moments. Each task ends, each candidate has an outcome, and
// nothing is left behind. (A worker whose first child is killed again and again does not start.)
TEST_F(WorkerProcessTest, KillingChildrenAtRandomLosesNoTask) {
  StartWorker();
  ASSERT_TRUE(coordinator_->WaitRegistrations(1)) << LogText();
  constexpr int kTasks = 30;
  for (int i = 0; i < kTasks; ++i) {
    std::vector<std::string> configs;
    for (int j = 0; j < 4; ++j) configs.push_back(absl::StrCat("act=slow,id=", i * 4 + j));
    coordinator_->Lease(i % 2 == 0 ? Compile(absl::StrCat("t-", i), configs)
                                   : Profile(absl::StrCat("t-", i), configs));
  }
  std::mt19937 random(7);
  for (int kill = 0; kill < 25; ++kill) {
    std::this_thread::sleep_for(milliseconds(random() % 60));
    std::vector<pid_t> children = Children();
    if (!children.empty()) ::kill(children[random() % children.size()], SIGKILL);
  }
  for (int i = 0; i < kTasks; ++i) {
    std::optional<v1::TaskResult> result = coordinator_->WaitResult(absl::StrCat("t-", i));
    ASSERT_TRUE(result.has_value()) << i << "\n" << LogText();
    // A child may die before its hello: then the task is released, or, when some candidates have
    // run, the others are marked for another lease. Nothing is without one of these.
    bool some = !result->released().empty();
    for (const v1::CandidateResult& candidate : result->candidates()) {
      const bool ran =
          candidate.has_artifact() || candidate.has_measurement() || candidate.has_failure();
      EXPECT_NE(ran, candidate.not_run()) << candidate.DebugString();
      some = some || ran;
    }
    EXPECT_TRUE(some) << result->DebugString();
  }
  for (int i = 0; i < 300 && Zombies() > 0; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(Zombies(), 0) << "a child that died while it was idle is buried soon";
  EXPECT_EQ(Terminate(), 0) << LogText();
}

TEST_F(WorkerProcessTest, HeartbeatsComeMoreOftenThanAsked) {
  StartWorker();
  ASSERT_TRUE(coordinator_->WaitRegistrations(1)) << LogText();
  int before = coordinator_->heartbeats();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  EXPECT_GE(coordinator_->heartbeats() - before, 10) << "0.2 s were asked for";
}

TEST_F(WorkerProcessTest, AMissingChildBinaryIsAClearError) {
  StartWorker({"--runner-binary=/nonexistent/kiln-runner"});
  std::optional<ExitStatus> status =
      worker_->WaitExit(Subprocess::Clock::now() + std::chrono::seconds(20));
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->code, 1);
  EXPECT_NE(worker_->TakeOutput().find("/nonexistent/kiln-runner"), std::string::npos);
}

// In the middle of a task, and with the coordinator gone too: nothing is drained.
TEST_F(WorkerProcessTest, ItEndsAtOnceWithItsParentIfItIsTold) {
  StartWorker({"--die-with-parent"}, /*under_shell=*/true);
  coordinator_->Lease(Profile("p-1", {"act=hang"}));
  ASSERT_TRUE(coordinator_->WaitHeartbeatWith("p-1")) << LogText();
  coordinator_->Stop();
  const int lock = ::open((scratch_.path() + "/cache/lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(lock, 0);
  ASSERT_NE(::flock(lock, LOCK_EX | LOCK_NB), 0) << "the worker holds its folder";
  ::kill(worker_->pid(), SIGKILL);
  bool free = false;
  for (int i = 0; i < 200 && !free; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
    free = ::flock(lock, LOCK_EX | LOCK_NB) == 0;
  }
  ::close(lock);
  EXPECT_TRUE(free) << "the worker outlives its parent by two seconds";
  EXPECT_TRUE(ChildrenGone());
}

TEST_F(WorkerProcessTest, TwoWorkersDoNotShareAFolder) {
  StartWorker();
  ASSERT_TRUE(coordinator_->WaitRegistrations(1)) << LogText();
  std::unique_ptr<Subprocess> first = std::move(worker_);
  StartWorker();
  std::optional<ExitStatus> status =
      worker_->WaitExit(Subprocess::Clock::now() + std::chrono::seconds(20));
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->code, 1);
  EXPECT_NE(worker_->TakeOutput().find("another worker uses"), std::string::npos);
}

}  // namespace
}  // namespace kiln::worker

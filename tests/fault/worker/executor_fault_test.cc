// What misbehaving children cost: one candidate each, never the slot.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>

#include "tests/fault/worker/paths.h"
#include "worker/compile_executor.h"
#include "worker/profile_executor.h"

namespace kiln::worker {
namespace {

class ExecutorFaultTest : public testing::Test {
 protected:
  ExecutorFaultTest() {
    ::setenv("TMPDIR", scratch_.path().c_str(), 1);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  }

  ChildOptions Options(const std::string& role) {
    ChildOptions options;
    options.binary = FakeChildPath();
    options.arguments = {role};
    options.memory_bytes = int64_t{1} << 30;
    options.start_seconds = 10;
    options.on_death = [this](const std::string&) { ++deaths_; };
    return options;
  }

  ScratchDir scratch_;
  int deaths_ = 0;
};

struct Expectation {
  std::string act;
  v1::Failure::Stage stage;
  std::string message;  // a part of it
  bool killed = true;
};

const Expectation kCompileActs[] = {
    {"fail", v1::Failure::ELABORATE, "scripted failure", false},
    {"crash", v1::Failure::COMPILE, "signal 11"},
    {"abort", v1::Failure::COMPILE, "signal 6"},
    {"exit", v1::Failure::COMPILE, "exit code 3"},
    {"hang", v1::Failure::RESOURCES, "longer than"},
    {"flood_hang", v1::Failure::RESOURCES, "longer than"},
    {"truncate", v1::Failure::COMPILE, "protocol"},
    {"garbage", v1::Failure::COMPILE, "protocol"},
    {"oversize", v1::Failure::COMPILE, "protocol"},
    {"bad_digest", v1::Failure::COMPILE, "does not match its digest", false},
    {"empty", v1::Failure::COMPILE, "neither an artifact nor a failure", false},
    {"kill_twice", v1::Failure::COMPILE, "killed from outside"},
    {"orphan", v1::Failure::COMPILE, "signal 6"},
};

TEST_F(ExecutorFaultTest, EveryCompileMisbehaviourCostsOneCandidate) {
  CompileLimits limits;
  limits.seconds = 1;
  ChildCompileExecutor executor(Options("compile"), limits);
  for (const Expectation& expected : kCompileActs) {
    absl::StatusOr<CompileOutcome> outcome =
        executor.Compile(v1::SweepInputs(), "act=" + expected.act, 0);
    ASSERT_TRUE(outcome.ok()) << expected.act << ": " << outcome.status();
    const v1::Failure& failure = outcome->result.failure();
    EXPECT_EQ(failure.stage(), expected.stage) << expected.act << ": " << failure.DebugString();
    EXPECT_NE(failure.message().find(expected.message), std::string::npos)
        << expected.act << ": " << failure.message();
    EXPECT_EQ(failure.killed_child(), expected.killed) << expected.act;
    EXPECT_TRUE(outcome->bundle.empty()) << expected.act;

    outcome = executor.Compile(v1::SweepInputs(), "act=ok", 0);
    ASSERT_TRUE(outcome.ok()) << "after " << expected.act << ": " << outcome.status();
    EXPECT_FALSE(outcome->result.has_failure()) << "after " << expected.act;
    EXPECT_FALSE(outcome->bundle.empty());
  }
}

#ifndef KILN_SANITIZER
TEST_F(ExecutorFaultTest, AMemoryBombIsAResourceFailure) {
  ChildCompileExecutor compile(Options("compile"), CompileLimits());
  absl::StatusOr<CompileOutcome> outcome = compile.Compile(v1::SweepInputs(), "act=bomb", 0);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->result.failure().stage(), v1::Failure::RESOURCES);
  EXPECT_NE(outcome->result.failure().message().find("memory"), std::string::npos);

  ChildProfileExecutor profile(Options("runner"), ProfileLimits());
  v1::ProfileRequest request;
  request.add_candidates()->set_config("act=bomb");
  absl::StatusOr<ProfileOutcome> profiled = profile.Profile(request, 0);
  ASSERT_TRUE(profiled.ok());
  ASSERT_EQ(profiled->results.size(), 1u);
  EXPECT_EQ(profiled->results[0].failure().stage(), v1::Failure::RESOURCES);
}
#endif

TEST_F(ExecutorFaultTest, AChildKilledFromOutsideOnceCostsNothing) {
  ChildCompileExecutor executor(Options("compile"), CompileLimits());
  absl::StatusOr<CompileOutcome> outcome = executor.Compile(v1::SweepInputs(), "act=kill_once", 0);
  ASSERT_TRUE(outcome.ok());
  EXPECT_FALSE(outcome->result.has_failure()) << outcome->result.DebugString();
  EXPECT_EQ(deaths_, 1);
}

TEST_F(ExecutorFaultTest, TheTaskLimitBoundsACompile) {
  ChildCompileExecutor executor(Options("compile"), CompileLimits());
  auto begin = std::chrono::steady_clock::now();
  absl::StatusOr<CompileOutcome> outcome = executor.Compile(v1::SweepInputs(), "act=hang", 0.3);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->result.failure().stage(), v1::Failure::RESOURCES);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_F(ExecutorFaultTest, ChildrenAreReplacedAfterTheirQuota) {
  CompileLimits limits;
  limits.requests_per_child = 3;
  ChildCompileExecutor executor(Options("compile"), limits);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(executor.Compile(v1::SweepInputs(), "act=ok", 0).ok()) << i;
  }
  EXPECT_EQ(deaths_, 0) << "a retired child is not a dead one";
}

TEST_F(ExecutorFaultTest, AChildThatNeverSaysHelloIsAnError) {
  ChildOptions options = Options("mute");
  options.start_seconds = 0.2;
  ChildCompileExecutor executor(options, CompileLimits());
  absl::Status status = executor.Compile(v1::SweepInputs(), "act=ok", 0).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(status.message().find("did not say hello"), absl::string_view::npos);
}

TEST_F(ExecutorFaultTest, InterruptStopsACompile) {
  ChildCompileExecutor executor(Options("compile"), CompileLimits());
  ASSERT_TRUE(executor.Start().ok());
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    executor.Interrupt();
  });
  absl::Status status = executor.Compile(v1::SweepInputs(), "act=hang", 0).status();
  other.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  executor.ClearInterrupt();
  EXPECT_TRUE(executor.Compile(v1::SweepInputs(), "act=ok", 0).ok());
}

// The journal blames exactly one candidate, and the others of the same task get their results.
TEST_F(ExecutorFaultTest, EveryRunnerMisbehaviourIsBlamedOnItsCandidateAlone) {
  ProfileLimits limits;
  limits.silence_seconds = 1;
  for (const std::string act : {"crash", "abort", "exit", "hang", "flood_hang", "truncate",
                                "garbage", "oversize", "kill_twice", "orphan"}) {
    ChildProfileExecutor executor(Options("runner"), limits);
    std::filesystem::remove(scratch_.path() + "/fake_child_lives");
    v1::ProfileRequest request;
    request.add_candidates()->set_config("act=ok,id=1");
    request.add_candidates()->set_config("act=" + act + ",id=2");
    request.add_candidates()->set_config("act=fail,id=3");
    request.add_candidates()->set_config("act=ok,id=4");
    absl::StatusOr<ProfileOutcome> outcome = executor.Profile(request, 60);
    ASSERT_TRUE(outcome.ok()) << act << ": " << outcome.status();
    std::map<std::string, v1::CandidateResult> results;
    for (const v1::CandidateResult& result : outcome->results) {
      EXPECT_TRUE(results.emplace(result.config(), result).second) << act << ": twice";
    }
    ASSERT_EQ(results.size(), 4u) << act;
    EXPECT_TRUE(results["act=ok,id=1"].has_measurement()) << act;
    EXPECT_TRUE(results["act=ok,id=4"].has_measurement()) << act;
    EXPECT_EQ(results["act=fail,id=3"].failure().stage(), v1::Failure::CHECK) << act;
    const v1::Failure& blamed = results["act=" + act + ",id=2"].failure();
    EXPECT_EQ(blamed.stage(), v1::Failure::RUN) << act << ": " << blamed.DebugString();
    EXPECT_TRUE(blamed.killed_child()) << act;
  }
  EXPECT_LT(::waitpid(-1, nullptr, WNOHANG), 0) << "a zombie or a live child is left";
}

// A message with a string that is none could not be read by anybody.
TEST_F(ExecutorFaultTest, BytesThatAreNoTextCanBeReported) {
  ChildProfileExecutor executor(Options("runner"), {});
  v1::ProfileRequest request;
  request.add_candidates()->set_config("act=babble,id=1");
  const absl::StatusOr<ProfileOutcome> outcome = executor.Profile(request, 60);
  ASSERT_TRUE(outcome.ok() && outcome->results.size() == 1) << outcome.status();
  v1::CandidateResult read;
  ASSERT_TRUE(read.ParseFromString(outcome->results[0].SerializeAsString()));
  EXPECT_NE(read.failure().witness().find("caf\xc3\xa9 ???"), std::string::npos)
      << read.failure().witness();
}

TEST_F(ExecutorFaultTest, ACandidateWithoutTunablesIsBlamedLikeAnyOther) {
  ProfileLimits limits;
  limits.silence_seconds = 1;
  ChildProfileExecutor executor(Options("runner"), limits);
  const std::pair<std::string, std::string> cases[] = {
      {"crash", "signal 11"}, {"exit", "exit code 3"}, {"hang", "did not come back"}};
  for (const auto& [act, words] : cases) {
    v1::ProfileRequest request;
    request.add_candidates()->set_bundle_path(act);
    const int before = deaths_;
    absl::StatusOr<ProfileOutcome> outcome = executor.Profile(request, 0);
    ASSERT_TRUE(outcome.ok()) << act << ": " << outcome.status();
    ASSERT_EQ(outcome->results.size(), 1u) << act;
    const v1::Failure& failure = outcome->results[0].failure();
    EXPECT_TRUE(failure.killed_child()) << act;
    EXPECT_NE(failure.message().find(words), std::string::npos) << act << ": " << failure.message();
    EXPECT_EQ(deaths_, before + 1) << act << ": one child is enough to know";
  }
}

TEST_F(ExecutorFaultTest, AJournalEntryThatNobodyAskedForIsNobodysFault) {
  ChildProfileExecutor executor(Options("runner"), ProfileLimits());
  v1::ProfileRequest request;
  request.add_candidates()->set_config("act=wrong_name");
  absl::Status status = executor.Profile(request, 60).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(deaths_, 3);
}

// What was measured before counts, nobody is blamed, and the same child serves on.
TEST_F(ExecutorFaultTest, ADeviceThatIsOutCostsNoCandidateAnything) {
  for (const std::string act : {"drift", "company"}) {
    ChildProfileExecutor executor(Options("runner"), ProfileLimits());
    v1::ProfileRequest request;
    request.add_candidates()->set_config("act=ok,id=1");
    request.add_candidates()->set_config("act=" + act + ",id=2");
    request.add_candidates()->set_config("act=ok,id=3");
    absl::StatusOr<ProfileOutcome> outcome = executor.Profile(request, 60);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    ASSERT_EQ(outcome->results.size(), 1u);
    EXPECT_TRUE(outcome->results[0].has_measurement());
    EXPECT_EQ(outcome->quarantined, act == "drift" ? "13 % slower" : "");
    request.mutable_candidates()->DeleteSubrange(0, 1);
    outcome = executor.Profile(request, 60);
    if (act == "drift") {
      ASSERT_TRUE(outcome.ok());
      EXPECT_TRUE(outcome->results.empty());
      EXPECT_EQ(outcome->quarantined, "13 % slower");
    } else {
      EXPECT_TRUE(absl::IsUnavailable(outcome.status()));
      EXPECT_EQ(outcome.status().message(), "process 7");
    }
    EXPECT_EQ(deaths_, 0);
  }
}

// A context that the device itself lost: the candidate that ran is not to blame, nor is it tried
// again there.
TEST_F(ExecutorFaultTest, ADeviceThatBreaksTakesNoCandidateWithIt) {
  ChildProfileExecutor executor(Options("runner"), ProfileLimits());
  v1::ProfileRequest request;
  request.add_candidates()->set_config("act=ok,id=1");
  request.add_candidates()->set_config("act=broken,id=2");
  request.add_candidates()->set_config("act=ok,id=3");
  const absl::StatusOr<ProfileOutcome> outcome = executor.Profile(request, 60);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  ASSERT_EQ(outcome->results.size(), 1u);
  EXPECT_TRUE(outcome->results[0].has_measurement());
  EXPECT_EQ(outcome->quarantined, "Xid 79 (fallen off the bus)");
  EXPECT_EQ(deaths_, 1);
}

// A runner that hangs with its device, or dies of it, cannot say so: the system is asked.
TEST_F(ExecutorFaultTest, ADeviceThatBreaksUnderASilentRunnerTakesNoCandidateWithIt) {
  ProfileLimits limits;
  limits.silence_seconds = 1;
  for (const std::string act : {"hang", "crash", "exit"}) {
    for (const double task_seconds : {60.0, 0.5}) {
      DeviceHealth health;
      int looks = 0;
      ChildProfileExecutor executor(Options("runner"), limits, [&] {
        ++looks;
        return health;
      });
      v1::ProfileRequest request;
      request.add_candidates()->set_config("act=ok,id=1");
      request.add_candidates()->set_config("act=" + act + ",id=2");
      request.add_candidates()->set_config("act=ok,id=3");
      health.broken = "Xid 79 (fallen off the bus)";
      absl::StatusOr<ProfileOutcome> outcome = executor.Profile(request, task_seconds);
      ASSERT_TRUE(outcome.ok()) << outcome.status();
      ASSERT_EQ(outcome->results.size(), 1u) << act;
      EXPECT_TRUE(outcome->results[0].has_measurement());
      EXPECT_EQ(outcome->quarantined, "Xid 79 (fallen off the bus)");
      EXPECT_EQ(looks, 1);
      // A program's error is the candidate's, and named.
      health = {"", "Xid 31 (memory page fault)"};
      outcome = executor.Profile(request, task_seconds);
      ASSERT_TRUE(outcome.ok()) << outcome.status();
      ASSERT_GE(outcome->results.size(), 2u) << act;
      EXPECT_EQ(outcome->quarantined, "");
      EXPECT_NE(outcome->results[1].failure().message().find("; Xid 31 (memory page fault)"),
                std::string::npos)
          << outcome->results[1].DebugString();
    }
  }
}

TEST_F(ExecutorFaultTest, ALaunchThatDoesNotComeBackIsTheCandidatesOnEveryDevice) {
  ChildProfileExecutor executor(Options("runner"), ProfileLimits());
  v1::ProfileRequest request;
  request.add_candidates()->set_config("act=late,id=1");
  request.add_candidates()->set_config("act=lost,id=2");
  const absl::StatusOr<ProfileOutcome> outcome = executor.Profile(request, 60);
  ASSERT_TRUE(outcome.ok() && outcome->results.size() == 2) << outcome.status();
  EXPECT_EQ(outcome->results[0].failure().stage(), v1::Failure::RUN);
  EXPECT_EQ(outcome->results[0].failure().message(),
            "the candidate was stopped: a launch did not come back after 10 s");
  // The exit code says which of the two it was, not the words.
  EXPECT_EQ(outcome->results[1].failure().message(),
            "the candidate took the GPU's context down: a launch: its context did not come back");
}

TEST_F(ExecutorFaultTest, TheTaskLimitBlamesTheCandidateThatAteIt) {
  ChildProfileExecutor executor(Options("runner"), ProfileLimits());
  v1::ProfileRequest request;
  request.add_candidates()->set_config("act=ok,id=1");
  request.add_candidates()->set_config("act=hang,id=2");
  request.add_candidates()->set_config("act=ok,id=3");
  absl::StatusOr<ProfileOutcome> outcome = executor.Profile(request, 0.5);
  ASSERT_TRUE(outcome.ok());
  ASSERT_EQ(outcome->results.size(), 2u) << "the third was not reached";
  EXPECT_EQ(outcome->results[1].config(), "act=hang,id=2");
  EXPECT_TRUE(outcome->results[1].has_failure());
}

}  // namespace
}  // namespace kiln::worker

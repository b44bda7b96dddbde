// The worker with its real children: a shipped kernel is compiled, checked and timed; candidates
// that misbehave in the real runner cost themselves and nobody else.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/subprocess.h"
#include "tests/fault/worker/fake_coordinator.h"
#include "tests/fault/worker/paths.h"

namespace kiln::worker {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

class WorkerEndToEndTest : public testing::Test {
 protected:
  WorkerEndToEndTest() : address_("unix:" + scratch_.path() + "/farm.sock") {
    coordinator_ = std::make_unique<FakeCoordinator>(address_);
    SubprocessOptions options;
    options.argv = {WorkerPath(),
                    "--coordinator=" + address_,
                    "--name=w",
                    "--compile-slots=2",
                    "--work-dir=" + scratch_.path() + "/work",
                    "--log-file=" + scratch_.path() + "/worker.log",
                    "--silence-seconds=10",
                    "--runner-memory-mib=1024",
                    "--runner-arg=--rotation-mib=64"};
    absl::StatusOr<std::unique_ptr<Subprocess>> worker = Subprocess::Spawn(options);
    EXPECT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
    EXPECT_TRUE(coordinator_->WaitRegistrations(1, 60)) << Log();
    registration_ = coordinator_->registration(0);
  }
  ~WorkerEndToEndTest() override {
    ::kill(worker_->pid(), SIGTERM);
    std::optional<ExitStatus> status =
        worker_->WaitExit(Subprocess::Clock::now() + std::chrono::seconds(20));
    EXPECT_TRUE(status.has_value() && status->code == 0 && !status->signalled) << Log();
  }
  std::string Log() const { return ReadFile(scratch_.path() + "/worker.log"); }

  v1::SweepInputs Inputs(const std::string& file) {
    v1::SweepInputs inputs;
    inputs.set_kernel_source(ReadFile(file));
    inputs.set_kernel_path(file);
    *inputs.mutable_arch() = registration_.archs(0);
    inputs.mutable_measurement()->set_min_seconds(0.02);
    return inputs;
  }
  v1::TaskResult Run(const std::string& id, v1::TaskKind kind, const v1::SweepInputs& inputs,
                     const std::vector<std::pair<std::string, std::string>>& candidates,
                     double best_ns = 0) {
    v1::Task task;
    task.set_best_ns(best_ns);
    task.set_id(id);
    task.set_epoch(1);
    task.set_kind(kind);
    task.set_inputs_digest(coordinator_->AddBlob(inputs.SerializeAsString()));
    for (const auto& [config, artifact] : candidates) {
      v1::TaskCandidate* candidate = task.add_candidates();
      candidate->set_config(config);
      candidate->set_artifact_digest(artifact);
    }
    coordinator_->Lease(task);
    std::optional<v1::TaskResult> result = coordinator_->WaitResult(id, 120);
    EXPECT_TRUE(result.has_value()) << Log();
    return result.value_or(v1::TaskResult());
  }
  std::string Bundle(const std::string& digest) { return coordinator_->Blob(digest); }

  ScratchDir scratch_;
  std::string address_;
  std::unique_ptr<FakeCoordinator> coordinator_;
  std::unique_ptr<Subprocess> worker_;
  v1::Register registration_;
};

TEST_F(WorkerEndToEndTest, AShippedKernelIsCompiledCheckedAndTimed) {
  ASSERT_EQ(registration_.archs_size(), 1);
  EXPECT_NE(registration_.compiler_build(), "");
  v1::SweepInputs inputs = Inputs("compiler/templates/matmul.py");
  (*inputs.mutable_arguments())["M"] = "100";
  (*inputs.mutable_arguments())["N"] = "90";
  (*inputs.mutable_arguments())["K"] = "70";
  const std::vector<std::string> configs = {"block_K=32,block_M=32,block_N=32",
                                            "block_K=64,block_M=64,block_N=48",
                                            "block_K=16,block_M=128,block_N=96"};
  std::vector<std::pair<std::string, std::string>> candidates;
  for (const std::string& config : configs) candidates.push_back({config, ""});
  candidates.push_back({"block_M=-3", ""});
  candidates.push_back({"no_such_tunable=1", ""});
  v1::TaskResult compiled = Run("c-1", v1::TASK_COMPILE, inputs, candidates);
  ASSERT_EQ(compiled.candidates_size(), 5);
  std::vector<std::pair<std::string, std::string>> profiled;
  for (int i = 0; i < 3; ++i) {
    const v1::CandidateResult& candidate = compiled.candidates(i);
    ASSERT_FALSE(candidate.has_failure()) << candidate.failure().DebugString();
    EXPECT_GT(candidate.artifact().resources().code_bytes(), 0);
    EXPECT_EQ(candidate.artifact().compiler_build(), registration_.compiler_build());
    profiled.push_back({candidate.config(), candidate.artifact().digest()});
  }
  EXPECT_TRUE(compiled.candidates(3).has_failure());
  EXPECT_EQ(compiled.candidates(4).failure().stage(), v1::Failure::ELABORATE)
      << compiled.candidates(4).DebugString();

  int sampled = 0;  // the others have the very bytes of one that was sampled
  for (v1::TaskKind kind : {v1::TASK_SCREEN, v1::TASK_RACE, v1::TASK_FINALS}) {
    v1::TaskResult result = Run(absl::StrCat("p-", kind), kind, inputs, profiled);
    ASSERT_EQ(result.candidates_size(), 3);
    for (const v1::CandidateResult& candidate : result.candidates()) {
      ASSERT_TRUE(candidate.has_measurement()) << candidate.failure().DebugString();
      const v1::Measurement& measurement = candidate.measurement();
      EXPECT_GT(measurement.median_ns(), 100);
      EXPECT_LT(measurement.median_ns(), 1e9);
      EXPECT_EQ(measurement.device(), "w/cpu");
      EXPECT_GE(measurement.samples_ns_size(), 5);
      EXPECT_TRUE(measurement.numbers_checked());
      const bool samples = absl::StrContains(measurement.check_summary(), "elements sampled");
      sampled += samples ? 1 : 0;
      EXPECT_TRUE(samples || absl::StrContains(measurement.check_summary(), "the same bytes as"))
          << measurement.check_summary();
      EXPECT_NE(measurement.conditions().find("cold"), std::string::npos);
    }
    EXPECT_GT(result.seconds().at("measure"), 0);
  }
  EXPECT_GT(sampled, 0);
}

// A finalist whose kernel leaves a size to run time is checked at a size that no tile divides, and
// measured again on fresh samples.
TEST_F(WorkerEndToEndTest, AFinalistIsRightAtARaggedSizeAndMeasuredAgain) {
  v1::SweepInputs inputs = Inputs("compiler/templates/matmul.py");
  (*inputs.mutable_arguments())["M"] = "T.dynamic(\"M\")";
  (*inputs.mutable_arguments())["N"] = "96";
  (*inputs.mutable_arguments())["K"] = "64";
  (*inputs.mutable_runtime_values())["M"] = "256";
  const std::string config = "block_K=32,block_M=32,block_N=32";
  const v1::TaskResult compiled = Run("c-1", v1::TASK_COMPILE, inputs, {{config, ""}});
  ASSERT_EQ(compiled.candidates_size(), 1);
  ASSERT_FALSE(compiled.candidates(0).has_failure()) << compiled.DebugString();
  const v1::TaskResult result = Run("p-1", v1::TASK_FINALS, inputs,
                                    {{config, compiled.candidates(0).artifact().digest()}}, 1e6);
  ASSERT_EQ(result.candidates_size(), 1);
  const v1::CandidateResult& candidate = result.candidates(0);
  ASSERT_TRUE(candidate.has_fresh()) << candidate.failure().DebugString();
  EXPECT_GE(candidate.fresh().samples_ns_size(), 5);
  EXPECT_TRUE(absl::StrContains(candidate.fresh().check_summary(), "; at M=211: 1 seed, "))
      << candidate.fresh().check_summary();
}

// Of sizes that are compiled in another object is made, which the kernel's own program is held
// against; code that is wrong behind the last whole tile alone is found out there.
TEST_F(WorkerEndToEndTest, CompiledSizesHaveARaggedObjectThatIsChecked) {
  v1::SweepInputs inputs = Inputs("compiler/templates/matmul.py");
  for (const char* name : {"M", "N", "K"}) (*inputs.mutable_arguments())[name] = "512";
  (*inputs.mutable_ragged())["M"] = "208";
  (*inputs.mutable_ragged())["K"] = "176";
  v1::SweepInputs twisted = inputs;
  std::string source = inputs.kernel_source();
  const size_t at = source.find("T.copy(C_local, C[by * block_M, bx * block_N])");
  ASSERT_NE(at, std::string::npos);
  source.insert(at,
                "for i, j in T.Parallel(block_M, block_N):\n"
                "                if by * block_M + i >= M // block_M * block_M:\n"
                "                    C_local[i, j] = C_local[i, j] + 0.25\n            ");
  twisted.set_kernel_source(source);
  const std::string config = "block_K=32,block_M=64,block_N=32";
  const v1::TaskResult right = Run("c-1", v1::TASK_COMPILE_RAGGED, inputs, {{config, ""}});
  const v1::TaskResult wrong = Run("c-2", v1::TASK_COMPILE_RAGGED, twisted, {{config, ""}});
  ASSERT_TRUE(right.candidates(0).has_artifact()) << right.DebugString();
  ASSERT_TRUE(wrong.candidates(0).has_artifact()) << wrong.DebugString();
  const auto check = [&](const char* task, const v1::TaskResult& compiled) {
    return Run(task, v1::TASK_CHECK_RAGGED, inputs,
               {{config, compiled.candidates(0).artifact().digest()}})
        .candidates(0);
  };
  const v1::CandidateResult good = check("p-1", right);
  EXPECT_TRUE(absl::StartsWith(good.measurement().check_summary(), "at K=176, M=208: 1 seed, "))
      << good.DebugString();
  EXPECT_TRUE(good.measurement().samples_ns().empty());
  const v1::CandidateResult bad = check("p-2", wrong);
  EXPECT_EQ(bad.failure().stage(), v1::Failure::CHECK) << bad.DebugString();
  EXPECT_TRUE(absl::StartsWith(bad.failure().message(), "wrong at K=176, M=208: "))
      << bad.failure().message();
}

// The manifest of one kernel with the code of another: what a miscompilation looks like.
TEST_F(WorkerEndToEndTest, CodeThatComputesOtherNumbersIsRefused) {
  v1::SweepInputs inputs = Inputs("compiler/templates/matmul.py");
  for (const char* name : {"M", "N", "K"}) (*inputs.mutable_arguments())[name] = "64";
  const std::string config = "block_K=32,block_M=32,block_N=32";
  v1::TaskResult right = Run("c-1", v1::TASK_COMPILE, inputs, {{config, ""}});
  v1::SweepInputs twisted = inputs;
  std::string source = inputs.kernel_source();
  size_t at = source.find("T.copy(C_local, C[by * block_M, bx * block_N])");
  ASSERT_NE(at, std::string::npos);
  source.insert(at,
                "for i, j in T.Parallel(block_M, block_N):\n"
                "                C_local[i, j] = C_local[i, j] + 0.25\n            ");
  twisted.set_kernel_source(source);
  v1::TaskResult wrong = Run("c-2", v1::TASK_COMPILE, twisted, {{config, ""}});
  ASSERT_TRUE(right.candidates(0).has_artifact()) << right.DebugString();
  ASSERT_TRUE(wrong.candidates(0).has_artifact()) << wrong.DebugString();
  v1::TaskResult result =
      Run("p-1", v1::TASK_SCREEN, inputs, {{config, wrong.candidates(0).artifact().digest()}});
  EXPECT_EQ(result.candidates(0).failure().stage(), v1::Failure::CHECK) << result.DebugString();
  EXPECT_NE(result.candidates(0).failure().witness().find("got"), std::string::npos);
  result = Run("p-2", v1::TASK_SCREEN, inputs, {{config, right.candidates(0).artifact().digest()}});
  EXPECT_TRUE(result.candidates(0).has_measurement()) << result.DebugString();
}

TEST_F(WorkerEndToEndTest, EveryWayToDieInTheRunnerCostsOneCandidate) {
  v1::SweepInputs inputs = Inputs("compiler/templates/elementwise.py");
  inputs.mutable_check()->set_reference(v1::CheckPolicy::NONE);
  std::string object = ReadFile(TestBinaryFolder() + "/kiln_host_kernels.so");
  ASSERT_FALSE(object.empty());
  auto add = [&](const std::string& entry) {
    v1::ArtifactBundle bundle;
    bundle.set_name(entry);
    bundle.set_shared_object(object);
    bundle.set_manifest_json(absl::StrCat(
        R"({"name":")", entry, R"(","params":[{"name":"A","kind":"tensor","dtype":"float32",)",
        R"("shape":[1024]},{"name":"B","kind":"tensor","dtype":"float32","shape":[1024],)",
        R"("output":true}]})"));
    return coordinator_->AddBlob(bundle.SerializeAsString());
  };
  struct Death {
    std::string entry;
    v1::Failure::Stage stage;
    std::string message;
  };
  std::vector<Death> deaths = {{"kernel_crash", v1::Failure::RUN, "signal 11"},
                               {"kernel_illegal", v1::Failure::RUN, "signal 4"},
                               {"kernel_abort", v1::Failure::RUN, "signal 6"},
                               {"kernel_exit", v1::Failure::RUN, "exit code 0"},
                               {"kernel_hang", v1::Failure::RUN, "did not come back"},
                               {"kernel_flood", v1::Failure::RUN, "signal 6"},
                               {"kernel_forge", v1::Failure::RUN, "protocol"},
#ifndef KILN_SANITIZER  // which has no limit on memory (compiler/base/subprocess.cc)
                               {"kernel_bomb", v1::Failure::CHECK, "scratch memory"},
#endif
                               {"kernel_missing", v1::Failure::LOAD, "exports no function"}};
  std::vector<std::pair<std::string, std::string>> candidates;
  for (size_t i = 0; i < deaths.size(); ++i) {
    candidates.push_back({absl::StrCat("bad=", i), add(deaths[i].entry)});
    candidates.push_back({absl::StrCat("good=", i), add("kernel_zero")});
  }
  v1::TaskResult result = Run("p-1", v1::TASK_SCREEN, inputs, candidates);
  ASSERT_EQ(result.candidates_size(), static_cast<int>(candidates.size()));
  for (size_t i = 0; i < deaths.size(); ++i) {
    const v1::Failure& failure = result.candidates(static_cast<int>(2 * i)).failure();
    EXPECT_EQ(failure.stage(), deaths[i].stage) << deaths[i].entry << failure.DebugString();
    EXPECT_NE(failure.message().find(deaths[i].message), std::string::npos)
        << deaths[i].entry << ": " << failure.DebugString();
    const v1::CandidateResult& good = result.candidates(static_cast<int>(2 * i + 1));
    EXPECT_TRUE(good.has_measurement()) << deaths[i].entry << ": " << good.DebugString();
  }
}

}  // namespace
}  // namespace kiln::worker

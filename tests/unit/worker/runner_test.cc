// A whole request on the fake device: journal, results, reuse of the bench between requests.
#include "worker/profile/runner.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "compiler/base/affinity.h"
#include "proto/conditions.h"
#include "tests/unit/worker/profile_fixture.h"

namespace kiln::worker {
namespace {

constexpr int64_t kElements = 30 * 40;

class RunnerTest : public testing::Test {
 protected:
  RunnerTest() {
    static const std::string base = std::filesystem::temp_directory_path().string();
    std::string pattern = base + "/kiln-runner-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    Define("good", AffineBody(kFloat32, kElements), 1e6);
    Define("better", AffineBody(kFloat32, kElements), 0.95e6);
    Define("wrong", AffineBody(kFloat32, kElements - 1), 0.1e6);
    request_.mutable_inputs()->mutable_measurement()->set_min_seconds(1e-3);
    request_.set_kind(v1::TASK_SCREEN);
    MakeRunner(false);
  }
  void MakeRunner(bool with_company) {
    RunnerOptions options;
    options.device_name = "w/fake";
    options.company_seconds = 0.3;
    options.with_company = with_company;
    options.measuring_core = measuring_core_;
    runner_ = std::make_unique<Runner>(
        &device_,
        [this](const v1::SweepInputs&, const std::string&, const BoundManifest&) {
          ++references_made_;
          reference_cores_ = AllowedCores();
          std::this_thread::sleep_for(reference_time_);
          return absl::StatusOr<std::unique_ptr<Reference>>(
              std::make_unique<AffineReference>(kFloat32, &reference_calls_));
        },
        options);
  }
  ~RunnerTest() override { std::filesystem::remove_all(folder_); }

  void Define(const std::string& name, FakeDevice::Body body, double ns) {
    device_.Define(name, {std::move(body), ns});
    v1::ArtifactBundle bundle;
    bundle.set_name(name);
    bundle.set_manifest_json(AffineManifest(30, 40, "float32"));
    std::ofstream out(folder_ + "/" + name, std::ios::binary);
    bundle.SerializeToOstream(&out);
  }
  void Add(const std::string& config, const std::string& bundle, bool checked = false) {
    v1::ProfileCandidate* candidate = request_.add_candidates();
    candidate->set_config(config);
    candidate->set_bundle_path(folder_ + "/" + bundle);
    candidate->set_numbers_checked(checked);
  }
  void Serve() {
    events_.clear();
    results_.clear();
    runner_->Serve(request_, [this](const v1::ProfileEvent& event) {
      events_.push_back(event);
      if (event.has_result()) results_[event.result().config()] = event.result();
    });
  }

  std::string folder_;
  FakeDevice device_{3};
  int references_made_ = 0;
  int measuring_core_ = -1;
  std::vector<int> reference_cores_;  // where the last one was made
  std::chrono::milliseconds reference_time_{0};
  int reference_calls_ = 0;
  v1::ProfileRequest request_;
  std::unique_ptr<Runner> runner_;
  std::vector<v1::ProfileEvent> events_;
  std::map<std::string, v1::CandidateResult> results_;
};

TEST_F(RunnerTest, ScreensEachCandidateAfterJournallingIt) {
  Add("c=1", "good");
  Add("c=2", "wrong");
  Add("c=3", "missing");
  Add("c=4", "better");
  Serve();
  ASSERT_EQ(results_.size(), 4u);
  EXPECT_EQ(results_["c=1"].measurement().median_ns(), 1e6);
  EXPECT_EQ(results_["c=1"].measurement().device(), "w/fake");
  EXPECT_EQ(results_["c=1"].measurement().source(), "clock");
  EXPECT_EQ(results_["c=1"].measurement().round(), "screen");
  EXPECT_TRUE(results_["c=1"].measurement().numbers_checked());
  EXPECT_NE(results_["c=1"].measurement().conditions().find("cold"), std::string::npos);
  EXPECT_EQ(results_["c=2"].failure().stage(), v1::Failure::CHECK);
  EXPECT_FALSE(results_["c=2"].has_measurement()) << "a wrong candidate has no time";
  EXPECT_EQ(results_["c=3"].failure().stage(), v1::Failure::LOAD);
  EXPECT_EQ(results_["c=4"].measurement().median_ns(), 0.95e6);
  EXPECT_TRUE(events_.back().done());
  std::vector<std::string> started, reported;
  for (const v1::ProfileEvent& event : events_) {
    if (event.event_case() == v1::ProfileEvent::kStarted) {
      EXPECT_TRUE(reported.empty()) << "nothing is reported before the device was looked at";
      if (started.empty() || started.back() != event.started()) started.push_back(event.started());
    }
    if (event.has_result()) reported.push_back(event.result().config());
  }
  EXPECT_EQ(started, (std::vector<std::string>{"c=1", "c=2", "c=3", "c=4"}));
  EXPECT_EQ(reported, started);
}

// The canary takes as long as a screen: one look for all that a short request measured.
TEST_F(RunnerTest, CandidatesShareALookAtTheDevicesTime) {
  int looks = 0, faults = 0;
  device_.examine = [&] { return ++looks, DeviceHealth(); };
  device_.faults = [&] { return ++faults, DeviceHealth(); };
  for (const char* config : {"c=1", "c=2", "c=3", "c=4"}) Add(config, "good");
  Serve();
  EXPECT_EQ(results_.size(), 4u);
  EXPECT_EQ(looks, 1);
  EXPECT_EQ(faults, 3) << "what costs nothing is asked after each";
}

// What is measured for long is not held back for ever, nor lost with what comes later.
TEST_F(RunnerTest, LongMeasurementsAreLookedAtOneByOne) {
  int looks = 0;
  device_.examine = [&] { return DeviceHealth{++looks >= 3 ? "13 % slower" : "", ""}; };
  Define(
      "long",
      [honest = AffineBody(kFloat32, kElements)](const LaunchArguments& arguments) {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        return honest(arguments);
      },
      20e6);
  for (const char* config : {"c=1", "c=2", "c=3", "c=4"}) Add(config, "long");
  Serve();
  ASSERT_EQ(results_.size(), 3u);
  EXPECT_TRUE(results_["c=1"].has_measurement());
  EXPECT_TRUE(results_["c=2"].has_measurement());
  EXPECT_TRUE(results_["c=3"].not_run());
  EXPECT_EQ(events_.back().quarantined(), "13 % slower");
}

TEST_F(RunnerTest, WrongCandidatesAreNeverTimed) {
  Add("c=2", "wrong");
  Serve();
  for (const std::string& name : device_.timed()) EXPECT_NE(name, "wrong");
}

TEST_F(RunnerTest, TheReferenceAndTheTensorsServeAllRequestsOfOneSweep) {
  Add("c=1", "good");
  Serve();
  int64_t allocated = device_.allocated_bytes();
  const int calls = reference_calls_;
  request_.clear_candidates();
  Add("c=2", "better");
  Serve();
  EXPECT_EQ(references_made_, 1) << "for the first candidate, none for the second";
  EXPECT_GE(calls, 2) << "for each seed";
  EXPECT_EQ(reference_calls_, calls) << "nor does it compute anything for the second";
  EXPECT_EQ(device_.allocated_bytes(), allocated);
  // Other inputs: everything anew, and the old memory is gone.
  request_.mutable_inputs()->mutable_check()->add_seeds(9);
  Serve();
  EXPECT_GT(references_made_, 1);
  EXPECT_LE(device_.allocated_bytes(), allocated);
}

TEST_F(RunnerTest, CheckedCandidatesAreNotCheckedAgain) {
  Add("c=1", "good", true);
  Serve();
  EXPECT_GT(reference_calls_, 0) << "by another device, or by a process that is gone";
  const std::string summary = results_["c=1"].measurement().check_summary();
  EXPECT_GT(results_["c=1"].measurement().check_seconds(), 0);
  Serve();
  EXPECT_EQ(results_["c=1"].measurement().check_seconds(), 0);
  EXPECT_EQ(results_["c=1"].measurement().check_summary(), summary) << "the proof stays with it";
  request_.mutable_candidates(0)->set_numbers_checked(false);
  Serve();
  EXPECT_GT(results_["c=1"].measurement().check_seconds(), 0) << "as asked";
}

// By what is known of a sweep's launches, and least of all by one that has none yet.
TEST_F(RunnerTest, ALaunchMayTakeFarLongerThanAllThatIsKnown) {
  std::vector<double> limits;
  Define(
      "noting",
      [&, honest = AffineBody(kFloat32, kElements)](const LaunchArguments& arguments) {
        limits.push_back(device_.launch_seconds());
        return honest(arguments);
      },
      1.5e9);
  const auto serve = [&](double expected_ns, double best_ns) {
    limits.clear();
    request_.clear_candidates();
    Add("c=1", "noting");
    request_.mutable_candidates(0)->set_expected_ns(expected_ns);
    request_.set_best_ns(best_ns);
    Serve();
    return limits.front();
  };
  EXPECT_DOUBLE_EQ(serve(1e6, 0), 10);
  EXPECT_DOUBLE_EQ(serve(1e6, 0), 30) << "as one took 1.5 s";
  EXPECT_DOUBLE_EQ(serve(2e9, 0), 40);
  EXPECT_DOUBLE_EQ(serve(0, 3e9), 60);
  EXPECT_DOUBLE_EQ(serve(0, 0), 30);
  request_.mutable_inputs()->mutable_check()->add_seeds(9);
  EXPECT_DOUBLE_EQ(serve(0, 0), 10) << "of other inputs nothing is known";
}

// What was found of a config holds for the code that it was found of.
TEST_F(RunnerTest, AConfigThatWasCompiledAnewIsCheckedAnew) {
  Add("c=1", "good", true);
  Add("c=2", "better", true);
  Serve();
  request_.mutable_candidates(0)->set_bundle_path(folder_ + "/wrong");
  Serve();
  EXPECT_EQ(results_["c=1"].failure().stage(), v1::Failure::CHECK) << results_["c=1"].DebugString();
  EXPECT_TRUE(results_["c=2"].has_measurement());
  request_.mutable_candidates(0)->set_bundle_path(folder_ + "/good");
  Serve();
  EXPECT_TRUE(results_["c=1"].has_measurement()) << results_["c=1"].DebugString();
  const int64_t calls = reference_calls_;
  Serve();
  EXPECT_EQ(reference_calls_, calls);
  EXPECT_EQ(results_["c=1"].measurement().check_seconds(), 0);
}

TEST_F(RunnerTest, WrongNumbersAreFoundWhateverAnotherDeviceSaid) {
  Add("c=1", "wrong", true);
  request_.set_kind(v1::TASK_FINALS);
  Serve();
  EXPECT_EQ(results_["c=1"].failure().stage(), v1::Failure::CHECK);
}

TEST_F(RunnerTest, FinalsReportAllAndCatchNumbersThatChange) {
  int launches = 0;
  Define(
      "flaky",
      [&, honest = AffineBody(kFloat32, kElements)](const LaunchArguments& arguments) {
        if (++launches > 10) return AffineBody(kFloat32, kElements - 1)(arguments);
        return honest(arguments);
      },
      0.97e6);
  request_.set_kind(v1::TASK_FINALS);
  Add("c=1", "good");
  Add("c=2", "better");
  Add("c=3", "flaky");
  Add("c=4", "wrong");
  Serve();
  ASSERT_EQ(results_.size(), 4u);
  EXPECT_EQ(results_["c=1"].measurement().round(), "finals");
  EXPECT_EQ(results_["c=1"].measurement().samples_ns_size(),
            results_["c=2"].measurement().samples_ns_size());
  EXPECT_GE(results_["c=1"].measurement().samples_ns_size(), 10);
  EXPECT_EQ(results_["c=3"].failure().stage(), v1::Failure::CHECK) << results_["c=3"].DebugString();
  EXPECT_FALSE(results_["c=3"].has_measurement());
  EXPECT_EQ(results_["c=4"].failure().stage(), v1::Failure::CHECK);
}

// Who is slower by little stops where there is a winner to find, and not where all are compared.
TEST_F(RunnerTest, FinalsForAWinnerStopWhoIsOutdone) {
  request_.set_kind(v1::TASK_FINALS);
  request_.mutable_inputs()->mutable_measurement()->set_min_samples(100);
  Add("c=1", "good");
  Add("c=2", "better");
  Serve();
  EXPECT_EQ(results_["c=1"].measurement().samples_ns_size(), 100);
  EXPECT_FALSE(results_["c=1"].has_fresh()) << "nobody wins";
  request_.set_best_ns(0.95e6);
  Serve();
  EXPECT_EQ(results_["c=2"].measurement().samples_ns_size(), 100);
  EXPECT_LT(results_["c=1"].measurement().samples_ns_size(), 50);
  EXPECT_NE(results_["c=1"].measurement().conditions().find("stopped early, clearly behind"),
            std::string::npos);
}

TEST_F(RunnerTest, WhoMayHaveWonIsMeasuredAgainOnFreshSamples) {
  int launches = 0, finals = 0;
  FakeDevice::Body honest = AffineBody(kFloat32, kElements);
  Define(
      "lucky",
      [&, honest](const LaunchArguments& arguments) {
        ++launches;
        return honest(arguments);
      },
      0.94e6);
  request_.set_kind(v1::TASK_FINALS);
  request_.mutable_inputs()->mutable_measurement()->set_min_samples(100);
  request_.set_best_ns(0.94e6);
  device_.set_cool_seconds(0.5);
  Add("c=1", "good");
  Add("c=2", "lucky");
  Serve();
  const v1::CandidateResult& winner = results_["c=2"];
  ASSERT_TRUE(winner.has_fresh());
  EXPECT_EQ(winner.fresh().round(), "fresh");
  EXPECT_EQ(winner.fresh().median_ns(), 0.94e6);
  EXPECT_GE(winner.fresh().samples_ns_size(), 5);
  EXPECT_EQ(winner.fresh().check_summary(), winner.measurement().check_summary());
  EXPECT_TRUE(winner.fresh().numbers_checked());
  finals = winner.measurement().samples_ns_size();
  EXPECT_GE(launches, finals + winner.fresh().samples_ns_size()) << "launches of its own";
  EXPECT_FALSE(results_["c=1"].has_fresh()) << "it was stopped: it cannot have won";
  EXPECT_GE(events_.back().seconds().at("measure"), 0.5) << "for a device that is cool again";
  EXPECT_LT(events_.back().seconds().at("measure"), 2);
}

// C[i] = 2 * A[i] + i of M rows; writes whole groups of `rows` rows, and gives an error code where
// M is no multiple of `takes`.
FakeDevice::Body RowsBody(int64_t rows, int64_t takes) {
  return [=](const LaunchArguments& arguments) -> absl::Status {
    const int64_t m = arguments.values.front();
    if (m % takes != 0) return absl::InternalError("it returned the error code 7");
    return AffineBody(kFloat32, m / rows * rows * 40)(arguments);
  };
}

TEST_F(RunnerTest, FinalistsAreRightAtARaggedShapeToo) {
  const auto define = [&](const std::string& name, FakeDevice::Body body, double ns) {
    Define(name, std::move(body), ns);
    v1::ArtifactBundle bundle;
    bundle.set_name(name);
    bundle.set_manifest_json(
        R"({"name":"affine","target":"fake","flops":0,"dims":["M"],"params":[)"
        R"({"name":"A","kind":"tensor","dtype":"float32","shape":["M",40]},)"
        R"({"name":"C","kind":"tensor","dtype":"float32","shape":["M",40],"output":true}]})");
    std::ofstream out(folder_ + "/" + name, std::ios::binary);
    bundle.SerializeToOstream(&out);
  };
  define("any", RowsBody(1, 1), 1e6);
  define("tiles", RowsBody(32, 1), 0.9e6);    // right at M=256 only
  define("eights", RowsBody(8, 8), 1.01e6);   // takes multiples of 8, and is right there
  define("sixteens", RowsBody(16, 8), 1e6);   // takes them, and is wrong at 216
  define("thirties", RowsBody(32, 32), 1e6);  // takes no other
  (*request_.mutable_inputs()->mutable_runtime_values())["M"] = "256";
  for (const char* name : {"any", "tiles", "eights", "sixteens", "thirties"}) {
    Add(absl::StrCat("c=", name), name);
  }
  Serve();
  for (const auto& [config, result] : results_) EXPECT_FALSE(result.has_failure()) << config;
  request_.set_kind(v1::TASK_FINALS);
  request_.set_best_ns(0.9e6);
  Serve();
  const auto summary = [&](const std::string& config) {
    return results_[config].measurement().check_summary();
  };
  EXPECT_NE(summary("c=any").find("; at M=211: 1 seed, "), std::string::npos) << summary("c=any");
  EXPECT_NE(summary("c=eights").find("; at M=216: 1 seed, "), std::string::npos)
      << summary("c=eights");
  EXPECT_NE(summary("c=thirties").find("at no ragged shape: M=216 is not taken: it returned"),
            std::string::npos)
      << summary("c=thirties");
  for (const char* wrong : {"c=tiles", "c=sixteens"}) {
    EXPECT_EQ(results_[wrong].failure().stage(), v1::Failure::CHECK) << wrong;
    EXPECT_FALSE(results_[wrong].has_measurement()) << wrong;
  }
  EXPECT_EQ(results_["c=tiles"].failure().message().find("wrong at M=211: the kernel leaves "), 0u)
      << results_["c=tiles"].failure().message();
  EXPECT_EQ(results_["c=sixteens"].failure().message().find("wrong at M=216: "), 0u);
}

// Objects that were compiled for the ragged shape are checked, against the reference and each
// other, and not timed.
TEST_F(RunnerTest, CompiledRaggedShapesAreCheckedAndNotTimed) {
  const auto define = [&](const std::string& name, FakeDevice::Body body) {
    Define(name, std::move(body), 1e6);
    v1::ArtifactBundle bundle;
    bundle.set_name(name);
    bundle.set_manifest_json(
        R"({"name":"affine","target":"fake","flops":0,"dims":[],"params":[)"
        R"({"name":"A","kind":"tensor","dtype":"float32","shape":[208,40]},)"
        R"({"name":"C","kind":"tensor","dtype":"float32","shape":[208,40],"output":true}]})");
    std::ofstream out(folder_ + "/" + name, std::ios::binary);
    bundle.SerializeToOstream(&out);
  };
  int launches = 0;
  define("all", [&](const LaunchArguments& arguments) {
    ++launches;
    return AffineBody(kFloat32, 208 * 40)(arguments);
  });
  define("tiles", AffineBody(kFloat32, 192 * 40));
  define("refuses", [](const LaunchArguments&) { return absl::InternalError("error code 7"); });
  (*request_.mutable_inputs()->mutable_ragged())["M"] = "208";
  request_.set_kind(v1::TASK_CHECK_RAGGED);
  for (const char* name : {"all", "tiles", "refuses"}) Add(absl::StrCat("c=", name), name);
  Serve();
  const auto summary = [&](const std::string& config) {
    return results_[config].measurement().check_summary();
  };
  EXPECT_EQ(summary("c=all").find("at M=208: 1 seed, "), 0u) << summary("c=all");
  EXPECT_TRUE(results_["c=all"].measurement().samples_ns().empty());
  EXPECT_LE(launches, 4);
  EXPECT_EQ(results_["c=tiles"].failure().stage(), v1::Failure::CHECK);
  EXPECT_EQ(results_["c=tiles"].failure().message().find("wrong at M=208: the kernel leaves "), 0u)
      << results_["c=tiles"].failure().message();
  EXPECT_EQ(summary("c=refuses"), "at no ragged shape: M=208 is not taken: error code 7");
}

// Right but for one element.
FakeDevice::Body WrongAt(int64_t element) {
  return [element](const LaunchArguments& arguments) {
    absl::Status status = AffineBody(kFloat32, kElements)(arguments);
    static_cast<float*>(arguments.pointers[1])[element] += 0.5f;
    return status;
  };
}

// An element that no sample meets is found beside plain code; which of the two is wrong there, the
// reference says.
TEST_F(RunnerTest, PlainCodeShowsWhatSamplesMiss) {
  const auto beside = [&](const std::string& config, const std::string& bundle,
                          const std::string& plain) {
    request_.set_kind(v1::TASK_CHECK_PLAIN);
    request_.clear_candidates();
    Add(config, bundle);
    request_.mutable_candidates(0)->set_plain_path(folder_ + "/" + plain);
    Serve();
    request_.set_kind(v1::TASK_SCREEN);
    return results_[config];
  };
  int missed = 0;
  for (int64_t at = 11; at < kElements; at += 37) {
    Define("off", WrongAt(at), 1e6);
    MakeRunner(false);
    request_.clear_candidates();
    Add("c=1", "off");
    Add("c=2", "off");
    Serve();
    if (!results_["c=1"].has_measurement()) continue;  // a sample has met it
    ++missed;
    EXPECT_FALSE(results_["c=1"].measurement().whole_output());
    const v1::CandidateResult wrong = beside("c=2", "off", "good");  // as the first one, c=1
    EXPECT_EQ(wrong.failure().stage(), v1::Failure::CHECK) << at;
    EXPECT_NE(wrong.failure().DebugString().find("wrong numbers"), std::string::npos) << at;
    EXPECT_FALSE(wrong.has_measurement());
    MakeRunner(false);
    const v1::CandidateResult right = beside("c=1", "good", "off");
    EXPECT_EQ(right.measurement().check_summary().find("its plain code proves nothing: wrong"), 0u)
        << right.measurement().check_summary();
  }
  EXPECT_GT(missed, 5);
  const v1::CandidateResult right = beside("c=1", "good", "better");
  EXPECT_EQ(right.measurement().check_summary().find("its plain code: 2 seeds"), 0u)
      << right.measurement().check_summary();
  EXPECT_TRUE(right.measurement().samples_ns().empty());
  const v1::CandidateResult none = beside("c=1", "good", "missing");
  EXPECT_EQ(none.measurement().check_summary().find("not held against its plain code: "), 0u);
  v1::ArtifactBundle bundle;  // that is launched with the tensors of another
  bundle.set_name("better");
  bundle.set_manifest_json(AffineManifest(30, 41, "float32"));
  std::ofstream out(folder_ + "/larger", std::ios::binary);
  bundle.SerializeToOstream(&out);
  out.close();
  const v1::CandidateResult other = beside("c=1", "good", "larger");
  EXPECT_EQ(other.measurement().check_summary(),
            "not held against its plain code: that has other tensors");
}

// The canary sings at the end of the second request; or errors are reported after its second
// candidate, which ends it there. What was measured before the last good look stays.
TEST_F(RunnerTest, ABrokenDeviceEndsTheRequestAndTakesWhatWasMeasuredSinceWithIt) {
  bool slow = false;
  int faults = 0;
  device_.examine = [&] { return DeviceHealth{slow ? "13 % slower" : "", ""}; };
  for (const char* bundle : {"good", "wrong", "better"}) {
    for (const bool errors : {false, true}) {
      slow = false;
      device_.faults = nullptr;
      request_.clear_candidates();
      Add("c=0", "good");
      Serve();
      EXPECT_TRUE(results_["c=0"].has_measurement());
      EXPECT_TRUE(events_.back().done());
      slow = !errors;
      faults = 0;
      device_.faults = [&] {
        return DeviceHealth{errors && ++faults == 2 ? "2 ECC errors" : "", ""};
      };
      request_.clear_candidates();
      Add("c=1", "good");
      Add("c=2", bundle);
      Add("c=3", "good");
      Serve();
      ASSERT_EQ(results_.size(), errors ? 2u : 3u);
      for (const auto& [config, result] : results_) {
        EXPECT_TRUE(result.not_run()) << config << " " << bundle;
        EXPECT_FALSE(result.has_measurement() || result.has_failure());
      }
      EXPECT_EQ(events_.back().quarantined(), errors ? "2 ECC errors" : "13 % slower");
    }
  }
  slow = true;
  device_.faults = nullptr;
  request_.set_kind(v1::TASK_FINALS);
  Serve();
  ASSERT_EQ(results_.size(), 3u);
  for (const auto& [config, result] : results_) EXPECT_TRUE(result.not_run()) << config;
  EXPECT_EQ(events_.back().quarantined(), "13 % slower");
}

TEST_F(RunnerTest, AFaultMeanwhileIsNamedAndTheMeasurementDoesNotCount) {
  int looks = 0;
  device_.faults = [&] {
    return DeviceHealth{"", ++looks == 1 ? "Xid 31 (memory page fault)" : ""};
  };
  Add("c=1", "good");
  Add("c=2", "better");
  Serve();
  EXPECT_FALSE(results_["c=1"].has_measurement());
  EXPECT_EQ(results_["c=1"].failure().stage(), v1::Failure::RUN);
  EXPECT_NE(results_["c=1"].failure().message().find("Xid 31 (memory page fault) on fake"),
            std::string::npos);
  EXPECT_TRUE(results_["c=2"].has_measurement());
  EXPECT_TRUE(events_.back().done());
  // In the finals it may be anybody's: all of them go back.
  looks = 0;
  request_.set_kind(v1::TASK_FINALS);
  Serve();
  for (const auto& [config, result] : results_) EXPECT_TRUE(result.not_run()) << config;
  EXPECT_NE(events_.back().unavailable().find("Xid 31"), std::string::npos);
}

TEST_F(RunnerTest, AMeasurementWaitsForOthersToLeave) {
  int looks = 0;
  device_.company = [&] {
    return ++looks < 3 ? std::vector<std::string>{"process 7"} : std::vector<std::string>();
  };
  Add("c=1", "good");
  Serve();
  EXPECT_GE(looks, 3);
  EXPECT_TRUE(results_["c=1"].has_measurement());
  EXPECT_EQ(results_["c=1"].measurement().conditions().find("process 7"), std::string::npos);
}

TEST_F(RunnerTest, NothingIsMeasuredInCompany) {
  std::vector<std::string> there = {"process 7"};
  device_.company = [&] { return there; };
  Add("c=1", "good");
  Add("c=2", "better");
  auto begin = std::chrono::steady_clock::now();
  for (const v1::TaskKind kind : {v1::TASK_SCREEN, v1::TASK_FINALS}) {
    request_.set_kind(kind);
    Serve();
    EXPECT_TRUE(results_.empty());
    EXPECT_EQ(events_.back().unavailable(),
              "not measured here: process 7 uses fake too: end it, or start kiln-worker with "
              "--with-company");
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    // Who stayed once is not waited for again.
    if (kind == v1::TASK_SCREEN) {
      EXPECT_GE(seconds.count(), 0.3);
    } else {
      EXPECT_LT(seconds.count(), 0.2);
    }
    begin = std::chrono::steady_clock::now();
  }
  EXPECT_TRUE(device_.timed().empty());
  there.clear();
  Serve();
  EXPECT_TRUE(results_["c=2"].has_measurement());
}

TEST_F(RunnerTest, WhoComesInTheMiddleVoidsWhatWasMeasured) {
  std::vector<std::string> there;
  Define(
      "inviting",
      [&, honest = AffineBody(kFloat32, kElements)](const LaunchArguments& arguments) {
        there = {"process 7"};
        return honest(arguments);
      },
      1e6);
  device_.company = [&] { return there; };
  Add("c=1", "good");
  Add("c=2", "inviting");
  Add("c=3", "good");
  for (const v1::TaskKind kind : {v1::TASK_SCREEN, v1::TASK_FINALS}) {
    there.clear();
    request_.set_kind(kind);
    Serve();
    EXPECT_EQ(results_.size(), kind == v1::TASK_SCREEN ? 2u : 3u);
    for (const auto& [config, result] : results_) {
      EXPECT_TRUE(result.not_run()) << config;
      EXPECT_FALSE(result.has_measurement() || result.has_failure());
    }
    EXPECT_NE(events_.back().unavailable().find(
                  "not measured here: process 7 used fake while it was measured"),
              std::string::npos);
  }
}

TEST_F(RunnerTest, CompanyThatIsAllowedIsNotedOnTheMeasurement) {
  device_.company = [] { return std::vector<std::string>{"process 7"}; };
  MakeRunner(true);
  Add("c=1", "good");
  Add("c=2", "better");
  for (const v1::TaskKind kind : {v1::TASK_SCREEN, v1::TASK_FINALS}) {
    request_.set_kind(kind);
    Serve();
    EXPECT_TRUE(events_.back().done());
    for (const char* config : {"c=1", "c=2"}) {
      EXPECT_EQ(Disturbances(results_[config].measurement().conditions()),
                std::vector<std::string>{"process 7 used fake too"});
    }
  }
}

TEST_F(RunnerTest, AThrottledDeviceMeasuresNothingAndSaysWhy) {
  FakeDevice::Script script{AffineBody(kFloat32, kElements), 1e6};
  script.throttled_share = 1;
  Add("c=1", "good");
  Add("c=2", "better");
  Add("c=3", "good");
  device_.Define("better", script);
  for (const v1::TaskKind kind : {v1::TASK_SCREEN, v1::TASK_FINALS}) {
    request_.set_kind(kind);
    Serve();
    EXPECT_EQ(events_.back().unavailable(),
              "not measured here: fake is throttled (heat): see to its cooling and its power "
              "supply");
    EXPECT_EQ(results_["c=1"].has_measurement(), kind == v1::TASK_SCREEN);
    EXPECT_TRUE(results_["c=2"].not_run());
    EXPECT_FALSE(results_["c=2"].has_measurement() || results_["c=2"].has_failure());
  }
  // Heat comes and goes; it is the device's, so that it meets all candidates of a round.
  script.throttled_share = 0;
  device_.Define("better", script);
  int launches = 0;
  device_.alter = [&](int, Sample* sample) {
    sample->throttled = launches++ % 200 < 140;
    return absl::OkStatus();
  };
  Serve();
  EXPECT_TRUE(events_.back().done());
  EXPECT_GT(results_["c=2"].measurement().dropped(),
            results_["c=2"].measurement().samples_ns_size())
      << "more than half, as never else";
}

// A device that loses its records stays without until the next request, in which it tries again.
TEST_F(RunnerTest, AllMeasurementsOfAFinalAreOfOneSourceWhichIsRecorded) {
  bool lost = false;
  int lose_at = 1'000'000;
  device_.begin_task = [&] { lost = false; };
  device_.alter = [&](int launch, Sample* sample) {
    lost = lost || launch >= lose_at;
    sample->events_ns = sample->ns * 1.03;
    sample->source = lost ? TimeSource::kEvents : TimeSource::kRecords;
    if (lost) sample->ns = sample->events_ns;
    return absl::OkStatus();
  };
  Add("c=1", "good");
  Add("c=2", "better");
  request_.set_kind(v1::TASK_FINALS);
  request_.set_best_ns(1e6);
  request_.mutable_inputs()->mutable_measurement()->set_max_samples(
      20);  // so that none ends by time
  const auto count = [&] { return static_cast<int>(device_.timed().size()); };
  Serve();
  const int before = count();
  Serve();
  const int launches = count() - before;
  for (const char* config : {"c=1", "c=2"}) {
    ASSERT_TRUE(results_[config].has_fresh()) << config;
    EXPECT_EQ(results_[config].measurement().source(), "records");
    EXPECT_EQ(results_[config].fresh().source(), "records");
  }
  // In the middle of the finals; in the last of the fresh measurements.
  for (const bool late : {false, true}) {
    lose_at = count() + (late ? launches - 2 : 25);
    Serve();
    lose_at = 1'000'000;
    for (const char* config : {"c=1", "c=2"}) {
      EXPECT_EQ(results_[config].measurement().source(), late ? "records" : "events");
      EXPECT_EQ(results_[config].fresh().source(), "events") << config << late;
      const double ns = config[2] == '1' ? 1.03e6 : 0.9785e6;
      EXPECT_NEAR(results_[config].fresh().median_ns(), ns, 1) << config << late;
    }
    Serve();
    EXPECT_EQ(results_["c=1"].measurement().source(), "records") << "tried again";
  }
}

TEST_F(RunnerTest, NoRoomForTheTensorsIsAResourceFailure) {
  device_.set_memory_bytes(1000);
  Add("c=1", "good");
  Serve();
  EXPECT_EQ(results_["c=1"].failure().stage(), v1::Failure::RESOURCES);
}

// The thread that measures has a core of its own; what else the runner does, it does elsewhere.
TEST_F(RunnerTest, ItMeasuresOnItsCore) {
  const std::vector<int> before = AllowedCores();
  ASSERT_FALSE(before.empty());
  measuring_core_ = before.back();
  MakeRunner(false);
  bool timing = false;
  device_.alter = [&](int, Sample*) {
    timing = AllowedCores() == std::vector<int>{before.back()};
    EXPECT_TRUE(timing);
    return absl::OkStatus();
  };
  Add("c=1", "good");
  Add("c=2", "better");
  request_.set_best_ns(1e6);
  for (const v1::TaskKind kind : {v1::TASK_SCREEN, v1::TASK_RACE, v1::TASK_FINALS}) {
    request_.set_kind(kind);
    timing = false;
    Serve();
    EXPECT_TRUE(timing) << kind;
    EXPECT_TRUE(results_["c=1"].has_measurement());
    EXPECT_EQ(AllowedCores(), before);
    EXPECT_EQ(reference_cores_, before);
  }
}

TEST_F(RunnerTest, UnknownKindsFailAsAWhole) {
  request_.set_kind(v1::TASK_EMPTY);
  Add("c=1", "good");
  Serve();
  ASSERT_EQ(events_.size(), 1u);
  EXPECT_EQ(events_[0].event_case(), v1::ProfileEvent::kFailure);
}

TEST(StageClockTest, StagesNestAndAddUp) {
  const auto nap = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  StageClock clock;
  clock.Start();
  const auto begin = std::chrono::steady_clock::now();
  {
    const StageClock::Within outer(&clock, "outer");
    nap();
    {
      const StageClock::Within inner(&clock, "inner");
      nap();
    }
    const StageClock::Within nothing(nullptr, "nothing");
    nap();
  }
  nap();
  std::map<std::string, double> seconds = clock.Read();
  const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begin;
  ASSERT_EQ(seconds.size(), 3u);
  EXPECT_GE(seconds["outer"], 0.04);
  EXPECT_GE(seconds["inner"], 0.02);
  EXPECT_GE(seconds["other"], 0.02);
  EXPECT_NEAR(seconds["outer"] + seconds["inner"] + seconds["other"], whole.count(), 2e-3);
  clock.Start();
  EXPECT_LT(clock.Read()["other"], 0.01) << "it begins anew";
}

// What takes long lands in its own stage, and nowhere else.
TEST_F(RunnerTest, ItsStagesAreWhatItDid) {
  Add("c=1", "good");
  Add("c=2", "good");
  reference_time_ = std::chrono::milliseconds(80);
  MakeRunner(true);
  device_.company = [] { return std::vector<std::string>{"process 7"}; };
  for (const v1::TaskKind kind : {v1::TASK_SCREEN, v1::TASK_FINALS}) {
    request_.set_kind(kind);
    const auto begin = std::chrono::steady_clock::now();
    Serve();
    const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begin;
    double sum = 0;
    std::map<std::string, double> seconds(events_.back().seconds().begin(),
                                          events_.back().seconds().end());
    for (const auto& [stage, value] : seconds) {
      EXPECT_GE(value, 0) << stage;
      sum += value;
    }
    EXPECT_LE(sum, whole.count());
    EXPECT_GE(sum, 0.9 * whole.count() - 1e-3);
    for (const char* stage : {"setup", "check", "warmup", "measure", "health", "company"}) {
      EXPECT_EQ(seconds.count(stage), 1u) << stage;
    }
    for (size_t i = 0; i + 1 < events_.size(); ++i) EXPECT_TRUE(events_[i].seconds().empty());
    if (kind == v1::TASK_FINALS) continue;  // reference and company are known by now
    EXPECT_GE(seconds["check"], 0.08);
    EXPECT_GE(seconds["company"], 0.3);
    EXPECT_LT(seconds["setup"] + seconds["warmup"] + seconds["measure"] + seconds["other"], 0.08);
  }
}

TEST_F(RunnerTest, GarbageForABundleIsALoadFailure) {
  std::ofstream(folder_ + "/garbage") << std::string(1000, '\xff');
  Add("c=1", "garbage");
  Serve();
  EXPECT_EQ(results_["c=1"].failure().stage(), v1::Failure::LOAD);
}

}  // namespace
}  // namespace kiln::worker

// A host of several GPUs: real coordinator, worker, compiler and runners, with the driver and NVML
// of tests/util/fake_cuda, which writes down which process ran what on which device and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/kiln_client.h"
#include "compiler/base/affinity.h"
#include "proto/conditions.h"
#include "tests/e2e/rpc/process.h"
#include "tests/util/double_kernel.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using test::Process;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr int kElements = 4096;

// A kernel on a device: microseconds of the machine's monotonic clock.
struct Ran {
  int pid = 0;
  std::string kernel, grid, threads;
  double begin = 0, end = 0;
};

bool Overlap(const Ran& a, const Ran& b) { return a.begin < b.end && b.begin < a.end; }
bool IsBy(const Ran& ran, int pid) { return ran.pid == pid; }
double NowUs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

class SeveralGpusTest : public testing::Test {
 protected:
  ~SeveralGpusTest() override {
    worker_.reset();
    coordinator_.reset();
    fs::remove_all(folder_);
  }
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::string Folder(int device) const { return Path(absl::StrCat("gpu", device)); }

  void Start(int devices, int kernel_us, const std::vector<std::string>& flags = {},
             int others_from = 8) {
    devices_ = devices;
    fs::create_directories(folder_ / "driver");
    const fs::path driver = fs::path(test::BinaryFolder()) / "../tests/fake_cuda";
    for (const char* library : {"libcuda.so.1", "libnvidia-ml.so.1"}) {
      fs::create_symlink(fs::canonical(driver / library), folder_ / "driver" / library);
    }
    std::ofstream(Path("driver/fake_cuda.conf"))
        << "FAKE_CUDA_DEVICES=" << devices << "\nFAKE_CUDA_KERNEL_US=" << kernel_us
        << "\nFAKE_CUDA_ZONE=4096\nFAKE_CUDA_FOLDER=" << folder_.string()
        << "\nFAKE_CUDA_OTHERS=" << others_from << "\n";
    const std::string address = absl::StrCat("unix:", Path("s"));
    coordinator_ = std::make_unique<Process>(
        std::vector<std::string>{test::BinaryFolder() + "/kiln-coordinator", "--store",
                                 Path("store"), "--listen", address},
        Path("coordinator"));
    ASSERT_TRUE(coordinator_->AwaitLog("listening on")) << coordinator_->err();
    std::vector<std::string> command = {test::BinaryFolder() + "/kiln-worker",
                                        "--coordinator",
                                        address,
                                        "--name",
                                        "w",
                                        "--devices",
                                        "gpu",
                                        "--work-dir",
                                        Path("work"),
                                        "--runner-arg=--lock-dir=" + folder_.string()};
    command.insert(command.end(), flags.begin(), flags.end());
    // No CUPTI and no assembler: neither knows this driver.
    environment_ = {{"LD_LIBRARY_PATH", Path("driver")}, {"KILN_CUDA_PATH", "/nonexistent"}};
    worker_ = std::make_unique<Process>(command, Path("worker"), environment_);
    worker_command_ = std::move(command);
    client_ = *client::Client::Connect(address);
  }

  // Candidates that are all of another grid or number of threads.
  static client::SweepSpec Spec(const std::string& kernel, size_t candidates) {
    client::SweepSpec spec;
    spec.name = kernel;
    spec.kernel_source = test::DoubleKernel(kernel);
    spec.arguments = {{"N", absl::StrCat(kElements)}};
    for (int block = 128; block <= 4096; block *= 2) {
      for (int threads = 32; threads <= 256; threads += 32) {
        if (spec.configs.size() == candidates) break;
        spec.configs.push_back(absl::StrCat("block=", block, ",threads=", threads));
      }
    }
    spec.target = "gpu";
    spec.strategy = "exhaustive";
    spec.measurement.min_seconds = 0.01;
    return spec;
  }
  std::string Submit(const client::SweepSpec& spec) {
    const auto submitted = client_->Submit(spec);
    EXPECT_TRUE(submitted.ok()) << submitted.status();
    return submitted.ok() ? submitted->sweep : "";
  }
  // Waits for the end, which has to be a winner.
  client::SweepDetails Finish(const std::string& sweep) {
    const auto last = client_->Watch(sweep, [](const client::SweepEvent&) { return true; });
    EXPECT_TRUE(last.ok() && last->winner != nullptr)
        << last.status() << (last.ok() ? last->progress.message : "") << worker_->out();
    const auto details = client_->Show(sweep, true);
    EXPECT_TRUE(details.ok()) << details.status();
    if (!details.ok()) return {};
    for (const client::Candidate& candidate : details->candidates) {
      EXPECT_FALSE(candidate.failed) << candidate.config << ": " << candidate.failure.message;
    }
    return *details;
  }
  void AwaitRound(const std::string& sweep, const std::string& round) {
    bool seen = false;
    const auto last = client_->Watch(sweep, [&](const client::SweepEvent& event) {
      seen = event.progress.round == round;
      return !seen;
    });
    ASSERT_TRUE(seen) << last.status();
  }

  std::vector<Ran> Log(int device) const {
    std::vector<Ran> log;
    std::ifstream in(Folder(device) + "/log");
    std::string name;
    for (Ran ran; in >> ran.pid >> name >> ran.begin >> ran.end;) {
      const std::vector<std::string> parts = absl::StrSplit(name, '/');
      if (parts.size() != 3) continue;
      ran.kernel = parts[0];
      ran.grid = parts[1];
      ran.threads = parts[2];
      log.push_back(ran);
    }
    return log;
  }
  static std::set<int> Pids(const std::vector<Ran>& log) {
    std::set<int> pids;
    for (const Ran& ran : log) pids.insert(ran.pid);
    return pids;
  }
  // "block=512,threads=64" of a log's line.
  static std::string ConfigOf(const Ran& ran) {
    const int grid = std::max(1, std::atoi(ran.grid.c_str()));
    return absl::StrCat("block=", kElements / grid, ",threads=", ran.threads);
  }

  const fs::path folder_ =
      fs::path(testing::TempDir()) / absl::StrCat("kiln_gpus_", getpid(), "_", ++made_);
  static inline int made_ = 0;
  int devices_ = 0;
  std::vector<std::string> worker_command_;
  std::map<std::string, std::string> environment_;
  std::unique_ptr<Process> coordinator_, worker_;
  std::unique_ptr<client::Client> client_;
};

// "0-3" of each thread of a process; the first is its main thread's.
std::vector<std::string> CoresOf(int pid) {
  std::vector<std::pair<int, std::string>> threads;
  std::error_code gone;
  const std::string tasks = absl::StrCat("/proc/", pid, "/task");
  for (const fs::directory_entry& entry : fs::directory_iterator(tasks, gone)) {
    std::ifstream in(entry.path() / "status");
    for (std::string line; std::getline(in, line);) {
      constexpr char kName[] = "Cpus_allowed_list:\t";
      if (!absl::StartsWith(line, kName)) continue;
      threads.emplace_back(std::atoi(entry.path().filename().c_str()),
                           line.substr(sizeof(kName) - 1));
    }
  }
  std::sort(threads.begin(), threads.end());
  std::vector<std::string> cores;
  for (auto& [id, list] : threads) cores.push_back(std::move(list));
  return cores;
}

// Of a process, by name.
std::vector<std::pair<std::string, int>> ChildrenOf(int pid) {
  std::vector<std::pair<std::string, int>> children;
  std::error_code gone;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", gone)) {
    const int id = std::atoi(entry.path().filename().c_str());
    std::ifstream in(entry.path() / "status");
    std::string name;
    for (std::string line; id > 0 && std::getline(in, line);) {
      if (absl::StartsWith(line, "Name:\t")) name = line.substr(6);
      if (line == absl::StrCat("PPid:\t", pid)) children.emplace_back(name, id);
    }
  }
  return children;
}

TEST_F(SeveralGpusTest, TheCoreThatMeasuresIsKeptQuiet) {
  const std::vector<int> cores = AllowedCores();
  if (cores.size() < 2) GTEST_SKIP() << "one core has no other";
  const std::string quiet = absl::StrCat(cores.back());
  const std::string others = CoresText({cores.begin(), cores.end() - 1});
  Start(/*devices=*/1, /*kernel_us=*/5000, {"--quiet-cores=" + quiet});
  while (!absl::StrContains(worker_->out(), "attached to") &&
         worker_->Wait(absl::Milliseconds(5)) == -1) {
  }
  const std::string sweep = Submit(Spec("double", 16));
  std::set<std::string> measuring, compiling, beside;
  bool ended = false;
  const auto begin = std::chrono::steady_clock::now();
  while (!ended && std::chrono::steady_clock::now() - begin < std::chrono::seconds(60)) {
    for (const auto& [name, pid] : ChildrenOf(worker_->pid())) {
      const std::vector<std::string> threads = CoresOf(pid);
      for (size_t i = 0; i < threads.size(); ++i) {
        if (name == "kiln-compile") compiling.insert(threads[i]);
        if (name == "kiln-runner") (i == 0 ? measuring : beside).insert(threads[i]);
      }
    }
    ended = client::IsTerminal(client_->Show(sweep, false)->summary.progress.state);
  }
  Finish(sweep);
  EXPECT_EQ(compiling, std::set<std::string>{others});
  EXPECT_EQ(measuring, (std::set<std::string>{others, quiet})) << "to measure, and else";
  EXPECT_EQ(beside, std::set<std::string>{others}) << "the runner's other threads";
  for (const std::string& list : CoresOf(worker_->pid())) EXPECT_EQ(list, others);
  EXPECT_THAT(worker_->out(), HasSubstr(absl::StrCat("measuring on ", quiet)));
  EXPECT_THAT(worker_->out(), HasSubstr("gpu0 does without: ")) << "records, of this driver";
}

TEST_F(SeveralGpusTest, DevicesOfTwoModelsServeTheSweepsForTheirs) {
  Start(/*devices=*/3, /*kernel_us=*/2000, {}, /*others_from=*/1);
  std::vector<std::string> sweeps;
  for (const char* target : {"sm_90a", "sm_80"}) {
    client::SweepSpec spec = Spec(absl::StrCat("double_", sweeps.size()), 8);
    spec.target = target;
    sweeps.push_back(Submit(spec));
  }
  const std::set<std::string> first = {"w/gpu0"}, others = {"w/gpu1", "w/gpu2"};
  for (size_t i = 0; i < sweeps.size(); ++i) {
    const client::SweepDetails sweep = Finish(sweeps[i]);
    ASSERT_THAT(sweep.candidates, SizeIs(8));
    for (const client::Candidate& candidate : sweep.candidates) {
      for (const client::Measurement& m : candidate.measurements) {
        EXPECT_EQ((i == 0 ? first : others).count(m.device), 1u) << m.device;
      }
    }
  }
  const auto kernels = [&](int device) {
    std::set<std::string> names;
    for (const Ran& ran : Log(device)) names.insert(ran.kernel);
    return names;
  };
  EXPECT_EQ(kernels(0).size(), 1u);
  EXPECT_EQ(kernels(1), kernels(2));
  EXPECT_NE(kernels(0), kernels(1));
}

TEST_F(SeveralGpusTest, EveryDeviceHasARunnerOfItsOwnAndACandidateOneDeviceARound) {
  Start(/*devices=*/3, /*kernel_us=*/3000);
  const client::SweepDetails sweep = Finish(Submit(Spec("double", 24)));
  ASSERT_THAT(sweep.candidates, SizeIs(24));
  std::map<std::string, std::set<std::string>> told;  // config -> devices
  std::set<std::string> screened_on, finals_on;
  int finalists = 0;
  for (const client::Candidate& candidate : sweep.candidates) {
    std::set<std::string> rounds;
    for (const client::Measurement& m : candidate.measurements) {
      EXPECT_TRUE(rounds.insert(m.round).second) << candidate.config << " twice in " << m.round;
      EXPECT_TRUE(m.numbers_checked);
      EXPECT_THAT(m.conditions, Not(HasSubstr("uses the GPU too")));
      told[candidate.config].insert(m.device);
      if (m.round == "screen") screened_on.insert(m.device);
      if (m.round != "finals") continue;
      ++finalists;
      finals_on.insert(m.device);
    }
    EXPECT_EQ(rounds.count("screen"), 1u) << candidate.config;
  }
  EXPECT_EQ(screened_on, (std::set<std::string>{"w/gpu0", "w/gpu1", "w/gpu2"}));
  EXPECT_GE(finalists, 2);
  EXPECT_THAT(finals_on, SizeIs(1)) << "finalists are compared on one device";

  std::map<std::string, std::set<std::string>> ran_on, checked_on;
  std::set<int> runners;
  for (int device = 0; device < devices_; ++device) {
    const std::vector<Ran> log = Log(device);
    EXPECT_THAT(Pids(log), SizeIs(1)) << "gpu" << device;
    runners.merge(Pids(log));
    for (size_t i = 0; i + 1 < log.size(); ++i) {
      EXPECT_LE(log[i].end, log[i + 1].begin + 1) << "gpu" << device << ", line " << i;
    }
    for (const Ran& ran : log) {
      // No candidate here has so few blocks: a finalist's object for a small shape has.
      const bool small = std::stoi(ran.grid) <= 2;
      (small ? checked_on : ran_on)[ConfigOf(ran)].insert(absl::StrCat("w/gpu", device));
    }
    int contexts = 0;
    for (const auto& entry : fs::directory_iterator(Folder(device))) {
      contexts += entry.path().filename() == "log" ? 0 : 1;
    }
    EXPECT_EQ(contexts, 1) << "of gpu" << device << ": its runner's";
  }
  EXPECT_THAT(runners, SizeIs(3));
  EXPECT_THAT(checked_on, Not(IsEmpty())) << "at a shape that no tile divides";
  // Any device may hold the winner against its plain code, which is not timed.
  ASSERT_NE(sweep.winner, nullptr);
  const std::string& winner = sweep.winner->config;
  EXPECT_THAT(ran_on[winner], IsSupersetOf(told[winner]));
  told[winner] = ran_on[winner];
  EXPECT_EQ(ran_on, told) << "what the coordinator was told is what the devices did";
}

TEST_F(SeveralGpusTest, TheOthersGoOnWhenOneRunnerIsKilled) {
  Start(/*devices=*/3, /*kernel_us=*/15000);
  const std::string sweep = Submit(Spec("double", 24));
  const absl::Time limit = absl::Now() + absl::Seconds(60);
  for (int device = 0; device < devices_; ++device) {
    while (Log(device).empty() && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(5));
    ASSERT_THAT(Log(device), Not(IsEmpty())) << worker_->out();
  }
  const int victim = Log(1).front().pid;
  ASSERT_EQ(kill(victim, SIGKILL), 0);
  const double killed = NowUs();
  const client::SweepDetails details = Finish(sweep);
  const std::vector<Ran> hurt = Log(1);
  EXPECT_THAT(Pids(hurt), SizeIs(2)) << "another runner took over";
  const auto next =
      std::find_if(hurt.begin(), hurt.end(), [&](const Ran& ran) { return !IsBy(ran, victim); });
  ASSERT_NE(next, hurt.end());
  Ran gap;
  gap.begin = killed;
  gap.end = next->begin;
  for (const int device : {0, 2}) {
    const std::vector<Ran> log = Log(device);
    EXPECT_THAT(Pids(log), SizeIs(1)) << "gpu" << device;
    EXPECT_TRUE(
        std::any_of(log.begin(), log.end(), [&](const Ran& ran) { return Overlap(ran, gap); }))
        << "gpu" << device << " stood still while gpu1 had no runner";
  }
  size_t screened = 0;
  for (const client::Candidate& candidate : details.candidates) {
    screened += std::count_if(candidate.measurements.begin(), candidate.measurements.end(),
                              [](const auto& m) { return m.round == "screen"; });
  }
  EXPECT_EQ(screened, 24u);
}

TEST_F(SeveralGpusTest, ASecondSweepTakesTheDeviceThatTheFinalsLeaveFree) {
  Start(/*devices=*/2, /*kernel_us=*/10000);
  client::SweepSpec first = Spec("first", 2);
  first.measurement.min_samples = 60;  // finals of more than a second, on one device
  const std::string sweep = Submit(first);
  AwaitRound(sweep, "finals");
  const double free_since = NowUs();
  Finish(Submit(Spec("second", 2)));
  const client::SweepDetails finals = Finish(sweep);
  ASSERT_NE(finals.winner, nullptr);
  const int busy = finals.winner->measurement.device == "w/gpu1" ? 1 : 0;
  std::vector<Ran> own = Log(busy);
  std::erase_if(own, [&](const Ran& ran) { return ran.begin < free_since; });
  const std::vector<Ran> other = Log(1 - busy);
  EXPECT_TRUE(std::any_of(other.begin(), other.end(),
                          [&](const Ran& there) {
                            return absl::StrContains(there.kernel, "second") &&
                                   std::any_of(own.begin(), own.end(), [&](const Ran& here) {
                                     return absl::StrContains(here.kernel, "first") &&
                                            Overlap(here, there);
                                   });
                          }))
      << "nothing of the second sweep ran on gpu" << 1 - busy << " beside the first one's finals";
}

TEST_F(SeveralGpusTest, WhereOthersComputeNothingIsMeasured) {
  Start(/*devices=*/2, /*kernel_us=*/2000, {"--runner-arg=--company-seconds=0.1"});
  // This process, as one that has a context of gpu1.
  fs::create_directories(Folder(1));
  std::ofstream(absl::StrCat(Folder(1), "/", getpid())) << "";
  const client::SweepDetails sweep = Finish(Submit(Spec("double", 16)));
  for (const client::Candidate& candidate : sweep.candidates) {
    for (const client::Measurement& m : candidate.measurements) {
      EXPECT_EQ(m.device, "w/gpu0");
      EXPECT_THAT(Disturbances(m.conditions), IsEmpty());
    }
  }
}

TEST_F(SeveralGpusTest, ASweepThatWaitsForOthersSaysSo) {
  Start(/*devices=*/1, /*kernel_us=*/2000, {"--runner-arg=--company-seconds=0.1"});
  fs::create_directories(Folder(0));
  const std::string own = absl::StrCat(Folder(0), "/", getpid());
  std::ofstream(own) << "";
  const std::string sweep = Submit(Spec("double", 4));
  const std::string wanted =
      absl::StrCat("not measured here: process ", getpid(), " uses gpu0 too");
  std::string message;
  const absl::Time limit = absl::Now() + absl::Seconds(30);
  while (!absl::StartsWith(message, wanted) && absl::Now() < limit) {
    absl::SleepFor(absl::Milliseconds(50));
    const auto details = client_->Show(sweep, false);
    ASSERT_TRUE(details.ok()) << details.status();
    message = details->summary.progress.message;
  }
  EXPECT_THAT(message, StartsWith(wanted)) << worker_->out();
  fs::remove(own);
  EXPECT_THAT(Finish(sweep).summary.progress.message, Not(HasSubstr("not measured here")));
}

TEST_F(SeveralGpusTest, WhereOthersAreAllowedTheMeasurementNamesThem) {
  Start(/*devices=*/2, /*kernel_us=*/2000,
        {"--with-company", "--runner-arg=--company-seconds=0.1"});
  fs::create_directories(Folder(1));
  std::ofstream(absl::StrCat(Folder(1), "/", getpid())) << "";
  const client::SweepDetails sweep = Finish(Submit(Spec("double", 16)));
  const std::string who = absl::StrCat("process ", getpid(), " used gpu1 too");
  std::set<std::string> devices;
  for (const client::Candidate& candidate : sweep.candidates) {
    for (const client::Measurement& m : candidate.measurements) {
      devices.insert(m.device);
      EXPECT_EQ(Disturbances(m.conditions),
                m.device == "w/gpu1" ? std::vector<std::string>{who} : std::vector<std::string>())
          << m.device << ": " << m.conditions;
    }
  }
  EXPECT_THAT(devices, SizeIs(2));
}

TEST_F(SeveralGpusTest, ASecondWorkerDoesNotGetAGpuThatIsMeasuredOn) {
  Start(/*devices=*/1, /*kernel_us=*/100);
  Finish(Submit(Spec("double", 2)));
  std::vector<std::string> command = worker_command_;
  for (std::string& word : command) {
    if (word == "w") word = "second";
    if (word == Path("work")) word = Path("work2");
  }
  Process second(command, Path("second"), environment_);
  EXPECT_EQ(second.Wait(absl::Seconds(40)), 1);
  EXPECT_THAT(second.out() + second.err(), HasSubstr("gpu0 (0000:00:00.0) is measured on by "));
  EXPECT_THAT(second.out() + second.err(), HasSubstr("name other GPUs with --devices"));
}

}  // namespace
}  // namespace kiln

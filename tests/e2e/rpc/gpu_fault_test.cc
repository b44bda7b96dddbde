// A GPU that fails under a runner that cannot say so: real coordinator, worker and runner, with the
// driver and NVML of tests/util/fake_cuda.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/kiln_client.h"
#include "tests/e2e/rpc/process.h"
#include "tests/util/double_kernel.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using test::Process;
using testing::HasSubstr;

class GpuFaultTest : public testing::Test {
 protected:
  GpuFaultTest() {
    fs::create_directories(folder_ / "driver");
    const fs::path driver = fs::path(test::BinaryFolder()) / "../tests/fake_cuda";
    for (const char* library : {"libcuda.so.1", "libnvidia-ml.so.1"}) {
      fs::create_symlink(fs::canonical(driver / library), folder_ / "driver" / library);
    }
    Configure("FAKE_CUDA_KERNEL_US=20000\nFAKE_CUDA_ZONE=4096\nFAKE_CUDA_FOLDER=" +
              folder_.string());
    const std::string address = absl::StrCat("unix:", Path("s"));
    coordinator_ = std::make_unique<Process>(
        std::vector<std::string>{test::BinaryFolder() + "/kiln-coordinator", "--store",
                                 Path("store"), "--listen", address},
        Path("coordinator"));
    EXPECT_TRUE(coordinator_->AwaitLog("listening on")) << coordinator_->err();
    worker_ = std::make_unique<Process>(
        std::vector<std::string>{test::BinaryFolder() + "/kiln-worker", "--coordinator", address,
                                 "--name", "w", "--devices", "gpu", "--work-dir", Path("work"),
                                 "--silence-seconds", "2",
                                 "--runner-arg=--lock-dir=" + folder_.string()},
        Path("worker"),
        std::map<std::string, std::string>{{"LD_LIBRARY_PATH", Path("driver")},
                                           {"KILN_CUDA_PATH", "/nonexistent"}});
    client_ = *client::Client::Connect(address);
  }
  ~GpuFaultTest() override {
    worker_.reset();
    coordinator_.reset();
    fs::remove_all(folder_);
  }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  void Configure(const std::string& lines) {
    std::ofstream(Path("driver/fake_cuda.conf"), std::ios::app) << lines << "\n";
  }
  // The process that ran the first kernel; 0: none did within a minute.
  int Runner() const {
    for (const absl::Time limit = absl::Now() + absl::Seconds(60); absl::Now() < limit;
         absl::SleepFor(absl::Milliseconds(5))) {
      int pid = 0;
      if (std::ifstream(Path("gpu0/log")) >> pid) return pid;
    }
    return 0;
  }
  bool WorkerSays(const std::string& words) const {
    const absl::Time limit = absl::Now() + absl::Seconds(30);
    while (!absl::StrContains(worker_->out(), words) && absl::Now() < limit) {
      absl::SleepFor(absl::Milliseconds(20));
    }
    return absl::StrContains(worker_->out(), words);
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / absl::StrCat("kiln_fault_", getpid());
  std::unique_ptr<Process> coordinator_, worker_;
  std::unique_ptr<client::Client> client_;
};

TEST_F(GpuFaultTest, IsFoundByTheWorkerAndBlamedOnNoCandidate) {
  client::SweepSpec spec;
  spec.name = "double";
  spec.kernel_source = test::DoubleKernel("double");
  spec.arguments = {{"N", "4096"}};
  spec.configs = {"block=128,threads=128", "block=256,threads=128", "block=512,threads=128"};
  spec.target = "gpu";
  spec.strategy = "exhaustive";
  const auto submitted = client_->Submit(spec);
  ASSERT_TRUE(submitted.ok()) << submitted.status() << worker_->out();
  const int runner = Runner();
  ASSERT_GT(runner, 0) << worker_->out();
  ASSERT_EQ(kill(runner, SIGSTOP), 0);  // as one that waits for its driver
  Configure("FAKE_NVML_ECC=1");
  EXPECT_TRUE(WorkerSays("quarantined: 1 uncorrected ECC errors")) << worker_->out();
  const auto details = client_->Show(submitted->sweep, true);
  ASSERT_TRUE(details.ok()) << details.status();
  for (const client::Candidate& candidate : details->candidates) {
    EXPECT_FALSE(candidate.failed) << candidate.failure.message;
  }
}

}  // namespace
}  // namespace kiln

// A range of sizes through the whole farm: real processes, tunectl, and the shared object that
// comes out, with the coordinator and the worker killed on the way.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "client/kiln_client.h"
#include "tests/e2e/rpc/process.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::Process;
using testing::HasSubstr;
using testing::Not;

constexpr int kN = 48, kK = 40;

class RangeTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / absl::StrCat("kiln_range_", getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    address_ = absl::StrCat("unix:", Path("s.sock"));
    StartCoordinator();
    StartWorker();
  }
  void TearDown() override {
    worker_.reset();
    coordinator_.reset();
    fs::remove_all(folder_);
  }

  void StartCoordinator() {
    coordinator_.reset();
    coordinator_ = std::make_unique<Process>(
        std::vector<std::string>{test::BinaryFolder() + "/kiln-coordinator", "--store",
                                 Path("store"), "--listen", address_},
        Path(absl::StrCat("coordinator", ++starts_)));
    ASSERT_TRUE(coordinator_->AwaitLog("listening on")) << coordinator_->err();
  }
  void StartWorker() {
    worker_.reset();
    worker_ = std::make_unique<Process>(
        std::vector<std::string>{test::BinaryFolder() + "/kiln-worker", "--coordinator", address_,
                                 "--name", "w", "--work-dir", Path("worker")},
        Path(absl::StrCat("worker_log", ++starts_)));
  }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::unique_ptr<client::Client> Client() const { return *client::Client::Connect(address_); }

  std::string WriteSweep(const std::string& shapes) {
    std::ofstream(Path("sweep.yaml"))
        << "name: any\ntemplate: matmul\nshapes: {" << shapes << "}\n"
        << "tunables: {block_M: [8, 64], block_N: [16, 48], block_K: [40]}\n"
        << "measurement: {min_seconds: 0.01, max_samples: 60}\n";
    return Path("sweep.yaml");
  }

  int Tunectl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {test::BinaryFolder() + "/tunectl", "--server", address_});
    Process process(arguments, Path("ctl"));
    const int code = process.Wait(absl::Seconds(280));
    out_ = process.out();
    err_ = process.err();
    return code;
  }

  client::RangeTable TableNow(const std::string& sweep) const {
    const auto details = Client()->Show(sweep, false);
    if (!details.ok() || details->range == nullptr) return {};
    return *details->range;
  }
  // Until so many sizes satisfy `known`.
  template <typename Known>
  bool Await(const std::string& sweep, int count, const Known& known) const {
    for (int i = 0; i < 2400; ++i) {
      int found = 0;
      for (const client::RangePoint& point : TableNow(sweep).points) found += known(point);
      if (found >= count) return true;
      absl::SleepFor(absl::Milliseconds(50));
    }
    return false;
  }

  // A list shows the range alone, with its progress; its parts when asked for, or under `show`.
  void ExpectOneLine(const std::string& sweep) {
    ASSERT_EQ(Tunectl({"--json", "list"}), 0) << err_;
    json listed = json::parse(out_)["sweeps"];
    ASSERT_EQ(listed.size(), 1u) << out_;
    EXPECT_EQ(listed[0]["sweep"], sweep);
    EXPECT_EQ(listed[0]["range"]["high"], 160);
    EXPECT_GT(listed[0]["progress"]["done"], 3);
    ASSERT_EQ(Tunectl({"list"}), 0) << err_;
    EXPECT_THAT(out_, HasSubstr("M=1..160"));
    ASSERT_EQ(Tunectl({"--json", "list", "--parts", "--limit", "0"}), 0) << err_;
    listed = json::parse(out_)["sweeps"];
    ASSERT_EQ(Tunectl({"--json", "show", sweep}), 0) << err_;
    const json parts = json::parse(out_)["parts"];
    EXPECT_GT(parts.size(), 3u);
    EXPECT_EQ(listed.size(), parts.size() + 1);
    for (const json& part : parts) EXPECT_EQ(part.value("part_of", ""), sweep);
    ASSERT_EQ(Tunectl({"show", sweep, "--parts"}), 0) << err_;
    EXPECT_THAT(out_, HasSubstr(parts[0]["sweep"].get<std::string>().substr(0, 12)));
  }

  // Over kills of coordinator and worker, all the time of the one device is accounted for.
  void ExpectWholeAccount(const std::string& sweep) {
    const auto details = Client()->Show(sweep, false);
    ASSERT_TRUE(details.ok() && details->time.has_value());
    EXPECT_NEAR(details->time->elapsed_seconds, details->summary.progress.elapsed_seconds, 1e-6);
    ASSERT_EQ(details->time->devices.size(), 1u);
    const client::DeviceTime& device = details->time->devices[0];
    EXPECT_EQ(device.device, "w/cpu");
    double sum = 0;
    for (const auto& [part, seconds] : device.seconds) sum += seconds;
    EXPECT_NEAR(sum, details->time->elapsed_seconds, 1e-6);
    EXPECT_GT(device.seconds.at("measure"), 0);
    EXPECT_GT(device.seconds.at("lost"), 0) << "its worker was killed";
  }

  int starts_ = 0;  // each with a log of its own
  fs::path folder_;
  std::string address_, out_, err_;
  std::unique_ptr<Process> coordinator_, worker_;
};

using Kernel = int32_t (*)(const void*, const void*, const void*, void*, int64_t);

double LargestError(Kernel kernel, int m) {
  std::vector<float> a(m * kK), b(kK * kN), c(m * kN, NAN);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 17) / 8 - 1;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 13) / 4 - 1.5f;
  if (kernel(nullptr, a.data(), b.data(), c.data(), m) != 0) return INFINITY;
  double worst = 0;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < kN; ++j) {
      double want = 0;
      for (int l = 0; l < kK; ++l) want += static_cast<double>(a[i * kK + l]) * b[l * kN + j];
      const double error = std::abs(want - static_cast<double>(c[i * kN + j]));
      if (!(error <= worst)) worst = error;
    }
  }
  return worst;
}

TEST_F(RangeTest, SurvivesKillsAndComesOutAsOneObject) {
  const std::string file = WriteSweep("M: 1..160@1 20 160, N: 48, K: 40");
  ASSERT_EQ(Tunectl({"--json", "submit", file}), 0) << err_;
  const std::string sweep = json::parse(out_)["sweeps"][0]["sweep"];

  ASSERT_TRUE(Await(sweep, 1, [](const client::RangePoint& p) { return !p.winner.empty(); }));
  StartCoordinator();
  EXPECT_FALSE(TableNow(sweep).points.empty()) << "what was known is known after kill -9";
  ASSERT_TRUE(Await(sweep, 2, [](const client::RangePoint& p) { return !p.times_ns.empty(); }));
  StartWorker();
  ASSERT_TRUE(Await(sweep, 1, [](const client::RangePoint& p) { return p.dispatched_ns > 0; }));
  StartCoordinator();

  ASSERT_EQ(Tunectl({"--reconnect", "60", "submit", file, "--watch", "-o", Path("out")}), 0)
      << err_ << out_;
  EXPECT_THAT(out_, HasSubstr("M=1"));
  void* const handle = dlopen(Path("out/kiln_matmul.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  const auto kernel = reinterpret_cast<Kernel>(dlsym(handle, "kiln_matmul"));
  ASSERT_NE(kernel, nullptr);
  const client::RangeTable table = TableNow(sweep);
  ASSERT_FALSE(table.steps.empty());
  for (const client::RangeStep& step : table.steps) {
    for (const int64_t m : {step.first, (step.first + step.last) / 2, step.last}) {
      EXPECT_LT(LargestError(kernel, static_cast<int>(m)), 1e-3) << m;
    }
  }
  std::vector<float> room(200 * kN);
  for (const int64_t m : {-1, 0, 161, 1 << 20}) {
    EXPECT_EQ(kernel(nullptr, room.data(), room.data(), room.data(), m), -1) << m;
  }
  const json manifest = json::parse(std::ifstream(Path("out/kiln_matmul.json")));
  EXPECT_EQ(manifest["dispatch"]["high"], 160);
  EXPECT_EQ(manifest["variants"].size(), table.variants.size());
  EXPECT_EQ(manifest["measured"]["points"].size(), table.points.size());
  EXPECT_THAT(test::ReadText(Path("out/kiln_matmul.h")), HasSubstr("1 to 160"));

  ASSERT_EQ(Tunectl({"show", sweep}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("DISPATCHED"));
  ExpectOneLine(sweep);
  ExpectWholeAccount(sweep);
  ASSERT_EQ(Tunectl({"explain", sweep}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("tunectl explain "));
  EXPECT_EQ(Tunectl({"fetch", sweep, "--format", "cubin", "-o", Path("out")}), 6) << err_;

  // Any size in it finds it; others are told why not.
  EXPECT_EQ(Tunectl({"lookup", file}), 0) << out_ << err_;
  EXPECT_EQ(Tunectl({"lookup", WriteSweep("M: 77, N: 48, K: 40")}), 3);
  EXPECT_THAT(out_, HasSubstr("tuned for M=1..160, asked M=77"));
  EXPECT_EQ(Tunectl({"lookup", WriteSweep("M: 77, N: 48, K: 40"), "--match", "compatible"}), 0);
  EXPECT_EQ(Tunectl({"lookup", WriteSweep("M: 2..100, N: 48, K: 40"), "--match", "compatible"}), 0);
  EXPECT_EQ(Tunectl({"lookup", WriteSweep("M: 161, N: 48, K: 40"), "--match", "compatible"}), 3);
  EXPECT_THAT(out_, HasSubstr("M=161 is outside of M=1..160"));
  dlclose(handle);
}

TEST_F(RangeTest, IsOfASizeThatTheKernelTakesAsAConstant) {
  const std::string file = Path("rows.yaml");
  const auto write = [&](const std::string& shapes) {
    std::ofstream(file) << "template: softmax\nshapes: {" << shapes << ", N: 10}\n"
                        << "tunables: {block_M: [1, 4], threads: [32]}\n"
                        << "measurement: {min_seconds: 0.01, max_samples: 40}\n";
    return file;
  };
  ASSERT_EQ(Tunectl({"submit", write("M: 1..40@1 40"), "--watch", "-o", Path("out")}), 0)
      << err_ << out_;
  void* const handle = dlopen(Path("out/kiln_softmax.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  using Rows = int32_t (*)(const void*, const void*, void*, int64_t);
  const auto rows = reinterpret_cast<Rows>(dlsym(handle, "kiln_softmax"));
  ASSERT_NE(rows, nullptr);
  for (const int m : {1, 3, 17, 40}) {
    std::vector<float> x(m * 10), out(m * 10, NAN);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) / 3;
    ASSERT_EQ(rows(nullptr, x.data(), out.data(), m), 0) << m;
    for (int i = 0; i < m; ++i) {
      double sum = 0;
      for (int j = 0; j < 10; ++j) sum += std::exp(x[i * 10 + j]);
      for (int j = 0; j < 10; ++j) {
        ASSERT_NEAR(out[i * 10 + j], std::exp(x[i * 10 + j]) / sum, 1e-5) << m << " row " << i;
      }
    }
  }
  std::vector<float> room(500);
  EXPECT_EQ(rows(nullptr, room.data(), room.data(), 41), -1);
  dlclose(handle);
  EXPECT_EQ(Tunectl({"lookup", write("M: 7"), "--match", "compatible"}), 0) << out_ << err_;
  // The same range in other words.
  std::ofstream(file, std::ios::app) << "runtime: {M: 1..40@1 40}\n";
  EXPECT_EQ(Tunectl({"lookup", file}), 0) << out_ << err_;
  // One of its sizes was tuned for on the way, of the kernel that takes it when it runs.
  write("M: T.dynamic");
  std::ofstream(file, std::ios::app) << "runtime: {M: 40}\n";
  EXPECT_EQ(Tunectl({"lookup", file}), 0) << out_ << err_;
}

TEST_F(RangeTest, OfTwoArgumentsThatAreOneSize) {
  std::ofstream(Path("s.yaml"))
      << "template: attention\nshapes: {batch: 1, heads: 1, kv_heads: 1, dim: 16,\n"
      << "  seq_q: T.dynamic(\"S\"), seq_kv: T.dynamic(\"S\")}\n"
      << "runtime: {S: 1..40@1 40}\n"
      << "configs: [{block_M: 16, block_N: 16, threads: 32, num_stages: 1}]\n"
      << "measurement: {min_seconds: 0.01, max_samples: 40}\n";
  ASSERT_EQ(Tunectl({"submit", Path("s.yaml"), "--watch", "-o", Path("out")}), 0) << err_ << out_;
  const json manifest = json::parse(std::ifstream(Path("out/kiln_attention.json")));
  EXPECT_EQ(manifest["dims"], json::array({"S"}));
  EXPECT_EQ(manifest["dispatch"]["dimension"], "S");
}

TEST_F(RangeTest, OfWhatIsNeededBeforeIsRefused) {
  const auto client = Client();
  client::SweepSpec spec;
  spec.template_name = "softmax";
  spec.arguments = {{"M", "64"}};
  spec.range = {"N", 1, 64, {}};
  auto refused = client->Submit(spec);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("N=1..64: kernel softmax needs N when it is compiled: softmax.py:"));

  spec.template_name = "matmul";
  spec.arguments = {{"M", "64"}, {"N", "64"}, {"K", "64"}};
  spec.range = {"Q", 1, 64, {}};
  refused = client->Submit(spec);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("has no size Q"));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("M, N, K"));

  spec.range = {"M", 1, 64, {}};
  spec.arguments["M"] = "T.dynamic(\"S\")";
  refused = client->Submit(spec);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("M is also given as T.dynamic"));
  spec.arguments["M"] = "64";
  refused = client->Submit(spec);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("M has a value too"));
}

}  // namespace
}  // namespace kiln

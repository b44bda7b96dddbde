// The whole farm: real coordinator, real worker with its compiler and runner, real kernels; through
// the library, through tunectl, and through a CMake build that links a winner.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/kiln_client.h"
#include "tests/e2e/rpc/process.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::Process;
using testing::HasSubstr;

class FarmTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = fs::path(testing::TempDir()) / absl::StrCat("kiln_farm_", getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    address_ = absl::StrCat("unix:", Path("s.sock"));
    coordinator_ = new Process({test::BinaryFolder() + "/kiln-coordinator", "--store",
                                Path("store"), "--listen", address_},
                               Path("coordinator"));
    ASSERT_TRUE(coordinator_->AwaitLog("listening on")) << coordinator_->err();
    worker_ = new Process({test::BinaryFolder() + "/kiln-worker", "--coordinator", address_,
                           "--name", "w", "--work-dir", Path("worker")},
                          Path("worker_log"));
  }
  static void TearDownTestSuite() {
    delete worker_;
    delete coordinator_;
    fs::remove_all(folder_);
  }

  static std::string Path(const std::string& name) { return (folder_ / name).string(); }
  static std::unique_ptr<client::Client> Client() { return *client::Client::Connect(address_); }

  int Tunectl(std::vector<std::string> arguments, std::string* out, std::string* err) {
    arguments.insert(arguments.begin(), {test::BinaryFolder() + "/tunectl", "--server", address_});
    Process process(arguments, Path("ctl"));
    const int code = process.Wait(absl::Seconds(120));
    *out = process.out();
    *err = process.err();
    return code;
  }

  static client::SweepSpec Gemm(int m, int n, int k) {
    client::SweepSpec spec;
    spec.name = "gemm";
    spec.template_name = "matmul";
    spec.arguments = {{"M", absl::StrCat(m)}, {"N", absl::StrCat(n)}, {"K", absl::StrCat(k)}};
    spec.top_k = 4;
    spec.measurement.min_seconds = 0.01;
    return spec;
  }

  // The sweep that it became, and the winner's config, which was measured.
  static void Tune(client::Client* client, const client::SweepSpec& spec, std::string* sweep,
                   std::string* config) {
    const auto submitted = client->Submit(spec);
    ASSERT_TRUE(submitted.ok()) << submitted.status();
    const auto last =
        client->Watch(submitted->sweep, [](const client::SweepEvent&) { return true; });
    ASSERT_TRUE(last.ok()) << last.status();
    ASSERT_EQ(last->progress.state, client::SweepState::kDone) << last->progress.message;
    ASSERT_NE(last->winner, nullptr);
    EXPECT_GT(last->winner->measurement.median_ns, 0);
    *sweep = submitted->sweep;
    *config = last->winner->config;
  }

  static inline fs::path folder_;
  static inline std::string address_;
  static inline Process* coordinator_ = nullptr;
  static inline Process* worker_ = nullptr;
};

using Kernel = int32_t (*)(const void*, const void*, const void*, void*);

// The largest error of the shared object's C = A * B against the three loops.
double LargestError(const std::string& shared_object, int m, int n, int k) {
  void* const handle = dlopen(shared_object.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return INFINITY;
  const auto kernel = reinterpret_cast<Kernel>(dlsym(handle, "kiln_matmul"));
  if (kernel == nullptr) return INFINITY;
  std::vector<float> a(m * k), b(k * n), c(m * n, NAN);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 17) / 8 - 1;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 13) / 4 - 1.5f;
  if (kernel(nullptr, a.data(), b.data(), c.data()) != 0) return INFINITY;
  double worst = 0;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      double want = 0;
      for (int l = 0; l < k; ++l) want += static_cast<double>(a[i * k + l]) * b[l * n + j];
      const double error = std::abs(want - static_cast<double>(c[i * n + j]));
      if (!(error <= worst)) worst = error;
    }
  }
  dlclose(handle);
  return worst;
}

TEST_F(FarmTest, SubmitWatchFetchRunAndAskAgain) {
  const auto client = Client();
  const client::SweepSpec spec = Gemm(33, 40, 50);
  const auto miss = client->Lookup(spec);
  ASSERT_TRUE(miss.ok()) << miss.status();
  EXPECT_EQ(miss->winner, nullptr);
  EXPECT_FALSE(miss->miss_reason.empty());

  std::string sweep, config;
  ASSERT_NO_FATAL_FAILURE(Tune(client.get(), spec, &sweep, &config));

  std::string bytes;
  const auto fetched = client->FetchBytes({sweep, ""}, &bytes);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(fetched->info.config, config);
  const auto bundle = client::ParseBundle(bytes);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  std::ofstream(Path("gemm.so"), std::ios::binary) << bundle->shared_object;
  EXPECT_LT(LargestError(Path("gemm.so"), 33, 40, 50), 1e-3);

  const auto hit = client->Lookup(spec);
  ASSERT_TRUE(hit.ok()) << hit.status();
  ASSERT_NE(hit->winner, nullptr) << hit->miss_reason;
  const auto again = client->Submit(spec);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_NE(again->winner, nullptr) << "answered from the store";

  const auto details = client->Show(sweep, true);
  ASSERT_TRUE(details.ok()) << details.status();
  EXPECT_GE(details->candidates.size(), 1u);
  EXPECT_FALSE(details->arch_record.empty());
}

// One worker compiles, on a machine of which nothing is measured; another one only measures.
TEST_F(FarmTest, CompilersAndDevicesMayBeDifferentWorkers) {
  const std::string address = absl::StrCat("unix:", Path("apart.sock"));
  Process coordinator(
      {test::BinaryFolder() + "/kiln-coordinator", "--store", Path("apart"), "--listen", address},
      Path("apart_coordinator"));
  ASSERT_TRUE(coordinator.AwaitLog("listening on")) << coordinator.err();
  const auto worker = [&](const std::string& name, const std::string& none) {
    return Process({test::BinaryFolder() + "/kiln-worker", "--coordinator", address, "--name", name,
                    "--devices", "cpu", none, "0", "--work-dir", Path(name)},
                   Path(name + "_log"));
  };
  const Process compiles = worker("compiles", "--profile-slots");
  const Process measures = worker("measures", "--compile-slots");
  const auto client = *client::Client::Connect(address);
  std::string sweep, config;
  ASSERT_NO_FATAL_FAILURE(Tune(client.get(), Gemm(24, 40, 50), &sweep, &config));
}

// Nothing marks an output here: y is only written, or read first and then written.
TEST_F(FarmTest, KernelsThatMarkNoOutputAreTunedAndChecked) {
  for (const std::string value :
       {"x[b * block + i] * 2.0", "y[b * block + i] * 0.5 + x[b * block + i]"}) {
    client::SweepSpec spec;
    spec.kernel_source = absl::StrCat(R"(import tilelang.language as T
def axpy(N, block=64):
    @T.prim_func
    def main(x: T.Tensor((N,), "float32"), y: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block)) as b:
            for i in T.Parallel(block):
                y[b * block + i] = )",
                                      value, "\n    return main\n");
    spec.arguments = {{"N", "1000"}};
    spec.tunables = {{"block", {"64", "128"}}};
    spec.measurement.min_seconds = 0.01;
    const auto client = Client();
    const auto submitted = client->Submit(spec);
    ASSERT_TRUE(submitted.ok()) << submitted.status();
    const auto last =
        client->Watch(submitted->sweep, [](const client::SweepEvent&) { return true; });
    ASSERT_TRUE(last.ok()) << last.status();
    EXPECT_EQ(last->progress.state, client::SweepState::kDone) << last->progress.message;
    ASSERT_NE(last->winner, nullptr) << value;
    EXPECT_TRUE(last->winner->measurement.numbers_checked);
    EXPECT_EQ(last->progress.failed, 0);
  }
}

TEST_F(FarmTest, CompileOnlyHandsBackBundlesAndFailures) {
  client::SweepSpec spec = Gemm(64, 64, 64);
  spec.configs = {"block_K=32,block_M=32,block_N=32", "block_K=16,block_M=16,block_N=64"};
  const auto compiled = Client()->Compile(spec);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ASSERT_EQ(compiled->size(), 2u);
  for (const client::Compiled& one : *compiled) {
    ASSERT_TRUE(one.bundle.ok()) << one.config << ": " << one.bundle.status();
    std::ofstream(Path("one.so"), std::ios::binary) << one.bundle->shared_object;
    EXPECT_LT(LargestError(Path("one.so"), 64, 64, 64), 1e-3) << one.config;
    EXPECT_THAT(one.bundle->manifest_json, HasSubstr("block_M"));
  }
}

// A kernel whose sizes come from its tensors; the inner one is known when it runs.
client::SweepSpec Scale() {
  client::SweepSpec spec;
  spec.kernel_source = R"(import tilelang
import tilelang.language as T
@tilelang.lazy_jit
def scale(A: T.Tensor[[int, T.dyn["N"]], T.float32], block: int = 64, factor: float = 2.0):
    M, N = A.shape
    B = T.empty((M, N), T.float32)
    assert block % 16 == 0, "block is not a multiple of 16"
    with T.Kernel(M, T.ceildiv(N, block), threads=128) as (row, col):
        for i in T.Parallel(block):
            B[row, col * block + i] = A[row, col * block + i] * factor
    return B
)";
  return spec;
}

std::map<std::string, std::string> OfShape(int m, int n, const std::string& block) {
  return {{"A", absl::StrCat("T.Tensor((", m, ", ", n, "), T.float32)")}, {"block", block}};
}

TEST_F(FarmTest, ParCompileKeepsTheOrderAndCompilesWhatIsNew) {
  const auto client = Client();
  const client::SweepSpec spec = Scale();
  const auto first =
      client->ParCompile(spec,
                         {OfShape(3, 100, "128"), OfShape(3, 100, "40"), OfShape(5, 100, "64"),
                          OfShape(3, 100, "16"), OfShape(3, 333, "128"), OfShape(3, 100, "32")},
                         /*ignore_error=*/true);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->size(), 6u);
  EXPECT_THAT(std::string((*first)[1].bundle.status().message()),
              HasSubstr("block is not a multiple of 16"));
  for (const size_t i : {0, 2, 3, 4, 5}) {
    ASSERT_TRUE((*first)[i].bundle.ok()) << i << ": " << (*first)[i].bundle.status();
    const json manifest = json::parse((*first)[i].bundle->manifest_json);
    const char* blocks[] = {"128", "", "64", "16", "128", "32"};
    EXPECT_EQ(manifest["config"]["block"], blocks[i]);
    EXPECT_EQ(manifest["arguments"]["A_shape_0"], i == 2 ? "5" : "3");
    EXPECT_EQ(manifest["dims"], json({"N"}));
  }
  // Another run-time size is the same artifact, another constant is not.
  EXPECT_EQ((*first)[0].bundle->shared_object, (*first)[4].bundle->shared_object);
  EXPECT_NE((*first)[0].bundle->shared_object, (*first)[3].bundle->shared_object);

  std::ofstream(Path("scale.so"), std::ios::binary) << (*first)[0].bundle->shared_object;
  void* const handle = dlopen(Path("scale.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  const auto run = reinterpret_cast<int32_t (*)(const void*, const void*, void*, int64_t)>(
      dlsym(handle, "kiln_scale"));
  std::vector<float> a(3 * 77), b(3 * 77, NAN);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i) / 4;
  ASSERT_EQ(run(nullptr, a.data(), b.data(), 77), 0);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(b[i], a[i] * 2);
  dlclose(handle);

  // Without ignore_error the first failure in order is the call's.
  const auto strict = client->ParCompile(spec, {OfShape(3, 100, "128"), OfShape(3, 100, "40")},
                                         /*ignore_error=*/false);
  EXPECT_EQ(strict.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(strict.status().message()), HasSubstr("block is not a multiple of 16"));
}

TEST_F(FarmTest, WhatWasCompiledIsNotCompiledAgain) {
  const auto client = Client();
  client::SweepSpec spec = Scale();
  spec.arguments = {{"A_shape_0", "7"}};
  spec.configs = {"block=32", "block=64"};
  spec.objective = client::Objective::kCompile;
  const auto one = client->Compile(spec);
  ASSERT_TRUE(one.ok()) << one.status();
  const auto before = client->Submit(spec);
  ASSERT_TRUE(before.ok()) << before.status();
  const auto done = client->Show(before->sweep, true);
  ASSERT_TRUE(done.ok()) << done.status();
  const auto two = client->ParCompile(spec,
                                      {{{"A", "T.Tensor((7, 9), T.float32)"}, {"block", "32"}},
                                       {{"A", "T.Tensor((7, 8), T.float32)"}, {"block", "64"}}},
                                      false);
  ASSERT_TRUE(two.ok()) << two.status();
  const auto after = client->Show(before->sweep, true);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(done->summary.finished, after->summary.finished) << "the finished sweep answered";
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ((*one)[i].bundle->shared_object, (*two)[i].bundle->shared_object);
    EXPECT_EQ(after->candidates[i].config, spec.configs[i]);
    EXPECT_TRUE(after->candidates[i].measurements.empty()) << "nothing is measured";
  }
  EXPECT_EQ(after->winner, nullptr);
  spec.objective = client::Objective::kTune;
  spec.runtime_values = {{"N", "100"}};
  const auto found = client->Lookup(spec);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->winner, nullptr) << "no winner is written";

  const auto text = client::ProgramText(spec, OfShape(7, 100, "32"));
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("def scale(A: global float32[7, N]"));
}

// What `show` tells of the time is all of it, and what the clock beside the farm says.
TEST_F(FarmTest, EverySecondIsAccountedFor) {
  std::ofstream(Path("time.yaml"))
      << "name: time\ntemplate: matmul\nshapes: {M: 96, N: 64, K: 64}\ntop_k: 6\n"
      << "measurement: {min_seconds: 0.05}\n";
  std::string out, err;
  const absl::Time begin = absl::Now();
  ASSERT_EQ(Tunectl({"submit", Path("time.yaml"), "--watch", "--json"}, &out, &err), 0) << err;
  const double wall = absl::ToDoubleSeconds(absl::Now() - begin);
  const std::string sweep = json::parse(out)["sweeps"][0]["sweep"];
  ASSERT_EQ(Tunectl({"show", sweep, "--json"}, &out, &err), 0) << err;
  const json time = json::parse(out)["time"];
  const double elapsed = time["elapsed_seconds"];
  EXPECT_GT(elapsed, 0.1);
  EXPECT_LT(elapsed + time["before_seconds"].get<double>(), wall);
  EXPECT_GT(elapsed + time["before_seconds"].get<double>(), 0.5 * wall);
  const auto sum = [](const json& parts) {
    double total = 0;
    for (const auto& [part, seconds] : parts.items()) {
      EXPECT_GE(seconds.get<double>(), 0) << part;
      total += seconds.get<double>();
    }
    return total;
  };
  EXPECT_NEAR(sum(time["sweep"]), elapsed, 1e-6);
  ASSERT_EQ(time["devices"].size(), 1u);
  const json& device = time["devices"][0];
  EXPECT_EQ(device["device"], "w/cpu");
  const json& parts = device["seconds"];
  EXPECT_NEAR(sum(parts), elapsed, 1e-6) << parts;
  for (const char* part : {"first", "setup", "check", "warmup", "measure", "handover"}) {
    EXPECT_GT(parts.value(part, 0.0), 0) << part << " of " << parts;
  }
  EXPECT_LT(parts.value("lost", 0.0) + parts.value("others", 0.0), 1e-9) << parts;
  EXPECT_GT(device["idle_share"], 0);
  EXPECT_LT(device["idle_share"], 1);
  ASSERT_EQ(Tunectl({"show", sweep}, &out, &err), 0) << err;
  for (const char* text : {"clock    ", "device   w/cpu", "  did    ", "  waited ", "  idle   "}) {
    EXPECT_THAT(out, HasSubstr(text));
  }
}

TEST_F(FarmTest, TunectlFromTheFileToThePicture) {
  std::ofstream(Path("sweep.yaml"))
      << "name: file\ntemplate: matmul\nshapes: {M: 48, N: 32, K: 64}\ntop_k: 4\n"
      << "measurement: {min_seconds: 0.01}\n";
  std::string out, err;
  ASSERT_EQ(Tunectl({"submit", Path("sweep.yaml"), "-o", Path("files"), "--name", "m", "--json"},
                    &out, &err),
            0)
      << out << err;
  const json sweep = json::parse(out)["sweeps"][0];
  EXPECT_EQ(sweep["state"], "done");
  EXPECT_EQ(sweep["files"].size(), 3u);
  EXPECT_LT(LargestError(Path("files/m.so"), 48, 32, 64), 1e-3);
  const std::string name = sweep["sweep"].get<std::string>().substr(0, 10);
  ASSERT_EQ(Tunectl({"explain", name, "--svg", Path("roof.svg")}, &out, &err), 0) << err;
  EXPECT_THAT(out, HasSubstr("bound by"));
  EXPECT_THAT(out, HasSubstr("rank correlation"));
  EXPECT_THAT(test::ReadText(Path("roof.svg")), HasSubstr("class=\"winner\""));
  ASSERT_EQ(Tunectl({"workers", "--json"}, &out, &err), 0) << err;
  EXPECT_EQ(json::parse(out)["workers"][0]["name"], "w");
  ASSERT_EQ(Tunectl({"lookup", Path("sweep.yaml")}, &out, &err), 0) << out << err;
}

// A lookup misses, the list says so, the list is tuned, the lookup hits: on a store of `tune`.
TEST_F(FarmTest, MissesAreListedTunedAndGone) {
  fs::copy_file("client/examples/bias_relu.py", Path("looked.py"),
                fs::copy_options::overwrite_existing);
  const auto sweep = [&](const std::string& m) {
    std::ofstream(Path("looked.yaml"))
        << "name: looked\nkernel: looked.py\nshapes: {M: " << m << ", N: 64, K: 64}\ntop_k: 2\n"
        << "measurement: {min_seconds: 0.01}\n";
  };
  const std::string store = Path("miss_store");
  std::string out, err;
  const auto tunectl = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {test::BinaryFolder() + "/tunectl", "--store", store, "--json", "-q"});
    Process process(arguments, Path("miss_ctl"));
    const int code = process.Wait(absl::Seconds(120));
    out = process.out();
    err = process.err();
    return code;
  };
  sweep("64");
  ASSERT_EQ(tunectl({"tune", Path("looked.yaml")}), 0) << out << err;
  ASSERT_EQ(tunectl({"lookup", Path("looked.yaml")}), 0) << out << err;
  const json hit = json::parse(out)["lookups"][0];
  EXPECT_EQ(hit["matched"], "exact");
  EXPECT_EQ(hit["winner"]["key"]["shapes"]["M"], "64");
  EXPECT_EQ(hit["winner"]["key"]["driver"], "none");
  EXPECT_NE(hit["winner"]["key"]["compiler"], "");
  EXPECT_NE(hit["winner"]["key"]["cores"], "");
  EXPECT_EQ(hit["winner"]["winner_key"].get<std::string>().size(), 64u);

  sweep("96");
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(tunectl({"lookup", Path("looked.yaml"), "--user", "ada"}), 3) << out << err;
  }
  const json miss = json::parse(out)["lookups"][0];
  EXPECT_THAT(miss["miss_reason"].get<std::string>(), HasSubstr("tuned for M=64, asked M=96"));
  EXPECT_EQ(miss["differences"][0]["field"], "shapes");
  EXPECT_EQ(miss["nearest"], hit["winner"]["winner_key"]);
  ASSERT_EQ(tunectl({"misses"}), 0) << out << err;
  const json listed = json::parse(out);
  ASSERT_EQ(listed["misses"].size(), 1u) << out;
  EXPECT_EQ(listed["misses"][0]["count"], 3) << "over three coordinators";
  EXPECT_EQ(listed["misses"][0]["users"], json::array({"ada"}));
  EXPECT_EQ(listed["misses"][0]["spec"]["arguments"]["M"], "96");

  fs::remove(Path("looked.py"));  // the text is kept with the miss
  ASSERT_EQ(tunectl({"tune", "--from-misses", "-o", Path("from_misses")}), 0) << out << err;
  const json tuned = json::parse(out)["sweeps"];
  ASSERT_EQ(tuned.size(), 1u);
  EXPECT_EQ(tuned[0]["answered"], false);
  EXPECT_EQ(tuned[0]["files"].size(), 3u);
  ASSERT_EQ(tunectl({"misses"}), 0) << out << err;
  EXPECT_EQ(json::parse(out)["total"], 0);
  fs::copy_file("client/examples/bias_relu.py", Path("looked.py"));
  EXPECT_EQ(tunectl({"lookup", Path("looked.yaml"), "-o", Path("looked_up")}), 0) << out << err;
  EXPECT_EQ(json::parse(out)["lookups"][0]["files"].size(), 3u);
  EXPECT_EQ(tunectl({"tune", "--from-misses"}), 0) << "nothing is left";

  sweep("32");
  EXPECT_EQ(tunectl({"lookup", Path("looked.yaml")}), 3);
  EXPECT_EQ(tunectl({"misses", "--clear"}), 0);
  EXPECT_EQ(json::parse(out)["cleared"], 1);
  ASSERT_EQ(tunectl({"misses"}), 0);
  EXPECT_EQ(json::parse(out)["total"], 0);
}

TEST_F(FarmTest, AFarmTunesItsMisses) {
  std::ofstream(Path("missed.yaml"))
      << "name: missed\ntemplate: matmul\nmatrix: {M: [24, 40]}\nshapes: {N: 32, K: 64}\n"
      << "top_k: 2\nmeasurement: {min_seconds: 0.01}\n";
  std::string out, err;
  Tunectl({"misses", "--clear"}, &out, &err);
  EXPECT_EQ(Tunectl({"lookup", Path("missed.yaml")}, &out, &err), 3) << err;
  EXPECT_EQ(Tunectl({"lookup", Path("missed.yaml"), "--only", "M=40"}, &out, &err), 3) << err;
  ASSERT_EQ(Tunectl({"misses"}, &out, &err), 0) << err;
  EXPECT_LT(out.find("M=40"), out.find("M=24")) << "the more frequent first: " << out;
  ASSERT_EQ(Tunectl({"submit", "--from-misses", "--most", "1", "--watch"}, &out, &err), 0)
      << out << err;
  EXPECT_EQ(Tunectl({"lookup", Path("missed.yaml"), "--only", "M=40"}, &out, &err), 0) << out;
  ASSERT_EQ(Tunectl({"misses", "--json"}, &out, &err), 0) << err;
  EXPECT_EQ(json::parse(out)["total"], 1) << "the other one is still to be tuned";
  EXPECT_EQ(Tunectl({"misses", "--clear"}, &out, &err), 0);
}

TEST_F(FarmTest, MistakesInAKernelNeverTravel) {
  std::ofstream(Path("bad.py")) << "import tilelang\nimport tilelang.language as T\n\n"
                                << "@tilelang.jit\ndef k(M, N:\n    pass\n";
  std::ofstream(Path("bad.yaml")) << "kernel: bad.py\nshapes: {M: 4, N: 4}\n";
  std::string out, err;
  EXPECT_EQ(Tunectl({"submit", Path("bad.yaml")}, &out, &err), 2);
  EXPECT_THAT(err, HasSubstr("bad.py:5:"));
  EXPECT_THAT(err, HasSubstr("^"));
  fs::copy_file("client/examples/bias_relu.py", Path("relu.py"),
                fs::copy_options::overwrite_existing);
  std::ofstream(Path("typo.yaml"))
      << "kernel: relu.py\nshapes: {M: 64, N: 64, K: 64}\narguments: {dtyp: float32}\n";
  EXPECT_EQ(Tunectl({"submit", Path("typo.yaml")}, &out, &err), 2);
  EXPECT_THAT(err, HasSubstr("did you mean 'dtype'?"));
}

TEST_F(FarmTest, ACMakeBuildLinksAWinner) {
  const std::string source = fs::absolute("client/examples/link_a_winner").string();
  fs::copy(source, Path("project"));
  const auto run = [&](std::vector<std::string> argv, const std::string& log) {
    Process process(std::move(argv), Path(log));
    const int code = process.Wait(absl::Seconds(180));
    EXPECT_EQ(code, 0) << process.out() << process.err();
    return process.out();
  };
  const auto configure = [&](const std::string& build) {
    run({"cmake", "-G", "Ninja", "-S", Path("project"), "-B", build,
         absl::StrCat("-DKILN_CMAKE_DIR=", fs::absolute("client/cmake").string()),
         absl::StrCat("-DKILN_TUNECTL=", test::BinaryFolder(), "/tunectl"),
         absl::StrCat("-DKILN_STORE=", Path("tune_store")),
         absl::StrCat("-DCMAKE_INSTALL_PREFIX=", Path("installed"))},
        "cmake");
  };
  configure(Path("build"));
  EXPECT_THAT(run({"cmake", "--build", Path("build")}, "build1"), HasSubstr("Tuning gemm"));
  EXPECT_THAT(run({Path("build/app")}, "app"), HasSubstr("largest error"));
  EXPECT_THAT(run({"cmake", "--build", Path("build")}, "build2"), HasSubstr("no work to do"));
  run({"cmake", "--install", Path("build")}, "install");
  EXPECT_TRUE(fs::exists(Path("installed/include/gemm.h")));

  configure(Path("again"));  // another build folder, the same store: answered, not tuned
  EXPECT_THAT(run({"cmake", "--build", Path("again")}, "build3"),
              HasSubstr("answered from the store"));

  fs::copy(Path("project"), Path("shared"));  // the same winner as a shared library
  const std::string lists = test::ReadText(Path("shared/CMakeLists.txt"));
  std::ofstream(Path("shared/CMakeLists.txt"))
      << absl::StrReplaceAll(lists, {{" INSTALL)", " FORMAT so INSTALL)"}});
  run({"cmake", "-G", "Ninja", "-S", Path("shared"), "-B", Path("so"),
       absl::StrCat("-DKILN_CMAKE_DIR=", fs::absolute("client/cmake").string()),
       absl::StrCat("-DKILN_TUNECTL=", test::BinaryFolder(), "/tunectl"),
       absl::StrCat("-DKILN_STORE=", Path("tune_store"))},
      "cmake_so");
  run({"cmake", "--build", Path("so")}, "build_so");
  EXPECT_TRUE(fs::exists(Path("so/libgemm.so")));
  EXPECT_THAT(run({Path("so/app")}, "app_so"), HasSubstr("largest error"));

  std::string text = test::ReadText(Path("project/gemm.yaml"));
  std::ofstream(Path("project/gemm.yaml")) << text << "seed: 5\n";
  EXPECT_THAT(run({"cmake", "--build", Path("build")}, "build4"), HasSubstr("Tuning gemm"));
}

}  // namespace
}  // namespace kiln

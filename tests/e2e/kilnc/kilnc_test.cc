// kilnc as people call it: what it prints, and how it ends on input that is not what it should be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "tests/e2e/rpc/process.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class KilncTest : public ::testing::Test {
 protected:
  KilncTest() : folder_(fs::path(::testing::TempDir()) / absl::StrCat("kilnc_", getpid())) {
    fs::create_directories(folder_);
  }
  ~KilncTest() override { fs::remove_all(folder_); }

  int Kilnc(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), test::BinaryFolder() + "/kilnc");
    test::Process process(arguments, (folder_ / "log").string());
    const int code = process.Wait(absl::Seconds(60));
    out_ = process.out();
    err_ = process.err();
    return code;
  }
  std::string File(const std::string& name, const std::string& text) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << text;
    return path;
  }

  static std::string Text(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  fs::path folder_;
  std::string out_, err_;
};

TEST_F(KilncTest, NativeCodeAndThreadsAgreeWithTheInterpreter) {
  for (const std::string level : {"--threads=2", "--on-threads"}) {
    ASSERT_EQ(Kilnc({"run", "template:softmax", "-a", "M=8", "-a", "N=100", level}), 0) << err_;
    EXPECT_THAT(out_, HasSubstr("agrees"));
    EXPECT_THAT(out_, HasSubstr(level == "--on-threads" ? "threads:" : "native:"));
  }
}

TEST_F(KilncTest, InstructionsOfEachGpuAgreeWithTheTiles) {
  for (const char* gpu : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"}) {
    ASSERT_EQ(Kilnc({"run", "template:matmul", "-a", "M=100", "-a", "N=64", "-a", "K=96", "-a",
                     "dtype=float16", "-a", "out_dtype=float16", "-a", "trans_B=True", "-c",
                     "block_M=64,block_N=64,block_K=32,threads=128,num_stages=3",
                     "--on-instructions", "--arch", gpu}),
              0)
        << gpu << out_ << err_;
    for (const char* order : {"instructions, forward:", "instructions, reverse:"}) {
      EXPECT_THAT(out_, HasSubstr(order)) << gpu;
    }
    EXPECT_THAT(out_, HasSubstr("C: agrees")) << gpu;
  }
  EXPECT_EQ(Kilnc({"run", "template:softmax", "-a", "M=8", "-a", "N=64", "--on-instructions"}), 1);
  EXPECT_THAT(err_, HasSubstr("--arch host is none: name one, sm_90a"));
  EXPECT_EQ(Kilnc({"run", "template:softmax", "-a", "M=8", "-a", "N=64", "--arch", "sm_90a",
                   "--on-instructions", "--on-threads"}),
            2);
}

// Tensor cores round such sums elsewhere than the interpreter does.
TEST_F(KilncTest, ThreadsThatSumInHalfPrecisionAgreeWithTheInterpreter) {
  ASSERT_EQ(Kilnc({"run",          "template:matmul",
                   "-a",           "M=64",
                   "-a",           "N=64",
                   "-a",           "K=4096",
                   "-a",           "dtype=float16",
                   "-a",           "accum_dtype=float16",
                   "-a",           "out_dtype=float16",
                   "-a",           "trans_B=True",
                   "-c",           "block_M=64,block_N=64,block_K=64,threads=128",
                   "--on-threads", "--arch",
                   "sm_90a"}),
            0)
      << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("C: agrees, max error 0."));
}

TEST_F(KilncTest, BlocksThatShareStepsAgreeWithTheInterpreter) {
  for (const std::string level : {"--threads=2", "--on-threads"}) {
    ASSERT_EQ(Kilnc({"run", "template:matmul_streamk", "-a", "M=70", "-a", "N=100", "-a", "K=300",
                     "-a", "blocks=5", "-c", "block_M=32,block_N=32,threads=128", level}),
              0)
        << err_;
    EXPECT_THAT(out_, HasSubstr("C: agrees"));
  }
}

TEST_F(KilncTest, TheThreadLevelIsPrinted) {
  ASSERT_EQ(
      Kilnc({"emit", "template:elementwise", "-a", "M=64", "-a", "N=64", "--stage", "threads"}), 0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("for threads"));
}

// An assembler that fails without a word, and one that a signal ends (a machine out of memory).
TEST_F(KilncTest, AnAssemblerThatDoesNotFinishIsNamed) {
  fs::create_directories(folder_ / "bin");
  const std::pair<const char*, const char*> endings[] = {{"exit 3", "exit code 3"},
                                                         {"kill -9 $$", "did not run to its end"}};
  for (const auto& [ending, words] : endings) {
    const std::string ptxas = File(
        "bin/ptxas", absl::StrCat("#!/bin/sh\n[ \"$1\" = --version ] && echo V13.0.88 && exit 0\n",
                                  ending, "\n"));
    fs::permissions(ptxas, fs::perms::owner_all);
    setenv("KILN_CUDA_PATH", folder_.c_str(), 1);
    const int code = Kilnc({"emit", "template:softmax", "-a", "M=4", "-a", "N=64", "--arch",
                            "sm_80", "--stage", "so", "-o", (folder_ / "k.so").string()});
    unsetenv("KILN_CUDA_PATH");
    EXPECT_EQ(code, 1);
    EXPECT_THAT(err_, HasSubstr(words));
  }
}

// A stand-in for an assembler that says of kernels with setmaxnreg that they spill $SHARED bytes,
// of others $EVEN ("refused": it ends with an error), and that it is of function $OF.
constexpr char kSpills[] = R"(#!/bin/sh
[ "$1" = --version ] && echo V13.0.88 && exit 0
spills=$EVEN
grep -q setmaxnreg kernel.ptx && spills=$SHARED
echo "$spills" >> "$RUNS"
[ "$spills" = refused ] && exit 1
echo "cubin of $spills" > kernel.cubin
echo "ptxas info    : Function properties for $OF"
echo "    8 bytes stack frame, $spills bytes spill stores, 0 bytes spill loads"
echo "ptxas info    : Used 168 registers"
)";

class SpillingTest : public KilncTest {
 protected:
  // The cubin, and what was said in which order to get it.
  std::string Compiled(const char* even, const char* shared, const char* of = "kiln_matmul_0") {
    fs::create_directories(folder_ / "bin");
    fs::permissions(File("bin/ptxas", kSpills), fs::perms::owner_all);
    const std::string runs = File("runs", "");
    const std::pair<const char*, const char*> variables[] = {{"KILN_CUDA_PATH", folder_.c_str()},
                                                             {"EVEN", even},
                                                             {"SHARED", shared},
                                                             {"OF", of},
                                                             {"RUNS", runs.c_str()}};
    for (const auto& [name, value] : variables) setenv(name, value, 1);
    const std::string cubin = (folder_ / "k.cubin").string();
    const int code = Kilnc({"emit", "template:matmul", "-a", "M=4096", "-a", "N=4096", "-a",
                            "K=4096", "-a", "dtype=bfloat16", "-c",
                            "block_M=128,block_N=128,block_K=64,num_stages=4,threads=256", "--arch",
                            "sm_90a", "--stage", "cubin", "-o", cubin});
    for (const auto& [name, value] : variables) unsetenv(name);
    EXPECT_EQ(code, 0) << err_;
    return absl::StrCat(Text(cubin), "after ", Text(runs));
  }
};

TEST_F(SpillingTest, WithEvenRegistersTakesSharesIfTheyHelp) {
  EXPECT_EQ(Compiled("0", "0"), "cubin of 0\nafter 0\n");
  EXPECT_EQ(Compiled("200", "0"), "cubin of 0\nafter 200\n0\n");
  EXPECT_EQ(Compiled("200", "100"), "cubin of 100\nafter 200\n100\n");
  EXPECT_EQ(Compiled("100", "100"), "cubin of 100\nafter 100\n100\n");
  EXPECT_EQ(Compiled("100", "refused"), "cubin of 100\nafter 100\nrefused\n");
}

// A launch that had no shares to take.
TEST_F(SpillingTest, OfAnotherLaunchCompilesOnce) {
  EXPECT_EQ(Compiled("200", "0", "kiln_matmul_1"), "cubin of 200\nafter 200\n");
}

TEST_F(KilncTest, WhatIsNoKernelIsRefused) {
  EXPECT_EQ(Kilnc({"check", folder_.string()}), 1);
  EXPECT_THAT(err_ + out_, HasSubstr("is a folder"));
  EXPECT_EQ(Kilnc({"check", "/dev/zero"}), 1);
  EXPECT_THAT(err_ + out_, HasSubstr("has more than 1048576 bytes"));
  EXPECT_EQ(Kilnc({"check", (folder_ / "missing.py").string()}), 1);
  EXPECT_THAT(err_ + out_, HasSubstr("cannot read"));
}

const std::vector<std::string> kProduct = {
    "template:matmul",  "-a",     "M=512", "-a", "N=512", "-a", "K=512", "-a", "trans_B=True", "-a",
    "dtype='bfloat16'", "--arch", "sm_90a"};

std::vector<std::string> With(std::string command, const std::vector<std::string>& more) {
  std::vector<std::string> all = {std::move(command)};
  all.insert(all.end(), kProduct.begin(), kProduct.end());
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// The same config, asked for as a candidate, drawn, and refused, is told alike.
TEST_F(KilncTest, FlagsThatAreNoAssignmentsAreUsage) {
  const std::vector<std::string> emit = {"emit", "template:softmax", "-a", "M=8", "-a", "N=64"};
  const std::vector<std::string> run = {"run", "template:softmax", "-a", "M=8", "-a", "N=64"};
  const auto with = [](std::vector<std::string> words, const char* flag, const char* value) {
    words.insert(words.end(), {flag, value});
    return words;
  };
  for (const auto& words : {with(emit, "-a", "dtype"), with(emit, "-a", "=3"), with(run, "-r", "n"),
                            with(run, "-i", "x.bin"), with(run, "-o", "y")}) {
    EXPECT_EQ(Kilnc(words), 2) << err_;
    EXPECT_THAT(err_, HasSubstr("'" + words.back() + "' is not NAME=VALUE"));
  }
  EXPECT_EQ(Kilnc(with(emit, "-c", "block_M")), 2);
  EXPECT_THAT(err_, HasSubstr("'block_M' has no '='"));
  EXPECT_EQ(Kilnc(with(emit, "-c", "nosuch=1")), 1) << "which tunables there are the kernel says";
}

TEST_F(KilncTest, RecommendationsAndDrawsAgree) {
  ASSERT_EQ(Kilnc(With("recommend", {"--top", "2", "--json"})), 0) << err_;
  const auto best = nlohmann::json::parse(out_);
  ASSERT_EQ(best["candidates"].size(), 2u);
  EXPECT_LE(best["candidates"][0]["predicted_ns"], best["candidates"][1]["predicted_ns"]);
  EXPECT_EQ(best["tunables"].size(), 8u);  // two of them pass options

  ASSERT_EQ(Kilnc(With("recommend", {"--sample", "40", "--json"})), 0) << err_;
  const std::string drawn = out_;
  ASSERT_EQ(Kilnc(With("recommend", {"--sample", "40", "--json"})), 0) << err_;
  EXPECT_EQ(out_, drawn);
  const auto sample = nlohmann::json::parse(drawn);
  EXPECT_EQ(sample["candidates"].size(), 40u);
  const std::string config = sample["candidates"][7]["config"];
  ASSERT_EQ(Kilnc(With("recommend", {"-c", config, "--json"})), 0) << err_;
  const auto alone = nlohmann::json::parse(out_)["candidates"];
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(alone[0]["predicted_ns"], sample["candidates"][7]["predicted_ns"]);

  ASSERT_EQ(Kilnc(With("recommend", {"--sample", "40", "--illegal", "--json"})), 0) << err_;
  const auto refused = nlohmann::json::parse(out_)["refused"];
  ASSERT_EQ(refused.size(), 40u);
  EXPECT_EQ(Kilnc(With("recommend", {"-c", refused[0]["config"].get<std::string>()})), 1);
  EXPECT_THAT(err_, HasSubstr(refused[0]["limit"].get<std::string>()));
}

TEST_F(KilncTest, AManifestTellsHowToLaunchACubin) {
  const std::string manifest = (folder_ / "m.json").string(),
                    cubin = (folder_ / "m.cubin").string();
  const int code = Kilnc(With("emit", {"--stage", "cubin", "-o", cubin, "--manifest", manifest}));
  if (code != 0 && absl::StrContains(err_, "no assembler for GPU code")) GTEST_SKIP() << err_;
  ASSERT_EQ(code, 0) << err_;
  EXPECT_GT(fs::file_size(cubin), 1000u);
  std::ifstream in(manifest);
  const auto launches = nlohmann::json::parse(in)["launches"];
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0]["kernel"], "kiln_matmul_0");
  EXPECT_EQ(launches[0]["parameters"], nlohmann::json({"A", "B", "C"}));
  ASSERT_GE(launches[0]["tensor_maps"].size(), 2u);
  EXPECT_EQ(launches[0]["tensor_maps"][0]["tensor"], "A");
  EXPECT_EQ(launches[0]["tensor_maps"][0]["shape"], nlohmann::json({512, 512}));
  EXPECT_EQ(Kilnc({"emit", "template:softmax", "-a", "M=8", "-a", "N=64", "--stage", "cubin", "-o",
                   cubin}),
            1);
  EXPECT_THAT(err_, HasSubstr("name a GPU with --arch"));
}

TEST_F(KilncTest, MoreParametersThanCTakesAreRefusedAtOnce) {
  std::string parameters = "x: T.Tensor((8,), \"float32\")";
  for (int i = 0; i < 1000; ++i)
    absl::StrAppend(&parameters, ", y", i, ": T.Tensor((8,), \"float32\")");
  const std::string kernel = File(
      "many.py", absl::StrCat("import tilelang.language as T\n@T.prim_func\ndef f(", parameters,
                              "):\n    with T.Kernel(1) as b:\n        x[0] = 1.0\n"));
  EXPECT_EQ(Kilnc({"run", kernel}), 1);
  EXPECT_THAT(err_ + out_, HasSubstr("C calls functions of up to 127"));
}

constexpr char kLazy[] = "tests/golden/lang/lazy_jit.py";

TEST_F(KilncTest, ASignatureIsTextOrADocument) {
  ASSERT_EQ(Kilnc({"signature", kLazy, "-e", "product_any_depth"}), 0) << err_;
  EXPECT_EQ(out_,
            "{'A': TensorAnnot(shape=[A_shape_0$, K$dyn], strides=None, dtype=dtype('float16')),\n"
            " 'B': TensorAnnot(shape=[K$dyn, B_shape_1$], strides=None, "
            "dtype=dtype('float16'))}\n");
  ASSERT_EQ(Kilnc({"signature", kLazy, "-e", "dimensions", "--json"}), 0) << err_;
  const auto json = nlohmann::json::parse(out_);
  const auto& a = json["parameters"][0];
  EXPECT_EQ(a["kind"], "tensor");
  EXPECT_EQ(a["shape"][0], nlohmann::json({{"name", "A_shape_0"}, {"kind", "constant"}}));
  EXPECT_EQ(a["shape"][3], 8);
  EXPECT_EQ(a["shape"][6],
            nlohmann::json({{"name", "L"}, {"kind", "runtime"}, {"dtype", "int64"}}));
  EXPECT_TRUE(a["strides"].is_null());
  EXPECT_EQ(json["parameters"][1]["strides"][1], 1);
  EXPECT_TRUE(json["parameters"][1]["dtype"].is_null());
}

TEST_F(KilncTest, RunTimeNumbersAreExactOrRefused) {
  EXPECT_EQ(Kilnc({"run", "tests/kernels/gemm_dynamic.py", "-a", "block_M=64", "-a", "block_N=64",
                   "-a", "block_K=32", "-r", "m=9007199254740993"}),
            1);
  EXPECT_THAT(err_, HasSubstr("value 9007199254740993 of m is too large"));
}

TEST_F(KilncTest, TensorsAreArgumentsByShapeAndType) {
  ASSERT_EQ(Kilnc({"run", kLazy, "-e", "product_any_depth", "-a",
                   "A=T.Tensor((100, 50), T.float32)", "-a", "B=T.Tensor((50, 72), T.float16)"}),
            0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("C: agrees"));
  EXPECT_THAT(err_, HasSubstr("note: 'A' is float16 by its annotation; the argument says float32"));
  ASSERT_EQ(Kilnc({"run", kLazy, "-e", "packed", "-a",
                   "A=T.StridedTensor((100, 50), (200, 3), T.float32)"}),
            0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("B: agrees"));
  EXPECT_EQ(Kilnc({"check", "--json", kLazy, "-e", "product_any_depth", "-a",
                   "A=T.Tensor((100, 50), T.float16)", "-a", "B=T.Tensor((51, 72), T.float16)"}),
            1);
  const auto d = nlohmann::json::parse(out_)["diagnostics"][0];
  EXPECT_EQ(d["line"], 65);
  EXPECT_THAT(d["message"].get<std::string>(), HasSubstr("50 in an earlier tensor and 51"));
}

TEST_F(KilncTest, ManyConfigsCompileInTheirOrderAndOnce) {
  const std::string configs = File(
      "configs.json",
      R"json([{"A": {"shape": [64, 32], "dtype": "float16"}, "B": "T.Tensor((32, 16), T.float16)",
               "block_M": 32, "block_N": 16},
              {"A": {"shape": [64, 32], "dtype": "float16"}, "B": "T.Tensor((32, 16), T.float16)",
               "block_M": 0},
              {"A": {"shape": [64, 32], "dtype": "float16"}, "B": "T.Tensor((32, 16), T.float16)",
               "block_M": 64, "block_N": 16},
              {"A": {"shape": [64, 32], "dtype": "float16"}, "B": "T.Tensor((32, 16), T.float16)",
               "block_N": 16, "block_M": 32}])json");
  const std::string out = (folder_ / "artifacts").string();
  std::vector<std::string> command = {"par-compile", kLazy, "-e", "product", "--configs",
                                      configs,       "-j",  "2",  "-o",      out};
  EXPECT_EQ(Kilnc(command), 1) << "the second config fails";
  EXPECT_THAT(err_, HasSubstr("error: "));
  EXPECT_THAT(err_, HasSubstr("note: number 1 of the configs, the first being 0: A="));
  EXPECT_FALSE(fs::exists(fs::path(out) / "index.json"));
  command.push_back("--ignore-error");
  ASSERT_EQ(Kilnc(command), 0) << err_;
  EXPECT_THAT(out_, ::testing::MatchesRegex("0 compiled .*\n1 failed .*error: .*\n2 compiled "
                                            ".*\n3 same as 0.*\n"));
  ASSERT_EQ(Kilnc(command), 0) << err_;
  EXPECT_THAT(out_, ::testing::MatchesRegex("0 cached .*\n1 failed .*\n2 cached .*\n3 same as "
                                            "0.*\n"));
  std::ifstream in(fs::path(out) / "index.json");
  const auto index = nlohmann::json::parse(in);
  ASSERT_EQ(index.size(), 4u);
  EXPECT_EQ(index[0]["artifact"], index[3]["artifact"]);
  EXPECT_NE(index[0]["artifact"], index[2]["artifact"]);
  EXPECT_TRUE(index[1].contains("error"));
  for (const char* ending : {".so", ".h", ".json"}) {
    EXPECT_TRUE(fs::exists(fs::path(out) / (index[0]["artifact"].get<std::string>() + ending)));
  }
  ASSERT_EQ(Kilnc({"par-compile", kLazy, "-e", "listed", "--configs", "sizes_of_listed"}), 0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("1 compiled A=T.Tensor((8,), float32),factor=4.0"));
  EXPECT_EQ(Kilnc({"par-compile", kLazy, "-e", "listed", "--autotune"}), 1);
  EXPECT_THAT(err_, HasSubstr("has no @tilelang.autotune"));
  EXPECT_EQ(Kilnc({"par-compile", kLazy, "-e", "listed", "--configs",
                   File("comma.json", "[{\"factor\": 2},]")}),
            1);
  EXPECT_THAT(err_, HasSubstr("comma.json: no JSON at line 1, column 16: "));
  EXPECT_EQ(Kilnc({"par-compile", kLazy, "-e", "listed", "--configs",
                   File("large.json", "[{\"factor\": 1e999}]")}),
            1);
  EXPECT_THAT(err_, HasSubstr("large.json: a number that no float64 holds"));
}

// Texts of the user's that are no UTF-8 do not end what prints them.
TEST_F(KilncTest, DiagnosticsOfAnyBytesAreJson) {
  const std::string kernel = File("bytes.py", R"(
import tilelang
import tilelang.language as T

@tilelang.jit
def k(x: T.Tensor((4,), T.int32)):
    with T.Kernel(1):
        raise ValueError('\ud800')
)");
  EXPECT_EQ(Kilnc({"check", kernel, "--json"}), 1);
  const auto said = nlohmann::json::parse(out_, nullptr, /*allow_exceptions=*/false);
  ASSERT_FALSE(said.is_discarded()) << out_;
  EXPECT_THAT(said["diagnostics"][0]["message"].get<std::string>(), HasSubstr("the kernel raised"));
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"-e", "\xff"}, {"-a", "\xff=3"}}) {
    std::vector<std::string> command = {"check", kernel, "--json"};
    command.insert(command.end(), more.begin(), more.end());
    EXPECT_EQ(Kilnc(command), 1);
    EXPECT_FALSE(nlohmann::json::parse(out_, nullptr, false).is_discarded()) << out_;
  }
}

TEST_F(KilncTest, ALoopThatNeverEndsIsFound) {
  const std::string kernel = File("spin.py", R"(
import tilelang
import tilelang.language as T

@tilelang.jit
def spin(x: T.Tensor((4,), T.int32)):
    with T.Kernel(1):
        while x[0] != 123456:
            x[1] = x[0]
)");
  EXPECT_EQ(Kilnc({"run", kernel, "--interpret", "--max-steps", "1000"}), 1);
  EXPECT_THAT(err_, HasSubstr("spin.py:8:9: error: the program did not end within 1000 steps"));
}

TEST_F(KilncTest, AProductWithoutAnInstructionSaysWhatToChange) {
  EXPECT_EQ(Kilnc(With("emit", {"--stage", "asm", "-c", "threads=100"})), 1);
  EXPECT_THAT(err_, HasSubstr("100 threads are no whole warps"));
  EXPECT_THAT(err_, HasSubstr("help: give the block a multiple of 32 threads"));
  const std::string kernel = File("mixed.py", R"(
import tilelang
import tilelang.language as T

@tilelang.jit
def mixed(a: T.Tensor((64, 64), "float16"), b: T.Tensor((64, 64), "float32"),
          c: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128):
        p = T.alloc_shared((64, 64), "float16")
        q = T.alloc_shared((64, 64), "float32")
        r = T.alloc_fragment((64, 64), "float32")
        T.copy(a, p)
        T.copy(b, q)
        T.clear(r)
        T.gemm(p, q, r)
        T.copy(r, c)
)");
  EXPECT_EQ(Kilnc({"emit", kernel, "--stage", "asm", "--arch", "sm_90a"}), 1);
  EXPECT_THAT(err_, HasSubstr("mixed.py:15:9: error: "));
  EXPECT_THAT(err_, HasSubstr("operand types differ: float16 and float32"));
  EXPECT_THAT(err_, HasSubstr("help: T.copy the wider one into a tile of the other's type"));
}

TEST_F(KilncTest, AnOutputThatNothingWritesIsSaid) {
  const std::string kernel = File("compared.py", R"(
import tilelang
import tilelang.language as T

@tilelang.jit(out_idx=[1])
def compared(n=4):
    @T.prim_func
    def main(x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(n):
                y[i] == x[i]
    return main
)");
  EXPECT_EQ(Kilnc({"run", kernel}), 0);
  EXPECT_THAT(out_, HasSubstr("4 of 4 are NaN on both sides, as where nothing writes them"));
}

// What a pass refuses is said by check, with its place.
TEST_F(KilncTest, WhatOnlyATargetRefusesIsChecked) {
  const std::string path = File("k.py", R"(import tilelang.language as T

@T.prim_func
def k(x: T.Tensor((64,), "float32"), n: T.int32):
    with T.Kernel(1, threads=128):
        f = T.alloc_fragment((64,), "float32")
        for i in T.Parallel(n):
            f[i] = x[i]
        T.copy(f, x)
)");
  EXPECT_EQ(Kilnc({"check", path}), 0) << err_;
  EXPECT_EQ(Kilnc({"check", path, "--arch", "sm_90a"}), 1);
  EXPECT_THAT(err_, ::testing::StartsWith(path + ":8:13: error: fragment 'f' is indexed by 'i'"));
  EXPECT_EQ(Kilnc({"check", path, "--arch", "sm_80", "--json"}), 1);
  EXPECT_EQ(nlohmann::json::parse(out_)["diagnostics"][0]["line"], 8);
}

TEST_F(KilncTest, WhatBecameOfAClusterIsExplained) {
  const std::string path = File("k.py", R"(import tilelang.language as T

@T.prim_func
def k(x: T.Tensor((16, 64), "float32"), y: T.Tensor((16, 64), "float32")):
    with T.ClusterKernel(16, threads=64, cluster_dims=16) as pid:
        a = T.alloc_shared((64,), "float32")
        T.copy(x[pid, :], a)
        T.cluster_sync()
        T.copy_cluster(a, a, dst_block=pid)
        T.copy(a, y[pid, :])

@T.prim_func
def mask(x: T.Tensor((16, 61), "float32"), y: T.Tensor((2, 16, 61), "float32")):
    with T.ClusterKernel(2, threads=64, cluster_dims=2) as pid:
        a = T.alloc_shared((16, 61), "float32")
        T.copy_cluster(x, a, cluster_mask=3)
        T.copy(a, y[pid, :, :])
)");
  ASSERT_EQ(Kilnc({"explain", path, "-e", "k", "--arch", "sm_90a"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("line 5: one block does what the blocks of a cluster do: a cluster "
                              "of more than 8 blocks"));
  ASSERT_EQ(Kilnc({"explain", path, "-e", "k"}), 0) << err_;
  EXPECT_THAT(out_, ::testing::Not(HasSubstr("one block does")));
  ASSERT_EQ(Kilnc({"explain", path, "-e", "mask", "--arch", "sm_90a"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("fetch for themselves: line 16: "));
}

TEST_F(KilncTest, AKernelIsExplained) {
  ASSERT_EQ(Kilnc({"explain", "template:matmul", "-a", "M=512", "-a", "N=256", "-a", "K=128",
                   "--arch", "sm_90a", "--json"}),
            0)
      << err_;
  const auto json = nlohmann::json::parse(out_);
  EXPECT_EQ(json["tensors"].size(), 3u);
  EXPECT_EQ(json["demand"]["flops"], 2.0 * 512 * 256 * 128);
  std::map<std::string, std::string> fields;
  for (const auto& tunable : json["tunables"]) fields[tunable["name"]] = tunable["field"];
  EXPECT_EQ(fields["block_M"], "block");
  EXPECT_EQ(fields["block_K"], "rstep");
  EXPECT_EQ(fields["num_stages"], "pipeline_stage");
  EXPECT_EQ(fields["threads"], "thread");
  EXPECT_EQ(fields["dtype"], "");
  ASSERT_EQ(Kilnc({"explain", kLazy, "-e", "product_any_depth", "-a",
                   "A=T.Tensor((128, 64), T.float16)", "-a", "B=T.Tensor((64, 256), T.float16)"}),
            0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("A: float16[128, K]"));
  EXPECT_THAT(out_, HasSubstr("B_shape_1 = 256"));
  EXPECT_THAT(out_, HasSubstr("demand: 4.1943e+06 flops"));
}

// Elements of which a byte holds two are bytes to who runs the kernel.
TEST_F(KilncTest, PackedTensorsAreReadAsBytes) {
  const auto run = [&](const std::string& file) {
    return Kilnc({"run", "tests/kernels/gemm_int4_packed.py", "-a", "M=40", "-a", "N=96", "-a",
                  "K=160", "-a", "group=32", "-i", "W=" + file});
  };
  EXPECT_EQ(run(File("packed", std::string(96 * 80, '\x21'))), 0) << err_;
  EXPECT_EQ(run(File("unpacked", std::string(96 * 160, '\1'))), 1);
  EXPECT_THAT(err_, HasSubstr("tensor 'W', int4 (96, 160), two elements in a byte, the first in "
                              "its low half, has 7680"));
}

TEST_F(KilncTest, FilesBesideTheKernelsAreFoundAndMissed) {
  File("sizes.py", "BLOCK = 16\n");
  File("wrong.py", "def f(x):\n    return x +\n");
  File("kernels.py", R"(
import tilelang
import tilelang.language as T
from sizes import BLOCK

@tilelang.jit
def fill(M, block_M=BLOCK, threads=BLOCK * 2):
    @T.prim_func
    def main(x: T.Tensor((M,), "float32")):
        with T.Kernel(M // block_M, threads=threads) as b:
            for i in T.Parallel(block_M):
                x[b * block_M + i] = VALUE
    return main

VALUE = 1
)");
  const std::string path = File("k.py", "from kernels import fill as entry\n");
  ASSERT_EQ(Kilnc({"explain", path, "-e", "entry", "-a", "M=64"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("block_M = 16"));
  EXPECT_THAT(out_, HasSubstr("threads = 32"));
  ASSERT_EQ(Kilnc({"run", path, "-e", "entry", "-a", "M=64"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("x: agrees"));
  const std::string text = Text((folder_ / "kernels.py").string());
  const auto using_name = [&](const std::string& import) {
    return File("bad.py", import + absl::StrReplaceAll(text, {{"= VALUE", "= f(2)"}}));
  };
  EXPECT_EQ(Kilnc({"check", using_name("from wrong import f\n"), "-a", "M=64"}), 1);
  EXPECT_THAT(err_, HasSubstr((folder_ / "wrong.py").string() + ":2:15: error:"));
  EXPECT_EQ(Kilnc({"check", using_name("from gone import f\n"), "-a", "M=64"}), 1);
  EXPECT_THAT(err_,
              HasSubstr("there is no gone.py beside the kernel file, in " + folder_.string()));
}

// Its tensors lie in the memory of this machine.
TEST_F(KilncTest, ARunForAGpuSaysWhatToDoInstead) {
  EXPECT_EQ(Kilnc({"run", "template:softmax", "-a", "M=8", "-a", "N=64", "--arch", "sm_90a"}), 1);
  EXPECT_THAT(err_, HasSubstr("--arch sm_90a is a GPU"));
  EXPECT_THAT(err_, HasSubstr("--on-instructions"));
  EXPECT_THAT(err_, ::testing::Not(HasSubstr("error -")));
  EXPECT_EQ(Kilnc({"run", "template:softmax", "-a", "M=8", "-a", "N=64", "--arch", "sm_90a",
                   "--interpret"}),
            0)
      << err_;
}

TEST_F(KilncTest, AStageThatAllPassesLeadToTakesNoStopAfter) {
  for (const char* stage : {"tile", "llvm", "asm", "obj", "so", "header", "manifest"}) {
    EXPECT_EQ(Kilnc({"emit", "template:softmax", "-a", "M=8", "-a", "N=64", "--stage", stage,
                     "--stop-after", "foo", "-o", (folder_ / "k").string()}),
              1)
        << stage;
    EXPECT_THAT(err_, HasSubstr("use --stage lowered or threads")) << stage;
    EXPECT_FALSE(fs::exists(folder_ / "k")) << stage;
  }
  EXPECT_EQ(Kilnc({"emit", "template:softmax", "-a", "M=8", "-a", "N=64", "--stage", "lowered",
                   "--stop-after", "foo"}),
            1);
  EXPECT_THAT(err_, HasSubstr("no pass is called 'foo'"));
}

TEST_F(KilncTest, OutputThatIsLostIsNoSuccess) {
  const std::string command =
      absl::StrCat(test::BinaryFolder(), "/kilnc emit template:softmax -a M=8 -a N=64 > /dev/full");
  test::Process process({"/bin/sh", "-c", command}, (folder_ / "sh").string());
  EXPECT_EQ(process.Wait(absl::Seconds(60)), 1);
  EXPECT_THAT(process.err(), HasSubstr("cannot write the output"));
}

}  // namespace
}  // namespace kiln

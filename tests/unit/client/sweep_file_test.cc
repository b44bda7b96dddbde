// The sweep file's grammar: what each key means, and that every mistake is found where it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "client/kiln_client.h"
#include "compiler/base/diagnostic.h"

namespace kiln::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

absl::StatusOr<std::vector<SweepSpec>> Parse(const std::string& text) {
  return ParseSweepFile(text, "sweep.yaml", testing::TempDir());
}

SweepSpec One(const std::string& text) {
  const auto specs = Parse(text);
  EXPECT_TRUE(specs.ok()) << specs.status();
  if (!specs.ok() || specs->size() != 1) return {};
  return specs->front();
}

TEST(SweepFile, ReadsRanges) {
  const SweepSpec plain = One("template: matmul\nshapes: {M: 1..16384, N: 4096}\n");
  ASSERT_TRUE(plain.range.has_value());
  EXPECT_EQ(plain.range->name, "M");
  EXPECT_EQ(plain.range->low, 1);
  EXPECT_EQ(plain.range->high, 16384);
  EXPECT_TRUE(plain.range->points.empty());
  EXPECT_EQ(plain.arguments.count("M"), 0u);
  const SweepSpec argument = One("template: m\narguments: {M: 1..8, text: a..b}\n");
  ASSERT_TRUE(argument.range.has_value());
  EXPECT_EQ(argument.range->name, "M");
  EXPECT_EQ(argument.range->high, 8);
  EXPECT_THAT(argument.arguments, ElementsAre(Pair("text", "\"a..b\"")));
  const SweepSpec points = One("template: m\nruntime:\n  m: 2..64@2,16 64\n");
  ASSERT_TRUE(points.range.has_value());
  EXPECT_EQ(points.range->name, "m");
  EXPECT_THAT(points.range->points, ElementsAre(2, 16, 64));
  // What a sweep of the list says stands over what is beside it, either way.
  const auto both =
      Parse("template: m\nshapes: {M: 1..8}\nsweeps:\n  - shapes: {M: 4}\n  - shapes: {M: 2..4}\n");
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_FALSE((*both)[0].range.has_value());
  EXPECT_EQ((*both)[0].arguments.at("M"), "4");
  EXPECT_EQ((*both)[1].range->low, 2);
  EXPECT_EQ((*both)[1].arguments.count("M"), 0u);
}

TEST(SweepFile, SizesAreLeftToRunTime) {
  const SweepSpec one =
      One("template: m\nshapes: {q: T.dynamic(\"S\"), k: 'T.dynamic(\"S\")', N: T.dynamic}\n"
          "runtime: {S: 1..64, N: 8}\n");
  EXPECT_THAT(one.arguments,
              UnorderedElementsAre(Pair("q", "T.dynamic(\"S\")"), Pair("k", "T.dynamic(\"S\")"),
                                   Pair("N", "T.dynamic(\"N\")")));
  EXPECT_EQ(one.range->name, "S");
  EXPECT_EQ(one.runtime_values.at("N"), "8");
  const SweepSpec argument = One("template: m\narguments: {M: T.dynamic}\nruntime: {M: 4}\n");
  EXPECT_EQ(argument.arguments.at("M"), "T.dynamic(\"M\")");
  // A range says as much, in either order.
  for (const char* text : {"template: m\nshapes: {M: T.dynamic}\nruntime: {M: 1..4}\n",
                           "template: m\nruntime: {M: 1..4}\nshapes: {M: T.dynamic}\n"}) {
    const SweepSpec both = One(text);
    EXPECT_EQ(both.arguments.count("M"), 0u) << text;
    ASSERT_TRUE(both.range.has_value()) << text;
    EXPECT_EQ(both.range->high, 4) << text;
  }
}

TEST(SweepFile, RefusesWhatIsNoRange) {
  const auto message = [](const std::string& shapes) {
    const auto specs = Parse("template: m\nshapes: " + shapes + "\n");
    EXPECT_FALSE(specs.ok());
    return std::string(specs.status().message());
  };
  EXPECT_THAT(message("{M: 1..x}"), HasSubstr("M: 1..x is no range"));
  EXPECT_THAT(message("{M: 8..8}"), HasSubstr("LOW < HIGH"));
  EXPECT_THAT(message("{M: 0..8}"), HasSubstr("1 <= LOW"));
  EXPECT_THAT(message("{M: 1..8@9}"), HasSubstr("has the size 9, which is not in it"));
  EXPECT_THAT(message("{M: 1..8@}"), HasSubstr("no size after '@'"));
  EXPECT_THAT(message("{M: 1..8, N: 1..8}"), HasSubstr("second range, beside M"));
}

TEST(SweepFile, ReadsEveryKey) {
  const SweepSpec spec = One(R"(
name: llama gemm
template: matmul
entry: matmul
arguments: {transpose_B: true, scale: 0.50, policy: FullRow, extra: ~, name: "a-b"}
shapes: {M: 1024, N: 4096, K: 4096}
dtypes: {dtype: float16, accum: T.float32}
tunables:
  block_M: [16, 32, 64]
  block_N: auto
  swizzle: [true, false]
target: sm_90a
objective: tune
measurement: {cache: warm, min_seconds: 0.5, min_samples: 5, max_samples: 50,
              relative_error: 0.01, threads: 2}
check: {reference: none, rtol: 0.001, atol: 1e-5, seeds: [3, 4], samples: 64}
strategy: random
seed: 7
top_k: 24
budget: {candidates: 100, seconds: 10m}
priority: -5
deadline: 1h30m
user: ada
fresh: true
runtime: {batch: 8}
)");
  EXPECT_EQ(spec.name, "llama gemm");
  EXPECT_EQ(spec.template_name, "matmul");
  EXPECT_EQ(spec.entry, "matmul");
  EXPECT_THAT(
      spec.arguments,
      UnorderedElementsAre(Pair("transpose_B", "True"), Pair("scale", "0.5"),
                           Pair("policy", "\"FullRow\""), Pair("extra", "None"),
                           Pair("name", "\"a-b\""), Pair("M", "1024"), Pair("N", "4096"),
                           Pair("K", "4096"), Pair("dtype", "float16"), Pair("accum", "float32")));
  EXPECT_THAT(spec.tunables, UnorderedElementsAre(Pair("block_M", ElementsAre("16", "32", "64")),
                                                  Pair("swizzle", ElementsAre("True", "False"))));
  EXPECT_THAT(spec.auto_tunables, ElementsAre("block_N"));
  EXPECT_EQ(spec.target, "sm_90a");
  EXPECT_EQ(spec.measurement.cache, CachePolicy::kWarm);
  EXPECT_EQ(spec.measurement.min_seconds, 0.5);
  EXPECT_EQ(spec.measurement.max_samples, 50);
  EXPECT_EQ(spec.measurement.target_relative_error, 0.01);
  EXPECT_EQ(spec.measurement.threads, 2);
  EXPECT_EQ(spec.check.reference, CheckReference::kNone);
  EXPECT_THAT(spec.check.seeds, ElementsAre(3, 4));
  EXPECT_EQ(spec.check.atol, 1e-5);
  EXPECT_EQ(spec.strategy, "random");
  EXPECT_EQ(spec.seed, 7u);
  EXPECT_EQ(spec.top_k, 24);
  EXPECT_EQ(spec.max_candidates, 100);
  EXPECT_EQ(spec.max_seconds, 600);
  EXPECT_EQ(spec.priority, -5);
  EXPECT_EQ(spec.deadline_seconds, 5400);
  EXPECT_EQ(spec.user, "ada");
  EXPECT_TRUE(spec.fresh);
  EXPECT_THAT(spec.runtime_values, ElementsAre(Pair("batch", "8")));
}

TEST(SweepFile, ReadsTheKernelBesideIt) {
  const std::string folder = testing::TempDir() + "sweep_file_kernels";
  std::filesystem::create_directories(folder + "/kernels");
  std::ofstream(folder + "/kernels/gemm.py") << "the kernel\n";
  std::ofstream(folder + "/sweep.yaml") << "kernel: kernels/gemm.py\n";
  const auto specs = LoadSweepFile(folder + "/sweep.yaml");
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_EQ(specs->front().kernel_source, "the kernel\n");
  EXPECT_EQ(specs->front().kernel_path, folder + "/kernels/gemm.py");
  EXPECT_EQ(specs->front().name, "gemm");
}

TEST(SweepFile, ConfigsAreCanonical) {
  const SweepSpec spec =
      One("template: matmul\nconfigs:\n  - {block_N: 64, block_M: 32}\n  - 'b=2 , a=1'\n");
  EXPECT_THAT(spec.configs, ElementsAre("block_M=32,block_N=64", "a=1,b=2"));
}

TEST(SweepFile, PassOptionsStandBesideTunables) {
  const auto specs = Parse(
      "template: matmul\nsweeps:\n- tunables: {kiln.cluster: [1, 2], block_M: [64]}\n"
      "- configs: [{kiln.persistent: 0, block_M: 64}, 'kiln.cluster=1,block_M=64']\n");
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_EQ((*specs)[0].tunables.at("kiln.cluster"), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ((*specs)[1].configs, (std::vector<std::string>{"block_M=64,kiln.persistent=0",
                                                           "block_M=64,kiln.cluster=1"}));
}

TEST(SweepFile, SweepsInheritAndOverride) {
  const auto specs = Parse(R"(
template: matmul
dtypes: {dtype: float32}
shapes: {M: 1, N: 2}
tunables: {block_M: [8]}
sweeps:
  - {name: a}
  - name: b
    shapes: {M: 5}
    configs: ["block_M=4"]
  - {name: c, template: softmax, tunables: auto}
seed: 3
)");
  ASSERT_TRUE(specs.ok()) << specs.status();
  ASSERT_EQ(specs->size(), 3u);
  EXPECT_EQ((*specs)[0].arguments.at("M"), "1");
  EXPECT_EQ((*specs)[1].arguments.at("M"), "5");
  EXPECT_EQ((*specs)[1].arguments.at("N"), "2");
  EXPECT_TRUE((*specs)[1].tunables.empty());
  EXPECT_EQ((*specs)[2].template_name, "softmax");
  EXPECT_TRUE((*specs)[2].tunables.empty());
  for (const SweepSpec& spec : *specs) EXPECT_EQ(spec.arguments.at("dtype"), "float32");
}

TEST(SweepFile, MatrixIsTheProductOrTheRows) {
  const auto product = Parse("template: matmul\nmatrix: {M: [1, 16], N: [6144, 4096, 2]}\n");
  ASSERT_TRUE(product.ok()) << product.status();
  ASSERT_EQ(product->size(), 6u);
  EXPECT_EQ((*product)[0].name, "matmul M=1 N=6144");
  EXPECT_EQ((*product)[5].arguments.at("M"), "16");
  EXPECT_EQ((*product)[5].arguments.at("N"), "2");

  const auto rows = Parse("template: matmul\nmatrix: [{M: 1, N: 2}, {M: 3, N: 4}]\n");
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[1].arguments.at("N"), "4");
}

struct Mistake {
  const char* text;
  int line, column;
  const char* message;
};

class SweepFileMistakes : public testing::TestWithParam<Mistake> {};

TEST_P(SweepFileMistakes, AreFoundWhereTheyAre) {
  const Mistake& mistake = GetParam();
  const auto specs = Parse(mistake.text);
  ASSERT_FALSE(specs.ok()) << mistake.text;
  EXPECT_THAT(std::string(specs.status().message()), HasSubstr(mistake.message));
  const auto diagnostic = DiagnosticOf(specs.status());
  ASSERT_TRUE(diagnostic.has_value()) << specs.status();
  EXPECT_EQ(diagnostic->loc.line, mistake.line) << specs.status();
  EXPECT_EQ(diagnostic->loc.column, mistake.column) << specs.status();
  EXPECT_FALSE(diagnostic->remedy.empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, SweepFileMistakes,
    testing::Values(
        Mistake{"template: matmul\nshape: {M: 1}\n", 2, 1, "did you mean 'shapes'?"},
        Mistake{"template: matmul\nmeasurement: {cach: warm}\n", 2, 15, "did you mean 'cache'?"},
        Mistake{"template: matmul\nseed: 1\nseed: 2\n", 3, 1, "given twice"},
        Mistake{"template: matmul\nshapes: {M: 0}\n", 2, 13, "out of range"},
        Mistake{"template: matmul\nshapes: {M: -4}\n", 2, 13, "out of range"},
        Mistake{"template: matmul\nshapes: {M: T.dynamic(3)}\n", 2, 13, "names no dimension"},
        Mistake{"template: matmul\nshapes: {M: 99999999999999}\n", 2, 13, "out of range"},
        Mistake{"template: matmul\nshapes: {M: 1.5}\n", 2, 13, "not a whole number"},
        Mistake{"template: matmul\nshapes: {M: '12'}\n", 2, 13, "not a whole number"},
        Mistake{"template: matmul\nshapes: {M: 1}\narguments: {M: 2}\n", 3, 16,
                "has a value already"},
        Mistake{"template: matmul\ndtypes: {d: flot32}\n", 2, 13, "is no dtype"},
        Mistake{"template: m\narguments: {A: 'T.Tensor((8, 4), T.float16)'}\n", 2, 16,
                "give a tensor by its sizes, as in shapes: {A_shape_0: 1024"},
        Mistake{"template: matmul\narguments: {a: [1, 2]}\n", 2, 16, "a list"},
        Mistake{"template: matmul\narguments: {a: 010}\n", 2, 16, "no number"},
        Mistake{"template: matmul\narguments: {a: 0x10}\n", 2, 16, "no number"},
        Mistake{"template: matmul\narguments: {'a b': 1}\n", 2, 13, "no identifier"},
        Mistake{"template: matmul\narguments: {a: 'x,y=1'}\n", 2, 16, "not a value"},
        Mistake{"template: matmul\nkernel: k.py\n", 2, 9, "exclude each other"},
        Mistake{"kernel: not/there.py\n", 1, 9, "cannot read the kernel"},
        Mistake{"template: matmul\ntunables: {a: 5}\n", 2, 15, "neither 'auto' nor a list"},
        Mistake{"template: matmul\ntunables: {a: []}\n", 2, 15, "neither 'auto' nor a list"},
        Mistake{"template: matmul\ntunables: {a: [1, 1]}\n", 2, 19, "lists 1 twice"},
        Mistake{"template: matmul\ntunables: {a: [1, true]}\n", 2, 19,
                "lists True, a bool, beside 1"},
        Mistake{"template: matmul\ntunables: {a: [1, 7.5]}\n", 2, 19, "a float, beside 1"},
        Mistake{"template: matmul\ntunables: {a: [1]}\nconfigs: ['a=1']\n", 3, 10, "exclude"},
        Mistake{"template: matmul\nconfigs: ['a']\n", 2, 11, "no '='"},
        Mistake{"template: matmul\nconfigs: ['a=1,kiln.cluser=1']\n", 2, 11,
                "the pass option 'kiln.cluser' is not supported"},
        Mistake{"template: matmul\nconfigs: [{a: 1, kiln.persistent: 2}]\n", 2, 35, "cannot be 2"},
        Mistake{"template: matmul\ntunables: {kiln.cluster: [1, 5]}\n", 2, 30, "cannot be 5"},
        Mistake{"template: matmul\ntunables: {a.b.c: [1]}\n", 2, 12,
                "neither an identifier nor a pass option"},
        Mistake{"template: matmul\narguments: {kiln.cluster: 1}\n", 2, 13, "no identifier"},
        Mistake{"template: matmul\nconfigs: []\n", 2, 10, "is empty"},
        Mistake{"template: matmul\nstrategy: recomended\n", 2, 11, "did you mean 'recommended'?"},
        Mistake{"template: matmul\npriority: 101\n", 2, 11, "out of range"},
        Mistake{"template: matmul\ndeadline: soon\n", 2, 11, "no length of time"},
        Mistake{"template: matmul\nbudget: {seconds: -1}\n", 2, 19, "out of range"},
        Mistake{"template: matmul\nfresh: maybe\n", 2, 8, "neither true nor false"},
        Mistake{"template: matmul\nmeasurement: {min_samples: 9, max_samples: 3}\n", 2, 14,
                "below min_samples"},
        Mistake{"template: matmul\nmatrix: {M: []}\n", 2, 13, "no sweep or too many"},
        Mistake{"template: matmul\nsweeps: []\n", 2, 9, "is empty"},
        Mistake{"sweeps: [{sweeps: []}]\ntemplate: a\n", 1, 11, "unknown key 'sweeps'"},
        Mistake{"name: x\n", 1, 1, "neither a kernel nor a template"},
        Mistake{"- a\n- b\n", 1, 1, "not a mapping"},
        Mistake{"template: [\n", 2, 1, "this is not YAML"},
        Mistake{"template: matmul\nname: ''\n", 2, 7, "is empty"}));

TEST(SweepFile, TheExamplesAreGood) {
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("client/examples")) {
    if (entry.path().extension() != ".yaml") continue;
    const auto specs = LoadSweepFile(entry.path().string());
    ASSERT_TRUE(specs.ok()) << specs.status();
    for (const SweepSpec& spec : *specs) EXPECT_TRUE(CheckSpec(spec).ok()) << CheckSpec(spec);
    ++files;
  }
  EXPECT_GE(files, 4);
}

TEST(CheckSpec, FindsNamesThatTheKernelDoesNotHave) {
  const auto specs = LoadSweepFile("client/examples/own_kernel.yaml");
  ASSERT_TRUE(specs.ok()) << specs.status();
  SweepSpec spec = specs->front();
  spec.arguments["dtyp"] = "float32";
  EXPECT_THAT(std::string(CheckSpec(spec).message()), HasSubstr("did you mean 'dtype'?"));
  spec = specs->front();
  spec.tunables["blok_M"] = {"1"};
  EXPECT_THAT(std::string(CheckSpec(spec).message()), HasSubstr("did you mean 'block_M'?"));
  spec = specs->front();
  spec.tunables["kiln.cluster"] = {"1", "2"};
  EXPECT_TRUE(CheckSpec(spec).ok()) << CheckSpec(spec);
  spec.tunables["kiln.clutser"] = {"1"};
  EXPECT_THAT(std::string(CheckSpec(spec).message()), HasSubstr("did you mean 'kiln.cluster'?"));
  spec = specs->front();
  spec.entry = "nothing";
  EXPECT_FALSE(CheckSpec(spec).ok());
  spec = specs->front();
  spec.kernel_source += "\n)";
  EXPECT_THAT(std::string(CheckSpec(spec).message()), HasSubstr("bias_relu.py:"));
}

TEST(SweepFile, RefusesWhatIsNoSweepFile) {
  EXPECT_FALSE(Parse("").ok());
  EXPECT_FALSE(Parse("template: a\n---\ntemplate: b\n").ok());
  EXPECT_FALSE(Parse(std::string("template: a\0b", 13)).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Parse(std::string(2 << 20, '#')).status()));
  EXPECT_TRUE(absl::IsNotFound(LoadSweepFile("/no/such/file.yaml").status()));
}

TEST(SweepFile, BoundsNestingAliasesAndProducts) {
  EXPECT_FALSE(Parse("template: " + std::string(5000, '[') + std::string(5000, ']')).ok());
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) bomb += (j ? ", *a" : "*a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Parse(bomb).status())) << Parse(bomb).status();
  std::string wide = "template: m\nmatrix:\n";
  for (const char c : {'a', 'b', 'c', 'd', 'e'}) {
    wide += std::string("  ") + c + ": [1, 2, 3, 4, 5, 6, 7, 8, 9]\n";
  }
  EXPECT_THAT(std::string(Parse(wide).status().message()), HasSubstr("too many"));
}

}  // namespace
}  // namespace kiln::client

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "compiler/target/arch.h"
#include "coordinator/search/roofline_expander.h"
#include "tests/util/left_open.h"

namespace kiln::search {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::ArchRecord Record(const char* name) {
  v1::ArchRecord r;
  r.set_name(name);
  r.set_record(target::ToText(*target::NamedArch(name)));
  r.set_device_model("a test machine");
  return r;
}

v1::SweepSpec Matmul(int m, int n, int k) {
  v1::SweepSpec s;
  s.set_template_("matmul");
  (*s.mutable_arguments())["M"] = std::to_string(m);
  (*s.mutable_arguments())["N"] = std::to_string(n);
  (*s.mutable_arguments())["K"] = std::to_string(k);
  return s;
}

void AddValues(v1::SweepSpec& s, const char* name, std::initializer_list<const char*> values) {
  for (const char* v : values) (*s.mutable_tunables())[name].add_values(v);
}

TEST(RooflineExpanderTest, RecommendedGivesASlateAndAReserve) {
  v1::SweepSpec spec = Matmul(333, 257, 129);
  spec.set_top_k(8);
  const auto e = RooflineExpander().Expand(spec, Record("x86-64-v4"));
  ASSERT_TRUE(e.ok()) << e.status();
  EXPECT_EQ(e->kernel_digest.size(), 64u);
  EXPECT_EQ(e->candidates.size(), 8u + 24u);
  EXPECT_GT(e->legal_configs, 500);
  std::set<std::string> configs;
  for (const v1::Hint& h : e->candidates) {
    EXPECT_GT(h.predicted_ns(), 0);
    EXPECT_FALSE(h.reason().empty());
    EXPECT_FALSE(h.bound_by().empty());
    configs.insert(h.config());
  }
  EXPECT_EQ(configs.size(), e->candidates.size());
  EXPECT_THAT(e->inputs.kernel_source(), HasSubstr("def matmul"));
  EXPECT_EQ(e->inputs.entry(), "matmul");
  EXPECT_EQ(e->inputs.arch().name(), "x86-64-v4");
  EXPECT_EQ(e->inputs.arch().device_model(), "a test machine");
  EXPECT_EQ(e->inputs.measurement().cache(), v1::MeasurementPolicy::COLD);
  EXPECT_EQ(e->inputs.check().seeds_size(), 2);
  EXPECT_EQ(e->inputs.arguments().at("M"), "333");
}

// Sizes that are compiled in have small ragged ones beside them, as far as the kernel takes them.
TEST(RooflineExpanderTest, RaggedSizesKeepTheirAlignmentAndWhatTheKernelWants) {
  const auto ragged = [](const v1::SweepSpec& spec) {
    const auto e = RooflineExpander().Expand(spec, Record("x86-64-v4"));
    if (!e.ok()) return std::map<std::string, std::string>{{"error", e.status().ToString()}};
    return std::map<std::string, std::string>(e->inputs.ragged().begin(), e->inputs.ragged().end());
  };
  using Sizes = std::map<std::string, std::string>;
  EXPECT_EQ(ragged(Matmul(4096, 2048, 1024)), (Sizes{{"K", "208"}, {"M", "176"}, {"N", "240"}}));
  EXPECT_EQ(ragged(Matmul(1000, 1001, 128)), (Sizes{{"M", "200"}, {"N", "223"}}));
  EXPECT_EQ(ragged(Matmul(96, 64, 128)), (Sizes{{"K", "112"}, {"M", "80"}, {"N", "48"}}));
  v1::SweepSpec compile = Matmul(4096, 2048, 1024);
  compile.set_objective(v1::SweepSpec::COMPILE);
  EXPECT_EQ(ragged(compile), Sizes());
  v1::SweepSpec own;
  own.set_kernel_source(R"(import tilelang
import tilelang.language as T


@tilelang.jit
def scale(M, N, turns, block=64):
    assert N % 128 == 0
    assert M == 2 * N

    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, block), threads=128) as bx:
            for i, j in T.Parallel(block, N):
                B[bx * block + i, j] = A[bx * block + i, j] * turns

    return main
)");
  (*own.mutable_arguments())["M"] = "2048";
  (*own.mutable_arguments())["N"] = "1024";
  (*own.mutable_arguments())["turns"] = "1000";
  (*own.mutable_tunables())["block"].add_values("64");
  EXPECT_EQ(ragged(own), Sizes());  // one alone is refused
  std::string free = own.kernel_source();
  free.erase(free.find("    assert M == 2 * N\n"), 22);
  own.set_kernel_source(free);
  EXPECT_EQ(ragged(own), (Sizes{{"M", "208"}, {"N", "640"}}));
}

TEST(RooflineExpanderTest, CandidatesCarryThePassOptionsOfTheSpace) {
  v1::SweepSpec spec = Matmul(1024, 1024, 1024);
  AddValues(spec, "block_M", {"128"});
  AddValues(spec, "block_N", {"128", "64"});
  AddValues(spec, "kiln.cluster", {"1", "2"});
  spec.set_strategy("exhaustive");
  const auto e = RooflineExpander().Expand(spec, Record("sm_90a"));
  ASSERT_TRUE(e.ok()) << e.status();
  std::set<std::string> configs;
  for (const v1::Hint& h : e->candidates) configs.insert(h.config());
  EXPECT_EQ(configs,
            (std::set<std::string>{
                "block_M=128,block_N=128,kiln.cluster=1", "block_M=128,block_N=128,kiln.cluster=2",
                "block_M=128,block_N=64,kiln.cluster=1", "block_M=128,block_N=64,kiln.cluster=2"}));
  AddValues(spec, "kiln.cluster", {"7"});
  EXPECT_THAT(std::string(RooflineExpander().Expand(spec, Record("sm_90a")).status().message()),
              HasSubstr("cannot be 7"));
  v1::SweepSpec listed = Matmul(1024, 1024, 1024);
  listed.add_configs("block_M=128,block_N=128,kiln.persistent=0,kiln.cluster=1");
  const auto one = RooflineExpander().Expand(listed, Record("sm_90a"));
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_EQ(one->candidates.size(), 1u);
  EXPECT_EQ(one->candidates[0].config(),
            "block_M=128,block_N=128,kiln.cluster=1,kiln.persistent=0");
}

TEST(RooflineExpanderTest, ExhaustiveListsTheWholeLegalSpaceInOrder) {
  v1::SweepSpec spec = Matmul(128, 128, 128);
  AddValues(spec, "block_M", {"16", "32", "64"});
  AddValues(spec, "block_N", {"32", "64"});
  spec.set_strategy("exhaustive");
  const auto e = RooflineExpander().Expand(spec, Record("x86-64-v4"));
  ASSERT_TRUE(e.ok()) << e.status();
  ASSERT_EQ(e->candidates.size(), 6u);
  EXPECT_EQ(e->legal_configs, 6);
  for (size_t i = 1; i < 6; ++i) {
    EXPECT_LE(e->candidates[i - 1].predicted_ns(), e->candidates[i].predicted_ns());
  }
  RooflineExpander::Options few;
  few.max_listed = 4;
  const auto cut = RooflineExpander(few).Expand(spec, Record("x86-64-v4"));
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->candidates.size(), 4u);
  EXPECT_EQ(cut->legal_configs, 6);
  ASSERT_FALSE(cut->notes.empty());
  EXPECT_THAT(cut->notes.back(), HasSubstr("sampled"));
}

// What another GPU alone runs is no config; what one asks for is priced with those instructions.
TEST(RooflineExpanderTest, InstructionsOfOtherGpus) {
  v1::SweepSpec spec = Matmul(4096, 4096, 4096);
  (*spec.mutable_arguments())["dtype"] = "'bfloat16'";
  (*spec.mutable_arguments())["trans_B"] = "True";
  AddValues(spec, "block_M", {"128"});
  AddValues(spec, "block_N", {"256"});
  AddValues(spec, "block_K", {"64"});
  AddValues(spec, "threads", {"256"});
  spec.set_strategy("exhaustive");
  AddValues(spec, "kiln.instructions", {"80", "90"});
  const auto blackwell = RooflineExpander().Expand(spec, Record("sm_100a"));
  ASSERT_TRUE(blackwell.ok()) << blackwell.status();
  EXPECT_EQ(blackwell->legal_configs, 1);
  EXPECT_THAT(blackwell->candidates[0].config(), HasSubstr("kiln.instructions=80"));
  const auto hopper = RooflineExpander().Expand(spec, Record("sm_90a"));
  ASSERT_TRUE(hopper.ok()) << hopper.status();
  ASSERT_EQ(hopper->candidates.size(), 2u);
  EXPECT_THAT(hopper->candidates[0].config(), HasSubstr("kiln.instructions=90"));
  EXPECT_GT(hopper->candidates[1].predicted_ns(), 1.1 * hopper->candidates[0].predicted_ns());
}

TEST(RooflineExpanderTest, CompileListsWhatWasGiven) {
  v1::SweepSpec spec = Matmul(128, 128, 128);
  spec.set_objective(v1::SweepSpec::COMPILE);
  spec.set_top_k(1);
  spec.add_configs("block_M=32,block_N=32");
  spec.add_configs("block_M=64,block_N=32");
  const auto e = RooflineExpander().Expand(spec, Record("x86-64-v4"));
  ASSERT_TRUE(e.ok()) << e.status();
  EXPECT_EQ(e->candidates.size(), 2u);
}

TEST(RooflineExpanderTest, AnArchWithoutARecordComesFromTheTable) {
  v1::ArchRecord named;
  named.set_name("sm_90a");
  v1::SweepSpec spec = Matmul(4096, 4096, 4096);
  (*spec.mutable_arguments())["dtype"] = "\"float16\"";
  const auto e = RooflineExpander().Expand(spec, named);
  ASSERT_TRUE(e.ok()) << e.status();
  EXPECT_EQ(e->inputs.arch().record(), target::ToText(*target::NamedArch("sm_90a")));
  named.set_name("sm_7");
  EXPECT_EQ(RooflineExpander().Expand(spec, named).status().code(), absl::StatusCode::kNotFound);
  named.set_record("garbage");
  EXPECT_EQ(RooflineExpander().Expand(spec, named).status().code(),
            absl::StatusCode::kInvalidArgument);
}

v1::SweepSpec Range(const std::string& kernel, const lang::Arguments& arguments,
                    const std::string& dimension, int64_t low, int64_t high) {
  v1::SweepSpec spec;
  spec.set_template_(kernel);
  spec.set_objective(v1::SweepSpec::TUNE);
  spec.mutable_arguments()->insert(arguments.begin(), arguments.end());
  spec.mutable_range()->set_name(dimension);
  spec.mutable_range()->set_low(low);
  spec.mutable_range()->set_high(high);
  (*spec.mutable_runtime_values())[dimension] = std::to_string(high);
  spec.set_top_k(4);
  return spec;
}

TEST(RooflineExpanderTest, ARangeIsOfAnyArgument) {
  for (const kiln::testing::LeftOpen& c : kiln::testing::TemplatesLeftOpen()) {
    for (const char* arch : {"x86-64-v4", "sm_90a"}) {
      SCOPED_TRACE(c.Name() + " " + arch);
      lang::Arguments arguments = c.fixed;
      if (!c.arguments.empty()) arguments = c.AtRunTime();
      v1::SweepSpec spec = Range(c.kernel, arguments, c.dimension, c.sizes.front(), c.sizes.back());
      const auto all = RooflineExpander().Expand(spec, Record(arch));
      ASSERT_TRUE(all.ok()) << all.status();
      EXPECT_FALSE(all->candidates.empty());
      spec.add_configs(c.config);
      const auto e = RooflineExpander().Expand(spec, Record(arch));
      ASSERT_TRUE(e.ok()) << e.status();
      ASSERT_EQ(e->candidates.size(), 1u);
      for (const std::string& name : c.Names()) {
        EXPECT_EQ(e->inputs.arguments().at(name), lang::DynamicArgument(c.dimension));
      }
      // What it costs is what it costs at that size.
      v1::SweepSpec constant = Range(c.kernel, c.At(c.sizes.back()), c.dimension, 1, 2);
      constant.clear_range();
      constant.clear_runtime_values();
      constant.add_configs(c.config);
      const auto known = RooflineExpander().Expand(constant, Record(arch));
      ASSERT_TRUE(known.ok()) << known.status();
      EXPECT_EQ(e->candidates[0].flops(), known->candidates[0].flops());
      EXPECT_EQ(e->candidates[0].compulsory_bytes(), known->candidates[0].compulsory_bytes());
    }
  }
}

// What a kernel asserts of sizes that a run chooses holds at the size that is tuned for.
TEST(RooflineExpanderTest, AssertsOfRunTimeSizesRuleConfigsOut) {
  v1::SweepSpec spec =
      Range("conv2d", {{"N", "1"}, {"H", "8"}, {"W", "8"}, {"F", "64"}}, "C", 16, 48);
  AddValues(spec, "block_K", {"16", "32", "48"});
  spec.set_strategy("exhaustive");
  const auto at = [&](const char* size) {
    (*spec.mutable_runtime_values())["C"] = size;
    std::set<std::string> configs;
    const auto e = RooflineExpander().Expand(spec, Record("x86-64-v4"));
    EXPECT_TRUE(e.ok()) << e.status();
    if (!e.ok()) return configs;
    for (const v1::Hint& h : e->candidates) configs.insert(h.config());
    return configs;
  };
  EXPECT_EQ(at("16"), (std::set<std::string>{"block_K=16"}));
  EXPECT_EQ(at("32"), (std::set<std::string>{"block_K=16", "block_K=32"}));
  EXPECT_EQ(at("48"), (std::set<std::string>{"block_K=16", "block_K=48"}));
}

TEST(RooflineExpanderTest, ARangeOfWhatIsNeededBeforeIsRefused) {
  const auto message = [](const v1::SweepSpec& s) {
    const auto e = RooflineExpander().Expand(s, Record("x86-64-v4"));
    EXPECT_EQ(e.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(e.status().message());
  };
  const std::string tile = message(Range("softmax", {{"M", "8"}}, "N", 16, 64));
  EXPECT_THAT(tile, HasSubstr("N=16..64: kernel softmax needs N when it is compiled"));
  EXPECT_THAT(tile, HasSubstr("the shape of T.alloc_fragment depends on a run-time value"));
  EXPECT_THAT(tile, HasSubstr("it comes from the argument N=T.dynamic(\"N\")"));
  EXPECT_THAT(tile, HasSubstr("softmax.py:"));
  EXPECT_THAT(tile, HasSubstr("help: give N a number"));
  EXPECT_THAT(message(Range("matmul", {{"M", "8"}, {"N", "8"}, {"K", "8"}}, "threads", 32, 64)),
              HasSubstr("threads=32..64: kernel matmul needs threads when it is compiled"));
  EXPECT_THAT(
      message(Range("matmul", {{"M", "8"}, {"N", "8"}, {"K", "8"}}, "Q", 1, 64)),
      HasSubstr("Q=1..64: kernel matmul has no size Q. A range is of an argument (M, N, K, "));
  EXPECT_THAT(message(Range("softmax", {{"N", "8"}}, "M", 1, int64_t{1} << 31)),
              HasSubstr("is an int32"));
  // What is wrong without the range too is said as ever.
  const std::string missing = message(Range("matmul", {{"N", "8"}}, "M", 1, 64));
  EXPECT_THAT(missing, HasSubstr("'K'"));
  EXPECT_THAT(missing, Not(HasSubstr("when it is compiled")));
}

TEST(RooflineExpanderTest, MistakesAreNamed) {
  const auto message = [](const v1::SweepSpec& s) {
    const auto e = RooflineExpander().Expand(s, Record("x86-64-v4"));
    EXPECT_FALSE(e.ok());
    return std::string(e.status().message());
  };
  v1::SweepSpec spec = Matmul(64, 64, 64);
  spec.set_template_("matmull");
  EXPECT_THAT(message(spec), HasSubstr("the templates are"));
  spec = Matmul(64, 64, 64);
  spec.set_strategy("clever");
  EXPECT_THAT(message(spec), HasSubstr("unknown strategy 'clever'"));
  spec = Matmul(64, 64, 64);
  (*spec.mutable_runtime_values())["n"] = "many";
  EXPECT_THAT(message(spec), HasSubstr("not a number"));
  spec = Matmul(64, 64, 64);
  spec.clear_template_();
  spec.set_kernel_source("def broken(:\n");
  spec.set_kernel_path("mine.py");
  EXPECT_THAT(message(spec), HasSubstr("mine.py:1:"));
}

}  // namespace
}  // namespace kiln::search

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "compiler/target/arch.h"
#include "coordinator/search/roofline_expander.h"

namespace kiln::search {
namespace {

using ::testing::HasSubstr;

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

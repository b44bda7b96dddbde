// The law: what the tape says of a config is what the closed program of that config does.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "compiler/lang/kernel.h"
#include "compiler/roofline/demand.h"
#include "tests/property/roofline/counter.h"

namespace kiln::roofline {
namespace {

struct Case {
  const char* file;
  std::map<std::string, std::vector<int>> sizes;     // argument -> choices
  std::map<std::string, std::vector<int>> tunables;  // tunable -> choices
  std::map<std::string, std::string> fixed;          // concrete at elaboration, and in arguments
};

std::vector<Case> Cases() {
  const std::vector<int> awkward = {1, 7, 16, 33, 64, 100, 129};
  return {
      {"matmul.py",
       {{"M", awkward}, {"N", {16, 40, 64, 97}}, {"K", {8, 33, 64, 90}}},
       {{"block_M", {1, 8, 16, 24, 64}},
        {"block_N", {8, 16, 32, 48}},
        {"block_K", {8, 16, 32, 64}}},
       {{"panel", "0"}}},
      {"matmul.py",
       {{"M", {33, 64}}, {"N", {40, 64}}, {"K", {24, 64}}},
       {{"block_M", {8, 16, 24}}, {"block_N", {8, 16, 48}}, {"block_K", {8, 16, 64}}},
       {{"panel", "2"}, {"trans_A", "True"}, {"trans_B", "True"}}},
      {"gemv.py",
       {{"N", awkward}, {"K", {32, 100, 256}}},
       {{"block_N", {1, 4, 8, 16}}, {"block_K", {16, 64, 100, 512}}},
       {}},
      {"elementwise.py",
       {{"M", {1, 5, 33}}, {"N", {16, 100, 257}}},
       {{"block_M", {1, 2, 4}}, {"block_N", {16, 64, 100, 1024}}},
       {}},
      {"reduction.py",
       {{"M", {1, 5, 33}}, {"N", {16, 100, 257}}},
       {{"block_M", {1, 2, 4, 8}}, {"block_N", {16, 64, 100, 1024}}},
       {}},
      {"softmax.py", {{"M", {1, 5, 33}}, {"N", {16, 100}}}, {{"block_M", {1, 2, 4, 8}}}, {}},
      {"rmsnorm.py", {{"M", {1, 5, 33}}, {"N", {16, 100}}}, {{"block_M", {1, 2, 4, 8}}}, {}},
  };
}

lang::Kernel Load(const std::string& name) {
  std::ifstream in("compiler/templates/" + name);
  std::stringstream text;
  text << in.rdbuf();
  auto file = std::make_shared<SourceFile>(SourceFile{name, text.str()});
  auto kernel = lang::Kernel::Parse(file, "");
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return *std::move(kernel);
}

// Values of tape nodes for one config.
std::vector<double> ValuesOf(const Demand& d, const std::vector<Num>& nodes,
                             const std::vector<double>& inputs) {
  std::vector<const double*> in;
  for (const double& v : inputs) in.push_back(&v);
  std::vector<double> out(nodes.size());
  std::vector<double*> pointers;
  for (double& v : out) pointers.push_back(&v);
  TapeProgram::Compile(*d.tape, nodes).Run(in, 1, pointers);
  return out;
}

void Compare(const Demand& d, const std::vector<double>& inputs, const Counts& want,
             const std::string& what) {
  const auto value = [&](Num n) { return ValuesOf(d, {n}, inputs)[0]; };
  ASSERT_EQ(d.launches.size(), 1u) << what;
  EXPECT_EQ(value(d.launches[0].blocks), static_cast<double>(want.blocks)) << what;
  std::map<OpKind, double> runs;
  for (const OpDemand& op : d.ops) runs[op.kind] += value(op.count);
  EXPECT_NEAR(runs[OpKind::kCopy], static_cast<double>(want.copies), 1e-6) << what;
  EXPECT_NEAR(runs[OpKind::kGemm], static_cast<double>(want.gemms), 1e-6) << what;
  EXPECT_NEAR(runs[OpKind::kFill], static_cast<double>(want.fills), 1e-6) << what;
  EXPECT_NEAR(runs[OpKind::kReduce], static_cast<double>(want.reduces), 1e-6) << what;
  EXPECT_NEAR(runs[OpKind::kLoop], static_cast<double>(want.loops), 1e-6) << what;
  double flops = 0;
  for (const OpDemand& op : d.ops) {
    if (op.kind == OpKind::kGemm) flops += value(op.count * op.m * op.n * op.k) * 2;
  }
  EXPECT_NEAR(flops, want.gemm_flops, 1e-6 * want.gemm_flops) << what;
  std::map<std::string, double> read, written, footprint;
  for (const Access& a : d.accesses) {
    const std::string& name = d.tensors[a.tensor].name;
    (a.write ? written : read)[name] += value(a.total_bytes);
    footprint[name] = std::max(footprint[name], value(a.footprint.front()));
  }
  for (const auto& [name, bytes] : want.read) {
    EXPECT_NEAR(read[name], bytes, 1e-6 * bytes + 1e-6) << what << " reads " << name;
  }
  for (const auto& [name, bytes] : want.written) {
    EXPECT_NEAR(written[name], bytes, 1e-6 * bytes + 1e-6) << what << " writes " << name;
  }
  for (const auto& [name, elements] : want.touched) {
    EXPECT_EQ(footprint[name], static_cast<double>(elements)) << what << " touches " << name;
  }
  double onchip = 0;
  for (const LocalBuffer& b : d.buffers) onchip += value(b.bytes);
  EXPECT_EQ(onchip, static_cast<double>(want.onchip_bytes)) << what;
}

TEST(DemandPropertyTest, TapeEqualsTheClosedProgram) {
  std::mt19937 rng(20260821);
  int compared = 0;
  for (const Case& c : Cases()) {
    const lang::Kernel kernel = Load(c.file);
    for (int shape = 0; shape < 4; ++shape) {
      lang::Arguments arguments(c.fixed.begin(), c.fixed.end());
      std::string what = c.file;
      for (const auto& [name, choices] : c.sizes) {
        arguments[name] = std::to_string(choices[rng() % choices.size()]);
        what += " " + name + "=" + arguments[name];
      }
      std::vector<std::string> open;
      for (const auto& [name, choices] : c.tunables) open.push_back(name);
      const auto opened = lang::ElaborateOpen(kernel, arguments, {}, open);
      ASSERT_TRUE(opened.ok()) << what << opened.status();
      ASSERT_TRUE(opened->program.has_value()) << what << " needs " << opened->needs->why;
      const auto demand = Analyze(opened->program->program, opened->program->tunables,
                                  opened->program->constraints, {});
      ASSERT_TRUE(demand.ok()) << demand.status();
      for (int i = 0; i < 12; ++i) {
        Config config;
        std::vector<double> inputs;
        for (const std::string& name : demand->inputs) {
          const auto& choices = c.tunables.at(name);
          const int v = choices[rng() % choices.size()];
          config.Set(name, std::to_string(v));
          inputs.push_back(v);
        }
        const auto closed = lang::Elaborate(kernel, arguments, config);
        ASSERT_TRUE(closed.ok()) << what << closed.status();
        Compare(*demand, inputs, CountByRunning(*closed), what + " " + config.ToString());
        ++compared;
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GE(compared, 300);
}

// A loop of pieces whose number, places and lengths differ from block to block is sampled: all of
// its products are there but for some per cent, and most of what they read is met but once.
TEST(DemandPropertyTest, PiecesAddUpToTheirTiles) {
  const lang::Kernel kernel = Load("matmul_streamk.py");
  const int shapes[][3] = {{128, 4096, 14336}, {16, 28672, 4096},  {2048, 2048, 2048},
                           {4096, 4096, 4096}, {3001, 4104, 4120}, {256, 256, 8192}};
  for (const auto& [m, n, k] : shapes) {
    const lang::Arguments arguments = {{"M", std::to_string(m)},
                                       {"N", std::to_string(n)},
                                       {"K", std::to_string(k)},
                                       {"panel", "0"}};
    const auto opened =
        lang::ElaborateOpen(kernel, arguments, {}, {"block_M", "block_N", "block_K", "blocks"});
    ASSERT_TRUE(opened.ok() && opened->program.has_value());
    const auto d = Analyze(opened->program->program, opened->program->tunables, {}, {});
    ASSERT_TRUE(d.ok());
    for (const double width : {64, 128, 192, 256}) {
      for (const double blocks : {132, 264}) {
        std::vector<double> inputs;
        for (const std::string& name : d->inputs) {
          inputs.push_back(name == "blocks"    ? blocks
                           : name == "block_N" ? width
                           : name == "block_M" ? 128
                                               : 64);
        }
        const std::string what = absl::StrCat(m, "x", n, "x", k, " ", width, " ", blocks);
        const double steps = std::ceil(m / 128.0) * std::ceil(n / width) * std::ceil(k / 64.0);
        double runs = 0;
        for (const OpDemand& op : d->ops) {
          if (op.kind == OpKind::kGemm) runs += ValuesOf(*d, {op.count}, inputs)[0];
        }
        EXPECT_NEAR(runs / steps, 1, 0.05) << what;
        double touched = 0;
        for (const Access& a : d->accesses) {
          if (d->tensors[a.tensor].name != "B") continue;
          touched = ValuesOf(*d, {a.footprint.front()}, inputs)[0];
        }
        EXPECT_NEAR(touched / n / k, 1, 0.1) << what;
      }
    }
  }
}

// Useful work does not depend on how it is tiled; wasted work is never negative.
TEST(DemandPropertyTest, UsefulFlopsAreThoseOfTheProblem) {
  const lang::Kernel kernel = Load("matmul.py");
  const auto opened =
      lang::ElaborateOpen(kernel, {{"M", "333"}, {"N", "257"}, {"K", "129"}, {"panel", "0"}}, {},
                          {"block_M", "block_N", "block_K"});
  ASSERT_TRUE(opened.ok() && opened->program.has_value());
  const auto d = Analyze(opened->program->program, opened->program->tunables, {}, {});
  ASSERT_TRUE(d.ok());
  std::mt19937 rng(7);
  for (int i = 0; i < 200; ++i) {
    const std::vector<double> config = {1.0 + rng() % 140, 1.0 + rng() % 140, 1.0 + rng() % 140};
    const auto v = ValuesOf(*d, {d->flops, d->executed_flops}, config);
    EXPECT_NEAR(v[0], 2.0 * 333 * 257 * 129, 1e-6 * v[0]);
    EXPECT_GE(v[1], v[0] * (1 - 1e-9));
  }
}

}  // namespace
}  // namespace kiln::roofline

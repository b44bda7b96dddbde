// The law of the matrix unit's price: what it says of a config is what the lowered program of that
// config does, tile by tile.
#include <gtest/gtest.h>

#include <random>

#include "compiler/ir/visit.h"
#include "compiler/passes/pipeline.h"
#include "compiler/roofline/constants.h"
#include "compiler/roofline/price.h"
#include "tests/unit/roofline/kernels.h"

namespace kiln::roofline {
namespace {

target::Arch Machine(bool amx) {
  target::Arch arch = *target::NamedArch("x86-64-v4");
  if (amx) {
    arch.features.insert(arch.features.end(), {"amx-tile", "amx-bf16"});
    arch.units.push_back({"tensor", kBFloat16, 3000, 6000});
  }
  return arch;
}

struct TileCounts {
  double products = 0, loads = 0, c_tiles = 0, blocks = 0;
};

void Count(const ir::Stmt& s, double times, TileCounts* counts) {
  if (const auto* seq = s.As<ir::Seq>()) {
    for (const ir::Stmt& child : seq->stmts) Count(child, times, counts);
  } else if (const auto* loop = s.As<ir::For>()) {
    for (const ir::Axis& axis : loop->axes)
      times *= static_cast<double>(*ir::ConstInt(axis.extent));
    Count(loop->body, times, counts);
  } else if (const auto* launch = s.As<ir::Launch>()) {
    for (const ir::Axis& axis : launch->grid) {
      times *= static_cast<double>(*ir::ConstInt(axis.extent));
    }
    Count(launch->body, times, counts);
  } else if (const auto* gemm = s.As<ir::PairGemm>()) {
    const auto tiles = [](const ir::Region& r, size_t from_last) {
      return static_cast<double>(
          (*ir::ConstInt(r.ranges[r.ranges.size() - 1 - from_last].extent) + 15) / 16);
    };
    const double rows = tiles(gemm->c, 1), columns = tiles(gemm->c, 0), steps = tiles(gemm->b, 1);
    counts->products += times * rows * columns * steps;
    counts->loads += times * (rows + columns) * steps;
    counts->c_tiles += times * rows * columns;
    counts->blocks += times;
  }
}

TileCounts LoweredCounts(const ir::Program& program) {
  passes::PassContext context;
  context.amx_bf16 = true;
  const auto lowered =
      passes::RunPipeline(passes::CpuPipeline(), program, context, "lower-gemm-cpu");
  EXPECT_TRUE(lowered.ok()) << lowered.status();
  TileCounts counts;
  Count(lowered->body, 1, &counts);
  return counts;
}

double CountedNs(const TileCounts& c, const target::Arch& arch) {
  const double cycle = 1 / arch.clock_ghz;
  const double product = 2.0 * 16 * 16 * 32 / arch.FindUnit("tensor", kBFloat16)->core;
  return std::max(c.products * product / kCpu.pair_efficiency,
                  c.loads * kCpu.tile_load_cycles * cycle) +
         (c.c_tiles * (kCpu.tile_load_cycles + kCpu.tile_store_cycles) +
          c.blocks * kCpu.pair_call_cycles) *
             cycle;
}

ir::Program Matmul(const lang::Arguments& arguments, const std::string& config) {
  const auto program = lang::Elaborate(TemplateKernel("matmul"), arguments, *Config::Parse(config));
  EXPECT_TRUE(program.ok()) << program.status();
  return *program;
}

double ResourceNs(const ir::Program& program, const target::Arch& arch, const char* name) {
  const auto demand = Analyze(program, {}, {}, {});
  EXPECT_TRUE(demand.ok()) << demand.status();
  const Price price = PriceOnCpu(*demand, arch);
  for (const ResourceTime& r : price.resources) {
    if (r.name == name) return *r.ns.constant() * arch.cores;
  }
  ADD_FAILURE() << "no resource is called " << name;
  return 0;
}

double Ns(const ir::Program& program, const target::Arch& arch) {
  const auto demand = Analyze(program, {}, {}, {});
  EXPECT_TRUE(demand.ok()) << demand.status();
  return *PriceOnCpu(*demand, arch).ns.constant();
}

TEST(PairPriceTest, CountsTheTilesOfTheLoweredProgram) {
  const target::Arch arch = Machine(true);
  std::mt19937 rng(3);
  const auto pick = [&](std::initializer_list<int> values) {
    return std::to_string(*(values.begin() + rng() % values.size()));
  };
  int paired = 0;
  for (int i = 0; i < 60; ++i) {
    const lang::Arguments arguments = {{"M", pick({64, 100, 512})},
                                       {"N", pick({64, 200, 1024})},
                                       {"K", pick({64, 333, 2048})},
                                       {"dtype", "bfloat16"},
                                       {"trans_B", i % 10 == 9 ? "True" : "False"}};
    // With K in pieces of a pass, or below one.
    const std::string config = "block_K=" + pick({13, 32, 48, 64, 256, 512, 1024}) +
                               ",block_M=" + pick({4, 16, 32, 40, 64, 112, 256}) +
                               ",block_N=" + pick({16, 24, 32, 80, 128, 256}) +
                               ",num_stages=1,panel=0,threads=128";
    SCOPED_TRACE(config);
    const ir::Program program = Matmul(arguments, config);
    const TileCounts counts = LoweredCounts(program);
    const double expected = CountedNs(counts, arch);
    paired += counts.blocks > 0;
    ASSERT_NEAR(ResourceNs(program, arch, "tensor"), expected, 1e-6 * expected);
    ASSERT_EQ(ResourceNs(program, arch, "fma") > 0, counts.blocks == 0);
  }
  EXPECT_GT(paired, 30);
}

TEST(PairPriceTest, AMatrixUnitHelpsWhatItTakesAndNothingElse) {
  constexpr char kTiles[] = "block_K=512,block_M=128,block_N=128,num_stages=1,panel=0,threads=128";
  lang::Arguments arguments = {{"M", "1024"}, {"N", "1024"}, {"K", "1024"}, {"dtype", "bfloat16"}};
  const ir::Program whole = Matmul(arguments, kTiles);
  EXPECT_LT(Ns(whole, Machine(true)) * 3, Ns(whole, Machine(false)));
  using Change = std::pair<std::string, std::string>;
  for (const auto& [name, value] : std::vector<Change>{
           {"dtype", "float16"}, {"dtype", "float32"}, {"trans_A", "True"}, {"trans_B", "True"}}) {
    lang::Arguments changed = arguments;
    changed[name] = value;
    const ir::Program program = Matmul(changed, kTiles);
    EXPECT_EQ(Ns(program, Machine(true)), Ns(program, Machine(false))) << name << "=" << value;
  }
}

}  // namespace
}  // namespace kiln::roofline

#include "compiler/roofline/traffic.h"

#include <gtest/gtest.h>

#include "tests/unit/roofline/kernels.h"

namespace kiln::roofline {
namespace {

// The demand of one closed config of a template: every node is a constant.
Demand ClosedDemand(const std::string& name, const lang::Arguments& arguments, const char* config) {
  const lang::Kernel kernel = TemplateKernel(name);
  const auto program = lang::Elaborate(kernel, arguments, *Config::Parse(config));
  EXPECT_TRUE(program.ok()) << program.status();
  auto demand = Analyze(*program, {}, {}, {});
  EXPECT_TRUE(demand.ok()) << demand.status();
  return *std::move(demand);
}

double Total(const Demand& d, const CacheView& cache, const std::string& tensor) {
  const std::vector<Num> misses = MissBytes(d, cache);
  double sum = 0;
  for (size_t i = 0; i < misses.size(); ++i) {
    if (d.tensors[d.accesses[i].tensor].name == tensor) sum += *misses[i].constant();
  }
  return sum;
}

const lang::Arguments kMatmul = {{"M", "512"}, {"N", "1024"}, {"K", "2048"}};
constexpr char kTiles[] = "block_K=64,block_M=128,block_N=64,num_stages=1,panel=0,threads=128";
constexpr double kA = 512.0 * 2048 * 4, kB = 2048.0 * 1024 * 4, kC = 512.0 * 1024 * 4;

TEST(TrafficTest, NoCachePaysForEveryTile) {
  const Demand d = ClosedDemand("matmul", kMatmul, kTiles);
  const CacheView none{0, false, 1};
  EXPECT_EQ(Total(d, none, "A"), kA * (1024 / 64));  // once a column of blocks
  EXPECT_EQ(Total(d, none, "B"), kB * (512 / 128));  // once a row of blocks
  EXPECT_EQ(Total(d, none, "C"), kC);
}

TEST(TrafficTest, AnEndlessCachePaysOnce) {
  const Demand d = ClosedDemand("matmul", kMatmul, kTiles);
  const CacheView endless{1e15, false, 1};
  EXPECT_EQ(Total(d, endless, "A"), kA);
  EXPECT_EQ(Total(d, endless, "B"), kB);
  EXPECT_EQ(Total(d, endless, "C"), kC);
}

// A's row of blocks is reused by the next block when one block's tiles fit, B only when a whole row
// of blocks does.
TEST(TrafficTest, ReuseFollowsTheLoopThatFits) {
  const Demand d = ClosedDemand("matmul", kMatmul, kTiles);
  const double block = 128.0 * 2048 * 4 + 2048.0 * 64 * 4 + 128.0 * 64 * 4;
  const CacheView one_block{block, false, 1};
  EXPECT_EQ(Total(d, one_block, "A"), kA);
  EXPECT_EQ(Total(d, one_block, "B"), kB * (512 / 128));
  const CacheView too_small{block - 1, false, 1};
  EXPECT_EQ(Total(d, too_small, "A"), kA * (1024 / 64));
  const double row = 128.0 * 2048 * 4 + kB + 128.0 * 1024 * 4;
  EXPECT_EQ(Total(d, {row, false, 1}, "B"), kB);
  EXPECT_EQ(Total(d, {row - 1, false, 1}, "B"), kB * (512 / 128));
}

TEST(TrafficTest, APanelLetsColumnsOfBlocksShareB) {
  const Demand d = ClosedDemand(
      "matmul", kMatmul, "block_K=64,block_M=128,block_N=64,num_stages=1,panel=2,threads=128");
  // Two blocks of a column follow each other: B is read half as often once their tiles fit.
  const double column = 2 * 128.0 * 2048 * 4 + 2048.0 * 64 * 4 + 2 * 128.0 * 64 * 4;
  EXPECT_EQ(Total(d, {column, false, 1}, "B"), kB * (512 / 128) / 2);
}

TEST(TrafficTest, LargerCachesNeverMissMore) {
  for (const char* config :
       {kTiles, "block_K=100,block_M=60,block_N=96,num_stages=1,panel=0,threads=128"}) {
    const Demand d = ClosedDemand("matmul", kMatmul, config);
    std::vector<double> before(d.accesses.size(), 1e300);
    for (double bytes = 1024; bytes < 1e9; bytes *= 1.7) {
      const std::vector<Num> misses = MissBytes(d, {bytes, true, 2});
      for (size_t i = 0; i < misses.size(); ++i) {
        const double now = *misses[i].constant();
        EXPECT_LE(now, before[i] * (1 + 1e-12)) << config << " at " << bytes;
        EXPECT_LE(now, *d.accesses[i].total_bytes.constant() * (1 + 1e-9));
        before[i] = now;
      }
    }
  }
}

TEST(TrafficTest, ASecondReadOfWhatIsStillThereIsFree) {
  const lang::Kernel kernel = KernelFrom(R"(
import tilelang
import tilelang.language as T

@tilelang.jit
def twice(x):
    M, N = T.const("M, N")
    x: T.Tensor((M, N), T.float32)
    out = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=128) as bx:
        total = T.alloc_fragment((1,), T.float32)
        row = T.alloc_fragment((1, N), T.float32)
        T.copy(x[bx, 0], row)
        T.reduce_sum(row, total, dim=1)
        for j in T.Parallel(N):
            out[bx, j] = x[bx, j] - total[0]
    return out
)");
  const auto program = lang::Elaborate(kernel, {{"M", "16"}, {"N", "1024"}}, {});
  ASSERT_TRUE(program.ok()) << program.status();
  const auto d = Analyze(*program, {}, {}, {});
  ASSERT_TRUE(d.ok()) << d.status();
  const double x = 16.0 * 1024 * 4;
  EXPECT_EQ(Total(*d, {1e9, false, 1}, "x"), x);
  EXPECT_EQ(Total(*d, {1024, false, 1}, "x"), 2 * x);
}

}  // namespace
}  // namespace kiln::roofline

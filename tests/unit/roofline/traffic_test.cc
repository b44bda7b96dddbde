#include "compiler/roofline/traffic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "absl/strings/str_cat.h"
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

// What MissBytes means, pair by pair: an access is free when the loop below which its path parts
// from that of an earlier access to the same region fits.
bool FreeByPairs(const Demand& d, size_t index, const std::vector<double>& body, double bytes) {
  const Access& a = d.accesses[index];
  for (size_t j = 0; j < index; ++j) {
    const Access& b = d.accesses[j];
    if (b.tensor != a.tensor || b.launch != a.launch) continue;
    size_t common = 0;
    while (common < std::min(a.loops.size(), b.loops.size()) &&
           a.loops[common] == b.loops[common]) {
      ++common;
    }
    if (common == 0 || !a.footprint[common].same_as(b.footprint[common])) continue;
    if (body[a.loops[common - 1]] <= bytes) return true;
  }
  return false;
}

TEST(TrafficTest, FreeAccessesAreThoseThatAPairExplains) {
  const lang::Kernel kernel = KernelFrom(R"(
import tilelang
import tilelang.language as T

@tilelang.jit
def reread(x, y):
    x: T.Tensor((64, 256), T.float32)
    y: T.Tensor((64, 256), T.float32)
    out = T.empty((64, 256), T.float32)
    with T.Kernel(8, threads=128) as bx:
        a = T.alloc_fragment((1, 256), T.float32)
        b = T.alloc_fragment((1, 256), T.float32)
        T.copy(x[bx, 0], a)
        for i in T.serial(4):
            T.copy(x[bx, 0], a)
            T.copy(y[i, 0], b)
            for k in T.serial(2):
                T.copy(y[i, 0], b)
                T.copy(x[k, 0], a)
            for k in T.serial(2):
                T.copy(y[i, 0], b)
                T.copy(x[k, 0], a)
        T.copy(y[bx, 0], b)
        T.copy(x[bx, 0], a)
        T.copy(a, out[bx, 0])
    return out
)");
  const auto program = lang::Elaborate(kernel, {}, {});
  ASSERT_TRUE(program.ok()) << program.status();
  const auto d = Analyze(*program, {}, {}, {});
  ASSERT_TRUE(d.ok()) << d.status();
  std::vector<double> body(d->loops.size(), 0);
  for (size_t l = 0; l < body.size(); ++l) {
    std::set<std::pair<int, int>> seen;
    for (const Access& a : d->accesses) {
      const auto at = std::find(a.loops.begin(), a.loops.end(), static_cast<int>(l));
      if (at == a.loops.end()) continue;
      const Num f = a.footprint[at - a.loops.begin() + 1];
      if (seen.emplace(a.tensor, f.id()).second) body[l] += 4 * *f.constant();
    }
  }
  int free = 0;
  for (double bytes : {0.0, 1024.0, 2048.0, 4096.0, 8192.0, 65536.0, 1e9}) {
    const std::vector<Num> misses = MissBytes(*d, {bytes, false, 1});
    for (size_t i = 0; i < misses.size(); ++i) {
      const bool expected = FreeByPairs(*d, i, body, bytes);
      EXPECT_EQ(*misses[i].constant() == 0, expected) << "access " << i << " at " << bytes;
      free += expected;
    }
  }
  EXPECT_GT(free, 8);
}

// A kernel of many statements is priced in time that grows with it, not with its square.
TEST(TrafficTest, TwentyThousandStatementsArePricedInSeconds) {
  std::string text = R"(
import tilelang
import tilelang.language as T

@tilelang.jit
def many(x):
    x: T.Tensor((1024,), T.float32)
    out = T.empty((1024,), T.float32)
    with T.Kernel(1, threads=128) as bx:
)";
  for (int i = 0; i < 20000; ++i) {
    absl::StrAppend(&text, "        out[", i % 1024, "] = x[", (7 * i) % 1024, "]\n");
  }
  absl::StrAppend(&text, "    return out\n");
  const auto program = lang::Elaborate(KernelFrom(text), {}, {});
  ASSERT_TRUE(program.ok()) << program.status();
  const auto begin = std::chrono::steady_clock::now();
  const auto d = Analyze(*program, {}, {}, {});
  ASSERT_TRUE(d.ok()) << d.status();
  EXPECT_EQ(d->ops.size(), 20000u);
  EXPECT_EQ(MissBytes(*d, {1 << 15, true, 1}).size(), 40000u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
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

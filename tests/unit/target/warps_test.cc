#include "compiler/target/warps.h"

#include <gtest/gtest.h>

namespace kiln::target {
namespace {

// A product of 128 x 256 x 64 in two warpgroups, 4096 x 4096 in all.
WarpQuery Product() {
  WarpQuery q;
  q.threads = 256;
  q.stages = 4;
  q.sums = 128 * 256;
  q.fetches = {{kBFloat16, 128, 64, true, false, false}, {kBFloat16, 256, 64, true, false, true}};
  q.blocks = 16 * 32;
  q.grid_axes = 2;
  q.across = 32;
  return q;
}

WarpPlan On(const char* arch, const WarpQuery& q) { return PlanWarps(*NamedArch(arch), q); }

TEST(PlanWarps, ALargeProductGetsAll) {
  EXPECT_EQ(On("sm_90a", Product()), (WarpPlan{true, 2, true, 1}));
  for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_100a"}) {
    EXPECT_EQ(On(arch, Product()), WarpPlan()) << arch;
  }
  WarpQuery held = Product();
  held.tensor_sums = true;
  EXPECT_EQ(On("sm_100a", held), (WarpPlan{true, 2, true, 1}));
}

// Two blocks of pairs on one SM could each hold the columns that the other's partner waits for.
TEST(PlanWarps, PairsWithTensorMemoryHaveTheirSmsAlone) {
  WarpQuery q = Product();
  q.tensor_sums = true;
  const int64_t alone = NamedArch("sm_100a")->smem_sm / 2;
  for (q.stages = 1; q.stages <= 4; ++q.stages) {
    const int64_t bytes = q.stages * (128 + 256) * 64 * 2;
    EXPECT_EQ(On("sm_100a", q).cluster, bytes >= alone ? 2 : 1) << q.stages;
  }
  q.fetches[0].rows = 0;  // threads fetch it
  q.stages = 3;
  EXPECT_EQ(On("sm_100a", q).cluster, 1);
}

TEST(PlanWarps, OptionsTakeAway) {
  WarpQuery q = Product();
  q.cluster = 1;
  EXPECT_EQ(On("sm_90a", q), (WarpPlan{true, 1, true, 1}));
  q.persistent = false;
  EXPECT_EQ(On("sm_90a", q), (WarpPlan{true, 1, false, 1}));
  q.stages = 0;
  EXPECT_EQ(On("sm_90a", q), WarpPlan());
}

TEST(PlanWarps, PairsNeedWholeSharesOfWhatBothTake) {
  WarpQuery q = Product();
  q.across = 31;
  EXPECT_EQ(On("sm_90a", q).cluster, 1);
  q = Product();
  q.grid_axes = 1;
  EXPECT_EQ(On("sm_90a", q).cluster, 1);
  q = Product();
  q.fetches[1].same_across = false;
  EXPECT_EQ(On("sm_90a", q).cluster, 1);
  q = Product();
  q.fetches[1].rows = 8;  // half of it is no whole swizzle
  EXPECT_EQ(On("sm_90a", q).cluster, 1);
  q = Product();
  q.steps_differ = true;
  EXPECT_EQ(On("sm_90a", q), (WarpPlan{true, 1, false, 1}));
}

TEST(PlanWarps, BlocksPersistWhereThereAreMoreThanRunAtOnce) {
  WarpQuery q = Product();
  q.cluster = 1;
  for (const int64_t blocks : {1, 131, 132, 133, 1000}) {
    q.blocks = blocks;
    EXPECT_EQ(On("sm_90a", q).persistent, blocks > 132) << blocks;
  }
  q.blocks = 0;  // who knows
  EXPECT_TRUE(On("sm_90a", q).persistent);
}

TEST(PlanWarps, BlocksPersistWhereAllTheirTilesFitBesideEachOther) {
  WarpQuery q = Product();
  const int64_t fetched = q.stages * (128 + 256) * 64 * 2;
  const int64_t most = NamedArch("sm_90a")->smem_block - fetched - 1024;  // barriers
  for (q.other_bytes = most - 256; q.other_bytes <= most + 256; q.other_bytes += 128) {
    EXPECT_EQ(On("sm_90a", q).persistent, q.other_bytes <= most) << q.other_bytes - most;
  }
}

TEST(PlanWarps, TurnsAreForSingleWarpgroups) {
  WarpQuery q = Product();
  q.pingpong = true;
  EXPECT_EQ(On("sm_90a", q).teams, 1);
  q.threads = 128;
  EXPECT_EQ(On("sm_90a", q).teams, 2);
  q.shares_fetches_alone = false;
  EXPECT_EQ(On("sm_90a", q).teams, 1);
  q.shares_fetches_alone = true;
  q.persistent = false;
  EXPECT_EQ(On("sm_90a", q).teams, 1);
}

TEST(PlanWarps, ThreadsAreWarpgroupsThatFitBesideTheOneThatFetches) {
  WarpQuery q = Product();
  for (const int64_t threads : {32, 64, 128, 192, 256, 384, 512}) {
    q.threads = threads;
    EXPECT_EQ(On("sm_90a", q).specialised, threads % 128 == 0 && threads <= 384) << threads;
  }
  q.threads = 384;
  q.sums = 97 * 384;
  EXPECT_FALSE(On("sm_90a", q).specialised);
}

TEST(IsFetched, BoxesAreWhatTmaTakes) {
  TileFetch f{kBFloat16, 128, 64, true, false, false};
  EXPECT_TRUE(IsFetched(f));
  f.rows = 257;
  EXPECT_FALSE(IsFetched(f));
  f = {kBFloat16, 128, 20, false, false, false};  // rows of 40 bytes
  EXPECT_FALSE(IsFetched(f));
  f = {kFloat32, 4, 4, false, false, false};  // versions of 64 bytes
  EXPECT_FALSE(IsFetched(f));
  f = {kBFloat16, 128, 8, false, false, false};
  EXPECT_TRUE(IsFetched(f));
  f.multiplied = true;  // rows of 16 bytes fill no swizzle
  EXPECT_FALSE(IsFetched(f));
  f = {kBFloat16, 64, 512, true, false, false, true};  // eight panels
  EXPECT_TRUE(IsFetched(f));
  f.rows = 60;  // of atoms of eight rows
  EXPECT_FALSE(IsFetched(f));
  f = {kBFloat16, 64, 512, true, false, false, false};  // one box
  EXPECT_FALSE(IsFetched(f));
  f.columns = 256;
  EXPECT_TRUE(IsFetched(f));
  f = {kBFloat16, 64, 512, true, /*patch=*/true, false, true};
  EXPECT_FALSE(IsFetched(f));
}

}  // namespace
}  // namespace kiln::target

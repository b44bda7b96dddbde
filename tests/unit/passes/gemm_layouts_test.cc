// Fragments of matrix products: against the instructions' own positions, and as a whole.
#include "compiler/passes/gemm_layouts.h"

#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/layout/fragments.h"
#include "compiler/layout/ownership.h"
#include "compiler/passes/shared_tiles.h"

namespace kiln::passes {
namespace {

using layout::Ownership;

// A warp's atom is the fragment that the instruction set documents, tested against PTX elsewhere.
TEST(GemmLayouts, OneWarpAndOneAtomIsTheFragment) {
  const auto same = [](const layout::Layout& ours, char operand) {
    const layout::Layout documented = *layout::MmaFragment("m16n8k16", operand, 16);
    for (int64_t x = 0; x < documented.size(); ++x) {
      const layout::Coord here = ours.Base(x), there = documented.Base(x);
      if (here[layout::Axis::kTx] != there[layout::Axis::kLaneid]) return false;
      if (here[layout::Axis::kM] != there[layout::Axis::kM]) return false;
    }
    return ours.size() == documented.size();
  };
  EXPECT_TRUE(same(*AccumulatorLayout(16, 8, {1, 1}), 'C'));
  EXPECT_TRUE(same(*LeftOperandLayout(16, 16, {1, 1}), 'A'));
}

TEST(GemmLayouts, WarpsTakeContiguousParts) {
  const auto c = AccumulatorLayout(64, 64, {2, 2});
  ASSERT_TRUE(c.ok()) << c.status();
  const auto place = [&](int64_t row, int64_t column) {
    const layout::Coord at = c->Base(row * 64 + column);
    return std::make_pair(at[layout::Axis::kTx], at[layout::Axis::kM]);
  };
  EXPECT_EQ(place(16, 0), std::make_pair(int64_t{0}, int64_t{16}));
  EXPECT_EQ(place(0, 8), std::make_pair(int64_t{0}, int64_t{4}));
  EXPECT_EQ(place(0, 16), std::make_pair(int64_t{0}, int64_t{8}));
  EXPECT_EQ(place(33, 40), std::make_pair(int64_t{100}, int64_t{4}));
  EXPECT_EQ(place(9, 5), std::make_pair(int64_t{6}, int64_t{3}));
  EXPECT_EQ(place(63, 63), std::make_pair(int64_t{127}, int64_t{31}));
}

TEST(GemmLayouts, EveryGridHoldsEachElementOnceAndTheLeftOperandWhereItIsUsed) {
  for (const int64_t warps : {1, 2, 4, 8}) {
    for (const target::WarpPolicy policy :
         {target::WarpPolicy::kSquare, target::WarpPolicy::kFullRow,
          target::WarpPolicy::kFullCol}) {
      for (const auto& [m, n] :
           {std::pair<int64_t, int64_t>{16, 64}, {64, 64}, {128, 8}, {128, 96}}) {
        const auto grid = target::ShareWarps(m, n, warps, policy);
        if (!grid) continue;
        EXPECT_EQ(grid->rows * grid->columns, warps);
        const auto c = Ownership::Of(*AccumulatorLayout(m, n, *grid), m * n);
        const auto a = Ownership::Of(*LeftOperandLayout(m, 32, *grid), m * 32);
        ASSERT_TRUE(c.ok() && a.ok()) << c.status() << a.status();
        EXPECT_EQ(c->Copies(), 1);
        EXPECT_EQ(a->Copies(), grid->columns);
        EXPECT_EQ(c->slots(), m * n / (warps * 32));
        // A row of A is in the warps that compute the row of C.
        for (int64_t row = 0; row < m; ++row) {
          std::set<int64_t> computing, holding;
          for (int64_t t = 0; t < warps * 32; ++t) {
            for (int64_t x = 0; x < n; ++x) {
              if (c->Owners(row * n + x)[t]) computing.insert(t / 32);
            }
            for (int64_t x = 0; x < 32; ++x) {
              if (a->Owners(row * 32 + x)[t]) holding.insert(t / 32);
            }
          }
          ASSERT_EQ(computing, holding);
        }
      }
    }
  }
  EXPECT_FALSE(target::ShareWarps(16, 8, 2, target::WarpPolicy::kSquare).has_value());
  EXPECT_EQ(target::ShareWarps(128, 64, 4, target::WarpPolicy::kFullRow)->rows, 4);
  EXPECT_EQ(target::ShareWarps(128, 64, 4, target::WarpPolicy::kFullCol)->columns, 4);
}

// The numbers that a compiler with this layout states, for one and two warpgroups.
TEST(GemmLayouts, WarpgroupsTakeContiguousRows) {
  const auto place = [](int64_t m, WarpGrid groups, int64_t row, int64_t column) {
    const layout::Coord at =
        AccumulatorLayout(m, 64, groups, MatrixUnit::kWgmma)->Base(row * 64 + column);
    return std::make_pair(at[layout::Axis::kTx], at[layout::Axis::kM]);
  };
  using Place = std::pair<int64_t, int64_t>;
  EXPECT_EQ(place(128, {1, 1}, 16, 0), Place(32, 0));
  EXPECT_EQ(place(128, {1, 1}, 64, 0), Place(0, 32));
  EXPECT_EQ(place(128, {1, 1}, 127, 63), Place(127, 63));
  EXPECT_EQ(place(256, {2, 1}, 64, 0), Place(0, 32));
  EXPECT_EQ(place(256, {2, 1}, 128, 0), Place(128, 0));
  EXPECT_EQ(place(256, {2, 1}, 192, 0), Place(128, 32));
}

// One group and one atom is the instruction's own fragment, tested against PTX elsewhere.
TEST(GemmLayouts, OneGroupAndOneAtomIsTheFragment) {
  const auto same = [](const layout::Layout& ours, const layout::Layout& documented, bool wide) {
    for (int64_t x = 0; x < documented.size(); ++x) {
      const layout::Coord here = ours.Base(x), there = documented.Base(x);
      const int64_t warp = wide ? there[layout::Axis::kWidInWg] : 0;
      if (here[layout::Axis::kTx] != 32 * warp + there[layout::Axis::kLaneid]) return false;
      if (here[layout::Axis::kM] != there[layout::Axis::kM]) return false;
    }
    return ours.size() == documented.size();
  };
  for (const int n : {8, 64, 256}) {
    EXPECT_TRUE(same(*AccumulatorLayout(64, n, {1, 1}, MatrixUnit::kWgmma),
                     *layout::WgmmaAccumulator(n), true));
  }
  for (const int bits : {8, 16, 32}) {
    EXPECT_TRUE(same(*LeftOperandLayout(64, 256 / bits, {1, 1}, MatrixUnit::kWgmma, bits),
                     *layout::WgmmaOperandA(bits), true));
    EXPECT_TRUE(same(*LeftOperandLayout(16, 256 / bits, {1, 1}, MatrixUnit::kMma, bits),
                     *layout::MmaFragment(absl::StrCat("m16n8k", 256 / bits), 'A', bits), false));
  }
}

TEST(GemmLayouts, TensorMemoryIsReadOneLaneAThread) {
  const auto place = [](int64_t m, int64_t n, int64_t groups, int64_t row, int64_t column) {
    const layout::Coord at =
        AccumulatorLayout(m, n, {1, groups}, MatrixUnit::kTcgen05)->Base(row * n + column);
    return std::make_pair(at[layout::Axis::kTx], at[layout::Axis::kM]);
  };
  using Place = std::pair<int64_t, int64_t>;
  EXPECT_EQ(place(128, 64, 1, 127, 63), Place(127, 63));   // datapath D
  EXPECT_EQ(place(64, 64, 1, 17, 33), Place(33, 33));      // F
  EXPECT_EQ(place(32, 64, 1, 17, 33), Place(81, 1));       // G
  EXPECT_EQ(place(256, 64, 1, 130, 5), Place(2, 64 + 5));  // two accumulators
  EXPECT_EQ(place(128, 64, 2, 3, 40), Place(128 + 3, 8));  // two groups share the columns
}

// Of a name that is bound twice nothing is known but that it is one of the two.
TEST(SharedTiles, WhatIsLeftOfAName) {
  const ir::Expr s = ir::MakeVar("s"), once = ir::MakeVar("once"), twice = ir::MakeVar("twice");
  const auto bind = [](const ir::Expr& var, const ir::Expr& value) {
    return ir::MakeStmt<ir::Bind>(SourceLoc(), var, value);
  };
  const ir::Facts names =
      NamesIn(ir::MakeSeq({bind(once, s * ir::MakeInt(64) + ir::MakeInt(35)),
                           bind(twice, ir::MakeInt(8)), bind(twice, ir::MakeInt(16))},
                          SourceLoc()));
  EXPECT_EQ(ResidueOf(once, 32, names), 3);
  EXPECT_EQ(ResidueOf(once - ir::MakeInt(36), 64, names), 63);
  EXPECT_EQ(ResidueOf(once, 128, names), std::nullopt);
  EXPECT_EQ(ResidueOf(twice, 8, names), std::nullopt);
  EXPECT_EQ(ResidueOf(s, 2, names), std::nullopt);
}

}  // namespace
}  // namespace kiln::passes

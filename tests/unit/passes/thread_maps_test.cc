// Assignments as index arithmetic, evaluated for every thread and step.
#include "compiler/passes/thread_maps.h"

#include <gtest/gtest.h>

#include <array>

#include "compiler/layout/fragments.h"
#include "compiler/passes/gemm_layouts.h"
#include "tests/util/thread_level.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using layout::Ownership;
using layout::ThreadRange;

// The number of tables that a right share took.
size_t CheckShare(const Ownership& loop, ThreadRange threads) {
  size_t tables = 0;
  EXPECT_EQ(testing::SimulateShare(loop, threads, &tables), "");
  return tables;
}

size_t CheckSlots(const Ownership& fragment) {
  ConstantTables tables;
  const auto slots = SlotsOf(fragment, "f", &tables);
  const Expr x = ir::MakeVar("x");
  const Expr slot = slots(x);
  for (int64_t e = 0; e < fragment.size(); ++e) {
    if (fragment.decided(e)) EXPECT_EQ(testing::ValueOf(slot, {x}, {e}), fragment.Slot(e)) << e;
  }
  return tables.Allocations().size();
}

TEST(ThreadMaps, DealtOutInTurnNeedsNoTable) {
  for (const int64_t threads : {1, 3, 32, 100, 128}) {
    for (const int64_t size : {1, 5, 96, 229, 1024}) {
      for (const int64_t width : {1, 2, 4, 8}) {
        const Ownership o = Ownership::Planned(size, {0, threads}, width);
        EXPECT_EQ(CheckShare(o, {0, threads}), 0u) << threads << " " << size << " " << width;
        EXPECT_EQ(CheckSlots(o), 0u);
      }
    }
  }
}

// A register is of the same row, counted from its team's first, in every thread; no two elements
// share one.
TEST(ThreadMaps, RowsDealtOutToTeamsNeedNoTable) {
  for (const auto& [rows, columns, width, across, down] :
       {std::array<int64_t, 5>{20, 704, 2, 32, 4},
        {12, 640, 4, 32, 4},
        {6, 96, 1, 16, 2},
        {4, 768, 8, 32, 4}}) {
    const Ownership o = Ownership::PlannedRows(rows, columns, {0, 128}, width, across, down);
    EXPECT_EQ(CheckShare(o, {0, 128}), 0u) << rows << "x" << columns;
    EXPECT_EQ(CheckSlots(o), 0u);
    EXPECT_FALSE(layout::FindCollision(o).has_value());
    for (int64_t x = 0; x < o.size(); ++x) {
      ASSERT_EQ(o.Slot(x) / (columns / across), x / columns / down) << x;
      ASSERT_EQ(o.Owners(x).count(), 1u);
    }
  }
}

TEST(ThreadMaps, ThreadsMayStartAnywhere) {
  EXPECT_EQ(CheckShare(Ownership::Planned(70, {64, 32}, 2), {64, 32}), 0u);
  EXPECT_EQ(CheckShare(Ownership::Replicated(9, {64, 32}), {64, 32}), 0u);
}

TEST(ThreadMaps, FragmentsOfMatrixInstructionsAreDigits) {
  for (const WarpGrid grid : {WarpGrid{1, 1}, WarpGrid{2, 2}, WarpGrid{4, 1}}) {
    const int64_t threads = 32 * grid.rows * grid.columns;
    const auto c = AccumulatorLayout(64, 64, grid);
    const auto a = LeftOperandLayout(64, 32, grid);
    ASSERT_TRUE(c.ok() && a.ok());
    for (const layout::Layout& held : {*c, *a}) {
      const auto o = Ownership::Of(held, held.size());
      ASSERT_TRUE(o.ok());
      EXPECT_EQ(CheckShare(*o, {0, threads}), 0u) << held.ToString();
      EXPECT_EQ(CheckSlots(*o), 0u);
    }
  }
}

TEST(ThreadMaps, AColumnOfAnotherLayoutIsDigits) {
  const Ownership tile = Ownership::Planned(4 * 16, {0, 64}, 1);
  const Ownership column = tile.Pullback({0, 16, 32, 48});  // the threads 0, 16, 32, 48
  EXPECT_EQ(CheckShare(column, {0, 64}), 0u);
}

TEST(ThreadMaps, WhatHasNoDigitsIsLookedUp) {
  const Ownership tile = Ownership::Planned(229, {0, 128}, 1);
  std::vector<int64_t> shifted;
  for (int64_t i = 0; i < 229; ++i) shifted.push_back((i + 1) % 229);
  EXPECT_GT(CheckShare(tile.Pullback(shifted), {0, 128}), 0u);
  Ownership uneven(3);  // with copies, of different number
  uneven.Set(0, ThreadRange{0, 4}.Set(), 0);
  uneven.Set(1, ThreadRange{2, 1}.Set(), 5);
  uneven.Set(2, ThreadRange{1, 2}.Set(), 7);
  EXPECT_GT(CheckShare(uneven, {0, 8}), 0u);
  EXPECT_GT(CheckSlots(uneven), 0u);
}

}  // namespace
}  // namespace kiln::passes

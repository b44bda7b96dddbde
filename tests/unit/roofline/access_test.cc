#include "compiler/roofline/access.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace kiln::roofline {
namespace {

double BruteMean(int64_t offset, int64_t step, int64_t trip, int64_t extent, int64_t size) {
  double sum = 0;
  for (int64_t v = 0; v < trip; ++v) {
    const int64_t from = offset + v * step, to = std::min(from + extent, size);
    sum += static_cast<double>(std::max<int64_t>(0, to - from));
  }
  return sum / static_cast<double>(trip);
}

TEST(AccessTest, MeanClippedEqualsCounting) {
  Tape t;
  int checked = 0;
  for (int64_t size : {1, 5, 16, 100, 257}) {
    for (int64_t extent : {1, 3, 16, 64, 300}) {
      for (int64_t step : {1, 3, 16, 64}) {
        for (int64_t offset : {0, 2}) {
          if (offset >= size) continue;
          // As many tiles as start inside, one, and a few that start outside.
          for (int64_t trip : {int64_t{1}, (size - offset + step - 1) / step,
                               (size - offset + step - 1) / step + 3}) {
            const auto c = [&](int64_t v) { return t.Const(static_cast<double>(v)); };
            const double got =
                *MeanClipped(c(offset), c(step), c(trip), c(extent), c(size)).constant();
            ASSERT_NEAR(got, BruteMean(offset, step, trip, extent, size), 1e-9)
                << "offset " << offset << " step " << step << " trip " << trip << " extent "
                << extent << " size " << size;
            ++checked;
          }
        }
      }
    }
  }
  EXPECT_GT(checked, 500);
}

// x[i * 4 .. +6, k * 8 + j] for i in [0, 5), k in [0, 3), j in [0, 8): overlapping rows; each loop
// from its start, or from its end.
TEST(AccessTest, FootprintsOfNestedLoops) {
  for (const bool backwards : {false, true}) {
    Tape t;
    Symbols symbols(&t);
    const ir::Expr i = ir::MakeVar("i"), k = ir::MakeVar("k"), j = ir::MakeVar("j");
    const auto c = [&](double v) { return t.Const(v); };
    symbols.SetLoop(i, c(0), c(5));
    symbols.SetLoop(k, c(0), c(3));
    symbols.SetLoop(j, c(0), c(8));
    std::vector<LoopLevel> loops = {
        {"i", i.get(), -1, c(5), c(5), c(1), true, false, c(1)},
        {"k", k.get(), 0, c(3), c(3), c(1), false, false, c(1)},
    };
    const auto at = [&](const ir::Expr& loop, int64_t last) {
      return backwards ? ir::MakeInt(last) - loop : loop;
    };
    AccessSpec spec;
    spec.buffer =
        ir::MakeBuffer("x", kFloat32, {ir::MakeInt(22), ir::MakeInt(20)}, ir::Scope::kGlobal);
    spec.dims = {{at(i, 4) * 4, c(6)}, {at(k, 2) * 8 + at(j, 7), c(1)}};
    spec.inner = {{j.get(), c(8)}};
    spec.loops = {0, 1};
    const Access a = MeasureAccess(spec, {c(22), c(20)}, loops, symbols);
    EXPECT_TRUE(a.exact);
    ASSERT_EQ(a.footprint.size(), 3u);
    EXPECT_NEAR(*a.footprint[2].constant(), 6.0 * 20.0 / 3.0, 1e-9);  // one execution
    EXPECT_EQ(a.footprint[1].constant(), 6.0 * 20.0);   // over k: the whole width, clipped
    EXPECT_EQ(a.footprint[0].constant(), 22.0 * 20.0);  // over i: rows 0..21
    // Columns 0-7, 8-15, 16-19: 20/3 on average.
    EXPECT_NEAR(*a.elements.constant(), 6.0 * 20.0 / 3.0, 1e-9);
    EXPECT_EQ(a.run_bytes.constant(), 32.0);
    EXPECT_EQ(a.dim_loop, (std::vector<int>{0, 1}));
  }
}

TEST(AccessTest, WholeRowsRunTogether) {
  Tape t;
  Symbols symbols(&t);
  const auto c = [&](double v) { return t.Const(v); };
  AccessSpec spec;
  spec.buffer =
      ir::MakeBuffer("x", kFloat16, {ir::MakeInt(8), ir::MakeInt(64)}, ir::Scope::kGlobal);
  spec.dims = {{ir::MakeInt(0), c(4)}, {ir::MakeInt(0), c(64)}};
  EXPECT_EQ(MeasureAccess(spec, {c(8), c(64)}, {}, symbols).run_bytes.constant(), 4 * 64 * 2.0);
  spec.dims[1].extent = c(32);
  EXPECT_EQ(MeasureAccess(spec, {c(8), c(64)}, {}, symbols).run_bytes.constant(), 64.0);
}

TEST(AccessTest, AnIndexThatIsNotAffineIsBounded) {
  Tape t;
  Symbols symbols(&t);
  const ir::Expr i = ir::MakeVar("i");
  const auto c = [&](double v) { return t.Const(v); };
  symbols.SetLoop(i, c(0), c(10));
  AccessSpec spec;
  spec.buffer = ir::MakeBuffer("x", kFloat32, {ir::MakeInt(7)}, ir::Scope::kGlobal);
  spec.dims = {{ir::FloorMod(i * i, ir::MakeInt(7)), c(1)}};
  spec.inner = {{i.get(), c(10)}};
  const Access a = MeasureAccess(spec, {c(7)}, {}, symbols);
  EXPECT_FALSE(a.exact);
  EXPECT_LE(*a.elements.constant(), 7.0);
}

}  // namespace
}  // namespace kiln::roofline

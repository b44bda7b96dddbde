// Ready-made layouts against documented positions: tensor memory, tcgen05 atoms, mma fragments,
// ldmatrix, wgmma, scale factors; and the known moves between register layouts.
#include <gtest/gtest.h>

#include <set>

#include "compiler/layout/fragments.h"
#include "compiler/layout/injective.h"
#include "compiler/layout/inverse.h"
#include "compiler/layout/memory_layouts.h"
#include "compiler/layout/move.h"
#include "compiler/layout/pack.h"
#include "compiler/layout/scopes.h"
#include "compiler/layout/text.h"
#include "compiler/layout/tile.h"

namespace kiln::layout {
namespace {

using Pair = std::pair<int64_t, int64_t>;

Coord At(const absl::StatusOr<Layout>& layout, const std::vector<int64_t>& coord,
         const std::vector<int64_t>& shape) {
  if (!layout.ok()) {
    ADD_FAILURE() << layout.status();
    return {};
  }
  const auto points = layout->Apply(coord, shape);
  EXPECT_TRUE(points.ok()) << points.status();
  return points.ok() ? (*points)[0] : Coord();
}

Pair Cell(const absl::StatusOr<Layout>& layout, int64_t r, int64_t c, Pair shape) {
  const Coord p = At(layout, {r, c}, {shape.first, shape.second});
  return {p[Axis::kTLane], p[Axis::kTCol]};
}

TEST(TmemDatapath, KnownCells) {
  const auto d = TmemDatapathLayout('D', 128, 64);
  const auto b = TmemDatapathLayout('B', 64, 64);
  const auto f = TmemDatapathLayout('F', 64, 64);
  const auto g = TmemDatapathLayout('G', 32, 64);
  EXPECT_EQ(Cell(d, 127, 63, {128, 64}), Pair(127, 63));
  EXPECT_EQ(Cell(b, 63, 63, {64, 64}), Pair(127, 31));
  EXPECT_EQ(Cell(b, 17, 33, {64, 64}), Pair(81, 1));
  EXPECT_EQ(Cell(f, 63, 63, {64, 64}), Pair(111, 63));
  EXPECT_EQ(Cell(f, 17, 33, {64, 64}), Pair(33, 33));
  EXPECT_EQ(Cell(g, 31, 63, {32, 64}), Pair(127, 15));
  EXPECT_EQ(Cell(g, 17, 33, {32, 64}), Pair(81, 1));
  std::set<int64_t> low, high;
  for (int64_t x = 0; x < f->size(); ++x) {
    low.insert(f->Base(x)[Axis::kTLane]);
    high.insert(TmemDatapathLayout('F', 64, 64, 1)->Base(x)[Axis::kTLane]);
  }
  std::set<int64_t> expected, both = low;
  for (const int64_t start : {0, 32, 64, 96}) {
    for (int64_t i = 0; i < 16; ++i) expected.insert(start + i);
  }
  EXPECT_EQ(low, expected);
  both.insert(high.begin(), high.end());
  EXPECT_EQ(low.size() + high.size(), 128u);
  EXPECT_EQ(both.size(), 128u);
  EXPECT_FALSE(TmemDatapathLayout('D', 64, 64).ok());
  EXPECT_FALSE(TmemDatapathLayout('B', 64, 63).ok());
}

TEST(TmemDatapath, OperandsOfMma) {
  EXPECT_EQ(*AccumulatorDatapath(128, 1, false), 'D');
  EXPECT_EQ(*AccumulatorDatapath(64, 1, false), 'F');
  EXPECT_EQ(*AccumulatorDatapath(64, 1, true), 'E');
  EXPECT_EQ(*AccumulatorDatapath(256, 2, false), 'A');
  EXPECT_EQ(*AccumulatorDatapath(128, 2, false), 'B');
  EXPECT_FALSE(AccumulatorDatapath(128, 1, true).ok());
  EXPECT_EQ(*GroupedAccumulator(64, 2, 128),
            MustParse("S[(64,2,2,128):(1@TLane,128@TCol,64@TLane,1@TCol)]"));
  EXPECT_EQ(*TmemOperandA('B', 32), MustParse("S[(64,32):(1@TLane,1@TCol)] + R[2:64@TLane]"));
  EXPECT_EQ(TmemColumns(*TmemDatapathLayout('D', 128, 224), 32), 224);
}

struct AtomRow {
  const char* name;
  int64_t columns;
  int64_t row, column, lane, warp, reg;
};

TEST(Tcgen05Atom, KnownElements) {
  const AtomRow rows[] = {{"16x64b", 4, 1, 0, 4, 0, 0},     {"16x64b", 4, 8, 0, 1, 0, 0},
                          {".16x64b", 4, 0, 1, 2, 0, 0},    {"16x64b", 4, 20, 3, 18, 1, 1},
                          {"16x64b", 4, 63, 3, 31, 3, 1},   {"16x128b", 8, 8, 0, 0, 0, 1},
                          {"16x128b", 8, 0, 1, 1, 0, 0},    {"16x128b", 8, 0, 7, 3, 0, 2},
                          {"16x128b", 8, 63, 7, 31, 3, 3},  {"16x256b", 16, 8, 0, 0, 0, 2},
                          {"16x256b", 16, 0, 1, 0, 0, 1},   {"16x256b", 16, 0, 15, 3, 0, 5},
                          {"16x256b", 16, 20, 3, 17, 1, 1}, {"16x256b", 16, 63, 15, 31, 3, 7}};
  for (const AtomRow& row : rows) {
    const auto layout = Tcgen05AtomLayout(row.name, 64, row.columns, 32);
    EXPECT_EQ(At(layout, {row.row, row.column}, {64, row.columns}),
              Coord({{Axis::kLaneid, row.lane}, {Axis::kWidInWg, row.warp}, {Axis::kM, row.reg}}))
        << row.name << " " << row.row << "," << row.column;
  }
}

// The documented bit layout of every instruction shape, for rows 64 and 128, element widths and
// repeats; all bijective with rows * columns / 128 registers a thread.
TEST(Tcgen05Atom, BitByBit) {
  const struct {
    const char* name;
    int64_t unit;
  } shapes[] = {{"16x64b", 2}, {"16x128b", 4}, {"16x256b", 8}, {"32x32b", 1}};
  for (const auto& shape : shapes) {
    for (const int64_t rows : {64, 128}) {
      for (const int bits : {32, 16}) {
        for (const int64_t repeat : {1, 2, 4}) {
          const bool wide = std::string(shape.name) == "32x32b";
          const int64_t words = shape.unit * repeat * (wide && rows == 64 ? 2 : 1);
          const int64_t per = 32 / bits;
          const auto layout = Tcgen05AtomLayout(shape.name, rows, words * per, bits);
          ASSERT_TRUE(layout.ok()) << layout.status();
          EXPECT_TRUE(IsInjective(*layout));
          EXPECT_EQ(layout->Span(Axis::kM), rows * words * per / 128);
          const auto fused = FuseThreadAxes(*layout);
          for (int64_t r = 0; r < rows; ++r) {
            for (int64_t c = 0; c < words * per; ++c) {
              const Coord p = At(fused, {r, c}, {rows, words * per});
              const int64_t lane = p[Axis::kTidInWg] % 32;
              const int64_t warp = p[Axis::kTidInWg] / 32;
              const int64_t reg = p[Axis::kM] / per;
              const int64_t slabs = rows / 64;
              const int64_t regs = wide ? words : words * rows / 128 / slabs;
              const int64_t slab = reg / regs;
              const int64_t v = reg % regs;
              int64_t row = 16 * slabs * warp + 16 * slab;
              int64_t column = 0;
              if (wide) {
                row = rows == 128 ? p[Axis::kTidInWg] : p[Axis::kTidInWg] % 64;
                column = rows == 128 ? reg : reg + p[Axis::kTidInWg] / 64 * (words / 2);
              } else if (shape.unit == 2) {
                row += lane / 4 + 8 * (lane % 2);
                column = lane / 2 % 2 + 2 * v;
              } else if (shape.unit == 4) {
                row += lane / 4 + 8 * (v % 2);
                column = lane % 4 + 4 * (v / 2);
              } else {
                row += lane / 4 + 8 * (v / 2 % 2);
                column = v % 2 + 2 * (lane % 4) + 8 * (v / 4);
              }
              ASSERT_EQ(row, r) << shape.name;
              ASSERT_EQ(column * per + p[Axis::kM] % per, c) << shape.name;
            }
          }
        }
      }
    }
  }
  EXPECT_FALSE(Tcgen05AtomLayout("16x64b", 64, 6, 32).ok());
  EXPECT_FALSE(Tcgen05AtomLayout("16x256b", 64, 512, 32).ok());
  EXPECT_EQ(Canonical(*Tcgen05AtomLayout("32x32b", 128, 64, 32)), Canonical(*WgLocalLayout(64)));
}

// The PTX ISA's formulas: row and column of element i of a lane.
Pair Documented(const FragmentRow& f, int64_t lane, int64_t i) {
  const int64_t g = lane / 4;
  const int64_t t = lane % 4;
  const std::string shape = f.shape;
  const int64_t per = f.element_bits >= 32 ? 1 : 32 / f.element_bits;
  if (f.operand == 'C') return {g + (i >= 2 ? 8 : 0), 2 * t + i % 2};
  if (f.operand == 'B') return {per * t + i % per + 4 * per * (i / per), g};
  if (f.rows == 8) return {g, per * t + i % per};
  return {g + (i / per % 2 == 1 ? 8 : 0), per * t + i % per + 4 * per * (i / per / 2)};
}

TEST(MmaFragments, EveryRowMatchesTheDocument) {
  EXPECT_EQ(FragmentRows().size(), 33u);
  for (const FragmentRow& row : FragmentRows()) {
    const auto layout = MmaFragment(row.shape, row.operand, row.element_bits);
    ASSERT_TRUE(layout.ok()) << layout.status();
    ASSERT_EQ(layout->size(), row.rows * row.cols);
    const auto inverse = Inverse::Of(*layout);
    ASSERT_TRUE(inverse.ok());
    for (int64_t lane = 0; lane < 32; ++lane) {
      for (int64_t i = 0; i < row.rows * row.cols / 32; ++i) {
        const auto element = (*inverse)(Coord({{Axis::kLaneid, lane}, {Axis::kM, i}}));
        ASSERT_TRUE(element.has_value()) << row.shape << row.operand;
        EXPECT_EQ(Pair(element->first / row.cols, element->first % row.cols),
                  Documented(row, lane, i))
            << row.shape << " " << row.operand << " " << row.element_bits << " lane " << lane
            << " element " << i;
      }
    }
  }
  EXPECT_FALSE(MmaFragment("m16n8k5", 'A', 16).ok());
}

Pair LaneReg(const absl::StatusOr<Layout>& layout, int64_t r, int64_t c, Pair shape) {
  const Coord p = At(layout, {r, c}, {shape.first, shape.second});
  return {p[Axis::kLaneid], p[Axis::kM]};
}

TEST(MmaFragments, KnownElements) {
  const auto c = MmaFragment("m16n8k16", 'C', 16);
  EXPECT_EQ(LaneReg(c, 1, 0, {16, 8}), Pair(4, 0));
  EXPECT_EQ(LaneReg(c, 8, 0, {16, 8}), Pair(0, 2));
  EXPECT_EQ(LaneReg(c, 9, 5, {16, 8}), Pair(6, 3));
  EXPECT_EQ(LaneReg(c, 15, 7, {16, 8}), Pair(31, 3));
  const auto a = MmaFragment("m16n8k16", 'A', 16);
  for (int64_t i = 0; i < 16; ++i) {
    for (int64_t k = 0; k < 16; ++k) {
      EXPECT_EQ(LaneReg(a, i, k, {16, 16}),
                Pair(4 * (i % 8) + k % 8 / 2, 4 * (k / 8) + 2 * (i / 8) + k % 2));
    }
  }
  const auto b = MmaFragment("m16n8k16", 'B', 16);
  EXPECT_EQ(LaneReg(b, 0, 1, {16, 8}), Pair(4, 0));
  EXPECT_EQ(LaneReg(b, 1, 0, {16, 8}), Pair(0, 1));
  EXPECT_EQ(LaneReg(b, 8, 0, {16, 8}), Pair(0, 2));
  EXPECT_EQ(LaneReg(b, 9, 5, {16, 8}), Pair(20, 3));
}

TEST(LdMatrix, AddressesAndRegisters) {
  const Layout addresses = MatrixTileAddresses();
  const auto inverse = Inverse::Of(addresses);
  const std::pair<int64_t, Pair> rows[] = {{7, {7, 0}}, {8, {8, 0}}, {16, {0, 8}}, {31, {15, 8}}};
  for (const auto& [lane, place] : rows) {
    const auto element = (*inverse)(Coord({{Axis::kLaneid, lane}}));
    EXPECT_EQ(Pair(element->first / 2, element->first % 2 * 8), place);
  }
  for (const int count : {1, 2, 4}) {
    const auto plain = MatrixFragment(count, false);
    const auto transposed = MatrixFragment(count, true);
    for (int64_t j = 0; j < count; ++j) {
      EXPECT_EQ(At(MatrixRowAddresses(count), {8 * j + 3}, {8 * count})[Axis::kLaneid], 8 * j + 3);
      for (int64_t r = 0; r < 8; ++r) {
        for (int64_t c = 0; c < 8; ++c) {
          EXPECT_EQ(LaneReg(plain, 8 * j + r, c, {8 * count, 8}),
                    Pair(4 * r + c / 2, 2 * j + c % 2));
          EXPECT_EQ(LaneReg(transposed, 8 * j + r, c, {8 * count, 8}),
                    Pair(4 * c + r / 2, 2 * j + r % 2));
        }
      }
    }
  }
  EXPECT_FALSE(MatrixFragment(3, false).ok());
}

TEST(Wgmma, AccumulatorAndOperand) {
  const auto c = FuseThreadAxes(*WgmmaAccumulator(24));
  const auto at = [&](int64_t i, int64_t j) {
    const Coord p = At(c, {i, j}, {64, 24});
    return Pair(p[Axis::kTidInWg], p[Axis::kM]);
  };
  EXPECT_EQ(at(17, 9), Pair(36, 5));
  EXPECT_EQ(at(63, 23), Pair(127, 11));
  EXPECT_EQ(c->Span(Axis::kM), 12);
  for (int64_t thread = 0; thread < 128; ++thread) {
    for (int64_t reg = 0; reg < 12; ++reg) {
      const int64_t row = 16 * (thread / 32) + thread % 32 / 4 + 8 * (reg / 2 % 2);
      const int64_t column = 8 * (reg / 4) + 2 * (thread % 4) + reg % 2;
      EXPECT_EQ(at(row, column), Pair(thread, reg));
    }
  }
  EXPECT_EQ(WgmmaOperandA(16)->size(), 64 * 16);
  EXPECT_EQ(WgmmaOperandA(8)->size(), 64 * 32);
  EXPECT_EQ(WgmmaOperandA(32)->size(), 64 * 8);
  EXPECT_FALSE(WgmmaAccumulator(20).ok());
}

TEST(ScaleFactors, TensorMemory) {
  const auto make = [](int64_t rows, int64_t factors, int64_t per_mma) {
    return ScaleFactorTmemLayout({.rows = rows, .factors = factors, .per_mma = per_mma});
  };
  for (const int64_t per_mma : {1, 2, 4}) EXPECT_EQ(make(128, 4, per_mma)->Span(Axis::kTCol), 16);
  EXPECT_EQ(make(128, 16, 4)->Span(Axis::kTCol), 64);
  EXPECT_EQ(make(256, 8, 2)->Span(Axis::kTCol), 64);
  for (const int64_t per_mma : {1, 2, 4}) {
    EXPECT_EQ(Cell(make(128, 4, per_mma), 33, 1, {128, 4}), Pair(1, 5));
    EXPECT_EQ(Cell(make(128, 4, per_mma), 127, 3, {128, 4}), Pair(31, 15));
  }
  EXPECT_EQ(Cell(make(128, 16, 4), 33, 1, {128, 16}), Pair(1, 5));
  EXPECT_EQ(Cell(make(128, 16, 4), 127, 15, {128, 16}), Pair(31, 63));
  EXPECT_EQ(Cell(make(256, 8, 2), 33, 1, {256, 8}), Pair(1, 5));
  EXPECT_EQ(Cell(make(256, 8, 2), 127, 7, {256, 8}), Pair(31, 47));
  for (const auto& layout : {make(128, 4, 1), make(128, 16, 4), make(256, 8, 2)}) {
    EXPECT_TRUE(IsInjective(*layout));
    EXPECT_EQ(layout->copies(), 4);
  }
  // Two pipeline stages do not overlap, whatever the number of groups along K.
  const auto staged =
      ScaleFactorTmemLayout({.rows = 128, .factors = 16, .per_mma = 4, .reuse = 1, .depth = 2});
  EXPECT_TRUE(IsInjective(*staged));
  EXPECT_EQ(staged->Span(Axis::kTCol), 128);
  EXPECT_FALSE(make(100, 4, 4).ok());
}

TEST(ScaleFactors, SharedMemory) {
  const auto layout = ScaleFactorSharedLayout(128, 8);
  const struct {
    int64_t r, k, byte;
  } rows[] = {{0, 0, 0}, {1, 0, 16}, {32, 0, 4}, {33, 1, 21}, {127, 3, 511}, {127, 7, 1023}};
  for (const auto& row : rows) {
    EXPECT_EQ(At(layout, {row.r, row.k}, {128, 8})[Axis::kM], row.byte);
  }
  EXPECT_TRUE(IsInjective(*layout));
  EXPECT_EQ(layout->size(), 1024);
  EXPECT_EQ(layout->Span(Axis::kM), 1024);
}

TEST(Scratchpad, KnownForms) {
  EXPECT_EQ(*ScratchpadLayout("FPF", {32, 512, 512}),
            MustParse("S[(32,4,128,512):(512@F,16384@F,1@P,1@F)]"));
  EXPECT_EQ(*ScratchpadLayout("FPPF", {2, 4, 32, 512}),
            MustParse("S[(2,4,32,512):(512@F,32@P,1@P,1@F)]"));
  EXPECT_EQ(*ScratchpadLayout("PF", {128, 128}), MustParse("S[(128,128):(1@P,1@F)]"));
  EXPECT_FALSE(ScratchpadLayout("PP", {128, 2}).ok());
  const auto banks = ToBanks(MustParse("S[(1024,8):(1@F,1@P)]"));
  for (int64_t i = 0; i < 1024; ++i) {
    EXPECT_EQ(At(banks, {i, 5}, {1024, 8}),
              Coord({{Axis::kBank, i / 512}, {Axis::kF, i % 512}, {Axis::kP, 5}}));
  }
}

// Fragments of a bigger tile: the atom repeated, row-major, in registers.
Layout Repeated(const Layout& atom, std::vector<int64_t> shape, std::vector<int64_t> to) {
  return *TileTo(atom, shape, to);
}

TEST(Moves, KnownPlans) {
  const Layout c = *MmaFragment("m16n8k16", 'C', 16);
  const Layout c16 = Repeated(c, {16, 8}, {16, 16});
  const Layout a16 = *MmaFragment("m16n8k16", 'A', 16);
  const auto chain = PlanMove(c16, a16, 16, 16);
  ASSERT_TRUE(chain.ok()) << chain.status();
  EXPECT_EQ(chain->kind, MovePlan::Kind::kNone);

  const Layout c32 = Repeated(c, {16, 8}, {16, 32});
  const auto fp8 = PlanMove(c32, *MmaFragment("m16n8k32", 'A', 8), 32, 32);
  ASSERT_TRUE(fp8.ok());
  EXPECT_EQ(fp8->kind, MovePlan::Kind::kShuffle);
  EXPECT_EQ(fp8->rounds.size(), 16u);
  EXPECT_EQ(fp8->staying, 128);
  const auto pairs = PlanMove(c32, *MmaFragment("m16n8k32", 'A', 8), 16, 32);
  EXPECT_EQ(pairs->group, 2);
  EXPECT_EQ(pairs->rounds.size(), 8u);

  const Layout b = Repeated(*MmaFragment("m16n8k16", 'B', 16), {16, 8}, {16, 16});
  const auto cb = PlanMove(c16, b, 32, 16);
  EXPECT_EQ(cb->kind, MovePlan::Kind::kShuffle);
  EXPECT_EQ(cb->rounds.size(), 8u);

  const auto rows = PlanMove(c, MustParse("S[(32,4):(1@laneid,1)]"), 32, 8);
  EXPECT_EQ(rows->kind, MovePlan::Kind::kShuffle);
  EXPECT_EQ(rows->rounds.size(), 4u);
  EXPECT_EQ(rows->rounds_lower_bound, 4);
  EXPECT_EQ(rows->staying, 4);

  const auto warps = PlanMove(Repeated(c, {16, 8}, {32, 8}),
                              *Tile(MustParse("S[2:1@warpid]"), {2, 1}, c, {16, 8}), 32, 8);
  EXPECT_EQ(warps->kind, MovePlan::Kind::kShared);
}

TEST(SparseInverse, GuardsOfTheColumnRead) {
  // fragment (4, 16), thread = 16 row + col; a (2, 2) loop reads row 2 g + r of column 0.
  const auto loop = Inverse::Of(MustParse("S[(2,2):(32@tx,16@tx)]"));
  ASSERT_TRUE(loop.ok());
  for (int64_t t = 0; t < 64; ++t) {
    const auto found = (*loop)(Coord({{Axis::kTx, t}}));
    ASSERT_EQ(found.has_value(), t % 16 == 0) << t;
    if (found) {
      EXPECT_EQ(found->first, t / 32 * 2 + t % 32 / 16);
    }
  }
  const auto within = loop->GuardsWithin(Axis::kTx, 0, 64);
  ASSERT_EQ(within.size(), 1u);
  EXPECT_EQ(within[0].ToString(), "tx mod 16 == 0");

  const auto odd = Inverse::Of(MustParse("S[3:20@tx]"));
  for (int64_t t = 0; t < 60; ++t)
    EXPECT_EQ((*odd)(Coord({{Axis::kTx, t}})).has_value(), t % 20 == 0);

  const auto gapped = Inverse::Of(MustParse("S[(3,3,2):(40@tx,5@tx,1@m)]"));
  const std::map<int64_t, int64_t> expected = {{0, 1},   {5, 3},   {10, 5},  {40, 7}, {45, 9},
                                               {50, 11}, {80, 13}, {85, 15}, {90, 17}};
  for (int64_t t = 0; t < 128; ++t) {
    const auto found = (*gapped)(Coord({{Axis::kTx, t}, {Axis::kM, 1}}));
    const auto it = expected.find(t);
    ASSERT_EQ(found.has_value(), it != expected.end()) << t;
    if (found) {
      EXPECT_EQ(found->first, it->second);
    }
  }
}

}  // namespace
}  // namespace kiln::layout

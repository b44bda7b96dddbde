// Swizzle values, banks, wavefronts and the shared-memory layouts of mma descriptors.
#include <gtest/gtest.h>

#include <set>

#include "compiler/layout/banks.h"
#include "compiler/layout/memory_layouts.h"
#include "compiler/layout/text.h"

namespace kiln::layout {
namespace {

int64_t At(const Layout& layout, const std::vector<int64_t>& coord,
           const std::vector<int64_t>& shape) {
  const auto points = layout.Apply(coord, shape);
  EXPECT_TRUE(points.ok()) << points.status();
  return points.ok() ? (*points)[0][Axis::kM] : -1;
}

TEST(Swizzle, Values) {
  const SwizzleLayout s{3, 3, 3};
  const std::pair<int64_t, int64_t> rows[] = {
      {0, 0},     {7, 7},     {8, 8},     {63, 63},   {64, 72},   {65, 73},   {72, 64},
      {128, 144}, {200, 208}, {511, 455}, {512, 512}, {576, 584}, {1023, 967}};
  for (const auto& [from, to] : rows) EXPECT_EQ(s(from), to);
  const SwizzleLayout outer{3, 3, 3, false};
  const std::pair<int64_t, int64_t> outers[] = {{8, 72}, {72, 8}, {9, 73}, {511, 63}};
  for (const auto& [from, to] : outers) EXPECT_EQ(outer(from), to);
  EXPECT_FALSE(SwizzleLayout::Make(3, 3, 2).ok());
  EXPECT_FALSE(SwizzleLayout::Make(-1, 3, 3).ok());
}

TEST(Swizzle, SmallTransforms) {
  for (int64_t i = 0; i < 8; ++i) {
    for (int64_t j = 0; j < 8; ++j) {
      EXPECT_EQ((SwizzleLayout{0, 3, 3}(8 * i + j)), 8 * i + (i ^ j));
      EXPECT_EQ((SwizzleLayout{0, 3, 3, false}(8 * i + j)), 8 * (i ^ j) + j);
      EXPECT_EQ((SwizzleLayout{0, 2, 3}(8 * i + j)), 8 * i + j / 4 * 4 + (i % 4 ^ j % 4));
    }
  }
}

TEST(Swizzle, ChosenByDtypeAndMode) {
  EXPECT_EQ(*SwizzleFor(16, SwizzleMode::k128B), (SwizzleLayout{3, 3, 3}));
  EXPECT_EQ(*SwizzleFor(16, SwizzleMode::k64B), (SwizzleLayout{3, 2, 3}));
  EXPECT_EQ(*SwizzleFor(16, SwizzleMode::k32B), (SwizzleLayout{3, 1, 3}));
  EXPECT_EQ(*SwizzleFor(8, SwizzleMode::k128B), (SwizzleLayout{4, 3, 3}));
  EXPECT_EQ(*SwizzleFor(32, SwizzleMode::k128B), (SwizzleLayout{2, 3, 3}));
  EXPECT_FALSE(SwizzleFor(12, SwizzleMode::k128B).ok());
  EXPECT_EQ(WidestMode(16, 256), SwizzleMode::k128B);
  EXPECT_EQ(WidestMode(16, 96), SwizzleMode::k64B);
  EXPECT_EQ(WidestMode(16, 48), SwizzleMode::k32B);
  EXPECT_EQ(WidestMode(16, 40), SwizzleMode::kNone);
}

// Banks of one column, rows 0 to 7.
std::vector<int> Banks(const Layout& layout, int64_t column, int64_t columns) {
  std::vector<int> banks;
  for (int64_t i = 0; i < 8; ++i) {
    banks.push_back(BankOf(At(layout, {i, column}, {8, columns}), 2));
  }
  return banks;
}

TEST(Banks, OfSwizzledColumns) {
  const Layout wide = MustParse("<3,3,3> o S[(8,64):(64,1)]");
  const std::pair<int64_t, std::vector<int>> rows[] = {
      {0, {0, 4, 8, 12, 16, 20, 24, 28}},  {1, {0, 4, 8, 12, 16, 20, 24, 28}},
      {2, {1, 5, 9, 13, 17, 21, 25, 29}},  {8, {4, 0, 12, 8, 20, 16, 28, 24}},
      {9, {4, 0, 12, 8, 20, 16, 28, 24}},  {16, {8, 12, 0, 4, 24, 28, 16, 20}},
      {24, {12, 8, 4, 0, 28, 24, 20, 16}}, {56, {28, 24, 20, 16, 12, 8, 4, 0}},
      {63, {31, 27, 23, 19, 15, 11, 7, 3}}};
  for (const auto& [column, banks] : rows) EXPECT_EQ(Banks(wide, column, 64), banks) << column;
  for (int64_t i = 0; i < 8; ++i) {
    for (int64_t j = 0; j < 64; ++j) {
      EXPECT_EQ(At(wide, {i, j}, {8, 64}), 64 * i + 8 * (j / 8 ^ i) + j % 8);
    }
  }
  const Layout half = MustParse("<3,2,3> o S[(8,32):(32,1)]");
  EXPECT_EQ(Banks(half, 0, 32), (std::vector<int>{0, 16, 4, 20, 8, 24, 12, 28}));
  EXPECT_EQ(Banks(half, 8, 32), (std::vector<int>{4, 20, 0, 16, 12, 28, 8, 24}));
  const Layout quarter = MustParse("<3,1,3> o S[(8,16):(16,1)]");
  EXPECT_EQ(Banks(quarter, 0, 16), (std::vector<int>{0, 8, 16, 24, 4, 12, 20, 28}));
  EXPECT_EQ(Banks(quarter, 8, 16), (std::vector<int>{4, 12, 20, 28, 0, 8, 16, 24}));
  const Layout plain = MustParse("S[(8,64):(64,1)]");
  for (const auto& [column, bank] :
       {std::pair<int64_t, int>{0, 0}, {1, 0}, {2, 1}, {5, 2}, {8, 4}, {63, 31}}) {
    EXPECT_EQ(Banks(plain, column, 64), std::vector<int>(8, bank));
  }
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(LineOf(At(plain, {i, 5}, {8, 64}), 2), i);
}

// A column of 8 or 32 rows of fp16, bytes_per_lane wide.
int Column(const Layout& layout, int64_t rows, int64_t columns, int64_t column, int bytes) {
  std::vector<int64_t> addresses;
  for (int64_t i = 0; i < rows; ++i) {
    addresses.push_back(2 * At(layout, {i, column}, {rows, columns}));
  }
  return Wavefronts(addresses, bytes);
}

TEST(Wavefronts, OfColumns) {
  const Layout plain = MustParse("S[(32,64):(64,1)]");
  const Layout wide = MustParse("<3,3,3> o S[(32,64):(64,1)]");
  const Layout plain8 = MustParse("S[(8,64):(64,1)]");
  const Layout wide8 = MustParse("<3,3,3> o S[(8,64):(64,1)]");
  EXPECT_EQ(Column(plain8, 8, 64, 0, 2), 8);
  EXPECT_EQ(Column(wide8, 8, 64, 0, 2), 1);
  for (int64_t chunk = 0; chunk < 8; ++chunk) {
    EXPECT_EQ(Column(plain8, 8, 64, 8 * chunk, 16), 8);
    EXPECT_EQ(Column(wide8, 8, 64, 8 * chunk, 16), 1);
  }
  EXPECT_EQ(Column(plain, 32, 64, 0, 16), 32);
  EXPECT_EQ(Column(wide, 32, 64, 0, 16), 4);
  EXPECT_EQ(Column(wide, 32, 64, 0, 2), 4);
  // Narrow modes are free of conflicts at their own pitch only.
  EXPECT_EQ(Column(MustParse("<3,2,3> o S[(8,32):(32,1)]"), 8, 32, 0, 16), 1);
  EXPECT_EQ(Column(MustParse("<3,1,3> o S[(8,16):(16,1)]"), 8, 16, 0, 16), 1);
  EXPECT_EQ(Column(MustParse("<3,2,3> o S[(8,64):(64,1)]"), 8, 64, 0, 16), 2);
  EXPECT_EQ(Column(MustParse("<3,1,3> o S[(8,64):(64,1)]"), 8, 64, 0, 16), 4);
}

TEST(Wavefronts, OfFloatColumns) {
  const auto column = [](const char* text) {
    const Layout layout = MustParse(text);
    std::vector<int64_t> addresses;
    for (int64_t i = 0; i < 32; ++i) addresses.push_back(4 * At(layout, {i, 0}, {32, 32}));
    return Wavefronts(addresses, 4);
  };
  EXPECT_EQ(column("S[(32,32):(32,1)]"), 32);
  EXPECT_EQ(column("S[(32,32):(33,1)]"), 1);
  EXPECT_EQ(column("<0,5,5> o S[(32,32):(32,1)]"), 1);
  EXPECT_EQ(column("<2,3,3> o S[(32,32):(32,1)]"), 4);
}

TEST(Wavefronts, OfStrides) {
  const auto strided = [](int64_t bytes_apart, int width) {
    std::vector<int64_t> addresses;
    for (int64_t i = 0; i < 32; ++i) addresses.push_back(i * bytes_apart);
    return Wavefronts(addresses, width);
  };
  EXPECT_EQ(strided(4, 4), 1);
  EXPECT_EQ(strided(8, 8), 2);
  EXPECT_EQ(strided(16, 16), 4);
  EXPECT_EQ(strided(8, 4), 2);
  EXPECT_EQ(strided(12, 4), 1);
  EXPECT_EQ(strided(0, 4), 1);
  EXPECT_EQ(strided(144, 16), 4);
  EXPECT_EQ(strided(128, 16), 32);
}

// 64 x 64 fp16: rows written 16 bytes a lane (8 lanes a row), read by ldmatrix.x4.
void Requests(std::vector<Request>* stores, std::vector<Request>* loads) {
  for (int64_t r = 0; r < 64; r += 4) {
    Request request{{}, 8};
    for (int64_t lane = 0; lane < 32; ++lane) {
      request.elements.push_back((r + lane / 8) * 64 + lane % 8 * 8);
    }
    stores->push_back(request);
  }
  for (int64_t r = 0; r < 64; r += 16) {
    for (int64_t c = 0; c < 64; c += 16) {
      Request request{{}, 8};
      for (int64_t lane = 0; lane < 32; ++lane) {
        request.elements.push_back((r + lane % 16) * 64 + c + lane / 16 * 8);
      }
      loads->push_back(request);
    }
  }
}

TEST(BestShared, FindsTheHardwareSwizzle) {
  std::vector<Request> stores, loads;
  Requests(&stores, &loads);
  EXPECT_EQ(Cost(stores, 64, {{}, 64, 0, 0}, 2), 64);
  EXPECT_EQ(Cost(loads, 64, {{}, 64, 0, 0}, 2), 512);
  EXPECT_EQ(Cost(stores, 64, {{3, 3, 3}, 64, 0, 0}, 2), 64);
  EXPECT_EQ(Cost(loads, 64, {{3, 3, 3}, 64, 0, 0}, 2), 64);
  EXPECT_EQ(Cost(stores, 64, {{}, 72, 0, 0}, 2), 64);
  EXPECT_EQ(Cost(loads, 64, {{}, 72, 0, 0}, 2), 64);
  const SharedPlan best = BestShared(stores, loads, 64, 2, true);
  EXPECT_EQ(best.swizzle, (SwizzleLayout{3, 3, 3}));
  EXPECT_EQ(best.pitch, 64);
  EXPECT_EQ(best.store_wavefronts, 64);
  EXPECT_EQ(best.load_wavefronts, 64);
}

TEST(WarpXorSwizzle, TransposesFourRegisters) {
  const Layout rows = MustParse("S[(4,32):(32,1)]");
  const Layout columns = MustParse("S[(4,32):(1,4)]");
  const auto k = WarpXorSwizzle(rows, columns, 4);
  ASSERT_TRUE(k.ok()) << k.status();
  EXPECT_EQ(*k, 2);
  EXPECT_EQ(*WarpXorSwizzle(rows, rows, 4), 0);
  EXPECT_FALSE(WarpXorSwizzle(rows, columns, 2).ok());
  EXPECT_FALSE(WarpXorSwizzle(rows, columns, 1).ok());
  std::vector<int64_t> column;  // without the exchange, four lanes meet in a bank
  for (int64_t lane = 0; lane < 32; ++lane) column.push_back(4 * At(columns, {1, lane}, {4, 32}));
  EXPECT_EQ(ConflictDegree(column, 4), 4);
}

TEST(MmaShared, KnownAddresses) {
  const auto wide = MmaSharedLayout(16, SwizzleMode::k128B, {64, 256});
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_EQ(*wide, MustParse("<3,3,3> o S[(64,4,64):(64,4096,1)]"));
  struct Row {
    int64_t i, j, plain, swizzled;
  };
  const Row rows[] = {{0, 64, 4096, 4096}, {1, 0, 64, 72},   {1, 8, 72, 64},
                      {7, 63, 511, 455},   {8, 0, 512, 512}, {63, 255, 16383, 16327}};
  for (const Row& row : rows) {
    EXPECT_EQ(At(TileLayout(*wide), {row.i, row.j}, {64, 256}), row.plain);
    EXPECT_EQ(At(*wide, {row.i, row.j}, {64, 256}), row.swizzled);
  }
  EXPECT_EQ(*MmaSharedLayout(16, SwizzleMode::k128B, {3, 64, 256}),
            MustParse("<3,3,3> o S[(3,64,4,64):(16384,64,4096,1)]"));
  const auto half = MmaSharedLayout(16, SwizzleMode::k64B, {3, 64, 256});
  EXPECT_EQ(*half, MustParse("<3,2,3> o S[(3,64,8,32):(16384,32,2048,1)]"));
  EXPECT_EQ(At(*half, {0, 0, 32}, {3, 64, 256}), 2048);
  EXPECT_EQ(At(*half, {0, 1, 0}, {3, 64, 256}), 32);
  EXPECT_EQ(At(*half, {1, 0, 0}, {3, 64, 256}), 16384);
  EXPECT_EQ(At(*half, {2, 63, 255}, {3, 64, 256}), 49127);
  EXPECT_EQ(At(TileLayout(*half), {2, 63, 255}, {3, 64, 256}), 49151);
  EXPECT_FALSE(MmaSharedLayout(16, SwizzleMode::k128B, {64, 96}).ok());
}

// The chunk of 16 bytes that row i keeps chunk c in, as bank swizzles are usually written: XOR with
// the row, with half of it, with a quarter of it.
TEST(MmaShared, EqualsBankSwizzlesCellByCell) {
  for (const int bits : {8, 16, 32}) {
    const int64_t vec = 128 / bits;
    for (const SwizzleMode mode : {SwizzleMode::k128B, SwizzleMode::k64B, SwizzleMode::k32B}) {
      const int64_t chunks = RowBytes(mode) / 16;
      const auto atom = MmaAtomLayout(bits, mode);
      ASSERT_TRUE(atom.ok());
      for (int64_t i = 0; i < 8; ++i) {
        for (int64_t j = 0; j < chunks * vec; ++j) {
          const int64_t chunk = j / vec ^ (i * chunks / 8);
          EXPECT_EQ(At(*atom, {i, j}, {8, chunks * vec}), i * chunks * vec + chunk * vec + j % vec);
        }
      }
    }
  }
}

}  // namespace
}  // namespace kiln::layout

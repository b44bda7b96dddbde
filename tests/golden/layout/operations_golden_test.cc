// Known results of the operations: what a given tile, slice, regrouping or packing has to be.
#include <gtest/gtest.h>

#include "compiler/layout/factor.h"
#include "compiler/layout/pack.h"
#include "compiler/layout/regroup.h"
#include "compiler/layout/scopes.h"
#include "compiler/layout/slice.h"
#include "compiler/layout/text.h"
#include "compiler/layout/tile.h"

namespace kiln::layout {
namespace {

using Shape = std::vector<int64_t>;

Shape Times(const Shape& a, const Shape& b) {
  Shape product;
  for (size_t d = 0; d < a.size(); ++d) product.push_back(a[d] * b[d]);
  return product;
}

std::string Text(const absl::StatusOr<Layout>& layout) {
  return layout.ok() ? Canonical(*layout).ToString() : std::string(layout.status().ToString());
}

struct TileRow {
  const char *outer, *inner, *tiled;
  Shape outer_shape, inner_shape;
  bool swapped_is_refused;
};

const std::vector<TileRow>& TileRows() {
  static const std::vector<TileRow> rows = {
      {"S[8:1]", "S[8:1]", "S[64:1]", {8}, {8}, false},
      {"S[(8,8):(8,1)]", "S[(8,8):(8,1)]", "S[(8,8,8,8):(512,8,64,1)]", {8, 8}, {8, 8}, false},
      {"S[(8,8):(8,1)]", "S[(2,4):(1,2)]", "S[(8,2,32):(64,1,2)]", {8, 8}, {2, 4}, true},
      {"S[(8,8):(8,1)]",
       "S[(4,2,2,4):(16,8,1,2)]",
       "S[(8,4,2,8,2,4):(512,16,8,64,1,2)]",
       {8, 8},
       {8, 8},
       true},
      {"S[(8,8):(8,1)]",
       "S[(8,1,4,2):(4@laneid,2,1@laneid,1)]",
       "S[(8,8,8,4,2):(16,4@laneid,2,1@laneid,1)]",
       {8, 8},
       {8, 8},
       true},
      {"S[(8,8):(8,1)]",
       "S[(8,4):(4@laneid,1@laneid)]",
       "S[(8,8,8,4):(8,4@laneid,1,1@laneid)]",
       {8, 8},
       {8, 4},
       true},
      {"S[(8,4):(4@laneid,1@laneid)]",
       "S[(1,2):(2,1)]",
       "S[(32,2):(1@laneid,1)]",
       {8, 4},
       {1, 2},
       true},
      {"S[(2,2):(2@warpid,1@warpid)]",
       "S[(32,2):(1@laneid,1)]",
       "S[(2,8,2,4,2):(2@warpid,4@laneid,1@warpid,1@laneid,1)]",
       {2, 2},
       {8, 8},
       true},
      {"S[8:4@laneid]", "S[(1,2):(2,1)]", "S[(8,2):(4@laneid,1)]", {8, 1}, {1, 2}, false},
      {"S[2:2@warpid] + R[2:1@warpid]",
       "S[(64,128):(128,1)]",
       "S[(2,8192):(2@warpid,1)] + R[2:1@warpid]",
       {2, 1},
       {64, 128},
       true},
      {"S[(8,4):(1,8)]",
       "<3,3,3> o S[(8,64):(64,1)]",
       "<3,3,3> o S[(64,4,64):(64,4096,1)]",
       {8, 4},
       {8, 64},
       true},
      {"S[(3,8,4):(32,1,8)]",
       "<3,3,3>",
       "<3,3,3> o S[(3,64,4,64):(16384,64,4096,1)]",
       {3, 8, 4},
       {1, 8, 64},
       true},
      {"S[(8,8):(1,8)]", "<3,2,3>", "<3,2,3> o S[(64,8,32):(32,2048,1)]", {8, 8}, {8, 32}, true},
      {"S[(8,1):(1,1)]",
       "<3,3,3> o S[(8,64):(64,1)]",
       "<3,3,3> o S[4096:1]",
       {8, 1},
       {8, 64},
       true},
  };
  return rows;
}

TEST(Tile, KnownResultsAndTheirFactors) {
  for (const TileRow& row : TileRows()) {
    const Layout outer = MustParse(row.outer);
    const Layout inner = MustParse(row.inner);
    const auto tiled = Tile(outer, row.outer_shape, inner, row.inner_shape);
    EXPECT_EQ(Text(tiled), Text(MustParse(row.tiled)));
    if (!tiled.ok()) continue;
    const Shape shape = Times(row.outer_shape, row.inner_shape);
    EXPECT_EQ(Text(OuterFactor(*tiled, shape, inner, row.inner_shape)), Text(outer)) << row.tiled;
    EXPECT_EQ(Text(InnerFactor(*tiled, shape, outer, row.outer_shape)), Text(inner)) << row.tiled;
    if (!row.swapped_is_refused) continue;
    const auto swapped = OuterFactor(*tiled, shape, outer, row.outer_shape);
    EXPECT_FALSE(swapped.ok()) << row.tiled << " gives " << Text(swapped);
    EXPECT_TRUE(WitnessOf(swapped.status()).has_value()) << swapped.status();
  }
}

TEST(Tile, UnitDimensionsAndThreeDimensions) {
  struct Row {
    const char *outer, *inner;
    Shape outer_shape, inner_shape;
  };
  const Row rows[] = {
      {"S[(4,2,1):(2,1,1)]", "S[(2,4,1):(2,3,1)]", {4, 2}, {2, 4}},
      {"S[(8,2):(2,1)]", "S[(2,4):(4,1)]", {8, 2}, {2, 4}},
      {"S[(8,4,1):(4,1,4)]", "S[(2,1,1):(4,3,1)]", {8, 4}, {2, 1}},
      {"S[(8,8,4):(32,4,1)]", "S[(1,2,1):(4,3,1)]", {8, 8, 4}, {1, 2, 1}},
      {"S[(8,8,4):(32,4,1)]", "S[(8,8,1,4,2):(4,4@laneid,2,1@laneid,1)]", {8, 8, 4}, {8, 8, 8}},
      {"S[(16,8,4):(1,64,16)]", "S[(2,4,2,2):(4,1,4,3)]", {16, 8, 4}, {8, 2, 2}},
  };
  for (const Row& row : rows) {
    const Layout outer = MustParse(row.outer);
    const Layout inner = MustParse(row.inner);
    const auto tiled = Tile(outer, row.outer_shape, inner, row.inner_shape);
    ASSERT_TRUE(tiled.ok()) << tiled.status();
    const Shape shape = Times(row.outer_shape, row.inner_shape);
    EXPECT_EQ(Text(OuterFactor(*tiled, shape, inner, row.inner_shape)), Text(outer));
    EXPECT_EQ(Text(InnerFactor(*tiled, shape, outer, row.outer_shape)), Text(inner));
  }
}

TEST(Tile, OuterCopiesAndOffsetsScaleToo) {
  const auto tiled = Tile(MustParse("S[4:2] + R[2:1] + 3"), {4}, MustParse("S[8:1]"), {8});
  EXPECT_EQ(Text(tiled), "S[(4,8):(16,1)] + R[2:8] + 24");
}

TEST(Tile, Refusals) {
  EXPECT_EQ(Tile(MustParse("S[8:1]"), {8}, MustParse("S[(2,4):(1,2)]"), {2, 4}).status().code(),
            absl::StatusCode::kInvalidArgument);
  // Half a period does not commute with the swizzle.
  const auto half = Tile(MustParse("S[2:1]"), {2}, MustParse("<3,3,3> o S[64:1]"), {64});
  ASSERT_FALSE(half.ok());
  const auto witness = WitnessOf(half.status());
  ASSERT_TRUE(witness.has_value());
  EXPECT_NE(witness->at[Axis::kM], witness->other_at[Axis::kM]);
}

TEST(Tile, ThreadAxesSplitForARecogniser) {
  const Layout tiled = MustParse("S[(2,8,2,4,2):(64@tx,4@tx,32@tx,1@tx,1)]");
  EXPECT_EQ(Text(OuterFactor(tiled, {16, 16}, MustParse("S[2:1]"), {1, 2})),
            "S[(2,8,2,4):(64@tx,4@tx,32@tx,1@tx)]");
  EXPECT_EQ(
      Text(InnerFactor(tiled, {16, 16},
                       MustParse("S[(2,8,2,4):(2@warpid,4@laneid,1@warpid,1@laneid)]"), {16, 8})),
      "S[2:1]");
  EXPECT_EQ(
      Text(OuterFactor(tiled, {16, 16}, MustParse("S[(8,1,4,2):(4@laneid,2,1@laneid,1)]"), {8, 8})),
      "S[4:1@warpid]");
  EXPECT_EQ(Text(InnerFactor(tiled, {16, 16}, MustParse("S[(2,2):(2@warpid,1@warpid)]"), {2, 2})),
            "S[(32,2):(1@laneid,1)]");
}

TEST(DirectSum, OffsetsAdd) {
  const Layout a = MustParse("S[(2,2):(8,2)]");
  const Layout b = MustParse("S[(2,2):(4,1)]");
  const auto sum = DirectSum(a, {2, 2}, b, {2, 2});
  EXPECT_EQ(Text(sum), "S[16:1]");
  EXPECT_EQ(Text(LeftSummand(*sum, {4, 4}, b, {2, 2})), Text(a));
  EXPECT_EQ(Text(RightSummand(*sum, {4, 4}, a, {2, 2})), Text(b));
}

TEST(GroupMany, KnownRefinements) {
  const auto thirty = GroupMany(MustParse("S[30:1]"), {{6, 5}, {2, 15}});
  ASSERT_TRUE(thirty.ok()) << thirty.status();
  EXPECT_EQ(thirty->layout, MustParse("S[(2,3,5):(15,5,1)]"));
  EXPECT_EQ(thirty->separators[0], (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(thirty->separators[1], (std::vector<int>{0, 1, 3}));
  const auto units = GroupMany(MustParse("S[30:1]"), {{1, 6, 1, 5, 1}, {2, 1, 3, 5}});
  ASSERT_TRUE(units.ok()) << units.status();
  EXPECT_EQ(units->layout, MustParse("S[(1,2,1,3,1,5,1):(30,15,15,5,5,1,1)]"));
  const auto kept = GroupMany(MustParse("S[(6,1,5):(5,97,1)]"), {{6, 1, 5}});
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->layout, MustParse("S[(6,1,5):(5,97,1)]"));
  const auto refused = GroupMany(MustParse("S[12:1]"), {{3, 4}, {2, 6}});
  EXPECT_FALSE(refused.ok());
  EXPECT_TRUE(WitnessOf(refused.status()).has_value()) << refused.status();
}

TEST(Slice, KnownRegions) {
  const auto block = Slice(MustParse("S[(4,4,4,4):(64,4,16,1)]"), {16, 16}, {{2, 1}, {6, 4}});
  EXPECT_EQ(Text(block), "S[(2,2):(14,1)] + 26");
  std::vector<int64_t> values;
  for (int64_t x = 0; x < 4; ++x) values.push_back(block->Base(x)[Axis::kM]);
  EXPECT_EQ(values, (std::vector<int64_t>{26, 27, 40, 41}));
  const auto rows = Slice(MustParse("S[(2,8,3,8):(192,8,64,1)]"), {16, 24}, {{2, 4}, {4, 8}});
  EXPECT_EQ(Text(rows), "S[(4,2,4):(8,60,1)] + 20");
  const auto columns =
      Slice(MustParse("S[(128,2,64):(64,8192,1)]"), {128, 128}, {{0, 128}, {32, 64}});
  EXPECT_EQ(Text(columns), "S[(128,2,32):(64,8160,1)] + 32");
  const auto ragged = Slice(MustParse("S[(2,8):(100,1)]"), {16}, {{6, 5}});
  ASSERT_FALSE(ragged.ok());  // 6 7 100 101 102
  EXPECT_TRUE(WitnessOf(ragged.status()).has_value());
}

TEST(Pack, KnownResults) {
  EXPECT_EQ(Text(Pack(MustParse("<4,3,3> o S[(8,128):(128,1)]"), 2)), "<3,3,3> o S[512:1]");
  EXPECT_EQ(*Pack(MustParse("<4,3,3> o S[(8,128):(128,1)]"), 2),
            MustParse("<3,3,3> o S[(8,64):(64,1)]"));
  EXPECT_EQ(*Unpack(MustParse("<3,3,3> o S[(8,64):(64,1)]"), 2),
            MustParse("<4,3,3> o S[(8,64,2):(128,2,1)]"));
  EXPECT_FALSE(Pack(MustParse("<0,3,3> o S[(8,8):(8,1)]"), 2).ok());
  EXPECT_FALSE(Pack(MustParse("S[(8,8):(9,1)]"), 2).ok());
  EXPECT_EQ(*Storage(MustParse("S[(8,4,2):(4@laneid,1@laneid,1)] + R[2:1@warpid] + 3@laneid")),
            MustParse("S[2:1]"));
}

TEST(Scopes, FusedAxes) {
  const std::pair<const char*, const char*> rows[] = {
      {"S[(2,8,2,4):(2@warpid,4@laneid,1@warpid,1@laneid)]",
       "S[(2,8,2,4):(64@tx,4@tx,32@tx,1@tx)]"},
      {"S[(2,2,8,4):(2@warpid,1@warpid,4@laneid,1@laneid)]", "S[128:1@tx]"},
      {"S[(2,2,4,32):(2@wgid,1@wgid,32@tid_in_wg,1@tid_in_wg)]", "S[512:1@tx]"},
      {"S[(4,32):(1@wid_in_wg,1@laneid)]", "S[128:1@tid_in_wg]"},
      {"S[(2,4):(1@wgid,1@wid_in_wg)]", "S[8:1@warpid]"},
      {"S[(2,4,32):(1@wgid,1@wid_in_wg,1@laneid)]", "S[256:1@tx]"},
      {"S[(8,4):(4@laneid,1@laneid)] + 1@laneid", "S[32:1@laneid] + 1@laneid"},
  };
  for (const auto& [text, fused] : rows) {
    EXPECT_EQ(Text(FuseThreadAxes(MustParse(text))), Text(MustParse(fused))) << text;
  }
  const auto scope = ScopeOf(MustParse("S[(2,8,2,4,2):(2@warpid,4@laneid,1@warpid,1@laneid,1)]"));
  ASSERT_TRUE(scope.ok());
  EXPECT_EQ(scope->outer, Scope::kCta);
  EXPECT_EQ(scope->inner, Scope::kThread);
  EXPECT_FALSE(ScopeOf(MustParse("S[(2,32):(1@wgid,1@laneid)]")).ok());
  EXPECT_FALSE(ScopeOf(MustParse("S[(2,32):(32@tx,1@laneid)]")).ok());
}

}  // namespace
}  // namespace kiln::layout

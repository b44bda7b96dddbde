// The worked numbers of the layout notation: what a text means, element by element.
#include <gtest/gtest.h>

#include <set>

#include "compiler/layout/layout.h"
#include "compiler/layout/table.h"
#include "compiler/layout/text.h"

namespace kiln::layout {
namespace {

std::vector<Coord> Points(const Layout& layout, std::vector<int64_t> coord,
                          std::vector<int64_t> shape) {
  const auto points = layout.Apply(coord, shape);
  EXPECT_TRUE(points.ok()) << points.status();
  return points.ok() ? *points : std::vector<Coord>{};
}

TEST(Fragment, PlacesEveryListedElement) {
  const Layout frag =
      MustParse("S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)] + R[2:4@warpid] + 5@warpid");
  struct Row {
    int64_t i, j, lane, warp, m;
  };
  const Row rows[] = {{0, 0, 0, 5, 0},  {0, 1, 0, 5, 1},  {0, 2, 1, 5, 0},  {0, 7, 3, 5, 1},
                      {0, 8, 0, 6, 0},  {1, 0, 4, 5, 0},  {3, 5, 14, 5, 1}, {5, 10, 21, 6, 0},
                      {7, 7, 31, 5, 1}, {7, 8, 28, 6, 0}, {7, 15, 31, 6, 1}};
  for (const Row& row : rows) {
    const auto points = Points(frag, {row.i, row.j}, {8, 16});
    ASSERT_EQ(points.size(), 2u);
    for (int q = 0; q < 2; ++q) {
      EXPECT_EQ(
          points[q],
          Coord({{Axis::kLaneid, row.lane}, {Axis::kWarpid, row.warp + 4 * q}, {Axis::kM, row.m}}))
          << row.i << "," << row.j;
    }
    EXPECT_EQ(frag.Base(16 * row.i + row.j), points[0]);
  }
  EXPECT_EQ(frag.size(), 128);
  EXPECT_EQ(frag.copies(), 2);
  EXPECT_EQ(frag.size(Axis::kLaneid), 32);
  EXPECT_EQ(frag.size(Axis::kWarpid), 2);
  EXPECT_EQ(frag.size(Axis::kM), 2);
  EXPECT_EQ(frag.Span(Axis::kLaneid), 32);
  EXPECT_EQ(frag.Span(Axis::kWarpid), 11);
  EXPECT_EQ(frag.Span(Axis::kM), 2);
  std::set<Coord> distinct;
  int64_t checksum = 0;
  for (int64_t x = 0; x < frag.size(); ++x) {
    for (const Coord& p : frag.Apply(x)) {
      distinct.insert(p);
      checksum += p[Axis::kLaneid] + 100 * p[Axis::kWarpid] + 10000 * p[Axis::kM];
    }
  }
  EXPECT_EQ(distinct.size(), 256u);
  EXPECT_EQ(checksum, 1475968);
}

TEST(Fragment, DigitsOfTheFlatIndex) {
  const std::vector<int64_t> extents = {8, 2, 4, 2};
  EXPECT_EQ(Unflatten(53, extents), (std::vector<int64_t>{3, 0, 2, 1}));
  EXPECT_EQ(Unflatten(90, extents), (std::vector<int64_t>{5, 1, 1, 0}));
  EXPECT_EQ(Unflatten(120, extents), (std::vector<int64_t>{7, 1, 0, 0}));
  EXPECT_EQ(Unflatten(127, extents), (std::vector<int64_t>{7, 1, 3, 1}));
}

TEST(TensorMemory, ColumnsNeedNotBePowersOfTwo) {
  const Layout acc = MustParse("S[(2,128,112):(112@TCol,1@TLane,1@TCol)]");
  const std::vector<int64_t> shape = {2, 128, 112};
  const auto at = [&](int64_t a, int64_t l, int64_t c) {
    const Coord p = Points(acc, {a, l, c}, shape)[0];
    return std::make_pair(p[Axis::kTLane], p[Axis::kTCol]);
  };
  using P = std::pair<int64_t, int64_t>;
  EXPECT_EQ(at(0, 0, 0), P(0, 0));
  EXPECT_EQ(at(0, 5, 111), P(5, 111));
  EXPECT_EQ(at(1, 0, 0), P(0, 112));
  EXPECT_EQ(at(1, 3, 7), P(3, 119));
  EXPECT_EQ(at(1, 127, 111), P(127, 223));
  EXPECT_EQ(acc.size(), 28672);
  EXPECT_EQ(acc.Span(Axis::kTCol), 224);
  EXPECT_EQ(acc.Span(Axis::kTLane), 128);
  EXPECT_EQ(acc.SpanOverMemory(), 351);
  std::set<Coord> cells;
  for (int64_t x = 0; x < acc.size(); ++x) cells.insert(acc.Base(x));
  EXPECT_EQ(cells.size(), 28672u);  // 128 * 224: no holes
}

TEST(ScaleFactor, FourCopiesThirtyTwoLanesApart) {
  for (const int64_t spm : {1, 2, 4}) {
    const auto scale =
        Build(S({32, spm}, {1 * Axis::kTLane, 1 * Axis::kTCol}) + R({4}, {32 * Axis::kTLane}));
    ASSERT_TRUE(scale.ok());
    EXPECT_EQ(scale->size(), 32 * spm);
    EXPECT_EQ(scale->Span(Axis::kTLane), 128);
    EXPECT_EQ(scale->Span(Axis::kTCol), spm);
  }
  const Layout scale = MustParse("S[(32,4):(1@TLane,1@TCol)] + R[4:32@TLane]");
  const auto lanes = [&](int64_t r, int64_t s) {
    std::vector<int64_t> out;
    for (const Coord& p : Points(scale, {r, s}, {32, 4})) {
      EXPECT_EQ(p[Axis::kTCol], s);
      out.push_back(p[Axis::kTLane]);
    }
    return out;
  };
  EXPECT_EQ(lanes(0, 0), (std::vector<int64_t>{0, 32, 64, 96}));
  EXPECT_EQ(lanes(5, 3), (std::vector<int64_t>{5, 37, 69, 101}));
  EXPECT_EQ(lanes(31, 2), (std::vector<int64_t>{31, 63, 95, 127}));
}

TEST(Construction, TextBuilderAndItersAgree) {
  const auto built =
      Build(S({8, 2, 4, 2}, {4 * Axis::kLaneid, 1 * Axis::kWarpid, 1 * Axis::kLaneid, 1}) +
            R({2}, {4 * Axis::kWarpid}) + 5 * Axis::kWarpid);
  const auto iters = Layout::FromIters(
      {{8, 4, Axis::kLaneid}, {2, 1, Axis::kWarpid}, {4, 1, Axis::kLaneid}, {2, 1, Axis::kM}},
      {{2, 4, Axis::kWarpid}}, {{Axis::kWarpid, 5}});
  const Layout text = MustParse(
      "TileLayout(S[(8, 2, 4, 2) : (4@laneid, 1@warpid, 1@laneid, 1)]\n"
      "  + R[2 : 4@warpid]\n  + 5@warpid\n)");
  ASSERT_TRUE(built.ok() && iters.ok());
  EXPECT_EQ(*built, *iters);
  EXPECT_EQ(text, *iters);
  EXPECT_EQ(text.ToString(),
            "S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)] + R[2:4@warpid] + 5@warpid");
}

TEST(Construction, OffsetsOfOneAxisAdd) {
  const Layout a = MustParse("S[8:4@laneid] + 1@laneid + 2@warpid + 64");
  EXPECT_EQ(a, MustParse("S[8:4@laneid] + 64 + 2@warpid + 3@laneid - 2@laneid"));
  EXPECT_EQ(a, MustParse("64 + S[8:4@laneid] + 1@laneid + 2@warpid"));
  EXPECT_EQ(a.offset(Axis::kLaneid), 1);
  EXPECT_EQ(a.offset(Axis::kM), 64);
}

TEST(Construction, ExtentsAloneAreRowMajor) {
  EXPECT_EQ(MustParse("S[(2,3,4)]"), MustParse("S[(2,3,4):(12,4,1)]"));
  EXPECT_EQ(MustParse("S[2,3,4]"), MustParse("S[(2,3,4):(12@m,4@m,1@m)]"));
}

TEST(Canonical, KnownForms) {
  const std::pair<const char*, const char*> rows[] = {
      {"S[(8,8,8,4,2):(512,64,8,2,1)]", "S[4096:1]"},
      {"S[(8,8,1,8,4,2):(512,64,160,8,2,1)]", "S[4096:1]"},
      {"S[(8,8,8,4,1,1):(512,64,8,2,1,1)]", "S[2048:2]"},
      {"S[(8,8,1,1,1,4,1,1):(512,64,1,1,1,2,1,1)]", "S[(64,4):(64,2)]"},
      {"S[(2,3,6):(18,6,1)]", "S[36:1]"},
      {"S[(8,2,3,6):(6,18,6,1)]", "S[(8,36):(6,1)]"},
      {"S[(8,2,3,6):(6,24,6,1)]", "S[(8,2,18):(6,24,1)]"},
      {"S[(8,2,4,2,3,6):(2,1,4,24,6,1)]", "S[(16,4,2,18):(1,4,24,1)]"},
      {"S[(3,4,5,2):(20,5,1,60)]", "S[(60,2):(1,60)]"},
      {"S[(18,8,2,4,2,3,6):(4,2,1,4,24,6,1)]", "S[(18,16,4,2,18):(4,1,4,24,1)]"},
      {"S[(3,4,5,2,3,4):(20,5,1,60,20,5)]", "S[(60,24):(1,5)]"},
      {"S[(8,8,8,4,2):(16,4@laneid,2,1@laneid,1)]", "S[(8,8,8,4,2):(16,4@laneid,2,1@laneid,1)]"},
      {"S[(8,8,8,1,4,2,1):(16,4@laneid,2,1,1@laneid,1,4@laneid)]",
       "S[(8,8,8,4,2):(16,4@laneid,2,1@laneid,1)]"},
      {"S[(8,8,8,1,1,2,1):(16,4@laneid,2,1,4@laneid,1,1)] + 0@laneid",
       "S[(8,8,16):(16,4@laneid,1)]"},
      {"S[(8,4,8,8,16):(4@laneid,1@laneid,4,2,4)]", "S[(32,8,8,16):(1@laneid,4,2,4)]"},
      {"S[(8,4,4,8,8,8):(4@laneid,1@laneid,16,2,8,8)]", "S[(32,32,8,8):(1@laneid,2,8,8)]"},
      {"S[(8,1,8):(8@F,1@P,1@F)]", "S[64:1@F]"},
      {"S[(8,8,8):(8@F,1@P,1@F)]", "S[(8,8,8):(8@F,1@P,1@F)]"},
      {"S[1:1] + R[(8,4):(4@laneid,1@laneid)] + 2@warpid", "S[1:1] + R[32:1@laneid] + 2@warpid"},
      {"S[1:1] + R[(4,8):(1@laneid,4@laneid)] + 2@warpid", "S[1:1] + R[32:1@laneid] + 2@warpid"},
      {"<3,3,3> o S[(8,64):(64,1)]", "<3,3,3> o S[512:1]"},
      {"<3,3,3> o S[(64,4,64):(64,4096,1)]", "<3,3,3> o S[(64,4,64):(64,4096,1)]"},
  };
  for (const auto& [text, expected] : rows) {
    EXPECT_EQ(Canonical(MustParse(text)).ToString(), expected) << text;
  }
  EXPECT_EQ(Canonical(MustParse("S[()] + R[32:1@laneid]")).size(), 1);
}

TEST(SizeAndSpan, KnownNumbers) {
  EXPECT_EQ(MustParse("S[(8,8):(8,1)]").Span(Axis::kM), 64);
  EXPECT_EQ(MustParse("S[(8,6):(8,1)]").Span(Axis::kM), 62);
  EXPECT_EQ(MustParse("S[(8,1,4,2):(4@laneid,2,1@laneid,1)]").Span(Axis::kM), 2);
  const Layout f = MustParse("S[(8,8,8):(64@F,1@P,1@F)]");
  EXPECT_EQ(f.size(Axis::kP), 8);
  EXPECT_EQ(f.size(Axis::kF), 64);
  EXPECT_EQ(f.Span(Axis::kF), 456);
  EXPECT_EQ(MustParse("<3,3,3>").size(), 512);
  EXPECT_EQ(MustParse("<4,3,3>").Span(Axis::kM), 1024);
  EXPECT_EQ(MustParse("<3,3,3> o S[(8,64):(64,1)]").Span(Axis::kM), 512);
}

TEST(Apply, KnownNumbers) {
  const Layout l = MustParse("S[(2,3,4,2,2):(1,2,12,6,48)]");
  const auto m = [&](int64_t i, int64_t j) { return Points(l, {i, j}, {6, 16})[0][Axis::kM]; };
  EXPECT_EQ(m(0, 1), 48);
  EXPECT_EQ(m(0, 2), 6);
  EXPECT_EQ(m(0, 4), 12);
  EXPECT_EQ(m(1, 0), 2);
  EXPECT_EQ(m(3, 0), 1);
  EXPECT_EQ(m(5, 15), 95);
  std::set<int64_t> image;
  for (int64_t x = 0; x < 96; ++x) image.insert(l.Base(x)[Axis::kM]);
  EXPECT_EQ(image.size(), 96u);
  EXPECT_EQ(*image.rbegin(), 95);
  EXPECT_EQ((*MustParse("S[(8,8):(8,1)]").Apply({3, 4}))[0][Axis::kM], 28);  // one digit an iter
  const Layout offset = MustParse("<3,3,3> o S[(8,8):(64,1)] + 72");
  const std::vector<int64_t> square = {8, 8};
  EXPECT_EQ(Points(offset, {0, 0}, square)[0][Axis::kM], 64);
  EXPECT_EQ(Points(offset, {0, 7}, square)[0][Axis::kM], 71);
  EXPECT_EQ(Points(offset, {1, 0}, square)[0][Axis::kM], 152);
  EXPECT_EQ(Points(offset, {7, 7}, square)[0][Axis::kM], 527);
}

}  // namespace
}  // namespace kiln::layout

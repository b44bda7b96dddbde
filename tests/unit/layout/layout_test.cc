// Edges of the layout library: refusals and their witnesses, limits, the axis table, sizes past any
// table.
#include <gtest/gtest.h>

#include "compiler/base/status.h"
#include "compiler/layout/banks.h"
#include "compiler/layout/compose.h"
#include "compiler/layout/contain.h"
#include "compiler/layout/factor.h"
#include "compiler/layout/fragments.h"
#include "compiler/layout/injective.h"
#include "compiler/layout/inverse.h"
#include "compiler/layout/memory_layouts.h"
#include "compiler/layout/move.h"
#include "compiler/layout/pack.h"
#include "compiler/layout/regroup.h"
#include "compiler/layout/table.h"
#include "compiler/layout/text.h"
#include "compiler/layout/tile.h"

namespace kiln::layout {
namespace {

TEST(Axes, NamesKindsAndScopes) {
  for (const char* name : {"bx", "by", "bz", "cbx", "cby", "cbz", "tx", "warpid", "laneid", "wgid",
                           "tid_in_wg", "wid_in_wg", "m", "P", "F", "Bank", "TLane", "TCol"}) {
    const auto axis = FindAxis(name);
    ASSERT_TRUE(axis.ok()) << name;
    EXPECT_EQ(NameOf(*axis), name);
  }
  EXPECT_EQ(InfoOf(Axis::kBx).kind, AxisKind::kGrid);
  EXPECT_EQ(InfoOf(Axis::kCbx).kind, AxisKind::kCluster);
  EXPECT_TRUE(IsThread(Axis::kTidInWg));
  EXPECT_TRUE(IsMemory(Axis::kTCol));
  EXPECT_EQ(InfoOf(Axis::kLaneid).outer, Scope::kWarp);
  EXPECT_EQ(InfoOf(Axis::kLaneid).inner, Scope::kThread);
  EXPECT_NE(Parse("S[8:1@tx]")->shard(), Parse("S[8:1@tid_in_wg]")->shard());
  const auto unknown = FindAxis("landid");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(unknown.status().message().find("laneid"), std::string::npos);
}

TEST(Axes, Registration) {
  const auto axis = RegisterAxis("unit_test_axis", AxisKind::kMemory);
  ASSERT_TRUE(axis.ok());
  EXPECT_EQ(*RegisterAxis("unit_test_axis", AxisKind::kMemory), *axis);
  EXPECT_EQ(Parse("S[4:3@unit_test_axis]")->Base(2)[*axis], 6);
  EXPECT_FALSE(RegisterAxis("unit_test_axis", AxisKind::kOther).ok());
  EXPECT_FALSE(RegisterAxis("not an axis", AxisKind::kMemory).ok());
  EXPECT_FALSE(RegisterAxis("more_threads", AxisKind::kThread).ok());
}

TEST(Axes, ScopeChains) {
  const auto ok = SpanOfScopes({Axis::kWarpid, Axis::kLaneid, Axis::kM});
  ASSERT_TRUE(ok.ok());
  EXPECT_EQ(*AxisOfScopes(*ok), Axis::kTx);
  EXPECT_EQ(SpanOfScopes({Axis::kM})->outer, Scope::kNone);
  EXPECT_NE(SpanOfScopes({Axis::kWgid, Axis::kLaneid}).status().message().find("missing"),
            std::string::npos);
  EXPECT_NE(SpanOfScopes({Axis::kTx, Axis::kLaneid}).status().message().find("twice"),
            std::string::npos);
  EXPECT_FALSE(SpanOfScopes({Axis::kTx, Axis::kWarpid}).ok());
}

TEST(Text, MistakesNameTheirColumn) {
  const std::pair<const char*, const char*> rows[] = {
      {"", "column 1"},
      {"S[", "integer"},
      {"S[(8,4):(1)]", "2 extents but 1 strides"},
      {"S[8:1@lane]", "unknown axis 'lane'"},
      {"S[8:1] + ", "integer"},
      {"S[8:1] S[8:1]", "the end"},
      {"S[8:1] + S[8:1]", "one S"},
      {"R[8:1]", "S[...]"},
      {"<3,3,2> o S[8:1]", "atom_len"},
      {"<3,3,3> o <1,1,1> o S[8:1]", "swizzle"},
      {"S[0:1]", "at least 1"},
      {"S[(1073741824,1073741824,8):(1,1,1)]", "2^60"},
      {"S[4:9223372036854775807]", "2^60"},
      {"S[99999999999999999999:1]", "integer"},
      {"ComposeLayout(SwizzleLayout(3,3,3), TileLayout(S[8:1])", "')'"},
  };
  for (const auto& [text, part] : rows) {
    const auto layout = Parse(text);
    ASSERT_FALSE(layout.ok()) << text;
    EXPECT_NE(layout.status().message().find(part), std::string::npos)
        << text << ": " << layout.status();
  }
  EXPECT_FALSE(Parse(std::string(70000, ' ')).ok());
}

TEST(Text, OtherSpellings) {
  EXPECT_EQ(MustParse("ComposeLayout(SwizzleLayout(per_element=3, swizzle_len=3, atom_len=3), "
                      "TileLayout(S[(8, 64) : (64@m, 1@m)]))"),
            MustParse("<3,3,3> o S[(8,64):(64,1)]"));
  EXPECT_EQ(MustParse("SwizzleLayout(3,3,3)"), MustParse("<3,3,3> o S[512:1]"));
  EXPECT_EQ(MustParse("SwizzleLayout(3,3,3,swizzle_inner=False)"), MustParse("<3,3,3,outer>"));
  const Layout two = MustParse("<1,1,1> o <2,1,1>@TCol o S[(8,8):(1,1@TCol)]");
  EXPECT_EQ(two.swizzles().size(), 2u);
  EXPECT_EQ(*Parse(two.ToString()), two);
  EXPECT_FALSE(Build(S({8, 2}, {1})).ok());
}

TEST(Witness, SurvivesContextAndDecodes) {
  const auto refused = Inverse::Of(MustParse("S[(4,4):(1@laneid,1@laneid)]"));
  ASSERT_FALSE(refused.ok());
  const auto witness = WitnessOf(WithContext(refused.status(), "while testing"));
  ASSERT_TRUE(witness.has_value());
  EXPECT_NE(witness->element, witness->other);
  const Layout l = MustParse("S[(4,4):(1@laneid,1@laneid)]");
  EXPECT_EQ(l.Base(witness->element), witness->at);
  EXPECT_EQ(l.Base(witness->other), witness->at);
  EXPECT_FALSE(WitnessOf(absl::InternalError("no")).has_value());
}

TEST(Limits, NothingStopsAtTwoToTheEighteen) {
  const Layout big = MustParse("S[(64,8192):(8192,1)]");  // 2^19
  EXPECT_TRUE(IsInjective(big));
  EXPECT_TRUE(Inverse::Of(big).ok());
  EXPECT_TRUE(Factor(*Table::Of(big)).ok());
  const Layout huge = MustParse("S[(1048576,1048576):(1048576,1@tx)]");
  EXPECT_TRUE(IsInjective(huge));
  const auto inverse = Inverse::Of(huge);
  ASSERT_TRUE(inverse.ok());
  EXPECT_EQ((*inverse)(huge.Base(123456789012))->first, 123456789012);
  EXPECT_EQ(Table::Of(huge).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(SameSet(huge, Canonical(huge)));
  const auto collision = FindCollision(MustParse("S[(1048576,1048576):(3,1)]"));
  ASSERT_TRUE(collision.has_value());
  EXPECT_NE(collision->element, collision->other);
}

TEST(Limits, HostileTextsEnd) {
  EXPECT_FALSE(Parse("S[1:1] + R[(1048576,2):(1,1)]").ok());
  std::string many = "S[(1";
  for (int i = 0; i < 100; ++i) many += ",1";
  EXPECT_FALSE(Parse(many + ")]").ok());
  // Subset sums with 50-bit strides: an answer or a stated limit, in bounded time and memory.
  std::string extents, strides;
  uint64_t seed = 88172645463325252;
  for (int i = 0; i < 44; ++i) {
    seed = seed * 6364136223846793005 + 1442695040888963407;
    extents += i == 0 ? "2" : ",2";
    strides += (i == 0 ? "" : ",") + std::to_string((seed >> 8) % (uint64_t{1} << 50));
  }
  const auto answer = SearchCollision(MustParse("S[(" + extents + "):(" + strides + ")]"));
  EXPECT_TRUE(answer.ok() || answer.status().code() == absl::StatusCode::kResourceExhausted)
      << answer.status();
}

TEST(Apply, RefusesWhatIsOutside) {
  const Layout l = MustParse("S[(8,8):(8,1)]");
  EXPECT_FALSE(l.Apply({1, 1, 1}).ok());
  EXPECT_FALSE(l.Apply({8, 0}).ok());
  EXPECT_FALSE(l.Apply({0, 0}, {8, 9}).ok());
  EXPECT_EQ((*l.Apply({63}, {64}))[0][Axis::kM], 63);
}

TEST(Issue, InjectiveFormsOfOneLoop) {
  EXPECT_TRUE(IsInjective(MustParse("S[128:1]")));
  EXPECT_TRUE(IsInjective(MustParse("S[128:2]")));
  EXPECT_TRUE(IsInjective(MustParse("S[128:1] + 10")));
  EXPECT_TRUE(IsInjective(MustParse("S[(64,2):(2,-1)] + 1")));  // i ^ 1
  EXPECT_FALSE(IsInjective(MustParse("S[(2,64):(0,1)]")));      // i mod 64
  EXPECT_FALSE(IsInjective(MustParse("S[128:0]")));
  EXPECT_FALSE(IsInjective(MustParse("S[(2,64):(0,4)]")));
}

TEST(Factor, TheFlatIndexIsMixedRadixWhereDimensionsAreNot) {
  // thread (640 i + j / 4) mod 256, slot ((640 i + j / 4) / 256) * 4 + j mod 4 over (2, 2560)
  std::vector<int64_t> slot, thread;
  for (int64_t f = 0; f < 5120; ++f) {
    thread.push_back(f / 4 % 256);
    slot.push_back(f / 4 / 256 * 4 + f % 4);
  }
  std::vector<int64_t> columns = slot;
  columns.insert(columns.end(), thread.begin(), thread.end());
  const auto layout = Factor(*Table::FromColumns(5120, 1, {Axis::kM, Axis::kTx}, columns));
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(*layout, MustParse("S[(5,256,4):(4,1@tx,1)]"));
  EXPECT_EQ(layout->Base(2559), Coord({{Axis::kTx, 127}, {Axis::kM, 11}}));
  EXPECT_EQ(layout->Base(2560), Coord({{Axis::kTx, 128}, {Axis::kM, 8}}));
  EXPECT_EQ(layout->Base(5119), Coord({{Axis::kTx, 255}, {Axis::kM, 19}}));
}

TEST(Factor, RecoversOneSwizzleAndRefusesDiagonals) {
  const Layout tile = MustParse("<3,3,3> o S[(64,4,64):(64,4096,1)]");
  EXPECT_EQ(*Factor(*Table::Of(tile)), tile);
  const auto diagonal =
      Factor(*Table::FromColumns(4, 1, {Axis::kM, Axis::kLaneid}, {0, 1, 2, 3, 0, 2, 4, 6}));
  ASSERT_FALSE(diagonal.ok());
  EXPECT_TRUE(WitnessOf(diagonal.status()).has_value());
  const auto product = Factor(*Table::FromColumns(
      16, 1, {Axis::kM}, {0, 0, 0, 0, 0, 1, 2, 3, 0, 2, 4, 6, 0, 3, 6, 9}));  // i * j
  EXPECT_FALSE(product.ok());
}

// Rows of 64 whose columns are shifted by XOR with the row, some of its bits, or some times it.
TEST(Factor, ReadsRowsThatAreShiftedByAnyPowerOfTwo) {
  for (int64_t every = 1; every <= 4; every *= 2) {
    for (int64_t rows = 2; rows <= 64; rows *= 2) {
      for (int64_t times = 1; times * rows <= 64; times *= 2) {
        std::vector<int64_t> values;
        for (int64_t i = 0; i < 256; ++i) {
          for (int64_t j = 0; j < 64; ++j) {
            values.push_back(i * 64 + (j ^ (i / every % rows * times)));
          }
        }
        const auto layout = Factor(*Table::FromColumns(256 * 64, 1, {Axis::kM}, values));
        ASSERT_TRUE(layout.ok()) << every << " " << rows << " " << times << layout.status();
        EXPECT_EQ(layout->shard().size(), 1u);
        for (int64_t x = 0; x < 256 * 64; ++x) ASSERT_EQ(layout->Base(x)[Axis::kM], values[x]);
      }
    }
  }
}

TEST(VectorWidth, KnownWidths) {
  const Layout owner = *PlannedLoop(512, 8, 8);
  const auto width = [&](const char* memory) {
    return *VectorWidth(owner, MustParse(memory), 8, 8);
  };
  EXPECT_EQ(width("S[512:1]"), 8);
  EXPECT_EQ(width("<3,3,3> o S[512:1]"), 8);
  EXPECT_EQ(width("<2,3,3> o S[512:1]"), 4);
  EXPECT_EQ(width("<1,3,3> o S[512:1]"), 2);
  EXPECT_EQ(width("S[512:64]"), 1);
  EXPECT_EQ(width("S[(16,32):(36,1)]"), 4);
  EXPECT_EQ(width("S[512:1] + 4"), 4);
  EXPECT_EQ(ContiguousWidth(MustParse("S[(16,32):(36,1)]"), 8, 8), 4);
  EXPECT_EQ(ContiguousWidth(MustParse("<2,3,3> o S[512:1]"), 8, 16), 4);
}

TEST(Move, RefusesWhatIsNoRegisterLayout) {
  EXPECT_FALSE(PlanMove(MustParse("S[8:1@TCol]"), MustParse("S[8:1]"), 32, 8).ok());
  EXPECT_FALSE(PlanMove(MustParse("S[8:1@laneid]"), MustParse("S[4:1]"), 32, 4).ok());
  const auto collision = PlanMove(MustParse("S[8:0@laneid]"), MustParse("S[8:1]"), 32, 8);
  EXPECT_TRUE(WitnessOf(collision.status()).has_value());
  const auto rename =
      PlanMove(MustParse("S[(8,4):(1@laneid,1)]"), MustParse("S[(8,2,2):(1@laneid,1,2)]"), 32, 4);
  EXPECT_EQ(rename->kind, MovePlan::Kind::kRegisters);
  EXPECT_EQ(rename->local.size(), 16u);
}

TEST(Compose, SymbolicPastAnyTable) {
  const Layout outer = MustParse("S[(1048576,1048576):(1@tx,1)]");
  const auto column = Compose(outer, MustParse("S[1048576:1048576]"));
  ASSERT_TRUE(column.ok()) << column.status();
  EXPECT_EQ(Canonical(*column), MustParse("S[1048576:1@tx]"));
}

TEST(Compare, OwnersAlone) {
  const Layout loop = MustParse("S[(4,16):(16@tx,1@tx)]");
  const Layout fragment = MustParse("S[(4,16):(16@tx,1@tx)] + R[2:64@tx] + 3");
  const std::vector<Axis> threads = {Axis::kTx};
  EXPECT_EQ(*Compare(loop, fragment, threads), Relation::kSubset);
  EXPECT_EQ(*Compare(fragment, loop, threads), Relation::kSuperset);
  EXPECT_EQ(*Compare(loop, *Shift(loop, {{Axis::kTx, 64}}), threads), Relation::kDisjoint);
  EXPECT_EQ(*Compare(loop, MustParse("S[(4,16):(4,1@tx)]"), threads), Relation::kOverlap);
}

}  // namespace
}  // namespace kiln::layout

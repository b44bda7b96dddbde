#include "compiler/ir/analysis.h"

#include <gtest/gtest.h>

#include "compiler/ir/buffer.h"
#include "compiler/ir/evaluate.h"
#include "compiler/ir/printer.h"

namespace kiln::ir {
namespace {

class FactsTest : public ::testing::Test {
 protected:
  FactsTest() {
    facts.SetBounds(x, {0, 15});
    facts.SetBounds(y, {0, 7});
    facts.SetBounds(z, {-5, 9});
  }
  std::string Simple(const Expr& e) { return ToString(facts.Simplify(e)); }
  void ExpectBounds(const Expr& e, int64_t min, int64_t max) {
    const auto b = facts.BoundsOf(e);
    ASSERT_TRUE(b.has_value()) << ToString(e);
    EXPECT_EQ(b->min, min) << ToString(e);
    EXPECT_EQ(b->max, max) << ToString(e);
  }

  Expr x = MakeVar("x"), y = MakeVar("y"), z = MakeVar("z"), n = MakeVar("n");
  Facts facts;
};

// What is assumed of an atom does not help to find that atom's own bounds: no end would come.
TEST_F(FactsTest, AssumptionsMaySpeakOfTheAtomThatIsAskedFor) {
  const Expr m = MakeVar("m");
  const Expr condition = m > Expr(3);
  const Expr chosen = MakeSelect(condition, Expr(3), Expr(0));
  facts.SetBounds(m, {1, 1000});
  facts.Assume(m - chosen > Expr(0));
  facts.Assume(MakeCast(kInt32, condition) + y >= m - Expr(9));
  EXPECT_FALSE(facts.Proves(condition));
  EXPECT_FALSE(facts.Refutes(condition));
  EXPECT_TRUE(facts.Proves(chosen < m));
  EXPECT_TRUE(facts.Proves(m <= Expr(17)));
  ExpectBounds(chosen, 0, 3);
  ExpectBounds(MakeCast(kInt32, condition), 0, 1);
}

TEST_F(FactsTest, LinearBoundsAreTight) {
  ExpectBounds(x * Expr(8) + y, 0, 127);
  ExpectBounds(x * Expr(8) + y - x * Expr(7), 0, 22);
  ExpectBounds(x - x + y, 0, 7);
  ExpectBounds(Expr(3) - z * Expr(2), -15, 13);
  ExpectBounds(MakeCast(kInt64, x * Expr(8)) + MakeCast(kInt64, y), 0, 127);
  EXPECT_FALSE(facts.BoundsOf(x + n).has_value());
  ExpectBounds((x + n) - n, 0, 15);
}

TEST_F(FactsTest, VectorsOfUnknownLanesProveNothing) {
  const Expr lanes = MakeRamp(x, Expr(1), 8);
  const Expr unknown = MakeVar("v", kInt32.with_lanes(8));
  const Expr flag = MakeVar("flag", kBool.with_lanes(8));
  for (const Expr& e : {lanes + unknown, unknown + lanes, MakeSelect(flag, lanes, unknown)}) {
    EXPECT_FALSE(facts.BoundsOf(e).has_value()) << ToString(e);
    EXPECT_FALSE(facts.Proves(e < MakeBroadcast(Expr(100), 8))) << ToString(e);
    EXPECT_FALSE(facts.Refutes(e < MakeBroadcast(Expr(100), 8))) << ToString(e);
  }
  EXPECT_FALSE(facts.Proves(flag && lanes < MakeBroadcast(Expr(100), 8)));
  const Expr wide = MakeCast(kInt64.with_lanes(8), lanes * lanes);
  EXPECT_TRUE(facts.Proves(wide < MakeBroadcast(MakeInt(485, kInt64), 8)));
}

TEST_F(FactsTest, NonLinearBounds) {
  ExpectBounds(FloorDiv(z, Expr(4)), -2, 2);
  ExpectBounds(FloorMod(z, Expr(4)), 0, 3);
  ExpectBounds(FloorMod(y + Expr(16), Expr(8)), 0, 7);
  ExpectBounds(FloorMod(n, Expr(8)), 0, 7);
  ExpectBounds(x * y, 0, 105);
  ExpectBounds(z * z, -45, 81);
  ExpectBounds(Max(z, Expr(0)), 0, 9);
  ExpectBounds(MakeSelect(n < Expr(3), x, z), -5, 15);
  ExpectBounds(x - FloorDiv(x, Expr(4)) * Expr(4), 0, 3);
  ExpectBounds(FloorDiv(n + Expr(7), Expr(8)) * Expr(8) - n, 0, 7);
  ExpectBounds(MakeCast(kInt32, MakeVar("c", kUInt8)), 0, 255);
  ExpectBounds(MakeRamp(x, Expr(2), 4), 0, 21);
}

TEST_F(FactsTest, BoundsFollowWhatBecomesKnown) {
  const Expr e = x * y;
  ExpectBounds(e, 0, 105);
  facts.SetBounds(x, {0, 3});
  ExpectBounds(e, 0, 21);
  Facts inner = facts;
  inner.SetBounds(y, {2, 2});
  EXPECT_EQ(inner.BoundsOf(e)->max, 6);
  ExpectBounds(e, 0, 21);
  facts.AddAxis({y, Expr(0), Expr(2)});
  ExpectBounds(e, 0, 3);
}

TEST_F(FactsTest, SimplerFormsFollowWhatBecomesKnown) {
  const Expr t = MakeVar("t"), e = FloorDiv(t, Expr(8)) + FloorMod(x, Expr(4)) * Expr(2);
  EXPECT_TRUE(Same(facts.Simplify(e), e));
  facts.SetBounds(t, {0, 7});
  EXPECT_TRUE(Same(facts.Simplify(e), FloorMod(x, Expr(4)) * Expr(2)));
  Facts inner = facts;
  EXPECT_EQ(inner.changes(), facts.changes());
  inner.SetBounds(x, {0, 3});
  EXPECT_NE(inner.changes(), facts.changes());
  EXPECT_TRUE(Same(inner.Simplify(e), x * Expr(2)));
  inner = facts;
  EXPECT_EQ(inner.changes(), facts.changes());
  EXPECT_TRUE(Same(inner.Simplify(e), FloorMod(x, Expr(4)) * Expr(2)));
}

// What is a multiple of what a swizzle moves by leaves it.
TEST_F(FactsTest, MultiplesLeaveASwizzle) {
  const auto swizzled = [](const Expr& at, const Expr& by) {
    return MakeBinary(BinaryOp::kBitXor, at, by);
  };
  const Expr moved = FloorMod(FloorDiv(x, Expr(2)), Expr(4));
  EXPECT_EQ(Simple(swizzled(z * Expr(128) + x + Expr(260), moved)),
            "(x ^ x // 2 % 4) + z * 128 + 260");
  EXPECT_EQ(Simple(swizzled(x + Expr(6), moved)), "(x + 2 ^ x // 2 % 4) + 4");
  EXPECT_EQ(Simple(swizzled(x, moved)), "x ^ x // 2 % 4");
  EXPECT_EQ(Simple(swizzled(n * Expr(8), z)), "n * 8 ^ z") << "z may be negative";
  EXPECT_EQ(Simple(swizzled(x - Expr(8), y)), "(x ^ y) + -8");
  EXPECT_EQ(Simple(swizzled(n * Expr(8), y)), "n * 8 ^ y") << "n * 8 may be the last number";
  EXPECT_EQ(Simple(swizzled(x * Expr(8) - y, y)), "x * 8 - y ^ y") << "the rest is negative";
}

// 2^60 terms, written out.
TEST_F(FactsTest, WhatIsUsedTwiceIsLookedAtOnce) {
  Expr e = x;
  for (int i = 0; i < 60; ++i) {
    e = MakeBinary(BinaryOp::kFloorMod, e * Expr(3) + MakeBinary(BinaryOp::kFloorDiv, e, Expr(2)),
                   Expr(509));
  }
  ExpectBounds(e, 0, 508);
  EXPECT_FALSE(Uses(e, y));
  EXPECT_TRUE(Uses(e, x));
  const absl::StatusOr<IntFunction> function = IntFunction::Of(e, {x});
  ASSERT_TRUE(function.ok()) << function.status();
  for (int64_t start = 0; start < 16; ++start) {
    int64_t expected = start;
    for (int i = 0; i < 60; ++i) expected = (expected * 3 + expected / 2) % 509;
    EXPECT_EQ((*function)({start}), expected) << start;
  }
}

TEST_F(FactsTest, Proofs) {
  EXPECT_TRUE(facts.Proves(x * Expr(8) + y < Expr(128)));
  EXPECT_FALSE(facts.Proves(x * Expr(8) + y < Expr(127)));
  EXPECT_TRUE(facts.Refutes(x > Expr(15)));
  EXPECT_TRUE(facts.Proves((x < Expr(16)) && (y >= Expr(0))));
  EXPECT_TRUE(facts.Proves((x < Expr(1)) || (y <= Expr(7))));
  EXPECT_TRUE(facts.Proves(n + x < n + Expr(16)));
  EXPECT_FALSE(facts.Proves(x < n));
  EXPECT_TRUE(facts.Refutes(Equal(x * Expr(2), z * Expr(4) + Expr(1)))) << "even is not odd";
  EXPECT_TRUE(facts.Proves(MakeRamp(x * Expr(8), Expr(1), 8) < Expr(128)));
  EXPECT_FALSE(facts.Proves(MakeRamp(x * Expr(8) + Expr(1), Expr(1), 8) < Expr(128)));
  EXPECT_FALSE(facts.Proves(MakeVar("f", kFloat32) <= MakeVar("f", kFloat32)));
}

TEST_F(FactsTest, SymbolicAxes) {
  const Expr b = MakeVar("b"), i = MakeVar("i");
  facts.AddAxis({b, Expr(0), CeilDiv(n, Expr(128))});
  facts.AddAxis({i, Expr(0), Min(Expr(128), n - b * Expr(128))});
  EXPECT_TRUE(facts.Proves(b * Expr(128) < n));
  EXPECT_TRUE(facts.Proves(b * Expr(128) + i < n));
  EXPECT_TRUE(facts.Proves(i < Expr(128)));
  EXPECT_TRUE(facts.Proves(i >= Expr(0)));
  EXPECT_FALSE(facts.Proves(b * Expr(128) + i < n - Expr(1)));
  EXPECT_FALSE(facts.Proves(b * Expr(128) + Expr(127) < n));
}

TEST_F(FactsTest, BoundValues) {
  const Expr t = MakeVar("t");
  facts.SetValue(t, x * Expr(8) + y);
  ExpectBounds(t, 0, 127);
  EXPECT_TRUE(facts.Proves(t < Expr(128)));
  EXPECT_EQ(Simple(FloorDiv(t, Expr(8))), "x");
  EXPECT_EQ(Simple(FloorMod(t, Expr(8))), "y");
  EXPECT_EQ(Simple(t), "t");
}

TEST_F(FactsTest, LoadedValuesMayChange) {
  const Buffer counter = MakeBuffer("counter", kInt32, {Expr(1)}, Scope::kVar);
  const Buffer bytes = MakeBuffer("bytes", kUInt8, {Expr(1)}, Scope::kShared);
  const Expr t = MakeVar("t"), u = MakeVar("u");
  facts.SetValue(t, MakeLoad(counter, {Expr(0)}));
  EXPECT_FALSE(facts.Proves(Equal(t, MakeLoad(counter, {Expr(0)}))))
      << "a store may come between the binding and here";
  facts.SetValue(u, MakeCast(kInt32, MakeLoad(bytes, {Expr(0)})) + Expr(1));
  ExpectBounds(u, 1, 256);
}

TEST_F(FactsTest, Divisibility) {
  EXPECT_TRUE(facts.Divides(8, x * Expr(8) + n * Expr(16)));
  EXPECT_FALSE(facts.Divides(8, x * Expr(8) + Expr(4)));
  EXPECT_TRUE(facts.Divides(4, x * Expr(8) + Expr(4)));
  EXPECT_TRUE(facts.Divides(6, (x * Expr(2)) * (n * Expr(3))));
  EXPECT_TRUE(facts.Divides(4, Min(x * Expr(8), n * Expr(12))));
  EXPECT_TRUE(facts.Divides(7, x - x));
}

TEST_F(FactsTest, SimplifiesDivisionsOfLinearForms) {
  EXPECT_EQ(Simple(FloorDiv(x * Expr(8) + y, Expr(8))), "x");
  EXPECT_EQ(Simple(FloorMod(x * Expr(8) + y, Expr(8))), "y");
  EXPECT_EQ(Simple(FloorDiv(x * Expr(8) + z, Expr(8))), "x + z // 8");
  EXPECT_EQ(Simple(FloorMod(n * Expr(64) + x * Expr(8), Expr(64))), "x % 8 * 8");
  EXPECT_EQ(Simple(FloorDiv(FloorDiv(n, Expr(4)), Expr(8))), "n // 32");
  EXPECT_EQ(Simple(FloorMod(FloorMod(n, Expr(32)), Expr(8))), "n % 8");
  EXPECT_EQ(Simple(FloorDiv(n * Expr(16) + Expr(8), Expr(32))), "n // 2");
  EXPECT_EQ(Simple(FloorDiv(n, Expr(8)) * Expr(8) + FloorMod(n, Expr(8))), "n");
  EXPECT_EQ(Simple(FloorDiv(y - Expr(8), Expr(8))), "-1");
}

TEST_F(FactsTest, SimplifiesTheRest) {
  EXPECT_EQ(Simple(Min(x, Expr(100))), "x");
  EXPECT_EQ(Simple(Max(x + n, n - Expr(1))), "x + n");
  EXPECT_EQ(Simple(MakeSelect(x < Expr(16), y, z)), "y");
  EXPECT_EQ(Simple((x < Expr(16)) && (z < n)), "z < n");
  EXPECT_EQ(Simple(x + y - x), "y");
  EXPECT_EQ(Simple(x + n < y + n), "x < y");
  const Expr unchanged = n * z + Min(n, x);
  EXPECT_TRUE(facts.Simplify(unchanged).same_as(unchanged));
}

TEST_F(FactsTest, UnsignedArithmeticMayWrap) {
  const Expr u = MakeVar("u", kUInt32), w = MakeVar("w", kUInt32);
  facts.SetBounds(u, {0, 3});
  facts.SetBounds(w, {0, 3});
  EXPECT_FALSE(facts.Proves(u - w < MakeInt(4, kUInt32)));
  EXPECT_TRUE(facts.Proves(u + w < MakeInt(7, kUInt32)));
}

// Each expression uses the last one twice: 2^60 nodes, if it were written out.
TEST_F(FactsTest, DivisorsOfSharedExpressions) {
  Expr e = x;
  for (int i = 0; i < 60; ++i) e = FloorMod(e * Expr(3), Expr(7)) + FloorDiv(e, Expr(2));
  EXPECT_TRUE(facts.Divides(128, FloorMod(e, Expr(8)) * Expr(128)));
  EXPECT_FALSE(facts.Divides(256, FloorMod(e, Expr(8)) * Expr(128)));
}

TEST(IntFunctionTest, LooksThingsUpInConstantTables) {
  const Expr x = MakeVar("x"), y = MakeVar("y");
  BufferNode node = *MakeBuffer("table", kInt32, {Expr(2), Expr(3)}, Scope::kConstant);
  const Buffer unknown = MakeBuffer("memory", kInt32, {Expr(2), Expr(3)}, Scope::kShared);
  node.values =
      std::make_shared<const std::vector<int64_t>>(std::vector<int64_t>{5, 3, 1, 2, 8, 9});
  const Buffer table = std::make_shared<const BufferNode>(node);
  const auto entry = IntFunction::Of(MakeLoad(table, {y, x + Expr(1)}) + x, {x, y});
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ((*entry)({1, 0}), 1 + 1);
  EXPECT_EQ((*entry)({0, 1}), 8 + 0);
  EXPECT_EQ((*entry)({1, 1}), 9 + 1);
  EXPECT_EQ((*entry)({2, 1}), std::nullopt);
  EXPECT_EQ((*entry)({2, 0}), std::nullopt);  // not the next row's
  EXPECT_EQ((*entry)({0, 2}), std::nullopt);
  EXPECT_EQ((*entry)({-2, 0}), std::nullopt);
  EXPECT_EQ(entry->Over({0, 0}, {2, 2}), (std::vector<int64_t>{3, 8, 2, 10}));
  EXPECT_EQ(entry->Over({0, 0}, {3, 2}), std::nullopt);
  EXPECT_FALSE(IntFunction::Of(MakeLoad(unknown, {y, x}), {x, y}).ok());
  EXPECT_FALSE(IntFunction::Of(MakeLoad(table, {y, x}, x < y), {x, y}).ok());
}

TEST(LinearTest, RoundTrip) {
  const Expr x = MakeVar("x"), y = MakeVar("y");
  const LinearForm form = Linearize((x + y * Expr(3)) * Expr(2) - x - Expr(5));
  EXPECT_EQ(form.constant, -5);
  EXPECT_EQ(form.CoefficientOf(x), 1);
  EXPECT_EQ(form.CoefficientOf(y), 6);
  EXPECT_EQ(ToString(FromLinear(form)), "x + y * 6 - 5");
  EXPECT_TRUE(Linearize(x - x).terms.empty());
}

}  // namespace
}  // namespace kiln::ir

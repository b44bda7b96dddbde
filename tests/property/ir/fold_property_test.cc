// Law: what a factory or Simplify makes of an expression has the value of what was written.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "compiler/ir/analysis.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/scalar.h"
#include "tests/property/ir/random_expr.h"

namespace kiln::ir::testing {
namespace {

constexpr int kTrees = 20000;
constexpr int kAssignments = 20;

Assignment Assign(const std::vector<Expr>& vars, const std::vector<int64_t>& values) {
  Assignment result;
  for (size_t i = 0; i < vars.size(); ++i) result[vars[i].get()] = values[i];
  return result;
}

TEST(FoldProperty, FactoriesKeepTheValue) {
  const std::vector<Expr> vars = {MakeVar("x"), MakeVar("y"), MakeVar("z")};
  Generator g(1, vars);
  int64_t compared = 0;
  for (int t = 0; t < kTrees; ++t) {
    const Pair pair = t % 3 ? g.Integer(4) : g.Condition(4);
    for (int a = 0; a < kAssignments; ++a) {
      const std::vector<int64_t> values = {g.Uniform(-20, 20), g.Uniform(-3, 40), g.Uniform(0, 9)};
      const auto expected = Evaluate(*pair.written, values);
      if (!expected) continue;
      ASSERT_EQ(Evaluate(pair.expr, Assign(vars, values)), expected)
          << ToString(pair.expr) << " x=" << values[0] << " y=" << values[1] << " z=" << values[2];
      ++compared;
    }
  }
  EXPECT_GT(compared, kTrees * kAssignments / 3) << "the generator makes mostly useless trees";
}

TEST(FoldProperty, SimplifyKeepsTheValue) {
  const std::vector<Expr> vars = {MakeVar("x"), MakeVar("y"), MakeVar("z"), MakeVar("n")};
  Generator g(2, vars);
  int64_t compared = 0, changed = 0;
  for (int t = 0; t < kTrees; ++t) {
    const Pair pair = t % 3 ? g.Integer(4) : g.Condition(4);
    Facts facts;
    std::vector<Bounds> bounds;
    for (int v = 0; v < 3; ++v) {
      const int64_t low = g.Uniform(-8, 8);
      bounds.push_back({low, low + g.Uniform(0, 16)});
      facts.SetBounds(vars[v], bounds[v]);
    }
    bounds.push_back({-30, 30});  // nothing is said of n
    const Expr simple = facts.Simplify(pair.expr);
    changed += !simple.same_as(pair.expr);
    if (Same(simple, pair.expr)) {
      ASSERT_TRUE(simple.same_as(pair.expr)) << "an unchanged expression is the same object";
    }
    for (int a = 0; a < kAssignments; ++a) {
      std::vector<int64_t> values;
      for (const Bounds& b : bounds) values.push_back(g.Uniform(b.min, b.max));
      const auto expected = Evaluate(*pair.written, values);
      if (!expected) continue;
      ASSERT_EQ(Evaluate(simple, Assign(vars, values)), expected)
          << ToString(pair.expr) << " became " << ToString(simple);
      ++compared;
    }
  }
  EXPECT_GT(compared, kTrees * kAssignments / 3);
  EXPECT_GT(changed, kTrees / 10) << "Simplify does nothing";
}

template <typename T>
void CheckIntegerFolding(DType type, uint64_t seed) {
  std::mt19937_64 rng(seed);
  using Wide = __int128;
  const auto pick = [&]() -> T {
    static const T kEdges[] = {
        0, 1, static_cast<T>(-1), std::numeric_limits<T>::min(), std::numeric_limits<T>::max(),
        2, 7};
    return rng() % 2 ? static_cast<T>(rng()) : kEdges[rng() % std::size(kEdges)];
  };
  for (int i = 0; i < 20000; ++i) {
    const T a = pick(), b = pick();
    const auto fold = [&](BinaryOp op) {
      return ConstInt(MakeBinary(op, MakeInt(static_cast<int64_t>(a), type),
                                 MakeInt(static_cast<int64_t>(b), type)));
    };
    const auto wrapped = [](Wide v) { return static_cast<int64_t>(static_cast<T>(v)); };
    ASSERT_EQ(fold(BinaryOp::kAdd), wrapped(Wide{a} + Wide{b}));
    ASSERT_EQ(fold(BinaryOp::kSub), wrapped(Wide{a} - Wide{b}));
    // A product of two 64-bit numbers without sign may need all 128 bits.
    ASSERT_EQ(fold(BinaryOp::kMul), wrapped(static_cast<Wide>(static_cast<unsigned __int128>(a) *
                                                              static_cast<unsigned __int128>(b))));
    ASSERT_EQ(fold(BinaryOp::kLt), int64_t{a < b});
    ASSERT_EQ(fold(BinaryOp::kGe), int64_t{a >= b});
    ASSERT_EQ(fold(BinaryOp::kMin), static_cast<int64_t>(std::min(a, b)));
    ASSERT_EQ(fold(BinaryOp::kBitXor), wrapped(Wide{a} ^ Wide{b}));
    if (b == 0) continue;
    Wide q = Wide{a} / Wide{b};
    if (Wide{a} % Wide{b} != 0 && (a < 0) != (b < 0)) --q;
    ASSERT_EQ(fold(BinaryOp::kFloorDiv), wrapped(q)) << +a << " // " << +b;
    ASSERT_EQ(fold(BinaryOp::kFloorMod), wrapped(Wide{a} - q * Wide{b})) << +a << " % " << +b;
  }
}

TEST(FoldProperty, EveryIntegerTypeWrapsAsInC) {
  CheckIntegerFolding<int8_t>(kInt8, 1);
  CheckIntegerFolding<uint8_t>(kUInt8, 2);
  CheckIntegerFolding<int16_t>({TypeCode::kInt, 16}, 3);
  CheckIntegerFolding<int32_t>(kInt32, 4);
  CheckIntegerFolding<uint32_t>(kUInt32, 5);
  CheckIntegerFolding<int64_t>(kInt64, 6);
  CheckIntegerFolding<uint64_t>({TypeCode::kUInt, 64}, 7);
}

TEST(FoldProperty, Float32FoldsAsTheHardware) {
  std::mt19937_64 rng(9);
  for (int i = 0; i < 200000; ++i) {
    float a, b;
    const auto ra = static_cast<uint32_t>(rng()), rb = static_cast<uint32_t>(rng());
    std::memcpy(&a, &ra, 4);
    std::memcpy(&b, &rb, 4);
    const auto check = [&](BinaryOp op, float expected) {
      const Expr folded = MakeBinary(op, MakeFloat(a), MakeFloat(b));
      ASSERT_TRUE(ConstFloat(folded).has_value());
      const double got = *ConstFloat(folded);
      ASSERT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected)))
          << a << " " << Name(op) << " " << b << ": " << got << " " << expected;
    };
    check(BinaryOp::kAdd, a + b);
    check(BinaryOp::kSub, a - b);
    check(BinaryOp::kMul, a * b);
    check(BinaryOp::kDiv, a / b);
  }
}

}  // namespace
}  // namespace kiln::ir::testing

// Law: where no step of an index expression leaves its type, no step of what Simplify makes of it
// does, and the value is the same: at the ends of int32 too.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "compiler/ir/analysis.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/scalar.h"

namespace kiln::ir {
namespace {

using Values = std::vector<int64_t>;

class RangeEnds : public testing::Test {
 protected:
  int64_t Uniform(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng_);
  }
  template <size_t n>
  int64_t OneOf(const int64_t (&choices)[n]) {
    return choices[Uniform(0, n - 1)];
  }

  // A variable, or its quotient or remainder, times a constant.
  Expr Term() {
    Expr e = vars_[static_cast<size_t>(Uniform(0, 2))];
    const int64_t kind = Uniform(0, 5), divisor = OneOf({2, 3, 4, 6, 8, 16});
    if (kind == 0) e = FloorDiv(e, Expr(divisor));
    if (kind == 1) e = FloorMod(e, Expr(divisor));
    return e * Expr(OneOf({1, 1, 1, 1, -1, 2, 3, 4, 5, 6, 8, 12}));
  }
  Expr Sum() {
    Expr e = Term();
    for (int64_t more = Uniform(0, 2); more > 0; --more) e = e + Term();
    const int64_t offset = OneOf({0, 1, 2, 3, 5, 7, 8, 17, 100, INT32_MAX});
    return Uniform(0, 1) ? e + Expr(offset) : e - Expr(offset);
  }
  Facts Draw() {
    Facts facts;
    bounds_.clear();
    for (const Expr& v : vars_) {
      const int64_t low = OneOf({INT32_MIN, INT32_MAX - 20, -10, 0, 0});
      const bool known = Uniform(0, 1) != 0;
      bounds_.push_back(known ? Bounds{low, low + Uniform(0, 20)} : Bounds{INT32_MIN, INT32_MAX});
      if (known) facts.SetBounds(v, bounds_.back());
    }
    return facts;
  }
  // A value of the variable, more often than not at an end.
  int64_t Value(const Bounds& b) {
    const int64_t step = std::min<int64_t>(Uniform(0, 20), b.max - b.min);
    const int64_t kind = Uniform(0, 4);
    if (kind < 2) return kind == 0 ? b.min + step : b.max - step;
    if (kind == 2) return std::clamp<int64_t>(step - 10, b.min, b.max);
    if (kind == 3) return std::clamp(b.max / (step + 2), b.min, b.max);
    return Uniform(b.min, b.max);
  }

  // nullopt where a step has no value, or one that int32 has not.
  std::optional<int64_t> Exact(const Expr& e, const Values& values) {
    if (const auto* c = e.As<IntImm>()) return c->value;
    for (size_t i = 0; i < vars_.size(); ++i) {
      if (Same(e, vars_[i])) return values[i];
    }
    const auto* x = e.As<Binary>();
    if (x == nullptr) return std::nullopt;
    const auto a = Exact(x->a, values), b = Exact(x->b, values);
    const auto result = a && b ? EvalInt(x->op, *a, *b, kInt64) : std::nullopt;
    return result && *result == WrapInt(*result, kInt32) ? result : std::nullopt;
  }

  void Check(const Facts& facts, const Expr& e) {
    const Expr simple = facts.Simplify(e);
    if (simple.same_as(e)) return;
    ++changed_;
    for (int i = 0; i < 40; ++i) {
      Values values;
      for (const Bounds& b : bounds_) values.push_back(Value(b));
      const std::optional<int64_t> expected = Exact(e, values);
      if (!expected) continue;
      ++compared_;
      ASSERT_EQ(Exact(simple, values), expected)
          << ToString(e) << " became " << ToString(simple) << " at x=" << values[0]
          << " y=" << values[1] << " z=" << values[2];
    }
  }

  std::vector<Expr> vars_ = {MakeVar("x"), MakeVar("y"), MakeVar("z")};
  std::vector<Bounds> bounds_;
  std::mt19937_64 rng_{1};
  int changed_ = 0, compared_ = 0;
};

TEST_F(RangeEnds, WhatIsOutOfRangeStaysAsItWas) {
  const auto simple = [](const Expr& e, const Facts& facts = {}) {
    return ToString(facts.Simplify(e));
  };
  const Expr x = vars_[0], y = vars_[1];
  // x may be the last int32; x - 1 is not.
  EXPECT_EQ(simple(FloorDiv(x - Expr(1), Expr(4))), "(x - 1) // 4");
  EXPECT_EQ(simple(FloorMod(x - Expr(1), Expr(3))), "(x - 1) % 3");
  EXPECT_EQ(simple(x - Expr(8) < y + Expr(8)), "x - 8 < y + 8");
  // Nearer to zero it stays in range, and so it does where x is known to be small.
  EXPECT_EQ(simple(FloorDiv(x - Expr(9), Expr(4))), "(x - 1) // 4 + -2");
  EXPECT_EQ(simple(FloorMod(x - Expr(9), Expr(4))), "(x - 1) % 4");
  Facts small;
  small.SetBounds(x, {0, 100});
  small.SetBounds(y, {0, 100});
  EXPECT_EQ(simple(FloorDiv(x - Expr(1), Expr(4)), small), "(x + 3) // 4 + -1");
  EXPECT_EQ(simple(FloorMod(x - Expr(1), Expr(3)), small), "(x + 2) % 3");
  EXPECT_EQ(simple(x - Expr(8) < y + Expr(8), small), "x < y + 16");
}

TEST_F(RangeEnds, ProductsAreKnownOnlyWhereTheyAreComputed) {
  const Expr x = vars_[0], y = vars_[1];
  Facts natural;
  for (const Expr& v : {x, y}) natural.SetBounds(v, {0, INT32_MAX});
  const Expr twice = x * Expr(500) - y + x * Expr(500);
  const auto simple = [&](const Expr& e) { return ToString(natural.Simplify(e)); };
  EXPECT_EQ(simple(twice), "x * 500 - y + x * 500");
  EXPECT_EQ(simple(twice + (x * Expr(1000) - FloorMod(x * Expr(1000), Expr(7))) - x * Expr(1000)),
            "x * 1000 - y - x * 1000 % 7");
  // Of int64, and where it may not be evaluated.
  const Expr wide = MakeCast(kInt64, x) * MakeInt(3000, kInt64) > MakeInt(7, kInt64);
  const Expr late = (y < Expr(3)) && (x * Expr(1000) > y);
  for (const Expr& other : {wide, late}) {
    const std::string same = simple(twice - MakeCast(kInt32, other));
    EXPECT_EQ(same.rfind("x * 500 - y + x * 500 - int32(", 0), 0u) << same;
  }
  // Constants that their product does not fit.
  EXPECT_EQ(ToString(x * Expr(65536) * Expr(32768)), "x * 65536 * 32768");
  EXPECT_EQ(ToString(x - Expr(INT32_MIN) + Expr(5)), "x - -2147483648 + 5");
}

TEST_F(RangeEnds, Sums) {
  for (int t = 0; t < 20000; ++t) {
    const Facts facts = Draw();
    const Expr a = Sum(), b = Sum();
    Check(facts, Uniform(0, 1) ? a + b : a - b);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(changed_, 2000);
  EXPECT_GT(compared_, 20000);
}

TEST_F(RangeEnds, QuotientsAndRemainders) {
  for (int t = 0; t < 20000; ++t) {
    const Facts facts = Draw();
    const Expr divisor(OneOf({2, 3, 4, 5, 6, 7, 8, 12, 16, 32}));
    const Expr sum = Sum();
    Check(facts, Uniform(0, 1) ? FloorDiv(sum, divisor) : FloorMod(sum, divisor));
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(changed_, 2000);
  EXPECT_GT(compared_, 20000);
}

TEST_F(RangeEnds, Comparisons) {
  for (int t = 0; t < 20000; ++t) {
    const Facts facts = Draw();
    const Expr a = Sum(), b = Uniform(0, 1) ? Sum() : Expr(Uniform(-20, 20));
    Check(facts, Uniform(0, 1) ? a < b : a >= b);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(changed_, 2000);
  EXPECT_GT(compared_, 20000);
}

}  // namespace
}  // namespace kiln::ir

// Laws of Facts: bounds contain every value, a proof has no counterexample, linear bounds are
// tight.
#include <gtest/gtest.h>

#include <numeric>

#include "compiler/ir/analysis.h"
#include "compiler/ir/evaluate.h"
#include "compiler/ir/printer.h"
#include "tests/property/ir/random_expr.h"

namespace kiln::ir::testing {
namespace {

// Calls f with every assignment of x in bounds[0], y in bounds[1], z in bounds[2].
template <typename F>
void ForAll(const std::vector<Expr>& vars, const std::vector<Bounds>& bounds, const F& f) {
  Assignment values;
  for (int64_t x = bounds[0].min; x <= bounds[0].max; ++x) {
    for (int64_t y = bounds[1].min; y <= bounds[1].max; ++y) {
      for (int64_t z = bounds[2].min; z <= bounds[2].max; ++z) {
        values[vars[0].get()] = x;
        values[vars[1].get()] = y;
        values[vars[2].get()] = z;
        f(values, std::vector<int64_t>{x, y, z});
      }
    }
  }
}

class Setting {
 public:
  explicit Setting(uint64_t seed) : g(seed, vars) {}
  void Next() {
    facts = Facts();
    bounds.clear();
    for (const Expr& v : vars) {
      const int64_t low = g.Uniform(-6, 6);
      bounds.push_back({low, low + g.Uniform(0, 6)});
      facts.SetBounds(v, bounds.back());
    }
  }
  std::vector<Expr> vars = {MakeVar("x"), MakeVar("y"), MakeVar("z")};
  std::vector<Bounds> bounds;
  Facts facts;
  Generator g;
};

TEST(FactsProperty, NeverProvesWhatCanFail) {
  Setting s(11);
  int proven = 0, refuted = 0;
  for (int t = 0; t < 8000; ++t) {
    s.Next();
    const Pair c = s.g.Condition(4);
    const bool proves = s.facts.Proves(c.expr), refutes = s.facts.Refutes(c.expr);
    if (c.expr.As<IntImm>() || (!proves && !refutes)) continue;
    ASSERT_FALSE(proves && refutes) << ToString(c.expr);
    proven += proves;
    refuted += refutes;
    ForAll(s.vars, s.bounds, [&](const Assignment&, const std::vector<int64_t>& values) {
      const auto value = Evaluate(*c.written, values);
      if (!value) return;
      ASSERT_EQ(*value, proves) << ToString(c.expr) << " at " << values[0] << " " << values[1]
                                << " " << values[2];
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(proven, 300);
  EXPECT_GT(refuted, 300);
}

TEST(FactsProperty, BoundsContainEveryValue) {
  Setting s(12);
  int known = 0;
  for (int t = 0; t < 8000; ++t) {
    s.Next();
    const Pair e = s.g.Integer(4);
    const auto b = s.facts.BoundsOf(e.expr);
    if (!b) continue;
    ++known;
    ForAll(s.vars, s.bounds, [&](const Assignment&, const std::vector<int64_t>& values) {
      const auto value = Evaluate(*e.written, values);
      if (!value) return;
      ASSERT_GE(*value, b->min) << ToString(e.expr);
      ASSERT_LE(*value, b->max) << ToString(e.expr);
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(known, 2500);
}

TEST(FactsProperty, LinearBoundsAreTightAndComparisonsComplete) {
  Setting s(13);
  for (int t = 0; t < 3000; ++t) {
    s.Next();
    Expr e = MakeInt(s.g.Uniform(-9, 9));
    for (const Expr& v : s.vars) {
      e = e + v * MakeInt(s.g.Uniform(-5, 5));
      if (s.g.Uniform(0, 1)) e = e - (v - MakeInt(2)) * MakeInt(s.g.Uniform(-2, 2));
    }
    int64_t low = INT64_MAX, high = INT64_MIN;
    ForAll(s.vars, s.bounds, [&](const Assignment& a, const std::vector<int64_t>&) {
      low = std::min(low, *Evaluate(e, a));
      high = std::max(high, *Evaluate(e, a));
    });
    const auto b = s.facts.BoundsOf(e);
    ASSERT_TRUE(b.has_value());
    ASSERT_EQ(b->min, low) << ToString(e);
    ASSERT_EQ(b->max, high) << ToString(e);
    ASSERT_TRUE(s.facts.Proves(e <= MakeInt(high)) && s.facts.Proves(MakeInt(low) <= e));
    ASSERT_FALSE(s.facts.Proves(e < MakeInt(high)) || s.facts.Refutes(e < MakeInt(high + 1)));
  }
}

TEST(FactsProperty, DividesHasNoCounterexample) {
  Setting s(14);
  int yes = 0;
  for (int t = 0; t < 8000; ++t) {
    s.Next();
    const Pair e = s.g.Integer(4);
    for (const int64_t d : {2, 3, 4, 8}) {
      if (!s.facts.Divides(d, e.expr)) continue;
      yes += !e.expr.As<IntImm>();
      ForAll(s.vars, s.bounds, [&](const Assignment&, const std::vector<int64_t>& values) {
        const auto value = Evaluate(*e.written, values);
        if (value) {
          ASSERT_EQ(*value % d, 0) << d << " " << ToString(e.expr);
        }
      });
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(yes, 300);
}

// The facts of an axis with a symbolic extent hold for every iteration that runs.
TEST(FactsProperty, SymbolicAxesNeverProveWhatCanFail) {
  const Expr n = MakeVar("n"), b = MakeVar("b"), i = MakeVar("i");
  Generator g(15, {n, b, i});
  int proven = 0;
  for (int t = 0; t < 6000; ++t) {
    const int64_t tile = g.Uniform(1, 6);
    Facts facts;
    facts.AddAxis({b, Expr(0), CeilDiv(n, MakeInt(tile))});
    facts.AddAxis({i, Expr(0), Min(MakeInt(tile), n - b * MakeInt(tile))});
    const Pair c = g.Condition(3);
    const Expr tail = b * MakeInt(tile) + i < n + MakeInt(g.Uniform(-1, 1));
    const Expr condition = t % 2 ? c.expr : tail;
    if (condition.As<IntImm>()) continue;
    const bool proves = facts.Proves(condition), refutes = facts.Refutes(condition);
    if (!proves && !refutes) continue;
    ++proven;
    for (int64_t nv = -3; nv < 14; ++nv) {
      for (int64_t bv = 0; bv * tile < nv; ++bv) {
        for (int64_t iv = 0; iv < std::min(tile, nv - bv * tile); ++iv) {
          const Assignment a = {{n.get(), nv}, {b.get(), bv}, {i.get(), iv}};
          const auto value = Evaluate(condition, a);
          ASSERT_TRUE(!value || *value == proves) << ToString(condition) << " tile " << tile;
        }
      }
    }
  }
  EXPECT_GT(proven, 1500);
}

// Tiles dealt out to blocks in turns, as many as there are for each: a turn's tile is one of them,
// and is known to be no other.
TEST(FactsProperty, TilesDealtOutInTurnsAreKnownExactly) {
  const Expr b = MakeVar("b"), turn = MakeVar("turn");
  Generator g(17, {b, turn});
  for (int t = 0; t < 3000; ++t) {
    const int64_t blocks = g.Uniform(2, 9), tiles = blocks + g.Uniform(0, 40);
    const int64_t width = g.Uniform(1, 7);
    Facts facts;
    facts.AddAxis({b, Expr(0), MakeInt(blocks)});
    const Expr turns = CeilDiv(MakeInt(tiles) - b, MakeInt(blocks));
    facts.AddAxis({turn, Expr(0), t % 2 ? facts.Simplify(turns) : turns});
    const Expr tile = b + turn * MakeInt(blocks);
    const auto of_tile = facts.BoundsOf(tile), of_row = facts.BoundsOf(FloorDiv(tile, width));
    ASSERT_TRUE(of_tile && of_row);
    EXPECT_EQ(of_tile->min, 0);
    EXPECT_EQ(of_tile->max, tiles - 1) << tiles << " tiles, " << blocks << " blocks";
    EXPECT_EQ(of_row->max, (tiles - 1) / width);
    EXPECT_FALSE(facts.Proves(tile < MakeInt(tiles - 1)));
    const Pair c = g.Condition(3);
    const bool proves = facts.Proves(c.expr), refutes = facts.Refutes(c.expr);
    if (c.expr.As<IntImm>() || (!proves && !refutes)) continue;
    for (int64_t bv = 0; bv < blocks; ++bv) {
      for (int64_t tv = 0; bv + tv * blocks < tiles; ++tv) {
        const auto value = Evaluate(c.expr, {{b.get(), bv}, {turn.get(), tv}});
        ASSERT_TRUE(!value || *value == proves) << ToString(c.expr);
      }
    }
  }
}

// Ends with quotients of all axes around them are bounded one at a time: a chain of these, each
// unfolded for each of the others, would not be done in a lifetime.
TEST(FactsProperty, NestedQuotientEndsAreBounded) {
  Facts facts;
  Expr sum = MakeVar("b");
  facts.AddAxis({sum, Expr(0), MakeInt(4)});
  for (int level = 0; level < 14; ++level) {
    const Expr axis = MakeVar("axis");
    const Expr divisor = MakeInt(5 + level);
    facts.AddAxis({axis, Expr(0), FloorDiv(MakeInt(20 + level) - sum, divisor)});
    sum = sum + axis * divisor;
    const auto bounds = facts.BoundsOf(FloorDiv(sum, MakeInt(7)));
    ASSERT_TRUE(bounds.has_value());
    EXPECT_EQ(bounds->min, 0);
  }
}

// Ends of an axis that speak of other variables bound sums with those: b + i < n.
TEST(FactsProperty, BoundsWithSymbolicAxesContainEveryValue) {
  constexpr int64_t kMost = 13;
  const Expr n = MakeVar("n"), b = MakeVar("b"), i = MakeVar("i");
  Generator g(16, {n, b, i});
  int below = 0;
  for (int t = 0; t < 4000; ++t) {
    const int64_t tile = g.Uniform(1, 6);
    Facts facts;
    if (t % 5) facts.SetBounds(n, {-3, kMost});
    facts.AddAxis({b, Expr(0), CeilDiv(n, MakeInt(tile))});
    facts.AddAxis({i, Expr(-2),
                   t % 2 ? n - b * MakeInt(tile) + Expr(2)
                         : Min(MakeInt(tile), n - b * MakeInt(tile)) + Expr(2)});
    const Expr at = b * MakeInt(tile) + i;
    const Expr e = t % 3 ? at * MakeInt(g.Uniform(-3, 3)) + n * MakeInt(g.Uniform(-2, 2)) +
                               FloorDiv(at, MakeInt(g.Uniform(1, 5)))
                         : at;
    const auto bounds = facts.BoundsOf(e);
    if (!bounds) continue;
    // An end that is not known is none: nobody asks for one end alone.
    ASSERT_TRUE(INT32_MIN < bounds->min && bounds->max < INT32_MAX) << ToString(e);
    if (t % 6 == 3) below += bounds->max < kMost;
    for (int64_t nv = -3; nv <= kMost; ++nv) {
      for (int64_t bv = 0; bv * tile < nv; ++bv) {
        const int64_t left = nv - bv * tile;
        for (int64_t iv = -2; iv < (t % 2 ? left : std::min(tile, left)); ++iv) {
          const auto value = Evaluate(e, {{n.get(), nv}, {b.get(), bv}, {i.get(), iv}});
          ASSERT_TRUE(value && bounds->min <= *value && *value <= bounds->max)
              << ToString(e) << " tile " << tile << " n " << nv << " b " << bv << " i " << iv;
        }
      }
    }
  }
  EXPECT_EQ(below, 534);
}

// What is assumed of several variables proves nothing that fails where it holds.
TEST(FactsProperty, AssumptionsNeverProveWhatCanFail) {
  Setting s(17);
  int by_assumption = 0;
  for (int t = 0; t < 6000; ++t) {
    s.Next();
    const auto linear = [&] {
      Expr e = MakeInt(s.g.Uniform(-9, 9));
      for (const Expr& v : s.vars) e = e + v * MakeInt(s.g.Uniform(-2, 2));
      return e;
    };
    const Expr assumed = linear() > MakeInt(0) && linear() <= MakeInt(s.g.Uniform(0, 9));
    const Expr e = t % 2 ? linear() : Max(linear(), linear());
    int64_t low = INT64_MAX;
    ForAll(s.vars, s.bounds, [&](const Assignment& a, const std::vector<int64_t>&) {
      if (*Evaluate(assumed, a) != 0) low = std::min(low, *Evaluate(e, a));
    });
    if (low == INT64_MAX) continue;
    const Expr claim = e >= MakeInt(low);
    const bool before = s.facts.Proves(claim);
    s.facts.Assume(assumed);
    ASSERT_FALSE(s.facts.Proves(e > MakeInt(low))) << ToString(e) << " as " << ToString(assumed);
    ASSERT_FALSE(s.facts.Refutes(claim)) << ToString(e) << " as " << ToString(assumed);
    by_assumption += !before && s.facts.Proves(claim);
  }
  EXPECT_GT(by_assumption, 200);
}

// A loop's body may write what its extent read: only what holds of a variable is told of it.
TEST(FactsProperty, ExtentsThatReadMemorySayNothingLater) {
  const Buffer lengths = MakeBuffer("lengths", kInt32, {MakeInt(4)}, Scope::kGlobal);
  const Expr length = MakeLoad(lengths, {MakeInt(0)}), n = MakeVar("n"), i = MakeVar("i");
  Facts facts;
  facts.AddAxis({i, Expr(0), length});
  EXPECT_FALSE(facts.Proves(i < length));
  facts.AddAxis({i, Expr(0), n});
  EXPECT_TRUE(facts.Proves(i < n));
}

// Each question takes steps by the number of loops and conditions around, not by their products.
TEST(FactsProperty, ManyAxesAndAssumptionsAreNoExplosion) {
  constexpr int kMany = 12;
  const Expr n = MakeVar("n"), m = MakeVar("m");
  Facts facts;
  std::vector<Expr> axes;
  Expr sum = m;
  for (int i = 0; i < kMany; ++i) {
    axes.push_back(MakeVar("i"));
    facts.AddAxis({axes[i], Expr(0), i ? n - axes[i - 1] : n});
    sum = sum + axes[i];
    EXPECT_FALSE(facts.BoundsOf(sum).has_value());
  }
  for (int i = 0; i + 3 < kMany; ++i) {
    facts.Assume(axes[i] + axes[i + 1] < axes[i + 2] + axes[i + 3] + n);
    EXPECT_FALSE(facts.Proves(sum < MakeInt(100)));
  }
  EXPECT_TRUE(facts.Proves(axes[kMany - 2] + axes[kMany - 1] < n));
}

TEST(FunctionProperty, OverABoxIsItselfAtEveryPoint) {
  Setting s(15);
  int without = 0, with = 0;
  for (int t = 0; t < 4000; ++t) {
    s.Next();
    Expr e = t % 3 ? s.g.Integer(4).expr : s.g.Condition(4).expr;
    if (t % 4 == 0) {  // what indices of tiles are made of
      const Expr c = MakeInt(int64_t{1} << s.g.Uniform(0, 4));
      e = MakeBinary(BinaryOp::kBitXor, FloorDiv(MakeCast(kInt32, e), c), FloorMod(s.vars[0], c));
    }
    const auto function = IntFunction::Of(e, s.vars);
    ASSERT_TRUE(function.ok()) << function.status();
    std::vector<Bounds> box(s.bounds.begin(), s.bounds.end());
    for (size_t v = box.size() - static_cast<size_t>(t % 3); v < box.size(); ++v) {
      box[v].max = box[v].min;  // the innermost of one value, as serial loops' variables are
    }
    std::vector<int64_t> mins, extents;
    for (const Bounds& b : box) {
      mins.push_back(b.min);
      extents.push_back(b.max - b.min + 1);
    }
    const auto all = function->Over(mins, extents);
    size_t i = 0;
    bool everywhere = true;
    ForAll(s.vars, box, [&](const Assignment&, const std::vector<int64_t>& values) {
      const auto value = (*function)(values);
      everywhere &= value.has_value();
      if (all) ASSERT_EQ(value, (*all)[i]) << ToString(e);
      ++i;
    });
    if (HasFatalFailure()) return;
    ASSERT_EQ(all.has_value(), everywhere) << ToString(e);
    if (all) ASSERT_EQ(all->size(), i);
    (everywhere ? with : without) += 1;
  }
  EXPECT_GT(without, 100);
  EXPECT_GT(with, 1000);
}

}  // namespace
}  // namespace kiln::ir::testing

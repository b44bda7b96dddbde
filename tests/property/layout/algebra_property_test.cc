// The operations against their definitions, pointwise, on random layouts.
#include <gtest/gtest.h>

#include "compiler/layout/compose.h"
#include "compiler/layout/contain.h"
#include "compiler/layout/factor.h"
#include "compiler/layout/pack.h"
#include "compiler/layout/regroup.h"
#include "compiler/layout/scopes.h"
#include "compiler/layout/slice.h"
#include "compiler/layout/table.h"
#include "compiler/layout/text.h"
#include "compiler/layout/tile.h"
#include "tests/property/layout/random_layout.h"

namespace kiln::layout {
namespace {

using Shape = std::vector<int64_t>;

TEST(Property, ApplyIsTheTableIsTheDefinition) {
  Rng rng(1);
  for (int i = 0; i < kCases; ++i) {
    const Layout l = RandomLayout(&rng);
    const auto table = Table::Of(l);
    ASSERT_TRUE(table.ok());
    for (int64_t x = 0; x < l.size(); x += 1 + x / 16) {
      const auto defined = Defined(l, x);
      const auto applied = l.Apply(x);
      ASSERT_EQ(defined.size(), applied.size());
      for (size_t q = 0; q < defined.size(); ++q) {
        ASSERT_EQ(Plain(applied[q], l), defined[q]) << l.ToString() << " element " << x;
        ASSERT_EQ(Plain(table->At(x, q), l), defined[q]) << l.ToString() << " element " << x;
      }
    }
  }
}

TEST(Property, FactorReadsTablesBack) {
  Rng rng(2);
  int exact = 0;
  for (int i = 0; i < kCases; ++i) {
    const Layout l = RandomLayout(&rng);
    const Table table = *Table::Of(l);
    const auto factored = Factor(table);
    ASSERT_TRUE(factored.ok()) << l.ToString() << ": " << factored.status();
    const auto again = Table::Of(*factored);
    for (int64_t x = 0; x < l.size(); ++x) {
      for (int64_t q = 0; q < l.copies(); ++q) ASSERT_EQ(again->At(x, q), table.At(x, q));
    }
    if (l.swizzles().empty()) {
      ASSERT_LE(factored->shard().size(), Canonical(l).shard().size()) << l.ToString();
      ++exact;
    }
    const auto twice = Factor(*again);
    ASSERT_TRUE(twice.ok());
    ASSERT_EQ(*twice, *factored);
  }
  EXPECT_GT(exact, kCases / 2);
}

TEST(Property, CanonicalAndTextKeepTheFunction) {
  Rng rng(3);
  for (int i = 0; i < kCases; ++i) {
    const Layout l = RandomLayout(&rng);
    const auto parsed = Parse(l.ToString());
    ASSERT_TRUE(parsed.ok()) << l.ToString() << ": " << parsed.status();
    ASSERT_EQ(*parsed, l);
    const Layout c = Canonical(l);
    ASSERT_LE(c.shard().size(), std::max<size_t>(l.shard().size(), 1));
    ASSERT_EQ(Canonical(c), c) << l.ToString();
    for (int64_t x = 0; x < l.size(); ++x) {
      ASSERT_EQ(c.Base(x), l.Base(x)) << l.ToString();
      auto a = l.Apply(x);
      auto b = c.Apply(x);
      std::sort(a.begin(), a.end());
      std::sort(b.begin(), b.end());
      ASSERT_EQ(a, b) << l.ToString();
    }
  }
}

TEST(Property, GroupingKeepsTheFunctionAndIsExact) {
  Rng rng(4);
  int grouped_count = 0, refused = 0;
  while (grouped_count < kCases) {
    const Layout l = RandomLayout(&rng);
    const Shape shape = RandomShape(&rng, l.size());
    const auto grouped = Group(l, shape);
    const Layout plain = TileLayout(l);
    if (!grouped.ok()) {
      const auto witness = WitnessOf(grouped.status());
      ASSERT_TRUE(witness.has_value()) << grouped.status();
      ASSERT_GE(witness->element, 0);
      ASSERT_FALSE(witness->at == witness->other_at) << grouped.status();
      ASSERT_EQ(witness->at, plain.Base(witness->element));
      ++refused;
      continue;
    }
    ++grouped_count;
    for (int64_t x = 0; x < l.size(); ++x) ASSERT_EQ(grouped->layout.Base(x), l.Base(x));
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t product = 1;
      for (const Iter& iter : grouped->group(d)) product *= iter.extent;
      ASSERT_EQ(product, shape[d]) << l.ToString();
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(Property, RefineAndPermute) {
  Rng rng(5);
  int refined_count = 0;
  while (refined_count < kCases) {
    const Layout a = RandomLayout(&rng);
    const Shape shape = RandomShape(&rng, a.size());
    std::vector<Iter> iters;
    for (const int64_t e : shape) iters.push_back({e, Between(&rng, 0, 9), Axis::kM});
    const Layout b = *Layout::FromIters(iters);
    if (const auto refined = Refine(a, b); refined.ok()) {
      ++refined_count;
      for (int64_t x = 0; x < a.size(); ++x) {
        ASSERT_EQ(refined->first.Base(x), a.Base(x));
        ASSERT_EQ(refined->second.Base(x), b.Base(x));
      }
      for (size_t k = 0; k < refined->first.shard().size(); ++k) {
        ASSERT_EQ(refined->first.shard()[k].extent, refined->second.shard()[k].extent);
      }
    }
    std::vector<int> perm(shape.size());
    for (size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<int>(d);
    rng.Shuffle(&perm);
    const auto permuted = Permute(a, shape, perm);
    if (!permuted.ok()) continue;
    Shape to;
    for (const int d : perm) to.push_back(shape[d]);
    for (int64_t x = 0; x < a.size(); ++x) {
      const Shape coord = Unflatten(x, to);
      Shape original(coord.size());
      for (size_t d = 0; d < perm.size(); ++d) original[perm[d]] = coord[d];
      ASSERT_EQ(permuted->Base(x), a.Base(*Flatten(original, shape)));
    }
  }
}

// Values of both parts of an interleaved coordinate.
void Parts(const Shape& coord, const Shape& outer, const Shape& inner, int64_t* p, int64_t* q) {
  Shape high, low;
  for (size_t d = 0; d < coord.size(); ++d) {
    high.push_back(coord[d] / inner[d]);
    low.push_back(coord[d] % inner[d]);
  }
  *p = *Flatten(high, outer);
  *q = *Flatten(low, inner);
}

TEST(Property, TileAndItsFactors) {
  Rng rng(6);
  int built = 0, refused = 0, factored = 0;
  while (built < kCases) {
    const Layout outer = RandomTidyLayout(&rng, {.max_size = 24});
    const Layout inner = RandomTidyLayout(&rng, {.max_size = 24});
    Shape so = RandomShape(&rng, outer.size());
    Shape si = RandomShape(&rng, inner.size());
    so.resize(std::max(so.size(), si.size()), 1);
    si.resize(so.size(), 1);
    const auto tiled = Tile(outer, so, inner, si);
    if (!tiled.ok()) {
      ASSERT_NE(tiled.status().code(), absl::StatusCode::kInvalidArgument) << tiled.status();
      ++refused;
      continue;
    }
    ++built;
    Shape shape;
    for (size_t d = 0; d < so.size(); ++d) shape.push_back(so[d] * si[d]);
    for (int64_t x = 0; x < tiled->size(); ++x) {
      int64_t p = 0, q = 0;
      Parts(Unflatten(x, shape), so, si, &p, &q);
      Coord expected = inner.Base(q);
      for (const auto& [axis, value] : outer.Base(p).values()) {
        expected.Set(axis, expected[axis] + value * Footprint(inner, axis));
      }
      ASSERT_EQ(tiled->Base(x), expected) << outer.ToString() << " by " << inner.ToString();
    }
    ASSERT_EQ(tiled->copies(), outer.copies() * inner.copies());
    const auto outer_again = OuterFactor(*tiled, shape, inner, si);
    ASSERT_TRUE(outer_again.ok()) << tiled->ToString() << ": " << outer_again.status();
    const auto rebuilt = Tile(*outer_again, so, inner, si);
    ASSERT_TRUE(rebuilt.ok() && SameFunction(*rebuilt, *tiled)) << tiled->ToString();
    const auto inner_again = InnerFactor(*tiled, shape, outer, so);
    if (inner_again.ok()) {
      ++factored;
      ASSERT_TRUE(SameFunction(*Tile(outer, so, *inner_again, si), *tiled));
    }
  }
  EXPECT_GT(refused, 20);
  EXPECT_GT(factored, built * 9 / 10);
}

TEST(Property, DirectSumAndItsSummands) {
  Rng rng(7);
  int built = 0;
  while (built < kCases) {
    const Layout a = RandomLayout(&rng, {.max_size = 24});
    const Layout b = RandomLayout(&rng, {.max_size = 24});
    Shape sa = RandomShape(&rng, a.size());
    Shape sb = RandomShape(&rng, b.size());
    sa.resize(std::max(sa.size(), sb.size()), 1);
    sb.resize(sa.size(), 1);
    const auto sum = DirectSum(a, sa, b, sb);
    if (!sum.ok()) continue;
    ++built;
    Shape shape;
    for (size_t d = 0; d < sa.size(); ++d) shape.push_back(sa[d] * sb[d]);
    for (int64_t x = 0; x < sum->size(); ++x) {
      int64_t p = 0, q = 0;
      Parts(Unflatten(x, shape), sa, sb, &p, &q);
      Coord expected = a.Base(p);
      for (const auto& [axis, value] : b.Base(q).values()) {
        expected.Set(axis, expected[axis] + value);
      }
      ASSERT_EQ(sum->Base(x), expected) << a.ToString() << " + " << b.ToString();
    }
    const auto left = LeftSummand(*sum, shape, b, sb);
    ASSERT_TRUE(left.ok()) << sum->ToString() << ": " << left.status();
    ASSERT_TRUE(SameFunction(*DirectSum(*left, sa, b, sb), *sum));
    const auto right = RightSummand(*sum, shape, a, sa);
    ASSERT_TRUE(right.ok()) << right.status();
    ASSERT_TRUE(SameFunction(*DirectSum(a, sa, *right, sb), *sum));
  }
}

TEST(Property, SliceIsExact) {
  Rng rng(8);
  int cut = 0, refused = 0;
  while (cut < kCases) {
    const Layout l = RandomLayout(&rng);
    const Shape shape = RandomShape(&rng, l.size());
    if (!Group(l, shape).ok()) continue;
    std::vector<Interval> region;
    Shape extents;
    for (const int64_t e : shape) {
      const int64_t begin = Between(&rng, 0, e - 1);
      region.push_back({begin, Between(&rng, 1, e - begin)});
      extents.push_back(region.back().extent);
    }
    Shape access;
    int64_t size = 1;
    for (const int64_t e : extents) size *= e;
    for (int64_t x = 0; x < size; ++x) {
      Shape coord = Unflatten(x, extents);
      for (size_t d = 0; d < coord.size(); ++d) coord[d] += region[d].begin;
      access.push_back(*Flatten(coord, shape));
    }
    const auto slice = Slice(l, shape, region);
    if (!slice.ok()) {  // then the region's table is not mixed radix either
      const auto factored =
          Factor(*Table::Of(TileLayout(l))->Pullback(access), {.swizzles = false});
      ASSERT_FALSE(factored.ok()) << l.ToString() << " gives " << factored->ToString();
      ASSERT_TRUE(WitnessOf(slice.status()).has_value());
      ++refused;
      continue;
    }
    ++cut;
    ASSERT_EQ(slice->size(), size);
    for (int64_t x = 0; x < size; ++x) ASSERT_EQ(slice->Base(x), l.Base(access[x]));
    ASSERT_EQ(slice->Apply(size - 1), l.Apply(access[size - 1]));
  }
  EXPECT_GT(refused, 100);
}

TEST(Property, PackUndoesUnpack) {
  Rng rng(9);
  for (int i = 0; i < kCases; ++i) {
    const Layout l = RandomLayout(&rng);
    const int64_t n = int64_t{1} << rng.Below(4);
    const auto unpacked = Unpack(l, n);
    ASSERT_TRUE(unpacked.ok()) << unpacked.status();
    for (int64_t x = 0; x < unpacked->size(); ++x) {
      Coord expected = l.Base(x / n);
      expected.Set(Axis::kM, expected[Axis::kM] * n + x % n);
      ASSERT_EQ(unpacked->Base(x), expected) << l.ToString() << " by " << n;
    }
    const auto packed = Pack(*unpacked, n);
    ASSERT_TRUE(packed.ok()) << packed.status();
    ASSERT_TRUE(SameFunction(*packed, l)) << l.ToString();
    // Pack of anything: right where it answers.
    if (const auto p = Pack(l, n); p.ok()) {
      ASSERT_EQ(p->size() * n, l.size());
      for (int64_t x = 0; x < l.size(); ++x) {
        Coord expected = p->Base(x / n);
        expected.Set(Axis::kM, expected[Axis::kM] * n + x % n);
        ASSERT_EQ(l.Base(x), expected) << l.ToString() << " by " << n;
      }
    }
  }
}

TEST(Property, ReplicateAndCondense) {
  Rng rng(10);
  for (int i = 0; i < kCases; ++i) {
    const Layout l = RandomLayout(&rng, {.max_size = 32});
    const Layout condensed = Condense(l);
    ASSERT_LE(condensed.copies(), l.copies());
    ASSERT_TRUE(SameSet(condensed, l)) << l.ToString() << " / " << condensed.ToString();
    ASSERT_EQ(condensed.Base(0), l.Base(0));
    const Layout more = *Replicate(l, 3, Axis::kWarpid, Between(&rng, -4, 8));
    ASSERT_TRUE(Contains(more, l));
  }
}

TEST(Property, ComposeIsApplicationTwice) {
  Rng rng(11);
  int composed = 0;
  while (composed < kCases) {
    const Layout outer = RandomLayout(&rng);
    Layout index = RandomLayout(
        &rng, {.max_size = 60, .swizzles = false, .replicas = false, .axes = {Axis::kM}});
    const auto [low, high] = index.Range(Axis::kM);
    index = *Shift(index, {{Axis::kM, -low}});
    const auto both = Compose(outer, index);
    if (high - low >= outer.size()) {
      ASSERT_EQ(both.status().code(), absl::StatusCode::kInvalidArgument);
      continue;
    }
    if (!both.ok()) {
      ASSERT_TRUE(WitnessOf(both.status()).has_value()) << both.status();
      continue;
    }
    ++composed;
    for (int64_t x = 0; x < index.size(); ++x) {
      ASSERT_EQ(both->Apply(x), outer.Apply(index.Base(x)[Axis::kM]))
          << outer.ToString() << " o " << index.ToString();
    }
  }
}

TEST(Property, SplittingAnAxis) {
  Rng rng(12);
  int split_count = 0;
  while (split_count < kCases) {
    const Layout l = RandomTidyLayout(&rng, {.axes = {Axis::kTx, Axis::kM}});
    const auto split = SplitAxis(l, Axis::kTx, 8, Axis::kWarpid, Axis::kLaneid);
    if (!split.ok()) {
      ASSERT_TRUE(WitnessOf(split.status()).has_value()) << split.status();
      continue;
    }
    ++split_count;
    for (int64_t x = 0; x < l.size(); ++x) {
      const Coord from = l.Base(x);
      const Coord to = split->Base(x);
      ASSERT_EQ(from[Axis::kTx], 8 * to[Axis::kWarpid] + to[Axis::kLaneid]) << l.ToString();
      ASSERT_GE(to[Axis::kLaneid], 0);
      ASSERT_LT(to[Axis::kLaneid], 8);
      ASSERT_EQ(from[Axis::kM], to[Axis::kM]);
    }
  }
}

TEST(Property, SwizzlesAreInvolutionsThatCommuteWithTheirPeriod) {
  for (int m = 0; m < 4; ++m) {
    for (int b = 1; b < 4; ++b) {
      for (int s = b; s <= 4; ++s) {
        for (const bool inner : {true, false}) {
          const SwizzleLayout x{m, b, s, inner};
          std::vector<bool> hit(x.period());
          for (int64_t a = 0; a < x.period(); ++a) {
            ASSERT_EQ(x(x(a)), a);
            ASSERT_GE(x(a), 0);
            ASSERT_LT(x(a), x.period());
            hit[x(a)] = true;
          }
          ASSERT_EQ(std::count(hit.begin(), hit.end(), true), x.period());
          for (int64_t shift = 1; shift <= x.period(); ++shift) {
            bool commutes = true;
            for (int64_t a = 0; a < x.period() && commutes; ++a) {
              commutes = x(a + shift) == x(a) + shift;
            }
            ASSERT_EQ(commutes, shift == x.period()) << x.ToString() << " shift " << shift;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace kiln::layout

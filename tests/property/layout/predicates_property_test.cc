// Predicates, inverses, widths, wavefronts and moves against brute force.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "compiler/layout/banks.h"
#include "compiler/layout/color.h"
#include "compiler/layout/contain.h"
#include "compiler/layout/f2.h"
#include "compiler/layout/fragments.h"
#include "compiler/layout/injective.h"
#include "compiler/layout/inverse.h"
#include "compiler/layout/move.h"
#include "compiler/layout/pack.h"
#include "compiler/layout/table.h"
#include "compiler/layout/tile.h"
#include "tests/property/layout/random_layout.h"

namespace kiln::layout {
namespace {

TEST(Property, InjectivityIsNoDuplicateInTheTable) {
  Rng rng(21);
  int yes = 0, no = 0;
  for (int i = 0; i < 2 * kCases; ++i) {
    const Layout l = i % 2 == 0 ? RandomLayout(&rng, {.max_size = 100})
                                : RandomTidyLayout(&rng, {.max_size = 100});
    std::map<Coord, int64_t> owner;
    bool duplicate = false, shared = false;
    for (int64_t x = 0; x < l.size(); ++x) {
      for (const Coord& p : l.Apply(x)) {
        const auto [it, fresh] = owner.emplace(p, x);
        duplicate = duplicate || !fresh;
        shared = shared || it->second != x;
      }
    }
    const auto collision = FindCollision(l);
    ASSERT_EQ(collision.has_value(), duplicate) << l.ToString();
    ASSERT_EQ(FindSharedPoint(l).has_value(), shared) << l.ToString();
    (duplicate ? no : yes)++;
    if (!collision) continue;
    ASSERT_TRUE(collision->element != collision->other || collision->copy != collision->other_copy);
    ASSERT_EQ(l.Apply(collision->element)[collision->copy], collision->at) << l.ToString();
    ASSERT_EQ(l.Apply(collision->other)[collision->other_copy], collision->at) << l.ToString();
  }
  EXPECT_GT(yes, 2000);
  EXPECT_GT(no, 2000);
}

// Values of an axis that a layout can have, with a margin that reaches past the swizzle's blocks.
std::pair<int64_t, int64_t> Reach(const Layout& l, Axis axis, int64_t margin) {
  auto [low, high] = l.Range(axis);
  if (const SwizzleLayout* s = l.swizzle(axis)) {
    low -= s->period();
    high += s->period();
  }
  return {low - margin, high + margin};
}

// One axis: every point of the box. More: the image, its neighbours and random points.
std::vector<std::vector<int64_t>> Probes(const Layout& l, Rng* rng) {
  std::vector<std::vector<int64_t>> probes;
  if (l.axes().size() == 1) {
    const auto [low, high] = Reach(l, l.axes()[0], 70);
    for (int64_t v = low; v <= high; ++v) probes.push_back({v});
    return probes;
  }
  std::vector<int64_t> values(l.axes().size());
  for (int64_t x = 0; x < l.size(); ++x) {
    l.Evaluate(x, x % l.copies(), values.data());
    probes.push_back(values);
    for (size_t a = 0; a < values.size(); ++a) {
      probes.push_back(values);
      probes.back()[a] += Between(rng, -3, 3);
    }
  }
  for (int k = 0; k < 50; ++k) {
    for (size_t a = 0; a < values.size(); ++a) {
      const auto [low, high] = Reach(l, l.axes()[a], 10);
      values[a] = Between(rng, low, high);
    }
    probes.push_back(values);
  }
  return probes;
}

TEST(Property, ColumnIsWhatEvaluateGivesElementByElement) {
  Rng rng(23);
  int swizzled = 0, copied = 0;
  for (int i = 0; i < kCases; ++i) {
    const Layout l = RandomLayout(&rng, {.max_size = 96});
    std::vector<int64_t> values(l.axes().size());
    for (int64_t copy = 0; copy < l.copies(); ++copy) {
      for (size_t a = 0; a < values.size(); ++a) {
        const std::vector<int64_t> column = l.Column(l.axes()[a], copy);
        ASSERT_EQ(static_cast<int64_t>(column.size()), l.size());
        for (int64_t x = 0; x < l.size(); ++x) {
          l.Evaluate(x, copy, values.data());
          ASSERT_EQ(column[static_cast<size_t>(x)], values[a]) << l.ToString() << " at " << x;
        }
      }
    }
    swizzled += l.swizzles().empty() ? 0 : 1;
    copied += l.copies() > 1 ? 1 : 0;
  }
  EXPECT_GT(swizzled, 50);
  EXPECT_GT(copied, 50);
  EXPECT_EQ(Layout().Column(Axis::kTx), std::vector<int64_t>{0});
}

TEST(Property, InverseIsExactAndItsGuardsMinimal) {
  Rng rng(22);
  int inverted = 0, chains = 0, greedy = 0, guards = 0;
  for (int i = 0; inverted < kCases; ++i) {
    const Layout l =
        RandomTidyLayout(&rng, {.max_size = 48,
                                .axes = i % 2 == 0 ? std::vector<Axis>{Axis::kM, Axis::kLaneid}
                                                   : std::vector<Axis>{Axis::kM}});
    const auto inverse = Inverse::Of(l);
    ASSERT_EQ(inverse.ok(), IsInjective(l)) << l.ToString();
    if (!inverse.ok()) continue;
    ++inverted;
    for (const AxisDecode& d : inverse->decodes()) {
      chains += d.method == AxisDecode::Method::kChain;
      greedy += d.method == AxisDecode::Method::kGreedy;
    }
    std::map<Coord, std::pair<int64_t, int64_t>> image;
    for (int64_t x = 0; x < l.size(); ++x) {
      const auto points = l.Apply(x);
      for (size_t q = 0; q < points.size(); ++q) image[points[q]] = {x, q};
    }
    const std::vector<bool> all(inverse->guards().size(), true);
    const auto probes = Probes(l, &rng);
    for (const std::vector<int64_t>& values : probes) {
      Coord point;
      for (size_t a = 0; a < values.size(); ++a) point.Set(l.axes()[a], values[a]);
      const auto it = image.find(point);
      const auto found = (*inverse)(values.data());
      ASSERT_EQ(found.has_value(), it != image.end()) << l.ToString() << point.ToString();
      ASSERT_EQ(inverse->Accepts(values.data(), all), found.has_value())
          << l.ToString() << point.ToString();
      if (found) {
        ASSERT_EQ(*found, it->second) << l.ToString() << point.ToString();
      }
    }
    // Without any one guard some other point is let in.
    if (l.axes().size() != 1 || !l.swizzles().empty()) continue;
    const std::vector<DigitDecode>& digits = inverse->decodes()[0].digits;
    if (!digits.empty() && digits.back().divisor > 70) continue;  // it lies outside the box
    for (size_t g = 0; g < all.size(); ++g) {
      std::vector<bool> keep = all;
      keep[g] = false;
      bool lets_in = false;
      for (const std::vector<int64_t>& values : probes) {
        lets_in = lets_in || (inverse->Accepts(values.data(), keep) && !(*inverse)(values.data()));
      }
      ASSERT_TRUE(lets_in) << l.ToString() << " does not need " << inverse->guards()[g].ToString();
      ++guards;
    }
  }
  EXPECT_GT(chains, 1000);
  EXPECT_GT(greedy, 500);
  EXPECT_GT(guards, 1000);
}

TEST(Property, OverlappingStridesAreLookedUp) {
  Rng rng(23);
  int tables = 0;
  for (int i = 0; i < kCases; ++i) {
    std::vector<Iter> shard;
    for (int k = 0; k < 3; ++k) {
      shard.push_back({Between(&rng, 1, 4), Between(&rng, 1, 30), Axis::kM});
    }
    const Layout l = *Layout::FromIters(shard);
    const auto inverse = Inverse::Of(l);
    ASSERT_EQ(inverse.ok(), IsInjective(l));
    if (!inverse.ok()) continue;
    tables += inverse->decodes()[0].method == AxisDecode::Method::kTable;
    std::map<int64_t, int64_t> image;
    for (int64_t x = 0; x < l.size(); ++x) image[l.Base(x)[Axis::kM]] = x;
    for (int64_t v = -5; v < 300; ++v) {
      const auto found = (*inverse)(&v);
      const auto it = image.find(v);
      ASSERT_EQ(found.has_value(), it != image.end()) << l.ToString() << " at " << v;
      if (found) {
        ASSERT_EQ(found->first, it->second);
      }
    }
  }
  EXPECT_GT(tables, 500);
}

TEST(Property, GuardsWithinARangeAreEnoughThere) {
  Rng rng(24);
  for (int i = 0; i < kCases; ++i) {
    const Layout l = RandomTidyLayout(
        &rng, {.max_size = 48, .swizzles = false, .negative_strides = false, .axes = {Axis::kTx}});
    const auto inverse = Inverse::Of(l);
    if (!inverse.ok()) continue;
    const int64_t high = Between(&rng, 1, 128);
    const auto within = inverse->GuardsWithin(Axis::kTx, 0, high);
    std::vector<bool> keep;
    for (const Guard& g : inverse->guards()) {
      keep.push_back(std::find(within.begin(), within.end(), g) != within.end());
    }
    for (int64_t v = 0; v < high; ++v) {
      ASSERT_EQ(inverse->Accepts(&v, keep), (*inverse)(&v).has_value())
          << l.ToString() << " at " << v << " of " << high;
    }
  }
}

std::set<Coord> SetOf(const Layout& l, int64_t x) {
  const auto points = l.Apply(x);
  return {points.begin(), points.end()};
}

TEST(Property, ContainmentIsSetInclusion) {
  Rng rng(25);
  int yes = 0, no = 0;
  std::map<Relation, int> relations;
  for (int i = 0; i < 2 * kCases; ++i) {
    const RandomOptions options{.max_size = 48, .swizzles = i % 4 == 0};
    const Layout a = RandomLayout(&rng, options);
    Layout b = *Layout::FromIters(a.shard(), a.replica(), a.offset(),
                                  rng.Below(8) == 0 ? std::vector<SwizzleLayout>{} : a.swizzles());
    switch (rng.Below(5)) {
      case 0:
        b = *Replicate(b, Between(&rng, 1, 3), Axis::kLaneid, Between(&rng, -2, 8));
        break;
      case 1:
        b = *Layout::FromIters(b.shard(), {{4, 1, Axis::kLaneid}, {4, 1, Axis::kM}}, b.offset());
        break;
      case 2: {
        std::vector<Iter> shard = b.shard();
        if (!shard.empty()) shard[rng.Below(shard.size())].stride += Between(&rng, 0, 1);
        b = *Layout::FromIters(shard, {{3, 1, Axis::kM}, {3, 1, Axis::kWarpid}}, b.offset());
        break;
      }
      case 3: {
        std::vector<Iter> iters;
        for (const int64_t e : RandomShape(&rng, a.size())) {
          iters.push_back({e, Between(&rng, 0, 2), Axis::kM});
        }
        b = *Layout::FromIters(iters, {{16, 1, Axis::kM}});
        break;
      }
      default:
        b = *Layout::FromIters(b.shard(), {}, b.offset(), b.swizzles());
        break;
    }
    bool inside = true, outside = true, meet = false;
    for (int64_t x = 0; x < a.size(); ++x) {
      const auto sa = SetOf(a, x), sb = SetOf(b, x);
      inside = inside && std::includes(sb.begin(), sb.end(), sa.begin(), sa.end());
      outside = outside && std::includes(sa.begin(), sa.end(), sb.begin(), sb.end());
      for (const Coord& p : sa) meet = meet || sb.count(p) > 0;
    }
    const auto witness = FindNotContained(a, b);
    ASSERT_EQ(!witness.has_value(), inside) << a.ToString() << " in " << b.ToString();
    ASSERT_EQ(Contains(a, b), outside) << b.ToString() << " in " << a.ToString();
    (inside ? yes : no)++;
    if (witness) {
      ASSERT_TRUE(SetOf(a, witness->element).count(witness->at)) << witness->ToString();
      ASSERT_FALSE(SetOf(b, witness->element).count(witness->at)) << witness->ToString();
    }
    const Relation expected = inside && outside ? Relation::kEqual
                              : inside          ? Relation::kSubset
                              : outside         ? Relation::kSuperset
                              : meet            ? Relation::kOverlap
                                                : Relation::kDisjoint;
    ASSERT_EQ(*Compare(a, b), expected) << a.ToString() << " / " << b.ToString();
    ++relations[expected];
    bool same = a.copies() == b.copies();
    for (int64_t x = 0; x < a.size() && same; ++x) {
      auto pa = a.Apply(x), pb = b.Apply(x);
      same = pa[0] == pb[0];
      std::sort(pa.begin(), pa.end());
      std::sort(pb.begin(), pb.end());
      same = same && pa == pb;
    }
    ASSERT_EQ(SameFunction(a, b), same) << a.ToString() << " / " << b.ToString();
  }
  EXPECT_GT(yes, 2000);
  EXPECT_GT(no, 2000);
  EXPECT_GT(relations[Relation::kOverlap], 50);
  EXPECT_GT(relations[Relation::kSuperset], 10);
  EXPECT_GT(relations[Relation::kDisjoint], 0);
}

// Runs every vector access as its scalar slots.
bool WidthWorks(const Layout& owner, const Layout& memory, int64_t v) {
  std::map<std::pair<int64_t, int64_t>, int64_t> address;  // (thread, slot)
  for (int64_t x = 0; x < owner.size(); ++x) {
    for (const Coord& p : owner.Apply(x)) {
      address[{p[Axis::kTx], p[Axis::kM]}] = memory.Base(x)[Axis::kM];
    }
  }
  for (const auto& [place, at] : address) {
    const auto [thread, slot] = place;
    const int64_t start = slot - (slot % v + v) % v;
    for (int64_t j = 0; j < v; ++j) {
      const auto other = address.find({thread, start + j});
      if (other == address.end()) return false;
      if (other->second != at - (slot - start) + j) return false;
    }
    if ((at - (slot - start)) % v != 0) return false;
  }
  return true;
}

TEST(Property, VectorWidthIsTheWidestThatWorks) {
  Rng rng(26);
  std::map<int64_t, int> widths;
  for (int i = 0; i < kCases; ++i) {
    const int64_t vec = int64_t{1} << rng.Below(4);
    Layout owner = RandomTidyLayout(&rng, {.max_size = 64,
                                           .swizzles = false,
                                           .negative_strides = false,
                                           .axes = {Axis::kM, Axis::kTx}});
    if (rng.Below(2) == 0) owner = *PlannedLoop(vec * 4 * Between(&rng, 1, 3), 4, vec);
    if (!IsInjective(owner)) continue;
    Layout memory = RandomTidyLayout(&rng, {.max_size = 1, .replicas = false, .axes = {Axis::kM}});
    std::vector<Iter> iters;
    for (const int64_t e : RandomShape(&rng, owner.size())) iters.push_back({e, 1, Axis::kM});
    int64_t stride = 1;
    for (size_t k = iters.size(); k-- > 0;) {
      iters[k].stride = stride;
      stride *= iters[k].extent;
      if (rng.Below(4) == 0) stride += Between(&rng, 0, 8);
    }
    memory =
        *Layout::FromIters(iters, {}, {{Axis::kM, 4 * Between(&rng, 0, 3)}}, memory.swizzles());
    const int64_t most = int64_t{1} << rng.Below(5);
    const auto width = VectorWidth(owner, memory, most, 16);
    ASSERT_TRUE(width.ok()) << width.status();
    int64_t expected = 1;
    for (int64_t v = 2; v <= most; v *= 2) {
      if (WidthWorks(owner, memory, v)) expected = v;
    }
    ASSERT_EQ(*width, expected) << owner.ToString() << " on " << memory.ToString();
    ++widths[expected];
  }
  EXPECT_GT(widths[1], 100);
  EXPECT_GT(widths[4], 100);
  EXPECT_GT(widths[8], 20);
}

TEST(Property, WavefrontsAreServedWords) {
  Rng rng(27);
  for (int i = 0; i < kCases; ++i) {
    const int width = 1 << rng.Below(5);
    const int64_t stride = Between(&rng, 0, 40);
    std::vector<int64_t> addresses;
    for (int64_t lane = 0; lane < 32; ++lane) {
      const bool random = rng.Below(4) == 0;
      const int64_t unit = random ? Between(&rng, 0, 500) : lane * stride;
      addresses.push_back(rng.Below(16) == 0 ? kInactive : unit * width);
    }
    // Serve: every wavefront takes one word a bank of one phase.
    int expected = 0;
    const int lanes = width <= 4 ? 32 : width == 8 ? 16 : 8;
    for (int start = 0; start < 32; start += lanes) {
      std::set<int64_t> words;
      for (int lane = start; lane < start + lanes; ++lane) {
        if (addresses[lane] == kInactive) continue;
        for (int64_t b = 0; b < width; ++b) words.insert((addresses[lane] + b) / 4);
      }
      while (!words.empty()) {
        std::set<int64_t> banks;
        for (auto it = words.begin(); it != words.end();) {
          it = banks.insert(*it % 32).second ? words.erase(it) : std::next(it);
        }
        ++expected;
      }
    }
    ASSERT_EQ(Wavefronts(addresses, width), expected);
  }
}

TEST(Property, ColouringUsesTheLargestDegree) {
  Rng rng(28);
  for (int i = 0; i < kCases; ++i) {
    const int vertices = static_cast<int>(Between(&rng, 1, 8));
    std::vector<Edge> edges(Between(&rng, 0, 40));
    for (Edge& e : edges) {
      e = {static_cast<int>(rng.Below(vertices)), static_cast<int>(rng.Below(vertices))};
    }
    const std::vector<int> colors = ColorEdges(edges, vertices);
    std::set<std::pair<int, int>> left, right;
    for (size_t k = 0; k < edges.size(); ++k) {
      ASSERT_LT(colors[k], MaxDegree(edges, vertices));
      ASSERT_TRUE(left.insert({edges[k].left, colors[k]}).second);
      ASSERT_TRUE(right.insert({edges[k].right, colors[k]}).second);
    }
  }
}

using Registers = std::map<std::pair<int64_t, int64_t>, int64_t>;  // (thread, slot) -> element

Registers Loaded(const Layout& l) {
  Registers registers;
  for (int64_t x = 0; x < l.size(); ++x) {
    for (const Coord& p : l.Apply(x)) {
      registers[{p[Axis::kLaneid] + 32 * p[Axis::kWarpid], p[Axis::kM]}] = x;
    }
  }
  return registers;
}

void Move(const Registers& from, const RegisterMove& m, int group, Registers* to) {
  for (int i = 0; i < group; ++i) {
    const auto it = from.find({m.from_thread, m.from_slot + i});
    ASSERT_NE(it, from.end());
    (*to)[{m.to_thread, m.to_slot + i}] = it->second;
  }
}

TEST(Property, MovesDeliverEveryElement) {
  Rng rng(29);
  std::map<MovePlan::Kind, int> kinds;
  int minimal = 0, shuffles = 0;
  for (int i = 0; i < kCases; ++i) {
    const int64_t slots = int64_t{1} << rng.Below(4);
    const bool two_warps = rng.Below(4) == 0;
    const auto registers = [&](bool replicas) {
      // Bits of the element index dealt to slots, lanes and warps in random order.
      std::vector<Iter> bits;
      for (int64_t s = 1; s < slots; s *= 2) bits.push_back({2, s, Axis::kM});
      for (int64_t s = 1; s < 8; s *= 2) bits.push_back({2, s, Axis::kLaneid});
      if (two_warps) bits.push_back({2, 1, Axis::kWarpid});
      if (rng.Below(3) == 0) {
        rng.Shuffle(&bits);
      } else if (bits.size() > 2) {
        const size_t a = rng.Below(bits.size());
        std::swap(bits[a], bits[rng.Below(bits.size())]);
      }
      std::vector<Iter> copies;
      if (replicas) copies.push_back({Between(&rng, 1, 4), 8, Axis::kLaneid});
      return *Layout::FromIters(bits, copies);
    };
    const Layout from = registers(rng.Below(3) == 0);
    const Layout to = registers(rng.Below(3) == 0);
    const int bits = 8 << rng.Below(3);
    const auto plan = PlanMove(from, to, bits, from.size());
    ASSERT_TRUE(plan.ok()) << plan.status();
    ++kinds[plan->kind];
    const Registers source = Loaded(from);
    const Registers wanted = Loaded(to);
    if (plan->kind == MovePlan::Kind::kShared) {
      bool possible = true;  // a shuffle was impossible
      for (const auto& [place, x] : wanted) {
        bool here = false;
        for (const auto& [other, y] : source)
          here = here || (x == y && other.first / 32 == place.first / 32);
        possible = possible && here;
      }
      ASSERT_FALSE(possible);
      continue;
    }
    Registers result = source;
    for (const RegisterMove& m : plan->local) {
      ASSERT_EQ(m.from_thread, m.to_thread);
      Move(source, m, plan->group, &result);
    }
    for (const auto& round : plan->rounds) {
      std::map<int64_t, int64_t> publishes;
      std::set<int64_t> receives;
      for (const RegisterMove& m : round) {
        ASSERT_EQ(m.from_thread / 32, m.to_thread / 32);
        ASSERT_EQ(publishes.emplace(m.from_thread, m.from_slot).first->second, m.from_slot);
        ASSERT_TRUE(receives.insert(m.to_thread).second);
        Move(source, m, plan->group, &result);
      }
    }
    for (const auto& [place, x] : wanted)
      ASSERT_EQ(result[place], x) << from.ToString() << to.ToString();
    if (plan->kind != MovePlan::Kind::kShuffle) continue;
    ++shuffles;
    ASSERT_GE(static_cast<int>(plan->rounds.size()), plan->rounds_lower_bound);
    if (from.copies() == 1 && to.copies() == 1) {
      ASSERT_EQ(static_cast<int>(plan->rounds.size()), plan->rounds_lower_bound);
    }
    minimal += static_cast<int>(plan->rounds.size()) == plan->rounds_lower_bound;
  }
  for (const auto kind : {MovePlan::Kind::kNone, MovePlan::Kind::kRegisters,
                          MovePlan::Kind::kShuffle, MovePlan::Kind::kShared}) {
    EXPECT_GT(kinds[kind], 20) << NameOf(kind);
  }
  EXPECT_GT(minimal, shuffles * 3 / 4);
}

// Every thread and slot of a planned loop runs, guarded by membership and f < n: each iteration
// once.
TEST(Property, PlannedLoopsRunEveryIterationOnce) {
  Rng rng(30);
  std::vector<std::array<int64_t, 3>> loops = {{514, 128, 1}, {60, 128, 1},    {192, 128, 1},
                                               {229, 128, 1}, {2560, 1024, 4}, {3072, 128, 8}};
  for (int i = 0; i < kCases; ++i) {
    loops.push_back({Between(&rng, 1, 300), Between(&rng, 1, 40), int64_t{1} << rng.Below(4)});
  }
  for (const auto& [n, threads, vector] : loops) {
    const Layout loop = *PlannedLoop(n, threads, vector);
    const auto inverse = Inverse::Of(loop);
    ASSERT_TRUE(inverse.ok());
    std::vector<int> runs(n);
    for (int64_t t = 0; t < threads; ++t) {
      for (int64_t slot = 0; slot < loop.Span(Axis::kM); ++slot) {
        const auto found = (*inverse)(Coord({{Axis::kTx, t}, {Axis::kM, slot}}));
        if (found && found->first < n) ++runs[found->first];
      }
    }
    ASSERT_EQ(runs, std::vector<int>(n, 1)) << n << " on " << threads << " by " << vector;
  }
}

// Sparse column reads: the loop that follows a fragment's column runs on the owners alone.
TEST(Property, ColumnReadsRunOnTheirOwners) {
  Rng rng(31);
  for (int i = 0; i < kCases; ++i) {
    const int64_t rows = Between(&rng, 1, 12);
    const int64_t columns = Between(&rng, 1, 24);
    const int64_t column = Between(&rng, 0, columns - 1);
    const Layout loop = *Layout::FromIters({{rows, columns, Axis::kTx}}, {}, {{Axis::kTx, column}});
    const auto inverse = Inverse::Of(loop);
    ASSERT_TRUE(inverse.ok());
    std::vector<int64_t> ran;
    for (int64_t t = 0; t < rows * columns + 7; ++t) {
      if (const auto found = (*inverse)(&t)) ran.push_back(found->first);
    }
    ASSERT_EQ(static_cast<int64_t>(ran.size()), rows);
    for (int64_t r = 0; r < rows; ++r) ASSERT_EQ(ran[r], r);
  }
}

TEST(Property, BitsViewIsTheTableWithItsGuards) {
  Rng rng(32);
  int viewed = 0, guards = 0;
  for (int i = 0; viewed < kCases; ++i) {
    ASSERT_LT(i, 100 * kCases);
    std::vector<Iter> shard;
    for (int k = 0; k < 3; ++k) {
      shard.push_back({int64_t{1} << rng.Below(3), int64_t{1} << rng.Below(5),
                       rng.Below(2) == 0 ? Axis::kM : Axis::kLaneid});
    }
    std::vector<SwizzleLayout> swizzles;
    if (rng.Below(2) == 0) swizzles.push_back({1, 2, 2, rng.Below(2) == 0});
    const Layout l =
        *Layout::FromIters(shard, {}, {{Axis::kM, int64_t{8} << rng.Below(3)}}, swizzles);
    const auto map = ToF2(l);
    if (!map.has_value()) continue;
    ++viewed;
    std::set<uint64_t> image;
    for (int64_t x = 0; x < l.size(); ++x) {
      ASSERT_EQ((*map)(x), map->Pack(l.Base(x))) << l.ToString();
      image.insert((*map)(x));
    }
    const F2Kernel kernel = Eliminate(*map);
    ASSERT_EQ(uint64_t{1} << kernel.rank, image.size()) << l.ToString();
    guards += static_cast<int>(kernel.guards.size());
    const auto parity = [&](uint64_t p, uint64_t mask) {
      return __builtin_parityll((p ^ map->constant) & mask);
    };
    for (uint64_t p = 0; p < uint64_t{1} << std::min(map->outputs, 12); ++p) {
      const bool member = std::none_of(kernel.guards.begin(), kernel.guards.end(),
                                       [&](uint64_t g) { return parity(p, g) != 0; });
      ASSERT_EQ(member, image.count(p) > 0) << l.ToString() << " at " << p;
      if (!member) continue;
      uint64_t index = 0;
      for (int b = 0; b < map->inputs; ++b) {
        index |= static_cast<uint64_t>(parity(p, kernel.section[b])) << b;
      }
      ASSERT_EQ((*map)(index), p) << l.ToString();
    }
  }
  EXPECT_GT(guards, kCases);
}

}  // namespace
}  // namespace kiln::layout

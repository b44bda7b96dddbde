// Ownership against its definition: plain sets of (thread, slot), element by element.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "compiler/layout/injective.h"
#include "compiler/layout/ownership.h"
#include "compiler/layout/witness.h"
#include "tests/property/layout/random_layout.h"

namespace kiln::layout {
namespace {

using Places = std::set<std::pair<int64_t, int64_t>>;  // (thread, slot)

std::set<int64_t> ThreadsOf(const Ownership& o, int64_t x) {
  std::set<int64_t> threads;
  for (int64_t t = 0; t < kMaxThreads; ++t) {
    if (o.Owners(x)[t]) threads.insert(t);
  }
  return threads;
}

Places PlacesOf(const Ownership& o, int64_t x) {
  Places places;
  for (const int64_t t : ThreadsOf(o, x)) places.insert({t, o.Slot(x)});
  return places;
}

bool Collides(const Ownership& o) {
  std::set<std::pair<int64_t, int64_t>> seen;
  for (int64_t x = 0; x < o.size(); ++x) {
    for (const auto& place : PlacesOf(o, x)) {
      if (!seen.insert(place).second) return true;
    }
  }
  return false;
}

// Any owners and slots, colliding or not, some elements undecided.
Ownership Random(Rng* rng, int64_t size, bool complete = false) {
  Ownership o(size);
  const int64_t threads = Between(rng, 1, 12), kinds = Between(rng, 1, 6);
  std::vector<ThreadSet> sets(kinds);
  for (ThreadSet& set : sets) {
    const int64_t members = Between(rng, 1, 3);
    for (int64_t i = 0; i < members; ++i) set.set(Between(rng, 0, threads - 1) * 85 % kMaxThreads);
  }
  for (int64_t x = 0; x < size; ++x) {
    if (!complete && Between(rng, 0, 7) == 0) continue;
    o.Set(x, sets[Between(rng, 0, kinds - 1)], Between(rng, 0, size));
  }
  return o;
}

TEST(OwnershipProperty, OfALayoutIsTheSetOfItsPoints) {
  Rng rng(101);
  int taken = 0, collided = 0, two_slots = 0;
  while (taken < kCases) {
    RandomOptions options{.max_size = 64, .swizzles = false, .negative_strides = false};
    options.axes = {Axis::kM, Axis::kLaneid, Axis::kWarpid};
    const Layout l = taken % 2 == 0 ? RandomLayout(&rng, options) : RandomTidyLayout(&rng, options);
    const int64_t size = Between(&rng, 1, l.size());
    // The definition: lanes and warps as threads of the block.
    std::vector<Places> want(size);
    bool inside = true, one_slot = true;
    std::set<std::pair<int64_t, int64_t>> seen;
    bool shared = false;
    for (int64_t x = 0; x < size; ++x) {
      for (auto& point : Defined(l, x)) {
        const int64_t thread = point[Axis::kWarpid] * 32 + point[Axis::kLaneid];
        inside = inside && thread >= 0 && thread < kMaxThreads && point[Axis::kM] >= 0;
        want[x].insert({thread, point[Axis::kM]});
      }
      for (const auto& place : want[x]) {
        one_slot = one_slot && place.second == want[x].begin()->second;
        shared = shared || !seen.insert(place).second;
      }
    }
    const auto got = Ownership::Of(l, size);
    if (!inside) continue;
    if (!got.ok() && absl::IsInvalidArgument(got.status()))
      continue;  // elements past `size` reach out
    ASSERT_EQ(got.ok(), one_slot && !shared) << l.ToString() << " " << got.status();
    (got.ok() ? taken : one_slot ? collided : two_slots)++;
    if (!got.ok()) {
      ASSERT_TRUE(WitnessOf(got.status()).has_value());
      continue;
    }
    for (int64_t x = 0; x < size; ++x) ASSERT_EQ(PlacesOf(*got, x), want[x]) << l.ToString();
  }
  EXPECT_GT(collided, 100);
  EXPECT_GT(two_slots, 100);
}

TEST(OwnershipProperty, ACollisionIsFoundExactlyWhereThereIsOne) {
  Rng rng(102);
  int yes = 0;
  for (int i = 0; i < kCases; ++i) {
    const Ownership o = Random(&rng, Between(&rng, 1, 30));
    const auto witness = FindCollision(o);
    ASSERT_EQ(witness.has_value(), Collides(o));
    if (!witness) continue;
    ++yes;
    ASSERT_LT(witness->element, witness->other);
    const std::pair<int64_t, int64_t> place = {witness->at[Axis::kTx], witness->at[Axis::kM]};
    ASSERT_TRUE(PlacesOf(o, witness->element).count(place));
    ASSERT_TRUE(PlacesOf(o, witness->other).count(place));
  }
  EXPECT_GT(yes, 1000);
  EXPECT_LT(yes, kCases - 1000);
}

TEST(OwnershipProperty, PackingKeepsOwnersAndNeverCollides) {
  Rng rng(103);
  for (int i = 0; i < kCases; ++i) {
    const Ownership o = Random(&rng, Between(&rng, 1, 30));
    const Ownership packed = o.Packed();
    std::map<int64_t, int64_t> held;  // by thread
    for (int64_t x = 0; x < o.size(); ++x) {
      ASSERT_EQ(packed.decided(x), o.decided(x));
      ASSERT_EQ(packed.Owners(x), o.Owners(x));
      // The lowest slot that is free in all owners.
      if (!o.decided(x)) continue;
      for (int64_t slot = 0; slot < packed.Slot(x); ++slot) {
        bool taken = false;
        for (int64_t y = 0; y < x; ++y) {
          taken = taken || (packed.decided(y) && packed.Slot(y) == slot &&
                            (packed.Owners(y) & packed.Owners(x)).any());
        }
        ASSERT_TRUE(taken) << "slot " << slot << " was free for element " << x;
      }
    }
    ASSERT_FALSE(Collides(packed));
  }
}

// Slots in element order, each the lowest that is free in all owners.
TEST(OwnershipProperty, PackingIsGreedy) {
  Rng rng(109);
  for (int i = 0; i < kCases; ++i) {
    const int64_t size = Between(&rng, 1, 40);
    // Planned: no thread is in two of the sets.
    const Ownership o = i % 2 ? Random(&rng, size)
                              : Ownership::Planned(size, {Between(&rng, 0, 9), Between(&rng, 1, 9)},
                                                   Between(&rng, 1, 3));
    const Ownership packed = o.Packed();
    Places taken;
    for (int64_t x = 0; x < size; ++x) {
      ASSERT_EQ(packed.Owners(x), o.Owners(x));
      if (!o.decided(x)) continue;
      int64_t slot = 0;
      const auto is_taken = [&](int64_t t) { return taken.count({t, slot}) > 0; };
      const std::set<int64_t> threads = ThreadsOf(o, x);
      while (std::any_of(threads.begin(), threads.end(), is_taken)) ++slot;
      ASSERT_EQ(packed.Slot(x), slot) << "element " << x;
      for (const int64_t t : threads) taken.insert({t, slot});
    }
  }
}

// Slots stay where they neither collide nor waste registers.
TEST(OwnershipProperty, SettledIsAsGivenOrPacked) {
  Rng rng(111);
  int kept = 0;
  for (int i = 0; i < kCases; ++i) {
    const int64_t size = Between(&rng, 1, 40);
    // Sets with a thread in common, sets without one, and no more slots than are needed.
    Ownership o = i % 2 ? Random(&rng, size)
                        : Ownership::Planned(size, {Between(&rng, 0, 9), Between(&rng, 1, 9)},
                                             Between(&rng, 1, 3));
    if (i % 3 == 0) o = o.Packed();
    const int64_t moved = Between(&rng, 0, size - 1);
    if (i % 4 == 0 && o.decided(moved)) o.Set(moved, o.Owners(moved), Between(&rng, 0, o.slots()));
    const Ownership packed = o.Packed();
    const bool keeps = !Collides(o) && packed.slots() >= o.slots();
    ASSERT_TRUE(o.Settled() == (keeps ? o : packed));
    kept += keeps ? 1 : 0;
  }
  EXPECT_GT(kept, kCases / 10);
  EXPECT_LT(kept, kCases * 9 / 10);
}

TEST(OwnershipProperty, PartsAreSetElementByElement) {
  Rng rng(110);
  for (int i = 0; i < kCases; ++i) {
    const Ownership o = Random(&rng, Between(&rng, 1, 40));
    ThreadSet some;
    for (int64_t t = 0; t < 12; ++t) some[t * 85 % kMaxThreads] = Between(&rng, 0, 1) == 1;
    std::vector<int64_t> access(Between(&rng, 1, 60));
    for (int64_t& x : access) x = Between(&rng, 0, o.size() - 1);
    Ownership within(o.size()), pulled(static_cast<int64_t>(access.size())), alike = o;
    std::vector<int32_t> ids;
    for (int64_t x = 0; x < o.size(); ++x) {
      if ((o.Owners(x) & some).any()) within.Set(x, o.Owners(x) & some, o.Slot(x));
    }
    for (size_t k = 0; k < access.size(); ++k) {
      if (!o.decided(access[k])) continue;
      pulled.Set(static_cast<int64_t>(k), o.Owners(access[k]), o.Slot(access[k]));
    }
    for (int64_t x = 0; x < o.size(); ++x) {
      if (within.decided(x)) alike.SetAs(x, within, x, &ids);
    }
    ASSERT_TRUE(o.Within(some) == within);
    ASSERT_TRUE(o.Pullback(access) == pulled);
    ASSERT_EQ(o.Pullback(access).slots(), pulled.slots());
    for (int64_t x = 0; x < o.size(); ++x) {
      ASSERT_EQ(alike.Owners(x), within.decided(x) ? within.Owners(x) : o.Owners(x));
    }
  }
}

TEST(OwnershipProperty, PlansDealOutGroupsAndNeverCollide) {
  Rng rng(104);
  for (int i = 0; i < kCases; ++i) {
    const int64_t size = Between(&rng, 1, 600), count = Between(&rng, 1, 140);
    const ThreadRange threads{Between(&rng, 0, 256), count};
    const int64_t width = int64_t{1} << Between(&rng, 0, 3);
    const Ownership o = Ownership::Planned(size, threads, width);
    ASSERT_FALSE(FindCollision(o).has_value());
    for (int64_t x = 0; x < size; ++x) {
      ASSERT_EQ(
          PlacesOf(o, x),
          (Places{{threads.first + x / width % count, x / width / count * width + x % width}}));
    }
    const int64_t round = width * count, full = (size - 1) / round;  // rounds before the last
    ASSERT_EQ(o.slots(), full * width + std::min(width, size - full * round));
  }
}

TEST(OwnershipProperty, ReadingNeedsContainmentAndWritingEquality) {
  Rng rng(105);
  int reads = 0, writes = 0, contained_only = 0;
  for (int i = 0; i < kCases; ++i) {
    const int64_t size = Between(&rng, 1, 20), iterations = Between(&rng, 1, 20);
    const Ownership buffer = Random(&rng, size);
    std::vector<int64_t> access(iterations);
    for (int64_t& a : access) a = Between(&rng, 0, size - 1);
    Ownership loop = i % 3 == 0 ? Random(&rng, iterations) : buffer.Pullback(access);
    if (i % 3 == 2) {  // one iteration by a part of the owners
      const int64_t k = Between(&rng, 0, iterations - 1);
      if (loop.decided(k)) {
        ThreadSet one;
        one.set(loop.Owners(k)._Find_first());
        loop.Set(k, one, 0);
      }
    }
    bool reads_right = true, writes_right = true;
    for (int64_t k = 0; k < iterations; ++k) {
      if (!loop.decided(k) || !buffer.decided(access[k])) continue;
      const auto runs = ThreadsOf(loop, k), holds = ThreadsOf(buffer, access[k]);
      reads_right =
          reads_right && std::includes(holds.begin(), holds.end(), runs.begin(), runs.end());
      writes_right = writes_right && runs == holds;
    }
    const auto read = FindReadMismatch(loop, access, buffer);
    const auto write = FindWriteMismatch(loop, access, buffer);
    ASSERT_EQ(read.has_value(), !reads_right);
    ASSERT_EQ(write.has_value(), !writes_right);
    reads += !reads_right;
    writes += !writes_right;
    contained_only += reads_right && !writes_right;
    if (read) {
      ASSERT_EQ(access[read->element], read->other);
      ASSERT_TRUE(loop.Owners(read->element)[read->at[Axis::kTx]]);
      ASSERT_FALSE(buffer.Owners(read->other)[read->at[Axis::kTx]]);
    }
    if (write) {
      const int64_t a = write->at[Axis::kTx], b = write->other_at[Axis::kTx];
      ASSERT_TRUE(loop.Owners(write->element)[a]);
      ASSERT_TRUE(buffer.Owners(write->other)[b]);
      ASSERT_TRUE(!buffer.Owners(write->other)[a] || !loop.Owners(write->element)[b]);
    }
  }
  EXPECT_GT(reads, 1000);
  EXPECT_GT(contained_only, 100);
  EXPECT_LT(writes, kCases - 1000);
}

TEST(OwnershipProperty, AFoldedElementBelongsToAllOwnersOfItsParts) {
  Rng rng(106);
  for (int i = 0; i < kCases; ++i) {
    const std::vector<int64_t> shape = {Between(&rng, 1, 5), Between(&rng, 1, 5),
                                        Between(&rng, 1, 4)};
    const int dim = static_cast<int>(Between(&rng, 0, 2));
    const Ownership o = Random(&rng, shape[0] * shape[1] * shape[2], i % 2 == 0);
    const Ownership folded = o.Reduced(shape, dim);
    std::vector<int64_t> rest = shape;
    rest.erase(rest.begin() + dim);
    ASSERT_EQ(folded.size(), rest[0] * rest[1]);
    for (int64_t y = 0; y < folded.size(); ++y) {
      std::vector<int64_t> at = Unflatten(y, rest);
      at.insert(at.begin() + dim, 0);
      std::set<int64_t> want;
      bool known = true;
      for (at[dim] = 0; at[dim] < shape[dim]; ++at[dim]) {
        const int64_t x = *Flatten(at, shape);
        known = known && o.decided(x);
        const auto part = ThreadsOf(o, x);
        want.insert(part.begin(), part.end());
      }
      ASSERT_EQ(folded.decided(y), known);
      if (known) ASSERT_EQ(ThreadsOf(folded, y), want);
    }
    ASSERT_FALSE(FindCollision(folded).has_value());
  }
}

TEST(OwnershipProperty, WhatHasDigitsComesBackFromItsLayout) {
  Rng rng(107);
  int back = 0, refused = 0;
  while (back < kCases) {
    const int64_t size = Between(&rng, 1, 128), count = Between(&rng, 1, 40);
    const ThreadRange threads{Between(&rng, 0, 64), count};
    const Ownership o = back % 4 == 0
                            ? Ownership::Replicated(size, threads)
                            : Ownership::Planned(size, threads, int64_t{1} << Between(&rng, 0, 2));
    const auto layout = o.ToLayout();
    if (!layout.ok()) {
      ASSERT_TRUE(WitnessOf(layout.status()).has_value()) << layout.status();
      ++refused;
      continue;
    }
    ++back;
    const auto again = Ownership::Of(*layout, size);
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_EQ(*again, o) << layout->ToString();
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace kiln::layout

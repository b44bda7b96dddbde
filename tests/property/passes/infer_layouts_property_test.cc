// Layout inference on random problems. What it accepts is executed thread by thread, every thread
// on registers of its own, and each value that a thread reads must be the one that the tile-level
// program reads there. What it refuses as a race is one.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/rng.h"
#include "compiler/passes/infer_layouts.h"

namespace kiln::passes {
namespace {

using layout::Ownership;

constexpr int kPrograms = 10000;

int64_t Between(Rng* rng, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(rng->Below(static_cast<uint64_t>(high - low + 1)));
}

// Which element each iteration touches: an affine walk, some of them broken on purpose.
std::vector<int64_t> RandomAccess(Rng* rng, int64_t iterations, int64_t size) {
  std::vector<int64_t> list(iterations);
  const int64_t kind = Between(rng, 0, 9), shift = Between(rng, 0, size - 1);
  const int64_t rows = Between(rng, 1, 4);
  for (int64_t i = 0; i < iterations; ++i) {
    if (kind <= 3) {
      list[i] = i % size;
    } else if (kind <= 5) {
      list[i] = (i + shift) % size;
    } else if (kind == 6) {
      list[i] = i * rows % size;
    } else if (kind == 7) {
      list[i] = (i % rows * ((iterations + rows - 1) / rows) + i / rows) % size;
    } else if (kind == 8) {
      list[i] = i < size ? i : -1;
    } else {
      list[i] = i / rows % size;
    }
  }
  return list;
}

LayoutProblem RandomProblem(Rng* rng) {
  LayoutProblem problem;
  problem.threads = {0, Between(rng, 1, 8)};
  // Some blocks have two parts, which do work of their own.
  std::vector<layout::ThreadRange> parts = {problem.threads};
  if (problem.threads.count > 1 && Between(rng, 0, 3) == 0) {
    const int64_t cut = Between(rng, 1, problem.threads.count - 1);
    parts.push_back({0, cut});
    parts.push_back({cut, problem.threads.count - cut});
  }
  const int64_t fragments = Between(rng, 1, 3);
  for (int64_t f = 0; f < fragments; ++f) {
    Fragment fragment;
    fragment.threads = problem.threads;
    fragment.buffer = ir::MakeBuffer(absl::StrCat("f", f), kFloat32, {}, ir::Scope::kFragment);
    fragment.shape = {Between(rng, 1, 4), Between(rng, 1, 6)};
    fragment.size = fragment.shape[0] * fragment.shape[1];
    fragment.floating = parts.size() == 1 && Between(rng, 0, 15) == 0;
    problem.fragments.push_back(fragment);
  }
  const int64_t operations = Between(rng, 1, 6);
  for (int64_t o = 0; o < operations; ++o) {
    Operation op;
    op.threads = parts[Between(rng, 0, static_cast<int64_t>(parts.size()) - 1)];
    op.name = absl::StrCat("loop ", o + 1);
    const auto use = [&](int64_t f, std::vector<std::vector<int64_t>> elements, bool writes) {
      FragmentUse u;
      u.fragment = static_cast<int>(f);
      u.writes = writes;
      u.reads = !writes || Between(rng, 0, 2) == 0;
      u.text = absl::StrCat("f", f, "[...]");
      u.elements = std::move(elements);
      op.uses.push_back(std::move(u));
    };
    const int64_t from = Between(rng, 0, fragments - 1), to = Between(rng, 0, fragments - 1);
    const Fragment &source = problem.fragments[from], &target = problem.fragments[to];
    if (from != to && Between(rng, 0, 4) == 0 && target.size >= source.shape[0]) {
      op.kind = OperationKind::kReduce;
      op.extents = source.shape;
      op.iterations = source.size;
      op.reduced_dim = 1;
      std::vector<int64_t> all(source.size), rows(source.shape[0]);
      std::iota(all.begin(), all.end(), 0);
      std::iota(rows.begin(), rows.end(), 0);
      use(from, {all}, false);
      use(to, {rows}, true);
      op.uses[1].reads = false;
    } else {
      op.iterations = Between(rng, 1, 2) == 1 ? target.size : Between(rng, 1, 24);
      op.extents = {op.iterations};
      op.vector_width = int64_t{1} << Between(rng, 0, 2);
      if (Between(rng, 0, 3) > 0) {
        std::vector<std::vector<int64_t>> lists = {RandomAccess(rng, op.iterations, source.size)};
        if (Between(rng, 0, 5) == 0) {
          lists.push_back(RandomAccess(rng, op.iterations, source.size));
          if (lists[0] == lists[1]) lists.pop_back();
        }
        use(from, std::move(lists), false);
      }
      if (Between(rng, 0, 3) > 0) use(to, {RandomAccess(rng, op.iterations, target.size)}, true);
    }
    problem.operations.push_back(std::move(op));
  }
  return problem;
}

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15ULL + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdULL;
  return x ^ (x >> 33);
}

// What the tile-level program holds, and what each thread's registers hold.
class Execution {
 public:
  Execution(const LayoutProblem& problem, const LayoutSolution& solution)
      : problem_(problem), solution_(solution) {
    for (size_t f = 0; f < problem.fragments.size(); ++f) {
      tiles_.emplace_back(problem.fragments[f].size);
      for (int64_t x = 0; x < problem.fragments[f].size; ++x) {
        tiles_[f][x] = Mix(f + 1, static_cast<uint64_t>(x));
        for (const int64_t t : OwnersOf(static_cast<int>(f), x)) Put(t, f, x, tiles_[f][x]);
      }
    }
  }

  // "" when every thread read what the tile-level program reads.
  std::string Run() {
    for (size_t o = 0; o < problem_.operations.size() && error_.empty(); ++o) {
      if (problem_.operations[o].kind == OperationKind::kReduce) {
        Reduce(o);
      } else {
        Loop(o);
      }
    }
    return error_;
  }

 private:
  std::vector<int64_t> Members(const layout::ThreadSet& set) const {
    std::vector<int64_t> members;
    for (int64_t t = 0; t < layout::kMaxThreads; ++t) {
      if (set[t]) members.push_back(t);
    }
    return members;
  }
  std::vector<int64_t> OwnersOf(int f, int64_t x) const {
    return Members(solution_.fragments[f].Owners(x));
  }
  void Put(int64_t thread, size_t f, int64_t x, uint64_t value) {
    registers_[{thread, f, solution_.fragments[f].Slot(x)}] = value;
  }
  void Check(size_t o, int64_t thread, int f, int64_t x) {
    if (!solution_.fragments[f].Owners(x)[thread]) {
      error_ =
          absl::StrCat("operation ", o, ": thread ", thread, " has no copy of f", f, "[", x, "]");
      return;
    }
    const uint64_t got =
        registers_.at({thread, static_cast<size_t>(f), solution_.fragments[f].Slot(x)});
    if (got != tiles_[f][x]) {
      error_ =
          absl::StrCat("operation ", o, ": thread ", thread, " reads a stale f", f, "[", x, "]");
    }
  }

  // Nobody else does what a part of the block does.
  void CheckPart(size_t o, const layout::ThreadSet& threads) {
    if ((threads & ~problem_.operations[o].threads.Set()).none()) return;
    error_ = absl::StrCat("operation ", o, " leaves its threads: ", layout::ToString(threads));
  }

  void Loop(size_t o) {
    const Operation& op = problem_.operations[o];
    // All iterations see the values from before: they are independent, or it is a race.
    std::vector<std::tuple<int, int64_t, uint64_t, std::vector<int64_t>>> writes;
    for (int64_t i = 0; i < op.iterations; ++i) {
      const std::vector<int64_t> threads = Members(solution_.loops[o].Owners(i));
      CheckPart(o, solution_.loops[o].Owners(i));
      if (threads.empty()) error_ = absl::StrCat("operation ", o, ": nobody runs iteration ", i);
      uint64_t value = Mix(o + 100, static_cast<uint64_t>(i));
      for (const FragmentUse& use : op.uses) {
        if (!use.reads) continue;
        for (const auto& list : use.elements) {
          if (list[i] < 0) continue;
          for (const int64_t t : threads) Check(o, t, use.fragment, list[i]);
          value = Mix(value, tiles_[use.fragment][list[i]]);
        }
      }
      for (const FragmentUse& use : op.uses) {
        if (!use.writes) continue;
        for (const auto& list : use.elements) {
          if (list[i] >= 0) writes.push_back({use.fragment, list[i], value, threads});
        }
      }
    }
    for (const auto& [f, x, value, threads] : writes) {
      tiles_[f][x] = value;
      for (const int64_t t : threads) Put(t, static_cast<size_t>(f), x, value);
    }
  }

  // The result goes to whoever holds it, with or without a part of the row (partition_reduction.h).
  void Reduce(size_t o) {
    const Operation& op = problem_.operations[o];
    const FragmentUse &from = op.uses[0], &to = op.uses[1];
    for (int64_t row = 0; row < op.extents[0]; ++row) {
      uint64_t value = 7;
      for (int64_t k = 0; k < op.extents[1]; ++k) {
        const int64_t x = from.elements[0][row * op.extents[1] + k];
        const layout::ThreadSet here =
            solution_.fragments[from.fragment].Owners(x) & op.threads.Set();
        if (here.none()) error_ = absl::StrCat("operation ", o, ": nobody has a part ", x);
        for (const int64_t t : Members(here)) Check(o, t, from.fragment, x);
        value = Mix(value, tiles_[from.fragment][x]);
      }
      const int64_t y = to.elements[0][row];
      tiles_[to.fragment][y] = value;
      CheckPart(o, solution_.fragments[to.fragment].Owners(y));
      for (const int64_t t : OwnersOf(to.fragment, y)) {
        Put(t, static_cast<size_t>(to.fragment), y, value);
      }
    }
  }

  const LayoutProblem& problem_;
  const LayoutSolution& solution_;
  std::vector<std::vector<uint64_t>> tiles_;
  std::map<std::tuple<int64_t, size_t, int64_t>, uint64_t> registers_;
  std::string error_;
};

// Two iterations of a loop that meet in an element which one of them writes.
bool HasRace(const LayoutProblem& problem) {
  for (const Operation& op : problem.operations) {
    if (op.kind != OperationKind::kLoop) continue;
    for (const FragmentUse& write : op.uses) {
      for (const FragmentUse& other : op.uses) {
        if (!write.writes || other.fragment != write.fragment) continue;
        for (const auto& a : write.elements) {
          for (const auto& b : other.elements) {
            for (size_t i = 0; i < a.size(); ++i) {
              for (size_t j = 0; j < b.size(); ++j) {
                if (i != j && a[i] >= 0 && a[i] == b[j]) return true;
              }
            }
          }
        }
      }
    }
  }
  return false;
}

TEST(InferLayoutsProperty, WhatIsAcceptedRunsRightOnEveryThread) {
  Rng rng(201);
  int accepted = 0, races = 0, refused = 0;
  while (accepted < kPrograms) {
    const LayoutProblem problem = RandomProblem(&rng);
    const auto solution = InferLayouts({}, problem);
    const bool race =
        !solution.ok() && absl::StrContains(solution.status().message(), "iterations");
    ASSERT_EQ(race, HasRace(problem)) << solution.status();
    if (!solution.ok()) {
      (race ? races : refused)++;
      ASSERT_EQ(solution.status().code(), absl::StatusCode::kFailedPrecondition);
      ASSERT_TRUE(DiagnosticOf(solution.status()).has_value());
      continue;
    }
    ++accepted;
    for (const Ownership& fragment : solution->fragments) {
      ASSERT_FALSE(layout::FindCollision(fragment).has_value());
    }
    ASSERT_EQ(Execution(problem, *solution).Run(), "") << "program " << accepted;
  }
  EXPECT_GT(races, 500);
  EXPECT_GT(refused, 100);
}

// The order of operations that share no fragment, and a fragment that nothing touches, change
// nothing about what is accepted.
TEST(InferLayoutsProperty, IndependentChangesKeepLegality) {
  Rng rng(202);
  int swapped = 0;
  for (int n = 0; n < kPrograms; ++n) {
    LayoutProblem problem = RandomProblem(&rng);
    const bool before = InferLayouts({}, problem).ok();
    Fragment unused = problem.fragments[0];
    unused.floating = false;
    problem.fragments.push_back(unused);
    ASSERT_EQ(InferLayouts({}, problem).ok(), before);
    for (size_t o = 0; o + 1 < problem.operations.size(); ++o) {
      std::set<int> first;
      bool meets = false;
      for (const FragmentUse& use : problem.operations[o].uses) first.insert(use.fragment);
      for (const FragmentUse& use : problem.operations[o + 1].uses) {
        meets |= first.count(use.fragment) > 0;
      }
      if (meets) continue;
      std::swap(problem.operations[o], problem.operations[o + 1]);
      ASSERT_EQ(InferLayouts({}, problem).ok(), before) << "swapping operations " << o;
      ++swapped;
    }
  }
  EXPECT_GT(swapped, 500);
}

}  // namespace
}  // namespace kiln::passes

#include "compiler/passes/layout_cost.h"

#include <algorithm>

namespace kiln::passes {
namespace {

using layout::Ownership;
using layout::ThreadSet;

// Whether iterations [i, i + run) are one thread's, from a multiple of their number.
bool OneRun(const Ownership& loop, int64_t i, int64_t run) {
  if (i % run != 0 || i + run > loop.size()) return false;
  for (int64_t k = 1; k < run; ++k) {
    if (loop.Owners(i + k) != loop.Owners(i)) return false;
  }
  return true;
}

int64_t Issues(const Operation& op, const Ownership& loop) {
  std::vector<int64_t> by_thread(layout::kMaxThreads, 0);
  for (int64_t i = 0; i < op.iterations;) {
    int64_t run = op.vector_width;
    while (run > 1 && !OneRun(loop, i, run)) run /= 2;
    const ThreadSet& owners = loop.Owners(i);
    for (size_t t = owners._Find_first(); t < owners.size(); t = owners._Find_next(t)) {
      ++by_thread[t];
    }
    i += run;
  }
  return *std::max_element(by_thread.begin(), by_thread.end());
}

}  // namespace

std::pair<int64_t, int64_t> CostOf(const LayoutProblem& problem, const std::vector<int>& component,
                                   const std::vector<Ownership>& fragments,
                                   const std::vector<Ownership>& loops, LayoutCost cost) {
  int64_t issues = 0, registers = 0;
  std::vector<bool> counted(problem.fragments.size(), false);
  for (const int o : component) {
    issues += Issues(problem.operations[o], loops[o]);
    for (const int f : FragmentsOf(problem.operations[o])) {
      if (counted[f]) continue;
      counted[f] = true;
      registers += fragments[f].Settled().slots();
    }
  }
  if (cost == LayoutCost::kRegisters) return {registers, 0};
  return {issues, registers};
}

}  // namespace kiln::passes

#include "compiler/passes/layout_roots.h"

#include <algorithm>
#include <numeric>

namespace kiln::passes {
namespace {

constexpr size_t kAllRoots = 48;
constexpr size_t kFewestRoots = 8;

}  // namespace

std::vector<std::vector<int>> OpenComponents(const LayoutProblem& problem,
                                             const std::vector<bool>& done) {
  std::vector<int> root(problem.operations.size());
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](int o) {
    while (root[o] != o) o = root[o] = root[root[o]];
    return o;
  };
  std::vector<int> first(problem.fragments.size(), -1);
  for (size_t o = 0; o < problem.operations.size(); ++o) {
    for (const int f : FragmentsOf(problem.operations[o])) {
      if (first[f] < 0) first[f] = static_cast<int>(o);
      const int a = find(first[f]), b = find(static_cast<int>(o));
      root[std::max(a, b)] = std::min(a, b);
    }
  }
  std::vector<std::vector<int>> components(problem.operations.size());
  for (size_t o = 0; o < problem.operations.size(); ++o) {
    components[find(static_cast<int>(o))].push_back(static_cast<int>(o));
  }
  std::vector<std::vector<int>> open;
  for (auto& component : components) {
    if (std::any_of(component.begin(), component.end(), [&](int o) { return !done[o]; })) {
      open.push_back(std::move(component));
    }
  }
  return open;
}

std::vector<int> RootsOf(const LayoutProblem& problem, std::vector<int> component) {
  if (component.size() <= kAllRoots) return component;
  std::stable_sort(component.begin(), component.end(), [&](int a, int b) {
    return problem.operations[a].accesses.size() > problem.operations[b].accesses.size();
  });
  return component;
}

size_t MostRoots(size_t operations) {
  if (operations <= kAllRoots) return operations;
  return std::max(kFewestRoots, kAllRoots * kAllRoots / operations);
}

}  // namespace kiln::passes

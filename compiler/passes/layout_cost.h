// What a choice of layouts costs, for comparing the candidates of free mode.
#ifndef KILN_COMPILER_PASSES_LAYOUT_COST_H_
#define KILN_COMPILER_PASSES_LAYOUT_COST_H_

#include <utility>
#include <vector>

#include "compiler/passes/layout_problem.h"

namespace kiln::passes {

// What to make small when there is a choice.
enum class LayoutCost : uint8_t {
  kIssue,      // instructions that access memory, then registers
  kRegisters,  // registers alone
};

// The cost of the operations `component` and of the fragments that they touch, the more important
// figure first. Instructions are those that one thread issues at most.
std::pair<int64_t, int64_t> CostOf(const LayoutProblem& problem, const std::vector<int>& component,
                                   const std::vector<layout::Ownership>& fragments,
                                   const std::vector<layout::Ownership>& loops, LayoutCost cost);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_LAYOUT_COST_H_

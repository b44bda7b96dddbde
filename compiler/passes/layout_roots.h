// Where free mode of layout inference starts: what hangs together, and which loops are tried first.
#ifndef KILN_COMPILER_PASSES_LAYOUT_ROOTS_H_
#define KILN_COMPILER_PASSES_LAYOUT_ROOTS_H_

#include <cstddef>
#include <vector>

#include "compiler/passes/layout_problem.h"

namespace kiln::passes {

// Operations that share fragments, directly or through others; of those groups the ones in which
// something is not `done`. Groups and what is in them in program order.
std::vector<std::vector<int>> OpenComponents(const LayoutProblem& problem,
                                             const std::vector<bool>& done);

// The operations of a component in the order in which they are tried as roots: as they come where
// all are tried, else those first that access memory most, which decide the price.
std::vector<int> RootsOf(const LayoutProblem& problem, std::vector<int> component);

// How many of them are tried where one is found to do: all, of up to 48. A try costs what the
// component is large, so of more there are as many fewer.
size_t MostRoots(size_t operations);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_LAYOUT_ROOTS_H_

// Layouts for a launch, also where a loop reads elements of a fragment that no thread holds
// together: x[2 * i] beside x[2 * i + 1] where a matrix instruction or another loop has dealt them
// out otherwise. Such a loop reads a copy of the fragment in shared memory. Where the layouts let
// several threads run an iteration, its updates of memory are staged (stage_updates.h).
#ifndef KILN_COMPILER_PASSES_PLACE_LAUNCH_H_
#define KILN_COMPILER_PASSES_PLACE_LAUNCH_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/passes/infer_layouts.h"
#include "compiler/passes/layout_problem.h"

namespace kiln::passes {

struct PlacedLaunch {
  ir::Stmt launch;  // the one that was given, with the copies
  LayoutProblem problem;
  LayoutSolution solution;
  std::vector<std::string> copies;  // "'x' is copied to shared memory for loop 3 (i)"
};

// Errors: those of CollectLayoutProblem; of InferLayouts the first refusal, where copies of what a
// loop only reads do not help.
absl::StatusOr<PlacedLaunch> PlaceLaunch(const ir::Program& program, const ir::Stmt& launch,
                                         const target::Arch& gpu,
                                         LayoutCost cost = LayoutCost::kTraffic);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_PLACE_LAUNCH_H_

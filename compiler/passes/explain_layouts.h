// The story of a layout inference, for people: what each step decided and why, and where everything
// ended up.
#ifndef KILN_COMPILER_PASSES_EXPLAIN_LAYOUTS_H_
#define KILN_COMPILER_PASSES_EXPLAIN_LAYOUTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "compiler/passes/infer_layouts.h"
#include "compiler/passes/pass.h"

namespace kiln::passes {

// The steps in order, then for every fragment its registers a thread, its digits where it has some,
// and a picture (thread:slot of each element; the first rows and columns of a large one), then who
// runs each loop.
std::string TellStory(const LayoutProblem& problem, const LayoutSolution& solution);

// The stories of all launches of an elaborated program, one after the other; the error of a refused
// one is returned.
absl::StatusOr<std::string> ExplainLayouts(const ir::Program& program, LayoutCost cost,
                                           const PassContext& context = {});

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_EXPLAIN_LAYOUTS_H_

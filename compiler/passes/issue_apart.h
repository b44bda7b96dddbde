// Pass "issue-apart": where a block takes turns over tiles and one warp runs the loop of products
// in tensor memory, that warp becomes a part of its own, beside the one that fetches, and the sums
// have two places: the products of the next tile go on while the others load and store the last
// one. Two barriers a place say when its sums are there, and when they have been loaded. It needs
// the loop as overlap-products leaves it, and twice the columns.
#ifndef KILN_COMPILER_PASSES_ISSUE_APART_H_
#define KILN_COMPILER_PASSES_ISSUE_APART_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> IssueApart(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_ISSUE_APART_H_

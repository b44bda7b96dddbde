#ifndef KILN_COMPILER_PASSES_FORWARD_COPIES_H_
#define KILN_COMPILER_PASSES_FORWARD_COPIES_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// Drops tiles that are copied from a global tensor and read only once. Where a shared or fragment
// tile is written by exactly one Copy, wholly inside the tensor, and its only reader is one Gemm or
// Reduce later in the same Seq for which staging buys nothing (a Gemm of few rows streaming B; a
// Reduce), the reader takes the tensor's region and the copy and the tile go. Needs: no write to
// the tensor in the kernel, nothing between copy and reader that changes which part of it the copy
// names.
absl::StatusOr<ir::Program> ForwardCopies(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_FORWARD_COPIES_H_

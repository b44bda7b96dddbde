// Copies between regions of one buffer. A copy means that all of the source is read before any of
// the destination is written; tiles of other buffers keep that by themselves.
#ifndef KILN_COMPILER_IR_OVERLAP_H_
#define KILN_COMPILER_IR_OVERLAP_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/stmt.h"

namespace kiln::ir {

// Copies whose regions may overlap go by way of a fragment. Views must be resolved: two names of
// one memory would not be seen to be one. Extents may mention the tunables that are `open`;
// Unimplemented (a diagnostic) where they are only known when the kernel runs.
absl::StatusOr<Stmt> StageOverlaps(const Stmt& body, const std::vector<Expr>& open,
                                   const SourceFile& source);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_OVERLAP_H_

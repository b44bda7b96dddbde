// Scans become loops.
//
//   CPU  one running value a row, or a row of them where the scanned dimension is not the last
//   GPU  rows are cut into chunks, one a thread, by way of shared memory:
//          parallel(rows, chunks): a chunk's running values, and its total
//          parallel(rows, chunks of chunks): the same of the totals, until one chunk is left
//          parallel(elements): what came before the chunk, and the running value
//
// Runs before anything looks at loops. Elements of the running type (ReduceArithmetic) take shared
// memory of their own, which the launch declares first.
#ifndef KILN_COMPILER_PASSES_LOWER_SCANS_H_
#define KILN_COMPILER_PASSES_LOWER_SCANS_H_

#include "absl/status/statusor.h"
#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> LowerScansCpu(const ir::Program& program, const PassContext& context);
absl::StatusOr<ir::Program> LowerScansGpu(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_LOWER_SCANS_H_

// Neighbouring stores that may be copies which go on by themselves. Private to unroll-lanes.
#ifndef KILN_COMPILER_PASSES_ASYNC_LANES_H_
#define KILN_COMPILER_PASSES_ASYNC_LANES_H_

#include <vector>

#include "compiler/ir/analysis.h"

namespace kiln::passes {

// Instruction::kAsyncCopy for the stores of some lanes, 16, 8 or 4 bytes each, whichever is the
// widest that all lie at multiples of. Undefined where they are no such stores.
ir::Stmt AsyncCopies(const std::vector<ir::Stmt>& lanes, const ir::Facts& facts);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_ASYNC_LANES_H_

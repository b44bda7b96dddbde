// The results of a launch's matrix products, as a whole.
#ifndef KILN_COMPILER_PASSES_PRODUCT_RESULTS_H_
#define KILN_COMPILER_PASSES_PRODUCT_RESULTS_H_

#include <cstdint>

#include "compiler/ir/stmt.h"
#include "compiler/target/arch.h"

namespace kiln::passes {

// Whether one of them lies in tensor memory.
bool HoldsSums(const ir::Launch& launch);

// Elements of the widest, as far as extents are known; 0 where there are none.
int64_t WidestResult(const ir::Launch& launch);

// Columns of the last that one warp of `threads` holds; 1 where there are none.
int64_t SpanOfResults(const ir::Program& program, const ir::Launch& launch, int64_t threads,
                      const target::Arch& gpu);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_PRODUCT_RESULTS_H_

// Pass "store-matrices": 16-bit results that go from registers to a tile of shared memory, held the
// way that matrix instructions leave them, are stored eight elements of a row at a time by a warp
// together (stmatrix, PTX 9.7.14.5.16) where the GPU has it:
//
//   for threads: for step in (32): tile[f(thread, step)] = half(c[thread, g(step)])
//   for threads: for step in (4):  store_matrices(tile[f'(thread, step) : +8], 8 values)
//
// A lane that gives the place of a row is another than those that hold it, so f' is f as the holder
// of the row's first element has it. That rows lie so, swizzled or not, is evaluated for every
// thread and step; where the tile is filled column by column, matrices are transposed on the way.
// One instruction does the work of two or four stores of pairs, or of two to eight stores of single
// elements; where it would replace no more than one, stores stay. Needs loops over whole warps and
// places that depend on the thread and the step alone.
#ifndef KILN_COMPILER_PASSES_STORE_MATRICES_H_
#define KILN_COMPILER_PASSES_STORE_MATRICES_H_

#include <string>

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> StoreMatrices(const ir::Program& program, const PassContext& context);

// What the pass makes of a loop over threads that stores 16-bit values from registers to shared
// memory, for people: "4 matrices an instruction, in place of 4 stores of pairs", or why not. Empty
// for any other statement.
std::string MatricesVerdict(const ir::Stmt& s);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_STORE_MATRICES_H_

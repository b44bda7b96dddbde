// A matrix product's operands as tiles of their own that are K-major, as instructions of tensor
// cores want them, where they lie otherwise.
#ifndef KILN_COMPILER_PASSES_TURN_OPERANDS_H_
#define KILN_COMPILER_PASSES_TURN_OPERANDS_H_

#include <vector>

#include "compiler/ir/stmt.h"
#include "compiler/layout/ownership.h"
#include "compiler/target/arch.h"

namespace kiln::passes {

struct Turned {
  std::vector<ir::Stmt> before;  // tiles, and the loops that fill them
  ir::Stmt gemm;                 // undefined: the product stays as it is
  int64_t bytes = 0;             // of shared memory, for the tiles
};

// `gemm` of `program`, which `threads` do, where its operands are turned first:
//   8 bits: where that makes wgmma or mma.sync of what vector units would multiply ("kiln.turn": 0
//           leaves it to them)
//   tf32:   with "kiln.turn": 1, where that makes wgmma of mma.sync; rounded on the way
Turned TurnOperands(const ir::Program& program, const ir::Gemm& gemm, layout::ThreadRange threads,
                    const target::Arch& gpu);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_TURN_OPERANDS_H_

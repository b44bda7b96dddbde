// Registers have no addresses: an index into them must be the same in all threads once loops are
// unrolled. Where it is, but only arithmetic on all threads shows it ((step * 96 + thread) // 24 //
// 16), this pass looks it up by the loops' variables instead. What does differ between threads is
// left as it is, and lands in local memory.
#ifndef KILN_COMPILER_PASSES_SETTLE_REGISTERS_H_
#define KILN_COMPILER_PASSES_SETTLE_REGISTERS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> SettleRegisters(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_SETTLE_REGISTERS_H_

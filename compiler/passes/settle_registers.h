// Registers have no addresses: an index into them must be the same in all threads once loops are
// unrolled. Where it is, but only arithmetic on all threads shows it ((step * 96 + thread) // 24 //
// 16), this pass looks it up by the loops' variables instead. Where threads use a few slots at one
// place of the loops (a step that ends one row and begins the next), each access becomes a choice
// among those, by comparisons that fold away wherever there is one. That is done for all accesses
// to a buffer or for none: one that differs by more puts it into local memory, where an index costs
// less than a choice.
#ifndef KILN_COMPILER_PASSES_SETTLE_REGISTERS_H_
#define KILN_COMPILER_PASSES_SETTLE_REGISTERS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> SettleRegisters(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_SETTLE_REGISTERS_H_

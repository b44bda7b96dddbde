// Pass "even-registers" (Hopper): takes the shares of an SM's registers (max_registers) out of a
// launch in which every thread does with as many as the others. An assembler allots registers for
// each share apart, which takes it longer, and what it makes is no quicker. After all passes that
// give threads something to hold.
#ifndef KILN_COMPILER_PASSES_EVEN_REGISTERS_H_
#define KILN_COMPILER_PASSES_EVEN_REGISTERS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> EvenRegisters(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_EVEN_REGISTERS_H_

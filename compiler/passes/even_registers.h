// Pass "even-registers" (Hopper): takes the shares of an SM's registers (max_registers) out of a
// launch whose threads are likely to do with as many each: they multiply by wgmma, call no
// functions, load nothing from tensors by themselves, and hold in buffers what fits. It notes that
// on the launch. An assembler allots registers for each share apart, which takes it longer, and
// what it makes is no quicker. Whoever finds that it spills after all asks for the shares:
// "kiln.even_registers": 0. After all passes that give threads something to hold.
#ifndef KILN_COMPILER_PASSES_EVEN_REGISTERS_H_
#define KILN_COMPILER_PASSES_EVEN_REGISTERS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// The pass option, and the note of a launch that had shares.
inline constexpr char kEvenRegisters[] = "kiln.even_registers";

absl::StatusOr<ir::Program> EvenRegisters(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_EVEN_REGISTERS_H_

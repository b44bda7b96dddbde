// Pass "compare-quotients": a quotient by a constant that takes two values is a comparison: of b in
// [0, 66) the turns (57 - b) // 66 + 4 are 4 where b <= 57, else 3. A GPU divides by multiplying,
// some eight instructions one after the other, and an assembler's time goes by instructions.
// So is a remainder whose operand holds no other. Powers of two are shifts, and stay.
#ifndef KILN_COMPILER_PASSES_COMPARE_QUOTIENTS_H_
#define KILN_COMPILER_PASSES_COMPARE_QUOTIENTS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> CompareQuotients(const ir::Program& program,
                                             const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_COMPARE_QUOTIENTS_H_

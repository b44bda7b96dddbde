// Pass "count-remainders": in a loop that waits for tiles, remainders of its variable that say
// which version of a tile an instruction means (k % 3), and which phase of its barrier
// (k // 3 % 2), become counters that go round with the loop. A GPU divides by multiplying, one
// instruction after the other, before it can even ask whether the tile is there. Remainders by
// powers of two are one instruction and stay, as does what the kernel computes elsewhere.
#ifndef KILN_COMPILER_PASSES_COUNT_REMAINDERS_H_
#define KILN_COMPILER_PASSES_COUNT_REMAINDERS_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> CountRemainders(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_COUNT_REMAINDERS_H_

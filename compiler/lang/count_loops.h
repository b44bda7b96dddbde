// Loops under a condition that count by a variable, as loops that are counted. Private to
// compiler/lang.
//
//   v = first                                    for t in range(ceildiv(last - first, step)):
//   while v < last:                     =>         ... first + t * step ...
//     ... v ...                                    v = first + (t + 1) * step
//     v = v + step
//
// Parts of a block that each walk their tiles so (T.PersistentTileScheduler) then stand in loops of
// the same number of turns, and schedule_parts can have them take turns.
#ifndef KILN_COMPILER_LANG_COUNT_LOOPS_H_
#define KILN_COMPILER_LANG_COUNT_LOOPS_H_

#include <functional>

#include "compiler/ir/stmt.h"

namespace kiln::lang {

// `launch` with every `while` loop counted that `holds` what is looked for (HoldsBarrier, a meeting
// of the cluster), is left by its condition alone, and whose condition compares a variable, which
// begins with what is known without a load and changes by a constant at the end of each turn, with
// what stays as it is. In such a loop, other variables that change with it are what they are in
// turn t, too, as long as that holds in the first. The variables are kept; only what is read of
// them is replaced.
ir::Stmt CountLoops(const ir::Stmt& launch, const std::function<bool(const ir::Stmt&)>& holds);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_COUNT_LOOPS_H_

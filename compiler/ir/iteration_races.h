// Iterations of parallel loops, and threads of a kernel that speaks of them, that certainly meet in
// an element: both store to it, or one stores to what the other reads. They are in no order, so
// that what comes out is nobody's to say. The same for every target.
//
// Certain is what follows from the text: every index is a part that the loop decides plus a part
// that is the same for all of its iterations, and every condition is known, or the same for all.
// What hangs on values in memory the interpreter finds when it runs. Two iterations may not even
// store the same value; threads may, as far as values are known.
#ifndef KILN_COMPILER_IR_ITERATION_RACES_H_
#define KILN_COMPILER_IR_ITERATION_RACES_H_

#include "absl/status/status.h"
#include "compiler/ir/stmt.h"

namespace kiln::ir {

// InvalidArgument (a diagnostic) for the first such pair, in program order.
absl::Status CheckIterations(const Program& program);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_ITERATION_RACES_H_

// What stays the same while a kernel runs.
#ifndef KILN_COMPILER_IR_FIXED_H_
#define KILN_COMPILER_IR_FIXED_H_

#include "compiler/ir/stmt.h"

namespace kiln::ir {

// True when a load of what may change while `program` runs stands in `e`: of anything but tensors
// that the caller gives and no statement writes.
bool ReadsWhatChanges(const Expr& e, const Program& program);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_FIXED_H_

// Fragments that may as well be held turned, rows for columns. Asked by the pass that turns them
// (passes/load_operands) and by the recommender, before tunables have values.
#ifndef KILN_COMPILER_IR_TURNABLE_H_
#define KILN_COMPILER_IR_TURNABLE_H_

#include "compiler/ir/stmt.h"

namespace kiln::ir {

// Whether products of the whole block write all of a fragment of two dimensions, and all else in
// the launch is as easy for whoever holds it turned: it is filled and copied as a whole, and
// parallel loops look at one element of it, and of what they hold with it, in an iteration: that at
// their axes. What is held with it is no operand of anything.
bool IsTurnable(const Launch& launch, const Buffer& fragment);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_TURNABLE_H_

// Fragments that may as well be held turned, rows for columns. Asked by the pass that turns them
// (passes/load_operands) and by the recommender, before tunables have values.
#ifndef KILN_COMPILER_IR_TURNABLE_H_
#define KILN_COMPILER_IR_TURNABLE_H_

#include "compiler/ir/stmt.h"

namespace kiln::ir {

// Whether products of the whole block write all of a fragment of two dimensions, and nobody else
// says who holds it, or what is held with it: it is filled, copied and looked at element by
// element.
bool IsTurnable(const Launch& launch, const Buffer& fragment);

// Whether threads fill a fragment with what lies in memory, and only products read it, as their
// left operand: then it may be held in any way.
bool IsLoaded(const Stmt& body, const Buffer& fragment);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_TURNABLE_H_

// Predicates of element accesses, and the values that reductions start from. Small pure
// functions that elaboration and the passes share.
#ifndef KILN_COMPILER_IR_ACCESS_H_
#define KILN_COMPILER_IR_ACCESS_H_

#include <vector>

#include "compiler/ir/stmt.h"

namespace kiln::ir {

// a && b where either may be undefined (= true).
Expr AndPredicate(const Expr& a, const Expr& b);

// The greatest or least value of a scalar type; infinities of floats.
Expr Extreme(DType type, bool greatest);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_ACCESS_H_

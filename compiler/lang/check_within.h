// Accesses that leave their tile whatever the arguments are. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_CHECK_WITHIN_H_
#define KILN_COMPILER_LANG_CHECK_WITHIN_H_

#include "absl/status/status.h"
#include "compiler/ir/stmt.h"

namespace kiln::lang {

// kInvalidArgument with a diagnostic at the first element of a shared, fragment or local buffer
// that is certainly touched and certainly outside: its index is a sum of axes of loops and blocks
// with constant extents, and no condition, while loop or break stands before it. What depends on
// data or on run-time sizes is the interpreter's to find; tensors are masked and need no proof.
absl::Status CheckWithin(const ir::Program& program);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_CHECK_WITHIN_H_

// The verifier: run after elaboration and, in debug, after every pass.
#ifndef KILN_COMPILER_IR_VERIFY_H_
#define KILN_COMPILER_IR_VERIFY_H_

#include "absl/status/status.h"
#include "compiler/ir/stmt.h"

namespace kiln::ir {

// kInternal with the first violation: a variable or buffer used outside its scope or bound twice,
// a dtype or rank mismatch, a non-bool condition, a tile op whose shapes cannot match, a Launch
// inside a Launch, a Break outside a loop, an undefined child.
absl::Status Verify(const Program& program);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_VERIFY_H_

// Loops over tiles that are waited for, multiplied and handed back. Shared by the passes that let
// products run beside what follows them.
#ifndef KILN_COMPILER_PASSES_PRODUCT_LOOPS_H_
#define KILN_COMPILER_PASSES_PRODUCT_LOOPS_H_

#include <vector>

#include "compiler/ir/instruct.h"

namespace kiln::passes {

// The statements of a body, of nested sequences too.
std::vector<ir::Stmt> Flatten(const ir::Stmt& body);

bool Is(const ir::Stmt& s, ir::Instruction op);

// Waits until all but the last `left` products are over; `ended` are registers of those. `late`:
// what comes before the wait is to be done before it.
ir::Stmt WaitForProducts(SourceLoc loc, std::vector<ir::Region> ended, int64_t left,
                         bool late = false);

// Whether a tile that `arrival` hands back has another version: it may be handed back one step
// late.
bool HasVersions(const ir::Stmt& arrival);

// The statements at another value of the loop's variable, with names of their own.
ir::Stmt At(const std::vector<ir::Stmt>& stmts, const ir::Axis& axis, const ir::Expr& value,
            SourceLoc loc);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_PRODUCT_LOOPS_H_

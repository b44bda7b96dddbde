// What clears the result of matrix products, and the first of them doing that instead. Of a
// sequence whose statements from one on hold all products on a fragment (ir/sums.h).
#ifndef KILN_COMPILER_PASSES_FIRST_PRODUCT_H_
#define KILN_COMPILER_PASSES_FIRST_PRODUCT_H_

#include <vector>

#include "compiler/ir/stmt.h"

namespace kiln::passes {

// The last of the statements that looks at the fragment or sets it; their number where none does.
size_t LastUse(const std::vector<ir::Stmt>& stmts, const ir::Buffer& sums);

// Whether it sets all of the fragment to zero.
bool Clears(const ir::Stmt& s, const ir::Buffer& sums);

// Whether it is known where the products in `s`, one or a loop, run: `runs` says it, and stays
// undefined where they certainly do.
bool ProductsRun(const ir::Stmt& s, ir::Expr* runs);

// Whether one of the statements may go on with, or leave, a loop around it.
bool MaySkip(const std::vector<ir::Stmt>& stmts);

// `s` with the first product on the fragment starting from zero; undefined where it is not known
// which one that is.
ir::Stmt WithFirstClearing(const ir::Stmt& s, const ir::Buffer& sums);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_FIRST_PRODUCT_H_

// What clears the result of matrix products, and the first of them doing that instead. Of a
// sequence whose statements from one on hold all products on a fragment (ir/sums.h).
#ifndef KILN_COMPILER_PASSES_FIRST_PRODUCT_H_
#define KILN_COMPILER_PASSES_FIRST_PRODUCT_H_

#include <vector>

#include "compiler/ir/stmt.h"

namespace kiln::passes {

// Which of the statements before the products sets all of the fragment to zero, so that they begin
// with that; their number where none does.
size_t FindClear(const std::vector<ir::Stmt>& before, const ir::Buffer& sums);

// Whether it is known where the products in `s`, one or a loop, run: `runs` says it, and stays
// undefined where they certainly do.
bool ProductsRun(const ir::Stmt& s, ir::Expr* runs);

// Whether the first product on the fragment in `s`, which certainly runs, starts from zero as it
// is.
bool StartsFromZero(const ir::Stmt& s, const ir::Buffer& sums);

// `s` with the first product on the fragment starting from zero; undefined where it is not known
// which one that is.
ir::Stmt WithFirstClearing(const ir::Stmt& s, const ir::Buffer& sums);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_FIRST_PRODUCT_H_

// Differences of index expressions in simplest form, so that `(k+1)*n - k*n` is `n` even when n is
// an open tunable.
#ifndef KILN_COMPILER_LANG_EXTENT_H_
#define KILN_COMPILER_LANG_EXTENT_H_

#include "compiler/ir/expr.h"

namespace kiln::lang {

// a - b, expanded as polynomials over their non-arithmetic parts and collected. Falls back to the
// plain difference when the expansion is large or a coefficient leaves 64 bits.
ir::Expr Difference(const ir::Expr& a, const ir::Expr& b);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_EXTENT_H_

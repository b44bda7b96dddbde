// Differences of index expressions in simplest form, so that `(k+1)*n - k*n` is `n` even when n is
// an open tunable.
#ifndef KILN_COMPILER_LANG_EXTENT_H_
#define KILN_COMPILER_LANG_EXTENT_H_

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/expr.h"

namespace kiln::lang {

// What Vars are bound to.
using Bound = absl::flat_hash_map<const ir::ExprNode*, ir::Expr>;

// a - b, expanded as polynomials over their non-arithmetic parts and collected; Vars of `bound` are
// seen through where that makes the difference a constant. Falls back to the plain difference when
// the expansion is large or a coefficient leaves 64 bits.
ir::Expr Difference(const ir::Expr& a, const ir::Expr& b, const Bound& bound = {});

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_EXTENT_H_

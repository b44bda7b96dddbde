// Accesses of elements that lie side by side, which one instruction may do together.
#ifndef KILN_COMPILER_PASSES_NEIGHBOURS_H_
#define KILN_COMPILER_PASSES_NEIGHBOURS_H_

#include <vector>

#include "compiler/ir/analysis.h"
#include "compiler/ir/stmt.h"

namespace kiln::passes {

// Whether `other` are the indices that lie `distance` elements on in the last dimension.
bool Follows(const std::vector<ir::Expr>& first, const std::vector<ir::Expr>& other,
             int64_t distance, const ir::Facts& facts);

// Whether an element lies at a multiple of `elements` from its buffer's first, which is aligned.
bool LiesAt(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices, int64_t elements,
            const ir::Facts& facts);

// `width` elements from `indices` on, along the last dimension.
ir::Region RunFrom(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices, size_t width);

// A condition of one of `lanes` neighbours that changes with whole groups of them alone, in the
// form that all of a group share: 8q + 3 < 8n says q < n. Any other condition as it is.
ir::Expr CoarseGuard(const ir::Expr& guard, int64_t lanes, const ir::Facts& facts);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_NEIGHBOURS_H_

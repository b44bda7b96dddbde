// Buffers of tensor memory that are several tiles, taken apart into tiles. Private to
// compiler/lang.
#ifndef KILN_COMPILER_LANG_TENSOR_TILES_H_
#define KILN_COMPILER_LANG_TENSOR_TILES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/stmt.h"

namespace kiln::lang {

// The regions that a copy, a product, a fill or a reduction names; empty for what else there is.
std::vector<const ir::Region*> TileRegions(const ir::Stmt& s);
// The same statement on other regions, as many and in the same order.
ir::Stmt WithRegions(const ir::Stmt& s, const std::vector<ir::Region>& regions);

// `launch` with a buffer of Scope::kTensor for each tile of those of more than two dimensions that
// products name: one for all of them where that is certainly enough (tensor_memory.h).
//
// Unimplemented: an operation on several tiles at once that is no fill, or on one that differs from
// element to element.
absl::StatusOr<ir::Stmt> TakeTilesApart(const ir::Program& program, const ir::Stmt& launch);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_TENSOR_TILES_H_

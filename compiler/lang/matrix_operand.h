// Operands that products have in common. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_MATRIX_OPERAND_H_
#define KILN_COMPILER_LANG_MATRIX_OPERAND_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {

// Argument `i`, called `name` ("A of T.gemm"): a matrix on the chip, whose leading dimensions
// are 1.
absl::StatusOr<Tile> MatrixOperand(Elaborator& e, const BoundArgs& args, size_t i,
                                   absl::string_view name);
// Its last dimension, or the one before.
const ir::Expr& MatrixExtent(const Tile& tile, bool second);
// Argument `i` of `name`, Square where there is none.
absl::StatusOr<ir::GemmPolicy> PolicyOf(Elaborator& e, const BoundArgs& args, size_t i,
                                        absl::string_view name);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_MATRIX_OPERAND_H_

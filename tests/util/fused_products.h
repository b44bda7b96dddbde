// Programs with the roundings that a GPU leaves out: LLVM's NVPTX back end makes one instruction,
// with one rounding, of a product and the sum that takes it.
#ifndef KILN_TESTS_UTIL_FUSED_PRODUCTS_H_
#define KILN_TESTS_UTIL_FUSED_PRODUCTS_H_

#include "compiler/ir/stmt.h"

namespace kiln::testing {

// Each float32 a * b + c, a * b - c and c - a * b as fma; of two products the left one. A number
// that only holds with both roundings (a * s - b * s, which is 0 where a == b, and is not) shows.
ir::Program FuseProducts(const ir::Program& program);

}  // namespace kiln::testing

#endif  // KILN_TESTS_UTIL_FUSED_PRODUCTS_H_

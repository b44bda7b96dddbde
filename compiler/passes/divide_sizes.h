// Pass "divide-sizes": what the host checks of run-time sizes before it launches (T.assume(K % 8 ==
// 0), an Assert outside of launches) is put where every pass sees it: K becomes K // 8 * 8, in
// tensors' shapes too. So rows lie at multiples of 16 bytes where they do, which is what TMA and
// wide accesses ask for.
//
// Of conditions joined by `and`, those of the form (a K + b) % c == 0 are read.
#ifndef KILN_COMPILER_PASSES_DIVIDE_SIZES_H_
#define KILN_COMPILER_PASSES_DIVIDE_SIZES_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

absl::StatusOr<ir::Program> DivideSizes(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_DIVIDE_SIZES_H_

// Pass "fuse-sparse" (GPUs): where a sparse form is expanded to a tile (ir::Expand) that one
// product alone reads, right after, the product takes the sparse form itself, as mma.sp does, and
// the loop and its tile go. Elsewhere the loop stays, and the product is one of the whole matrix:
// the launch notes why, by the tile's name.
//
// Needs: metadata in shared memory, A and B there or in fragments as wholes, none with a layout of
// the kernel's own, C in a fragment, and a row of the table for the product (target::ChooseGemm).
// Where tcgen05 can multiply the whole matrix, it does. "kiln.sparse": 0 keeps all loops.
#ifndef KILN_COMPILER_PASSES_FUSE_SPARSE_H_
#define KILN_COMPILER_PASSES_FUSE_SPARSE_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// The notes of a launch: of a tile that a sparse form is expanded to, why.
inline constexpr char kExpanded[] = "expanded:";

absl::StatusOr<ir::Program> FuseSparse(const ir::Program& program, const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_FUSE_SPARSE_H_

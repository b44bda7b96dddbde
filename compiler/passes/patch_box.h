// The pixels under one tap of a convolution's filter, as TMA fetches them: im2col mode.
#ifndef KILN_COMPILER_PASSES_PATCH_BOX_H_
#define KILN_COMPILER_PASSES_PATCH_BOX_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/analysis.h"
#include "compiler/ir/stmt.h"

namespace kiln::passes {

// What ir::Instruction::kPatchLoad takes, beside a barrier.
struct PatchBox {
  ir::Region source;              // of the tensor [n, h, w, c]
  std::vector<ir::Expr> offsets;  // of the tap: rows, columns of the image
  std::map<std::string, std::string> notes;
};

// The box of a gather (ir/gather.h) whose element (i, j) is
//
//   x[m // (P*Q), m // Q % P * stride + dh, m % Q * stride + dw, c + j],  m = first + i,
//
// or m % (P*Q) // Q for m // Q % P, and zero exactly where that lies outside of x. P, Q and the
// stride are constants; dh, dw, c and `first` know neither i nor j. Nothing for any other gather,
// and where a corner, an offset, a side or a stride is none that a tensor map has (PTX 5.5.5; CUDA
// driver API, cuTensorMapEncodeIm2col). `facts`: of the variables outside of the gather.
std::optional<PatchBox> PatchBoxOf(const ir::Stmt& gather, const ir::Facts& facts);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_PATCH_BOX_H_

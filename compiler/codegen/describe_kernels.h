// The part of a GPU artifact's manifest that tells how its kernels are launched, for people who
// load the cubin or the PTX themselves. Private to compiler/codegen.
//
//   "launches": [{
//     "kernel", "grid_x", "block_x", "cluster_x",   blocks and threads, along x alone
//     "dynamic_shared_bytes",                       above 48 KiB the function must be allowed it
//     "parameters": [names],                        64 bits each, in this order: pointers, run-time
//                                                   dimensions and scalars (floats in the low half)
//     "tensor_maps": [{"tensor", "dtype", "shape", "strides", "box", "swizzle_bytes"}]
//                                                   CUtensorMaps, after the parameters, 64 bytes
//                                                   each aligned to 64; dimensions outermost first;
//                                                   no strides: row-major. They may be those of a
//                                                   view, more than the tensor's. With "im2col":
//                                                   {"low", "high", "stride"}, corners innermost
//                                                   first, the box is of so many pixels
//                                                   [1, 1, pixels, c]
//   }],
//   "workspaces": [{"name", "dtype", "shape"}],     memory that the caller brings
//   "variables": [{"name", "value"}]                what the host computes first
//
// What is not constant is an expression over the run-time dimensions.
#ifndef KILN_COMPILER_CODEGEN_DESCRIBE_KERNELS_H_
#define KILN_COMPILER_CODEGEN_DESCRIBE_KERNELS_H_

#include <string>
#include <vector>

#include "compiler/codegen/nvptx_module.h"
#include "compiler/ir/stmt.h"

namespace kiln::codegen {

// JSON. `kernels` are those of the program's launches, in order.
std::string DescribeKernels(const ir::Program& lowered, const std::vector<GpuKernel>& kernels);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_DESCRIBE_KERNELS_H_

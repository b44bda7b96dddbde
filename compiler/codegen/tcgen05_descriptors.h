// What tcgen05.mma is told of its operands, as bits (PTX ISA 9.0, 9.7.16.4). Private to
// compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_TCGEN05_DESCRIPTORS_H_
#define KILN_COMPILER_CODEGEN_TCGEN05_DESCRIPTORS_H_

#include <cstdint>

#include "compiler/base/dtype.h"

namespace kiln::codegen {

// A tile of shared memory without its address (bits 0 to 13, in units of 16 bytes): panels of
// `swizzle` bytes a row and `height` rows, in atoms of eight rows. Bytes from panel to panel in
// bits 16 to 29 and from atom to atom in bits 32 to 45, both in units of 16; 0b001 from bit 46 on;
// the swizzle from bit 61 on (2: 128 bytes, 4: 64, 6: 32).
uint64_t Tcgen05TileDescriptor(int64_t swizzle, int64_t height);

// A product of `m` x `n` of operands of types `a` and `b`, which differ only where both are floats
// of 8 bits, into 32 bits. `rows_along_k`: whether an operand's rows are steps along k.
uint32_t Tcgen05InstructionDescriptor(DType a, DType b, int64_t m, int64_t n, bool a_rows_along_k,
                                      bool b_rows_along_k);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_TCGEN05_DESCRIPTORS_H_

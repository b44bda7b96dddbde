// Values of 8 and 4 bits without instructions for them: bits to float and back. Private to
// compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_FLOAT8_H_
#define KILN_COMPILER_CODEGEN_FLOAT8_H_

#include "compiler/base/dtype.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::codegen {

// `value` (float, or a vector of it) as a float of 8 bits, or as float4_e2m1 in the low half of
// them, in i8: as RoundToType rounds, which is what PTX's cvt.rn.satfinite does and, for
// float8_e8m0fnu, cvt.rp.satfinite (PTX 9.7.9.21).
llvm::Value* EmitToFloat8(llvm::IRBuilder<>& b, llvm::Value* value, DType type);
// i8, or a vector of it, as float: exact. The upper half of a float4_e2m1's byte is passed over.
llvm::Value* EmitFromFloat8(llvm::IRBuilder<>& b, llvm::Value* bits, DType type);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_FLOAT8_H_

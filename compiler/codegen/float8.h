// float8 values without instructions for them: bits to float and back. Private to compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_FLOAT8_H_
#define KILN_COMPILER_CODEGEN_FLOAT8_H_

#include "compiler/base/dtype.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::codegen {

// `value` (float, or a vector of it) as float8_e4m3fn or float8_e5m2 in i8: to nearest even, what
// is too large becomes the largest number, NaN stays NaN, as PTX's cvt.rn.satfinite does
// (PTX 9.7.9.21).
llvm::Value* EmitToFloat8(llvm::IRBuilder<>& b, llvm::Value* value, DType type);
// i8, or a vector of it, as float: exact.
llvm::Value* EmitFromFloat8(llvm::IRBuilder<>& b, llvm::Value* bits, DType type);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_FLOAT8_H_

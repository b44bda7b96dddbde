// The functions of emit_math.h of double, for targets without a mathematical library: straight-line
// LLVM IR on scalars. Arguments are reduced by exact identities, what is left is Taylor's series,
// so that every coefficient but erf's is a quotient of whole numbers; erf's are what fit_erf.py
// prints. Errors are bounds of what tests/unit/codegen/wide_math_test.cc measures. Private to
// compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_EMIT_WIDE_H_
#define KILN_COMPILER_CODEGEN_EMIT_WIDE_H_

#include "llvm/IR/IRBuilder.h"

namespace kiln::codegen {

// Units in the last place; denormal arguments and results are kept, and limits and NaN are C's.
llvm::Value* EmitWideExp(llvm::IRBuilder<>& b, llvm::Value* x);                  // 1
llvm::Value* EmitWideExp2(llvm::IRBuilder<>& b, llvm::Value* x);                 // 1
llvm::Value* EmitWideLog(llvm::IRBuilder<>& b, llvm::Value* x);                  // 1
llvm::Value* EmitWideLog2(llvm::IRBuilder<>& b, llvm::Value* x);                 // 1
llvm::Value* EmitWideTanh(llvm::IRBuilder<>& b, llvm::Value* x);                 // 1
llvm::Value* EmitWideSigmoid(llvm::IRBuilder<>& b, llvm::Value* x);              // 1
llvm::Value* EmitWideErf(llvm::IRBuilder<>& b, llvm::Value* x);                  // 1
llvm::Value* EmitWideSin(llvm::IRBuilder<>& b, llvm::Value* x);                  // 1, any argument
llvm::Value* EmitWideCos(llvm::IRBuilder<>& b, llvm::Value* x);                  // 1, any argument
llvm::Value* EmitWidePow(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y);  // 1.1; as C's pow
llvm::Value* EmitWideExp10(llvm::IRBuilder<>& b, llvm::Value* x);                // 1.1
llvm::Value* EmitWideLog1p(llvm::IRBuilder<>& b, llvm::Value* x);                // 3
llvm::Value* EmitWideSinh(llvm::IRBuilder<>& b, llvm::Value* x);                 // 4
llvm::Value* EmitWideCosh(llvm::IRBuilder<>& b, llvm::Value* x);                 // 4
llvm::Value* EmitWideAsinh(llvm::IRBuilder<>& b, llvm::Value* x);                // 4
llvm::Value* EmitWideAcosh(llvm::IRBuilder<>& b, llvm::Value* x);                // 4
llvm::Value* EmitWideAtanh(llvm::IRBuilder<>& b, llvm::Value* x);                // 5
llvm::Value* EmitWideAsin(llvm::IRBuilder<>& b, llvm::Value* x);                 // 4
llvm::Value* EmitWideAcos(llvm::IRBuilder<>& b, llvm::Value* x);                 // 4
llvm::Value* EmitWideAtan(llvm::IRBuilder<>& b, llvm::Value* x);                 // 1
llvm::Value* EmitWideAtan2(llvm::IRBuilder<>& b, llvm::Value* y, llvm::Value* x);  // 3; as C's

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_EMIT_WIDE_H_

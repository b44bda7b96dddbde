// Vector mathematics: straight-line LLVM IR for the functions that kernels live on, on float or
// vectors of float, so that artifacts need no vector math library. Errors are stated per function,
// measured over the whole range by tests/unit/codegen/math_test.cc. Private to compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_EMIT_MATH_H_
#define KILN_COMPILER_CODEGEN_EMIT_MATH_H_

#include "llvm/IR/IRBuilder.h"

namespace kiln::codegen {

// Arguments are f32 or <n x f32>. NaN gives NaN; infinities and zeros give the limits.
llvm::Value* EmitExp(llvm::IRBuilder<>& b, llvm::Value* x);      // 2 ulp, denormal results kept
llvm::Value* EmitExp2(llvm::IRBuilder<>& b, llvm::Value* x);     // 2 ulp
llvm::Value* EmitLog(llvm::IRBuilder<>& b, llvm::Value* x);      // 2 ulp; log(0) = -inf, x < 0: NaN
llvm::Value* EmitLog2(llvm::IRBuilder<>& b, llvm::Value* x);     // 4 ulp
llvm::Value* EmitTanh(llvm::IRBuilder<>& b, llvm::Value* x);     // 4 ulp
llvm::Value* EmitSigmoid(llvm::IRBuilder<>& b, llvm::Value* x);  // 4 ulp
llvm::Value* EmitErf(llvm::IRBuilder<>& b, llvm::Value* x);      // 2 ulp
llvm::Value* EmitSin(llvm::IRBuilder<>& b, llvm::Value* x);      // 3 ulp, any argument
llvm::Value* EmitCos(llvm::IRBuilder<>& b, llvm::Value* x);      // 3 ulp, any argument
llvm::Value* EmitPow(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y);    // 1 ulp; as C's pow
llvm::Value* EmitExp10(llvm::IRBuilder<>& b, llvm::Value* x);                  // 2 ulp
llvm::Value* EmitLog1p(llvm::IRBuilder<>& b, llvm::Value* x);                  // 4 ulp
llvm::Value* EmitSinh(llvm::IRBuilder<>& b, llvm::Value* x);                   // 3 ulp
llvm::Value* EmitCosh(llvm::IRBuilder<>& b, llvm::Value* x);                   // 3 ulp
llvm::Value* EmitAsinh(llvm::IRBuilder<>& b, llvm::Value* x);                  // 4 ulp
llvm::Value* EmitAcosh(llvm::IRBuilder<>& b, llvm::Value* x);                  // 4 ulp
llvm::Value* EmitAtanh(llvm::IRBuilder<>& b, llvm::Value* x);                  // 4 ulp
llvm::Value* EmitAsin(llvm::IRBuilder<>& b, llvm::Value* x);                   // 3 ulp
llvm::Value* EmitAcos(llvm::IRBuilder<>& b, llvm::Value* x);                   // 3 ulp
llvm::Value* EmitAtan(llvm::IRBuilder<>& b, llvm::Value* x);                   // 3 ulp
llvm::Value* EmitAtan2(llvm::IRBuilder<>& b, llvm::Value* y, llvm::Value* x);  // 4 ulp; as C's
// x - y trunc(x / y), exact; as C's. On scalars of float or double, by a loop.
llvm::Value* EmitFmod(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y);
llvm::Value* EmitSqrt(llvm::IRBuilder<>& b, llvm::Value* x);   // correctly rounded; any float type
llvm::Value* EmitRsqrt(llvm::IRBuilder<>& b, llvm::Value* x);  // 1/sqrt(x), two roundings: 1.5 ulp

// Calls the libm function of that double or float signature lane by lane ("sinf", "pow").
llvm::Value* EmitLibm(llvm::IRBuilder<>& b, const char* name, llvm::ArrayRef<llvm::Value*> args);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_EMIT_MATH_H_

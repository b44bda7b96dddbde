// Masked loads and stores of neighbours, in pieces no wider than an AVX2 register: LLVM 19 makes
// wrong code of a wider one whose mask is one bit of the program and constants (the upper half is
// accessed in full where the lower half is).
#ifndef KILN_COMPILER_CODEGEN_MASKED_H_
#define KILN_COMPILER_CODEGEN_MASKED_H_

#include "llvm/IR/IRBuilder.h"

namespace kiln::codegen {

// Of vector type `storage`; lanes whose mask is false are zero. `align` is that of lane 0.
llvm::Value* EmitMaskedLoad(llvm::IRBuilder<>& b, llvm::Type* storage, llvm::Value* address,
                            llvm::Align align, llvm::Value* mask);
void EmitMaskedStore(llvm::IRBuilder<>& b, llvm::Value* value, llvm::Value* address,
                     llvm::Align align, llvm::Value* mask);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_MASKED_H_

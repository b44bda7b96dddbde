// Loads of tensors that are read once, as the first to be evicted from the L2 cache. Private to
// compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_EVICT_FIRST_H_
#define KILN_COMPILER_CODEGEN_EVICT_FIRST_H_

#include "llvm/IR/IRBuilder.h"

namespace llvm {
class Function;
class LoadInst;
}  // namespace llvm

namespace kiln::codegen {

// Marks a load; neighbours that are marked alike may be merged.
void MarkEvictFirst(llvm::LoadInst& load);

// The cache policy for instructions that take one (i64; PTX 9.7.9.18, createpolicy).
llvm::Value* EvictFirstPolicy(llvm::IRBuilder<>& b);

bool HasEvictFirst(const llvm::Function& function);

// Makes marked loads of 4, 8 and 16 bytes in a kernel's global memory ld.global.L2::cache_hint; the
// others stay plain. After neighbours have been merged: LLVM has no loads with a policy.
void LowerEvictFirst(llvm::Function& function);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_EVICT_FIRST_H_

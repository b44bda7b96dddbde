// Loads of tensors that are read once, as the first to be evicted from the L2 cache. Private to
// compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_EVICT_FIRST_H_
#define KILN_COMPILER_CODEGEN_EVICT_FIRST_H_

#include <string>

#include "llvm/IR/IRBuilder.h"

namespace llvm {
class Function;
class LoadInst;
}  // namespace llvm

namespace kiln::codegen {

// Marks a load; neighbours that are marked alike may be merged.
void MarkEvictFirst(llvm::LoadInst& load);

// The cache policy (i64) "evict_first" or "evict_last" for a part of what is loaded, 0 to 1
// (PTX 9.7.9.18, createpolicy).
llvm::Value* CachePolicy(llvm::IRBuilder<>& b, const std::string& priority, float part);

bool HasEvictFirst(const llvm::Function& function);

// Makes marked loads of 4, 8 and 16 bytes in a kernel's global memory ld.global.L2::cache_hint; the
// others stay plain. After neighbours have been merged: LLVM has no loads with a policy. They are
// taken to depend on nothing but their address, so the tensor must not be written, and the address
// must not stay while a guard changes (passes/stream_loads.h).
void LowerEvictFirst(llvm::Function& function);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_EVICT_FIRST_H_

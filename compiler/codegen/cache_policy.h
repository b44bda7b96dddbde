// Loads and stores with a word to the L2 cache about how long to keep what they touch (PTX
// 9.7.9.18, createpolicy). Private to compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_CACHE_POLICY_H_
#define KILN_COMPILER_CODEGEN_CACHE_POLICY_H_

#include "compiler/ir/cache_hint.h"
#include "llvm/IR/IRBuilder.h"

namespace llvm {
class Function;
class Instruction;
}  // namespace llvm

namespace kiln::codegen {

// The policy (i64) of a hint.
llvm::Value* CachePolicy(llvm::IRBuilder<>& b, const ir::CacheHint& hint);

// Marks a load or a store; neighbours that are marked alike may be merged.
void MarkPolicy(llvm::Instruction& access, const ir::CacheHint& hint);

bool HasPolicies(const llvm::Function& function);

// Makes marked accesses of 4, 8 and 16 bytes to a kernel's global memory, of elements of at most 4,
// ld.global.L2::cache_hint and st.global.L2::cache_hint; the others stay plain. After neighbours
// have been merged: LLVM has no accesses with a policy. They stay where they are, but for loads of
// what is loaded once, which the back end moves as if they depended on nothing but their address.
// The tensor must not be both read and written.
void LowerPolicies(llvm::Function& function);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_CACHE_POLICY_H_

// Sums of wgmma products that PTX declares by name, so that LLVM need not carry them: some hundred
// values through every block between two products are a third of what it does for a kernel. The
// assembler makes the same code of either. Private to compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_NAMED_SUMS_H_
#define KILN_COMPILER_CODEGEN_NAMED_SUMS_H_

#include <cstdint>
#include <set>
#include <string>

#include "compiler/ir/stmt.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::codegen {

// The registers of a launch's body, many and of 32 bits, that wgmma alone writes, and that are
// otherwise read one by one, each by its number once loops are unrolled.
std::set<const ir::BufferNode*> SumsToName(const ir::Stmt& body);

// Declares registers NAME0 to NAME(count - 1) of a type of 32 bits where `function` begins.
void DeclareSums(llvm::Function& function, const std::string& name, int64_t count,
                 const llvm::Type& type);
// What is in one of them then: after what came before, products that are waited for among it.
llvm::Value* ReadSum(llvm::IRBuilder<>& b, const std::string& name, int64_t count, llvm::Type* type,
                     llvm::Value* number);
// A loop that holds products: without their sums they look small to LLVM, which would repeat them.
void KeepAsLoop(llvm::BranchInst& latch);
// What the above leave to be done after loops are unrolled.
void LowerNamedSums(llvm::Function& function);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_NAMED_SUMS_H_

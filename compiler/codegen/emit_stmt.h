// Statements of lowered programs as LLVM IR, inside one block function. Private to
// compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_EMIT_STMT_H_
#define KILN_COMPILER_CODEGEN_EMIT_STMT_H_

#include <optional>
#include <vector>

#include "compiler/codegen/emit_expr.h"
#include "compiler/codegen/emit_tiles.h"

namespace kiln::codegen {

// On-chip storage is handed out of one arena, 64-byte aligned, in order of appearance.
class StmtEmitter {
 public:
  // `scratch`: the block's arena. `error`: pointer to the launch's int32 error word. `past_caches`:
  // stores that are marked so bypass the caches; their tensors are aligned to 64 bytes.
  StmtEmitter(llvm::IRBuilder<>& builder, ExprEmitter& exprs, llvm::Value* scratch,
              llvm::Value* error, bool past_caches)
      : b_(builder), exprs_(exprs), scratch_(scratch), error_(error), past_caches_(past_caches) {}

  void Emit(const ir::Stmt& s);
  int64_t scratch_bytes() const { return scratch_bytes_; }

 private:
  struct Loop {
    llvm::BasicBlock* next;  // where Continue goes
    llvm::BasicBlock* exit;  // where Break goes
  };

  void EmitFor(const ir::For& loop);
  void EmitWhile(const ir::While& loop);
  void EmitIf(const ir::If& branch);
  void EmitAlloc(const ir::Alloc& alloc);
  void EmitStore(const ir::Store& store);
  void EmitAtomic(const ir::Atomic& atomic);
  void EmitAssert(const ir::Assert& check);
  void EmitPairGemm(const ir::PairGemm& gemm);
  // Makes `shape` the configuration of the tiles, unless it is already.
  void Configure(const TileShape& shape);
  // Emits what runs any number of times and holds `parts`. Products of one shape are configured for
  // beforehand; between several shapes nothing is known before, after, or between the parts.
  template <typename F>
  void WithTiles(std::initializer_list<ir::Stmt> parts, F emit);
  // Runs `then` only where `condition` (scalar i1) holds.
  template <typename F>
  void Guarded(llvm::Value* condition, F then);
  llvm::BasicBlock* NewBlock(const char* name);
  void Jump(llvm::BasicBlock* target);  // and go on in an unreachable block

  llvm::IRBuilder<>& b_;
  ExprEmitter& exprs_;
  llvm::Value* scratch_;
  llvm::Value* error_;
  const bool past_caches_;
  int64_t scratch_bytes_ = 0;
  int64_t stack_bytes_ = 0;
  std::vector<Loop> loops_;
  std::optional<TileShape> tiles_;  // what the tiles are configured for here, on every path
};

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_EMIT_STMT_H_

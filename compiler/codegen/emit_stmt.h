// Statements of lowered programs as LLVM IR, inside one block function. Private to
// compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_EMIT_STMT_H_
#define KILN_COMPILER_CODEGEN_EMIT_STMT_H_

#include <optional>
#include <vector>

#include "compiler/codegen/emit_control.h"
#include "compiler/codegen/emit_tiles.h"

namespace kiln::codegen {

// On-chip storage is handed out of one arena, 64-byte aligned, in order of appearance.
class StmtEmitter : public ControlEmitter {
 public:
  // `scratch`: the block's arena. `error`: pointer to the launch's int32 error word. `past_caches`:
  // stores that are marked so bypass the caches; their tensors are aligned to 64 bytes.
  StmtEmitter(llvm::IRBuilder<>& builder, ExprEmitter& exprs, llvm::Value* scratch,
              llvm::Value* error, bool past_caches)
      : ControlEmitter(builder, exprs),
        scratch_(scratch),
        error_(error),
        past_caches_(past_caches) {}

  void Emit(const ir::Stmt& s) override;
  int64_t scratch_bytes() const { return scratch_bytes_; }

 protected:
  void BeforeElse() override;

 private:
  void EmitBranch(const ir::Stmt& s);
  void EmitAlloc(const ir::Alloc& alloc);
  void EmitStore(const ir::Store& store);
  void EmitAssert(const ir::Assert& check);
  void EmitPairGemm(const ir::PairGemm& gemm);
  // Makes `shape` the configuration of the tiles, unless it is already.
  void Configure(const TileShape& shape);
  // Emits what runs any number of times and holds `parts`. Products of one shape are configured for
  // beforehand; between several shapes nothing is known before, after, or between the parts.
  template <typename F>
  void WithTiles(std::initializer_list<ir::Stmt> parts, F emit);
  llvm::Value* scratch_;
  llvm::Value* error_;
  const bool past_caches_;
  int64_t scratch_bytes_ = 0;
  int64_t stack_bytes_ = 0;
  std::optional<TileShape> tiles_;  // what the tiles are configured for here, on every path
  std::vector<std::optional<TileShape>> branches_;  // the same where each branch around here began
};

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_EMIT_STMT_H_

// What an artifact's entry point hands to its blocks: 64-bit slots for tensors, scalars, run-time
// dimensions, workspaces and host variables, in this order. Private to compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_LAUNCH_SLOTS_H_
#define KILN_COMPILER_CODEGEN_LAUNCH_SLOTS_H_

#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/emit_expr.h"

namespace kiln::codegen {

class LaunchSlots {
 public:
  // Of a program's host level: statements outside of launches, in order.
  explicit LaunchSlots(const ir::Program& program);

  const std::vector<ir::Stmt>& host() const { return host_; }
  const std::vector<ir::Buffer>& workspaces() const { return workspaces_; }
  size_t size() const { return tensors_.size() + vars_.size(); }
  std::vector<std::string> Names() const;  // by slot
  // A workspace or a tensor parameter; a variable. KILN_CHECKs that it has a slot.
  size_t SlotOf(const ir::Buffer& buffer) const;
  size_t SlotOf(const ir::Expr& var) const;

  // Binds everything in a block's function: raw(slot, type) is the slot's content, a pointer (type
  // ptr) or an i64.
  template <typename F>
  void Bind(llvm::IRBuilder<>& b, ExprEmitter& exprs, F raw) const {
    for (const auto& [var, slot] : vars_) {
      exprs.BindVar(var, FromSlot(b, exprs, raw(slot, b.getInt64Ty()), var.dtype()));
    }
    for (const auto& [buffer, slot] : tensors_) {
      exprs.BindBuffer(buffer, TensorPlace(b, exprs, buffer, raw(slot, b.getPtrTy())));
    }
  }

  // A variable from its slot: floats travel as their own bits in the low half.
  static llvm::Value* FromSlot(llvm::IRBuilder<>& b, ExprEmitter& exprs, llvm::Value* raw,
                               DType type);

 private:
  static Place TensorPlace(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Buffer& buffer,
                           llvm::Value* base);
  void Flatten(const ir::Stmt& s);

  std::vector<ir::Stmt> host_;
  std::vector<ir::Buffer> workspaces_;
  std::vector<std::pair<ir::Buffer, size_t>> tensors_;
  std::vector<std::pair<ir::Expr, size_t>> vars_;
};

// Binds the launch's block variables from the number of the block (i64), x fastest. With a swizzle
// panel of p rows, blocks walk p rows of y before x moves on, so that neighbours in time share
// tiles in cache.
void BindBlockIndices(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Launch& launch,
                      llvm::Value* index);

// How many blocks the launch has (i64), and the same where it is a constant, else 0.
llvm::Value* EmitBlockCount(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Launch& launch);
int64_t ConstantBlockCount(const ir::Launch& launch);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_LAUNCH_SLOTS_H_

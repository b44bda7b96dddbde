// Control flow of lowered programs as LLVM IR: what is alike on every target. Private to
// compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_EMIT_CONTROL_H_
#define KILN_COMPILER_CODEGEN_EMIT_CONTROL_H_

#include <vector>

#include "compiler/codegen/emit_expr.h"

namespace kiln::codegen {

class ControlEmitter {
 public:
  ControlEmitter(llvm::IRBuilder<>& builder, ExprEmitter& exprs) : b_(builder), exprs_(exprs) {}
  virtual ~ControlEmitter() = default;

  // Sequences, loops, branches and bindings; a target overrides it for the rest.
  virtual void Emit(const ir::Stmt& s);

 protected:
  // Between the two sides of a branch.
  virtual void BeforeElse() {}
  // A loop whose code is being made; `latch` is the branch back.
  virtual void OnLatch(const ir::For&, llvm::BranchInst*) {}

  // Orders this thread's accesses among those of all others.
  virtual void EmitFence(llvm::AtomicOrdering order) { b_.CreateFence(order); }

  llvm::BasicBlock* NewBlock(const char* name);
  // Runs `then` only where `condition` (scalar i1) holds.
  template <typename F>
  void Guarded(llvm::Value* condition, F then) {
    llvm::BasicBlock* inside = NewBlock("then");
    llvm::BasicBlock* join = NewBlock("join");
    b_.CreateCondBr(condition, inside, join);
    b_.SetInsertPoint(inside);
    then();
    b_.CreateBr(join);
    b_.SetInsertPoint(join);
  }
  // A line by C's printf, and by vprintf of a GPU.
  void EmitPrint(const ir::Print& print);
  void EmitDevicePrint(const ir::Print& print);
  // An update of one element; those below 8 bits have no lowering on `target`. With `halves` it
  // adds to floats of 16 bits itself, by compare and swap at least.
  void EmitAtomic(const ir::Atomic& atomic, const char* target, llvm::SyncScope::ID scope,
                  bool halves = false);
  // Memory of the function itself: `elements` of `type`, at its top.
  llvm::Value* OnStack(llvm::Type* type, int64_t elements, int64_t alignment);

  llvm::IRBuilder<>& b_;
  ExprEmitter& exprs_;

 private:
  struct Loop {
    llvm::BasicBlock* next;  // where Continue goes
    llvm::BasicBlock* exit;  // where Break goes
  };

  void Order(ir::MemoryOrder order, bool before);  // of an atomic access
  // Each updates the element and returns what it was, if that is asked for.
  llvm::Value* AddHalf(const ir::Atomic& atomic, llvm::Value* address, llvm::SyncScope::ID scope);
  llvm::Value* UpdateWide(const ir::Atomic& atomic, llvm::Value* address,
                          llvm::SyncScope::ID scope);
  llvm::Value* UpdateNarrow(const ir::Atomic& atomic, llvm::Value* address,
                            llvm::SyncScope::ID scope);
  std::vector<llvm::Value*> PrintedValues(const ir::Print& print);  // of 64 bits each
  void EmitFor(const ir::For& loop);
  void EmitWhile(const ir::While& loop);
  void EmitIf(const ir::If& branch);
  void Jump(llvm::BasicBlock* target);  // and go on in an unreachable block

  std::vector<Loop> loops_;
};

// The constant extents of a buffer, and its place with the strides that they give, without a base.
// KILN_CHECKs that they are constants. `elements` is what it takes.
Place PlaceOfShape(llvm::IRBuilder<>& b, const ir::BufferNode& buffer, int64_t* elements);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_EMIT_CONTROL_H_

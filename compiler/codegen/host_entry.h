// The C entry point of an artifact as LLVM IR for the host: checks arguments, fills the slots,
// makes workspaces and starts the launches, in order. Private to compiler/codegen.
//
//   int32 symbol(launch, A, B, int64 n) {
//     if (!A || !B || n < 0) return KILN_ERROR_ARGUMENT;
//     if (2 * n is no int32) return KILN_ERROR_ARGUMENT;  // an extent of a tensor or of the grid
//     slots = {A, B, n, &error};
//     if (r = <launch>(...)) return r;      // what the target makes of it
//     return error;
//   }
#ifndef KILN_COMPILER_CODEGEN_HOST_ENTRY_H_
#define KILN_COMPILER_CODEGEN_HOST_ENTRY_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/codegen/launch_slots.h"

namespace kiln::codegen {

class HostEntry {
 public:
  // `alignment`: what every tensor's address must be a multiple of.
  HostEntry(const ir::Program& program, const std::string& symbol, llvm::Module& module,
            int64_t alignment);
  virtual ~HostEntry() = default;
  absl::Status Build();

 protected:
  virtual void EmitLaunch(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Launch& launch) = 0;
  // Memory for a workspace of `bytes` (null when there is none), and its end.
  virtual llvm::Value* EmitTake(llvm::IRBuilder<>& b, llvm::Value* bytes) = 0;
  virtual void EmitGiveBack(llvm::IRBuilder<>& b, llvm::Value* memory) = 0;

  // Leaves through the epilogue with `code` unless `condition`.
  void StopUnless(llvm::IRBuilder<>& b, llvm::Value* condition, llvm::Value* code);
  // The same with a result of the run-time support: 0 goes on.
  void StopIfFailed(llvm::IRBuilder<>& b, llvm::Value* result);

  llvm::Value* SlotAddress(llvm::IRBuilder<>& b, size_t index) const;
  llvm::Value* launch_argument() const { return entry_->getArg(0); }
  llvm::Value* slots_array() const { return array_; }
  // The slot after the last: the address of the launch's error word.
  size_t error_slot() const { return slots_.size(); }
  const LaunchSlots& slots() const { return slots_; }
  const ir::Program& program() const { return program_; }
  const std::string& symbol() const { return symbol_; }
  llvm::Module& module() { return module_; }
  llvm::LLVMContext& context() { return module_.getContext(); }
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

 private:
  void DeclareEntry();
  void EmitPrologue(llvm::IRBuilder<>& b, ExprEmitter& exprs);
  void EmitHost(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Stmt& s);
  void EmitBind(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Bind& bind);
  // Leaves with KILN_ERROR_ARGUMENT where an operation that a size, or what is demanded of sizes,
  // is computed by has a result that is no value of its type.
  void CheckSize(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Expr& size);
  // Whether there is one among those that the value is computed by (i1).
  llvm::Value* Overflows(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Expr& e);
  void EmitWorkspace(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Buffer& buffer);
  void EmitEpilogue(llvm::IRBuilder<>& b);

  const ir::Program& program_;
  const std::string symbol_;
  llvm::Module& module_;
  const int64_t alignment_;
  const LaunchSlots slots_;
  std::vector<llvm::BasicBlock*> stops_;
  llvm::Function* entry_ = nullptr;
  llvm::Value* error_ = nullptr;
  llvm::Value* array_ = nullptr;
  std::unordered_map<const ir::ExprNode*, llvm::Value*> overflows_;  // of host variables
  absl::Status status_;
};

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_HOST_ENTRY_H_

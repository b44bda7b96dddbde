// Statements at thread level as one thread runs them. Private to compiler/codegen.
//
// Loops over threads become their bodies: the loop's variable is the thread, and barriers stand in
// the program (passes/plant_barriers). Registers are memory of the thread's own, which LLVM turns
// into registers where indices are constants: loops that index them are unrolled. So are short
// loops of a thread that hold no other: neighbouring accesses become one, and several are on their
// way.
#ifndef KILN_COMPILER_CODEGEN_GPU_STMT_H_
#define KILN_COMPILER_CODEGEN_GPU_STMT_H_

#include "compiler/codegen/emit_control.h"
#include "compiler/codegen/gpu_instruct.h"
#include "compiler/codegen/named_sums.h"
#include "compiler/ir/analysis.h"

namespace kiln::codegen {

class GpuStmtEmitter : public ControlEmitter {
 public:
  // `shared`: the block's shared memory (addrspace 3); `thread`: this thread of the block (i32);
  // `body`: what will be emitted.
  GpuStmtEmitter(llvm::IRBuilder<>& builder, GpuExprEmitter& exprs, llvm::Value* shared,
                 llvm::Value* thread, int64_t threads, const TensorMaps& maps, const ir::Stmt& body)
      : ControlEmitter(builder, exprs),
        gpu_exprs_(exprs),
        shared_(shared),
        thread_(thread),
        instruct_(builder, exprs, thread, threads, maps, WgmmaGroups(body)),
        named_(SumsToName(body)) {}

  // Of a block of a cluster: what its rank is, in terms of the grid's axes.
  void SetOwnRank(const ir::Launch& launch, const ir::Expr& rank) {
    for (const ir::Axis& axis : launch.grid) facts_.AddAxis(axis);
    own_rank_ = rank;
  }

  void Emit(const ir::Stmt& s) override;
  int64_t shared_bytes() const { return shared_bytes_; }

 protected:
  void OnLatch(const ir::For& loop, llvm::BranchInst* latch) override;
  void EmitFence(llvm::AtomicOrdering order) override;

 private:
  void EmitThreads(const ir::For& loop);
  bool HoldsNamedProducts(const ir::Stmt& s) const;
  void EmitPart(const ir::OnThreads& part);
  void EmitAlloc(const ir::Alloc& alloc);
  void EmitStore(const ir::Store& store);
  bool IsOwnRank(const ir::Expr& rank) const;
  void EmitRemoteStore(const ir::Store& store);
  void EmitAssert(const ir::Assert& check);
  llvm::Value* ConstantTable(const ir::BufferNode& buffer);

  GpuExprEmitter& gpu_exprs_;
  llvm::Value* shared_;
  llvm::Value* thread_;
  GpuInstructEmitter instruct_;
  const std::set<const ir::BufferNode*> named_;
  ir::Expr own_rank_;
  ir::Facts facts_;
  int64_t shared_bytes_ = 0;
  static constexpr int kOutside = -1;
  int depth_ = kOutside;  // of loops inside the loop over threads
};

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_GPU_STMT_H_

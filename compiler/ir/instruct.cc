#include "compiler/ir/instruct.h"

#include "absl/strings/numbers.h"
#include "compiler/base/status.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {

int RowDimension(const Region& box) {
  const int before_last = static_cast<int>(box.ranges.size()) - 2;
  int d = before_last;
  while (d > 0 && IsConst(box.ranges[d].extent, 1)) --d;
  return IsConst(box.ranges[d].extent, 1) ? before_last : d;
}

const char* Name(Instruction op) {
  switch (op) {
    case Instruction::kBlockBarrier:
      return "block_barrier";
    case Instruction::kClusterBarrier:
      return "cluster_barrier";
    case Instruction::kProxyFence:
      return "proxy_fence";
    case Instruction::kBarrierInit:
      return "barrier_init";
    case Instruction::kBarrierArrive:
      return "barrier_arrive";
    case Instruction::kClusterArrive:
      return "cluster_arrive";
    case Instruction::kBarrierExpect:
      return "barrier_expect";
    case Instruction::kBarrierWait:
      return "barrier_wait";
    case Instruction::kTensorLoad:
      return "tensor_load";
    case Instruction::kPatchLoad:
      return "patch_load";
    case Instruction::kAsyncCopy:
      return "async_copy";
    case Instruction::kAsyncCommit:
      return "async_commit";
    case Instruction::kAsyncWait:
      return "async_wait";
    case Instruction::kTensorStore:
      return "tensor_store";
    case Instruction::kStoreWait:
      return "store_wait";
    case Instruction::kMma:
      return "mma";
    case Instruction::kMmaRest:
      return "mma_rest";
    case Instruction::kSparseMma:
      return "sparse_mma";
    case Instruction::kWgmma:
      return "wgmma";
    case Instruction::kWgmmaWait:
      return "wgmma_wait";
    case Instruction::kTcgen05Alloc:
      return "tcgen05_alloc";
    case Instruction::kTcgen05Free:
      return "tcgen05_free";
    case Instruction::kTcgen05Fence:
      return "tcgen05_fence";
    case Instruction::kTcgen05Mma:
      return "tcgen05_mma";
    case Instruction::kTcgen05Commit:
      return "tcgen05_commit";
    case Instruction::kTcgen05Load:
      return "tcgen05_load";
    case Instruction::kTcgen05Store:
      return "tcgen05_store";
    case Instruction::kTcgen05Wait:
      return "tcgen05_wait";
    case Instruction::kShuffleXor:
      return "shuffle_xor";
    case Instruction::kShuffle:
      return "shuffle";
    case Instruction::kBallot:
      return "ballot";
    case Instruction::kMatch:
      return "match";
    case Instruction::kGlobalAdd:
      return "global_add";
    case Instruction::kStoreMatrices:
      return "store_matrices";
    case Instruction::kMaxRegisters:
      return "max_registers";
  }
  return "?";
}

Operands OperandsOf(Instruction op) {
  const std::vector<Scope> barrier = {Scope::kBarrier}, shared = {Scope::kShared};
  switch (op) {
    case Instruction::kBlockBarrier:
    case Instruction::kClusterBarrier:
    case Instruction::kProxyFence:
      return {{}, 0};
    case Instruction::kWgmmaWait:
    case Instruction::kTcgen05Wait:
      return {{{Scope::kRegister}}, 1, /*more=*/true};
    case Instruction::kTcgen05Alloc:
      return {{shared}, 1};
    case Instruction::kTcgen05Free:
      return {{}, 2};
    case Instruction::kTcgen05Fence:
      return {{}, 1};
    case Instruction::kTcgen05Mma:
      return {{shared, shared}, 2};
    case Instruction::kTcgen05Load:
    case Instruction::kTcgen05Store:
      return {{{Scope::kRegister}}, 1};
    case Instruction::kMmaRest:
      return {{{Scope::kRegister}}, 0};
    case Instruction::kMaxRegisters:
      return {{}, 2};
    case Instruction::kGlobalAdd:
      return {{{Scope::kGlobal}}, 1, /*more=*/false, /*more_args=*/true};
    case Instruction::kStoreMatrices:
      return {{shared}, 2, /*more=*/false, /*more_args=*/true};
    case Instruction::kShuffleXor:
      return {{{Scope::kRegister}, {Scope::kRegister}}, 1};
    case Instruction::kShuffle:
      return {{{Scope::kRegister}, {Scope::kRegister}, {Scope::kRegister}}, 0};
    case Instruction::kBallot:
    case Instruction::kMatch:
      return {{{Scope::kRegister}, {Scope::kRegister}}, 0};
    case Instruction::kBarrierArrive:
    case Instruction::kTcgen05Commit:
      return {{barrier}, 0};
    case Instruction::kBarrierInit:
    case Instruction::kClusterArrive:
    case Instruction::kBarrierExpect:
    case Instruction::kBarrierWait:
      return {{barrier}, 1};
    case Instruction::kTensorLoad:
      return {{shared, {Scope::kGlobal}, barrier}, 0};
    case Instruction::kPatchLoad:
      return {{shared, {Scope::kGlobal}, barrier}, 2};
    case Instruction::kAsyncCopy:
      return {{shared, {Scope::kGlobal}}, 1};
    case Instruction::kAsyncCommit:
      return {{}, 0};
    case Instruction::kTensorStore:
      return {{shared, {Scope::kGlobal}}, 0};
    case Instruction::kAsyncWait:
      return {{shared}, 1, /*more=*/true};
    case Instruction::kStoreWait:
      return {{shared}, 1};
    case Instruction::kSparseMma:
      return {{{Scope::kRegister}, {Scope::kShared, Scope::kRegister}, shared, shared}, 1};
    case Instruction::kMma:
    case Instruction::kWgmma:
      return {{{Scope::kRegister}, {Scope::kShared, Scope::kRegister}, shared}, 1};
  }
  return {};
}

Stmt MakeInstruct(SourceLoc loc, Instruction op, std::vector<Region> regions,
                  std::vector<Expr> args, std::map<std::string, std::string> notes) {
  return MakeStmt<Instruct>(loc, op, std::move(regions), std::move(args), std::move(notes));
}

bool Holds(const Stmt& s, Instruction op) {
  bool holds = false;
  Walk(s, [&](const Stmt& inner) {
    const auto* x = inner.As<Instruct>();
    holds |= x != nullptr && x->op == op;
    return !holds;
  });
  return holds;
}

int64_t NoteOf(const Instruct& x, const std::string& name) {
  int64_t value = 0;
  const auto note = x.annotations.find(name);
  KILN_CHECK(note == x.annotations.end() || absl::SimpleAtoi(note->second, &value));
  return value;
}

}  // namespace kiln::ir

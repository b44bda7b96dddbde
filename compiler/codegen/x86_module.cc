// Entry points are host_entry.h's; a Launch becomes
//
//     if (r = kiln_rt_tiles()) return r;     // where blocks use tile registers
//     if (r = kiln_rt_run(launch, blocks(n), block_0, slots, scratch_bytes)) return r;
//
//   internal void block_0(slots, int64 index, scratch) { bx = ..., by = ...; body }
#include "compiler/codegen/x86_module.h"

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/emit_stmt.h"
#include "compiler/codegen/host_entry.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/visit.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

constexpr int64_t kLineBytes = 64;

class X86Entry : public HostEntry {
 public:
  X86Entry(const ir::Program& program, const std::string& symbol, llvm::Module& module)
      : HostEntry(program, symbol, module, 1) {}
  const ModuleFacts& facts() const { return facts_; }

 protected:
  Value* EmitTake(llvm::IRBuilder<>& b, Value* bytes) override {
    const auto take =
        module().getOrInsertFunction("kiln_rt_workspace", b.getPtrTy(), b.getInt64Ty());
    return b.CreateCall(take, {bytes});
  }
  void EmitGiveBack(llvm::IRBuilder<>& b, Value* memory) override {
    const auto release =
        module().getOrInsertFunction("kiln_rt_release", b.getVoidTy(), b.getPtrTy());
    b.CreateCall(release, {memory});
  }

  void EmitLaunch(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Launch& launch) override {
    if (UsesTiles(launch)) {
      const auto ask = module().getOrInsertFunction("kiln_rt_tiles", b.getInt32Ty());
      StopIfFailed(b, b.CreateCall(ask, {}));
    }
    int64_t scratch = 0;
    Value* block = EmitBlockFunction(launch, false, &scratch);
    if (launch.annotations.count("stream_bytes") > 0) {
      llvm::Function* streams = EmitBlockFunction(launch, true, &scratch);
      block = b.CreateSelect(LargeAndAligned(b, exprs, launch), streams, block);
    }
    facts_.scratch_bytes = std::max(facts_.scratch_bytes, scratch);
    facts_.grid_blocks = std::max(facts_.grid_blocks, ConstantBlockCount(launch));
    facts_.threads = std::max<int>(facts_.threads, ir::ThreadsOf(launch).value_or(1));
    const auto run =
        module().getOrInsertFunction("kiln_rt_run", b.getInt32Ty(), b.getPtrTy(), b.getInt64Ty(),
                                     b.getPtrTy(), b.getPtrTy(), b.getInt64Ty());
    StopIfFailed(b, b.CreateCall(run, {launch_argument(), EmitBlockCount(b, exprs, launch), block,
                                       slots_array(), b.getInt64(scratch)}));
  }

 private:
  static bool UsesTiles(const ir::Launch& launch) {
    bool uses = false;
    ir::Walk(launch.body, [&](const ir::Stmt& s) {
      uses |= s.kind() == ir::StmtKind::kPairGemm;
      return !uses;
    });
    return uses;
  }

  // Whether every tensor that the launch streams to starts a line and has "stream_bytes".
  Value* LargeAndAligned(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Launch& launch) {
    int64_t least = 0;
    KILN_CHECK(absl::SimpleAtoi(launch.annotations.at("stream_bytes"), &least));
    std::vector<ir::Buffer> targets;
    ir::Walk(launch.body, [&](const ir::Stmt& s) {
      const auto* store = s.As<ir::Store>();
      if (store != nullptr && store->way == ir::StoreWay::kStream &&
          !absl::c_linear_search(targets, store->buffer)) {
        targets.push_back(store->buffer);
      }
      return true;
    });
    Value* all = b.getTrue();
    for (const ir::Buffer& buffer : targets) {
      Value* address = b.CreateLoad(b.getInt64Ty(), SlotAddress(b, slots().SlotOf(buffer)));
      Value* bytes = b.getInt64(buffer->dtype.bytes());
      for (const ir::Expr& extent : buffer->shape)
        bytes = b.CreateMul(bytes, exprs.EmitIndex(extent));
      all = b.CreateAnd(all, b.CreateICmpSGE(bytes, b.getInt64(least)));
      all = b.CreateAnd(all, b.CreateIsNull(b.CreateAnd(address, b.getInt64(kLineBytes - 1))));
    }
    return all;
  }

  llvm::Function* EmitBlockFunction(const ir::Launch& launch, bool past_caches,
                                    int64_t* scratch_bytes) {
    llvm::Type* i64 = llvm::Type::getInt64Ty(context());
    llvm::Type* ptr = llvm::PointerType::getUnqual(context());
    auto* function = llvm::Function::Create(
        llvm::FunctionType::get(llvm::Type::getVoidTy(context()), {ptr, i64, ptr}, false),
        llvm::Function::InternalLinkage, absl::StrCat(symbol(), "_block_", launches_++), module());
    function->addParamAttr(2, llvm::Attribute::NoAlias);
    llvm::IRBuilder<> b(llvm::BasicBlock::Create(context(), "entry", function));
    // Allocas go to `entry`; the body starts in a block of its own.
    auto* body = llvm::BasicBlock::Create(context(), "block", function);
    llvm::BranchInst* to_body = b.CreateBr(body);
    b.SetInsertPoint(to_body);
    ExprEmitter exprs(b, module());
    const auto raw = [&](size_t slot, llvm::Type* type) {
      return b.CreateLoad(type, b.CreateConstGEP1_64(b.getInt64Ty(), function->getArg(0), slot));
    };
    slots().Bind(b, exprs, raw);
    Value* error = raw(error_slot(), ptr);
    b.SetInsertPoint(body);
    BindBlockIndices(b, exprs, launch, function->getArg(1));
    StmtEmitter stmts(b, exprs, function->getArg(2), error, past_caches);
    stmts.Emit(launch.body);
    // Streamed stores are ordered by nothing else: the launch's end must not overtake them.
    if (past_caches) b.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
    if (UsesTiles(launch)) EmitTileRelease(b);
    b.CreateRetVoid();
    *scratch_bytes = stmts.scratch_bytes();
    if (!exprs.status().ok()) Fail(exprs.status());
    return function;
  }

  int launches_ = 0;
  ModuleFacts facts_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<llvm::Module>> BuildX86Module(const ir::Program& program,
                                                             const std::string& symbol,
                                                             llvm::LLVMContext& context,
                                                             ModuleFacts* facts) {
  auto module = std::make_unique<llvm::Module>(symbol, context);
  X86Entry entry(program, symbol, *module);
  KILN_RETURN_IF_ERROR(entry.Build());
  *facts = entry.facts();
  return module;
}

}  // namespace kiln::codegen

// The module of a program with one Launch over tensors A, B and one run-time dim n:
//
//   int32 symbol(launch, A, B, int64 n) {
//     if (!A || !B) return KILN_ERROR_ARGUMENT;
//     slots = {A, B, n, &error};             // what every block can see
//     if (r = kiln_rt_tiles()) return r;     // where blocks use tile registers
//     r = kiln_rt_run(launch, blocks(n), block_0, slots, scratch_bytes);
//     return r ? r : error;
//   }
//   internal void block_0(slots, int64 index, scratch) { bx = ..., by = ...; body }
#include "compiler/codegen/x86_module.h"

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/emit_stmt.h"
#include "compiler/codegen/runtime/kiln_launch.h"
#include "compiler/ir/visit.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {
namespace {

using ir::Expr;
using llvm::Value;

constexpr int64_t kLineBytes = 64;

class ModuleBuilder {
 public:
  ModuleBuilder(const ir::Program& program, const std::string& symbol, llvm::LLVMContext& context)
      : program_(program),
        symbol_(symbol),
        context_(context),
        module_(std::make_unique<llvm::Module>(symbol, context)) {}

  absl::StatusOr<std::unique_ptr<llvm::Module>> Build(ModuleFacts* facts) {
    CollectHost();
    DeclareEntry();
    llvm::IRBuilder<> b(&entry_->getEntryBlock());
    ExprEmitter exprs(b, *module_);
    EmitPrologue(b, exprs);
    for (const ir::Stmt& s : host_) EmitHost(b, exprs, s);
    EmitEpilogue(b);
    if (status_.ok()) status_ = exprs.status();
    KILN_RETURN_IF_ERROR(status_);
    *facts = facts_;
    return std::move(module_);
  }

 private:
  // Host level: workspaces, binds and launches, in order.
  void CollectHost() {
    if (const auto* seq = program_.body.As<ir::Seq>()) {
      Flatten(*seq);
    } else {
      host_.push_back(program_.body);
    }
    for (const ir::Stmt& s : host_) {
      if (const auto* alloc = s.As<ir::Alloc>()) workspaces_.push_back(alloc->buffer);
      if (const auto* bind = s.As<ir::Bind>()) host_vars_.push_back(bind->var);
    }
  }
  void Flatten(const ir::Seq& seq) {
    for (const ir::Stmt& s : seq.stmts) {
      if (const auto* inner = s.As<ir::Seq>()) {
        Flatten(*inner);
      } else {
        host_.push_back(s);
      }
    }
  }

  void DeclareEntry() {
    llvm::Type* i64 = llvm::Type::getInt64Ty(context_);
    llvm::Type* ptr = llvm::PointerType::getUnqual(context_);
    std::vector<llvm::Type*> types = {ptr};
    for (const ir::Param& p : program_.params) {
      if (p.kind == ir::Param::kTensor) types.push_back(ptr);
    }
    for (const ir::Param& p : program_.params) {
      if (p.kind == ir::Param::kScalar) types.push_back(i64);
    }
    types.insert(types.end(), program_.dims.size(), i64);
    entry_ = llvm::Function::Create(
        llvm::FunctionType::get(llvm::Type::getInt32Ty(context_), types, false),
        llvm::Function::ExternalLinkage, symbol_, *module_);
    llvm::BasicBlock::Create(context_, "entry", entry_);
  }

  // What blocks see, in the order of their slots: tensors, scalars, dims, workspaces, host
  // variables, the error word.
  size_t SlotCount() const {
    return program_.params.size() + program_.dims.size() + workspaces_.size() + host_vars_.size() +
           1;
  }
  Value* SlotAddress(llvm::IRBuilder<>& b, Value* slots, size_t index) {
    return b.CreateConstGEP1_64(b.getInt64Ty(), slots, index);
  }

  void EmitPrologue(llvm::IRBuilder<>& b, ExprEmitter& exprs) {
    error_ = b.CreateAlloca(b.getInt32Ty());
    slots_ = b.CreateAlloca(llvm::ArrayType::get(b.getInt64Ty(), SlotCount()));
    b.CreateStore(b.getInt32(KILN_OK), error_);
    auto* bad = llvm::BasicBlock::Create(context_, "bad_argument", entry_);
    auto* good = llvm::BasicBlock::Create(context_, "run", entry_);
    Value* any_bad = b.getFalse();
    unsigned arg = 1;
    size_t slot = 0;
    for (const ir::Param& p : program_.params) {
      if (p.kind != ir::Param::kTensor) continue;
      Value* pointer = entry_->getArg(arg++);
      any_bad = b.CreateOr(any_bad, b.CreateIsNull(pointer));
      b.CreateStore(pointer, SlotAddress(b, slots_, slot));
      slot_of_buffer_.push_back({p.buffer, slot++});
    }
    const auto value_slot = [&](const Expr& var) {
      Value* raw = entry_->getArg(arg++);
      b.CreateStore(raw, SlotAddress(b, slots_, slot));
      slot_of_var_.push_back({var, slot++});
      exprs.BindVar(var, FromSlot(b, exprs, raw, var.dtype()));
      return raw;
    };
    for (const ir::Param& p : program_.params) {
      if (p.kind == ir::Param::kScalar) value_slot(p.scalar);
    }
    for (const Expr& dim : program_.dims) {
      Value* raw = value_slot(dim);
      any_bad = b.CreateOr(any_bad, b.CreateICmpSLT(raw, b.getInt64(0)));
      if (dim.dtype().bits == 32) {
        any_bad = b.CreateOr(any_bad, b.CreateICmpSGT(raw, b.getInt64(INT32_MAX)));
      }
    }
    b.CreateCondBr(any_bad, bad, good);
    b.SetInsertPoint(bad);
    b.CreateRet(b.getInt32(KILN_ERROR_ARGUMENT));
    for (const ir::Buffer& w : workspaces_) slot_of_buffer_.push_back({w, slot++});
    for (const Expr& v : host_vars_) slot_of_var_.push_back({v, slot++});
    b.SetInsertPoint(good);
    b.CreateStore(error_, SlotAddress(b, slots_, slot));
    for (size_t i = 0; i < workspaces_.size(); ++i) {
      b.CreateStore(llvm::Constant::getNullValue(b.getPtrTy()),
                    SlotAddress(b, slots_, SlotOf(workspaces_[i])));
    }
  }

  size_t SlotOf(const ir::Buffer& buffer) const {
    for (const auto& [known, slot] : slot_of_buffer_) {
      if (known == buffer) return slot;
    }
    KILN_CHECK(false && "buffer without a slot");
    return 0;
  }

  // Slots hold 64 bits; floats travel as their own bits in the low half.
  Value* FromSlot(llvm::IRBuilder<>& b, ExprEmitter& exprs, Value* raw, DType type) {
    if (type.is_float()) {
      if (type.bits == 64) return b.CreateBitCast(raw, b.getDoubleTy());
      return b.CreateBitCast(b.CreateTrunc(raw, b.getInt32Ty()), b.getFloatTy());
    }
    if (type.is_bool()) return b.CreateICmpNE(raw, b.getInt64(0));
    return b.CreateTrunc(raw, exprs.RegisterType(type));
  }

  void EmitHost(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Stmt& s) {
    if (const auto* launch = s.As<ir::Launch>()) return EmitLaunch(b, exprs, *launch);
    if (const auto* alloc = s.As<ir::Alloc>()) return EmitWorkspace(b, exprs, alloc->buffer);
    if (const auto* bind = s.As<ir::Bind>()) {
      Value* value = exprs.Emit(bind->value);
      exprs.BindVar(bind->var, value);
      for (const auto& [var, slot] : slot_of_var_) {
        if (!var.same_as(bind->var)) continue;
        b.CreateStore(exprs.EmitIndex(bind->var), SlotAddress(b, slots_, slot));
      }
      return;
    }
    Fail(absl::UnimplementedError(
        "a kernel may only launch blocks, allocate workspaces and bind sizes outside T.Kernel"));
  }

  void EmitWorkspace(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Buffer& buffer) {
    Value* bytes = b.getInt64(buffer->dtype.bytes());
    for (const Expr& extent : buffer->shape) bytes = b.CreateMul(bytes, exprs.EmitIndex(extent));
    const auto allocate =
        module_->getOrInsertFunction("kiln_rt_workspace", b.getPtrTy(), b.getInt64Ty());
    Value* memory = b.CreateCall(allocate, {bytes});
    b.CreateStore(memory, SlotAddress(b, slots_, SlotOf(buffer)));
    StopUnless(b, b.CreateIsNotNull(memory), b.getInt32(KILN_ERROR_MEMORY));
  }

  // Leaves through the epilogue with `code` unless `condition`.
  void StopUnless(llvm::IRBuilder<>& b, Value* condition, Value* code) {
    auto* stop = llvm::BasicBlock::Create(context_, "stop", entry_);
    auto* go_on = llvm::BasicBlock::Create(context_, "go_on", entry_);
    b.CreateCondBr(condition, go_on, stop);
    b.SetInsertPoint(stop);
    b.CreateStore(code, error_);
    stops_.push_back(stop);
    b.SetInsertPoint(go_on);
  }

  void EmitLaunch(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Launch& launch) {
    if (UsesTiles(launch)) {
      const auto ask = module_->getOrInsertFunction("kiln_rt_tiles", b.getInt32Ty());
      Value* granted = b.CreateCall(ask, {});
      StopUnless(b, b.CreateICmpEQ(granted, b.getInt32(0)), granted);
    }
    int64_t scratch = 0;
    Value* block = EmitBlockFunction(launch, false, &scratch);
    if (launch.annotations.count("stream_bytes") > 0) {
      llvm::Function* streams = EmitBlockFunction(launch, true, &scratch);
      block = b.CreateSelect(LargeAndAligned(b, exprs, launch), streams, block);
    }
    Value* count = b.getInt64(1);
    int64_t known = 1;
    for (const ir::Axis& axis : launch.grid) {
      Value* extent = exprs.EmitIndex(axis.extent);
      count = b.CreateMul(count, extent);
      known *= ir::ConstInt(axis.extent).value_or(0);
    }
    facts_.scratch_bytes = std::max(facts_.scratch_bytes, scratch);
    facts_.grid_blocks = std::max(facts_.grid_blocks, known);
    int64_t threads = 1;
    for (const Expr& t : launch.threads) threads *= ir::ConstInt(t).value_or(1);
    facts_.threads = std::max<int>(facts_.threads, threads);
    const auto run =
        module_->getOrInsertFunction("kiln_rt_run", b.getInt32Ty(), b.getPtrTy(), b.getInt64Ty(),
                                     b.getPtrTy(), b.getPtrTy(), b.getInt64Ty());
    Value* result =
        b.CreateCall(run, {entry_->getArg(0), count, block, slots_, b.getInt64(scratch)});
    StopUnless(b, b.CreateICmpEQ(result, b.getInt32(0)), result);
  }

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
      if (store != nullptr && store->streams && !absl::c_linear_search(targets, store->buffer)) {
        targets.push_back(store->buffer);
      }
      return true;
    });
    Value* all = b.getTrue();
    for (const ir::Buffer& buffer : targets) {
      Value* address = b.CreateLoad(b.getInt64Ty(), SlotAddress(b, slots_, SlotOf(buffer)));
      Value* bytes = b.getInt64(buffer->dtype.bytes());
      for (const Expr& extent : buffer->shape) bytes = b.CreateMul(bytes, exprs.EmitIndex(extent));
      all = b.CreateAnd(all, b.CreateICmpSGE(bytes, b.getInt64(least)));
      all = b.CreateAnd(all, b.CreateIsNull(b.CreateAnd(address, b.getInt64(kLineBytes - 1))));
    }
    return all;
  }

  void EmitEpilogue(llvm::IRBuilder<>& b) {
    auto* leave = llvm::BasicBlock::Create(context_, "leave", entry_);
    b.CreateBr(leave);
    for (llvm::BasicBlock* stop : stops_) llvm::IRBuilder<>(stop).CreateBr(leave);
    b.SetInsertPoint(leave);
    if (!workspaces_.empty()) {
      const auto release =
          module_->getOrInsertFunction("kiln_rt_release", b.getVoidTy(), b.getPtrTy());
      for (const ir::Buffer& w : workspaces_) {
        b.CreateCall(release, {b.CreateLoad(b.getPtrTy(), SlotAddress(b, slots_, SlotOf(w)))});
      }
    }
    b.CreateRet(b.CreateLoad(b.getInt32Ty(), error_));
  }

  // ---- blocks ----

  llvm::Function* EmitBlockFunction(const ir::Launch& launch, bool past_caches,
                                    int64_t* scratch_bytes) {
    llvm::Type* i64 = llvm::Type::getInt64Ty(context_);
    llvm::Type* ptr = llvm::PointerType::getUnqual(context_);
    auto* function = llvm::Function::Create(
        llvm::FunctionType::get(llvm::Type::getVoidTy(context_), {ptr, i64, ptr}, false),
        llvm::Function::InternalLinkage, absl::StrCat(symbol_, "_block_", launches_++), *module_);
    function->addParamAttr(2, llvm::Attribute::NoAlias);
    llvm::IRBuilder<> b(llvm::BasicBlock::Create(context_, "entry", function));
    // Allocas go to `entry`; the body starts in a block of its own.
    auto* body = llvm::BasicBlock::Create(context_, "block", function);
    llvm::BranchInst* to_body = b.CreateBr(body);
    b.SetInsertPoint(to_body);
    ExprEmitter exprs(b, *module_);
    Value* slots = function->getArg(0);
    for (const auto& [var, slot] : slot_of_var_) {
      Value* raw = b.CreateLoad(i64, SlotAddress(b, slots, slot));
      exprs.BindVar(var, FromSlot(b, exprs, raw, var.dtype()));
    }
    for (const auto& [buffer, slot] : slot_of_buffer_) BindTensor(b, exprs, slots, buffer, slot);
    Value* error = b.CreateLoad(ptr, SlotAddress(b, slots, SlotCount() - 1));
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

  void BindTensor(llvm::IRBuilder<>& b, ExprEmitter& exprs, Value* slots, const ir::Buffer& buffer,
                  size_t slot) {
    Place place;
    place.base = b.CreateLoad(b.getPtrTy(), SlotAddress(b, slots, slot));
    place.strides.resize(buffer->shape.size());
    Value* stride = b.getInt64(1);
    for (size_t d = buffer->shape.size(); d-- > 0;) {
      if (!buffer->strides.empty()) {
        place.strides[d] = exprs.EmitIndex(buffer->strides[d]);
        continue;
      }
      place.strides[d] = stride;
      stride = b.CreateMul(stride, exprs.EmitIndex(buffer->shape[d]));
    }
    exprs.BindBuffer(buffer, place);
  }

  // x fastest; with a swizzle panel of p rows, blocks walk p rows of y before x moves on, so that
  // neighbours in time share tiles in cache.
  void BindBlockIndices(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Launch& launch,
                        Value* index) {
    std::vector<Value*> extents, block;
    for (const ir::Axis& axis : launch.grid) extents.push_back(exprs.EmitIndex(axis.extent));
    const auto panel = launch.annotations.find("swizzle_panel");
    int64_t rows = 0;
    if (panel != launch.annotations.end() && launch.grid.size() >= 2) {
      (void)absl::SimpleAtoi(panel->second, &rows);
    }
    Value* plane = extents.size() > 1 ? b.CreateMul(extents[0], extents[1]) : extents[0];
    Value* in_plane = extents.size() > 2 ? b.CreateURem(index, plane) : index;
    if (rows > 1) {
      Value* group_size = b.CreateMul(extents[0], b.getInt64(rows));
      Value* group = b.CreateUDiv(in_plane, group_size);
      Value* first = b.CreateMul(group, b.getInt64(rows));
      Value* left = b.CreateSub(extents[1], first);
      Value* height =
          b.CreateSelect(b.CreateICmpULT(left, b.getInt64(rows)), left, b.getInt64(rows));
      Value* rest = b.CreateURem(in_plane, group_size);
      block = {b.CreateUDiv(rest, height), b.CreateAdd(first, b.CreateURem(rest, height))};
    } else {
      block.push_back(extents.size() > 1 ? b.CreateURem(in_plane, extents[0]) : in_plane);
      if (extents.size() > 1) block.push_back(b.CreateUDiv(in_plane, extents[0]));
    }
    if (extents.size() > 2) block.push_back(b.CreateUDiv(index, plane));
    for (size_t i = 0; i < launch.grid.size(); ++i) {
      const Expr& var = launch.grid[i].var;
      exprs.BindVar(var, b.CreateTrunc(block[i], exprs.RegisterType(var.dtype())));
    }
  }

  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  const ir::Program& program_;
  const std::string symbol_;
  llvm::LLVMContext& context_;
  std::unique_ptr<llvm::Module> module_;
  std::vector<ir::Stmt> host_;
  std::vector<ir::Buffer> workspaces_;
  std::vector<Expr> host_vars_;
  std::vector<std::pair<ir::Buffer, size_t>> slot_of_buffer_;
  std::vector<std::pair<Expr, size_t>> slot_of_var_;
  std::vector<llvm::BasicBlock*> stops_;
  llvm::Function* entry_ = nullptr;
  Value* error_ = nullptr;
  Value* slots_ = nullptr;
  int launches_ = 0;
  ModuleFacts facts_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<llvm::Module>> BuildX86Module(const ir::Program& program,
                                                             const std::string& symbol,
                                                             llvm::LLVMContext& context,
                                                             ModuleFacts* facts) {
  return ModuleBuilder(program, symbol, context).Build(facts);
}

}  // namespace kiln::codegen

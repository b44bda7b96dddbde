#include "compiler/codegen/host_entry.h"

#include "compiler/codegen/runtime/kiln_launch.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {

using ir::Expr;
using llvm::Value;

HostEntry::HostEntry(const ir::Program& program, const std::string& symbol, llvm::Module& module,
                     int64_t alignment)
    : program_(program), symbol_(symbol), module_(module), alignment_(alignment), slots_(program) {}

absl::Status HostEntry::Build() {
  DeclareEntry();
  llvm::IRBuilder<> b(&entry_->getEntryBlock());
  ExprEmitter exprs(b, module_);
  EmitPrologue(b, exprs);
  for (const ir::Stmt& s : slots_.host()) EmitHost(b, exprs, s);
  EmitEpilogue(b);
  if (status_.ok()) status_ = exprs.status();
  return status_;
}

void HostEntry::DeclareEntry() {
  llvm::Type* i64 = llvm::Type::getInt64Ty(context());
  llvm::Type* ptr = llvm::PointerType::getUnqual(context());
  std::vector<llvm::Type*> types = {ptr};
  for (const ir::Param& p : program_.params) {
    if (p.kind == ir::Param::kTensor) types.push_back(ptr);
  }
  for (const ir::Param& p : program_.params) {
    if (p.kind == ir::Param::kScalar) types.push_back(i64);
  }
  types.insert(types.end(), program_.dims.size(), i64);
  entry_ = llvm::Function::Create(
      llvm::FunctionType::get(llvm::Type::getInt32Ty(context()), types, false),
      llvm::Function::ExternalLinkage, symbol_, module_);
  llvm::BasicBlock::Create(context(), "entry", entry_);
}

Value* HostEntry::SlotAddress(llvm::IRBuilder<>& b, size_t index) const {
  return b.CreateConstGEP1_64(b.getInt64Ty(), array_, index);
}

void HostEntry::EmitPrologue(llvm::IRBuilder<>& b, ExprEmitter& exprs) {
  error_ = b.CreateAlloca(b.getInt32Ty());
  array_ = b.CreateAlloca(llvm::ArrayType::get(b.getInt64Ty(), slots_.size() + 1));
  b.CreateStore(b.getInt32(KILN_OK), error_);
  auto* bad = llvm::BasicBlock::Create(context(), "bad_argument", entry_);
  auto* good = llvm::BasicBlock::Create(context(), "run", entry_);
  Value* any_bad = b.getFalse();
  unsigned arg = 1;
  for (const ir::Param& p : program_.params) {
    if (p.kind != ir::Param::kTensor) continue;
    Value* pointer = entry_->getArg(arg++);
    any_bad = b.CreateOr(any_bad, b.CreateIsNull(pointer));
    const int64_t whole = p.buffer->table ? int64_t{sizeof(int64_t)} : alignment_;
    if (whole > 1) {
      Value* low =
          b.CreateAnd(b.CreatePtrToInt(pointer, b.getInt64Ty()), static_cast<uint64_t>(whole - 1));
      any_bad = b.CreateOr(any_bad, b.CreateIsNotNull(low));
    }
    b.CreateStore(pointer, SlotAddress(b, slots_.SlotOf(p.buffer)));
  }
  const auto value_slot = [&](const Expr& var) {
    Value* raw = entry_->getArg(arg++);
    b.CreateStore(raw, SlotAddress(b, slots_.SlotOf(var)));
    exprs.BindVar(var, LaunchSlots::FromSlot(b, exprs, raw, var.dtype()));
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
  b.SetInsertPoint(good);
  b.CreateStore(error_, SlotAddress(b, error_slot()));
  for (const ir::Buffer& w : slots_.workspaces()) {
    b.CreateStore(llvm::Constant::getNullValue(b.getPtrTy()), SlotAddress(b, slots_.SlotOf(w)));
  }
}

void HostEntry::EmitHost(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Stmt& s) {
  if (const auto* launch = s.As<ir::Launch>()) return EmitLaunch(b, exprs, *launch);
  if (const auto* alloc = s.As<ir::Alloc>()) return EmitWorkspace(b, exprs, alloc->buffer);
  if (const auto* bind = s.As<ir::Bind>()) {
    exprs.BindVar(bind->var, exprs.Emit(bind->value));
    b.CreateStore(exprs.EmitIndex(bind->var), SlotAddress(b, slots_.SlotOf(bind->var)));
    return;
  }
  if (const auto* check = s.As<ir::Assert>()) {
    return StopUnless(b, exprs.Emit(check->condition), b.getInt32(KILN_ERROR_ARGUMENT));
  }
  Fail(
      absl::UnimplementedError("a kernel may only launch blocks, allocate workspaces, bind and "
                               "check sizes outside T.Kernel"));
}

void HostEntry::EmitWorkspace(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Buffer& buffer) {
  Value* bytes = b.getInt64(buffer->dtype.bytes());
  for (const Expr& extent : buffer->shape) bytes = b.CreateMul(bytes, exprs.EmitIndex(extent));
  Value* memory = EmitTake(b, bytes);
  b.CreateStore(memory, SlotAddress(b, slots_.SlotOf(buffer)));
  StopUnless(b, b.CreateIsNotNull(memory), b.getInt32(KILN_ERROR_MEMORY));
}

void HostEntry::StopUnless(llvm::IRBuilder<>& b, Value* condition, Value* code) {
  auto* stop = llvm::BasicBlock::Create(context(), "stop", entry_);
  auto* go_on = llvm::BasicBlock::Create(context(), "go_on", entry_);
  b.CreateCondBr(condition, go_on, stop);
  b.SetInsertPoint(stop);
  b.CreateStore(code, error_);
  stops_.push_back(stop);
  b.SetInsertPoint(go_on);
}

void HostEntry::StopIfFailed(llvm::IRBuilder<>& b, Value* result) {
  StopUnless(b, b.CreateICmpEQ(result, b.getInt32(0)), result);
}

void HostEntry::EmitEpilogue(llvm::IRBuilder<>& b) {
  auto* leave = llvm::BasicBlock::Create(context(), "leave", entry_);
  b.CreateBr(leave);
  for (llvm::BasicBlock* stop : stops_) llvm::IRBuilder<>(stop).CreateBr(leave);
  b.SetInsertPoint(leave);
  for (const ir::Buffer& w : slots_.workspaces()) {
    EmitGiveBack(b, b.CreateLoad(b.getPtrTy(), SlotAddress(b, slots_.SlotOf(w))));
  }
  b.CreateRet(b.CreateLoad(b.getInt32Ty(), error_));
}

}  // namespace kiln::codegen

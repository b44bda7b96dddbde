#include "compiler/codegen/host_entry.h"

#include "compiler/codegen/runtime/kiln_launch.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {

using ir::Expr;
using llvm::Value;

HostEntry::HostEntry(const ir::Program& program, const std::string& symbol, llvm::Module& module,
                     int64_t alignment)
    : program_(program), symbol_(symbol), module_(module), alignment_(alignment), slots_(program) {}

namespace {

bool IsWord(DType type) { return type.is_int() && type.is_scalar() && type.bits >= 32; }

// The operation on values of the type that says whether the result is one.
llvm::Intrinsic::ID WithOverflow(ir::BinaryOp op, DType type) {
  const bool is_signed = !type.is_uint();
  switch (op) {
    case ir::BinaryOp::kAdd:
      return is_signed ? llvm::Intrinsic::sadd_with_overflow : llvm::Intrinsic::uadd_with_overflow;
    case ir::BinaryOp::kSub:
      return is_signed ? llvm::Intrinsic::ssub_with_overflow : llvm::Intrinsic::usub_with_overflow;
    case ir::BinaryOp::kMul:
    case ir::BinaryOp::kShl:  // by so much that it is a multiplication
      return is_signed ? llvm::Intrinsic::smul_with_overflow : llvm::Intrinsic::umul_with_overflow;
    default:
      return llvm::Intrinsic::not_intrinsic;
  }
}

}  // namespace

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
  for (const ir::Param& p : program_.params) {
    if (p.kind != ir::Param::kTensor) continue;
    for (const Expr& extent : p.buffer->shape) CheckSize(b, exprs, extent);
    for (const Expr& stride : p.buffer->strides) CheckSize(b, exprs, stride);
  }
}

void HostEntry::CheckSize(llvm::IRBuilder<>& b, ExprEmitter& exprs, const Expr& size) {
  Value* overflows = Overflows(b, exprs, size);
  if (llvm::isa<llvm::Constant>(overflows)) return;
  StopUnless(b, b.CreateNot(overflows), b.getInt32(KILN_ERROR_ARGUMENT));
}

Value* HostEntry::Overflows(llvm::IRBuilder<>& b, ExprEmitter& exprs, const Expr& e) {
  const auto inside = [&](const Expr& operand) { return Overflows(b, exprs, operand); };
  if (const auto bound = overflows_.find(e.get()); bound != overflows_.end()) return bound->second;
  if (const auto* x = e.As<ir::Select>()) {
    Value* chosen = b.CreateSelect(exprs.Emit(x->condition), inside(x->a), inside(x->b));
    return b.CreateOr(inside(x->condition), chosen);
  }
  if (const auto* x = e.As<ir::Cast>()) {
    Value* before = inside(x->a);
    const bool narrows = IsWord(e.dtype()) && IsWord(x->a.dtype());
    if (!narrows || x->a.dtype().bits <= e.dtype().bits) return before;
    return b.CreateOr(before, b.CreateICmpNE(exprs.EmitIndex(e), exprs.EmitIndex(x->a)));
  }
  const auto* x = e.As<ir::Binary>();
  if (x == nullptr) return b.getFalse();
  Value* right = inside(x->b);
  if (x->op == ir::BinaryOp::kAnd) right = b.CreateAnd(exprs.Emit(x->a), right);
  if (x->op == ir::BinaryOp::kOr) right = b.CreateAnd(b.CreateNot(exprs.Emit(x->a)), right);
  Value* before = b.CreateOr(inside(x->a), right);
  const auto op = WithOverflow(x->op, e.dtype());
  if (op == llvm::Intrinsic::not_intrinsic || !IsWord(e.dtype())) return before;
  Value* by = exprs.Emit(x->b);
  if (x->op == ir::BinaryOp::kShl) by = b.CreateShl(llvm::ConstantInt::get(by->getType(), 1), by);
  Value* both = b.CreateBinaryIntrinsic(op, exprs.Emit(x->a), by);
  return b.CreateOr(before, b.CreateExtractValue(both, 1));
}

void HostEntry::EmitBind(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Bind& bind) {
  exprs.BindVar(bind.var, exprs.Emit(bind.value));
  b.CreateStore(exprs.EmitIndex(bind.var), SlotAddress(b, slots_.SlotOf(bind.var)));
  overflows_[bind.var.get()] = Overflows(b, exprs, bind.value);
}

void HostEntry::EmitHost(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Stmt& s) {
  if (const auto* launch = s.As<ir::Launch>()) {
    for (const ir::Axis& axis : launch->grid) CheckSize(b, exprs, axis.extent);
    return EmitLaunch(b, exprs, *launch);
  }
  if (const auto* alloc = s.As<ir::Alloc>()) {
    for (const Expr& extent : alloc->buffer->shape) CheckSize(b, exprs, extent);
    return EmitWorkspace(b, exprs, alloc->buffer);
  }
  if (const auto* bind = s.As<ir::Bind>()) return EmitBind(b, exprs, *bind);
  if (const auto* check = s.As<ir::Assert>()) {
    CheckSize(b, exprs, check->condition);
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

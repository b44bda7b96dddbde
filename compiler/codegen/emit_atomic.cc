// Atomic updates, and lines of output: what a statement does beyond its own thread.
#include "absl/strings/str_cat.h"
#include "compiler/codegen/emit_control.h"
#include "compiler/ir/print_format.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {
namespace {

using ir::Expr;
using llvm::Value;

llvm::AtomicRMWInst::BinOp AtomicOperation(ir::AtomicOp op, DType type) {
  using Op = llvm::AtomicRMWInst;
  switch (op) {
    case ir::AtomicOp::kAdd:
      return type.is_float() ? Op::FAdd : Op::Add;
    case ir::AtomicOp::kMax:
      return type.is_float() ? Op::FMax : type.is_uint() ? Op::UMax : Op::Max;
    case ir::AtomicOp::kMin:
      return type.is_float() ? Op::FMin : type.is_uint() ? Op::UMin : Op::Min;
    case ir::AtomicOp::kAnd:
      return Op::And;
    case ir::AtomicOp::kOr:
      return Op::Or;
    case ir::AtomicOp::kXor:
      return Op::Xor;
    case ir::AtomicOp::kStore:
    case ir::AtomicOp::kLoad:
      return Op::Xchg;
  }
  return Op::Add;
}

Expr Updated(ir::AtomicOp op, const Expr& old, const Expr& value) {
  switch (op) {
    case ir::AtomicOp::kAdd:
      return ir::MakeBinary(ir::BinaryOp::kAdd, old, value);
    case ir::AtomicOp::kMax:
      return ir::MakeBinary(ir::BinaryOp::kMax, old, value);
    case ir::AtomicOp::kMin:
      return ir::MakeBinary(ir::BinaryOp::kMin, old, value);
    case ir::AtomicOp::kAnd:
      return ir::MakeBinary(ir::BinaryOp::kBitAnd, old, value);
    case ir::AtomicOp::kOr:
      return ir::MakeBinary(ir::BinaryOp::kBitOr, old, value);
    case ir::AtomicOp::kXor:
      return ir::MakeBinary(ir::BinaryOp::kBitXor, old, value);
    case ir::AtomicOp::kStore:
    case ir::AtomicOp::kLoad:
      return value;
  }
  return value;
}

constexpr auto kRelaxed = llvm::AtomicOrdering::Monotonic;

}  // namespace

// Fences before and after the access: what LLVM makes of an ordered access itself depends on the
// target, and the NVPTX back end leaves the order out of read-modify-write instructions.
void ControlEmitter::Order(ir::MemoryOrder order, bool before) {
  using Order = ir::MemoryOrder;
  const bool releases = order == Order::kRelease || order == Order::kBoth;
  const bool acquires = order == Order::kAcquire || order == Order::kBoth;
  if (order == Order::kSequential) {
    EmitFence(llvm::AtomicOrdering::SequentiallyConsistent);
  } else if (before ? releases : acquires) {
    EmitFence(before ? llvm::AtomicOrdering::Release : llvm::AtomicOrdering::Acquire);
  }
}

void ControlEmitter::EmitAtomic(const ir::Atomic& atomic, const char* target,
                                llvm::SyncScope::ID scope, bool halves) {
  const DType type = atomic.dst.buffer->dtype;
  if (type.bits < 8 || type.is_bool()) {
    exprs_.Fail(absl::UnimplementedError(
        absl::StrCat("atomic update of ", type.ToString(), " has no ", target,
                     " lowering; accumulate in a float32 or int32 tensor")));
    return;
  }
  std::vector<Expr> indices;
  for (const ir::Range& range : atomic.dst.ranges) indices.push_back(range.min);
  Value* address = exprs_.EmitAddress(atomic.dst.buffer, indices);
  const bool half = type.is_float() && type.bits == 16 && atomic.op == ir::AtomicOp::kAdd;
  Order(atomic.way.order, /*before=*/true);
  Value* previous = half && halves   ? AddHalf(atomic, address, scope)
                    : type.bits < 32 ? UpdateNarrow(atomic, address, scope)
                                     : UpdateWide(atomic, address, scope);
  Order(atomic.way.order, /*before=*/false);
  if (!atomic.way.previous) return;
  const Expr name = ir::MakeVar("previous", type);
  exprs_.BindVar(name, previous);
  exprs_.EmitStore(atomic.way.previous, {ir::MakeInt(0)}, name, {});
}

Value* ControlEmitter::AddHalf(const ir::Atomic& atomic, Value* address,
                               llvm::SyncScope::ID scope) {
  const DType type = atomic.dst.buffer->dtype;
  Value* value = b_.CreateBitCast(exprs_.EmitStored(ir::MakeCast(type, atomic.value), 1),
                                  type == kFloat16 ? llvm::Type::getHalfTy(b_.getContext())
                                                   : llvm::Type::getBFloatTy(b_.getContext()));
  Value* previous = b_.CreateAtomicRMW(AtomicOperation(atomic.op, type), address, value,
                                       llvm::MaybeAlign(type.bytes()), kRelaxed, scope);
  return atomic.way.previous ? b_.CreateFPExt(previous, b_.getFloatTy()) : nullptr;
}

Value* ControlEmitter::UpdateWide(const ir::Atomic& atomic, Value* address,
                                  llvm::SyncScope::ID scope) {
  const DType type = atomic.dst.buffer->dtype;
  const llvm::Align align(type.bytes());
  if (atomic.op == ir::AtomicOp::kLoad) {
    llvm::LoadInst* load = b_.CreateAlignedLoad(exprs_.RegisterType(type), address, align);
    load->setAtomic(kRelaxed, scope);
    return load;
  }
  Value* value = exprs_.Emit(ir::MakeCast(type, atomic.value));
  if (atomic.op == ir::AtomicOp::kStore && !atomic.way.previous) {
    b_.CreateAlignedStore(value, address, align)->setAtomic(kRelaxed, scope);
    return nullptr;
  }
  return b_.CreateAtomicRMW(AtomicOperation(atomic.op, type), address, value, align, kRelaxed,
                            scope);
}

// No processor computes with such types in memory: the element is read, computed and swapped in,
// again and again until nobody came between.
Value* ControlEmitter::UpdateNarrow(const ir::Atomic& atomic, Value* address,
                                    llvm::SyncScope::ID scope) {
  const DType type = atomic.dst.buffer->dtype;
  const llvm::Align align(type.bytes());
  const Expr old = ir::MakeVar("old", type), value = ir::MakeVar("value", type);
  if (atomic.op != ir::AtomicOp::kLoad) {
    exprs_.BindVar(value, exprs_.Emit(ir::MakeCast(type, atomic.value)));
  }
  llvm::LoadInst* first = b_.CreateAlignedLoad(b_.getIntNTy(type.bits), address, align);
  first->setAtomic(kRelaxed, scope);
  const auto read = [&](Value* bits) {
    return exprs_.FromStorage(b_.CreateBitCast(bits, exprs_.StorageType(type)), type);
  };
  if (atomic.op == ir::AtomicOp::kLoad) return read(first);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* again = NewBlock("again");
  llvm::BasicBlock* done = NewBlock("done");
  b_.CreateBr(again);
  b_.SetInsertPoint(again);
  llvm::PHINode* seen = b_.CreatePHI(first->getType(), 2);
  seen->addIncoming(first, before);
  Value* previous = read(seen);
  exprs_.BindVar(old, previous);
  Value* next =
      b_.CreateBitCast(exprs_.EmitStored(Updated(atomic.op, old, value), 1), first->getType());
  llvm::AtomicCmpXchgInst* swap =
      b_.CreateAtomicCmpXchg(address, seen, next, align, kRelaxed, kRelaxed, scope);
  Value* found = b_.CreateExtractValue(swap, 0);
  seen->addIncoming(found, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateExtractValue(swap, 1), done, again);
  b_.SetInsertPoint(done);
  return previous;
}

std::vector<Value*> ControlEmitter::PrintedValues(const ir::Print& print) {
  std::vector<Value*> values;
  for (const Expr& e : print.values) {
    Value* value = exprs_.Emit(e);
    if (e.dtype().is_float()) {
      values.push_back(b_.CreateFPExt(value, b_.getDoubleTy()));
    } else if (e.dtype().is_uint() || e.dtype().is_bool()) {
      values.push_back(b_.CreateZExt(value, b_.getInt64Ty()));
    } else {
      values.push_back(b_.CreateSExt(value, b_.getInt64Ty()));
    }
  }
  return values;
}

void ControlEmitter::EmitPrint(const ir::Print& print) {
  std::vector<Value*> args = {b_.CreateGlobalString(ir::FormatOf(print), "line")};
  for (Value* value : PrintedValues(print)) args.push_back(value);
  auto* type = llvm::FunctionType::get(b_.getInt32Ty(), {b_.getPtrTy()}, true);
  b_.CreateCall(exprs_.module().getOrInsertFunction("printf", type), args);
}

// vprintf of the CUDA run time (CUDA C++ Programming Guide, "Formatted output"): the values lie one
// after the other, each of them 64 bits wide.
void ControlEmitter::EmitDevicePrint(const ir::Print& print) {
  constexpr unsigned kGlobalSpace = 1;
  llvm::Constant* text =
      llvm::ConstantDataArray::getString(b_.getContext(), ir::FormatOf(print), true);
  auto* format = new llvm::GlobalVariable(exprs_.module(), text->getType(), true,
                                          llvm::GlobalValue::InternalLinkage, text, "line", nullptr,
                                          llvm::GlobalValue::NotThreadLocal, kGlobalSpace);
  const std::vector<Value*> values = PrintedValues(print);
  Value* list = llvm::ConstantPointerNull::get(b_.getPtrTy());
  if (!values.empty()) {
    list = OnStack(b_.getInt64Ty(), static_cast<int64_t>(values.size()), 8);
    for (size_t i = 0; i < values.size(); ++i) {
      b_.CreateAlignedStore(values[i], b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), list, i),
                            llvm::Align(8));
    }
  }
  auto* type = llvm::FunctionType::get(b_.getInt32Ty(), {b_.getPtrTy(), b_.getPtrTy()}, false);
  b_.CreateCall(exprs_.module().getOrInsertFunction("vprintf", type),
                {b_.CreateAddrSpaceCast(format, b_.getPtrTy()), list});
}

}  // namespace kiln::codegen

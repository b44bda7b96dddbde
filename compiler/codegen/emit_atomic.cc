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
  const bool half = type.is_float() && type.bits == 16 && atomic.op == ir::AtomicOp::kAdd;
  if (type.bits < 32 && !(half && halves)) {
    exprs_.Fail(absl::UnimplementedError(
        absl::StrCat("atomic update of ", type.ToString(), " has no ", target,
                     " lowering; accumulate in a float32 or int32 tensor")));
    return;
  }
  std::vector<Expr> indices;
  for (const ir::Range& range : atomic.dst.ranges) indices.push_back(range.min);
  Value* address = exprs_.EmitAddress(atomic.dst.buffer, indices);
  Value* value = nullptr;
  if (half) {
    value = b_.CreateBitCast(exprs_.EmitStored(ir::MakeCast(type, atomic.value), 1),
                             type == kFloat16 ? llvm::Type::getHalfTy(b_.getContext())
                                              : llvm::Type::getBFloatTy(b_.getContext()));
  } else if (atomic.op != ir::AtomicOp::kLoad) {
    value = exprs_.Emit(ir::MakeCast(type, atomic.value));
  }
  Order(atomic.way.order, /*before=*/true);
  const llvm::Align align(type.bytes());
  constexpr auto kRelaxed = llvm::AtomicOrdering::Monotonic;
  Value* previous = nullptr;
  if (atomic.op == ir::AtomicOp::kLoad) {
    llvm::LoadInst* load = b_.CreateAlignedLoad(exprs_.RegisterType(type), address, align);
    load->setAtomic(kRelaxed, scope);
    previous = load;
  } else if (atomic.op == ir::AtomicOp::kStore && !atomic.way.previous) {
    b_.CreateAlignedStore(value, address, align)->setAtomic(kRelaxed, scope);
  } else {
    previous = b_.CreateAtomicRMW(AtomicOperation(atomic.op, type), address, value,
                                  llvm::MaybeAlign(type.bytes()), kRelaxed, scope);
  }
  Order(atomic.way.order, /*before=*/false);
  if (!atomic.way.previous) return;
  if (half) previous = b_.CreateFPExt(previous, b_.getFloatTy());
  const Expr name = ir::MakeVar("previous", type);
  exprs_.BindVar(name, previous);
  exprs_.EmitStore(atomic.way.previous, {ir::MakeInt(0)}, name, {});
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

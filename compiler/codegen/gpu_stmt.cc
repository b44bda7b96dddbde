#include "compiler/codegen/gpu_stmt.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/unrolled.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/visit.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {
namespace {

using ir::Expr;
using llvm::Value;

constexpr unsigned kGlobalSpace = 1;  // of NVPTX; tables may pass the 64 KiB of constant memory

}  // namespace

void GpuStmtEmitter::Emit(const ir::Stmt& s) {
  switch (s.kind()) {
    case ir::StmtKind::kFor:
      if (s.As<ir::For>()->loop == ir::ForKind::kThreads) return EmitThreads(*s.As<ir::For>());
      if (depth_ == kOutside) return ControlEmitter::Emit(s);
      ++depth_;
      ControlEmitter::Emit(s);
      --depth_;
      return;
    case ir::StmtKind::kOnThreads:
      return EmitPart(*s.As<ir::OnThreads>());
    case ir::StmtKind::kAlloc:
      return EmitAlloc(*s.As<ir::Alloc>());
    case ir::StmtKind::kStore:
      return EmitStore(*s.As<ir::Store>());
    case ir::StmtKind::kAtomic:
      return EmitAtomic(*s.As<ir::Atomic>(), "GPU",
                        b_.getContext().getOrInsertSyncScopeID("device"), /*halves=*/true);
    case ir::StmtKind::kInstruct:
      return instruct_.Emit(*s.As<ir::Instruct>());
    case ir::StmtKind::kPrint:
      return EmitDevicePrint(*s.As<ir::Print>());
    case ir::StmtKind::kAssert:
      return EmitAssert(*s.As<ir::Assert>());
    default:
      return ControlEmitter::Emit(s);
  }
}

// membar.gl, which serves every order (PTX 9.7.13.4).
void GpuStmtEmitter::EmitFence(llvm::AtomicOrdering) {
  b_.CreateIntrinsic(llvm::Intrinsic::nvvm_membar_gl, {}, {});
}

void GpuStmtEmitter::EmitThreads(const ir::For& loop) {
  const Expr& var = loop.axes[0].var;
  exprs_.BindVar(var, b_.CreateSExtOrTrunc(thread_, exprs_.RegisterType(var.dtype())));
  depth_ = 0;
  Emit(loop.body);
  depth_ = kOutside;
}

void GpuStmtEmitter::EmitPart(const ir::OnThreads& part) {
  Value* from = b_.CreateSub(thread_, b_.getInt32(static_cast<uint32_t>(part.first)));
  const auto around = instruct_.SetPart({part.first, part.count});
  Value* inside = b_.CreateICmpULT(from, b_.getInt32(static_cast<uint32_t>(part.count)));
  Guarded(inside, [&] {
    b_.CreateAssumption(inside);  // what LLVM knows of bits it takes from here, not from branches
    Emit(part.body);
  });
  instruct_.SetPart(around);
}

bool GpuStmtEmitter::HoldsNamedProducts(const ir::Stmt& s) const {
  bool holds = false;
  if (named_.empty()) return holds;
  ir::Walk(s, [&](const ir::Stmt& inner) {
    const auto* x = inner.As<ir::Instruct>();
    holds |= x != nullptr && x->op == ir::Instruction::kWgmma &&
             named_.count(x->regions[0].buffer.get()) > 0;
    return !holds;
  });
  return holds;
}

void GpuStmtEmitter::OnLatch(const ir::For& loop, llvm::BranchInst* latch) {
  const bool is_short = depth_ == 1 && UnrollsForSpeed(loop);
  const bool unrolls = is_short || UnrollsForRegisters(loop);
  // Without their sums products look small to LLVM, which would repeat them.
  if (!unrolls && !HoldsNamedProducts(loop.body)) return;
  if (!unrolls) return KeepAsLoop(*latch);
  llvm::LLVMContext& context = b_.getContext();
  llvm::Metadata* full =
      llvm::MDNode::get(context, llvm::MDString::get(context, "llvm.loop.unroll.full"));
  llvm::MDNode* id = llvm::MDNode::getDistinct(context, {nullptr, full});
  id->replaceOperandWith(0, id);
  latch->setMetadata(llvm::LLVMContext::MD_loop, id);
}

Value* GpuStmtEmitter::ConstantTable(const ir::BufferNode& buffer) {
  llvm::Type* element = exprs_.StorageType(buffer.dtype);
  std::vector<llvm::Constant*> values;
  for (const int64_t v : *buffer.values) {
    values.push_back(llvm::ConstantInt::get(element, static_cast<uint64_t>(v), true));
  }
  auto* type = llvm::ArrayType::get(element, values.size());
  auto* table =
      new llvm::GlobalVariable(exprs_.module(), type, true, llvm::GlobalValue::InternalLinkage,
                               llvm::ConstantArray::get(type, values), "table", nullptr,
                               llvm::GlobalValue::NotThreadLocal, kGlobalSpace);
  table->setAlignment(llvm::Align(16));
  return table;
}

void GpuStmtEmitter::EmitAlloc(const ir::Alloc& alloc) {
  const ir::BufferNode& buffer = *alloc.buffer;
  int64_t elements = 0;
  Place place = PlaceOfShape(b_, buffer, &elements);
  llvm::Type* element = exprs_.StorageType(buffer.dtype);
  switch (buffer.scope) {
    case ir::Scope::kConstant:
      place.base = ConstantTable(buffer);
      break;
    case ir::Scope::kShared:
    case ir::Scope::kBarrier: {
      const int64_t align = ir::SharedAlignment(buffer);
      const int64_t own = (shared_bytes_ + align - 1) / align * align;
      const int64_t from = alloc.place == ir::Alloc::kOwnPlace ? own : alloc.place;
      place.base = b_.CreateConstGEP1_64(b_.getInt8Ty(), shared_, from);
      shared_bytes_ =
          std::max(shared_bytes_, from + elements / buffer.blocks * buffer.dtype.bytes());
      break;
    }
    default:
      if (buffer.scope == ir::Scope::kRegister) {  // each thread has its own row alone
        elements /= std::max<int64_t>(1, *ir::ConstInt(buffer.shape[0]));
        place.strides[0] = b_.getInt64(0);
      }
      if (named_.count(&buffer) > 0) return gpu_exprs_.NameSums(alloc.buffer, elements);
      place.base = OnStack(element, elements, 16);
  }
  exprs_.BindBuffer(alloc.buffer, place);
  if (alloc.init.defined()) {
    exprs_.EmitStore(alloc.buffer, std::vector<Expr>(buffer.shape.size(), ir::MakeInt(0)),
                     alloc.init, {});
  }
}

// Says so, and ends the kernel: what it was called for gets KILN_ERROR_DEVICE.
void GpuStmtEmitter::EmitAssert(const ir::Assert& check) {
  Guarded(b_.CreateNot(exprs_.Emit(check.condition)), [&] {
    const std::string where =
        check.loc.known() ? absl::StrCat("line ", check.loc.line, ": ") : std::string();
    EmitDevicePrint(
        ir::Print(check.loc, {absl::StrCat(where, "assertion failed: ", check.message)}, {}));
    b_.CreateIntrinsic(llvm::Intrinsic::trap, {}, {});
  });
}

bool GpuStmtEmitter::IsOwnRank(const Expr& rank) const {
  return own_rank_.defined() &&
         ir::IsConst(facts_.Simplify(ir::Equal(rank, ir::MakeCast(rank.dtype(), own_rank_))), 1);
}

// To the same place of another block (mapa, PTX 9.7.9.24; st.shared::cluster, 9.7.9.11), in words
// as wide as what is stored.
void GpuStmtEmitter::EmitRemoteStore(const ir::Store& store) {
  const int lanes = store.indices.back().dtype().lanes;
  if (lanes > 1) {
    return exprs_.Fail(absl::UnimplementedError(
        absl::StrCat("a store of ", lanes, " elements to another block of the cluster")));
  }
  Value* value = exprs_.EmitStored(store.value, 1);
  const unsigned bits = value->getType()->getPrimitiveSizeInBits().getFixedValue();
  // PTX has no registers of 8 bits: the low ones of 16 are stored.
  Value* word = b_.CreateBitCast(value, b_.getIntNTy(bits));
  if (bits < 16) word = b_.CreateZExt(word, b_.getInt16Ty());
  Value* address =
      b_.CreatePtrToInt(exprs_.EmitAddress(store.buffer, store.indices), b_.getInt32Ty());
  Value* rank = b_.CreateIntCast(exprs_.Emit(store.indices[0]), b_.getInt32Ty(), true);
  auto* form = llvm::FunctionType::get(b_.getVoidTy(),
                                       {b_.getInt32Ty(), b_.getInt32Ty(), word->getType()}, false);
  const char* value_class = bits == 64 ? "l" : bits == 32 ? "r" : "h";
  auto* code = llvm::InlineAsm::get(
      form,
      absl::StrCat("{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, $0, $1;\n"
                   "st.shared::cluster.b",
                   bits, " [remote], $2;\n}"),
      absl::StrCat("r,r,", value_class, ",~{memory}"), true);
  b_.CreateCall(form, code, {address, rank, word});
}

void GpuStmtEmitter::EmitStore(const ir::Store& store) {
  const auto emit = [&] {
    if (store.buffer->blocks > 1 && !IsOwnRank(store.indices[0])) return EmitRemoteStore(store);
    exprs_.EmitStore(store.buffer, store.indices, store.value, {});
  };
  if (!store.predicate.defined()) return emit();
  Guarded(exprs_.Emit(store.predicate), emit);
}

}  // namespace kiln::codegen

#include "compiler/codegen/emit_stmt.h"

#include "absl/strings/str_cat.h"
#include "compiler/codegen/runtime/kiln_launch.h"
#include "compiler/ir/visit.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {
namespace {

using ir::Expr;
using llvm::Value;

constexpr int64_t kAlign = 64;
// Smaller tiles than this live on the stack, where LLVM can keep them in registers; so do larger
// ones that the program says are local.
constexpr int64_t kStackBytes = 512;
constexpr int64_t kLocalStackBytes = 32 << 10;
constexpr int64_t kAllStackBytes = 256 << 10;  // of a block's function; a thread's stack is small

}  // namespace

llvm::BasicBlock* StmtEmitter::NewBlock(const char* name) {
  return llvm::BasicBlock::Create(b_.getContext(), name, b_.GetInsertBlock()->getParent());
}

void StmtEmitter::Jump(llvm::BasicBlock* target) {
  b_.CreateBr(target);
  b_.SetInsertPoint(NewBlock("after"));
}

template <typename F>
void StmtEmitter::Guarded(Value* condition, F then) {
  llvm::BasicBlock* inside = NewBlock("then");
  llvm::BasicBlock* join = NewBlock("join");
  b_.CreateCondBr(condition, inside, join);
  b_.SetInsertPoint(inside);
  then();
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
}

template <typename F>
void StmtEmitter::WithTiles(std::initializer_list<ir::Stmt> parts, F emit) {
  std::vector<TileShape> shapes;
  for (const ir::Stmt& part : parts) {
    ir::Walk(part, [&](const ir::Stmt& s) {
      const auto* gemm = s.As<ir::PairGemm>();
      if (gemm != nullptr && (shapes.empty() || !(shapes.back() == ShapeOf(*gemm)))) {
        shapes.push_back(ShapeOf(*gemm));
      }
      return true;
    });
  }
  if (shapes.size() == 1) Configure(shapes[0]);
  const bool mixed = shapes.size() > 1;
  if (mixed) tiles_.reset();
  emit();
  if (mixed) tiles_.reset();
}

void StmtEmitter::Emit(const ir::Stmt& s) {
  switch (s.kind()) {
    case ir::StmtKind::kSeq:
      for (const ir::Stmt& child : s.As<ir::Seq>()->stmts) Emit(child);
      return;
    case ir::StmtKind::kFor:
      return WithTiles({s.As<ir::For>()->body}, [&] { EmitFor(*s.As<ir::For>()); });
    case ir::StmtKind::kWhile:
      return WithTiles({s.As<ir::While>()->body}, [&] { EmitWhile(*s.As<ir::While>()); });
    case ir::StmtKind::kIf: {
      const auto* branch = s.As<ir::If>();
      return WithTiles({branch->then_case, branch->else_case}, [&] { EmitIf(*branch); });
    }
    case ir::StmtKind::kBind:
      exprs_.BindVar(s.As<ir::Bind>()->var, exprs_.Emit(s.As<ir::Bind>()->value));
      return;
    case ir::StmtKind::kAlloc:
      return EmitAlloc(*s.As<ir::Alloc>());
    case ir::StmtKind::kStore:
      return EmitStore(*s.As<ir::Store>());
    case ir::StmtKind::kAtomic:
      return EmitAtomic(*s.As<ir::Atomic>());
    case ir::StmtKind::kPairGemm:
      return EmitPairGemm(*s.As<ir::PairGemm>());
    case ir::StmtKind::kEvaluate:
      exprs_.Emit(s.As<ir::Evaluate>()->value);
      return;
    case ir::StmtKind::kAssert:
      return EmitAssert(*s.As<ir::Assert>());
    case ir::StmtKind::kBreak:
      return Jump(loops_.back().exit);
    case ir::StmtKind::kContinue:
      return Jump(loops_.back().next);
    default:
      exprs_.Fail(absl::InternalError(
          absl::StrCat("statement kind ", static_cast<int>(s.kind()),
                       " reached code generation; the CPU pipeline lowers it")));
  }
}

void StmtEmitter::EmitFor(const ir::For& loop) {
  if (loop.loop != ir::ForKind::kSerial) {
    exprs_.Fail(absl::InternalError("a loop that is not serial reached code generation"));
    return;
  }
  const ir::Axis& axis = loop.axes[0];
  Value* first = exprs_.Emit(axis.min);
  Value* last = b_.CreateAdd(first, exprs_.Emit(ir::MakeCast(axis.min.dtype(), axis.extent)), "",
                             false, true);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* header = NewBlock("for");
  llvm::BasicBlock* body = NewBlock("body");
  llvm::BasicBlock* next = NewBlock("next");
  llvm::BasicBlock* exit = NewBlock("done");
  b_.CreateBr(header);
  b_.SetInsertPoint(header);
  llvm::PHINode* i = b_.CreatePHI(first->getType(), 2);
  i->addIncoming(first, before);
  b_.CreateCondBr(b_.CreateICmpSLT(i, last), body, exit);
  b_.SetInsertPoint(body);
  exprs_.BindVar(axis.var, axis.var.dtype() == axis.min.dtype()
                               ? static_cast<Value*>(i)
                               : b_.CreateSExtOrTrunc(i, exprs_.RegisterType(axis.var.dtype())));
  loops_.push_back({next, exit});
  Emit(loop.body);
  loops_.pop_back();
  b_.CreateBr(next);
  b_.SetInsertPoint(next);
  i->addIncoming(b_.CreateAdd(i, llvm::ConstantInt::get(i->getType(), 1), "", true, true), next);
  b_.CreateBr(header);
  b_.SetInsertPoint(exit);
}

void StmtEmitter::EmitWhile(const ir::While& loop) {
  llvm::BasicBlock* header = NewBlock("while");
  llvm::BasicBlock* body = NewBlock("body");
  llvm::BasicBlock* exit = NewBlock("done");
  b_.CreateBr(header);
  b_.SetInsertPoint(header);
  b_.CreateCondBr(exprs_.Emit(loop.condition), body, exit);
  b_.SetInsertPoint(body);
  loops_.push_back({header, exit});
  Emit(loop.body);
  loops_.pop_back();
  b_.CreateBr(header);
  b_.SetInsertPoint(exit);
}

void StmtEmitter::EmitIf(const ir::If& branch) {
  Value* condition = exprs_.Emit(branch.condition);
  if (!branch.else_case.defined()) {
    Guarded(condition, [&] { Emit(branch.then_case); });
    return;
  }
  const std::optional<TileShape> before = tiles_;
  llvm::BasicBlock* yes = NewBlock("then");
  llvm::BasicBlock* no = NewBlock("else");
  llvm::BasicBlock* join = NewBlock("join");
  b_.CreateCondBr(condition, yes, no);
  b_.SetInsertPoint(yes);
  Emit(branch.then_case);
  b_.CreateBr(join);
  b_.SetInsertPoint(no);
  if (tiles_ != before) tiles_.reset();  // shapes differ: as at the branch
  Emit(branch.else_case);
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
}

void StmtEmitter::EmitAlloc(const ir::Alloc& alloc) {
  const ir::Buffer& buffer = alloc.buffer;
  std::vector<int64_t> shape;
  for (const Expr& extent : buffer->shape) {
    const auto n = ir::ConstInt(extent);
    KILN_CHECK(n.has_value());  // check-resources refuses it
    shape.push_back(*n);
  }
  Place place;
  place.strides.resize(shape.size());
  int64_t elements = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    const int64_t stride = buffer->strides.empty() ? elements : *ir::ConstInt(buffer->strides[d]);
    place.strides[d] = b_.getInt64(stride);
    elements =
        buffer->strides.empty() ? elements * shape[d] : std::max(elements, stride * shape[d]);
  }
  llvm::Type* element = exprs_.StorageType(buffer->dtype);
  const int64_t bytes = elements * buffer->dtype.bytes();
  const bool local = buffer->scope == ir::Scope::kLocal || buffer->scope == ir::Scope::kVar;
  if (bytes <= (local ? kLocalStackBytes : kStackBytes) && stack_bytes_ + bytes <= kAllStackBytes) {
    stack_bytes_ += bytes;
    llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
    llvm::IRBuilder<> top(&entry, entry.begin());
    auto* slot = top.CreateAlloca(llvm::ArrayType::get(element, elements));
    slot->setAlignment(llvm::Align(kAlign));
    place.base = slot;
  } else {
    place.base = b_.CreateConstGEP1_64(b_.getInt8Ty(), scratch_, scratch_bytes_);
    scratch_bytes_ += (bytes + kAlign - 1) / kAlign * kAlign;
  }
  exprs_.BindBuffer(buffer, place);
  if (alloc.init.defined()) {
    exprs_.EmitStore(buffer, std::vector<Expr>(shape.size(), ir::MakeInt(0)), alloc.init, {});
  }
}

void StmtEmitter::EmitStore(const ir::Store& store) {
  const bool past_caches = past_caches_ && store.streams;
  const bool masked = store.predicate.defined() && !store.predicate.dtype().is_scalar();
  const auto emit = [&] {
    exprs_.EmitStore(store.buffer, store.indices, store.value, masked ? store.predicate : Expr(),
                     past_caches);
  };
  if (masked || !store.predicate.defined()) return emit();
  // A scalar guard skips the whole statement, its loads included.
  Guarded(exprs_.Emit(store.predicate), emit);
}

void StmtEmitter::EmitAtomic(const ir::Atomic& atomic) {
  const DType type = atomic.dst.buffer->dtype;
  if (type.bits < 32) {
    exprs_.Fail(absl::UnimplementedError(
        absl::StrCat("atomic update of ", type.ToString(),
                     " has no x86-64 lowering; accumulate in a float32 or int32 tensor")));
    return;
  }
  std::vector<Expr> indices;
  for (const ir::Range& range : atomic.dst.ranges) indices.push_back(range.min);
  Value* address = exprs_.EmitAddress(atomic.dst.buffer, indices);
  Value* value = exprs_.Emit(ir::MakeCast(type, atomic.value));
  using Op = llvm::AtomicRMWInst;
  Op::BinOp op = Op::Add;
  switch (atomic.op) {
    case ir::AtomicOp::kAdd:
      op = type.is_float() ? Op::FAdd : Op::Add;
      break;
    case ir::AtomicOp::kMax:
      op = type.is_float() ? Op::FMax : type.is_uint() ? Op::UMax : Op::Max;
      break;
    case ir::AtomicOp::kMin:
      op = type.is_float() ? Op::FMin : type.is_uint() ? Op::UMin : Op::Min;
      break;
  }
  b_.CreateAtomicRMW(op, address, value, llvm::MaybeAlign(type.bytes()),
                     llvm::AtomicOrdering::Monotonic);
}

void StmtEmitter::Configure(const TileShape& shape) {
  if (tiles_ == shape) return;
  EmitTileConfig(b_, exprs_.module(), shape);
  tiles_ = shape;
}

void StmtEmitter::EmitPairGemm(const ir::PairGemm& gemm) {
  Configure(ShapeOf(gemm));
  const auto matrix = [&](const ir::Region& region) {
    std::vector<Expr> first;
    for (const ir::Range& range : region.ranges) first.push_back(range.min);
    const std::vector<Value*>& strides = exprs_.PlaceOf(region.buffer).strides;
    Value* bytes = b_.getInt64(region.buffer->dtype.bytes());
    return TileMatrix{exprs_.EmitAddress(region.buffer, first),
                      b_.CreateMul(strides[strides.size() - 2], bytes)};
  };
  const int64_t pairs = *ir::ConstInt(gemm.b.ranges[gemm.b.ranges.size() - 2].extent);
  EmitTileProduct(b_, ShapeOf(gemm), pairs / ShapeOf(gemm).pairs, matrix(gemm.a), matrix(gemm.b),
                  matrix(gemm.c));
}

void StmtEmitter::EmitAssert(const ir::Assert& check) {
  Value* failed = b_.CreateNot(exprs_.Emit(check.condition));
  Guarded(failed, [&] {
    b_.CreateStore(b_.getInt32(KILN_ERROR_ASSERT), error_)
        ->setAtomic(llvm::AtomicOrdering::Monotonic);
  });
}

}  // namespace kiln::codegen

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
    case ir::StmtKind::kFor:
      return WithTiles({s.As<ir::For>()->body}, [&] { ControlEmitter::Emit(s); });
    case ir::StmtKind::kWhile:
      return WithTiles({s.As<ir::While>()->body}, [&] { ControlEmitter::Emit(s); });
    case ir::StmtKind::kIf:
      return EmitBranch(s);
    case ir::StmtKind::kAlloc:
      return EmitAlloc(*s.As<ir::Alloc>());
    case ir::StmtKind::kStore:
      return EmitStore(*s.As<ir::Store>());
    case ir::StmtKind::kAtomic:
      return EmitAtomic(*s.As<ir::Atomic>(), "x86-64", llvm::SyncScope::System);
    case ir::StmtKind::kPrint:
      return EmitPrint(*s.As<ir::Print>());
    case ir::StmtKind::kPairGemm:
      return EmitPairGemm(*s.As<ir::PairGemm>());
    case ir::StmtKind::kAssert:
      return EmitAssert(*s.As<ir::Assert>());
    default:
      return ControlEmitter::Emit(s);
  }
}

// Where the sides want different shapes, the second begins with what stands at the branch.
void StmtEmitter::EmitBranch(const ir::Stmt& s) {
  const auto* branch = s.As<ir::If>();
  WithTiles({branch->then_case, branch->else_case}, [&] {
    branches_.push_back(tiles_);
    ControlEmitter::Emit(s);
    branches_.pop_back();
  });
}

void StmtEmitter::BeforeElse() {
  if (tiles_ != branches_.back()) tiles_.reset();
}

void StmtEmitter::EmitAlloc(const ir::Alloc& alloc) {
  const ir::Buffer& buffer = alloc.buffer;
  int64_t elements = 0;
  Place place = PlaceOfShape(b_, *buffer, &elements);
  llvm::Type* element = exprs_.StorageType(buffer->dtype);
  const int64_t bytes = elements * buffer->dtype.bytes();
  const bool local = buffer->scope == ir::Scope::kLocal || buffer->scope == ir::Scope::kVar;
  if (bytes <= (local ? kLocalStackBytes : kStackBytes) && stack_bytes_ + bytes <= kAllStackBytes) {
    stack_bytes_ += bytes;
    place.base = OnStack(element, elements, kAlign);
  } else {
    place.base = b_.CreateConstGEP1_64(b_.getInt8Ty(), scratch_, scratch_bytes_);
    scratch_bytes_ += (bytes + kAlign - 1) / kAlign * kAlign;
  }
  exprs_.BindBuffer(buffer, place);
  if (alloc.init.defined()) {
    exprs_.EmitStore(buffer, std::vector<Expr>(buffer->shape.size(), ir::MakeInt(0)), alloc.init,
                     {});
  }
}

void StmtEmitter::EmitStore(const ir::Store& store) {
  const bool past_caches = past_caches_ && store.way == ir::StoreWay::kStream;
  const bool masked = store.predicate.defined() && !store.predicate.dtype().is_scalar();
  const auto emit = [&] {
    exprs_.EmitStore(store.buffer, store.indices, store.value, masked ? store.predicate : Expr(),
                     past_caches);
  };
  if (masked || !store.predicate.defined()) return emit();
  // A scalar guard skips the whole statement, its loads included.
  Guarded(exprs_.Emit(store.predicate), emit);
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

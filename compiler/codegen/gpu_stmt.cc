#include "compiler/codegen/gpu_stmt.h"

#include <algorithm>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/visit.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {
namespace {

using ir::Expr;
using llvm::Value;

constexpr unsigned kGlobalSpace = 1;     // of NVPTX; tables may pass the 64 KiB of constant memory
constexpr int64_t kMostUnrolled = 1024;  // iterations of one loop
// Stores of a loop that is unrolled for speed alone: what it loads from tensors is then on its way
// at once; what it computes from elsewhere would only wait in registers.
constexpr int64_t kMostFetched = 64, kMostComputed = 32;
// Of a loop that is unrolled for the registers that it indexes, beyond so few steps. No loop of the
// templates has as many. A product is many instructions.
constexpr int64_t kFewSteps = 16, kMostNodes = 1 << 15, kNodesOfInstruction = 64;

bool IsOwn(const ir::Buffer& b) {
  return b->scope == ir::Scope::kRegister || b->scope == ir::Scope::kLocal ||
         b->scope == ir::Scope::kFragment;
}

// No loops inside, and few stores in all.
bool IsSmall(const ir::For& loop, int64_t trips) {
  bool loops = false, fetches = false;
  int64_t stores = 0;
  ir::Walk(
      loop.body,
      [&](const ir::Stmt& x) {
        loops |= x.kind() == ir::StmtKind::kFor || x.kind() == ir::StmtKind::kWhile;
        stores += x.kind() == ir::StmtKind::kStore ? 1 : 0;
        return !loops;
      },
      [&](const Expr& e) {
        const auto* load = e.As<ir::Load>();
        fetches |= load != nullptr && load->buffer->scope == ir::Scope::kGlobal;
        return true;
      });
  return !loops && stores * trips <= (fetches ? kMostFetched : kMostComputed);
}

// Whether registers are indexed with the loop's variable, or with what is bound to it.
bool IndexesRegisters(const ir::For& loop) {
  std::unordered_set<const ir::ExprNode*> depends = {loop.axes[0].var.get()};
  const auto uses = [&](const Expr& e) {
    bool found = false;
    ir::Walk(e, [&](const Expr& x) {
      found |= depends.count(x.get()) > 0;
      return !found;
    });
    return found;
  };
  bool indexes = false;
  const auto check = [&](const ir::Buffer& b, const std::vector<Expr>& indices) {
    indexes |= IsOwn(b) && std::any_of(indices.begin(), indices.end(), uses);
  };
  ir::Walk(
      loop.body,
      [&](const ir::Stmt& s) {
        if (const auto* bind = s.As<ir::Bind>(); bind != nullptr && uses(bind->value)) {
          depends.insert(bind->var.get());
        }
        if (const auto* store = s.As<ir::Store>()) check(store->buffer, store->indices);
        return !indexes;
      },
      [&](const Expr& e) {
        if (const auto* load = e.As<ir::Load>()) check(load->buffer, load->indices);
        return !indexes;
      });
  return indexes;
}

// Nodes of a statement once loops that index registers are unrolled, if they are few.
int64_t NodesOf(const ir::Stmt& s) {
  int64_t nodes = 0;
  ir::Walk(
      s,
      [&](const ir::Stmt& x) {
        nodes += x.kind() == ir::StmtKind::kInstruct ? kNodesOfInstruction : 1;
        const auto* loop = x.As<ir::For>();
        if (loop == nullptr) return true;
        const int64_t trips = ir::ConstInt(loop->axes[0].extent).value_or(1);
        const int64_t inside = NodesOf(loop->body) * (IndexesRegisters(*loop) ? trips : 1);
        nodes = std::min(nodes + inside, kMostNodes + 1);
        return false;
      },
      [&](const Expr&) {
        ++nodes;
        return true;
      });
  return nodes;
}

// Many steps of much work each, such as those of a pipelined loop that looks up what threads keep
// for each of them: unrolled they would fill the instruction caches and take minutes to compile;
// what they index lies in local memory instead.
bool IsTooLong(const ir::For& loop, int64_t trips) {
  return trips > kFewSteps && trips * NodesOf(loop.body) > kMostNodes;
}

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

void GpuStmtEmitter::OnLatch(const ir::For& loop, llvm::BranchInst* latch) {
  const auto trips = ir::ConstInt(loop.axes[0].extent);
  if (!trips || *trips > kMostUnrolled) return;
  const bool is_short = depth_ == 1 && IsSmall(loop, *trips);
  if (!is_short && (!IndexesRegisters(loop) || IsTooLong(loop, *trips))) return;
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

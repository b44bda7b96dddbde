// Products in tensor memory (PTX ISA 9.0, 9.7.16): one thread starts them, an mbarrier says when
// they are over.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/codegen/gpu_expr.h"
#include "compiler/codegen/gpu_instruct.h"
#include "compiler/codegen/tcgen05_descriptors.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

constexpr int64_t kWarp = 32, kWarpgroup = 128;
constexpr int64_t kLanes = 128;        // of tensor memory
constexpr int64_t kMostColumns = 256;  // of one instruction
constexpr int64_t kStepBytes = 32;     // along k, of one instruction
constexpr int64_t kMostMoved = 128;    // registers of one load or store
constexpr char kOneBlock[] = ".cta_group::1";

const char* KindOf(DType type) {
  if (type.bits == 32) return "tf32";
  return type.bits == 16 ? "f16" : type.is_int() ? "i8" : "f8f6f4";
}

}  // namespace

// By the part's first warp, as a whole.
template <typename F>
void GpuInstructEmitter::OneWarp(F then) {
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  auto* inside = llvm::BasicBlock::Create(b_.getContext(), "warp", function);
  auto* join = llvm::BasicBlock::Create(b_.getContext(), "all", function);
  Value* from = b_.CreateSub(thread_, b_.getInt32(static_cast<uint32_t>(part_.first)));
  b_.CreateCondBr(b_.CreateICmpULT(from, b_.getInt32(kWarp)), inside, join);
  b_.SetInsertPoint(inside);
  MeetAsWarp();
  then();
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
}

// Instructions of whole warps must find the warp together.
void GpuInstructEmitter::MeetAsWarp() {
  b_.CreateIntrinsic(llvm::Intrinsic::nvvm_bar_warp_sync, {}, {b_.getInt32(~0u)});
}

void GpuInstructEmitter::EmitTcgen05(const ir::Instruct& x) {
  using ir::Instruction;
  switch (x.op) {
    case Instruction::kTcgen05Alloc:
      return OneWarp([&] {
        Asm(absl::StrCat("tcgen05.alloc", kOneBlock, ".sync.aligned.shared::cta.b32 [$0], ",
                         *ir::ConstInt(x.args[0]), ";\ntcgen05.relinquish_alloc_permit", kOneBlock,
                         ".sync.aligned;"),
            "r", {SharedAddress(x.regions[0])});
      });
    case Instruction::kTcgen05Free:
      return OneWarp([&] {
        Asm(absl::StrCat("tcgen05.dealloc", kOneBlock, ".sync.aligned.b32 $0, ",
                         *ir::ConstInt(x.args[1]), ";"),
            "r", {exprs_.Emit(x.args[0])});
      });
    case Instruction::kTcgen05Fence:
      return Asm(ir::IsConst(x.args[0], 1) ? "tcgen05.fence::after_thread_sync;"
                                           : "tcgen05.fence::before_thread_sync;");
    case Instruction::kTcgen05Mma:
      return Once(part_.count, [&] { EmitTcgen05Mma(x); });
    case Instruction::kTcgen05Commit:
      return Once(part_.count, [&] { EmitTcgen05Commit(x); });
    case Instruction::kTcgen05Load:
      // Until the wait its registers must not even be copied: both are one piece of PTX.
      loads_.push_back({PlaceOf(x), SumsOf(x), exprs_.Emit(x.args[0])});
      return;
    case Instruction::kTcgen05Store:
      return EmitTcgen05Store(x);
    default:
      return ir::IsConst(x.args[0], 1) ? Asm("tcgen05.wait::st.sync.aligned;") : EmitTcgen05Loads();
  }
}

// The barrier lies at the same place in all blocks of a cluster.
void GpuInstructEmitter::EmitTcgen05Commit(const ir::Instruct& x) {
  const int64_t blocks = std::max<int64_t>(1, NoteOf(x, "cluster"));
  const std::string text =
      absl::StrCat("tcgen05.commit", kOneBlock, ".mbarrier::arrive::one.shared::cluster");
  Value* barrier = SharedAddress(x.regions[0]);
  if (blocks == 1) return Asm(absl::StrCat(text, ".b64 [$0];"), "r", {barrier});
  Value* all = b_.getInt16(static_cast<uint16_t>((1 << blocks) - 1));
  Asm(absl::StrCat(text, ".multicast::cluster.b64 [$0], $1;"), "r,h", {barrier, all});
}

// One instruction has 128 rows, or 64, up to 256 columns, and 32 bytes along k.
void GpuInstructEmitter::EmitTcgen05Mma(const ir::Instruct& x) {
  const DType type = x.regions[0].buffer->dtype;
  const bool trans_a = NoteOf(x, "trans_a") != 0, trans_b = NoteOf(x, "trans_b") != 0;
  const int64_t m = NoteOf(x, "m"), n = NoteOf(x, "n"), k = NoteOf(x, "k");
  const int64_t rows = std::min(m, kLanes), step = kStepBytes / type.bytes();
  const GpuTile a = TileOf(x, 0), b = TileOf(x, 1);
  const auto descriptor = [&](const GpuTile& t, bool major_k, int64_t outer, int64_t inner) {
    const int64_t offset = major_k ? t.At(outer, inner) : t.At(inner, outer);
    Value* address = b_.CreateAdd(t.base, b_.getInt32(static_cast<uint32_t>(offset)));
    Value* field = b_.CreateAnd(b_.CreateLShr(address, b_.getInt32(4)), b_.getInt32(0x3fff));
    return b_.CreateOr(b_.CreateZExt(field, b_.getInt64Ty()),
                       b_.getInt64(Tcgen05TileDescriptor(t.swizzle, t.height)));
  };
  Value* keeps = b_.CreateZExt(b_.CreateNot(exprs_.Emit(x.args[0])), b_.getInt32Ty());
  Value* sums = exprs_.Emit(x.args[1]);
  for (int64_t mi = 0; mi < m; mi += rows) {
    for (int64_t ni = 0; ni < n; ni += kMostColumns) {
      const int64_t columns = std::min(kMostColumns, n - ni);
      const uint32_t shape = Tcgen05InstructionDescriptor(type, x.regions[1].buffer->dtype, rows,
                                                          columns, trans_a, !trans_b);
      Value* to = b_.CreateAdd(sums, b_.getInt32(static_cast<uint32_t>(mi / kLanes * n + ni)));
      for (int64_t ki = 0; ki < k; ki += step) {
        Asm(absl::StrCat("{\n.reg .pred add;\nsetp.ne.b32 add, $4, 0;\ntcgen05.mma", kOneBlock,
                         ".kind::", KindOf(type), " [$0], $1, $2, $3, add;\n}"),
            "r,l,l,r,r",
            {to, descriptor(a, !trans_a, mi, ki), descriptor(b, trans_b, ni, ki),
             b_.getInt32(shape), ki == 0 ? keeps : b_.getInt32(1)});
      }
    }
  }
}

// The registers of a result, and where a thread's part of it begins: the lanes of its warp, the
// columns of its warpgroup.
GpuInstructEmitter::Registers GpuInstructEmitter::PlaceOf(const ir::Instruct& x) {
  const ir::Buffer& held = x.regions[0].buffer;
  const TensorSums sums = SumsOf(x);
  return {exprs_.PlaceOf(held).base, exprs_.StorageType(held->dtype), sums.slabs * sums.own};
}

GpuInstructEmitter::TensorSums GpuInstructEmitter::SumsOf(const ir::Instruct& x) const {
  const int64_t m = NoteOf(x, "m"), n = NoteOf(x, "n");
  return {std::max<int64_t>(1, m / kLanes), n, n / std::max<int64_t>(1, part_.count / kWarpgroup)};
}

Value* GpuInstructEmitter::OwnLanes(Value* address, const TensorSums& sums) {
  Value* from = b_.CreateSub(thread_, b_.getInt32(static_cast<uint32_t>(part_.first)));
  Value* group = b_.CreateUDiv(from, b_.getInt32(kWarpgroup));
  Value* lane = b_.CreateAnd(from, b_.getInt32(kWarpgroup - kWarp));
  Value* column = b_.CreateMul(group, b_.getInt32(static_cast<uint32_t>(sums.own)));
  return b_.CreateAdd(address, b_.CreateAdd(b_.CreateShl(lane, b_.getInt32(16)), column));
}

// Pieces of as many columns as one instruction moves: powers of two.
template <typename F>
void GpuInstructEmitter::ForPieces(const TensorSums& sums, F visit) {
  for (int64_t slab = 0; slab < sums.slabs; ++slab) {
    for (int64_t at = 0; at < sums.own;) {
      int64_t count = kMostMoved;
      while (count > sums.own - at) count /= 2;
      visit(slab * sums.own + at, slab * sums.columns + at, count);
      at += count;
    }
  }
}

// All that has been started, and the wait for it.
void GpuInstructEmitter::EmitTcgen05Loads() {
  MeetAsWarp();
  for (const TensorMove& load : loads_) {
    Value* from = OwnLanes(load.address, load.sums);
    llvm::Type* type = load.registers.type;
    ForPieces(load.sums, [&](int64_t slot, int64_t column, int64_t count) {
      const auto n = static_cast<size_t>(count);
      std::vector<std::string> names, outs(n, type->isFloatTy() ? "=f" : "=r");
      for (int64_t i = 0; i < count; ++i) names.push_back(absl::StrCat("$", i));
      Value* address = b_.CreateAdd(from, b_.getInt32(static_cast<uint32_t>(column)));
      llvm::Type* all = n == 1 ? type
                               : static_cast<llvm::Type*>(llvm::StructType::get(
                                     b_.getContext(), std::vector<llvm::Type*>(n, type)));
      auto* form = llvm::FunctionType::get(all, {b_.getInt32Ty()}, false);
      auto* code =
          llvm::InlineAsm::get(form,
                               absl::StrCat("tcgen05.ld.sync.aligned.32x32b.x", count, ".b32 {",
                                            absl::StrJoin(names, ", "), "}, [$", count,
                                            "];\ntcgen05.wait::ld.sync.aligned;"),
                               absl::StrCat(absl::StrJoin(outs, ","), ",r,~{memory}"), true);
      llvm::CallInst* values = b_.CreateCall(form, code, {address});
      values->setConvergent();
      for (int64_t i = 0; i < count; ++i) {
        Value* place = RegisterAt(b_, type, load.registers.base, slot + i);
        b_.CreateStore(n == 1 ? static_cast<Value*>(values)
                              : b_.CreateExtractValue(values, static_cast<unsigned>(i)),
                       place);
      }
    });
  }
  loads_.clear();
}

void GpuInstructEmitter::EmitTcgen05Store(const ir::Instruct& x) {
  const Registers held = PlaceOf(x);
  const TensorSums sums = SumsOf(x);
  MeetAsWarp();
  Value* to = OwnLanes(exprs_.Emit(x.args[0]), sums);
  ForPieces(sums, [&](int64_t slot, int64_t column, int64_t count) {
    std::vector<Value*> args = {b_.CreateAdd(to, b_.getInt32(static_cast<uint32_t>(column)))};
    std::vector<std::string> names, kinds = {"r"};
    for (int64_t i = 0; i < count; ++i) {
      Value* place = RegisterAt(b_, held.type, held.base, slot + i);
      args.push_back(b_.CreateLoad(held.type, place));
      names.push_back(absl::StrCat("$", i + 1));
      kinds.push_back(held.type->isFloatTy() ? "f" : "r");
    }
    Asm(absl::StrCat("tcgen05.st.sync.aligned.32x32b.x", count, ".b32 [$0], {",
                     absl::StrJoin(names, ", "), "};"),
        absl::StrJoin(kinds, ","), args);
  });
}

}  // namespace kiln::codegen

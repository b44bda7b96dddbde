#include "compiler/codegen/gpu_instruct.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/codegen/gpu_expr.h"
#include "compiler/codegen/optimise.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {
namespace {

using ir::Instruction;
using llvm::Value;

constexpr int64_t kWarp = 32;
constexpr int kBarriers = 16;

}  // namespace

const char* PtxType(DType type) {
  switch (type.code) {
    case TypeCode::kBFloat:
      return "bf16";
    case TypeCode::kE4M3:
      return "e4m3";
    case TypeCode::kE5M2:
      return "e5m2";
    case TypeCode::kFloat:
      return type.bits == 16 ? "f16" : "tf32";
    case TypeCode::kUInt:
      return "u8";
    default:
      return "s8";
  }
}

llvm::Type* PackedType(llvm::LLVMContext& context, DType type) {
  llvm::Type* element = type.code == TypeCode::kBFloat ? llvm::Type::getBFloatTy(context)
                        : type == kFloat16             ? llvm::Type::getHalfTy(context)
                                                       : llvm::Type::getIntNTy(context, type.bits);
  if (type == kFloat32) return llvm::Type::getFloatTy(context);
  return llvm::FixedVectorType::get(element, 32 / type.bits);
}

Value* LoadPacked(llvm::IRBuilder<>& b, DType type, Value* registers, int64_t index) {
  llvm::Type* packed = PackedType(b.getContext(), type);
  Value* place = RegisterAt(b, packed, registers, index);
  return b.CreateLoad(packed, place);
}

Value* RoundedToTf32(llvm::IRBuilder<>& b, Value* value) {
  auto* form = llvm::FunctionType::get(b.getInt32Ty(), {b.getFloatTy()}, false);
  auto* round = llvm::InlineAsm::get(form, "cvt.rna.tf32.f32 $0, $1;", "=r,f", false);
  return b.CreateCall(form, round, {b.CreateBitCast(value, b.getFloatTy())});
}

void GpuInstructEmitter::Asm(const std::string& text, const std::string& constraints,
                             llvm::ArrayRef<Value*> args) {
  std::vector<llvm::Type*> types;
  for (Value* v : args) types.push_back(v->getType());
  auto* form = llvm::FunctionType::get(b_.getVoidTy(), types, false);
  const std::string all =
      constraints.empty() ? "~{memory}" : absl::StrCat(constraints, ",~{memory}");
  b_.CreateCall(form, llvm::InlineAsm::get(form, text, all, true), args)->setConvergent();
}

Value* GpuInstructEmitter::SharedAddress(const ir::Region& region) {
  std::vector<ir::Expr> first;
  for (const ir::Range& range : region.ranges) first.push_back(range.min);
  return b_.CreatePtrToInt(exprs_.EmitAddress(region.buffer, first), b_.getInt32Ty());
}

GpuTile TileShapeOf(const ir::Instruct& x, int operand) {
  const ir::Buffer& buffer = x.regions[operand].buffer;
  const std::string i = absl::StrCat(operand);
  return {nullptr,
          buffer->dtype.bytes(),
          NoteOf(x, "swizzle" + i),
          NoteOf(x, "height" + i),
          ir::ConstInt(buffer->shape.back()).value_or(0),
          NoteOf(x, "row" + i),
          NoteOf(x, "column" + i),
          NoteOf(x, "bands" + i)};
}

GpuTile GpuInstructEmitter::TileOf(const ir::Instruct& x, int operand) {
  GpuTile tile = TileShapeOf(x, operand);
  tile.base = SharedAddress(x.regions[operand]);
  return tile;
}

void GpuInstructEmitter::Emit(const ir::Instruct& x) {
  switch (x.op) {
    case Instruction::kBlockBarrier:
      return EmitBlockBarrier();
    case Instruction::kClusterBarrier:
      return Asm("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;");
    case Instruction::kProxyFence:
      return Asm("fence.proxy.async.shared::cta;");
    case Instruction::kBarrierInit:
      return Once(part_.count, [&] {
        Value* first = SharedAddress(x.regions[0]);
        Value* count = exprs_.Emit(x.args[0]);
        const int64_t barriers = *ir::ConstInt(x.regions[0].ranges.back().extent);
        std::string text;
        for (int64_t i = 0; i < barriers; ++i) {
          absl::StrAppend(&text, "mbarrier.init.shared::cta.b64 [$0+", 8 * i, "], $1;\n");
        }
        Asm(absl::StrCat(text, "fence.mbarrier_init.release.cluster;"), "r,r", {first, count});
      });
    case Instruction::kBarrierArrive:
      // All lanes are through with what the barrier guards before one of them says so.
      b_.CreateIntrinsic(llvm::Intrinsic::nvvm_bar_warp_sync, {}, {b_.getInt32(~0u)});
      return Once(kWarp, [&] { EmitArrive(x); });
    case Instruction::kClusterArrive:
      EmitBlockBarrier();
      return Once(part_.count, [&] { EmitClusterArrive(x); });
    case Instruction::kBarrierExpect:
      return Once(part_.count, [&] {
        Asm("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r",
            {SharedAddress(x.regions[0]), exprs_.Emit(x.args[0])});
      });
    case Instruction::kBarrierWait:
      return Asm(absl::StrCat("{\n.reg .pred done;\nwait${:uid}:\nmbarrier.try_wait.parity",
                              NoteOf(x, "cluster") != 0 ? ".acquire.cluster" : "",
                              ".shared::cta.b64 done, [$0], $1;\n@!done bra wait${:uid};\n}"),
                 "r,r", {SharedAddress(x.regions[0]), exprs_.Emit(x.args[0])});
    case Instruction::kTensorLoad:
      b_.GetInsertBlock()->getParent()->addFnAttr(kTensorLoads);
      return Once(part_.count, [&] { EmitTensorLoad(x); });
    case Instruction::kPatchLoad:
      return Once(part_.count, [&] { EmitPatchLoad(x); });
    case Instruction::kAsyncCopy:
      return EmitAsyncCopy(x);
    case Instruction::kAsyncCommit:
      return Asm("cp.async.commit_group;");
    case Instruction::kAsyncWait:
      return Asm(absl::StrCat("cp.async.wait_group ", *ir::ConstInt(x.args[0]), ";"));
    case Instruction::kTensorStore:
      return Once(part_.count, [&] { EmitTensorStore(x); });
    case Instruction::kStoreWait:
      return Once(part_.count, [&] {
        Asm(absl::StrCat("cp.async.bulk.wait_group.read ", *ir::ConstInt(x.args[0]), ";"));
      });
    case Instruction::kMma:
    case Instruction::kSparseMma:
      return EmitMma(x);
    case Instruction::kMmaRest:
      return EmitMmaRest(x);
    case Instruction::kWgmma:
      return EmitWgmma(x);
    case Instruction::kWgmmaWait:
      return EmitWgmmaWait(x);
    case Instruction::kTcgen05Alloc:
    case Instruction::kTcgen05Free:
    case Instruction::kTcgen05Fence:
    case Instruction::kTcgen05Mma:
    case Instruction::kTcgen05Commit:
    case Instruction::kTcgen05Load:
    case Instruction::kTcgen05Store:
    case Instruction::kTcgen05Wait:
      return EmitTcgen05(x);
    case Instruction::kShuffleXor:
      return EmitShuffle(x);
    case Instruction::kShuffle:
    case Instruction::kBallot:
    case Instruction::kMatch:
      return EmitExchange(x);
    case Instruction::kGlobalAdd:
      return EmitGlobalAdd(x);
    case Instruction::kStoreMatrices:
      return EmitStoreMatrices(x);
    case Instruction::kMaxRegisters:
      return Asm(absl::StrCat("setmaxnreg.", ir::IsConst(x.args[1], 0) ? "dec" : "inc",
                              ".sync.aligned.u32 ", *ir::ConstInt(x.args[0]), ";"));
  }
}

// Barrier 0 is the whole block's, and each part of it has one of its own (9.7.13.1: 16 in all):
// those who are through with a part may wait for the block while others are in the part.
void GpuInstructEmitter::EmitBlockBarrier() {
  if (part_.first == 0 && part_.count == threads_) return Asm("barrier.sync 0;");
  const auto [known, fresh] =
      barriers_.try_emplace({part_.first, part_.count}, static_cast<int>(barriers_.size()) + 1);
  if (part_.count % kWarp != 0 || known->second >= kBarriers) {
    exprs_.Fail(absl::UnimplementedError(absl::StrCat(
        "a barrier of threads ", part_.first, " to ", part_.first + part_.count - 1,
        "; parts of a block meet by whole warps, and at most ", kBarriers - 1, " of them do")));
    return;
  }
  Asm(absl::StrCat("barrier.sync ", known->second, ", ", part_.count, ";"));
}

// 32 bits at a time.
void GpuInstructEmitter::EmitShuffle(const ir::Instruct& x) {
  const ir::Buffer& from = x.regions[1].buffer;
  const int64_t words = from->dtype.bytes() * *ir::ConstInt(from->shape[1]) / 4;
  KILN_CHECK(from->dtype.bytes() % 4 == 0);
  Value* mask = exprs_.Emit(x.args[0]);
  for (int64_t w = 0; w < words; ++w) {
    const auto word = [&](const ir::Buffer& registers) {
      return RegisterAt(b_, b_.getInt32Ty(), exprs_.PlaceOf(registers).base, w);
    };
    Value* own = b_.CreateLoad(b_.getInt32Ty(), word(from));
    Value* other = b_.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {},
                                      {b_.getInt32(~0u), own, mask, b_.getInt32(31)});
    b_.CreateStore(other, word(x.regions[0].buffer));
  }
}

Value* GpuInstructEmitter::PairOf(Value* low, Value* high) {
  Value* pair = llvm::PoisonValue::get(llvm::FixedVectorType::get(low->getType(), 2));
  pair = b_.CreateInsertElement(pair, low, uint64_t{0});
  pair = b_.CreateInsertElement(pair, high, uint64_t{1});
  return b_.CreateBitCast(pair, b_.getInt32Ty());
}

// Two floats are rounded by one instruction (cvt.rn.bf16x2.f32, cvt.rn.f16x2.f32; 9.7.9.21).
Value* GpuInstructEmitter::EmitPair(const ir::Expr& low, const ir::Expr& high) {
  const auto* first = low.As<ir::Cast>();
  const auto* second = high.As<ir::Cast>();
  const bool halves = low.dtype() == kBFloat16 || low.dtype() == kFloat16;
  if (!halves || high.dtype() != low.dtype() || first == nullptr || second == nullptr ||
      first->a.dtype() != kFloat32 || second->a.dtype() != kFloat32) {
    Value* a = exprs_.EmitStored(low, 1);
    return PairOf(a, exprs_.EmitStored(high, 1));
  }
  Value* a = exprs_.Emit(first->a);
  Value* b = exprs_.Emit(second->a);
  const auto convert = low.dtype() == kBFloat16 ? llvm::Intrinsic::nvvm_ff2bf16x2_rn
                                                : llvm::Intrinsic::nvvm_ff2f16x2_rn;
  return b_.CreateBitCast(b_.CreateIntrinsic(convert, {}, {b, a}), b_.getInt32Ty());
}

// stmatrix (9.7.14.5.16): a lane's pair of each matrix is a register.
void GpuInstructEmitter::EmitStoreMatrices(const ir::Instruct& x) {
  std::vector<Value*> args = {SharedAddress(x.regions[0])};
  std::vector<std::string> names;
  std::string constraints = "r";
  for (size_t i = 0; i < x.args.size(); i += 2) {
    args.push_back(EmitPair(x.args[i], x.args[i + 1]));
    names.push_back(absl::StrCat("$", names.size() + 1));
    absl::StrAppend(&constraints, ",r");
  }
  Asm(absl::StrCat("stmatrix.sync.aligned.m8n8.x", names.size(),
                   NoteOf(x, "trans") != 0 ? ".trans" : "", ".shared.b16 [$0], {",
                   absl::StrJoin(names, ", "), "};"),
      constraints, args);
}

void GpuInstructEmitter::EmitArrive(const ir::Instruct& x) {
  Value* barrier = SharedAddress(x.regions[0]);
  const int64_t blocks = NoteOf(x, "cluster");
  // What was read is not to be published: the default scope spares a fence of all memory.
  if (blocks < 2) return Asm("mbarrier.arrive.shared::cta.b64 _, [$0];", "r", {barrier});
  for (int64_t block = 0; block < blocks; ++block) {
    Asm("{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, $0, $1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}",
        "r,r", {barrier, b_.getInt32(static_cast<uint32_t>(block))});
  }
}

// What the block's threads wrote, wherever, comes before it: they have met, and the arrival is a
// release at the scope of the cluster, which hands on what was seen.
void GpuInstructEmitter::EmitClusterArrive(const ir::Instruct& x) {
  Asm("{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, $0, $1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote], $2;\n}",
      "r,r,r",
      {SharedAddress(x.regions[0]),
       b_.CreateIntCast(exprs_.Emit(x.regions[0].ranges[0].min), b_.getInt32Ty(), true),
       b_.CreateIntCast(exprs_.Emit(x.args[0]), b_.getInt32Ty(), true)});
}

// What is in registers is not to move across: the values before it are its operands, those after it
// its results, in the same registers.
void GpuInstructEmitter::AsmOn(const std::string& text, const std::vector<Registers>& registers,
                               const std::vector<std::string>& constraints,
                               const std::vector<Value*>& args) {
  std::vector<llvm::Type*> types;
  std::vector<std::string> outs, ins;
  std::vector<Value*> places, values;
  for (const Registers& r : registers) {
    for (int64_t i = 0; i < r.count; ++i) {
      places.push_back(RegisterAt(b_, r.type, r.base, i));
      values.push_back(b_.CreateLoad(r.type, places.back()));
      types.push_back(r.type);
      outs.push_back(r.type->isFloatTy() ? "=f" : "=r");
      ins.push_back(absl::StrCat(ins.size()));
    }
  }
  if (values.empty()) return Asm(text, absl::StrJoin(constraints, ","), args);
  llvm::Type* result_type =
      types.size() == 1 ? types[0]
                        : static_cast<llvm::Type*>(llvm::StructType::get(b_.getContext(), types));
  ins.insert(ins.end(), constraints.begin(), constraints.end());
  values.insert(values.end(), args.begin(), args.end());
  for (Value* arg : args) types.push_back(arg->getType());
  auto* form = llvm::FunctionType::get(result_type, types, false);
  auto* code = llvm::InlineAsm::get(
      form, text,
      absl::StrCat(absl::StrJoin(outs, ","), ",", absl::StrJoin(ins, ","), ",~{memory}"), true);
  llvm::CallInst* result = b_.CreateCall(form, code, values);
  result->setConvergent();
  for (size_t i = 0; i < places.size(); ++i) {
    b_.CreateStore(places.size() == 1 ? static_cast<Value*>(result)
                                      : b_.CreateExtractValue(result, static_cast<unsigned>(i)),
                   places[i]);
  }
}

// float16 comes in pairs.
GpuInstructEmitter::Registers GpuInstructEmitter::SumsOf(const ir::Buffer& c, int64_t elements) {
  if (c->dtype != kFloat16) {
    return {exprs_.PlaceOf(c).base, exprs_.StorageType(c->dtype), elements};
  }
  return {exprs_.PlaceOf(c).base, PackedType(b_.getContext(), kFloat16), elements / 2};
}

}  // namespace kiln::codegen

// What threads of a warp tell each other. Sections are those of the PTX ISA 8.5.
#include "absl/strings/str_cat.h"
#include "compiler/codegen/gpu_expr.h"
#include "compiler/codegen/gpu_instruct.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace kiln::codegen {

using ir::Instruction;
using llvm::Value;

constexpr int64_t kWarp = 32;

// The threads of this warp that there are: those that an exchange must name (9.7.9.6).
Value* GpuInstructEmitter::Members() {
  Value* all = b_.getInt32(~0u);
  const int64_t end = part_.first + part_.count;
  if (end % kWarp == 0) return all;
  Value* base = b_.CreateAnd(thread_, b_.getInt32(~static_cast<uint32_t>(kWarp - 1)));
  Value* rest = b_.CreateSub(b_.getInt32(static_cast<uint32_t>(end)), base);
  Value* some = b_.CreateSub(b_.CreateShl(b_.getInt32(1), rest), b_.getInt32(1));
  Value* whole = b_.CreateICmpUGE(rest, b_.getInt32(kWarp));
  return b_.CreateSelect(whole, all, some);
}

void GpuInstructEmitter::EmitExchange(const ir::Instruct& x) {
  if (part_.first % kWarp != 0) {
    exprs_.Fail(
        absl::UnimplementedError(absl::StrCat("threads from ", part_.first,
                                              " on exchange values; parts of a block do so by "
                                              "whole warps")));
    return;
  }
  const auto bytes = [&](int i) { return x.regions[i].buffer->dtype.bytes(); };
  const auto word = [&](int i, int64_t size, int64_t index) {
    llvm::Type* type = b_.getIntNTy(static_cast<unsigned>(size * 8));
    return RegisterAt(b_, type, exprs_.PlaceOf(x.regions[i].buffer).base, index);
  };
  const auto load = [&](int i, int64_t size, int64_t index) {
    return b_.CreateLoad(b_.getIntNTy(static_cast<unsigned>(size * 8)), word(i, size, index));
  };
  Value* members = Members();
  if (x.op == Instruction::kBallot) {
    Value* holds = b_.CreateICmpNE(load(1, 4, 0), b_.getInt32(0));
    Value* bits = b_.CreateIntrinsic(llvm::Intrinsic::nvvm_vote_ballot_sync, {}, {members, holds});
    b_.CreateStore(bits, word(0, 4, 0));
    return;
  }
  if (x.op == Instruction::kMatch) {
    const bool wide = bytes(1) == 8;
    Value* bits = b_.CreateIntrinsic(
        wide ? llvm::Intrinsic::nvvm_match_any_sync_i64 : llvm::Intrinsic::nvvm_match_any_sync_i32,
        {}, {members, load(1, bytes(1), 0)});
    b_.CreateStore(bits, word(0, 4, 0));
    return;
  }
  // 32 bits at a time; what is narrower is widened.
  Value* lane = load(2, 4, 0);
  const int64_t size = std::min<int64_t>(bytes(1), 4);
  for (int64_t w = 0; w < std::max<int64_t>(bytes(1) / 4, 1); ++w) {
    Value* own = b_.CreateZExt(load(1, size, w), b_.getInt32Ty());
    Value* other = b_.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_idx_i32, {},
                                      {members, own, lane, b_.getInt32(kWarp - 1)});
    b_.CreateStore(b_.CreateTrunc(other, b_.getIntNTy(static_cast<unsigned>(size * 8))),
                   word(0, size, w));
  }
}

}  // namespace kiln::codegen

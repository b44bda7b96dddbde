#include "compiler/codegen/emit_tiles.h"

#include <algorithm>
#include <array>
#include <functional>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

constexpr int kTileRows = 16;
constexpr int kTileBytes = 64;    // of a row
constexpr int kElementBytes = 4;  // of C, and of a pair
constexpr int kFirstA = 4, kFirstB = 6;

int Half(int extent, int half) { return std::clamp(extent - half * kTileRows, 0, kTileRows); }
int Halves(int extent) { return extent > kTileRows ? 2 : 1; }

// As ldtilecfg reads it: palette, first row, fourteen reserved bytes, sixteen row lengths in bytes
// (16 bits each), sixteen numbers of rows.
std::array<uint8_t, 64> ConfigBytes(const TileShape& shape) {
  std::array<uint8_t, 64> bytes{};
  bytes[0] = 1;
  const auto set = [&](int tile, int rows, int columns) {
    bytes[16 + 2 * tile] = static_cast<uint8_t>(rows > 0 ? columns * kElementBytes : 0);
    bytes[48 + tile] = static_cast<uint8_t>(columns > 0 ? rows : 0);
  };
  for (int half = 0; half < 2; ++half) {
    for (int other = 0; other < 2; ++other) {
      set(2 * half + other, Half(shape.rows, half), Half(shape.columns, other));
    }
    set(kFirstA + half, Half(shape.rows, half), shape.pairs);
    set(kFirstB + half, shape.pairs, Half(shape.columns, half));
  }
  return bytes;
}

void Call(llvm::IRBuilder<>& b, llvm::Intrinsic::ID id, const std::vector<Value*>& args) {
  b.CreateIntrinsic(id, {}, args);
}

// One step keeps the unit busy for 64 cycles: unrolled, the loop would only be longer.
void KeepRolled(llvm::BranchInst* back_edge) {
  llvm::LLVMContext& context = back_edge->getContext();
  llvm::Metadata* disable =
      llvm::MDNode::get(context, llvm::MDString::get(context, "llvm.loop.unroll.disable"));
  llvm::MDNode* loop = llvm::MDNode::getDistinct(context, {nullptr, disable});
  loop->replaceOperandWith(0, loop);
  back_edge->setMetadata(llvm::LLVMContext::MD_loop, loop);
}

}  // namespace

TileShape ShapeOf(const ir::PairGemm& gemm) {
  const auto extent = [](const ir::Region& r, int from_last) {
    return *ir::ConstInt(r.ranges[r.ranges.size() - 1 - from_last].extent);
  };
  const int64_t pairs = extent(gemm.b, 1);
  KILN_CHECK(extent(gemm.c, 1) <= 2 * kTileRows && extent(gemm.c, 0) <= 2 * kTileRows);
  KILN_CHECK(pairs < kTileRows || pairs % kTileRows == 0);
  return {static_cast<int>(extent(gemm.c, 1)), static_cast<int>(extent(gemm.c, 0)),
          static_cast<int>(std::min<int64_t>(pairs, kTileRows))};
}

void EmitTileConfig(llvm::IRBuilder<>& b, llvm::Module& module, const TileShape& shape) {
  const std::string name = absl::StrCat("tiles_", shape.rows, "x", shape.columns, "x", shape.pairs);
  llvm::GlobalVariable* config = module.getNamedGlobal(name);
  if (config == nullptr) {
    const std::array<uint8_t, 64> bytes = ConfigBytes(shape);
    auto* data = llvm::ConstantDataArray::get(module.getContext(),
                                              llvm::ArrayRef<uint8_t>(bytes.data(), bytes.size()));
    config = new llvm::GlobalVariable(module, data->getType(), true,
                                      llvm::GlobalValue::PrivateLinkage, data, name);
    config->setAlignment(llvm::Align(kTileBytes));
  }
  Call(b, llvm::Intrinsic::x86_ldtilecfg, {config});
}

void EmitTileRelease(llvm::IRBuilder<>& b) { Call(b, llvm::Intrinsic::x86_tilerelease, {}); }

void EmitTileProduct(llvm::IRBuilder<>& b, const TileShape& shape, int64_t steps,
                     const TileMatrix& a_matrix, const TileMatrix& b_matrix,
                     const TileMatrix& c_matrix) {
  const int row_halves = Halves(shape.rows), column_halves = Halves(shape.columns);
  const auto tile = [&](int index) { return b.getInt8(index); };
  // `rows` and `bytes` (a column offset) into a matrix.
  const auto at = [&](const TileMatrix& m, int rows, int bytes) {
    Value* offset = b.CreateAdd(b.CreateMul(m.row_bytes, b.getInt64(rows)), b.getInt64(bytes));
    return b.CreateGEP(b.getInt8Ty(), m.base, offset);
  };
  const auto for_c = [&](llvm::Intrinsic::ID id) {
    for (int i = 0; i < row_halves; ++i) {
      for (int j = 0; j < column_halves; ++j) {
        Call(b, id,
             {tile(2 * i + j), at(c_matrix, i * kTileRows, j * kTileBytes), c_matrix.row_bytes});
      }
    }
  };
  for_c(llvm::Intrinsic::x86_tileloadd64);
  llvm::Function* function = b.GetInsertBlock()->getParent();
  llvm::BasicBlock* before = b.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(b.getContext(), "tiles", function);
  auto* done = llvm::BasicBlock::Create(b.getContext(), "tiles.done", function);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode* step = b.CreatePHI(b.getInt64Ty(), 2);
  step->addIncoming(b.getInt64(0), before);
  const int64_t a_step = shape.pairs * kElementBytes;
  const TileMatrix a_now{
      b.CreateGEP(b.getInt8Ty(), a_matrix.base, b.CreateMul(step, b.getInt64(a_step))),
      a_matrix.row_bytes};
  Value* b_step = b.CreateMul(b_matrix.row_bytes, b.getInt64(shape.pairs));
  const TileMatrix b_now{b.CreateGEP(b.getInt8Ty(), b_matrix.base, b.CreateMul(step, b_step)),
                         b_matrix.row_bytes};
  for (int j = 0; j < column_halves; ++j) {
    Call(b, llvm::Intrinsic::x86_tileloadd64,
         {tile(kFirstB + j), at(b_now, 0, j * kTileBytes), b_now.row_bytes});
  }
  for (int i = 0; i < row_halves; ++i) {
    Call(b, llvm::Intrinsic::x86_tileloadd64,
         {tile(kFirstA + i), at(a_now, i * kTileRows, 0), a_now.row_bytes});
    for (int j = 0; j < column_halves; ++j) {
      Call(b, llvm::Intrinsic::x86_tdpbf16ps,
           {tile(2 * i + j), tile(kFirstA + i), tile(kFirstB + j)});
    }
  }
  Value* next = b.CreateAdd(step, b.getInt64(1), "", true, true);
  step->addIncoming(next, b.GetInsertBlock());
  KeepRolled(b.CreateCondBr(b.CreateICmpSLT(next, b.getInt64(steps)), loop, done));
  b.SetInsertPoint(done);
  for_c(llvm::Intrinsic::x86_tilestored64);
}

}  // namespace kiln::codegen

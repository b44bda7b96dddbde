// Instructions of NVIDIA GPUs that LLVM has no name for, as inline PTX. Private to
// compiler/codegen. Sections are those of the PTX ISA 8.5.
#ifndef KILN_COMPILER_CODEGEN_GPU_INSTRUCT_H_
#define KILN_COMPILER_CODEGEN_GPU_INSTRUCT_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/gpu_expr.h"
#include "compiler/codegen/gpu_tile.h"
#include "compiler/codegen/tensor_maps.h"

namespace kiln::codegen {

// "bf16": the type of operands of matrix instructions.
const char* PtxType(DType type);

// A warp's share of a product.
struct MmaShape {
  DType type;  // of the operands
  int64_t own_m = 0, own_n = 0, k = 0;
  int64_t step = 0;  // elements of k in one instruction; of a sparse A half of B's
  int64_t rows = 0;  // of the grid of warps
  bool trans_a = false, trans_b = false;
  bool pairs = false;  // the order along k (ir/instruct.h)
  bool sparse = false;
};

// A kernel's tensor maps and where each of its parameters is.
struct TensorMaps {
  std::vector<TensorMap> maps;
  std::vector<llvm::Value*> parameters;
};

// As many elements of a type as 32 bits hold, and register `index` of those that hold such.
llvm::Type* PackedType(llvm::LLVMContext& context, DType type);
llvm::Value* LoadPacked(llvm::IRBuilder<>& b, DType type, llvm::Value* registers, int64_t index);

// A float, rounded to tf32 (i32): to nearest, ties away from zero (cvt.rna.tf32.f32, 9.7.9.21).
llvm::Value* RoundedToTf32(llvm::IRBuilder<>& b, llvm::Value* value);

// How an operand of a matrix instruction lies, without its base.
GpuTile TileShapeOf(const ir::Instruct& x, int operand);

struct HeldStep;  // gpu_mma.cc

// In how many groups (PTX 9.7.15.7.2) each wgmma product of a launch's body is committed.
int64_t WgmmaGroups(const ir::Stmt& body);  // gpu_wgmma.cc

class GpuInstructEmitter {
 public:
  // `thread`: this thread of the block (i32), which has `threads`; `groups`: WgmmaGroups of what is
  // emitted.
  GpuInstructEmitter(llvm::IRBuilder<>& builder, GpuExprEmitter& exprs, llvm::Value* thread,
                     int64_t threads, const TensorMaps& maps, int64_t groups)
      : b_(builder),
        exprs_(exprs),
        thread_(thread),
        threads_(threads),
        part_{0, threads},
        maps_(maps),
        groups_(groups) {}

  struct Part {
    int64_t first, count;
  };
  // The threads that come by from here on; returns those before.
  Part SetPart(Part part) { return std::exchange(part_, part); }

  void Emit(const ir::Instruct& x);

 private:
  void EmitBlockBarrier();
  void EmitShuffle(const ir::Instruct& x);
  void EmitExchange(const ir::Instruct& x);  // gpu_exchange.cc
  llvm::Value* Members();                    // gpu_exchange.cc
  void EmitClusterArrive(const ir::Instruct& x);
  void EmitArrive(const ir::Instruct& x);
  void EmitTensorLoad(const ir::Instruct& x);   // gpu_copy.cc
  void EmitPatchLoad(const ir::Instruct& x);    // gpu_copy.cc
  void EmitAsyncCopy(const ir::Instruct& x);    // gpu_copy.cc
  void EmitTensorStore(const ir::Instruct& x);  // gpu_copy.cc
  void EmitGlobalAdd(const ir::Instruct& x);    // gpu_copy.cc
  void EmitMma(const ir::Instruct& x);          // gpu_mma.cc, sparse ones too
  void EmitMmaRest(const ir::Instruct& x);      // gpu_mma.cc
  void EmitTcgen05(const ir::Instruct& x);      // gpu_tcgen05.cc, with what serves it
  void EmitTcgen05Mma(const ir::Instruct& x);
  void EmitTcgen05Commit(const ir::Instruct& x);
  void EmitTcgen05Loads();
  void EmitTcgen05Store(const ir::Instruct& x);
  void EmitWgmma(const ir::Instruct& x);      // gpu_wgmma.cc
  void EmitWgmmaWait(const ir::Instruct& x);  // gpu_wgmma.cc
  void EndBlock();                            // gpu_wgmma.cc
  GpuTile TileOf(const ir::Instruct& x, int operand);
  void EmitStoreMatrices(const ir::Instruct& x);
  // Two values of 16 bits as one i32.
  llvm::Value* PairOf(llvm::Value* low, llvm::Value* high);
  llvm::Value* EmitPair(const ir::Expr& low, const ir::Expr& high);
  // Where one of `every` threads comes by: the first.
  template <typename F>
  void Once(int64_t every, F then);
  // PTX without a value, which neither moves nor goes away.
  void Asm(const std::string& text, const std::string& constraints = "",
           llvm::ArrayRef<llvm::Value*> args = {});
  // The box of a tensor and the tile of an instruction: one box of the map a panel of the tile.
  struct TensorBox {
    TensorMap map;
    llvm::Value* descriptor;
    llvm::Value* tile;                // i32 address
    std::vector<llvm::Value*> start;  // i32, outermost dimension of the map's view first
    int64_t columns, panel_bytes;     // of what one box does not hold
    size_t row;                       // the dimension of rows, or of bands of them,
    int64_t row_bytes;                // and bytes of the tile from one to the next
  };
  TensorBox BoxOf(const ir::Instruct& x);
  static std::string CoordinatesOf(const TensorBox& box);
  // `more`: operands after the coordinates.
  void ForPanels(const TensorBox& box, const std::string& text,
                 const std::vector<llvm::Value*>& more);
  // The cache policy (i64) that a load asks for; null where it asks for none.
  llvm::Value* PolicyOf(const ir::Instruct& x);
  struct Registers {
    llvm::Value* base;
    llvm::Type* type;
    int64_t count;
  };
  Registers SumsOf(const ir::Buffer& c, int64_t elements);  // of a thread's, in registers
  // A result in tensor memory: 128 rows by 128 rows, `columns` of each, of which a warpgroup has
  // `own`.
  struct TensorSums {
    int64_t slabs, columns, own;
  };
  struct TensorMove {
    Registers registers;
    TensorSums sums;
    llvm::Value* address;
  };
  Registers PlaceOf(const ir::Instruct& x);
  TensorSums SumsOf(const ir::Instruct& x) const;
  llvm::Value* OwnLanes(llvm::Value* address, const TensorSums& sums);
  template <typename F>
  void ForPieces(const TensorSums& sums, F visit);
  template <typename F>
  void OneWarp(F then);
  void MeetAsWarp();
  // The same for PTX that must see all of them: of n registers, $0 to $n-1; `args` are $2n and on.
  void AsmOn(const std::string& text, const std::vector<Registers>& registers,
             const std::vector<std::string>& constraints = {},
             const std::vector<llvm::Value*>& args = {});
  // The 32-bit shared address of a region's first element.
  llvm::Value* SharedAddress(const ir::Region& region);

  llvm::IRBuilder<>& b_;
  GpuExprEmitter& exprs_;
  llvm::Value* thread_;
  const int64_t threads_;
  Part part_;
  std::map<std::pair<int64_t, int64_t>, int> barriers_;  // of parts, by first thread and count
  const TensorMaps& maps_;
  const int64_t groups_;                                    // of a wgmma product
  std::vector<TensorMove> loads_;                           // that nobody has waited for
  std::map<llvm::Value*, std::shared_ptr<HeldStep>> held_;  // by the registers of the sums
};

template <typename F>
void GpuInstructEmitter::Once(int64_t every, F then) {
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  auto* inside = llvm::BasicBlock::Create(b_.getContext(), "one", function);
  auto* join = llvm::BasicBlock::Create(b_.getContext(), "all", function);
  llvm::Value* from = b_.CreateSub(thread_, b_.getInt32(static_cast<uint32_t>(part_.first)));
  if (every < part_.count) from = b_.CreateURem(from, b_.getInt32(static_cast<uint32_t>(every)));
  b_.CreateCondBr(b_.CreateICmpEQ(from, b_.getInt32(0)), inside, join);
  b_.SetInsertPoint(inside);
  then();
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
}

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_GPU_INSTRUCT_H_

// mma.sync and ldmatrix (PTX 9.7.14.5): a warp's own products, 16 x 8 by 32 bytes along k.
#include "absl/strings/str_cat.h"
#include "compiler/codegen/gpu_expr.h"
#include "compiler/codegen/gpu_instruct.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

constexpr int64_t kWarp = 32;
constexpr unsigned kSharedSpace = 3;  // of NVPTX

// One product of a block's warps: addresses that depend on the lane alone are computed once.
class MmaEmitter {
 public:
  MmaEmitter(llvm::IRBuilder<>& b, const MmaShape& shape, const GpuTile& a, const GpuTile& b_tile,
             Value* a_registers, Value* thread)
      : b_(b),
        shape_(shape),
        a_(a),
        b_tile_(b_tile),
        a_registers_(a_registers),
        lane_(b.CreateURem(thread, Int(kWarp))) {
    Value* warp = b_.CreateUDiv(thread, Int(kWarp));
    row_ = b_.CreateMul(b_.CreateURem(warp, Int(shape.rows)), Int(shape.own_m));
    column_ = b_.CreateMul(b_.CreateUDiv(warp, Int(shape.rows)), Int(shape.own_n));
    quarter_ = b_.CreateURem(lane_, Int(8));
    half_ = b_.CreateAnd(b_.CreateLShr(lane_, Int(3)), Int(1));
    upper_ = b_.CreateLShr(lane_, Int(4));
    outer_ = b_.CreateLShr(lane_, Int(2));
    inner_ = b_.CreateAnd(lane_, Int(3));
  }

  // Four registers: rows m.. and m + 8.., k.. and k + 16 bytes.
  std::vector<Value*> Left(int64_t m, int64_t k) {
    if (a_registers_ != nullptr) return LeftFromRegisters(m, k);
    const int64_t chunk = 16 / a_.element;
    if (shape_.pairs) {
      const std::vector<Value*> upper = Pair(a_, !shape_.trans_a, row_, shape_.own_m, m, k);
      const std::vector<Value*> lower = Pair(a_, !shape_.trans_a, row_, shape_.own_m, m + 8, k);
      return {upper[0], lower[0], upper[1], lower[1]};
    }
    if (!shape_.trans_a) {
      Value* r = Sum({row_, Int(m), quarter_, Times(half_, 8)});
      return Load(a_, r, Sum({Int(k), Times(upper_, chunk)}), false);
    }
    Value* r = Sum({Int(k), quarter_, Times(upper_, 8)});
    return Load(a_, r, Sum({row_, Int(m), Times(half_, 8)}), true);
  }

  // Two registers for each of the columns n.. and n + 8..
  std::vector<Value*> Right(int64_t n, int64_t k) {
    const int64_t chunk = 16 / b_tile_.element;
    if (shape_.pairs) {
      const int64_t own = shape_.own_n;
      std::vector<Value*> registers = Pair(b_tile_, shape_.trans_b, column_, own, n, k);
      if (n + 8 == own) return registers;
      for (Value* v : Pair(b_tile_, shape_.trans_b, column_, own, n + 8, k)) registers.push_back(v);
      return registers;
    }
    // Of the last eight columns alone, the upper lanes read what is there twice.
    Value* next = n + 8 < shape_.own_n ? upper_ : Int(0);
    if (shape_.trans_b) {
      Value* r = Sum({column_, Int(n), quarter_, Times(next, 8)});
      return Load(b_tile_, r, Sum({Int(k), Times(half_, chunk)}), false);
    }
    Value* r = Sum({Int(k), quarter_, Times(half_, 8)});
    return Load(b_tile_, r, Sum({column_, Int(n), Times(next, 8)}), true);
  }

 private:
  Value* Int(int64_t v) const { return b_.getInt32(static_cast<uint32_t>(v)); }
  Value* Times(Value* v, int64_t n) { return b_.CreateMul(v, Int(n)); }
  Value* Sum(std::initializer_list<Value*> terms) {
    Value* sum = Int(0);
    for (Value* term : terms) sum = b_.CreateAdd(sum, term);
    return sum;
  }

  std::vector<Value*> Load(const GpuTile& tile, Value* r, Value* c, bool transposed) {
    auto* pointer = llvm::PointerType::get(b_.getContext(), kSharedSpace);
    Value* address = b_.CreateIntToPtr(tile.Address(b_, r, c), pointer);
    const auto id = transposed ? llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16
                               : llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16;
    Value* four = b_.CreateIntrinsic(id, {pointer}, {address});
    std::vector<Value*> registers;
    for (unsigned i = 0; i < 4; ++i) registers.push_back(Operand(b_.CreateExtractValue(four, i)));
    return registers;
  }

  // The lane's two elements of 32 bits, neighbours along k, of row (or column) `first` + at: one of
  // the `own` that are the warp's.
  std::vector<Value*> Pair(const GpuTile& tile, bool major_k, Value* first, int64_t own, int64_t at,
                           int64_t k) {
    auto* pointer = llvm::PointerType::get(b_.getContext(), kSharedSpace);
    const auto load = [&](llvm::Type* type, Value* address) {
      return b_.CreateAlignedLoad(type, b_.CreateIntToPtr(address, pointer),
                                  llvm::Align(type->getPrimitiveSizeInBits() / 8));
    };
    if (!major_k) {
      return {Operand(load(b_.getInt32Ty(), Turned(tile, first, own, at, k, 0))),
              Operand(load(b_.getInt32Ty(), Turned(tile, first, own, at, k, 1)))};
    }
    Value* address =
        tile.Address(b_, Sum({first, Int(at), outer_}), Sum({Int(k), Times(inner_, 2)}));
    Value* two = load(llvm::FixedVectorType::get(b_.getInt32Ty(), 2), address);
    return {Operand(b_.CreateExtractElement(two, uint64_t{0})),
            Operand(b_.CreateExtractElement(two, uint64_t{1}))};
  }

  // The address of one element of such a pair in a tile whose rows run along the other dimension:
  // row k + 2 * inner + i, column first + at + outer. What the steps of a product change comes last
  // and is constant, so that few addresses serve all of them: the swizzle depends on the row's last
  // three bits, which the lane and i say, and where the part begins a panel or divides one, columns
  // of 8 and more are bits of their own.
  Value* Turned(const GpuTile& tile, Value* first, int64_t own, int64_t at, int64_t k, int64_t i) {
    Value* row = b_.CreateAdd(Times(inner_, 2), Int(i));
    const int64_t width = tile.swizzle / tile.element;
    const bool inside = tile.row != 0 || tile.column != 0;  // of an atom
    if (width == 0 || inside || (own % width != 0 && width % own != 0)) {
      const int64_t stride = width == 0 ? tile.columns * tile.element : tile.swizzle;
      return b_.CreateAdd(tile.Address(b_, row, Sum({first, Int(at), outer_})), Int(k * stride));
    }
    Value* panel = Times(b_.CreateUDiv(first, Int(width)), tile.panel_bytes());
    Value* column = Times(b_.CreateOr(b_.CreateURem(first, Int(width)), outer_), tile.element);
    Value* start = Times(row, tile.swizzle);
    Value* chunk = b_.CreateAnd(b_.CreateLShr(start, Int(3)), Int(tile.swizzle - 16));
    Value* within = b_.CreateXor(b_.CreateXor(column, chunk), Int(at % width * tile.element));
    return b_.CreateAdd(Sum({tile.base, panel, start, within}),
                        Int(at / width * tile.panel_bytes() + k * tile.swizzle));
  }

  // A register as the instruction takes it.
  Value* Operand(Value* word) { return shape_.type == kFloat32 ? RoundedToTf32(b_, word) : word; }

  // As passes/gemm_layouts deals them out: in the order of the instruction, or of pairs.
  std::vector<Value*> LeftFromRegisters(int64_t m, int64_t k) {
    const int64_t steps = shape_.k / shape_.step;
    const int64_t first = (m / 16 * steps + k / shape_.step) * 4;
    std::vector<Value*> registers;
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t at = shape_.pairs ? i % 2 * 2 + i / 2 : i;
      registers.push_back(Operand(LoadPacked(b_, shape_.type, a_registers_, first + at)));
    }
    return registers;
  }

  llvm::IRBuilder<>& b_;
  const MmaShape& shape_;
  const GpuTile a_, b_tile_;
  Value* const a_registers_;
  Value* lane_;
  Value *row_, *column_;             // of the warp's part of the result
  Value *quarter_, *half_, *upper_;  // lane % 8, lane / 8 % 2, lane / 16
  Value *outer_, *inner_;            // lane / 4, lane % 4
};

}  // namespace

void GpuInstructEmitter::EmitMma(const ir::Instruct& x) {
  const ir::Buffer& c = x.regions[0].buffer;
  const ir::Region& left = x.regions[1];
  const DType type = left.buffer->dtype;
  MmaShape shape;
  shape.type = type;
  shape.trans_a = NoteOf(x, "trans_a") != 0;
  shape.trans_b = NoteOf(x, "trans_b") != 0;
  shape.pairs = NoteOf(x, "pairs") != 0;
  shape.k = NoteOf(x, "k");
  shape.rows = NoteOf(x, "rows");
  shape.own_m = NoteOf(x, "m") / shape.rows;
  shape.own_n = NoteOf(x, "n") / (part_.count / kWarp / shape.rows);
  shape.step = 32 / type.bytes();
  const bool from_registers = left.buffer->scope == ir::Scope::kRegister;
  Value* from = b_.CreateSub(thread_, b_.getInt32(static_cast<uint32_t>(part_.first)));
  MmaEmitter operands(b_, shape, from_registers ? GpuTile() : TileOf(x, 1), TileOf(x, 2),
                      from_registers ? exprs_.PlaceOf(left.buffer).base : nullptr, from);

  const bool is_int = c->dtype.is_int();
  llvm::Type* sum_type = exprs_.StorageType(c->dtype);
  llvm::Type* word = b_.getInt32Ty();
  const std::vector<llvm::Type*> sums(4, sum_type);
  const bool packed = from_registers && type != kFloat32;
  std::vector<llvm::Type*> types(4, packed ? PackedType(b_.getContext(), type) : word);
  types.insert(types.end(), 2, word);

  types.insert(types.end(), sums.begin(), sums.end());
  auto* form = llvm::FunctionType::get(llvm::StructType::get(b_.getContext(), sums), types, false);
  const char* sum_name = is_int ? "s32" : "f32";
  const char* d = is_int ? "=r,=r,=r,=r,r,r,r,r,r,r,0,1,2,3" : "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3";
  auto* multiply = llvm::InlineAsm::get(
      form,
      absl::StrCat("mma.sync.aligned.m16n8k", shape.step, ".row.col.", sum_name, ".", PtxType(type),
                   ".", PtxType(x.regions[2].buffer->dtype), ".", sum_name,
                   " {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$0, $1, $2, $3};"),
      d, false);
  Value* clear = exprs_.Emit(x.args[0]);
  Value* registers = exprs_.PlaceOf(c).base;
  const auto place = [&](int64_t m, int64_t n, int64_t i) {
    const int64_t slot = m / 16 * (shape.own_n / 2) + n / 2 + i;
    return RegisterAt(b_, sum_type, registers, slot);
  };
  Value* zero = llvm::Constant::getNullValue(sum_type);
  for (int64_t k = 0; k < shape.k; k += shape.step) {
    std::vector<std::vector<Value*>> rights;
    for (int64_t n = 0; n < shape.own_n; n += 16) rights.push_back(operands.Right(n, k));
    for (int64_t m = 0; m < shape.own_m; m += 16) {
      const std::vector<Value*> a = operands.Left(m, k);
      for (int64_t n = 0; n < shape.own_n; n += 8) {
        const std::vector<Value*>& pair = rights[static_cast<size_t>(n / 16)];
        const size_t half = n % 16 == 0 ? 0 : 2;
        std::vector<Value*> args = a;
        args.insert(args.end(), {pair[half], pair[half + 1]});
        for (int64_t i = 0; i < 4; ++i) {
          Value* before = b_.CreateLoad(sum_type, place(m, n, i));
          args.push_back(k == 0 ? b_.CreateSelect(clear, zero, before) : before);
        }
        llvm::CallInst* result = b_.CreateCall(form, multiply, args);
        result->setConvergent();
        for (int64_t i = 0; i < 4; ++i) {
          b_.CreateStore(b_.CreateExtractValue(result, static_cast<unsigned>(i)), place(m, n, i));
        }
      }
    }
  }
}

}  // namespace kiln::codegen

// mma.sync and ldmatrix (PTX 9.7.14.5): a warp's own products, 16 x 8 by 32 bytes along k; mma.sp
// (PTX 9.7.14.6), which takes 64 of B's.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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
constexpr int64_t kRowBits = 32;  // of metadata, in one row of an instruction: of 16 bits and up

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

  // The metadata of rows m.. to m + 15 and the step of B's k that begins at `k`, as the lanes that
  // selector 0 names hold it (figures of 9.7.14.6.2.1): of 16 bits and more, lane 4 r + q has the
  // q'th half of row r's 32 bits and above it that of row r + 8, for q of 0 and 1; of 8 bits it has
  // the q / 2'th half of the 64 bits of row r + q % 2 * 8. Other lanes' is not looked at.
  Value* Metadata(const GpuTile& e, int64_t bits, bool turned, int64_t m, int64_t k) {
    Value* odd = b_.CreateAnd(inner_, Int(1));
    const int64_t bytes = shape_.type.bytes();
    if (bytes == 1) {
      Value* r = Sum({row_, Int(m), outer_, Times(odd, 8)});
      return Field(e, bits, turned, r, k / kRowBits, b_.CreateLShr(inner_, Int(1)), kRowBits);
    }
    const int64_t word = k * bytes / (kRowBits * 2), half = kRowBits / 2;
    Value* r = Sum({row_, Int(m), outer_});
    Value* low = Field(e, bits, turned, r, 2 * word, odd, half);
    Value* high = Field(e, bits, turned, b_.CreateAdd(r, Int(8)), 2 * word, odd, half);
    return b_.CreateOr(low, b_.CreateShl(high, Int(half)));
  }

 private:
  // Field `first` + `more` of row `r`'s metadata in fields of `width` bits, where `first` fields
  // are whole words of 32 bits and elements have `bits`: i32.
  Value* Field(const GpuTile& e, int64_t bits, bool turned, Value* r, int64_t first, Value* more,
               int64_t width) {
    if (bits > width) {
      Value* word = MetadataAt(e, bits, turned, r, Int(first * width / bits));
      Value* field = b_.CreateLShr(word, Times(more, width));
      return b_.CreateAnd(field, Int((int64_t{1} << width) - 1));
    }
    const int64_t elements = width / bits;
    Value* field = Int(0);
    for (int64_t i = 0; i < elements; ++i) {
      Value* column = Sum({Int(first * elements + i), Times(more, elements)});
      Value* part = MetadataAt(e, bits, turned, r, column);
      field = b_.CreateOr(field, b_.CreateShl(part, Int(i * bits)));
    }
    return field;
  }

  Value* MetadataAt(const GpuTile& e, int64_t bits, bool turned, Value* r, Value* c) {
    Value* address = turned ? e.Address(b_, c, r) : e.Address(b_, r, c);
    llvm::Type* type = b_.getIntNTy(static_cast<unsigned>(bits));
    auto* pointer = llvm::PointerType::get(b_.getContext(), kSharedSpace);
    Value* word = b_.CreateAlignedLoad(type, b_.CreateIntToPtr(address, pointer),
                                       llvm::Align(static_cast<uint64_t>(bits / 8)));
    return b_.CreateZExt(word, b_.getInt32Ty());
  }

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
    const int64_t steps = shape_.k / shape_.step / (shape_.sparse ? 2 : 1);
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

// The instruction: its text and how it takes its registers, which are A's four, two for each of B's
// 32 bytes along k, of a sparse A its metadata, and the sums: four, or of 16 bits two pairs.
llvm::InlineAsm* MultiplyOf(llvm::FunctionType* form, const MmaShape& shape, DType b, DType sum) {
  const int64_t sums = sum == kFloat16 ? 2 : 4;
  const std::string out = sum == kFloat32 ? "=f" : "=r";
  std::vector<std::string> constraints(static_cast<size_t>(sums), out);
  int64_t next = 0;
  const auto registers = [&](int64_t count) {
    std::vector<std::string> names;
    for (int64_t i = 0; i < count; ++i) names.push_back(absl::StrCat("$", next++));
    return absl::StrCat("{", absl::StrJoin(names, ", "), "}");
  };
  const auto operand = [&](int64_t count) {
    constraints.insert(constraints.end(), static_cast<size_t>(count), "r");
    return registers(count);
  };
  const std::string c = registers(sums), left = operand(4), right = operand(shape.sparse ? 4 : 2);
  std::string metadata;
  if (shape.sparse) {
    constraints.push_back("r");
    metadata = absl::StrCat(", $", next, ", 0x0");
  }
  for (int64_t i = 0; i < sums; ++i) constraints.push_back(absl::StrCat(i));
  const char* type = sum.is_int() ? "s32" : sum == kFloat16 ? "f16" : "f32";
  const std::string text = absl::StrCat(
      shape.sparse ? "mma.sp::ordered_metadata" : "mma", ".sync.aligned.m16n8k",
      (shape.sparse ? 2 : 1) * shape.step, ".row.col.", type, ".", PtxType(shape.type), ".",
      PtxType(b), ".", type, " ", c, ", ", left, ", ", right, ", ", c, metadata, ";");
  return llvm::InlineAsm::get(form, text, absl::StrJoin(constraints, ","), false);
}

// What a warp multiplies by: the instruction and the registers of its sums.
struct MmaProduct {
  MmaShape shape;
  llvm::FunctionType* form;
  llvm::InlineAsm* multiply;
  llvm::Type* sum_type;
  int64_t results;   // registers of 16 x 8 sums
  Value* registers;  // of all sums

  // Rows m.. to m + 15 of one step: A's registers, B's of 16 columns each, by half. `where`: of a
  // sparse A. `clear`, if any: whether the sums start from zero.
  void MultiplyRows(llvm::IRBuilder<>& b, int64_t m, const std::vector<Value*>& left,
                    const std::vector<std::vector<Value*>>& rights, Value* where,
                    Value* clear) const {
    const size_t wide = rights.size() / (shape.sparse ? 2 : 1);
    for (int64_t n = 0; n < shape.own_n; n += 8) {
      const size_t first = n % 16 == 0 ? 0 : 2;
      std::vector<Value*> args = left;
      for (size_t at = static_cast<size_t>(n / 16); at < rights.size(); at += wide) {
        args.insert(args.end(), {rights[at][first], rights[at][first + 1]});
      }
      if (where != nullptr) args.push_back(where);
      const auto place = [&](int64_t i) {
        const int64_t slot = m / 16 * (shape.own_n / 2) + n / 2;
        return RegisterAt(b, sum_type, registers, slot * results / 4 + i);
      };
      for (int64_t i = 0; i < results; ++i) {
        Value* before = b.CreateLoad(sum_type, place(i));
        Value* zero = llvm::Constant::getNullValue(sum_type);
        args.push_back(clear != nullptr ? b.CreateSelect(clear, zero, before) : before);
      }
      llvm::CallInst* result = b.CreateCall(form, multiply, args);
      result->setConvergent();
      for (int64_t i = 0; i < results; ++i) {
        b.CreateStore(b.CreateExtractValue(result, static_cast<unsigned>(i)), place(i));
      }
    }
  }
};

}  // namespace

// The operands of a step that is read and not yet multiplied; zeros where there is none.
struct HeldStep {
  MmaProduct product;
  std::vector<size_t> left, right;  // how many registers a part has
  Value* words;                     // all of them

  void Hold(llvm::IRBuilder<>& b, const std::vector<std::vector<Value*>>& lefts,
            const std::vector<std::vector<Value*>>& rights) const {
    int64_t at = 0;
    for (const auto* parts : {&lefts, &rights}) {
      for (const std::vector<Value*>& part : *parts) {
        for (Value* word : part) {
          b.CreateStore(word, RegisterAt(b, b.getInt32Ty(), words, at++));
        }
      }
    }
  }

  void Multiply(llvm::IRBuilder<>& b) const {
    int64_t at = 0;
    const auto take = [&](const std::vector<size_t>& sizes) {
      std::vector<std::vector<Value*>> parts;
      for (const size_t size : sizes) {
        std::vector<Value*>& part = parts.emplace_back();
        while (part.size() < size) {
          part.push_back(b.CreateLoad(b.getInt32Ty(), RegisterAt(b, b.getInt32Ty(), words, at++)));
        }
      }
      return parts;
    };
    const std::vector<std::vector<Value*>> lefts = take(left), rights = take(right);
    for (size_t i = 0; i < lefts.size(); ++i) {
      product.MultiplyRows(b, static_cast<int64_t>(i) * 16, lefts[i], rights, nullptr, nullptr);
    }
  }
};

namespace {

std::vector<size_t> SizesOf(const std::vector<std::vector<Value*>>& parts) {
  std::vector<size_t> sizes;
  for (const std::vector<Value*>& part : parts) sizes.push_back(part.size());
  return sizes;
}

// Registers of 32 bits, zeros where the kernel begins.
Value* ZeroWords(llvm::IRBuilder<>& b, size_t count) {
  llvm::BasicBlock& entry = b.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> top(&entry, entry.begin());
  Value* words = top.CreateAlloca(llvm::ArrayType::get(top.getInt32Ty(), count));
  for (size_t i = 0; i < count; ++i) {
    top.CreateStore(top.getInt32(0),
                    RegisterAt(top, top.getInt32Ty(), words, static_cast<int64_t>(i)));
  }
  return words;
}

}  // namespace

void GpuInstructEmitter::EmitMma(const ir::Instruct& x) {
  const ir::Buffer& c = x.regions[0].buffer;
  const ir::Region& left = x.regions[1];
  const DType type = left.buffer->dtype;
  MmaShape shape;
  shape.type = type;
  shape.sparse = x.op == ir::Instruction::kSparseMma;
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

  const int64_t halves = shape.sparse ? 2 : 1;  // of B's k, for one step of A's
  const bool pairs_of_sums = c->dtype == kFloat16;
  const int64_t results = pairs_of_sums ? 2 : 4;
  llvm::Type* sum_type =
      pairs_of_sums ? PackedType(b_.getContext(), kFloat16) : exprs_.StorageType(c->dtype);
  llvm::Type* word = b_.getInt32Ty();
  const std::vector<llvm::Type*> sums(static_cast<size_t>(results), sum_type);
  const bool packed = from_registers && type != kFloat32;
  std::vector<llvm::Type*> types(4, packed ? PackedType(b_.getContext(), type) : word);
  types.insert(types.end(), static_cast<size_t>(shape.sparse ? 5 : 2), word);
  types.insert(types.end(), sums.begin(), sums.end());
  auto* form = llvm::FunctionType::get(llvm::StructType::get(b_.getContext(), sums), types, false);
  auto* multiply = MultiplyOf(form, shape, x.regions[2].buffer->dtype, c->dtype);
  const MmaProduct product = {shape, form, multiply, sum_type, results, exprs_.PlaceOf(c).base};
  const GpuTile metadata = shape.sparse ? TileOf(x, 3) : GpuTile();
  Value* clear = exprs_.Emit(x.args[0]);
  for (int64_t k = 0; k < shape.k; k += halves * shape.step) {
    std::vector<std::vector<Value*>> rights;  // by half, then by 16 columns
    for (int64_t half = 0; half < halves; ++half) {
      for (int64_t n = 0; n < shape.own_n; n += 16) {
        rights.push_back(operands.Right(n, k + half * shape.step));
      }
    }
    std::vector<std::vector<Value*>> lefts;
    for (int64_t m = 0; m < shape.own_m; m += 16) {
      lefts.push_back(operands.Left(m, k / halves));
      if (NoteOf(x, "lag") != 0) continue;
      Value* where = shape.sparse ? operands.Metadata(metadata, x.regions[3].buffer->dtype.bits,
                                                      NoteOf(x, "trans_e") != 0, m, k)
                                  : nullptr;
      product.MultiplyRows(b_, m, lefts.back(), rights, where, k == 0 ? clear : nullptr);
    }
    if (NoteOf(x, "lag") == 0) continue;
    std::shared_ptr<HeldStep>& held = held_[product.registers];
    if (held == nullptr) {
      const size_t words = lefts.size() * 4 + rights.size() * 4;
      held = std::make_shared<HeldStep>(
          HeldStep{product, SizesOf(lefts), SizesOf(rights), ZeroWords(b_, words)});
    }
    held->Multiply(b_);
    held->Hold(b_, lefts, rights);
  }
}

void GpuInstructEmitter::EmitMmaRest(const ir::Instruct& x) {
  const auto held = held_.find(exprs_.PlaceOf(x.regions[0].buffer).base);
  if (held == held_.end()) return;
  const HeldStep& step = *held->second;
  step.Multiply(b_);
  const auto zeros = [&](const std::vector<size_t>& sizes) {
    std::vector<std::vector<Value*>> parts;
    for (const size_t size : sizes) parts.emplace_back(size, b_.getInt32(0));
    return parts;
  };
  step.Hold(b_, zeros(step.left), zeros(step.right));
  held_.erase(held);  // the next loop may multiply other types
}

}  // namespace kiln::codegen

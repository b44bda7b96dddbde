// wgmma (PTX 9.7.15): products by whole warpgroups, which go on while their threads do. A product
// is one piece of PTX: the sums, some hundred registers, go in and out of it once, or are known to
// PTX by name (named_sums.h).
//
// The steps of a product of many sums are a loop: an assembler's time goes by the registers that it
// reads, and a loop of four steps takes a third less than four instructions one after the other.
// Each step is then a group of its own, so that the loop ends with no instruction more and a wait
// can tell one product from the next.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/codegen/gpu_expr.h"
#include "compiler/codegen/gpu_instruct.h"
#include "compiler/ir/visit.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

constexpr int64_t kWarpgroup = 128;
constexpr int64_t kRows = 64;  // of an instruction
constexpr int64_t kMostColumns = 256;
constexpr int64_t kStepBytes = 32;   // along k
constexpr int64_t kFewestSteps = 4;  // of a loop
constexpr int64_t kManySums = 96;    // of a thread
constexpr int64_t kMostGroups = 7;   // that a wait leaves
constexpr char kOperand[] = "$";     // of inline PTX

// A matrix descriptor without its address (9.7.15.5.1.2): strides in units of 16 bytes, and the
// swizzle. Along the operand's contiguous dimension panels repeat, along the other one atoms.
uint64_t DescriptorOf(const GpuTile& tile) {
  KILN_CHECK(tile.bands == 0 || tile.row == 0);  // a stride is all that is said of bands
  const uint64_t leading = static_cast<uint64_t>(tile.panel_bytes()) >> 4;
  const uint64_t stride = static_cast<uint64_t>(tile.atom_bytes()) >> 4;
  const uint64_t swizzle = tile.swizzle == 128 ? 1 : tile.swizzle == 64 ? 2 : 3;
  return (leading & 0x3fff) << 16 | stride << 32 | swizzle << 62;
}

// An operand in shared memory: its rows (of B: its columns), and whether k runs along its own rows.
struct Operand {
  GpuTile tile;
  bool major_k = true;

  // Bytes from its begin to row `outer`, element `inner` along k, which begin panels or atoms.
  int64_t At(int64_t outer, int64_t inner) const {
    return major_k ? tile.At(outer, inner) : tile.At(inner, outer);
  }
  // How many bytes each of `steps` steps of `step` elements lies after the one before it; 0 where
  // they do not all lie as far.
  int64_t Stride(int64_t step, int64_t steps) const {
    const int64_t first = At(0, 0), stride = At(0, step) - first;
    for (int64_t i = 2; i < steps; ++i) {
      if (At(0, i * step) != first + i * stride) return 0;
    }
    return stride;
  }
};

struct WgmmaShape {
  explicit WgmmaShape(const ir::Instruct& x)
      : type(x.regions[1].buffer->dtype),
        from_registers(x.regions[1].buffer->scope == ir::Scope::kRegister),
        trans_a(NoteOf(x, "trans_a") != 0),
        trans_b(NoteOf(x, "trans_b") != 0),
        step(kStepBytes / type.bytes()),
        steps(NoteOf(x, "k") / step),
        m(NoteOf(x, "m")),
        n(NoteOf(x, "n")),
        rows(NoteOf(x, "rows")),
        sums(*ir::ConstInt(x.regions[0].buffer->shape[1])),
        groups(m * n / (kWarpgroup * sums)),
        own_m(m / rows),
        own_n(n / (groups / rows)),
        columns(std::min(own_n, kMostColumns)) {}

  // How many instructions a step is, of all warpgroups.
  int64_t instructions() const { return m / kRows * (n / columns); }

  DType type;  // of A
  bool from_registers, trans_a, trans_b;
  int64_t step, steps;            // elements along k
  int64_t m, n;                   // of all warpgroups
  int64_t rows;                   // of the grid of warpgroups
  int64_t sums;                   // of a thread
  int64_t groups;                 // of warps
  int64_t own_m, own_n, columns;  // of a warpgroup; of an instruction
};

// The groups that a product is committed in. Of one instruction a step nothing is multiplied while
// the loop comes round.
int64_t GroupsOf(const ir::Instruct& x) {
  const WgmmaShape shape(x);
  if (shape.from_registers || shape.steps < kFewestSteps || shape.sums < kManySums) return 1;
  if (shape.instructions() < 2) return 1;
  const Operand a{TileShapeOf(x, 1), !shape.trans_a}, b{TileShapeOf(x, 2), shape.trans_b};
  const bool even =
      a.Stride(shape.step, shape.steps) != 0 && b.Stride(shape.step, shape.steps) != 0;
  return even ? shape.steps : 1;
}

// A product's text, and what it takes beside the sums.
class WgmmaWriter {
 public:
  // Register i of the sums is `sums` + i; `packed` values are in each.
  WgmmaWriter(llvm::IRBuilder<>& b, const WgmmaShape& shape, std::string opcode,
              std::string immediates, std::string sums, int64_t packed)
      : b_(b),
        shape_(shape),
        opcode_(std::move(opcode)),
        immediates_(std::move(immediates)),
        sums_(std::move(sums)),
        packed_(packed) {}

  // Where a warpgroup's part begins: `part` rows (columns) of the grid of warpgroups further on.
  void SetLeft(Operand a, Value* part) { a_ = a, grid_row_ = part; }
  void SetLeft(Value* registers) { a_registers_ = registers; }
  void SetRight(Operand b, Value* part) { b_tile_ = b, grid_column_ = part; }

  // Instruction by instruction, in one group. `keeps` (i1): whether the sums go on. Descriptors of
  // all steps would be registers of their own, and all of a loop's be kept from turn to turn.
  std::string Apart(Value* keeps) {
    std::string text =
        absl::StrCat("{\n.reg .pred first, other;\n.reg .b64 left, right;\nmov.pred first, ",
                     Take(keeps, "b"), ";\nmov.pred other, 1;\n");
    ForEach([&](int64_t m, int64_t n) {
      std::string left, right;  // of the first step
      for (int64_t i = 0; i < shape_.steps; ++i) {
        const std::string b = At("right", b_tile_, grid_column_, shape_.own_n, n, i, &right, &text);
        const std::string a = a_registers_ != nullptr
                                  ? FromRegisters(m, i)
                                  : At("left", a_, grid_row_, shape_.own_m, m, i, &left, &text);
        absl::StrAppend(&text, Multiply(m, n, a, b, i == 0 ? "first" : "other"));
      }
    });
    return absl::StrCat(text, "}\nwgmma.commit_group.sync.aligned;");
  }

  // As a loop, of which each step is a group. An assembler wants a fence where the loop comes back.
  std::string Loop(Value* keeps) {
    std::string before =
        absl::StrCat("{\n.reg .pred first, more;\n.reg .b32 step;\nmov.pred first, ",
                     Take(keeps, "b"), ";\nmov.b32 step, 0;\n");
    std::string after;
    const auto count = [&](const std::string& name, Value* first, int64_t bytes) {
      absl::StrAppend(&before, ".reg .b64 ", name, ";\nmov.b64 ", name, ", ", Take(first, "l"),
                      ";\n");
      absl::StrAppend(&after, "add.s64 ", name, ", ", name, ", ", bytes / 16, ";\n");
    };
    for (int64_t m = 0; m < shape_.own_m; m += kRows) {
      count(absl::StrCat("a", m), Descriptor(a_, grid_row_, shape_.own_m, m, 0),
            a_.Stride(shape_.step, shape_.steps));
    }
    for (int64_t n = 0; n < shape_.own_n; n += shape_.columns) {
      count(absl::StrCat("b", n), Descriptor(b_tile_, grid_column_, shape_.own_n, n, 0),
            b_tile_.Stride(shape_.step, shape_.steps));
    }
    std::string products;
    ForEach([&](int64_t m, int64_t n) {
      absl::StrAppend(&products,
                      Multiply(m, n, absl::StrCat("a", m), absl::StrCat("b", n), "first"));
    });
    return absl::StrCat(before, ".pragma \"nounroll\";\nsteps${:uid}:\nwgmma.fence.sync.aligned;\n",
                        products, "wgmma.commit_group.sync.aligned;\nmov.pred first, 1;\n", after,
                        "add.s32 step, step, 1;\nsetp.ne.s32 more, step, ", shape_.steps,
                        ";\n@more bra.uni steps${:uid};\n}");
  }

  const std::vector<Value*>& args() const { return args_; }
  const std::vector<std::string>& constraints() const { return constraints_; }

 private:
  template <typename F>
  void ForEach(F visit) const {
    for (int64_t m = 0; m < shape_.own_m; m += kRows) {
      for (int64_t n = 0; n < shape_.own_n; n += shape_.columns) visit(m, n);
    }
  }

  std::string Take(Value* value, const char* constraint) {
    args_.push_back(value);
    constraints_.push_back(constraint);
    const int64_t sums = sums_ == kOperand ? 2 * shape_.sums / packed_ : 0;  // out and in
    return absl::StrCat(kOperand, sums + static_cast<int64_t>(args_.size()) - 1);
  }

  Value* Descriptor(const Operand& x, Value* part, int64_t own, int64_t outer, int64_t step) {
    const auto number = [&](int64_t v) { return b_.getInt32(static_cast<uint32_t>(v)); };
    Value* skip = b_.CreateMul(part, number(x.At(own, 0) - x.At(0, 0)));
    Value* address =
        b_.CreateAdd(b_.CreateAdd(x.tile.base, skip), number(x.At(outer, step * shape_.step)));
    Value* field = b_.CreateAnd(b_.CreateLShr(address, number(4)), number(0x3fff));
    return b_.CreateOr(b_.CreateZExt(field, b_.getInt64Ty()), b_.getInt64(DescriptorOf(x.tile)));
  }

  // A step's descriptor: the first one's, and how much further it lies.
  std::string At(const char* name, const Operand& x, Value* part, int64_t own, int64_t outer,
                 int64_t step, std::string* first, std::string* text) {
    if (step == 0) return *first = Take(Descriptor(x, part, own, outer, 0), "l");
    const int64_t further = x.At(outer, step * shape_.step) - x.At(outer, 0);
    absl::StrAppend(text, "add.s64 ", name, ", ", *first, ", ", further / 16, ";\n");
    return name;
  }

  std::string FromRegisters(int64_t m, int64_t step) {
    const int64_t first = (m / kRows * shape_.steps + step) * 4;
    std::vector<std::string> four;
    for (int64_t i = 0; i < 4; ++i) {
      four.push_back(Take(LoadPacked(b_, shape_.type, a_registers_, first + i), "r"));
    }
    return absl::StrCat("{", absl::StrJoin(four, ", "), "}");
  }

  std::string Multiply(int64_t m, int64_t n, const std::string& left, const std::string& right,
                       const char* keeps) const {
    const int64_t slot = (m / kRows * (shape_.own_n / 2) + n / 2) / packed_;
    std::vector<std::string> names;
    for (int64_t i = 0; i < shape_.columns / 2 / packed_; ++i) {
      names.push_back(absl::StrCat(sums_, slot + i));
    }
    return absl::StrCat(opcode_, " {", absl::StrJoin(names, ", "), "}, ", left, ", ", right, ", ",
                        keeps, immediates_, ";\n");
  }

  llvm::IRBuilder<>& b_;
  const WgmmaShape& shape_;
  const std::string opcode_, immediates_, sums_;
  const int64_t packed_;
  Operand a_, b_tile_;
  Value* a_registers_ = nullptr;
  Value *grid_row_ = nullptr, *grid_column_ = nullptr;
  std::vector<Value*> args_;
  std::vector<std::string> constraints_;
};

}  // namespace

int64_t WgmmaGroups(const ir::Stmt& body) {
  int64_t most_left = 0;
  std::vector<int64_t> groups;  // of products
  ir::Walk(body, [&](const ir::Stmt& s) {
    const auto* x = s.As<ir::Instruct>();
    if (x != nullptr && x->op == ir::Instruction::kWgmma) groups.push_back(GroupsOf(*x));
    if (x != nullptr && x->op == ir::Instruction::kWgmmaWait) {
      most_left = std::max(most_left, *ir::ConstInt(x->args[0]));
    }
    return true;
  });
  const bool same = !groups.empty() && std::count(groups.begin(), groups.end(), groups[0]) ==
                                           static_cast<int64_t>(groups.size());
  return same && most_left * groups[0] <= kMostGroups ? groups[0] : 1;
}

// Every warpgroup multiplies its part of the grid in instructions of 64 rows, up to 256 columns
// and 32 bytes along k (9.7.15.5.2). The fence is a piece of its own, before the descriptors:
// assemblers compute in uniform registers what stands between the two.
void GpuInstructEmitter::EmitWgmma(const ir::Instruct& x) {
  const ir::Buffer& c = x.regions[0].buffer;
  const WgmmaShape shape(x);
  KILN_CHECK(shape.groups * kWarpgroup == part_.count);
  const bool is_int = c->dtype.is_int();
  const std::string name = exprs_.NameOfSums(c);
  std::vector<Registers> sums;
  if (name.empty()) sums.push_back(SumsOf(c, shape.sums));
  const int64_t packed = c->dtype == kFloat16 ? 2 : 1;
  std::string immediates = is_int ? "" : ", 1, 1";  // signs, and which operands are transposed
  if (shape.type.bits == 16 && !shape.from_registers) {
    absl::StrAppend(&immediates, ", ", shape.trans_a ? 1 : 0);
  }
  if (shape.type.bits == 16) absl::StrAppend(&immediates, ", ", shape.trans_b ? 0 : 1);
  const char* sum_type = is_int ? ".s32." : packed == 2 ? ".f16." : ".f32.";
  WgmmaWriter writer(
      b_, shape,
      absl::StrCat("wgmma.mma_async.sync.aligned.m64n", shape.columns, "k", shape.step, sum_type,
                   PtxType(shape.type), ".", PtxType(x.regions[2].buffer->dtype)),
      std::move(immediates), name.empty() ? kOperand : name, packed);

  std::vector<Registers> touched = sums;
  Value* from = b_.CreateSub(thread_, b_.getInt32(static_cast<uint32_t>(part_.first)));
  Value* group = b_.CreateUDiv(from, b_.getInt32(kWarpgroup));
  Value* rows_of_grid = b_.getInt32(static_cast<uint32_t>(shape.rows));
  if (shape.from_registers) {
    Value* registers = exprs_.PlaceOf(x.regions[1].buffer).base;
    writer.SetLeft(registers);
    touched.push_back({registers, PackedType(b_.getContext(), shape.type),
                       shape.own_m / kRows * shape.steps * 4});
  } else {
    writer.SetLeft({TileOf(x, 1), !shape.trans_a}, b_.CreateURem(group, rows_of_grid));
  }
  writer.SetRight({TileOf(x, 2), shape.trans_b}, b_.CreateUDiv(group, rows_of_grid));
  if (groups_ == 1) AsmOn("wgmma.fence.sync.aligned;", touched);
  Value* keeps = b_.CreateNot(exprs_.Emit(x.args[0]));
  const std::string text = groups_ > 1 ? writer.Loop(keeps) : writer.Apart(keeps);
  AsmOn(text, sums, writer.constraints(), writer.args());
}

// What is looked at after the wait comes out of it; sums of products that go on are left alone.
void GpuInstructEmitter::EmitWgmmaWait(const ir::Instruct& x) {
  std::vector<Registers> ended;
  for (const ir::Region& r : x.regions) {
    if (!exprs_.NameOfSums(r.buffer).empty()) continue;
    ended.push_back(SumsOf(r.buffer, *ir::ConstInt(r.buffer->shape[1])));
  }
  if (NoteOf(x, "late") != 0) EndBlock();
  AsmOn(absl::StrCat("wgmma.wait_group.sync.aligned ", *ir::ConstInt(x.args[0]) * groups_, ";"),
        ended);
}

// Assemblers move waits to the front of their basic block, where the work that was to go on
// meanwhile waits too. They cannot know that the condition, which is the same for all threads,
// never holds.
void GpuInstructEmitter::EndBlock() {
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  auto* never = llvm::BasicBlock::Create(b_.getContext(), "never", function);
  auto* next = llvm::BasicBlock::Create(b_.getContext(), "next", function);
  Value* argument = function->getArg(0);
  b_.CreateCondBr(b_.CreateICmpEQ(argument, llvm::Constant::getNullValue(argument->getType())),
                  never, next);
  b_.SetInsertPoint(never);
  b_.CreateIntrinsic(llvm::Intrinsic::trap, {}, {});
  b_.CreateUnreachable();
  b_.SetInsertPoint(next);
}

}  // namespace kiln::codegen

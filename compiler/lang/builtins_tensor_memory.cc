// Tensor memory and the products into it, by name. What that means for the threads of a block is
// tensor_memory.h's: a product is over when the program goes on, as every other tile operation.
#include "absl/strings/str_cat.h"
#include "compiler/lang/elaborator.h"
#include "compiler/lang/tensor_memory.h"

namespace kiln::lang {
namespace {

constexpr int kColumnBits = 32;

absl::StatusOr<Value> AllocTensorMemory(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.alloc_tmem"));
  KILN_ASSIGN_OR_RETURN(const std::vector<Operand> extents,
                        e.ToShape(args[0], args.LocOf(0), "the shape of T.alloc_tmem"));
  KILN_ASSIGN_OR_RETURN(const DType dtype, e.ToDType(args[1], args.LocOf(1)));
  if (extents.size() < 2) {
    return e.Error(args.LocOf(0), "a tile of tensor memory of one dimension",
                   "give it rows and columns: T.alloc_tmem([128, 256], dtype)");
  }
  if (dtype.bits > kColumnBits) {
    return e.Error(args.LocOf(1), absl::StrCat("tensor memory of ", dtype.ToString()),
                   "its elements have up to 32 bits");
  }
  std::vector<ir::Expr> shape;
  for (const Operand& extent : extents) {
    if (extent.info.flags & ExprInfo::kRuntime) {
      return e.NeedsValue(args.LocOf(0), "the shape of T.alloc_tmem depends on a run-time value",
                          extent.e,
                          "on-chip tiles have compile-time shapes: use parameters, constants and "
                          "T.const sizes");
    }
    shape.push_back(extent.e);
  }
  KILN_ASSIGN_OR_RETURN(
      const ir::Buffer buffer,
      e.NewNamedBuffer(dtype, std::move(shape), ir::Scope::kTensor, args.loc, {}, "tmem"));
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Alloc>(args.loc, buffer));
  return e.NewBuffer(buffer);
}

absl::StatusOr<Value> FreeTensorMemory(Elaborator& e, const BoundArgs& args) {
  const bool is_tensor =
      args[0].Is(Type::kBuffer) && args[0].buffer().buffer->scope == ir::Scope::kTensor;
  if (!is_tensor) {
    return e.Error(args.LocOf(0), absl::StrCat("T.deallocate_tmem of ", Describe(args[0])),
                   "pass what T.alloc_tmem returned");
  }
  e.launch().notes[kTensorMemoryFreed] = "1";
  return Value::None();
}

absl::Status NotOfTwoBlocks(Elaborator& e, const BoundArgs& args, size_t i, const char* what) {
  if (!args.Given(i)) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(const bool two, e.ToBool(args[i], args.LocOf(i), what));
  if (!two) return absl::OkStatus();
  return e.Unimplemented(args.LocOf(i),
                         absl::StrCat(what, "=True: a product of two blocks of a cluster"),
                         "give each block a product of its own: they share no memory here");
}

absl::StatusOr<Value> TensorGemm(Elaborator& e, const BoundArgs& args) {
  constexpr size_t kBarrier = 7, kTwo = 8;
  KILN_RETURN_IF_ERROR(NotOfTwoBlocks(e, args, kTwo, "use_2cta"));
  KILN_RETURN_IF_ERROR(CallAs(e, "gemm", args, {0, 1, 2, 3, 4, 5, 6}).status());
  if (args.Given(kBarrier)) KILN_RETURN_IF_ERROR(ArriveOnce(e, args, kBarrier));
  return Value::None();
}

// When the products before it are over, which they are.
absl::StatusOr<Value> ArriveAfterProducts(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(NotOfTwoBlocks(e, args, 1, "arrive_2cta"));
  KILN_RETURN_IF_ERROR(ArriveOnce(e, args, 0));
  return Value::None();
}

absl::StatusOr<Value> Nothing(Elaborator&, const BoundArgs&) { return Value::None(); }

constexpr Builtin kRows[] = {
    {"T.alloc_tmem", "shape dtype", AllocTensorMemory},
    {"T.deallocate_tmem", "tmem", FreeTensorMemory},
    {"T.tcgen05_gemm",
     "A B C transpose_A? transpose_B? policy? clear_accum? * mbar? use_2cta? annotations?",
     TensorGemm},
    {"T.tcgen05_mma_arrive", "mbar arrive_2cta?", ArriveAfterProducts},
    {"T.tcgen05_before_thread_sync", "", Nothing},
    {"T.tcgen05_after_thread_sync", "", Nothing},
};

}  // namespace

BuiltinTable TensorMemoryBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang

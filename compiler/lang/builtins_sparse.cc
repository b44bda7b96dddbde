// Products of a sparse form (ir/sparse.h), and what programs ask of its metadata.
#include "absl/strings/str_cat.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/sparse.h"
#include "compiler/lang/matrix_operand.h"

namespace kiln::lang {
namespace {

struct Operands {
  Tile a, e, b, c;
  bool trans_a = false, trans_e = false, trans_b = false;
};

absl::Status CheckTypes(Elaborator& e, const BoundArgs& args, const Operands& x) {
  const DType a = x.a.region.buffer->dtype, b = x.b.region.buffer->dtype,
              c = x.c.region.buffer->dtype, metadata = x.e.region.buffer->dtype;
  if (!ir::IsMetadata(metadata)) {
    return e.Error(args.LocOf(1),
                   absl::StrCat("E of T.gemm_sp, '", x.e.region.buffer->name, "', is ",
                                metadata.ToString(), ": metadata is bits"),
                   "give E integers of 8, 16 or 32 bits");
  }
  if (!ir::HasSparseForm(a)) {
    return e.Error(args.LocOf(0), absl::StrCat("T.gemm_sp of ", a.ToString()),
                   "multiply floats of 8 or 16 bits, float32, int8 or uint8");
  }
  if (a.is_float() != b.is_float() || (a.is_float() && !c.is_float()) || b.is_bool() ||
      c.is_bool() || a.bits != b.bits) {
    return e.Error(
        args.loc,
        absl::StrCat("T.gemm_sp of ", a.ToString(), " and ", b.ToString(), " into ", c.ToString()),
        "give A and B one type, and multiply floats into floats");
  }
  return absl::OkStatus();
}

absl::Status CheckShapes(Elaborator& e, const BoundArgs& args, const Operands& x) {
  const auto same = [&](const ir::Expr& one, const ir::Expr& other, const std::string& what) {
    return e.RequireSameExtent(
        one, other, args.loc,
        absl::StrCat("T.gemm_sp: ", what, ": ", ir::ToString(one), " and ", ir::ToString(other)),
        "A is [M, K / 2], E [M, K / get_e_factor(A's type, E's type)], each turned by its "
        "transpose; B is [K, N], or [N, K] with transpose_B; C is [M, N]");
  };
  const ir::Expr depth = MatrixExtent(x.a, !x.trans_a) * ir::MakeInt(2);
  const int64_t per = ir::DensePerMetadata(x.a.region.buffer->dtype, x.e.region.buffer->dtype);
  KILN_RETURN_IF_ERROR(same(depth, MatrixExtent(x.b, x.trans_b),
                            "K differs between A, which holds half of it, and B"));
  KILN_RETURN_IF_ERROR(same(depth, MatrixExtent(x.e, !x.trans_e) * ir::MakeInt(per),
                            absl::StrCat("K differs between A and E, each of whose elements is "
                                         "about ",
                                         per)));
  const ir::Expr& rows = MatrixExtent(x.a, x.trans_a);
  KILN_RETURN_IF_ERROR(same(rows, MatrixExtent(x.e, x.trans_e), "M differs between A and E"));
  KILN_RETURN_IF_ERROR(same(rows, MatrixExtent(x.c, false), "M differs between A and C"));
  return same(MatrixExtent(x.b, !x.trans_b), MatrixExtent(x.c, true), "N differs between B and C");
}

// A tile that the sparse form is expanded to, the loop that does it, and a product of the tile:
// where a GPU multiplies sparse forms, fuse-sparse takes them together.
absl::StatusOr<Value> SparseGemm(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.gemm_sp"));
  Operands x;
  KILN_ASSIGN_OR_RETURN(x.a, MatrixOperand(e, args, 0, "A of T.gemm_sp"));
  KILN_ASSIGN_OR_RETURN(x.e, MatrixOperand(e, args, 1, "E of T.gemm_sp"));
  KILN_ASSIGN_OR_RETURN(x.b, MatrixOperand(e, args, 2, "B of T.gemm_sp"));
  KILN_ASSIGN_OR_RETURN(x.c, MatrixOperand(e, args, 3, "C of T.gemm_sp"));
  static constexpr const char* kTurns[] = {"transpose_A", "transpose_E", "transpose_B"};
  bool* const turns[] = {&x.trans_a, &x.trans_e, &x.trans_b};
  for (size_t i = 0; i < std::size(kTurns); ++i) {
    if (!args.Given(4 + i)) continue;
    KILN_ASSIGN_OR_RETURN(*turns[i], e.ToBool(args[4 + i], args.LocOf(4 + i), kTurns[i]));
  }
  KILN_ASSIGN_OR_RETURN(const ir::GemmPolicy policy, PolicyOf(e, args, 7, "T.gemm_sp"));
  ir::Expr clear = ir::MakeBool(false);
  if (args.Given(8)) {
    KILN_ASSIGN_OR_RETURN(const Operand flag,
                          e.ToType(args[8], kBool, args.LocOf(8), "clear_accum of T.gemm_sp"));
    clear = flag.e;
  }
  KILN_RETURN_IF_ERROR(CheckTypes(e, args, x));
  KILN_RETURN_IF_ERROR(CheckShapes(e, args, x));
  const ir::Buffer& kept = x.a.region.buffer;
  const std::vector<ir::Expr> shape = {MatrixExtent(x.a, x.trans_a),
                                       MatrixExtent(x.a, !x.trans_a) * ir::MakeInt(2)};
  KILN_ASSIGN_OR_RETURN(const ir::Buffer dense,
                        e.NewNamedBuffer(kept->dtype, shape, ir::Scope::kShared, args.loc, {},
                                         absl::StrCat(kept->name, "_dense")));
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Alloc>(args.loc, dense));
  const ir::SparseMatrix form{x.a.region, x.e.region, x.trans_a, x.trans_e};
  KILN_RETURN_IF_ERROR(e.Emit(args.loc, ir::Expand(form, dense, args.loc)));
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Gemm>(args.loc, ir::WholeBuffer(dense), x.b.region, x.c.region,
                                           false, x.trans_b, policy, clear));
  return Value::None();
}

absl::StatusOr<DType> SparseType(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const DType type, e.ToDType(args[0], args.LocOf(0)));
  if (ir::HasSparseForm(type)) return type;
  return e.Error(args.LocOf(0), absl::StrCat("there is no sparse form of ", type.ToString()),
                 "use floats of 8 or 16 bits, float32, int8 or uint8");
}

// Elements of a matrix of the first type that one element of metadata is about.
absl::StatusOr<Value> MetadataFactor(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const DType type, SparseType(e, args));
  KILN_ASSIGN_OR_RETURN(const DType metadata, e.ToDType(args[1], args.LocOf(1)));
  if (!ir::IsMetadata(metadata)) {
    return e.Error(args.LocOf(1), absl::StrCat("there is no metadata of ", metadata.ToString()),
                   "use integers of 8, 16 or 32 bits");
  }
  return Value::Int(ir::DensePerMetadata(type, metadata));
}

// How many threads of a warp give an instruction the same metadata in TileLang: of the type alone.
absl::StatusOr<Value> MetadataCopies(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const DType type, SparseType(e, args));
  return Value::Int(type.bits <= 8 ? 1 : 2);
}

constexpr Builtin kRows[] = {
    {"T.gemm_sp",
     "A_sparse E B C transpose_A? transpose_E? transpose_B? policy? clear_accum? k_pack? wg_wait? "
     "annotations?",
     SparseGemm},
    {"T.wgmma_gemm_sp",
     "A_sparse E B C transpose_A? transpose_E? transpose_B? policy? clear_accum? annotations?",
     SparseGemm},
    {"sparse_layout.get_e_factor", "a_dtype meta_dtype", MetadataFactor},
    {"sparse_layout.get_e_replicate_factor", "a_dtype", MetadataCopies},
};

}  // namespace

BuiltinTable SparseBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang

// Tile ops of the language: copy, gemm, fill, reductions.
#include <algorithm>
#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "compiler/ir/printer.h"
#include "compiler/lang/elaborator.h"
#include "compiler/lang/matrix_operand.h"
#include "compiler/lang/tile.h"

namespace kiln::lang {

absl::StatusOr<Tile> MatrixOperand(Elaborator& e, const BoundArgs& args, size_t i,
                                   absl::string_view name) {
  KILN_ASSIGN_OR_RETURN(Tile tile, e.ToTile(args[i], args.LocOf(i), name));
  if (tile.is_base) {
    return e.Error(args.LocOf(i), absl::StrCat(name, " is a start without extents"),
                   "pass a whole tile or a region x[a:b, c:d]");
  }
  if (tile.region.buffer->scope == ir::Scope::kGlobal) {
    return e.Error(args.LocOf(i),
                   absl::StrCat(name, " is the global tensor '", tile.region.buffer->name, "'"),
                   "copy it to a T.alloc_shared or T.alloc_fragment tile first");
  }
  const size_t rank = tile.region.ranges.size();
  bool matrix = rank >= 2;
  for (size_t d = 0; matrix && d + 2 < rank; ++d) {
    matrix = ir::IsConst(tile.region.ranges[d].extent, 1);
  }
  if (!matrix) {
    return e.Error(args.LocOf(i),
                   absl::StrCat(name, ", '", tile.region.buffer->name,
                                "', is not a matrix: ", ir::ToString(tile.region)),
                   "pass a tile of two dimensions");
  }
  return tile;
}

const ir::Expr& MatrixExtent(const Tile& tile, bool second) {
  const size_t rank = tile.region.ranges.size();
  return tile.region.ranges[rank - (second ? 1 : 2)].extent;
}

absl::StatusOr<ir::GemmPolicy> PolicyOf(Elaborator& e, const BoundArgs& args, size_t i,
                                        absl::string_view name) {
  if (!args.Given(i)) return ir::GemmPolicy::kSquare;
  const bool known = args[i].Is(Type::kEnum) &&
                     absl::string_view(args[i].member()->enum_name) == "T.GemmWarpPolicy";
  if (known) return static_cast<ir::GemmPolicy>(args[i].member()->value);
  return e.Error(
      args.LocOf(i),
      absl::StrCat("the policy of ", name, " must be a T.GemmWarpPolicy, not ", Describe(args[i])),
      "use T.GemmWarpPolicy.Square, FullRow or FullCol");
}

namespace {

std::vector<ir::Expr> PointIndices(const ir::Region& region) {
  std::vector<ir::Expr> indices;
  for (const ir::Range& range : region.ranges) indices.push_back(range.min);
  return indices;
}

absl::Status AddNote(Elaborator& e, const BoundArgs& args, size_t i, const char* key,
                     std::map<std::string, std::string>* notes) {
  if (!args.Given(i)) return absl::OkStatus();
  const Value& v = args[i];
  if (!v.is_number() && !v.Is(Type::kStr)) {
    return e.Error(args.LocOf(i), absl::StrCat("'", key, "' must be a constant, not ", Describe(v)),
                   "pass a number, a bool or a string");
  }
  (*notes)[key] = v.Is(Type::kStr)    ? v.str()
                  : v.Is(Type::kBool) ? (v.bool_value() ? "true" : "false")
                                      : Repr(v);
  return absl::OkStatus();
}

absl::StatusOr<Value> Copy(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.copy"));
  KILN_ASSIGN_OR_RETURN(Tile src, e.ToTile(args[0], args.LocOf(0), "the source of T.copy"));
  KILN_ASSIGN_OR_RETURN(Tile dst, e.ToTile(args[1], args.LocOf(1), "the destination of T.copy"));
  if (src.is_base && dst.is_base) {  // one element
    KILN_RETURN_IF_ERROR(
        e.StoreElement(dst.region.buffer, PointIndices(dst.region), args[0], args.loc));
    return Value::None();
  }
  if (src.is_base) KILN_RETURN_IF_ERROR(FillBase(e, &src, dst, args.LocOf(0)));
  if (dst.is_base) KILN_RETURN_IF_ERROR(FillBase(e, &dst, src, args.LocOf(1)));
  KILN_RETURN_IF_ERROR(RequireSameShape(e, src, dst, args.loc, "T.copy"));
  std::map<std::string, std::string> notes = e.launch().copy_notes;
  static constexpr const char* kNotes[] = {"coalesced_width", "disable_tma", "eviction_policy",
                                           "prefer_instruction"};
  for (size_t i = 0; i < std::size(kNotes); ++i) {
    KILN_RETURN_IF_ERROR(AddNote(e, args, 2 + i, kNotes[i], &notes));
  }
  const auto policy = notes.find("eviction_policy");
  if (policy != notes.end() && policy->second != "evict_normal" &&
      policy->second != "evict_first" && policy->second != "evict_last") {
    return e.Error(args.LocOf(4), absl::StrCat("no eviction policy is called ", policy->second),
                   "use 'evict_normal', 'evict_first' or 'evict_last'");
  }
  constexpr size_t kLoopLayout = 7;
  if (args.Given(kLoopLayout)) {
    KILN_ASSIGN_OR_RETURN(notes["loop_layout"], LoopLayout(e, args, kLoopLayout));
  }
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Copy>(args.loc, src.region, dst.region, std::move(notes)));
  return Value::None();
}

absl::StatusOr<Value> Gemm(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.gemm"));
  KILN_ASSIGN_OR_RETURN(const Tile a, MatrixOperand(e, args, 0, "A of T.gemm"));
  KILN_ASSIGN_OR_RETURN(const Tile b, MatrixOperand(e, args, 1, "B of T.gemm"));
  KILN_ASSIGN_OR_RETURN(const Tile c, MatrixOperand(e, args, 2, "C of T.gemm"));
  bool trans_a = false, trans_b = false;
  if (args.Given(3)) {
    KILN_ASSIGN_OR_RETURN(trans_a, e.ToBool(args[3], args.LocOf(3), "transpose_A"));
  }
  if (args.Given(4)) {
    KILN_ASSIGN_OR_RETURN(trans_b, e.ToBool(args[4], args.LocOf(4), "transpose_B"));
  }
  KILN_ASSIGN_OR_RETURN(const ir::GemmPolicy policy, PolicyOf(e, args, 5, "T.gemm"));
  ir::Expr clear = ir::MakeBool(false);
  if (args.Given(6)) {
    KILN_ASSIGN_OR_RETURN(const Operand flag,
                          e.ToType(args[6], kBool, args.LocOf(6), "clear_accum of T.gemm"));
    clear = flag.e;
  }
  const ir::Expr &am = MatrixExtent(a, trans_a), &ak = MatrixExtent(a, !trans_a);
  const ir::Expr &bn = MatrixExtent(b, !trans_b), &bk = MatrixExtent(b, trans_b);
  auto same = [&](const ir::Expr& x, const ir::Expr& y, const char* axis, const char* pair) {
    return e.RequireSameExtent(
        x, y, args.loc,
        absl::StrCat("T.gemm: ", axis, " differs between ", pair, ": ", ir::ToString(x), " and ",
                     ir::ToString(y)),
        "A is [M, K], or [K, M] with transpose_A; B is [K, N], or [N, K] with transpose_B; C is "
        "[M, N]");
  };
  KILN_RETURN_IF_ERROR(same(ak, bk, "K", "A and B"));
  KILN_RETURN_IF_ERROR(same(am, MatrixExtent(c, false), "M", "A and C"));
  KILN_RETURN_IF_ERROR(same(bn, MatrixExtent(c, true), "N", "B and C"));
  const DType ta = a.region.buffer->dtype, tb = b.region.buffer->dtype, tc = c.region.buffer->dtype;
  const bool floats = ta.is_float() || tb.is_float();
  // Integers of four bits are widened to what the other side is.
  const bool alike = ta.is_float() == tb.is_float() || ta.is_packed() || tb.is_packed();
  if (!alike || (floats && !tc.is_float()) || ta.is_bool() || tb.is_bool() || tc.is_bool()) {
    return e.Error(
        args.loc,
        absl::StrCat("T.gemm of ", ta.ToString(), " and ", tb.ToString(), " into ", tc.ToString()),
        "multiply floats into floats, or integers into integers or floats");
  }
  KILN_RETURN_IF_ERROR(
      e.EmitNew<ir::Gemm>(args.loc, a.region, b.region, c.region, trans_a, trans_b, policy, clear));
  if (args.Given(9)) KILN_RETURN_IF_ERROR(ArriveOnce(e, args, 9));
  return Value::None();
}

absl::Status FillTile(Elaborator& e, const Value& target, SourceLoc target_loc, const Value& value,
                      SourceLoc value_loc, SourceLoc loc, const char* name) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(loc, name));
  KILN_ASSIGN_OR_RETURN(const Tile dst,
                        e.ToTile(target, target_loc, absl::StrCat("the tile of ", name)));
  if (dst.is_base) {
    return e.StoreElement(dst.region.buffer, PointIndices(dst.region), value, loc);
  }
  KILN_ASSIGN_OR_RETURN(const Operand stored, e.ToType(value, dst.region.buffer->dtype, value_loc,
                                                       absl::StrCat("the value of ", name)));
  return e.EmitNew<ir::Fill>(loc, dst.region, stored.e);
}

absl::StatusOr<Value> Fill(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(
      FillTile(e, args[0], args.LocOf(0), args[1], args.LocOf(1), args.loc, "T.fill"));
  return Value::None();
}

absl::StatusOr<Value> Clear(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(
      FillTile(e, args[0], args.LocOf(0), Value::Int(0), args.loc, args.loc, "T.clear"));
  return Value::None();
}

// Loops over a region's elements: body(indices into its buffer, the loops' variables).
absl::Status OverElements(
    Elaborator& e, SourceLoc loc, const ir::Region& region,
    const std::function<ir::Stmt(std::vector<ir::Expr>, std::vector<ir::Expr>)>& body) {
  std::vector<ir::Axis> axes;
  std::vector<ir::Expr> at, vars;
  for (const ir::Range& range : region.ranges) {
    vars.push_back(ir::MakeVar("i", range.extent.dtype()));
    axes.push_back({vars.back(), ir::MakeInt(0, range.extent.dtype()), range.extent});
    at.push_back(range.min + vars.back());
  }
  return e.EmitNew<ir::For>(loc, ir::ForKind::kParallel, std::move(axes), body(at, vars));
}

absl::StatusOr<ir::Buffer> FlagsFor(Elaborator& e, SourceLoc loc, const ir::Region& region) {
  std::vector<ir::Expr> shape;
  for (const ir::Range& range : region.ranges) shape.push_back(range.extent);
  KILN_ASSIGN_OR_RETURN(
      const ir::Buffer flags,
      e.NewNamedBuffer(kInt32, std::move(shape), ir::Scope::kFragment, loc, {}, "is_nan"));
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Alloc>(loc, flags));
  return flags;
}

absl::Status NoteNans(Elaborator& e, SourceLoc loc, const ir::Region& region,
                      const ir::Buffer& flags) {
  return OverElements(e, loc, region, [&](std::vector<ir::Expr> at, std::vector<ir::Expr> vars) {
    const ir::Expr is_nan =
        ir::MakeCall(kBool, ir::Intrinsic::kIsNan, {ir::MakeLoad(region.buffer, std::move(at))});
    return ir::MakeStmt<ir::Store>(loc, flags, std::move(vars), ir::MakeCast(kInt32, is_nan));
  });
}

// nan_propagate: a maximum or minimum passes over NaN; this makes it NaN where one was there.
absl::Status ReduceWithNan(Elaborator& e, const ir::Reduce& reduce) {
  const SourceLoc loc = reduce.loc;
  KILN_ASSIGN_OR_RETURN(const ir::Buffer of_source, FlagsFor(e, loc, reduce.src));
  KILN_ASSIGN_OR_RETURN(const ir::Buffer of_result, FlagsFor(e, loc, reduce.dst));
  KILN_RETURN_IF_ERROR(NoteNans(e, loc, reduce.src, of_source));
  if (!reduce.clear) KILN_RETURN_IF_ERROR(NoteNans(e, loc, reduce.dst, of_result));
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Reduce>(loc, ir::ReduceOp::kMax, ir::WholeBuffer(of_source),
                                             ir::WholeBuffer(of_result), reduce.dim, reduce.clear));
  KILN_RETURN_IF_ERROR(
      e.EmitNew<ir::Reduce>(loc, reduce.op, reduce.src, reduce.dst, reduce.dim, reduce.clear));
  const ir::Buffer& out = reduce.dst.buffer;
  return OverElements(
      e, loc, reduce.dst, [&](std::vector<ir::Expr> at, std::vector<ir::Expr> vars) {
        const ir::Expr nan = ir::MakeFloat(NAN, out->dtype);
        const ir::Expr any = ir::MakeLoad(of_result, std::move(vars)) > ir::MakeInt(0);
        const ir::Expr value = ir::MakeSelect(any, nan, ir::MakeLoad(out, at));
        return ir::MakeStmt<ir::Store>(loc, out, std::move(at), value);
      });
}

template <ir::ReduceOp op>
absl::StatusOr<Value> Reduce(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "a reduction"));
  KILN_ASSIGN_OR_RETURN(const Tile src,
                        e.ToTile(args[0], args.LocOf(0), "the source of a reduction"));
  KILN_ASSIGN_OR_RETURN(const Tile dst,
                        e.ToTile(args[1], args.LocOf(1), "the result of a reduction"));
  for (const Tile* tile : {&src, &dst}) {
    const bool bits =
        op == ir::ReduceOp::kBitAnd || op == ir::ReduceOp::kBitOr || op == ir::ReduceOp::kBitXor;
    if (bits && !tile->region.buffer->dtype.is_int() && !tile->region.buffer->dtype.is_bool()) {
      return e.Error(args.loc,
                     absl::StrCat("a bitwise reduction of '", tile->region.buffer->name,
                                  "', which is ", tile->region.buffer->dtype.ToString()),
                     "reduce integers, or reinterpret the elements as such");
    }
    if (tile->is_base) {
      return e.Error(args.loc, "a reduction over a start without extents",
                     "pass a whole tile or a region x[a:b, c:d]");
    }
  }
  std::vector<int> dims;  // those that the source still has
  for (int d = 0; d < static_cast<int>(src.region.ranges.size()); ++d) {
    if (std::find(src.dropped.begin(), src.dropped.end(), d) == src.dropped.end()) {
      dims.push_back(d);
    }
  }
  const int64_t rank = static_cast<int64_t>(dims.size());
  int64_t dim = -1;
  if (args.Given(2)) {
    KILN_ASSIGN_OR_RETURN(dim, e.ToInt(args[2], args.LocOf(2), "dim"));
  }
  if (dim < -rank || dim >= rank) {
    return e.Error(args.LocOf(2),
                   absl::StrCat("dim ", dim, " is out of range: '", src.region.buffer->name,
                                "' has ", rank, " dimensions"),
                   absl::StrCat("use 0 to ", rank - 1));
  }
  dim = dims[dim < 0 ? dim + rank : dim];
  bool clear = true;
  if (args.Given(3)) {
    KILN_ASSIGN_OR_RETURN(clear, e.ToBool(args[3], args.LocOf(3), "clear"));
  }
  // The result has the source's shape without the reduced dimension, which may stay as 1.
  Tile kept = src;
  if (dst.region.ranges.size() == src.region.ranges.size()) {
    kept.region.ranges[dim] = {ir::MakeInt(0), ir::MakeInt(1)};
  } else {
    kept.region.ranges.erase(kept.region.ranges.begin() + dim);
  }
  if (kept.region.ranges.empty()) kept.region.ranges.push_back({ir::MakeInt(0), ir::MakeInt(1)});
  kept.shape = absl::StrCat(" once dimension ", dim, " is reduced");
  KILN_RETURN_IF_ERROR(RequireSameShape(e, kept, dst, args.loc, "a reduction"));
  bool with_nan = false;
  if (args.Given(5)) {
    KILN_ASSIGN_OR_RETURN(with_nan, e.ToBool(args[5], args.LocOf(5), "nan_propagate"));
  }
  const ir::Reduce reduce(args.loc, op, src.region, dst.region, static_cast<int>(dim), clear);
  const bool picks = op == ir::ReduceOp::kMax || op == ir::ReduceOp::kMin ||
                     op == ir::ReduceOp::kAbsMax;  // sums are NaN by themselves
  if (with_nan && picks && src.region.buffer->dtype.is_float() &&
      dst.region.buffer->dtype.is_float()) {
    KILN_RETURN_IF_ERROR(ReduceWithNan(e, reduce));
  } else {
    KILN_RETURN_IF_ERROR(
        e.EmitNew<ir::Reduce>(args.loc, op, src.region, dst.region, reduce.dim, clear));
  }
  return Value::None();
}

constexpr char kReduceParams[] = "buffer out dim? clear? batch? nan_propagate? annotations?";

constexpr Builtin kRows[] = {
    {"T.copy",
     "src dst coalesced_width? disable_tma? eviction_policy? prefer_instruction? annotations? "
     "loop_layout?",
     Copy},
    {"T.gemm",
     "A B C transpose_A? transpose_B? policy? clear_accum? k_pack? wg_wait? mbar? annotations?",
     Gemm},
    {"T.fill", "buffer value annotations?", Fill},
    {"T.clear", "buffer annotations?", Clear},
    {"T.reduce_sum", kReduceParams, Reduce<ir::ReduceOp::kSum>},
    {"T.reduce_max", kReduceParams, Reduce<ir::ReduceOp::kMax>},
    {"T.reduce_min", kReduceParams, Reduce<ir::ReduceOp::kMin>},
    {"T.reduce_abssum", kReduceParams, Reduce<ir::ReduceOp::kAbsSum>},
    {"T.reduce_absmax", kReduceParams, Reduce<ir::ReduceOp::kAbsMax>},
    {"T.reduce_bitand", kReduceParams, Reduce<ir::ReduceOp::kBitAnd>},
    {"T.reduce_bitor", kReduceParams, Reduce<ir::ReduceOp::kBitOr>},
    {"T.reduce_bitxor", kReduceParams, Reduce<ir::ReduceOp::kBitXor>},
};

}  // namespace

BuiltinTable TileBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang

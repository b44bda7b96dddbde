// Names of CUDA's that mean something without a thread: loads and stores by an address, and
// promises and hints, of which those that change no result are taken without effect.
#include "absl/strings/str_cat.h"
#include "compiler/ir/printer.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {
namespace {

using ir::Expr;

// Where a region begins: T.access_ptr(x[i, j], "r") and T.address_of(x[i, j]) are the place x[i,
// j]; T.access_ptr(x[i, j], "r", n) are n elements from there on.
absl::StatusOr<Value> Place(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(
      e.ToTile(args[0], args.LocOf(0), "what T.access_ptr and T.address_of name").status());
  if (args.rest.empty()) return args[0];
  if (args.rest.size() > 1 || !args[0].Is(Type::kAccess) || !args[0].access().is_point) {
    return e.Error(args.rest_locs[0], "T.access_ptr with extents", "pass a region x[a:b, c:d]");
  }
  KILN_ASSIGN_OR_RETURN(const Operand extent,
                        e.ToIndex(args.rest[0], args.rest_locs[0], "the extent of T.access_ptr"));
  auto* region = e.arena().New<AccessObject>();
  *region = args[0].access();
  region->is_point = false;
  region->indices.back() = {region->indices.back().min, extent.e, true};
  return Value::Of(Type::kAccess, region);
}

std::vector<Expr> Start(const Tile& tile, int64_t lane) {
  std::vector<Expr> indices;
  for (const ir::Range& range : tile.region.ranges) indices.push_back(range.min);
  indices.back() = indices.back() + ir::MakeInt(lane);
  return indices;
}

// The element x[i], or x[index] of a whole tensor.
absl::StatusOr<Value> ReadOnlyLoad(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.__ldg"));
  KILN_ASSIGN_OR_RETURN(const Tile tile,
                        e.ToTile(args[0], args.LocOf(0), "the element of T.__ldg"));
  std::vector<Expr> at = Start(tile, 0);
  if (args.Given(1)) {
    KILN_ASSIGN_OR_RETURN(const Operand index,
                          e.ToIndex(args[1], args.LocOf(1), "the index of T.__ldg"));
    if (at.size() != 1 || !args[0].Is(Type::kBuffer)) {
      return e.Error(args.LocOf(1), "an index beside an element, or into several dimensions",
                     "write T.__ldg(x[i, j])");
    }
    at[0] = index.e;
  } else if (!tile.is_base) {
    return e.Error(args.LocOf(0), "T.__ldg of a whole region", "write T.__ldg(x[i, j])");
  }
  ExprInfo info;
  info.flags = ExprInfo::kRuntime | ExprInfo::kLoads;
  return e.NewExpr(ir::MakeLoad(tile.region.buffer, at), info, args.loc);
}

// The 32 bits from an element on: of elements of 32, 16 or 8 bits, the first lowest.
absl::StatusOr<Tile> WordOf(Elaborator& e, const BoundArgs& args, const char* name) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, name));
  KILN_ASSIGN_OR_RETURN(const Tile tile,
                        e.ToTile(args[0], args.LocOf(0), absl::StrCat("the place of ", name)));
  const DType type = tile.region.buffer->dtype;
  if (type.bits <= 32 && !type.is_bool() && !(type.is_float() && type.bits == 8)) return tile;
  return e.Error(args.LocOf(0), absl::StrCat(name, " of ", type.ToString()),
                 "pass elements of 8, 16 or 32 bits");
}

absl::StatusOr<Expr> Predicate(Elaborator& e, const BoundArgs& args, size_t i) {
  if (!args.Given(i)) return Expr();
  KILN_ASSIGN_OR_RETURN(const Condition c, e.Decide(args[i], args.LocOf(i)));
  return c.known ? ir::MakeBool(c.value) : c.expr.e;
}

absl::StatusOr<Value> LoadWord(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Tile tile, WordOf(e, args, "T.ldg32"));
  KILN_ASSIGN_OR_RETURN(const Expr guard, Predicate(e, args, 1));
  const DType type = tile.region.buffer->dtype;
  const DType bits = {TypeCode::kUInt, type.bits};
  Expr word = ir::MakeInt(0, kUInt32);
  for (int64_t lane = 0; lane < 32 / type.bits; ++lane) {
    const Expr element = ir::MakeCall(bits, ir::Intrinsic::kReinterpret,
                                      {ir::MakeLoad(tile.region.buffer, Start(tile, lane), guard)});
    const Expr part = ir::MakeBinary(ir::BinaryOp::kShl, ir::MakeCast(kUInt32, element),
                                     ir::MakeInt(lane * type.bits, kUInt32));
    word = lane == 0 ? ir::MakeCast(kUInt32, element)
                     : ir::MakeBinary(ir::BinaryOp::kBitOr, word, part);
  }
  ExprInfo info;
  info.flags = ExprInfo::kRuntime | ExprInfo::kLoads;
  return e.NewExpr(word, info, args.loc);
}

absl::StatusOr<Value> StoreWord(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Tile tile, WordOf(e, args, "T.stg32"));
  KILN_ASSIGN_OR_RETURN(const Expr guard, Predicate(e, args, 2));
  KILN_ASSIGN_OR_RETURN(const Value settled,
                        e.Keep(args[1], "item", args.LocOf(1), Elaborator::Use::kRepeated));
  KILN_ASSIGN_OR_RETURN(const Operand value,
                        e.ToOperand(settled, args.LocOf(1), "the value of T.stg32"));
  Expr word = value.e;
  if (word.dtype().bits != 32 || word.dtype().is_bool()) {
    return e.Error(args.LocOf(1), absl::StrCat("T.stg32 of ", word.dtype().ToString()),
                   "pass 32 bits");
  }
  word = ir::MakeCall(kUInt32, ir::Intrinsic::kReinterpret, {word});
  const DType type = tile.region.buffer->dtype;
  const DType bits = {TypeCode::kUInt, type.bits};
  for (int64_t lane = 0; lane < 32 / type.bits; ++lane) {
    const Expr part =
        ir::MakeCast(bits, lane == 0 ? word
                                     : ir::MakeBinary(ir::BinaryOp::kShr, word,
                                                      ir::MakeInt(lane * type.bits, kUInt32)));
    KILN_RETURN_IF_ERROR(
        e.EmitNew<ir::Store>(args.loc, tile.region.buffer, Start(tile, lane),
                             ir::MakeCall(type, ir::Intrinsic::kReinterpret, {part}), guard));
  }
  return Value::None();
}

// Each thread copies `num_elems` neighbours, or writes zeros where the predicate does not hold.
// When it is over is said by who waits for it.
absl::StatusOr<Value> CpAsync(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.ptx_cp_async"));
  KILN_ASSIGN_OR_RETURN(const Tile dst, e.ToTile(args[0], args.LocOf(0), "the destination"));
  KILN_ASSIGN_OR_RETURN(const Tile src, e.ToTile(args[1], args.LocOf(1), "the source"));
  KILN_ASSIGN_OR_RETURN(const int64_t count, e.ToInt(args[2], args.LocOf(2), "num_elems"));
  const DType type = dst.region.buffer->dtype;
  const int64_t bytes = count * type.bits / 8;
  if (type != src.region.buffer->dtype || (bytes != 4 && bytes != 8 && bytes != 16)) {
    return e.Error(args.loc,
                   absl::StrCat("T.ptx_cp_async of ", count, " elements of ",
                                src.region.buffer->dtype.ToString(), " to ", type.ToString()),
                   "copy 4, 8 or 16 bytes of one type, or use T.copy");
  }
  const Expr lane = ir::MakeVar("lane");
  std::vector<Expr> to = Start(dst, 0), from = Start(src, 0);
  to.back() = to.back() + lane;
  from.back() = from.back() + lane;
  Expr value = ir::MakeLoad(src.region.buffer, from);
  if (args.Given(3)) {
    KILN_ASSIGN_OR_RETURN(const Operand guard,
                          e.ToType(args[3], kBool, args.LocOf(3), "predicate"));
    value = ir::MakeSelect(guard.e, value, ir::MakeConst(0, type));
  }
  KILN_RETURN_IF_ERROR(
      e.EmitNew<ir::For>(args.loc, ir::ForKind::kVectorized,
                         std::vector<ir::Axis>{{lane, ir::MakeInt(0), ir::MakeInt(count)}},
                         ir::MakeStmt<ir::Store>(args.loc, dst.region.buffer, to, value)));
  return Value::None();
}

// 1/x, as fast as the pass options let a division be.
absl::StatusOr<Value> FastReciprocal(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(Operand x, e.ToOperand(args[0], args.LocOf(0), "the argument"));
  if (!x.e.dtype().is_float()) {
    KILN_ASSIGN_OR_RETURN(x, e.ToType(args[0], kFloat32, args.LocOf(0), "the argument"));
  }
  return e.NewExpr(ir::MakeBinary(ir::BinaryOp::kDiv, ir::MakeFloat(1, x.e.dtype()), x.e),
                   Join(x.info, {}), args.loc);
}

// T.annotate_safe_value({A: value}): elements outside of A read as `value` in the launch.
absl::StatusOr<Value> SafeValue(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.annotate_safe_value"));
  if (!args[0].Is(Type::kDict)) {
    return e.Error(args.LocOf(0),
                   absl::StrCat("T.annotate_safe_value takes a dict, not ", Describe(args[0])),
                   "write T.annotate_safe_value({A: 0})");
  }
  for (const auto& [tensor, value] : args[0].dict().items) {
    if (!tensor.Is(Type::kBuffer) || tensor.buffer().buffer->scope != ir::Scope::kGlobal) {
      return e.Error(args.LocOf(0),
                     absl::StrCat("T.annotate_safe_value of ", Describe(tensor),
                                  ", which has no outside that is read"),
                     "name a tensor: an access of a tile stays inside of it");
    }
    const ir::Buffer& buffer = tensor.buffer().buffer;
    KILN_ASSIGN_OR_RETURN(const Operand other,
                          e.ToType(value, buffer->dtype, args.LocOf(0), "a safe value"));
    e.launch().outside.push_back({buffer, other.e, args.LocOf(0)});
  }
  return Value::None();
}

absl::StatusOr<Value> LeastBlocks(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const int64_t n, e.ToInt(args[0], args.LocOf(0),
                                                 "the blocks of T.annotate_min_blocks_per_sm"));
  if (n >= 1) return Value::None();
  return e.Error(args.LocOf(0), absl::StrCat(n, " blocks on a multiprocessor"), "use at least 1");
}

// The coordinates of element `index` of a row-major shape; of the first dimension too the rest.
absl::StatusOr<Value> Coordinates(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> shape,
                        e.ToItems(args[1], args.LocOf(1), "the shape of T.index_to_coordinates"));
  if (shape.empty()) {
    return e.Error(args.LocOf(1), "T.index_to_coordinates of a shape without dimensions",
                   "give it one extent a dimension");
  }
  std::vector<Value> place;
  Value rest = args[0];
  for (size_t d = shape.size(); d-- > 0;) {
    KILN_ASSIGN_OR_RETURN(const Value at,
                          e.BinaryOp(ast::BinaryOp::kMod, rest, shape[d], args.loc));
    place.push_back(at);
    if (d == 0) break;
    KILN_ASSIGN_OR_RETURN(rest, e.BinaryOp(ast::BinaryOp::kFloorDiv, rest, shape[d], args.loc));
  }
  return e.NewList({place.rbegin(), place.rend()});
}

// Attributes of TVM's: Kiln has none. When a launch may begin before the one in front of it has
// ended: those of a stream are in order, and the compiler says when (nvptx_module.cc).
absl::StatusOr<Value> Nothing(Elaborator& e, const BoundArgs& args) { return Value::None(); }

constexpr Builtin kRows[] = {
    {"T.access_ptr", "base access_type? *", Place},
    {"T.address_of", "buffer_load", Place},
    {"T.ptx_cp_async", "dst_access_ptr src_access_ptr num_elems predicate?", CpAsync},
    {"T.__ldg", "load_or_buf index?", ReadOnlyLoad},
    {"T.ldg32", "src pred?", LoadWord},
    {"T.lds32", "src", LoadWord},
    {"T.stg32", "dst value pred?", StoreWord},
    {"T.sts32", "dst value", StoreWord},
    {"T.fast_rcp", "x", FastReciprocal},
    {"T.annotate_safe_value", "safe_value_map", SafeValue},
    {"T.annotate_min_blocks_per_sm", "n", LeastBlocks},
    {"T.func_attr", "attrs", Nothing},
    {"T.index_to_coordinates", "index shape", Coordinates},
    {"T.pdl_trigger", "", Nothing},
    {"T.pdl_sync", "", Nothing},
};

}  // namespace

BuiltinTable DeviceBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang

// Integers by their bits, floats by their exponents and signs, and sums made of both: written out
// as expressions, so that they are the same on every target.
#include "absl/strings/str_cat.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {
namespace {

using ir::BinaryOp;
using ir::Expr;

// Under a name, where the value is used more than once and a name can be had.
absl::StatusOr<Expr> Named(Elaborator& e, const Expr& value, ExprInfo info, SourceLoc loc) {
  KILN_ASSIGN_OR_RETURN(const Value v, e.NewExpr(value, info, loc));
  KILN_ASSIGN_OR_RETURN(const Value named, e.Keep(v, "item", loc, Elaborator::Use::kRepeated));
  KILN_ASSIGN_OR_RETURN(const Operand x, e.ToOperand(named, loc, "the value"));
  return x.e.dtype() == value.dtype() ? x.e : ir::MakeCast(value.dtype(), x.e);
}

absl::StatusOr<Operand> Whole(Elaborator& e, const BoundArgs& args, size_t i, const char* name) {
  KILN_ASSIGN_OR_RETURN(const Operand x, e.ToOperand(args[i], args.LocOf(i), name));
  if (x.e.dtype().is_int() && !x.e.dtype().is_bool()) return x;
  return e.Error(args.LocOf(i), absl::StrCat(name, " is ", x.e.dtype().ToString()),
                 "pass an integer: T.reinterpret gives the bits of a float");
}

absl::StatusOr<Operand> Real(Elaborator& e, const BoundArgs& args, size_t i, const char* name) {
  KILN_ASSIGN_OR_RETURN(const Operand x, e.ToOperand(args[i], args.LocOf(i), name));
  if (!x.e.dtype().is_float()) return e.ToType(args[i], kFloat32, args.LocOf(i), name);
  return x;
}

Expr Bits(const Expr& x) {
  const DType type = {TypeCode::kUInt, x.dtype().bits};
  return ir::MakeCall(type, ir::Intrinsic::kReinterpret, {x});
}
Expr FromBits(const Expr& x, DType type) {
  return ir::MakeCall(type, ir::Intrinsic::kReinterpret, {x});
}
Expr Or(const Expr& a, const Expr& b) { return ir::MakeBinary(BinaryOp::kBitOr, a, b); }
Expr And(const Expr& a, const Expr& b) { return ir::MakeBinary(BinaryOp::kBitAnd, a, b); }

template <ir::Intrinsic op>
absl::StatusOr<Value> OfBits(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Operand x, Whole(e, args, 0, "the argument"));
  const Expr value = ir::MakeCall(x.e.dtype(), op, {x.e});
  return e.NewExpr(ir::MakeCast(kInt32, value), Join(x.info, {}), args.loc);
}

// One more than the zeros below the first bit that is set; 0 where none is.
absl::StatusOr<Value> FirstSet(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Operand x, Whole(e, args, 0, "the argument of T.__ffs"));
  KILN_ASSIGN_OR_RETURN(const Expr v, Named(e, x.e, x.info, args.loc));
  const DType type = {TypeCode::kUInt, v.dtype().bits};
  const Expr bits = ir::MakeCast(type, v), one = ir::MakeInt(1, type);
  const Expr below = And(ir::MakeUnary(ir::UnaryOp::kBitNot, bits), bits - one);
  const Expr count = ir::MakeCast(kInt32, ir::MakeCall(type, ir::Intrinsic::kPopCount, {below}));
  return e.NewExpr(
      ir::MakeSelect(Equal(bits, ir::MakeInt(0, type)), ir::MakeInt(0), count + ir::MakeInt(1)),
      Join(x.info, x.info), args.loc);
}

// CUDA's __fns: the place of the offset-th set bit from `base` on, upwards for a positive offset
// and downwards for a negative one; of bit `base` itself for 0. All ones where there is none.
absl::StatusOr<Value> NthSet(Elaborator& e, const BoundArgs& args) {
  Expr v[3];
  ExprInfo info;
  static constexpr const char* kNames[] = {"mask of T.__fns", "base of T.__fns",
                                           "offset of T.__fns"};
  for (size_t i = 0; i < 3; ++i) {
    KILN_ASSIGN_OR_RETURN(const Operand x, Whole(e, args, i, kNames[i]));
    KILN_ASSIGN_OR_RETURN(v[i],
                          Named(e, ir::MakeCast(i == 2 ? kInt32 : kUInt32, x.e), x.info, args.loc));
    info = Join(info, x.info);
  }
  const auto u = [](uint32_t n) { return ir::MakeInt(n, kUInt32); };
  const auto count = [](const Expr& x) {
    return ir::MakeCast(kInt32, ir::MakeCall(kUInt32, ir::Intrinsic::kPopCount, {x}));
  };
  const Expr &mask = v[0], base = And(v[1], u(31)), &offset = v[2];
  const Expr from = ir::MakeBinary(BinaryOp::kShl, u(~0u), base);  // base and above
  const Expr below =
      ir::MakeUnary(ir::UnaryOp::kBitNot, ir::MakeBinary(BinaryOp::kShl, from, u(1)));
  // Downwards is upwards from bit 0, to the bit that has as many before it.
  const Expr up = offset > ir::MakeInt(0);
  const Expr zero = Equal(offset, ir::MakeInt(0));
  KILN_ASSIGN_OR_RETURN(
      const Expr among,
      Named(e,
            ir::MakeSelect(zero, And(mask, ir::MakeBinary(BinaryOp::kShl, u(1), base)),
                           ir::MakeSelect(up, And(mask, from), And(mask, below))),
            info, args.loc));
  KILN_ASSIGN_OR_RETURN(
      const Expr rank,  // how many set bits come before it
      Named(e,
            ir::MakeSelect(zero, ir::MakeInt(0),
                           ir::MakeSelect(up, offset - ir::MakeInt(1), count(among) + offset)),
            info, args.loc));
  Expr place = u(0), left = rank;
  for (const int width : {16, 8, 4, 2, 1}) {
    const Expr part = And(ir::MakeBinary(BinaryOp::kShr, among, place), u((1u << width) - 1));
    KILN_ASSIGN_OR_RETURN(const Expr here, Named(e, count(part), info, args.loc));
    const Expr beyond = left >= here;
    KILN_ASSIGN_OR_RETURN(
        place, Named(e, ir::MakeSelect(beyond, place + u(static_cast<uint32_t>(width)), place),
                     info, args.loc));
    KILN_ASSIGN_OR_RETURN(left,
                          Named(e, ir::MakeSelect(beyond, left - here, left), info, args.loc));
  }
  const Expr known = rank >= ir::MakeInt(0) && rank < count(among);
  return e.NewExpr(ir::MakeSelect(known, place, u(~0u)), info, args.loc);
}

// x 2^n, rounded once: float32 and below by way of double; double by steps, of which all but the
// last are exact.
absl::StatusOr<Value> Ldexp(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Operand x, Real(e, args, 0, "the argument of T.ldexp"));
  KILN_ASSIGN_OR_RETURN(const Operand n, Whole(e, args, 1, "the exponent of T.ldexp"));
  const ExprInfo info = Join(x.info, n.info);
  const DType type = x.e.dtype();
  const bool wide = type.bits == 64;
  const int64_t most = wide ? 2200 : 300;
  const Expr size = Max(ir::MakeCast(kInt64, n.e), ir::MakeInt(-most, kInt64));
  KILN_ASSIGN_OR_RETURN(Expr left, Named(e, Min(size, ir::MakeInt(most, kInt64)), info, args.loc));
  const auto power = [](const Expr& k) {
    return FromBits(
        ir::MakeCast(kUInt64, ir::MakeBinary(BinaryOp::kShl, k + ir::MakeInt(1023, kInt64),
                                             ir::MakeInt(52, kInt64))),
        kFloat64);
  };
  Expr value = ir::MakeCast(kFloat64, x.e);
  for (int step = 0; wide && step < 2; ++step) {
    // Down by less than the exponents' range, so that 53 bits are left for the last step.
    const Expr part = Max(Min(left, ir::MakeInt(1023, kInt64)), ir::MakeInt(-969, kInt64));
    const Expr far = left < ir::MakeInt(-1022, kInt64) || left > ir::MakeInt(1023, kInt64);
    KILN_ASSIGN_OR_RETURN(
        const Expr now,
        Named(e, ir::MakeSelect(far, part, ir::MakeInt(0, kInt64)), info, args.loc));
    value = value * power(now);
    left = left - now;
  }
  if (wide) left = Max(Min(left, ir::MakeInt(1023, kInt64)), ir::MakeInt(-1022, kInt64));
  return e.NewExpr(ir::MakeCast(type, value * power(left)), info, args.loc);
}

absl::StatusOr<Value> CopySign(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(auto ab, e.Match(args[0], args[1], args.loc));
  const DType type = ab.first.e.dtype().is_float() ? ab.first.e.dtype() : kFloat32;
  if (type.bits == 8) {
    return e.Error(args.loc, absl::StrCat("T.copysign of ", type.ToString()), "cast to float16");
  }
  const DType whole = {TypeCode::kUInt, type.bits};
  const int64_t sign = static_cast<int64_t>(uint64_t{1} << (type.bits - 1));
  const Expr magnitude = And(Bits(ir::MakeCast(type, ab.first.e)),
                             ir::MakeUnary(ir::UnaryOp::kBitNot, ir::MakeInt(sign, whole)));
  const Expr top = And(Bits(ir::MakeCast(type, ab.second.e)), ir::MakeInt(sign, whole));
  return e.NewExpr(FromBits(Or(magnitude, top), type), Join(ab.first.info, ab.second.info),
                   args.loc);
}

// The float that follows x on the way to y.
absl::StatusOr<Value> NextAfter(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(auto ab, e.Match(args[0], args[1], args.loc));
  const DType type = ab.first.e.dtype().is_float() ? ab.first.e.dtype() : kFloat32;
  if (type.bits < 32) {
    return e.Error(args.loc, absl::StrCat("T.nextafter of ", type.ToString()),
                   "use float32 or float64");
  }
  const ExprInfo info = Join(ab.first.info, ab.second.info);
  KILN_ASSIGN_OR_RETURN(const Expr x, Named(e, ir::MakeCast(type, ab.first.e), info, args.loc));
  KILN_ASSIGN_OR_RETURN(const Expr y, Named(e, ir::MakeCast(type, ab.second.e), info, args.loc));
  const DType whole = {TypeCode::kUInt, type.bits};
  const Expr one = ir::MakeInt(1, whole), zero = ir::MakeFloat(0, type);
  const int64_t sign = static_cast<int64_t>(uint64_t{1} << (type.bits - 1));
  const Expr grows = Equal(x<y, x> zero);
  const Expr next = ir::MakeSelect(grows, Bits(x) + one, Bits(x) - one);
  const Expr least = ir::MakeSelect(y < zero, ir::MakeInt(sign | 1, whole), one);
  const Expr moved = FromBits(ir::MakeSelect(Equal(x, zero), least, next), type);
  const Expr no_number = ir::MakeCall(kBool, ir::Intrinsic::kIsNan, {x}) ||
                         ir::MakeCall(kBool, ir::Intrinsic::kIsNan, {y});
  return e.NewExpr(ir::MakeSelect(no_number, x + y, ir::MakeSelect(Equal(x, y), y, moved)), info,
                   args.loc);
}

// The root of x^2 + y^2 without overflow on the way: of float32 and below by way of double, of
// double as the larger times the root of 1 and their quotient's square (2 ulp).
absl::StatusOr<Value> Hypot(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(auto ab, e.Match(args[0], args[1], args.loc));
  const DType type = ab.first.e.dtype().is_float() ? ab.first.e.dtype() : kFloat32;
  const ExprInfo info = Join(ab.first.info, ab.second.info);
  const auto magnitude = [&](const Expr& x) {
    return Named(e, ir::MakeCall(kFloat64, ir::Intrinsic::kAbs, {ir::MakeCast(kFloat64, x)}), info,
                 args.loc);
  };
  KILN_ASSIGN_OR_RETURN(const Expr x, magnitude(ir::MakeCast(type, ab.first.e)));
  KILN_ASSIGN_OR_RETURN(const Expr y, magnitude(ir::MakeCast(type, ab.second.e)));
  const auto root = [](const Expr& v) { return ir::MakeCall(kFloat64, ir::Intrinsic::kSqrt, {v}); };
  Expr value = root(x * x + y * y);
  if (type.bits == 64) {
    const Expr zero = ir::MakeFloat(0, kFloat64), one = ir::MakeFloat(1, kFloat64);
    KILN_ASSIGN_OR_RETURN(const Expr more, Named(e, Max(x, y), info, args.loc));
    KILN_ASSIGN_OR_RETURN(
        const Expr ratio,
        Named(e, ir::MakeBinary(BinaryOp::kDiv, Min(x, y), ir::MakeSelect(more > zero, more, one)),
              info, args.loc));
    value = more * root(one + ratio * ratio);
  }
  const auto is = [](ir::Intrinsic op, const Expr& v) { return ir::MakeCall(kBool, op, {v}); };
  const Expr infinite = is(ir::Intrinsic::kIsInf, x) || is(ir::Intrinsic::kIsInf, y);
  const Expr no_number = is(ir::Intrinsic::kIsNan, x) || is(ir::Intrinsic::kIsNan, y);
  value = ir::MakeSelect(no_number, x + y, value);
  value = ir::MakeSelect(infinite, ir::MakeFloat(HUGE_VAL, kFloat64), value);
  return e.NewExpr(ir::MakeCast(type, value), info, args.loc);
}

// C[0] += A[0] B[0] + ... + A[3] B[3], from where the regions begin.
absl::StatusOr<Value> Dp4a(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.dp4a"));
  Tile tiles[3];
  static constexpr DType kTypes[] = {kInt8, kInt8, kInt32};
  for (size_t i = 0; i < 3; ++i) {
    const std::string what = absl::StrCat("operand ", i, " of T.dp4a");
    KILN_ASSIGN_OR_RETURN(tiles[i], e.ToTile(args[i], args.LocOf(i), what));
    const DType type = tiles[i].region.buffer->dtype;
    if (type == kTypes[i]) continue;
    return e.Error(args.LocOf(i), absl::StrCat(what, " is ", type.ToString()),
                   "multiply int8 by int8 into int32");
  }
  const auto at = [](const Tile& tile, int64_t lane) {
    std::vector<Expr> indices;
    for (const ir::Range& range : tile.region.ranges) indices.push_back(range.min);
    indices.back() = indices.back() + ir::MakeInt(lane);
    return indices;
  };
  Expr sum = ir::MakeLoad(tiles[2].region.buffer, at(tiles[2], 0));
  for (int64_t lane = 0; lane < 4; ++lane) {
    const auto factor = [&](int i) {
      return ir::MakeCast(kInt32, ir::MakeLoad(tiles[i].region.buffer, at(tiles[i], lane)));
    };
    sum = sum + factor(0) * factor(1);
  }
  KILN_RETURN_IF_ERROR(
      e.EmitNew<ir::Store>(args.loc, tiles[2].region.buffer, at(tiles[2], 0), sum));
  return Value::None();
}

// Whether any or all elements of a region are other than zero: a loop of the block.
template <bool all>
absl::StatusOr<Value> OfElements(Elaborator& e, const BoundArgs& args) {
  const char* name = all ? "T.all_of" : "T.any_of";
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, name));
  KILN_ASSIGN_OR_RETURN(const Tile tile,
                        e.ToTile(args[0], args.LocOf(0), absl::StrCat("the tile of ", name)));
  if (tile.is_base) {
    return e.Error(args.LocOf(0), absl::StrCat(name, " of a start without extents"),
                   "pass a whole tile or a region x[a:b]");
  }
  KILN_ASSIGN_OR_RETURN(
      const ir::Buffer result,
      e.NewNamedBuffer(kBool, {ir::MakeInt(1)}, ir::Scope::kVar, args.loc, {}, "found"));
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Alloc>(args.loc, result, ir::MakeBool(all)));
  std::vector<ir::Axis> axes;
  std::vector<Expr> at;
  for (const ir::Range& range : tile.region.ranges) {
    const DType type = range.extent.dtype();
    axes.push_back({ir::MakeVar("i", type), ir::MakeInt(0, type), range.extent});
    at.push_back(range.min + axes.back().var);
  }
  const Expr set = ir::MakeCast(kBool, ir::MakeLoad(tile.region.buffer, at));
  const Expr old = ir::MakeLoad(result, {ir::MakeInt(0)});
  ir::Stmt loop = ir::MakeStmt<ir::Store>(args.loc, result, std::vector<Expr>{ir::MakeInt(0)},
                                          all ? old && set : old || set);
  for (size_t d = axes.size(); d-- > 0;) {
    loop =
        ir::MakeStmt<ir::For>(args.loc, ir::ForKind::kSerial, std::vector<ir::Axis>{axes[d]}, loop);
  }
  KILN_RETURN_IF_ERROR(e.Emit(args.loc, loop));
  ExprInfo info;
  info.flags = ExprInfo::kRuntime | ExprInfo::kLoads;
  KILN_ASSIGN_OR_RETURN(const Value value, e.NewExpr(old, info, args.loc));
  return e.Freeze(value, "found", args.loc);
}

constexpr Builtin kRows[] = {
    {"T.popcount", "x", OfBits<ir::Intrinsic::kPopCount>},
    {"T.clz", "x", OfBits<ir::Intrinsic::kClz>},
    {"T.__ffs", "value", FirstSet},
    {"T.__fns", "mask base offset", NthSet},
    {"T.ldexp", "x1 x2", Ldexp},
    {"T.copysign", "x1 x2", CopySign},
    {"T.nextafter", "x1 x2", NextAfter},
    {"T.hypot", "x1 x2", Hypot},
    {"T.dp4a", "A B C", Dp4a},
    {"T.any_of", "buffer", OfElements<false>},
    {"T.all_of", "buffer", OfElements<true>},
};

}  // namespace

BuiltinTable BitBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang

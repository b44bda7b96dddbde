// Scalar functions of T: elementwise math, selection, casts, integer helpers.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {
namespace {

// A number or expression as a float operand: integers become float32.
absl::StatusOr<Operand> ToFloat(Elaborator& e, const BoundArgs& args, size_t i) {
  KILN_ASSIGN_OR_RETURN(Operand x, e.ToOperand(args[i], args.LocOf(i), "the argument"));
  if (x.e.dtype().is_float()) return x;
  return e.ToType(args[i], kFloat32, args.LocOf(i), "the argument");
}

absl::StatusOr<Value> CallIntrinsic(Elaborator& e, const BoundArgs& args, ir::Intrinsic op,
                                    const Operand& x) {
  return e.NewExpr(ir::MakeCall(x.e.dtype(), op, {x.e}), Join(x.info, {}), args.loc);
}

template <ir::Intrinsic op>
absl::StatusOr<Value> Unary(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Operand x, ToFloat(e, args, 0));
  return CallIntrinsic(e, args, op, x);
}

// Rounding functions leave integers alone.
template <ir::Intrinsic op>
absl::StatusOr<Value> Round(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Operand x, e.ToOperand(args[0], args.LocOf(0), "the argument"));
  if (!x.e.dtype().is_float()) return e.NewExpr(x, args.loc);
  return CallIntrinsic(e, args, op, x);
}

// T.round(x), T.round(x, "ties-away-from-zero").
absl::StatusOr<Value> RoundTies(Elaborator& e, const BoundArgs& args) {
  if (!args.Given(1)) return Round<ir::Intrinsic::kRound>(e, args);
  KILN_ASSIGN_OR_RETURN(const std::string mode, e.ToStr(args[1], args.LocOf(1), "rounding_mode"));
  if (mode == "ties-to-even") return Round<ir::Intrinsic::kRound>(e, args);
  if (mode != "ties-away-from-zero") {
    return e.Error(args.LocOf(1), absl::StrCat("T.round has no rounding_mode '", mode, "'"),
                   "use 'ties-to-even' or 'ties-away-from-zero'");
  }
  KILN_ASSIGN_OR_RETURN(const Operand x, e.ToOperand(args[0], args.LocOf(0), "the argument"));
  const DType type = x.e.dtype();
  if (!type.is_float()) return e.NewExpr(x, args.loc);
  // x less its whole part is exact, so that a half is told from what is next to it.
  const ir::Expr whole = ir::MakeCall(type, ir::Intrinsic::kTrunc, {x.e});
  const ir::Expr rest = ir::MakeCall(type, ir::Intrinsic::kAbs, {x.e - whole});
  const ir::Expr below = x.e < ir::MakeConst(0.0, type);
  const ir::Expr away =
      whole + ir::MakeSelect(below, ir::MakeConst(-1.0, type), ir::MakeConst(1.0, type));
  return e.NewExpr(ir::MakeSelect(rest < ir::MakeConst(0.5, type), whole, away), Join(x.info, {}),
                   args.loc);
}

template <ir::Intrinsic op>
absl::StatusOr<Value> Classify(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Operand x, ToFloat(e, args, 0));
  return e.NewExpr(ir::MakeCall(kBool, op, {x.e}), Join(x.info, {}), args.loc);
}

absl::StatusOr<Value> Abs(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Operand x, e.ToOperand(args[0], args.LocOf(0), "the argument"));
  if (x.e.dtype().is_float()) return CallIntrinsic(e, args, ir::Intrinsic::kAbs, x);
  KILN_ASSIGN_OR_RETURN(const Value value, e.NewExpr(x, args.loc));
  KILN_ASSIGN_OR_RETURN(const Value minus, e.UnaryOp(ast::UnaryOp::kNeg, value, args.loc));
  return e.MinMax(true, value, minus, args.loc);
}

absl::StatusOr<Value> Log10(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Operand x, ToFloat(e, args, 0));
  const DType type = x.e.dtype();
  const ir::Expr log = ir::MakeCall(type, ir::Intrinsic::kLog2, {x.e});
  return e.NewExpr(log * ir::MakeFloat(0.30102999566398119521, type), Join(Join(x.info, {}), {}),
                   args.loc);
}

absl::StatusOr<Value> Tan(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Operand x, ToFloat(e, args, 0));
  const DType type = x.e.dtype();
  const ir::Expr sin = ir::MakeCall(type, ir::Intrinsic::kSin, {x.e});
  const ir::Expr cos = ir::MakeCall(type, ir::Intrinsic::kCos, {x.e});
  return e.NewExpr(ir::MakeBinary(ir::BinaryOp::kDiv, sin, cos), Join(Join(x.info, x.info), {}),
                   args.loc);
}

absl::StatusOr<Value> Pow(Elaborator& e, const BoundArgs& args) {
  return e.BinaryOp(ast::BinaryOp::kPow, args[0], args[1], args.loc);
}

// Two floats of their common type; integers become float32.
template <ir::Intrinsic op>
absl::StatusOr<Value> Binary(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(auto ab, e.Match(args[0], args[1], args.loc));
  DType type = ab.first.e.dtype();
  if (!type.is_float()) type = kFloat32;
  return e.NewExpr(
      ir::MakeCall(type, op, {ir::MakeCast(type, ab.first.e), ir::MakeCast(type, ab.second.e)}),
      Join(ab.first.info, ab.second.info), args.loc);
}

absl::StatusOr<Value> Fma(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(auto ab, e.Match(args[0], args[1], args.loc));
  KILN_ASSIGN_OR_RETURN(const Operand c, e.ToOperand(args[2], args.LocOf(2), "the addend"));
  DType type = ir::CommonType(ab.first.e.dtype(), c.e.dtype());
  if (!type.is_float()) type = kFloat32;
  return e.NewExpr(ir::MakeCall(type, ir::Intrinsic::kFma,
                                {ir::MakeCast(type, ab.first.e), ir::MakeCast(type, ab.second.e),
                                 ir::MakeCast(type, c.e)}),
                   Join(Join(ab.first.info, ab.second.info), c.info), args.loc);
}

template <bool is_max>
absl::StatusOr<Value> MinOrMax(Elaborator& e, const BoundArgs& args) {
  Value result = args[0];
  KILN_ASSIGN_OR_RETURN(result, e.MinMax(is_max, result, args[1], args.loc));
  for (const Value& more : args.rest) {
    KILN_ASSIGN_OR_RETURN(result, e.MinMax(is_max, result, more, args.loc));
  }
  return result;
}

absl::StatusOr<Value> Clamp(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Value low, e.MinMax(true, args[0], args[1], args.loc));
  return e.MinMax(false, low, args[2], args.loc);
}

template <ast::BinaryOp op>
absl::StatusOr<Value> Operator(Elaborator& e, const BoundArgs& args) {
  return e.BinaryOp(op, args[0], args[1], args.loc);
}

absl::StatusOr<Value> Invert(Elaborator& e, const BoundArgs& args) {
  return e.UnaryOp(ast::UnaryOp::kInvert, args[0], args.loc);
}

absl::StatusOr<Value> CeilDivision(Elaborator& e, const BoundArgs& args) {
  return e.CeilDiv(args[0], args[1], args.loc);
}

absl::StatusOr<Value> AlignUp(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Value count, e.CeilDiv(args[0], args[1], args.loc));
  return e.BinaryOp(ast::BinaryOp::kMul, count, args[1], args.loc);
}

absl::StatusOr<Value> IfThenElse(Elaborator& e, const BoundArgs& args) {
  for (size_t i = 1; i < 3; ++i) {
    KILN_RETURN_IF_ERROR(e.ToOperand(args[i], args.LocOf(i), "a value of the selection").status());
  }
  return e.SelectValue(args[0], args[1], args[2], args.loc);
}

template <bool all>
absl::StatusOr<Value> Logical(Elaborator& e, const BoundArgs& args) {
  Value result = Value::Bool(all);
  std::vector<Value> items = args.rest;
  for (size_t i = 0; i < items.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(const Condition c, e.Decide(items[i], args.rest_locs[i]));
    Value one = Value::Bool(c.value);
    if (!c.known) {
      KILN_ASSIGN_OR_RETURN(one, e.NewExpr(c.expr, args.loc));
    }
    KILN_ASSIGN_OR_RETURN(result, e.BinaryOp(all ? ast::BinaryOp::kBitAnd : ast::BinaryOp::kBitOr,
                                             result, one, args.loc));
  }
  return result;
}

absl::StatusOr<Value> Not(Elaborator& e, const BoundArgs& args) {
  return e.UnaryOp(ast::UnaryOp::kNot, args[0], args.loc);
}

absl::StatusOr<Value> CastTo(Elaborator& e, const Value& value, SourceLoc value_loc, DType type,
                             SourceLoc loc) {
  Operand x;
  if (value.Is(Type::kFloat) && !type.is_float()) {
    KILN_ASSIGN_OR_RETURN(x, e.ToOperand(value, value_loc, "the value"));
    return e.NewExpr(ir::MakeCast(type, x.e), {}, loc);
  }
  KILN_ASSIGN_OR_RETURN(x, e.ToType(value, type, value_loc, "the value of a cast"));
  return e.NewExpr(x, loc);
}

// round, sat and rbits of T.cast: what a conversion does in any case is accepted.
absl::Status CheckRounding(Elaborator& e, const BoundArgs& args, DType type) {
  std::string mode;
  if (args.Given(2)) {
    KILN_ASSIGN_OR_RETURN(mode, e.ToStr(args[2], args.LocOf(2), "round"));
  }
  static constexpr absl::string_view kModes[] = {"", "rn", "rz", "rp", "rm", "rs"};
  if (std::find(std::begin(kModes), std::end(kModes), mode) == std::end(kModes)) {
    return e.Error(args.LocOf(2), absl::StrCat("T.cast has no rounding '", mode, "'"),
                   "use 'rn', to nearest, or leave it out");
  }
  const bool random = mode == "rs";
  if (random != args.Given(4)) {
    return e.Error(args.Given(4) ? args.LocOf(4) : args.LocOf(2),
                   random ? "round='rs' rounds by random bits, and needs rbits"
                          : "rbits are for round='rs' alone",
                   "leave out both: conversions round to nearest");
  }
  const bool same = !type.is_float() ? mode == "rz" : mode == "rn";
  if (!mode.empty() && !same) {
    return e.Unimplemented(
        args.LocOf(2), absl::StrCat("T.cast(..., \"", type.ToString(), "\", round='", mode, "')"),
        type.is_float() ? "leave it out: conversions to floats round to nearest, ties to even"
                        : "round first, with T.floor, T.ceil or T.round: conversions to integers "
                          "cut off");
  }
  if (!args.Given(3)) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(const bool saturate, e.ToBool(args[3], args.LocOf(3), "sat"));
  const bool narrow = type.is_float() && type.bits <= 8;
  if (narrow && !saturate) {
    return e.Unimplemented(args.LocOf(3),
                           absl::StrCat("T.cast to ", type.ToString(), " with sat=False"),
                           "leave it out: what is too large becomes the largest number");
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Cast(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const DType type, e.ToDType(args[1], args.LocOf(1)));
  KILN_RETURN_IF_ERROR(CheckRounding(e, args, type));
  return CastTo(e, args[0], args.LocOf(0), type, args.loc);
}

absl::StatusOr<Value> CastTypeFirst(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const DType type, e.ToDType(args[0], args.LocOf(0)));
  return CastTo(e, args[1], args.LocOf(1), type, args.loc);
}

absl::StatusOr<Value> Reinterpret(Elaborator& e, const BoundArgs& args) {
  // Both argument orders are in use: (value, dtype) and (dtype, value).
  const bool type_first = args[0].Is(Type::kDType) || args[0].Is(Type::kStr);
  const size_t t = type_first ? 0 : 1, v = type_first ? 1 : 0;
  KILN_ASSIGN_OR_RETURN(const DType type, e.ToDType(args[t], args.LocOf(t)));
  KILN_ASSIGN_OR_RETURN(Operand x, e.ToOperand(args[v], args.LocOf(v), "the value"));
  if (type.code == TypeCode::kHandle && ir::IsConst(x.e, 0)) return Value::None();
  // Four bits are also the low half of an integer of eight.
  const DType from = x.e.dtype();
  const bool same_bits = from.bits == type.bits ||
                         (from.is_packed() && type.is_int() && type.bits == 8) ||
                         (type.is_packed() && from.is_int() && from.bits == 8);
  if (from.is_bool() || type.is_bool() || !same_bits || type.code == TypeCode::kHandle ||
      x.e.dtype().code == TypeCode::kHandle) {
    return e.Error(
        args.loc,
        absl::StrCat("T.reinterpret from ", x.e.dtype().ToString(), " to ", type.ToString()),
        "both types need the same number of bits");
  }
  return e.NewExpr(ir::MakeCall(type, ir::Intrinsic::kReinterpret, {x.e}), Join(x.info, {}),
                   args.loc);
}

absl::StatusOr<Value> Infinity(Elaborator& e, const BoundArgs& args) {
  DType type = kFloat32;
  if (args.Given(0)) {
    KILN_ASSIGN_OR_RETURN(type, e.ToDType(args[0], args.LocOf(0)));
  }
  if (!type.is_float() || (type.bits <= 8 && type.code != TypeCode::kE5M2)) {
    return e.Error(args.LocOf(0), absl::StrCat(type.ToString(), " has no infinity"),
                   "use T.max_value(dtype)");
  }
  return e.NewExpr(ir::MakeFloat(INFINITY, type), {}, args.loc);
}

template <bool is_max>
absl::StatusOr<Value> Limit(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const DType type, e.ToDType(args[0], args.LocOf(0)));
  if (type.is_float()) {
    double top = 65504;
    if (type.bits == 64)
      top = 1.7976931348623157e308;
    else if (type.bits == 32)
      top = 3.4028234663852886e38;
    else if (type.code == TypeCode::kBFloat)
      top = 0x1.FEp127;
    else if (type.bits <= 8)  // they saturate
      top = RoundToType(INFINITY, type);
    const double least = type.code == TypeCode::kE8M0 ? 0 : -top;  // which has no sign
    return e.NewExpr(ir::MakeFloat(is_max ? top : least, type), {}, args.loc);
  }
  if (type.code == TypeCode::kHandle) {
    return e.Error(args.loc, "a handle has no limits", "pass a number type");
  }
  if (type.is_bool()) return Value::Bool(is_max);
  const int value_bits = type.bits - (type.is_uint() ? 0 : 1);
  const uint64_t top = value_bits == 64 ? ~uint64_t{0} : (uint64_t{1} << value_bits) - 1;
  const int64_t low = type.is_uint() ? 0 : -static_cast<int64_t>(top) - 1;
  return e.NewExpr(ir::MakeInt(is_max ? static_cast<int64_t>(top) : low, type), {}, args.loc);
}

constexpr Builtin kRows[] = {
    {"T.exp", "x", Unary<ir::Intrinsic::kExp>},
    {"T.exp2", "x", Unary<ir::Intrinsic::kExp2>},
    {"T.exp10", "x", Unary<ir::Intrinsic::kExp10>},
    {"T.log", "x", Unary<ir::Intrinsic::kLog>},
    {"T.log2", "x", Unary<ir::Intrinsic::kLog2>},
    {"T.log10", "x", Log10},
    {"T.sqrt", "x", Unary<ir::Intrinsic::kSqrt>},
    {"T.rsqrt", "x", Unary<ir::Intrinsic::kRsqrt>},
    {"T.tanh", "x", Unary<ir::Intrinsic::kTanh>},
    {"T.sigmoid", "x", Unary<ir::Intrinsic::kSigmoid>},
    {"T.sin", "x", Unary<ir::Intrinsic::kSin>},
    {"T.cos", "x", Unary<ir::Intrinsic::kCos>},
    {"T.tan", "x", Tan},
    {"T.erf", "x", Unary<ir::Intrinsic::kErf>},
    {"T.log1p", "x", Unary<ir::Intrinsic::kLog1p>},
    {"T.sinh", "x", Unary<ir::Intrinsic::kSinh>},
    {"T.cosh", "x", Unary<ir::Intrinsic::kCosh>},
    {"T.asinh", "x", Unary<ir::Intrinsic::kAsinh>},
    {"T.acosh", "x", Unary<ir::Intrinsic::kAcosh>},
    {"T.atanh", "x", Unary<ir::Intrinsic::kAtanh>},
    {"T.asin", "x", Unary<ir::Intrinsic::kAsin>},
    {"T.acos", "x", Unary<ir::Intrinsic::kAcos>},
    {"T.atan", "x", Unary<ir::Intrinsic::kAtan>},
    {"T.atan2", "x1 x2", Binary<ir::Intrinsic::kAtan2>},
    {"T.fmod", "x y", Binary<ir::Intrinsic::kFmod>},
    {"T.abs", "x", Abs},
    {"T.fabs", "x", Abs},
    {"T.floor", "x", Round<ir::Intrinsic::kFloor>},
    {"T.ceil", "x", Round<ir::Intrinsic::kCeil>},
    {"T.round", "x rounding_mode?", RoundTies},
    {"T.nearbyint", "x", Round<ir::Intrinsic::kRound>},
    {"T.trunc", "x", Round<ir::Intrinsic::kTrunc>},
    {"T.isnan", "x", Classify<ir::Intrinsic::kIsNan>},
    {"T.isinf", "x", Classify<ir::Intrinsic::kIsInf>},
    {"T.isfinite", "x", Classify<ir::Intrinsic::kIsFinite>},
    // The names of the fast CUDA forms; the pass option tl.enable_fast_math decides about speed.
    {"T.__exp", "x", Unary<ir::Intrinsic::kExp>},
    {"T.__exp10", "x", Unary<ir::Intrinsic::kExp10>},
    {"T.__log", "x", Unary<ir::Intrinsic::kLog>},
    {"T.__log2", "x", Unary<ir::Intrinsic::kLog2>},
    {"T.__log10", "x", Log10},
    {"T.__sin", "x", Unary<ir::Intrinsic::kSin>},
    {"T.__cos", "x", Unary<ir::Intrinsic::kCos>},
    {"T.__tan", "x", Tan},
    {"T.pow", "x y", Pow},
    {"T.fma", "a b c", Fma},
    {"T.max", "a b *", MinOrMax<true>},
    {"T.min", "a b *", MinOrMax<false>},
    {"T.clamp", "x min_val max_val", Clamp},
    {"T.ceildiv", "lhs rhs", CeilDivision},
    {"T.align_up", "x multiple", AlignUp},
    {"T.floordiv", "a b", Operator<ast::BinaryOp::kFloorDiv>},
    {"T.floormod", "a b", Operator<ast::BinaryOp::kMod>},
    {"T.shift_left", "x y dtype?", Operator<ast::BinaryOp::kShl>},
    {"T.shift_right", "x y dtype?", Operator<ast::BinaryOp::kShr>},
    {"T.bitwise_and", "x y", Operator<ast::BinaryOp::kBitAnd>},
    {"T.bitwise_or", "x y", Operator<ast::BinaryOp::kBitOr>},
    {"T.bitwise_xor", "x y", Operator<ast::BinaryOp::kBitXor>},
    {"T.bitwise_not", "x", Invert},
    {"T.if_then_else", "condition true_value false_value dtype?", IfThenElse, false, 0, true},
    {"T.Select", "condition true_value false_value", IfThenElse, false, 0, true},
    {"T.And", "*", Logical<true>},
    {"T.Or", "*", Logical<false>},
    {"T.Not", "x", Not},
    {"T.cast", "value dtype round? sat? rbits? span?", Cast},
    {"T.Cast", "dtype value span?", CastTypeFirst},
    {"T.reinterpret", "value dtype", Reinterpret},
    {"T.infinity", "dtype?", Infinity},
    {"T.max_value", "dtype", Limit<true>},
    {"T.min_value", "dtype", Limit<false>},
};

}  // namespace

BuiltinTable MathBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang

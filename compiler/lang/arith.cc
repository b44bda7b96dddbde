// Operators: exact 64-bit Python arithmetic on compile-time numbers, IR expressions as soon as one
// side is a run-time value.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/lang/classes.h"
#include "compiler/lang/format_value.h"
#include "compiler/lang/lazy.h"
#include "compiler/lang/raised.h"
#include "compiler/lang/region.h"
#include "compiler/lang/vector.h"

namespace kiln::lang {
namespace {

using ast::BinaryOp;
using ast::CompareOp;

std::optional<int64_t> IntPow(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if (exponent & 1) {
      if (__builtin_mul_overflow(result, base, &result)) return std::nullopt;
    }
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return std::nullopt;
  }
  return result;
}

int64_t FloorDivInt(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

// The remainder has the divisor's sign, a zero too.
double FloorModFloat(double a, double b) {
  const double r = std::fmod(a, b);
  if (r == 0) return std::copysign(0.0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

// The quotient that goes with FloorModFloat: a / b alone may round up to the next integer.
double FloorDivFloat(double a, double b) {
  const double r = std::fmod(a, b);
  double quotient = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

bool IsBitOp(BinaryOp op) {
  return op == BinaryOp::kBitAnd || op == BinaryOp::kBitOr || op == BinaryOp::kBitXor;
}

bool IsShift(BinaryOp op) { return op == BinaryOp::kShl || op == BinaryOp::kShr; }

ir::BinaryOp ToIr(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return ir::BinaryOp::kAdd;
    case BinaryOp::kSub:
      return ir::BinaryOp::kSub;
    case BinaryOp::kMul:
      return ir::BinaryOp::kMul;
    case BinaryOp::kDiv:
      return ir::BinaryOp::kDiv;
    case BinaryOp::kFloorDiv:
      return ir::BinaryOp::kFloorDiv;
    case BinaryOp::kMod:
      return ir::BinaryOp::kFloorMod;
    case BinaryOp::kShl:
      return ir::BinaryOp::kShl;
    case BinaryOp::kShr:
      return ir::BinaryOp::kShr;
    case BinaryOp::kBitAnd:
      return ir::BinaryOp::kBitAnd;
    case BinaryOp::kBitOr:
      return ir::BinaryOp::kBitOr;
    default:
      return ir::BinaryOp::kBitXor;
  }
}

ir::BinaryOp ToIr(CompareOp op) {
  switch (op) {
    case CompareOp::kEq:
      return ir::BinaryOp::kEq;
    case CompareOp::kNe:
      return ir::BinaryOp::kNe;
    case CompareOp::kLt:
      return ir::BinaryOp::kLt;
    case CompareOp::kLe:
      return ir::BinaryOp::kLe;
    case CompareOp::kGt:
      return ir::BinaryOp::kGt;
    default:
      return ir::BinaryOp::kGe;
  }
}

template <typename T>
bool Ordered(CompareOp op, const T& a, const T& b) {
  switch (op) {
    case CompareOp::kLt:
      return a < b;
    case CompareOp::kLe:
      return a <= b;
    case CompareOp::kGt:
      return a > b;
    default:
      return a >= b;
  }
}

// Arithmetic on the values themselves: the parts of BinaryOp that need no Elaborator state.
class NumberOps {
 public:
  NumberOps(Elaborator* e, SourceLoc loc) : e_(e), loc_(loc) {}

  absl::StatusOr<Value> Apply(BinaryOp op, const Value& a, const Value& b) {
    if (!a.Is(Type::kFloat) && !b.Is(Type::kFloat)) {
      if (a.Is(Type::kBool) && b.Is(Type::kBool) && IsBitOp(op)) {
        const bool x = a.bool_value(), y = b.bool_value();
        return Value::Bool(op == BinaryOp::kBitAnd  ? x && y
                           : op == BinaryOp::kBitOr ? x || y
                                                    : x != y);
      }
      return Ints(op, a.int_value(), b.int_value());
    }
    return Floats(op, a.as_double(), b.as_double());
  }

 private:
  absl::Status Overflow(BinaryOp op, int64_t x, int64_t y) {
    return e_->Error(loc_, absl::StrCat(x, " ", ast::Spelling(op), " ", y, " does not fit 64 bits"),
                     "kernel integers are 64-bit; use floats or smaller numbers");
  }
  absl::Status ByZero() {
    return Raised(e_->Error(loc_, "division by zero", "check the divisor's value"),
                  "ZeroDivisionError");
  }

  absl::StatusOr<Value> Ints(BinaryOp op, int64_t x, int64_t y) {
    int64_t r = 0;
    switch (op) {
      case BinaryOp::kAdd:
        if (__builtin_add_overflow(x, y, &r)) return Overflow(op, x, y);
        return Value::Int(r);
      case BinaryOp::kSub:
        if (__builtin_sub_overflow(x, y, &r)) return Overflow(op, x, y);
        return Value::Int(r);
      case BinaryOp::kMul:
        if (__builtin_mul_overflow(x, y, &r)) return Overflow(op, x, y);
        return Value::Int(r);
      case BinaryOp::kDiv:
        if (y == 0) return ByZero();
        return Value::Float(static_cast<double>(x) / static_cast<double>(y));
      case BinaryOp::kFloorDiv:
      case BinaryOp::kMod:
        if (y == 0) return ByZero();
        if (y == -1) {
          if (op == BinaryOp::kMod) return Value::Int(0);
          if (x == INT64_MIN) return Overflow(op, x, y);
          return Value::Int(-x);
        }
        r = FloorDivInt(x, y);
        return Value::Int(op == BinaryOp::kFloorDiv ? r : x - r * y);
      case BinaryOp::kPow: {
        if (y < 0) {
          if (x == 0) return ByZero();
          return Value::Float(std::pow(static_cast<double>(x), static_cast<double>(y)));
        }
        const auto power = IntPow(x, y);
        if (!power) return Overflow(op, x, y);
        return Value::Int(*power);
      }
      case BinaryOp::kShl:
      case BinaryOp::kShr:
        return Shift(op, x, y);
      case BinaryOp::kBitAnd:
        return Value::Int(x & y);
      case BinaryOp::kBitOr:
        return Value::Int(x | y);
      case BinaryOp::kBitXor:
        return Value::Int(x ^ y);
      case BinaryOp::kMatMul:
        break;
    }
    return e_->Error(loc_, "numbers have no operator '@'", "use T.gemm for a matrix product");
  }

  absl::StatusOr<Value> Shift(BinaryOp op, int64_t x, int64_t y) {
    if (y < 0) return e_->Error(loc_, "a negative shift count", "shift the other way");
    if (op == BinaryOp::kShr) return Value::Int(y >= 63 ? (x < 0 ? -1 : 0) : x >> y);
    if (x == 0) return Value::Int(0);
    if (y >= 63 || (x << y) >> y != x) return Overflow(op, x, y);
    return Value::Int(x << y);
  }

  absl::StatusOr<Value> Floats(BinaryOp op, double x, double y) {
    switch (op) {
      case BinaryOp::kAdd:
        return Value::Float(x + y);
      case BinaryOp::kSub:
        return Value::Float(x - y);
      case BinaryOp::kMul:
        return Value::Float(x * y);
      case BinaryOp::kDiv:
        if (y == 0) return ByZero();
        return Value::Float(x / y);
      case BinaryOp::kFloorDiv:
        if (y == 0) return ByZero();
        return Value::Float(FloorDivFloat(x, y));
      case BinaryOp::kMod:
        if (y == 0) return ByZero();
        return Value::Float(FloorModFloat(x, y));
      case BinaryOp::kPow:
        if (x == 0 && y < 0) return ByZero();
        if (x < 0 && y != std::floor(y)) {
          return e_->Error(loc_, "a negative number to a fractional power is complex",
                           "check the base's sign");
        }
        return Value::Float(std::pow(x, y));
      default:
        break;
    }
    return e_->Error(loc_, absl::StrCat("floats have no operator '", ast::Spelling(op), "'"),
                     "convert with int(x) first");
  }

  Elaborator* e_;
  SourceLoc loc_;
};

// A Python number as a constant beside an expression of type `other`.
Operand LiteralBeside(const Value& number, DType other) {
  if (number.Is(Type::kBool)) return {ir::MakeBool(number.bool_value()), {}};
  if (number.Is(Type::kFloat)) {
    const DType type = other.is_float() && other.bits == 64 ? kFloat64 : kFloat32;
    return {ir::MakeFloat(number.float_value(), type), {}};
  }
  const int64_t i = number.int_value();
  if (other.is_float()) return {ir::MakeFloat(static_cast<double>(i), other.element()), {}};
  DType type = kInt32;
  if (other.is_int() && other.bits >= 32) {
    const bool fits =
        *ir::ConstInt(ir::MakeInt(i, other.element())) == i && (!other.is_uint() || i >= 0);
    type = fits ? other.element() : kInt64;
  } else if (i < INT32_MIN || i > INT32_MAX) {
    type = kInt64;
  }
  return {ir::MakeInt(i, type), {}};
}

// What arithmetic is done in: 32 bits for elements of 4, float32 for powers of two.
Operand Widened(Operand x) {
  const DType type = x.e.dtype();
  const bool narrow = type.code == TypeCode::kE2M1 || type.code == TypeCode::kE8M0;
  if (type.is_packed() || narrow) x.e = ir::MakeCast(narrow ? kFloat32 : kInt32, x.e);
  return x;
}

}  // namespace

absl::StatusOr<std::pair<Operand, Operand>> Elaborator::Match(const Value& a, const Value& b,
                                                              SourceLoc loc) {
  Operand x, y;
  if (a.is_number() && !b.is_number()) {
    KILN_ASSIGN_OR_RETURN(y, ToOperand(b, loc, "an operand"));
    y = Widened(std::move(y));
    x = LiteralBeside(a, y.e.dtype());
  } else if (b.is_number() && !a.is_number()) {
    KILN_ASSIGN_OR_RETURN(x, ToOperand(a, loc, "an operand"));
    x = Widened(std::move(x));
    y = LiteralBeside(b, x.e.dtype());
  } else {
    KILN_ASSIGN_OR_RETURN(x, ToOperand(a, loc, "an operand"));
    KILN_ASSIGN_OR_RETURN(y, ToOperand(b, loc, "an operand"));
    x = Widened(std::move(x));
    y = Widened(std::move(y));
  }
  if (x.e.dtype().code == TypeCode::kHandle || y.e.dtype().code == TypeCode::kHandle) {
    return Error(loc, "a handle has no arithmetic", "give it a shape with T.match_buffer first");
  }
  std::tie(x.e, y.e) = ir::MatchTypes(x.e, y.e);
  return std::make_pair(std::move(x), std::move(y));
}

absl::StatusOr<Value> Elaborator::BinaryOp(ast::BinaryOp op, const Value& a, const Value& b,
                                           SourceLoc loc) {
  KILN_RETURN_IF_ERROR(Step(loc));
  if (a.is_number() && b.is_number()) return NumberOps(this, loc).Apply(op, a, b);
  KILN_ASSIGN_OR_RETURN(const auto own, Classes(this).Operate(op, a, b, loc));
  if (own.has_value()) return *own;
  if (a.Is(Type::kInstance) || b.Is(Type::kInstance)) {
    const Value x = Plain(a), y = Plain(b);
    if (!x.Is(a.type()) || !y.Is(b.type())) return BinaryOp(op, x, y, loc);
  }
  if (op == BinaryOp::kMod && a.Is(Type::kStr)) return FormatByPercent(*this, a, b, loc);
  if (a.Is(Type::kTerm) || b.Is(Type::kTerm)) return LayoutTermOp(*this, op, a, b, loc);
  if (a.Is(Type::kArray) || b.Is(Type::kArray)) return ArrayOp(*this, op, a, b, loc);
  if (IsVector(a) || IsVector(b)) {
    return ByLane(*this, loc, {a, b}, [&](const std::vector<Value>& lanes) {
      return BinaryOp(op, lanes[0], lanes[1], loc);
    });
  }
  KILN_ASSIGN_OR_RETURN(const auto combined, SetOp(*this, op, a, b, loc));
  if (combined.has_value()) return *combined;
  if (!IsRuntime(a) && !IsRuntime(b)) {
    if (op == BinaryOp::kBitOr && a.Is(Type::kDict) && b.Is(Type::kDict)) {
      auto* merged = arena_.New<DictObject>();
      merged->items = a.dict().items;
      merged->region = CurrentRegion();
      KILN_RETURN_IF_ERROR(ChargeBytes(loc, 32 * (merged->items.size() + b.dict().items.size())));
      for (const auto& [key, item] : b.dict().items) {
        KILN_RETURN_IF_ERROR(Step(loc, static_cast<int64_t>(merged->items.size())));
        KILN_RETURN_IF_ERROR(SetItem(merged, key, item, loc));
      }
      return Value::Of(Type::kDict, merged);
    }
    if (op == BinaryOp::kAdd && a.Is(Type::kStr) && b.Is(Type::kStr)) {
      KILN_RETURN_IF_ERROR(ChargeBytes(loc, a.str().size() + b.str().size()));
      return NewStr(a.str() + b.str(), ShownIn(a.text().shown.is_none() ? b : a));
    }
    if (op == BinaryOp::kAdd && a.is_sequence() && a.type() == b.type()) {
      std::vector<Value> items = a.seq().items;
      KILN_RETURN_IF_ERROR(Step(loc, items.size() + b.seq().items.size()));
      KILN_RETURN_IF_ERROR(ChargeBytes(loc, 16 * (items.size() + b.seq().items.size())));
      items.insert(items.end(), b.seq().items.begin(), b.seq().items.end());
      return NewSeq(a.type(), std::move(items));
    }
    if (op == BinaryOp::kMul && (a.is_integer() || b.is_integer())) {
      const Value& count = a.is_integer() ? a : b;
      const Value& data = a.is_integer() ? b : a;
      const int64_t n = std::max<int64_t>(0, count.int_value());
      const bool is_str = data.Is(Type::kStr);
      if (is_str || data.is_sequence()) {
        const int64_t size = is_str ? data.str().size() : data.seq().items.size();
        int64_t total;
        if (__builtin_mul_overflow(size, n, &total)) total = INT64_MAX / 32;
        KILN_RETURN_IF_ERROR(Step(loc, std::min(total, limits_.steps + 1)));
        KILN_RETURN_IF_ERROR(ChargeBytes(loc, is_str ? total : total * 16));
        if (is_str) {
          std::string text;
          for (int64_t i = 0; i < n && size > 0; ++i) text += data.str();
          return NewStr(std::move(text), ShownIn(data));
        }
        std::vector<Value> items;
        for (int64_t i = 0; i < n && size > 0; ++i) {
          items.insert(items.end(), data.seq().items.begin(), data.seq().items.end());
        }
        return NewSeq(data.type(), std::move(items));
      }
    }
    for (const Value& v : {a, b}) {
      if (v.is_import()) return NoValue(v, loc);
    }
    return Error(loc,
                 absl::StrCat("no operator '", ast::Spelling(op), "' for ", Describe(a), " and ",
                              Describe(b)),
                 LacksIndices(a) || LacksIndices(b) ? IndexAll(LacksIndices(a) ? a : b)
                 : a.Is(Type::kBuffer) || b.Is(Type::kBuffer)
                     ? "work on elements inside T.Parallel, as in x[i, j]"
                 : Classes::Of(a) || Classes::Of(b)
                     ? "give its class a method that returns the result, as __add__ does for '+'"
                     : "check the operands' types");
  }
  KILN_ASSIGN_OR_RETURN(auto matched, Match(a, b, loc));
  auto& [x, y] = matched;
  const ExprInfo info = Join(x.info, y.info);
  const DType type = x.e.dtype();
  if (op == BinaryOp::kMatMul) {
    return Error(loc, "run-time values have no operator '@'", "use T.gemm for a matrix product");
  }
  if (op == BinaryOp::kPow) {
    if (info.open_only()) {
      return NeedConcrete(loc, (x.info.flags ? x : y).e, "'**' is computed at compile time");
    }
    if (type.is_float()) {
      return NewExpr(ir::MakeCall(type, ir::Intrinsic::kPow, {x.e, y.e}), info, loc);
    }
    const auto exponent = ir::ConstInt(y.e);
    if (!exponent || *exponent < 0 || *exponent > 16) {
      return NeedsValue(loc, "'**' on run-time integers needs a constant exponent from 0 to 16",
                        y.e, "multiply, or cast to float first");
    }
    KILN_ASSIGN_OR_RETURN(Value base, Freeze(a, "base", loc));
    Value result = Value::Int(1);
    for (int64_t i = 0; i < *exponent; ++i) {
      KILN_ASSIGN_OR_RETURN(result, BinaryOp(ast::BinaryOp::kMul, result, base, loc));
    }
    return result;
  }
  if (type.is_float() && (IsShift(op) || IsBitOp(op))) {
    return Error(loc, absl::StrCat("run-time floats have no operator '", ast::Spelling(op), "'"),
                 "cast to an integer, or reinterpret the bits with T.reinterpret");
  }
  if (type.is_bool() && !IsBitOp(op)) {
    x.e = ir::MakeCast(kInt32, x.e);
    y.e = ir::MakeCast(kInt32, y.e);
  }
  if (op == BinaryOp::kDiv && !type.is_float()) {
    if (info.open_only())
      return NeedConcrete(loc, (x.info.flags ? x : y).e, "'/' makes a float of it");
    return NeedsValue(loc, "'/' on run-time integers would need a float type",
                      ir::MakeBinary(ir::BinaryOp::kAdd, x.e, y.e),
                      "use // for integer division, or cast one side with T.cast(x, \"float32\")");
  }
  ExprInfo result = info;
  if (op == BinaryOp::kFloorDiv || op == BinaryOp::kMod) {
    if (const auto divisor = ir::ConstInt(y.e); divisor && *divisor == 0) {
      return Raised(Error(loc, "division by zero", "check the divisor's value"),
                    "ZeroDivisionError");
    }
    if (!ir::ConstInt(y.e) && !y.info.open_only()) result.flags |= ExprInfo::kLoads;
  }
  if (IsShift(op)) {
    const auto count = ir::ConstInt(y.e);
    if (count && (*count < 0 || *count >= x.e.dtype().bits)) {
      return Error(loc, absl::StrCat("a shift of ", x.e.dtype().ToString(), " by ", *count),
                   absl::StrCat("shift by 0 to ", x.e.dtype().bits - 1));
    }
  }
  if (x.e.dtype().is_bool()) {
    const ir::BinaryOp logical = op == BinaryOp::kBitAnd  ? ir::BinaryOp::kAnd
                                 : op == BinaryOp::kBitOr ? ir::BinaryOp::kOr
                                                          : ir::BinaryOp::kNe;
    return NewExpr(ir::MakeBinary(logical, x.e, y.e), result, loc);
  }
  return NewExpr(ir::MakeBinary(ToIr(op), x.e, y.e), result, loc);
}

absl::StatusOr<Value> Elaborator::UnaryOp(ast::UnaryOp op, const Value& given, SourceLoc loc) {
  KILN_RETURN_IF_ERROR(Step(loc));
  KILN_ASSIGN_OR_RETURN(const auto own, Classes(this).Unary(op, given, loc));
  if (own.has_value()) return *own;
  const Value a = given.Is(Type::kInstance) ? Plain(given) : given;
  if (IsVector(a)) {
    return ByLane(*this, loc, {a},
                  [&](const std::vector<Value>& lanes) { return UnaryOp(op, lanes[0], loc); });
  }
  if (op == ast::UnaryOp::kNot) {
    KILN_ASSIGN_OR_RETURN(Condition c, Decide(a, loc));
    if (c.known) return Value::Bool(!c.value);
    return NewExpr(ir::MakeUnary(ir::UnaryOp::kNot, c.expr.e), Join(c.expr.info, {}), loc);
  }
  if (a.is_number()) {
    switch (op) {
      case ast::UnaryOp::kPos:
        return a.Is(Type::kBool) ? Value::Int(a.int_value()) : a;
      case ast::UnaryOp::kInvert:
        if (a.Is(Type::kFloat)) break;
        return Value::Int(~a.int_value());
      default:
        if (a.Is(Type::kFloat)) return Value::Float(-a.float_value());
        return BinaryOp(BinaryOp::kSub, Value::Int(0), a, loc);
    }
  } else if (IsRuntime(a)) {
    KILN_ASSIGN_OR_RETURN(Operand x, ToOperand(a, loc, "the operand"));
    x = Widened(std::move(x));
    if (op == ast::UnaryOp::kPos) return NewExpr(x, loc);
    const bool is_bool = x.e.dtype().is_bool();
    if (is_bool && op == ast::UnaryOp::kInvert) {
      return NewExpr(ir::MakeUnary(ir::UnaryOp::kNot, x.e), Join(x.info, {}), loc);
    }
    if (is_bool) x.e = ir::MakeCast(kInt32, x.e);
    if (op == ast::UnaryOp::kNeg && x.e.dtype().code != TypeCode::kHandle) {
      return NewExpr(ir::MakeUnary(ir::UnaryOp::kNeg, x.e), Join(x.info, {}), loc);
    }
    if (x.e.dtype().is_int()) {
      return NewExpr(ir::MakeUnary(ir::UnaryOp::kBitNot, x.e), Join(x.info, {}), loc);
    }
  }
  const char* spelling = op == ast::UnaryOp::kNeg ? "-" : op == ast::UnaryOp::kPos ? "+" : "~";
  return Error(loc, absl::StrCat("no unary '", spelling, "' for ", Describe(a)),
               "check the operand's type");
}

absl::StatusOr<Value> Elaborator::CompareOp(ast::CompareOp op, const Value& a, const Value& b,
                                            SourceLoc loc) {
  KILN_RETURN_IF_ERROR(Step(loc));
  if (reads_ != nullptr) {
    const int64_t read = reads_->NoteAll(a, changes_) + reads_->NoteAll(b, changes_);
    KILN_RETURN_IF_ERROR(Step(loc, read / 4));
  }
  switch (op) {
    case CompareOp::kIs:
    case CompareOp::kIsNot: {
      const bool objects = a.is_sequence() || a.Is(Type::kLazy) || a.Is(Type::kDict) ||
                           a.Is(Type::kSet) || a.Is(Type::kInstance) || IsRuntime(a);
      bool same = a.type() == b.type();
      if (IsRuntime(a) != IsRuntime(b) && (a.is_number() || b.is_number())) {
        return Error(loc, "'is' compares a number with a run-time value",
                     "compare numbers with ==");
      }
      if (same && objects) {
        same = a.pointer() == b.pointer();
      } else if (same) {
        KILN_ASSIGN_OR_RETURN(same, Equal(a, b, loc));
      }
      return Value::Bool(same == (op == CompareOp::kIs));
    }
    case CompareOp::kIn:
      return IsIn(a, b, loc);
    case CompareOp::kNotIn: {
      KILN_ASSIGN_OR_RETURN(const Value found, IsIn(a, b, loc));
      return UnaryOp(ast::UnaryOp::kNot, found, loc);
    }
    default:
      break;
  }
  if (IsVector(a) || IsVector(b)) {
    return ByLane(*this, loc, {a, b}, [&](const std::vector<Value>& lanes) {
      return CompareOp(op, lanes[0], lanes[1], loc);
    });
  }
  const bool equality = op == CompareOp::kEq || op == CompareOp::kNe;
  KILN_ASSIGN_OR_RETURN(const auto own, Classes(this).Compare(op, a, b, loc));
  if (own.has_value()) return *own;
  if (!equality && (IsSetLike(a) || IsSetLike(b))) {
    KILN_ASSIGN_OR_RETURN(const Value x, AsSet(*this, a, loc));
    KILN_ASSIGN_OR_RETURN(const Value y, AsSet(*this, b, loc));
    if (!x.Is(a.type()) || !y.Is(b.type())) return CompareOp(op, x, y, loc);
  }
  if (!equality && a.Is(Type::kSet) && b.Is(Type::kSet)) {
    KILN_ASSIGN_OR_RETURN(const bool part, SetOrder(*this, op, a, b, loc));
    return Value::Bool(part);
  }
  if (!equality && (a.Is(Type::kInstance) || b.Is(Type::kInstance))) {
    const Value x = Plain(a), y = Plain(b);
    if (!x.Is(a.type()) || !y.Is(b.type())) return CompareOp(op, x, y, loc);
    KILN_ASSIGN_OR_RETURN(const auto ordered, Classes(this).Order(op, a, b, loc));
    if (ordered.has_value()) return *ordered;
  }
  const Value x0 = Plain(a), y0 = Plain(b);
  const bool comparable = (IsRuntime(a) || x0.is_number()) && (IsRuntime(b) || y0.is_number());
  if (comparable && (IsRuntime(a) || IsRuntime(b))) {
    KILN_ASSIGN_OR_RETURN(auto matched, Match(x0, y0, loc));
    auto& [x, y] = matched;
    if (x.e.dtype().is_bool()) {
      x.e = ir::MakeCast(kInt32, x.e);
      y.e = ir::MakeCast(kInt32, y.e);
    }
    return NewExpr(ir::MakeBinary(ToIr(op), x.e, y.e), Join(x.info, y.info), loc);
  }
  if (equality) {
    KILN_ASSIGN_OR_RETURN(const Value equal, Equality(a, b, loc));
    return op == CompareOp::kEq ? equal : UnaryOp(ast::UnaryOp::kNot, equal, loc);
  }
  if (a.is_number() && b.is_number()) {
    const std::partial_ordering order = OrderOf(a, b);
    if (order == std::partial_ordering::unordered) return Value::Bool(false);
    return Value::Bool(Ordered(op, order < 0 ? -1 : order > 0 ? 1 : 0, 0));
  }
  if (a.Is(Type::kStr) && b.Is(Type::kStr)) {
    KILN_RETURN_IF_ERROR(CheckTexts(a, b, loc));
    return Value::Bool(Ordered(op, a.str(), b.str()));
  }
  if (a.is_sequence() && a.type() == b.type()) {
    const std::vector<Value>&x = a.seq().items, &y = b.seq().items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      const Value left = x[i], right = y[i];
      KILN_ASSIGN_OR_RETURN(const bool equal, Equal(left, right, loc));
      if (!equal) {
        CountGuard guard(&depth_);
        KILN_RETURN_IF_ERROR(CheckDepth(loc));
        return CompareOp(op, left, right, loc);
      }
    }
    return Value::Bool(Ordered(op, x.size(), y.size()));
  }
  return Error(loc, absl::StrCat("no order between ", Describe(a), " and ", Describe(b)),
               LacksIndices(a)   ? IndexAll(a)
               : LacksIndices(b) ? IndexAll(b)
                                 : "compare numbers with numbers");
}

absl::StatusOr<Value> Elaborator::MinMax(bool is_max, const Value& a, const Value& b,
                                         SourceLoc loc) {
  if (!IsRuntime(a) && !IsRuntime(b)) {
    // The first of equal values, as Python chooses.
    KILN_ASSIGN_OR_RETURN(const Value better,
                          CompareOp(is_max ? CompareOp::kGt : CompareOp::kLt, b, a, loc));
    KILN_ASSIGN_OR_RETURN(const bool second, DecideNow(better, loc, "the order of two values"));
    return second ? b : a;
  }
  KILN_ASSIGN_OR_RETURN(auto matched, Match(a, b, loc));
  auto& [x, y] = matched;
  if (x.e.dtype().is_bool()) {
    x.e = ir::MakeCast(kInt32, x.e);
    y.e = ir::MakeCast(kInt32, y.e);
  }
  return NewExpr(ir::MakeBinary(is_max ? ir::BinaryOp::kMax : ir::BinaryOp::kMin, x.e, y.e),
                 Join(x.info, y.info), loc);
}

absl::StatusOr<Value> Elaborator::CeilDiv(const Value& a, const Value& b, SourceLoc loc) {
  KILN_RETURN_IF_ERROR(Step(loc));
  KILN_ASSIGN_OR_RETURN(const Operand x, ToIndex(a, loc, "an operand of ceildiv"));
  KILN_ASSIGN_OR_RETURN(const Operand y, ToIndex(b, loc, "an operand of ceildiv"));
  if (const auto divisor = ir::ConstInt(y.e); divisor && *divisor == 0) {
    return Raised(Error(loc, "division by zero", "check the divisor's value"), "ZeroDivisionError");
  }
  if (a.is_integer() && b.is_integer()) {
    const __int128 n = a.int_value(), d = b.int_value();
    const __int128 up = n + d - 1;
    __int128 q = up / d;
    if (up % d != 0 && ((up < 0) != (d < 0))) --q;
    if (q < INT64_MIN || q > INT64_MAX) {
      return Error(loc, "the quotient does not fit 64 bits", "use smaller numbers");
    }
    return Value::Int(static_cast<int64_t>(q));
  }
  return NewExpr(ir::CeilDiv(x.e, y.e), Join(x.info, Join(y.info, y.info)), loc);
}

absl::StatusOr<Value> Elaborator::SelectValue(const Value& condition, const Value& a,
                                              const Value& b, SourceLoc loc) {
  KILN_ASSIGN_OR_RETURN(Condition c, Decide(condition, loc));
  if (c.known) return c.value ? a : b;
  if (a.is_number() && b.is_number() && !a.Is(Type::kBool) && !b.Is(Type::kBool)) {
    const bool floats = a.Is(Type::kFloat) || b.Is(Type::kFloat);
    const bool wide = !floats && (a.int_value() != static_cast<int32_t>(a.int_value()) ||
                                  b.int_value() != static_cast<int32_t>(b.int_value()));
    const DType type = floats ? kFloat32 : wide ? kInt64 : kInt32;
    KILN_ASSIGN_OR_RETURN(const Operand x, ToType(a, type, loc, "the value"));
    KILN_ASSIGN_OR_RETURN(const Operand y, ToType(b, type, loc, "the value"));
    return NewExpr(ir::MakeSelect(c.expr.e, x.e, y.e), Join(c.expr.info, {}), loc);
  }
  KILN_ASSIGN_OR_RETURN(auto matched, Match(a, b, loc));
  auto& [x, y] = matched;
  return NewExpr(ir::MakeSelect(c.expr.e, x.e, y.e), Join(c.expr.info, Join(x.info, y.info)), loc);
}

}  // namespace kiln::lang

#include "compiler/ir/expr.h"

#include <algorithm>
#include <cmath>

#include "absl/hash/hash.h"
#include "compiler/base/status.h"
#include "compiler/ir/fold.h"
#include "compiler/ir/scalar.h"
#include "compiler/ir/stmt.h"

namespace kiln::ir {
namespace {

// Of what SameNode compares beside the kind and the type.
size_t Hash(const Expr& e) { return e.defined() ? e->hash : 0; }

size_t Hash(const std::vector<Expr>& list) {
  size_t hash = list.size();
  for (const Expr& e : list) hash = absl::HashOf(hash, Hash(e));
  return hash;
}

size_t Hash(const IntImm& x) { return absl::HashOf(x.value); }
size_t Hash(const FloatImm& x) { return std::isnan(x.value) ? 0 : absl::HashOf(x.value); }
size_t Hash(const Var& x) { return absl::HashOf(&x); }
size_t Hash(const Unary& x) { return absl::HashOf(x.op, Hash(x.a)); }
size_t Hash(const Binary& x) { return absl::HashOf(x.op, Hash(x.a), Hash(x.b)); }
size_t Hash(const Select& x) { return absl::HashOf(Hash(x.condition), Hash(x.a), Hash(x.b)); }
size_t Hash(const Cast& x) { return Hash(x.a); }
size_t Hash(const Load& x) {
  return absl::HashOf(x.buffer.get(), Hash(x.indices), Hash(x.predicate));
}
size_t Hash(const Call& x) { return absl::HashOf(x.op, Hash(x.args)); }
size_t Hash(const Ramp& x) { return absl::HashOf(Hash(x.base), Hash(x.stride)); }
size_t Hash(const Broadcast& x) { return Hash(x.a); }

template <typename T, typename... Args>
Expr Make(Args&&... args) {
  auto node = std::make_shared<T>(std::forward<Args>(args)...);
  const DType type = node->dtype;
  node->hash = absl::HashOf(T::kKind, type.code, type.bits, type.lanes, Hash(*node));
  return Expr(std::move(node));
}

bool IsLogical(BinaryOp op) { return op == BinaryOp::kAnd || op == BinaryOp::kOr; }

bool IsBitwise(BinaryOp op) {
  return op == BinaryOp::kBitAnd || op == BinaryOp::kBitOr || op == BinaryOp::kBitXor;
}

bool IsShift(BinaryOp op) { return op == BinaryOp::kShl || op == BinaryOp::kShr; }

bool SameAll(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), Same);
}

bool IsIndexType(DType t) { return t.code == TypeCode::kInt && (t.bits == 32 || t.bits == 64); }

// int32 with int64 widens to int64.
void WidenIndices(Expr* a, Expr* b) {
  const DType ta = a->dtype(), tb = b->dtype();
  if (ta == tb || ta.lanes != tb.lanes || !IsIndexType(ta) || !IsIndexType(tb)) return;
  const DType wide = kInt64.with_lanes(ta.lanes);
  *a = MakeCast(wide, *a);
  *b = MakeCast(wide, *b);
}

void CheckOperands(BinaryOp op, const Expr& a) {
  if (IsLogical(op)) {
    KILN_CHECK(a.dtype().is_bool());
  } else if (IsBitwise(op)) {
    KILN_CHECK(a.dtype().is_int() || a.dtype().is_bool());
  } else if (IsShift(op)) {
    KILN_CHECK(a.dtype().is_int());
  } else if (op == BinaryOp::kDiv) {
    KILN_CHECK(a.dtype().is_float());
  } else if (!IsComparison(op)) {
    KILN_CHECK(!a.dtype().is_bool() && a.dtype().code != TypeCode::kHandle);
  }
}

Expr Apply(BinaryOp op, const Expr& a, const Expr& b) {
  auto [x, y] = MatchTypes(a, b);
  return MakeBinary(op, std::move(x), std::move(y));
}

}  // namespace

Expr::Expr(int value) : Expr(MakeInt(value)) {}

Expr MakeInt(int64_t value, DType type) {
  KILN_CHECK(!type.is_float() && type.is_scalar());
  return Make<IntImm>(type, WrapInt(value, type));
}

Expr MakeBool(bool value) { return MakeInt(value, kBool); }

Expr MakeFloat(double value, DType type) {
  KILN_CHECK(type.is_float() && type.is_scalar());
  return Make<FloatImm>(type, RoundToType(value, type));
}

Expr MakeConst(double value, DType type) {
  const DType element = type.element();
  const Expr scalar =
      type.is_float() ? MakeFloat(value, element) : MakeInt(FloatToInt(value, element), element);
  return MakeBroadcast(scalar, type.lanes);
}

Expr MakeVar(std::string name, DType type) { return Make<Var>(type, std::move(name)); }

Expr MakeUnary(UnaryOp op, Expr a) {
  KILN_CHECK(a.defined());
  if (op == UnaryOp::kNot) KILN_CHECK(a.dtype().is_bool());
  if (op == UnaryOp::kBitNot) KILN_CHECK(a.dtype().is_int());
  if (op == UnaryOp::kNeg) KILN_CHECK(a.dtype().is_int() || a.dtype().is_float());
  if (Expr folded = FoldUnary(op, a); folded.defined()) return folded;
  const DType type = a.dtype();
  return Make<Unary>(type, op, std::move(a));
}

Expr MakeBinary(BinaryOp op, Expr a, Expr b) {
  KILN_CHECK(a.defined() && b.defined());
  WidenIndices(&a, &b);
  KILN_CHECK(a.dtype() == b.dtype());
  CheckOperands(op, a);
  const DType result = IsComparison(op) ? kBool.with_lanes(a.dtype().lanes) : a.dtype();
  if (Expr folded = FoldBinary(op, a, b, result); folded.defined()) return folded;
  return Make<Binary>(result, op, std::move(a), std::move(b));
}

Expr MakeSelect(Expr condition, Expr a, Expr b) {
  KILN_CHECK(condition.defined() && a.defined() && b.defined());
  KILN_CHECK(condition.dtype().is_bool());
  WidenIndices(&a, &b);
  KILN_CHECK(a.dtype() == b.dtype());
  KILN_CHECK(condition.dtype().is_scalar() || condition.dtype().lanes == a.dtype().lanes);
  if (const auto* all = condition.As<Broadcast>()) {
    return MakeSelect(all->a, std::move(a), std::move(b));
  }
  if (const auto* c = condition.As<IntImm>()) return c->value ? a : b;
  if (Same(a, b)) return a;
  const DType type = a.dtype();
  return Make<Select>(type, std::move(condition), std::move(a), std::move(b));
}

Expr MakeCast(DType type, Expr a) {
  KILN_CHECK(a.defined());
  if (a.dtype().lanes == 1 && type.lanes > 1) {
    return MakeBroadcast(MakeCast(type.element(), std::move(a)), type.lanes);
  }
  KILN_CHECK(a.dtype().lanes == type.lanes);
  if (Expr folded = FoldCast(type, a); folded.defined()) return folded;
  return Make<Cast>(type, std::move(a));
}

Expr MakeLoad(Buffer buffer, std::vector<Expr> indices, Expr predicate) {
  KILN_CHECK(buffer != nullptr && indices.size() == buffer->shape.size());
  for (const Expr& index : indices) KILN_CHECK(index.defined() && index.dtype().is_int());
  const int lanes = indices.empty() ? 1 : indices.back().dtype().lanes;
  if (predicate.defined()) {
    KILN_CHECK(predicate.dtype().is_bool());
    KILN_CHECK(predicate.dtype().is_scalar() || predicate.dtype().lanes == lanes);
    if (IsConst(predicate, 1)) predicate = Expr();
  }
  const DType type = buffer->dtype.with_lanes(lanes);
  return Make<Load>(type, std::move(buffer), std::move(indices), std::move(predicate));
}

Expr MakeCall(DType type, Intrinsic op, std::vector<Expr> args) {
  for (const Expr& arg : args) KILN_CHECK(arg.defined());
  if (op == Intrinsic::kReinterpret) {
    KILN_CHECK(args.size() == 1 && args[0].dtype().bits == type.bits &&
               args[0].dtype().lanes == type.lanes);
    if (args[0].dtype() == type) return args[0];
  }
  if (Expr folded = FoldCall(type, op, args); folded.defined()) return folded;
  return Make<Call>(type, op, std::move(args));
}

Expr MakeRamp(Expr base, Expr stride, int lanes) {
  KILN_CHECK(base.defined() && stride.defined() && lanes >= 1);
  WidenIndices(&base, &stride);
  KILN_CHECK(base.dtype() == stride.dtype() && base.dtype().is_int() && base.dtype().is_scalar());
  if (lanes == 1) return base;
  if (IsConst(stride, 0)) return MakeBroadcast(std::move(base), lanes);
  const DType type = base.dtype().with_lanes(lanes);
  return Make<Ramp>(type, std::move(base), std::move(stride));
}

Expr MakeBroadcast(Expr a, int lanes) {
  KILN_CHECK(a.defined() && lanes >= 1 && a.dtype().is_scalar());
  if (lanes == 1) return a;
  const DType type = a.dtype().with_lanes(lanes);
  return Make<Broadcast>(type, std::move(a));
}

DType CommonType(DType a, DType b) {
  const auto lanes = static_cast<int>(std::max(a.lanes, b.lanes));
  const DType x = a.element(), y = b.element();
  if (x == y) return x.with_lanes(lanes);
  if (x.is_float() && y.is_float()) {
    if (x.bits != y.bits) return (x.bits > y.bits ? x : y).with_lanes(lanes);
    // float16 has every value of a float8 but float8_e8m0fnu's.
    const bool wide = x.code == TypeCode::kE8M0 || y.code == TypeCode::kE8M0;
    return (x.bits <= 8 && !wide ? kFloat16 : kFloat32).with_lanes(lanes);
  }
  if (x.is_float() || y.is_float()) return (x.is_float() ? x : y).with_lanes(lanes);
  if (x.is_bool() || y.is_bool()) return (x.is_bool() ? y : x).with_lanes(lanes);
  if (!x.is_int() || !y.is_int()) return (x.is_int() ? y : x).with_lanes(lanes);  // a handle
  if (x.code == y.code) return (x.bits > y.bits ? x : y).with_lanes(lanes);
  return DType{TypeCode::kInt, std::max(x.bits, y.bits)}.with_lanes(lanes);
}

std::pair<Expr, Expr> MatchTypes(Expr a, Expr b) {
  const DType type = CommonType(a.dtype(), b.dtype());
  Expr x = MakeCast(type, std::move(a));
  Expr y = MakeCast(type, std::move(b));
  return {std::move(x), std::move(y)};
}

namespace {

// Arithmetic on two bools counts, as in Python: True + True is 2.
std::pair<Expr, Expr> MatchArithmetic(const Expr& a, const Expr& b) {
  if (!a.dtype().is_bool() || !b.dtype().is_bool()) return MatchTypes(a, b);
  return MatchTypes(MakeCast(kInt32.with_lanes(a.dtype().lanes), a), b);
}

Expr Arithmetic(BinaryOp op, const Expr& a, const Expr& b) {
  auto [x, y] = MatchArithmetic(a, b);
  return MakeBinary(op, std::move(x), std::move(y));
}

}  // namespace

Expr operator+(const Expr& a, const Expr& b) { return Arithmetic(BinaryOp::kAdd, a, b); }
Expr operator-(const Expr& a, const Expr& b) { return Arithmetic(BinaryOp::kSub, a, b); }
Expr operator*(const Expr& a, const Expr& b) { return Arithmetic(BinaryOp::kMul, a, b); }
Expr FloorDiv(const Expr& a, const Expr& b) { return Arithmetic(BinaryOp::kFloorDiv, a, b); }
Expr FloorMod(const Expr& a, const Expr& b) { return Arithmetic(BinaryOp::kFloorMod, a, b); }
Expr CeilDiv(const Expr& a, const Expr& b) { return FloorDiv(a + (b - Expr(1)), b); }
Expr Min(const Expr& a, const Expr& b) { return Arithmetic(BinaryOp::kMin, a, b); }
Expr Max(const Expr& a, const Expr& b) { return Arithmetic(BinaryOp::kMax, a, b); }
Expr operator<(const Expr& a, const Expr& b) { return Apply(BinaryOp::kLt, a, b); }
Expr operator<=(const Expr& a, const Expr& b) { return Apply(BinaryOp::kLe, a, b); }
Expr operator>(const Expr& a, const Expr& b) { return Apply(BinaryOp::kGt, a, b); }
Expr operator>=(const Expr& a, const Expr& b) { return Apply(BinaryOp::kGe, a, b); }
Expr Equal(const Expr& a, const Expr& b) { return Apply(BinaryOp::kEq, a, b); }
Expr operator&&(const Expr& a, const Expr& b) { return Apply(BinaryOp::kAnd, a, b); }
Expr operator||(const Expr& a, const Expr& b) { return Apply(BinaryOp::kOr, a, b); }

std::optional<int64_t> ConstInt(const Expr& e) {
  if (const auto* c = e.As<IntImm>()) return c->value;
  return std::nullopt;
}

std::optional<double> ConstFloat(const Expr& e) {
  if (const auto* c = e.As<FloatImm>()) return c->value;
  return std::nullopt;
}

bool IsConst(const Expr& e, int64_t value) {
  const auto* c = e.As<IntImm>();
  return c && c->value == value;
}

namespace {

bool SameBits(double a, double b) {
  return a == b ? std::signbit(a) == std::signbit(b) : a != a && b != b;
}

bool SameNode(const Expr& a, const Expr& b) {
  switch (a.kind()) {
    case ExprKind::kIntImm:
      return a.As<IntImm>()->value == b.As<IntImm>()->value;
    case ExprKind::kFloatImm:
      return SameBits(a.As<FloatImm>()->value, b.As<FloatImm>()->value);
    case ExprKind::kVar:
      return false;
    case ExprKind::kUnary: {
      const auto *x = a.As<Unary>(), *y = b.As<Unary>();
      return x->op == y->op && Same(x->a, y->a);
    }
    case ExprKind::kBinary: {
      const auto *x = a.As<Binary>(), *y = b.As<Binary>();
      return x->op == y->op && Same(x->a, y->a) && Same(x->b, y->b);
    }
    case ExprKind::kSelect: {
      const auto *x = a.As<Select>(), *y = b.As<Select>();
      return Same(x->condition, y->condition) && Same(x->a, y->a) && Same(x->b, y->b);
    }
    case ExprKind::kCast:
      return Same(a.As<Cast>()->a, b.As<Cast>()->a);
    case ExprKind::kLoad: {
      const auto *x = a.As<Load>(), *y = b.As<Load>();
      return x->buffer == y->buffer && SameAll(x->indices, y->indices) &&
             Same(x->predicate, y->predicate);
    }
    case ExprKind::kCall: {
      const auto *x = a.As<Call>(), *y = b.As<Call>();
      return x->op == y->op && SameAll(x->args, y->args);
    }
    case ExprKind::kRamp: {
      const auto *x = a.As<Ramp>(), *y = b.As<Ramp>();
      return Same(x->base, y->base) && Same(x->stride, y->stride);
    }
    case ExprKind::kBroadcast:
      return Same(a.As<Broadcast>()->a, b.As<Broadcast>()->a);
  }
  return false;
}

}  // namespace

bool Same(const Expr& a, const Expr& b) {
  if (a.same_as(b)) return true;
  if (!a.defined() || !b.defined() || a->hash != b->hash) return false;
  return a.kind() == b.kind() && a.dtype() == b.dtype() && SameNode(a, b);
}

const char* Name(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return "+";
    case BinaryOp::kSub:
      return "-";
    case BinaryOp::kMul:
      return "*";
    case BinaryOp::kDiv:
      return "/";
    case BinaryOp::kFloorDiv:
      return "//";
    case BinaryOp::kFloorMod:
      return "%";
    case BinaryOp::kMin:
      return "min";
    case BinaryOp::kMax:
      return "max";
    case BinaryOp::kEq:
      return "==";
    case BinaryOp::kNe:
      return "!=";
    case BinaryOp::kLt:
      return "<";
    case BinaryOp::kLe:
      return "<=";
    case BinaryOp::kGt:
      return ">";
    case BinaryOp::kGe:
      return ">=";
    case BinaryOp::kAnd:
      return "and";
    case BinaryOp::kOr:
      return "or";
    case BinaryOp::kBitAnd:
      return "&";
    case BinaryOp::kBitOr:
      return "|";
    case BinaryOp::kBitXor:
      return "^";
    case BinaryOp::kShl:
      return "<<";
    case BinaryOp::kShr:
      return ">>";
  }
  return "?";
}

const char* Name(Intrinsic op) {
  static constexpr const char* kNames[] = {
      "exp",        "exp2",       "log",       "log2",        "sqrt",       "rsqrt",
      "tanh",       "sigmoid",    "abs",       "sin",         "cos",        "erf",
      "floor",      "ceil",       "round",     "trunc",       "pow",        "fma",
      "isnan",      "isinf",      "isfinite",  "reinterpret", "reduce_add", "reduce_max",
      "reduce_min", "reduce_and", "reduce_or", "reduce_xor",  "prefetch",   "exp10",
      "log1p",      "sinh",       "cosh",      "asin",        "acos",       "atan",
      "asinh",      "acosh",      "atanh",     "atan2",       "fmod",       "popcount",
      "clz"};
  return kNames[static_cast<int>(op)];
}

}  // namespace kiln::ir

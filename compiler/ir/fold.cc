#include "compiler/ir/fold.h"

#include <cmath>

#include "compiler/base/status.h"
#include "compiler/ir/scalar.h"

namespace kiln::ir {
namespace {

bool IsImm(const Expr& e) {
  return e.kind() == ExprKind::kIntImm || e.kind() == ExprKind::kFloatImm;
}

bool Commutes(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
    case BinaryOp::kMul:
    case BinaryOp::kMin:
    case BinaryOp::kMax:
    case BinaryOp::kEq:
    case BinaryOp::kNe:
    case BinaryOp::kAnd:
    case BinaryOp::kOr:
    case BinaryOp::kBitAnd:
    case BinaryOp::kBitOr:
    case BinaryOp::kBitXor:
      return true;
    default:
      return false;
  }
}

Expr FoldConstants(BinaryOp op, const Expr& a, const Expr& b, DType result) {
  if (const auto* x = a.As<IntImm>()) {
    const auto* y = b.As<IntImm>();
    if (!y) return {};
    const std::optional<int64_t> value = EvalInt(op, x->value, y->value, x->dtype);
    return value ? MakeInt(*value, result) : Expr();
  }
  const auto* x = a.As<FloatImm>();
  const auto* y = b.As<FloatImm>();
  if (!x || !y) return {};
  const std::optional<double> value = EvalFloat(op, x->value, y->value);
  if (!value) return {};
  return result.is_float() ? MakeFloat(*value, result) : MakeBool(*value != 0);
}

// x op c where c is a constant integer (commutative operators have been turned).
Expr FoldRightConstant(BinaryOp op, const Expr& x, int64_t c, const Expr& b) {
  const DType type = x.dtype();
  const int64_t all_ones = WrapInt(-1, type);
  switch (op) {
    case BinaryOp::kAdd:
    case BinaryOp::kSub:
    case BinaryOp::kShl:
    case BinaryOp::kShr:
    case BinaryOp::kBitXor:
      return c == 0 ? x : Expr();
    case BinaryOp::kMul:
      if (c == 0) return b;
      return c == 1 ? x : Expr();
    case BinaryOp::kFloorDiv:
      return c == 1 ? x : Expr();
    case BinaryOp::kFloorMod:
      return c == 1 ? MakeInt(0, type) : Expr();
    case BinaryOp::kAnd:
      return c ? x : MakeBool(false);
    case BinaryOp::kOr:
      return c ? MakeBool(true) : x;
    case BinaryOp::kBitOr:
      if (c == 0) return x;
      return c == all_ones ? b : Expr();
    case BinaryOp::kBitAnd:
      if (c == 0) return b;
      return c == all_ones ? x : Expr();
    case BinaryOp::kEq:
      if (!type.is_bool()) return {};
      return c ? x : MakeUnary(UnaryOp::kNot, x);
    case BinaryOp::kNe:
      if (!type.is_bool()) return {};
      return c ? MakeUnary(UnaryOp::kNot, x) : x;
    default:
      return {};
  }
}

// (x + c1) + c2, (x - c1) + c2, ..., (x * c1) * c2: constants meet.
Expr FoldNestedConstant(BinaryOp op, const Expr& a, int64_t c) {
  const auto* inner = a.As<Binary>();
  if (!inner) return {};
  const auto* c1 = inner->b.As<IntImm>();
  if (!c1) return {};
  const DType type = a.dtype();
  const bool wraps = type.is_uint();
  if (op == BinaryOp::kMul && inner->op == BinaryOp::kMul) {
    const int64_t product = *EvalInt(BinaryOp::kMul, c1->value, c, type);
    if (!wraps && static_cast<__int128>(c1->value) * c != product) return {};
    return MakeBinary(BinaryOp::kMul, inner->a, MakeInt(product, type));
  }
  const bool outer_additive = op == BinaryOp::kAdd || op == BinaryOp::kSub;
  const bool inner_additive = inner->op == BinaryOp::kAdd || inner->op == BinaryOp::kSub;
  if (!outer_additive || !inner_additive) return {};
  const auto negated = [&](int64_t v) { return *EvalInt(BinaryOp::kSub, 0, v, type); };
  const auto has_negative = [&](int64_t v) { return wraps || v == 0 || negated(v) != v; };
  if (!has_negative(c1->value) || !has_negative(c)) return {};
  const int64_t first = inner->op == BinaryOp::kSub ? negated(c1->value) : c1->value;
  const int64_t second = op == BinaryOp::kSub ? negated(c) : c;
  const int64_t sum = *EvalInt(BinaryOp::kAdd, first, second, type);
  if (!wraps && (sum < first) != (second < 0)) return {};  // it would wrap around
  const int64_t minus_sum = negated(sum);
  if (sum < 0 && minus_sum > 0) {
    return MakeBinary(BinaryOp::kSub, inner->a, MakeInt(minus_sum, type));
  }
  return MakeBinary(BinaryOp::kAdd, inner->a, MakeInt(sum, type));
}

Expr FoldEqualOperands(BinaryOp op, const Expr& a) {
  switch (op) {
    case BinaryOp::kMin:
    case BinaryOp::kMax:
    case BinaryOp::kAnd:
    case BinaryOp::kOr:
    case BinaryOp::kBitAnd:
    case BinaryOp::kBitOr:
      return a;
    default:
      break;
  }
  if (a.dtype().is_float()) return {};  // NaN is not equal to itself, inf - inf is NaN
  switch (op) {
    case BinaryOp::kSub:
    case BinaryOp::kBitXor:
      return MakeInt(0, a.dtype());
    case BinaryOp::kEq:
    case BinaryOp::kLe:
    case BinaryOp::kGe:
      return MakeBool(true);
    case BinaryOp::kNe:
    case BinaryOp::kLt:
    case BinaryOp::kGt:
      return MakeBool(false);
    default:
      return {};
  }
}

Expr FoldFloatIdentity(BinaryOp op, const Expr& a, const Expr& b) {
  const auto* y = b.As<FloatImm>();
  if (y && y->value == 1 && (op == BinaryOp::kMul || op == BinaryOp::kDiv)) return a;
  if (y && y->value == 0 && !std::signbit(y->value) && op == BinaryOp::kSub) return a;
  const auto* x = a.As<FloatImm>();
  if (x && x->value == 1 && op == BinaryOp::kMul) return b;
  return {};
}

Expr FoldVector(BinaryOp op, const Expr& a, const Expr& b) {
  const int lanes = a.dtype().lanes;
  const auto* x = a.As<Broadcast>();
  const auto* y = b.As<Broadcast>();
  if (x && y) return MakeBroadcast(MakeBinary(op, x->a, y->a), lanes);
  const auto* ramp = a.As<Ramp>();
  if (ramp && y) {
    if (op == BinaryOp::kAdd || op == BinaryOp::kSub) {
      return MakeRamp(MakeBinary(op, ramp->base, y->a), ramp->stride, lanes);
    }
    if (op == BinaryOp::kMul) {
      return MakeRamp(MakeBinary(op, ramp->base, y->a), MakeBinary(op, ramp->stride, y->a), lanes);
    }
    return {};
  }
  const auto* right = b.As<Ramp>();
  if (x && right) {
    if (op == BinaryOp::kAdd || op == BinaryOp::kMul) return FoldVector(op, b, a);
    return {};
  }
  if (ramp && right && (op == BinaryOp::kAdd || op == BinaryOp::kSub)) {
    return MakeRamp(MakeBinary(op, ramp->base, right->base),
                    MakeBinary(op, ramp->stride, right->stride), lanes);
  }
  return {};
}

}  // namespace

Expr FoldUnary(UnaryOp op, const Expr& a) {
  if (const auto* b = a.As<Broadcast>()) return MakeBroadcast(MakeUnary(op, b->a), a.dtype().lanes);
  if (const auto* c = a.As<IntImm>()) {
    switch (op) {
      case UnaryOp::kNeg:
        return MakeInt(*EvalInt(BinaryOp::kSub, 0, c->value, c->dtype), c->dtype);
      case UnaryOp::kNot:
        return MakeBool(c->value == 0);
      case UnaryOp::kBitNot:
        return MakeInt(WrapInt(~c->value, c->dtype), c->dtype);
    }
  }
  if (const auto* c = a.As<FloatImm>()) return MakeFloat(-c->value, c->dtype);
  if (const auto* inner = a.As<Unary>()) {
    if (inner->op == op) return inner->a;
  }
  const auto* compare = a.As<Binary>();
  if (op != UnaryOp::kNot || !compare || compare->a.dtype().is_float()) return {};
  switch (compare->op) {
    case BinaryOp::kEq:
      return MakeBinary(BinaryOp::kNe, compare->a, compare->b);
    case BinaryOp::kNe:
      return MakeBinary(BinaryOp::kEq, compare->a, compare->b);
    case BinaryOp::kLt:
      return MakeBinary(BinaryOp::kGe, compare->a, compare->b);
    case BinaryOp::kLe:
      return MakeBinary(BinaryOp::kGt, compare->a, compare->b);
    case BinaryOp::kGt:
      return MakeBinary(BinaryOp::kLe, compare->a, compare->b);
    case BinaryOp::kGe:
      return MakeBinary(BinaryOp::kLt, compare->a, compare->b);
    default:
      return {};
  }
}

Expr FoldBinary(BinaryOp op, const Expr& a, const Expr& b, DType result) {
  if (a.dtype().lanes > 1) {
    if (Expr folded = FoldVector(op, a, b); folded.defined()) return folded;
    return a.dtype().is_float()                                             ? Expr()
           : (Same(a, b) && (op == BinaryOp::kMin || op == BinaryOp::kMax)) ? a
                                                                            : Expr();
  }
  if (IsImm(a) && IsImm(b)) return FoldConstants(op, a, b, result);
  if (a.dtype().is_float()) {
    if (Expr folded = FoldFloatIdentity(op, a, b); folded.defined()) return folded;
    return Same(a, b) ? FoldEqualOperands(op, a) : Expr();
  }
  if (a.As<IntImm>() && Commutes(op)) return MakeBinary(op, b, a);
  if (const auto* c = b.As<IntImm>()) {
    if (Expr folded = FoldRightConstant(op, a, c->value, b); folded.defined()) return folded;
    if (Expr folded = FoldNestedConstant(op, a, c->value); folded.defined()) return folded;
  }
  return Same(a, b) ? FoldEqualOperands(op, a) : Expr();
}

Expr FoldCast(DType type, const Expr& a) {
  if (a.dtype() == type) return a;
  if (const auto* b = a.As<Broadcast>()) {
    return MakeBroadcast(MakeCast(type.element(), b->a), type.lanes);
  }
  if (const auto* c = a.As<IntImm>()) {
    if (type.is_float()) return MakeFloat(IntToFloat(c->value, c->dtype, type), type);
    return MakeInt(c->value, type);
  }
  if (const auto* c = a.As<FloatImm>()) {
    if (type.is_float()) return MakeFloat(c->value, type);
    return MakeInt(FloatToInt(c->value, type), type);
  }
  // A widening undone: int32 -> int64 -> int32.
  const auto* inner = a.As<Cast>();
  if (!inner || inner->a.dtype() != type) return {};
  const bool same_class = (type.code == inner->dtype.code) &&
                          (type.code == TypeCode::kInt || type.code == TypeCode::kUInt ||
                           type.code == TypeCode::kFloat);
  return same_class && inner->dtype.bits >= type.bits ? inner->a : Expr();
}

Expr FoldCall(DType type, Intrinsic op, const std::vector<Expr>& args) {
  if (args.size() != 1) return {};
  if (const auto* c = args[0].As<IntImm>()) {
    const std::optional<int64_t> value = EvalIntIntrinsic(op, c->value, c->dtype);
    return value ? MakeInt(*value, type) : Expr();
  }
  const auto* c = args[0].As<FloatImm>();
  if (!c) return {};
  const std::optional<double> value = EvalUnaryIntrinsic(op, c->value);
  if (!value) return {};
  return type.is_float() ? MakeFloat(*value, type) : MakeInt(static_cast<int64_t>(*value), type);
}

}  // namespace kiln::ir

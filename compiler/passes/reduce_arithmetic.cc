#include "compiler/passes/reduce_arithmetic.h"

#include "compiler/passes/build.h"

namespace kiln::passes {
namespace {

using ir::Expr;

DType ReduceType(DType src, DType dst) {
  const DType from = ComputeType(src), to = ComputeType(dst);
  if (to.is_float()) return to;
  if (from.is_float() || from.bits > to.bits) return from;
  return from.bits == to.bits && (src.bits >= 32 || src.code == TypeCode::kInt) ? from : to;
}

}  // namespace

ReduceArithmetic::ReduceArithmetic(ir::ReduceOp op, DType src, DType dst)
    : op_(op), type_(ReduceType(src, dst)) {}

Expr ReduceArithmetic::Identity(DType type) const {
  switch (op_) {
    case ir::ReduceOp::kMax:
      return ir::MakeBroadcast(ir::Extreme(type.element(), false), type.lanes);
    case ir::ReduceOp::kMin:
      return ir::MakeBroadcast(ir::Extreme(type.element(), true), type.lanes);
    case ir::ReduceOp::kBitAnd:
      return ir::MakeConst(-1, type);
    default:
      return ir::MakeConst(0, type);
  }
}

Expr ReduceArithmetic::Element(const Expr& loaded) const {
  const Expr value = ir::MakeCast(type_.with_lanes(loaded.dtype().lanes), loaded);
  const bool absolute =
      !type_.is_uint() && (op_ == ir::ReduceOp::kAbsMax || op_ == ir::ReduceOp::kAbsSum);
  return absolute ? ir::MakeCall(value.dtype(), ir::Intrinsic::kAbs, {value}) : value;
}

// A running maximum or minimum starts from a number and stays one, so one comparison passes over
// NaN.
Expr ReduceArithmetic::Take(const Expr& running, const Expr& next) const {
  const bool adds = op_ == ir::ReduceOp::kSum || op_ == ir::ReduceOp::kAbsSum;
  if (adds || !type_.is_float()) return Combine(running, next);
  const bool least = op_ == ir::ReduceOp::kMin;
  return ir::MakeSelect(least ? next < running : next > running, next, running);
}

Expr ReduceArithmetic::Combine(const Expr& a, const Expr& b) const {
  switch (op_) {
    case ir::ReduceOp::kMax:
    case ir::ReduceOp::kAbsMax:
      return ir::Max(a, b);
    case ir::ReduceOp::kMin:
      return ir::Min(a, b);
    case ir::ReduceOp::kBitAnd:
      return ir::MakeBinary(ir::BinaryOp::kBitAnd, a, b);
    case ir::ReduceOp::kBitOr:
      return ir::MakeBinary(ir::BinaryOp::kBitOr, a, b);
    case ir::ReduceOp::kBitXor:
      return ir::MakeBinary(ir::BinaryOp::kBitXor, a, b);
    default:
      return a + b;
  }
}

ir::Intrinsic ReduceArithmetic::Horizontal() const {
  switch (op_) {
    case ir::ReduceOp::kMax:
    case ir::ReduceOp::kAbsMax:
      return ir::Intrinsic::kReduceMax;
    case ir::ReduceOp::kMin:
      return ir::Intrinsic::kReduceMin;
    case ir::ReduceOp::kBitAnd:
      return ir::Intrinsic::kReduceAnd;
    case ir::ReduceOp::kBitOr:
      return ir::Intrinsic::kReduceOr;
    case ir::ReduceOp::kBitXor:
      return ir::Intrinsic::kReduceXor;
    default:
      return ir::Intrinsic::kReduceAdd;
  }
}

}  // namespace kiln::passes

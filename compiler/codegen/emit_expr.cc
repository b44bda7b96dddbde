#include "compiler/codegen/emit_expr.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/emit_math.h"
#include "compiler/codegen/float8.h"
#include "compiler/codegen/masked.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {
namespace {

using ir::BinaryOp;
using ir::Expr;
using ir::Intrinsic;
using llvm::Value;

constexpr uint64_t kLineBytes = 64;

bool IsNarrowFloat(DType t) { return t.is_float() && t.bits < 32; }

// Whether `e` is a number whatever its operands are.
bool NeverNan(const Expr& e) {
  if (const auto* c = e.As<ir::FloatImm>()) return !std::isnan(c->value);
  if (const auto* x = e.As<ir::Broadcast>()) return NeverNan(x->a);
  if (const auto* x = e.As<ir::Cast>()) return !x->a.dtype().is_float() || NeverNan(x->a);
  const auto* x = e.As<ir::Binary>();
  const bool picks = x != nullptr && (x->op == BinaryOp::kMin || x->op == BinaryOp::kMax);
  return picks && (NeverNan(x->a) || NeverNan(x->b));
}

// The integer that `value` is in every lane, when it is a constant.
const llvm::ConstantInt* ConstantOf(Value* value) {
  auto* c = llvm::dyn_cast<llvm::Constant>(value);
  if (c == nullptr) return nullptr;
  return llvm::dyn_cast_or_null<llvm::ConstantInt>(c->getType()->isVectorTy() ? c->getSplatValue()
                                                                              : c);
}

// -1 where an integer is negative, else 0.
Value* SignOf(llvm::IRBuilder<>& b, Value* a) {
  const auto bits = a->getType()->getScalarSizeInBits();
  return b.CreateAShr(a, llvm::ConstantInt::get(a->getType(), bits - 1));
}

// A constant, or an entry of a table of them, that is an index into so many elements.
bool IsSettled(const Expr& index, const Expr& extent) {
  const auto* cast = index.As<ir::Cast>();
  const Expr& i = cast != nullptr ? cast->a : index;
  const auto inside = [&](int64_t x) { return x >= 0 && x < ir::ConstInt(extent).value_or(0); };
  if (const auto constant = ir::ConstInt(i)) return inside(*constant);
  const auto* entry = i.As<ir::Load>();
  return entry != nullptr && entry->buffer->scope == ir::Scope::kConstant &&
         std::all_of(entry->buffer->values->begin(), entry->buffer->values->end(), inside);
}

// Whether `e` is a register of the buffer, or a choice among some, none of them missing.
bool PicksRegister(const Expr& e, const ir::BufferNode* buffer) {
  if (const auto* x = e.As<ir::Select>()) {
    return PicksRegister(x->a, buffer) && PicksRegister(x->b, buffer);
  }
  const auto* load = e.As<ir::Load>();
  if (load == nullptr || load->predicate.defined() || load->buffer.get() != buffer) return false;
  for (size_t d = 1; d < load->indices.size(); ++d) {  // dimension 0 is the thread
    if (!IsSettled(load->indices[d], buffer->shape[d])) return false;
  }
  return true;
}

// Whether both sides may be read whatever the condition is. Behind branches they would become one
// access at an index that differs, and the buffer memory.
bool PicksRegister(const ir::Select& e) {
  const Expr* side = &e.a;
  while (const auto* inner = side->As<ir::Select>()) side = &inner->a;
  const auto* load = side->As<ir::Load>();
  return load != nullptr && load->buffer->scope == ir::Scope::kRegister &&
         PicksRegister(e.a, load->buffer.get()) && PicksRegister(e.b, load->buffer.get());
}

}  // namespace

llvm::Type* ExprEmitter::RegisterType(DType type) {
  llvm::Type* scalar = nullptr;
  if (type.is_float()) {
    scalar = type.bits == 64 ? b_.getDoubleTy() : b_.getFloatTy();
  } else if (type.is_bool()) {
    scalar = b_.getInt1Ty();
  } else {
    scalar = b_.getIntNTy(type.bits);
  }
  return type.lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, type.lanes);
}

llvm::Type* ExprEmitter::StorageType(DType type) {
  llvm::Type* scalar = nullptr;
  if (type.code == TypeCode::kFloat) {
    scalar = type.bits == 64   ? b_.getDoubleTy()
             : type.bits == 32 ? b_.getFloatTy()
                               : b_.getHalfTy();
  } else {
    scalar = b_.getIntNTy(static_cast<unsigned>(type.bytes() * 8));
  }
  return type.lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, type.lanes);
}

Value* ExprEmitter::Splat(Value* value, int lanes) {
  if (lanes == 1 || value->getType()->isVectorTy()) return value;
  return b_.CreateVectorSplat(lanes, value);
}

int ExprEmitter::LanesOf(const std::vector<Expr>& indices) {
  int lanes = 1;
  for (const Expr& index : indices) lanes = std::max<int>(lanes, index.dtype().lanes);
  return lanes;
}

Value* ExprEmitter::Emit(const Expr& e) {
  switch (e.kind()) {
    case ir::ExprKind::kIntImm:
      return llvm::ConstantInt::get(RegisterType(e.dtype()), e.As<ir::IntImm>()->value, true);
    case ir::ExprKind::kFloatImm:
      return llvm::ConstantFP::get(RegisterType(e.dtype()), e.As<ir::FloatImm>()->value);
    case ir::ExprKind::kVar: {
      const auto it = vars_.find(e.get());
      KILN_CHECK(it != vars_.end());
      return it->second;
    }
    case ir::ExprKind::kUnary:
      return EmitUnary(*e.As<ir::Unary>());
    case ir::ExprKind::kBinary:
      return EmitBinary(*e.As<ir::Binary>());
    case ir::ExprKind::kSelect:
      return EmitSelect(*e.As<ir::Select>());
    case ir::ExprKind::kCast: {
      const auto* cast = e.As<ir::Cast>();
      return EmitCast(Emit(cast->a), cast->a.dtype(), cast->dtype);
    }
    case ir::ExprKind::kLoad:
      return EmitLoad(*e.As<ir::Load>());
    case ir::ExprKind::kCall:
      return EmitCall(*e.As<ir::Call>());
    case ir::ExprKind::kRamp: {
      const auto* ramp = e.As<ir::Ramp>();
      llvm::Type* type = RegisterType(e.dtype());
      Value* lanes = b_.CreateStepVector(type);
      Value* stride = Splat(Emit(ramp->stride), e.dtype().lanes);
      Value* base = Splat(Emit(ramp->base), e.dtype().lanes);
      return b_.CreateAdd(base, b_.CreateMul(lanes, stride));
    }
    case ir::ExprKind::kBroadcast:
      return Splat(Emit(e.As<ir::Broadcast>()->a), e.dtype().lanes);
  }
  return nullptr;
}

Value* ExprEmitter::EmitIndex(const Expr& e) {
  Value* value = Emit(e);
  llvm::Type* wide = b_.getInt64Ty();
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType())) {
    wide = llvm::FixedVectorType::get(wide, vector->getNumElements());
  }
  return e.dtype().is_uint() ? b_.CreateZExtOrTrunc(value, wide)
                             : b_.CreateSExtOrTrunc(value, wide);
}

Value* ExprEmitter::EmitUnary(const ir::Unary& e) {
  Value* a = Emit(e.a);
  switch (e.op) {
    case ir::UnaryOp::kNeg:
      return e.dtype.is_float() ? b_.CreateFNeg(a) : b_.CreateNeg(a);
    case ir::UnaryOp::kNot:
    case ir::UnaryOp::kBitNot:
      return b_.CreateNot(a);
  }
  return a;
}

Value* ExprEmitter::EmitBinary(const ir::Binary& e) {
  Value* a = Emit(e.a);
  Value* b = Emit(e.b);
  const DType type = e.a.dtype();
  if (type.is_float()) {
    const bool picks = e.op == BinaryOp::kMin || e.op == BinaryOp::kMax;
    if (picks && NeverNan(e.b)) return PickFloat(e.op, a, b);
    if (picks && NeverNan(e.a)) return PickFloat(e.op, b, a);
    return EmitFloatBinary(e.op, type, a, b);
  }
  return EmitIntBinary(e.op, type, a, b);
}

Value* ExprEmitter::EmitExtreme(BinaryOp op, Value* a, Value* b) {
  return b_.CreateSelect(b_.CreateFCmpUNO(b, b), a, PickFloat(op, a, b));
}

Value* ExprEmitter::PickFloat(BinaryOp op, Value* a, Value* b) {
  Value* first = op == BinaryOp::kMin ? b_.CreateFCmpOLT(a, b) : b_.CreateFCmpOGT(a, b);
  return b_.CreateSelect(first, a, b);
}

// The rounded quotient of operands just below an integer is that integer: one too much, which the
// sign of what is left tells (ir::EvalFloat).
Value* ExprEmitter::EmitFloatFloorDiv(Value* a, Value* b) {
  Value* zero = llvm::Constant::getNullValue(a->getType());
  Value* q = b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, b_.CreateFDiv(a, b));
  Value* left = b_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {b_.CreateFNeg(q), b, a});
  Value* beyond = b_.CreateSelect(b_.CreateFCmpOLT(b, zero), b_.CreateFCmpOGT(left, zero),
                                  b_.CreateFCmpOLT(left, zero));
  return b_.CreateSelect(beyond, b_.CreateFSub(q, llvm::ConstantFP::get(a->getType(), 1)), q);
}

// Exact but for the last addition, with the divisor's sign, as in Python.
Value* ExprEmitter::EmitFloatFloorMod(DType type, Value* a, Value* b) {
  Value* zero = llvm::Constant::getNullValue(a->getType());
  Value* rest = EmitMathCall(Intrinsic::kFmod, type, {a, b});
  Value* apart = b_.CreateXor(b_.CreateFCmpOLT(rest, zero), b_.CreateFCmpOLT(b, zero));
  Value* none = b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, zero, b);
  return b_.CreateSelect(b_.CreateFCmpOEQ(rest, zero), none,
                         b_.CreateSelect(apart, b_.CreateFAdd(rest, b), rest));
}

// float64 as float32 for one more rounding: to odd, so that the two round as one would.
Value* ExprEmitter::RoundToOdd(Value* value, llvm::Type* narrow) {
  llvm::Type* bits_type = narrow->getWithNewType(b_.getInt32Ty());
  const auto number = [&](int v) { return llvm::ConstantInt::getSigned(bits_type, v); };
  Value* nearest = b_.CreateFPTrunc(value, narrow);
  Value* back = b_.CreateFPExt(nearest, value->getType());
  Value* bits = b_.CreateBitCast(nearest, bits_type);
  Value* even = b_.CreateICmpEQ(b_.CreateAnd(bits, number(1)), number(0));
  const auto size = [&](Value* x) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); };
  Value* beyond = b_.CreateFCmpOGT(size(back), size(value));
  Value* odd = b_.CreateAdd(bits, b_.CreateSelect(beyond, number(-1), number(1)));
  Value* moves = b_.CreateAnd(b_.CreateFCmpONE(back, value), even);
  return b_.CreateBitCast(b_.CreateSelect(moves, odd, bits), narrow);
}

Value* ExprEmitter::EmitFloatBinary(BinaryOp op, DType type, Value* a, Value* b) {
  switch (op) {
    case BinaryOp::kAdd:
      return Round(b_.CreateFAdd(a, b), type);
    case BinaryOp::kSub:
      return Round(b_.CreateFSub(a, b), type);
    case BinaryOp::kMul:
      return Round(b_.CreateFMul(a, b), type);
    case BinaryOp::kDiv:
      return Round(Divide(a, b), type);
    case BinaryOp::kFloorDiv:
      return Round(EmitFloatFloorDiv(a, b), type);
    case BinaryOp::kFloorMod:
      return Round(EmitFloatFloorMod(type, a, b), type);
    case BinaryOp::kMin:
    case BinaryOp::kMax:
      return EmitExtreme(op, a, b);
    case BinaryOp::kEq:
      return b_.CreateFCmpOEQ(a, b);
    case BinaryOp::kNe:
      return b_.CreateFCmpUNE(a, b);
    case BinaryOp::kLt:
      return b_.CreateFCmpOLT(a, b);
    case BinaryOp::kLe:
      return b_.CreateFCmpOLE(a, b);
    case BinaryOp::kGt:
      return b_.CreateFCmpOGT(a, b);
    case BinaryOp::kGe:
      return b_.CreateFCmpOGE(a, b);
    default:
      Fail(absl::InvalidArgumentError(
          absl::StrCat("operator ", ir::Name(op), " on ", type.ToString(), " values")));
      return llvm::PoisonValue::get(a->getType());
  }
}

Value* ExprEmitter::EmitFloorDiv(DType type, Value* a, Value* b) {
  const llvm::ConstantInt* n = ConstantOf(b);
  Value* zero = llvm::Constant::getNullValue(a->getType());
  Value* one = llvm::ConstantInt::get(a->getType(), 1);
  if (type.is_uint()) {
    if (n == nullptr || n->isZero()) b = b_.CreateSelect(b_.CreateICmpEQ(b, zero), one, b);
    return b_.CreateUDiv(a, b);
  }
  if (n != nullptr && n->getValue().isStrictlyPositive() && n->getValue().isPowerOf2()) {
    return b_.CreateAShr(a, llvm::ConstantInt::get(a->getType(), n->getValue().logBase2()));
  }
  if (n == nullptr || n->isZero() || n->isMinusOne()) {
    Value* minus = b_.CreateICmpEQ(b, llvm::Constant::getAllOnesValue(a->getType()));
    Value* safe = b_.CreateSelect(b_.CreateOr(minus, b_.CreateICmpEQ(b, zero)), one, b);
    return b_.CreateSelect(minus, b_.CreateNeg(a), FloorDivBy(a, safe));
  }
  if (!n->isNegative()) return b_.CreateAdd(b_.CreateSDiv(a, b), SignOf(b_, b_.CreateSRem(a, b)));
  return FloorDivBy(a, b);
}

Value* ExprEmitter::FloorDivBy(Value* a, Value* b) {
  Value* zero = llvm::Constant::getNullValue(a->getType());
  Value* q = b_.CreateSDiv(a, b);
  Value* r = b_.CreateSub(a, b_.CreateMul(q, b));
  Value* inexact = b_.CreateICmpNE(r, zero);
  Value* signs_differ = b_.CreateICmpSLT(b_.CreateXor(r, b), zero);
  Value* adjust = b_.CreateZExt(b_.CreateAnd(inexact, signs_differ), a->getType());
  return b_.CreateSub(q, adjust);
}

Value* ExprEmitter::EmitIntBinary(BinaryOp op, DType type, Value* a, Value* b) {
  const bool is_unsigned = type.is_uint() || type.is_bool();
  const auto compare = [&](llvm::CmpInst::Predicate s, llvm::CmpInst::Predicate u) {
    return b_.CreateICmp(is_unsigned ? u : s, a, b);
  };
  using P = llvm::CmpInst;
  switch (op) {
    case BinaryOp::kAdd:
      return b_.CreateAdd(a, b, "", false, !is_unsigned);
    case BinaryOp::kSub:
      return b_.CreateSub(a, b, "", false, !is_unsigned);
    case BinaryOp::kMul:
      return b_.CreateMul(a, b, "", false, !is_unsigned);
    case BinaryOp::kFloorDiv:
      return EmitFloorDiv(type, a, b);
    case BinaryOp::kFloorMod: {
      const llvm::ConstantInt* n = ConstantOf(b);
      if (n != nullptr && n->getValue().isStrictlyPositive() && n->getValue().isPowerOf2()) {
        return b_.CreateAnd(a, llvm::ConstantInt::get(a->getType(), n->getValue() - 1));
      }
      if (n != nullptr && n->getValue().isStrictlyPositive() && !type.is_uint()) {
        Value* rest = b_.CreateSRem(a, b);
        return b_.CreateAdd(rest, b_.CreateAnd(SignOf(b_, rest), b));
      }
      return b_.CreateSub(a, b_.CreateMul(EmitFloorDiv(type, a, b), b));
    }
    case BinaryOp::kMin:
      return b_.CreateSelect(compare(P::ICMP_SLT, P::ICMP_ULT), a, b);
    case BinaryOp::kMax:
      return b_.CreateSelect(compare(P::ICMP_SGT, P::ICMP_UGT), a, b);
    case BinaryOp::kEq:
      return b_.CreateICmpEQ(a, b);
    case BinaryOp::kNe:
      return b_.CreateICmpNE(a, b);
    case BinaryOp::kLt:
      return compare(P::ICMP_SLT, P::ICMP_ULT);
    case BinaryOp::kLe:
      return compare(P::ICMP_SLE, P::ICMP_ULE);
    case BinaryOp::kGt:
      return compare(P::ICMP_SGT, P::ICMP_UGT);
    case BinaryOp::kGe:
      return compare(P::ICMP_SGE, P::ICMP_UGE);
    case BinaryOp::kAnd:
    case BinaryOp::kBitAnd:
      return b_.CreateAnd(a, b);
    case BinaryOp::kOr:
    case BinaryOp::kBitOr:
      return b_.CreateOr(a, b);
    case BinaryOp::kBitXor:
      return b_.CreateXor(a, b);
    case BinaryOp::kShl:
      return b_.CreateShl(a, b);
    case BinaryOp::kShr:
      return is_unsigned ? b_.CreateLShr(a, b) : b_.CreateAShr(a, b);
    case BinaryOp::kDiv:
      break;
  }
  Fail(absl::InternalError("true division of integers reached code generation"));
  return llvm::PoisonValue::get(a->getType());
}

// A scalar condition must not evaluate the other side when that side loads: it may be out of range.
Value* ExprEmitter::EmitSelect(const ir::Select& e) {
  bool loads = false;
  for (const Expr& side : {e.a, e.b}) {
    ir::Walk(side, [&](const Expr& x) {
      loads |= x.kind() == ir::ExprKind::kLoad;
      return !loads;
    });
  }
  Value* condition = Emit(e.condition);
  if (!loads || condition->getType()->isVectorTy() || PicksRegister(e)) {
    return b_.CreateSelect(condition, Emit(e.a), Emit(e.b));
  }
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  auto* then_block = llvm::BasicBlock::Create(context_, "select.then", function);
  auto* else_block = llvm::BasicBlock::Create(context_, "select.else", function);
  auto* join = llvm::BasicBlock::Create(context_, "select.join", function);
  b_.CreateCondBr(condition, then_block, else_block);
  b_.SetInsertPoint(then_block);
  Value* a = Emit(e.a);
  llvm::BasicBlock* then_end = b_.GetInsertBlock();
  b_.CreateBr(join);
  b_.SetInsertPoint(else_block);
  Value* b = Emit(e.b);
  llvm::BasicBlock* else_end = b_.GetInsertBlock();
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
  llvm::PHINode* phi = b_.CreatePHI(a->getType(), 2);
  phi->addIncoming(a, then_end);
  phi->addIncoming(b, else_end);
  return phi;
}

// ---- types ----

Value* ExprEmitter::BFloatBits(Value* value, int lanes) {
  llvm::Type* i32 = b_.getInt32Ty();
  llvm::Type* wide = lanes == 1 ? i32 : llvm::FixedVectorType::get(i32, lanes);
  const auto constant = [&](uint32_t v) { return llvm::ConstantInt::get(wide, v); };
  Value* bits = b_.CreateBitCast(value, wide);
  Value* odd = b_.CreateAnd(b_.CreateLShr(bits, constant(16)), constant(1));
  Value* rounded = b_.CreateAdd(bits, b_.CreateAdd(odd, constant(0x7fff)));
  Value* quiet = b_.CreateOr(bits, constant(0x00400000));
  return b_.CreateSelect(b_.CreateFCmpUNO(value, value), quiet, rounded);
}

Value* ExprEmitter::Round(Value* value, DType type) {
  if (!IsNarrowFloat(type)) return value;
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  const int lanes = vector ? vector->getNumElements() : 1;
  if (type.code == TypeCode::kBFloat) {
    Value* bits = BFloatBits(value, lanes);
    Value* kept = b_.CreateAnd(bits, llvm::ConstantInt::get(bits->getType(), 0xffff0000u));
    return b_.CreateBitCast(kept, value->getType());
  }
  if (type.bits == 8) return EmitFromFloat8(b_, EmitToFloat8(b_, value, type), type);
  const DType half = kFloat16.with_lanes(lanes);
  return b_.CreateFPExt(b_.CreateFPTrunc(value, StorageType(half)), value->getType());
}

Value* ExprEmitter::FromStorage(Value* value, DType type) {
  if (type.code == TypeCode::kBFloat) {
    llvm::Type* i32 = b_.getInt32Ty();
    llvm::Type* wide = type.lanes == 1 ? i32 : llvm::FixedVectorType::get(i32, type.lanes);
    Value* bits = b_.CreateShl(b_.CreateZExt(value, wide), llvm::ConstantInt::get(wide, 16));
    return b_.CreateBitCast(bits, RegisterType(type));
  }
  if (type.code == TypeCode::kFloat && type.bits == 16) {
    return b_.CreateFPExt(value, RegisterType(type));
  }
  if (type.is_float() && type.bits == 8) return EmitFromFloat8(b_, value, type);
  if (type.is_bool()) {
    return b_.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
  }
  return value;
}

Value* ExprEmitter::ToStorage(Value* value, DType type) {
  if (type.code == TypeCode::kBFloat) {
    Value* bits = BFloatBits(value, type.lanes);
    return b_.CreateTrunc(b_.CreateLShr(bits, llvm::ConstantInt::get(bits->getType(), 16)),
                          StorageType(type));
  }
  if (type.code == TypeCode::kFloat && type.bits == 16) {
    return b_.CreateFPTrunc(value, StorageType(type));
  }
  if (type.is_float() && type.bits == 8) return EmitToFloat8(b_, value, type);
  if (type.is_bool()) return b_.CreateZExt(value, StorageType(type));
  return value;
}

Value* ExprEmitter::EmitCast(Value* value, DType from, DType to) {
  llvm::Type* target = RegisterType(to);
  if (to.is_bool()) {
    Value* zero = llvm::Constant::getNullValue(value->getType());
    if (from.is_bool()) return value;
    return from.is_float() ? b_.CreateFCmpUNE(value, zero) : b_.CreateICmpNE(value, zero);
  }
  const bool from_unsigned = from.is_uint() || from.is_bool();
  if (to.is_float()) {
    if (from.is_float()) {
      Value* resized = from.bits == 64 && IsNarrowFloat(to) ? RoundToOdd(value, target)
                                                            : b_.CreateFPCast(value, target);
      return IsNarrowFloat(to) && !(from.element() == to.element()) ? Round(resized, to) : resized;
    }
    Value* converted =
        from_unsigned ? b_.CreateUIToFP(value, target) : b_.CreateSIToFP(value, target);
    return Round(converted, to);
  }
  if (from.is_float()) {  // saturating, as ir::FloatToInt
    const auto id = to.is_uint() ? llvm::Intrinsic::fptoui_sat : llvm::Intrinsic::fptosi_sat;
    return b_.CreateIntrinsic(id, {target, value->getType()}, {value});
  }
  return b_.CreateIntCast(value, target, !from_unsigned);
}

Value* ExprEmitter::Reinterpret(const ir::Call& e) {
  const DType from = e.args[0].dtype();
  Value* raw = ToStorage(Emit(e.args[0]), from);
  return FromStorage(b_.CreateBitCast(raw, StorageType(e.dtype)), e.dtype);
}

// ---- calls ----

Value* ExprEmitter::EmitReduce(const ir::Call& e) {
  Value* v = Emit(e.args[0]);
  const DType type = e.args[0].dtype();
  if (e.op == Intrinsic::kReduceAdd) {
    if (!type.is_float()) return b_.CreateAddReduce(v);
    llvm::IRBuilderBase::FastMathFlagGuard guard(b_);
    llvm::FastMathFlags flags;
    flags.setAllowReassoc();
    b_.setFastMathFlags(flags);
    return b_.CreateFAddReduce(llvm::ConstantFP::getNegativeZero(v->getType()->getScalarType()), v);
  }
  if (e.op == Intrinsic::kReduceAnd) return b_.CreateAndReduce(v);
  if (e.op == Intrinsic::kReduceOr) return b_.CreateOrReduce(v);
  if (e.op == Intrinsic::kReduceXor) return b_.CreateXorReduce(v);
  const BinaryOp op = e.op == Intrinsic::kReduceMax ? BinaryOp::kMax : BinaryOp::kMin;
  for (int width = type.lanes; width > 1; width /= 2) {
    if (width % 2 != 0) {
      Fail(absl::InternalError("horizontal max of a vector that is not a power of two"));
      break;
    }
    std::vector<int> low, high;
    for (int i = 0; i < width / 2; ++i) {
      low.push_back(i);
      high.push_back(i + width / 2);
    }
    Value* a = b_.CreateShuffleVector(v, low);
    Value* b = b_.CreateShuffleVector(v, high);
    v = type.is_float() ? PickFloat(op, a, b) : EmitIntBinary(op, type.element(), a, b);
  }
  return b_.CreateExtractElement(v, uint64_t{0});
}

Value* ExprEmitter::EmitCall(const ir::Call& e) {
  switch (e.op) {
    case Intrinsic::kReduceAdd:
    case Intrinsic::kReduceMax:
    case Intrinsic::kReduceMin:
    case Intrinsic::kReduceAnd:
    case Intrinsic::kReduceOr:
    case Intrinsic::kReduceXor:
      return EmitReduce(e);
    case Intrinsic::kReinterpret:
      return Reinterpret(e);
    case Intrinsic::kPrefetch: {
      const auto* load = e.args[0].As<ir::Load>();
      b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                         {EmitAddress(load->buffer, load->indices), b_.getInt32(0), b_.getInt32(2),
                          b_.getInt32(1)});
      return nullptr;
    }
    default:
      break;
  }
  std::vector<Value*> args;
  for (const Expr& arg : e.args) args.push_back(Emit(arg));
  const DType type = e.args[0].dtype();
  if (e.op == Intrinsic::kAbs && !type.is_float()) {
    if (type.is_uint() || type.is_bool()) return args[0];
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, args[0], b_.getFalse());
  }
  if (e.op == Intrinsic::kPopCount) {
    return b_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, args[0]);
  }
  if (e.op == Intrinsic::kClz) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, args[0], b_.getFalse());
  }
  if (!type.is_float()) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat("T.", ir::Name(e.op), " on ", type.ToString(), " values; cast to a float")));
    return llvm::PoisonValue::get(RegisterType(e.dtype));
  }
  const auto unary = [&](llvm::Intrinsic::ID id) { return b_.CreateUnaryIntrinsic(id, args[0]); };
  Value* infinity = llvm::ConstantFP::getInfinity(args[0]->getType());
  switch (e.op) {
    case Intrinsic::kAbs:
      return unary(llvm::Intrinsic::fabs);
    case Intrinsic::kFloor:
      return unary(llvm::Intrinsic::floor);
    case Intrinsic::kCeil:
      return unary(llvm::Intrinsic::ceil);
    case Intrinsic::kRound:
      return unary(llvm::Intrinsic::roundeven);
    case Intrinsic::kTrunc:
      return unary(llvm::Intrinsic::trunc);
    case Intrinsic::kFma:
      return Round(b_.CreateIntrinsic(llvm::Intrinsic::fma, {args[0]->getType()}, args), type);
    case Intrinsic::kIsNan:
      return b_.CreateFCmpUNO(args[0], args[0]);
    case Intrinsic::kIsInf:
      return b_.CreateFCmpOEQ(unary(llvm::Intrinsic::fabs), infinity);
    case Intrinsic::kIsFinite:
      return b_.CreateFCmpOLT(unary(llvm::Intrinsic::fabs), infinity);
    default:
      return Round(EmitMathCall(e.op, type, args), type);
  }
}

Value* ExprEmitter::Unsupported(Intrinsic op, DType type) {
  Fail(absl::UnimplementedError(absl::StrCat("T.", ir::Name(op), " of ", type.ToString(),
                                             " values has no ", target(), " lowering")));
  return llvm::PoisonValue::get(RegisterType(type));
}

Value* ExprEmitter::EmitMathCall(Intrinsic op, DType type, llvm::ArrayRef<Value*> args) {
  const bool wide = type.bits == 64;
  const auto own = [&](Value* (*emit)(llvm::IRBuilder<>&, Value*), const char* libm) {
    return wide ? EmitLibm(b_, libm, args) : emit(b_, args[0]);
  };

  switch (op) {
    case Intrinsic::kExp:
      return own(EmitExp, "exp");
    case Intrinsic::kExp2:
      return own(EmitExp2, "exp2");
    case Intrinsic::kLog:
      return own(EmitLog, "log");
    case Intrinsic::kLog2:
      return own(EmitLog2, "log2");
    case Intrinsic::kTanh:
      return own(EmitTanh, "tanh");
    case Intrinsic::kSqrt:
      return EmitSqrt(b_, args[0]);
    case Intrinsic::kRsqrt:
      return EmitRsqrt(b_, args[0]);
    case Intrinsic::kSigmoid: {
      if (!wide) return EmitSigmoid(b_, args[0]);
      Value* one = llvm::ConstantFP::get(args[0]->getType(), 1.0);
      return b_.CreateFDiv(one, b_.CreateFAdd(one, EmitLibm(b_, "exp", {b_.CreateFNeg(args[0])})));
    }
    case Intrinsic::kSin:
      return own(EmitSin, "sin");
    case Intrinsic::kCos:
      return own(EmitCos, "cos");
    case Intrinsic::kErf:
      return own(EmitErf, "erf");
    case Intrinsic::kPow:
      return wide ? EmitLibm(b_, "pow", args) : EmitPow(b_, args[0], args[1]);
    case Intrinsic::kExp10:
      return own(EmitExp10, "exp10");
    case Intrinsic::kLog1p:
      return own(EmitLog1p, "log1p");
    case Intrinsic::kSinh:
      return own(EmitSinh, "sinh");
    case Intrinsic::kCosh:
      return own(EmitCosh, "cosh");
    case Intrinsic::kAsin:
      return own(EmitAsin, "asin");
    case Intrinsic::kAcos:
      return own(EmitAcos, "acos");
    case Intrinsic::kAtan:
      return own(EmitAtan, "atan");
    case Intrinsic::kAsinh:
      return own(EmitAsinh, "asinh");
    case Intrinsic::kAcosh:
      return own(EmitAcosh, "acosh");
    case Intrinsic::kAtanh:
      return own(EmitAtanh, "atanh");
    case Intrinsic::kAtan2:
      return wide ? EmitLibm(b_, "atan2", args) : EmitAtan2(b_, args[0], args[1]);
    case Intrinsic::kFmod:
      return EmitLibm(b_, wide ? "fmod" : "fmodf", args);
    default:
      return Unsupported(op, type);
  }
}

// ---- memory ----

bool ExprEmitter::IsContiguous(const ir::Buffer& buffer, const std::vector<Expr>& indices,
                               std::vector<Expr>* first) const {
  for (size_t d = 0; d + 1 < indices.size(); ++d) {
    if (!indices[d].dtype().is_scalar()) return false;
  }
  const auto* ramp = indices.back().As<ir::Ramp>();
  if (ramp == nullptr || !ir::IsConst(ramp->stride, 1)) return false;
  const auto* stride = llvm::dyn_cast<llvm::ConstantInt>(PlaceOf(buffer).strides.back());
  if (stride == nullptr || !stride->isOne()) return false;
  *first = indices;
  first->back() = ramp->base;
  return true;
}

Value* ExprEmitter::Offset(const ir::Buffer& buffer, const std::vector<Expr>& indices, int lanes) {
  const Place& place = PlaceOf(buffer);
  Value* sum = nullptr;
  for (size_t d = buffer->table ? 1 : 0; d < indices.size(); ++d) {
    Value* term = b_.CreateMul(Splat(EmitIndex(indices[d]), lanes), Splat(place.strides[d], lanes));
    sum = sum ? b_.CreateAdd(sum, term) : term;
  }
  return sum ? sum : b_.getInt64(0);
}

Value* ExprEmitter::EmitAddress(const ir::Buffer& buffer, const std::vector<Expr>& indices) {
  return b_.CreateGEP(StorageType(buffer->dtype), BaseOf(buffer, indices),
                      Offset(buffer, indices, 1));
}

// Whoever asks for an address outside of the table does not use it (guards are around the access),
// but may ask: it is that of some tensor.
Value* ExprEmitter::BaseOf(const ir::Buffer& buffer, const std::vector<Expr>& indices) {
  Value* base = PlaceOf(buffer).base;
  if (!buffer->table) return base;
  Value* index = EmitIndex(indices[0]);
  const int lanes = indices[0].dtype().lanes;
  Value* last = b_.CreateSub(EmitIndex(buffer->shape[0]), b_.getInt64(1));
  index = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, index, Splat(last, lanes));
  index = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, index, Splat(b_.getInt64(0), lanes));
  Value* entries = b_.CreateGEP(base->getType(), base, index);
  const llvm::Align align(sizeof(int64_t));
  if (lanes == 1) {
    llvm::LoadInst* entry = b_.CreateAlignedLoad(base->getType(), entries, align);
    entry->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
    return entry;
  }
  return b_.CreateMaskedGather(llvm::FixedVectorType::get(base->getType(), lanes), entries, align);
}

Value* ExprEmitter::EmitLoad(const ir::Load& e) {
  const int lanes = LanesOf(e.indices);
  if (lanes == 1 && e.predicate.defined()) {
    // One guarded element: branch around the access.
    const Expr plain = ir::MakeLoad(e.buffer, e.indices);
    return Emit(Expr(std::make_shared<const ir::Select>(e.dtype, e.predicate, plain,
                                                        ir::MakeConst(0, e.dtype))));
  }
  return FromStorage(EmitRawLoad(e), e.buffer->dtype.with_lanes(lanes));
}

Value* ExprEmitter::EmitStored(const Expr& e, int lanes) {
  const auto* load = e.As<ir::Load>();
  if (load != nullptr && e.dtype().lanes == lanes && (lanes > 1 || !load->predicate.defined())) {
    return EmitRawLoad(*load);
  }
  return ToStorage(Splat(Emit(e), lanes), e.dtype().with_lanes(lanes));
}

Value* ExprEmitter::EmitRawLoad(const ir::Load& e) {
  if (Value* named = EmitNamed(e)) return named;
  const int lanes = LanesOf(e.indices);
  llvm::Type* storage = StorageType(e.buffer->dtype.with_lanes(lanes));
  const llvm::Align align = AlignOf(e.buffer, e.indices);
  if (lanes == 1) return EmitPlainLoad(e.buffer, e.indices, storage, align);
  Value* zero = llvm::Constant::getNullValue(storage);
  Value* mask = e.predicate.defined() ? Splat(Emit(e.predicate), lanes) : nullptr;
  std::vector<Expr> first;
  if (IsContiguous(e.buffer, e.indices, &first)) {
    if (mask == nullptr) return EmitPlainLoad(e.buffer, first, storage, align);
    return EmitMaskedLoad(b_, storage, EmitAddress(e.buffer, first), align, mask);
  }
  Value* addresses = b_.CreateGEP(StorageType(e.buffer->dtype), BaseOf(e.buffer, e.indices),
                                  Offset(e.buffer, e.indices, lanes));
  if (mask == nullptr)
    mask = llvm::Constant::getAllOnesValue(llvm::FixedVectorType::get(b_.getInt1Ty(), lanes));
  return b_.CreateMaskedGather(storage, addresses, align, mask, zero);
}

Value* ExprEmitter::EmitPlainLoad(const ir::Buffer& buffer, const std::vector<Expr>& first,
                                  llvm::Type* storage, llvm::Align align) {
  llvm::LoadInst* load = b_.CreateAlignedLoad(storage, EmitAddress(buffer, first), align);
  OnAccess(*load, buffer);
  return load;
}

void ExprEmitter::EmitStore(const ir::Buffer& buffer, const std::vector<Expr>& indices,
                            const Expr& source, const Expr& predicate, bool past_caches) {
  const int lanes = LanesOf(indices);
  const llvm::Align align = AlignOf(buffer, indices);
  Value* value = EmitStored(source, lanes);
  std::vector<Expr> first;
  const bool contiguous = lanes == 1 || IsContiguous(buffer, indices, &first);
  Value* mask = predicate.defined() ? Splat(Emit(predicate), lanes) : nullptr;
  if (lanes == 1) {
    KILN_CHECK(mask == nullptr);  // the statement emitter branches
    OnAccess(*b_.CreateAlignedStore(value, EmitAddress(buffer, indices), align), buffer);
  } else if (contiguous) {
    Value* address = EmitAddress(buffer, first);
    if (mask) {
      EmitMaskedStore(b_, value, address, align, mask);
    } else if (past_caches) {
      const uint64_t bytes = buffer->dtype.bytes() * static_cast<uint64_t>(lanes);
      llvm::StoreInst* store =
          b_.CreateAlignedStore(value, address, llvm::Align(std::min(bytes, kLineBytes)));
      auto* one = llvm::ConstantAsMetadata::get(b_.getInt32(1));
      store->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(context_, one));
    } else {
      OnAccess(*b_.CreateAlignedStore(value, address, align), buffer);
    }
  } else {
    Value* addresses = b_.CreateGEP(StorageType(buffer->dtype), BaseOf(buffer, indices),
                                    Offset(buffer, indices, lanes));
    if (mask == nullptr)
      mask = llvm::Constant::getAllOnesValue(llvm::FixedVectorType::get(b_.getInt1Ty(), lanes));
    b_.CreateMaskedScatter(value, addresses, align, mask);
  }
}

}  // namespace kiln::codegen

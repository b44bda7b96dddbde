#include "compiler/ir/nibbles.h"

#include <algorithm>

#include "compiler/ir/analysis.h"

namespace kiln::ir {
namespace {

constexpr int64_t kLow = 15, kSign = 8;

Expr Bits(BinaryOp op, const Expr& a, int64_t b) { return MakeBinary(op, a, MakeInt(b)); }

// The four low bits as a signed number.
Expr Signed(const Expr& code) { return Bits(BinaryOp::kBitXor, code, kSign) - MakeInt(kSign); }

}  // namespace

DType Unpacked(DType type) { return {type.code, 8}; }

Expr CodeOf(const Expr& value, DType type) {
  if (type.is_float()) {
    return MakeCast(kInt32, MakeCall(kUInt8, Intrinsic::kReinterpret, {value}));
  }
  const Expr wide = MakeCast(kInt32, value);
  return type.is_uint() ? wide : Bits(BinaryOp::kBitAnd, wide, kLow);
}

Expr FromCode(const Expr& code, DType type) {
  if (type.is_float()) {
    return MakeCall(Unpacked(type), Intrinsic::kReinterpret, {MakeCast(kUInt8, code)});
  }
  return MakeCast(Unpacked(type), type.is_uint() ? code : Signed(code));
}

Expr ToPacked(const Expr& value, DType type) {
  if (type.is_float()) return MakeCast(Unpacked(type), value);
  const Expr wide = MakeCast(kInt32, value);
  if (value.dtype().is_float()) {
    const int64_t least = type.is_uint() ? 0 : -kSign;
    return MakeCast(Unpacked(type), Min(Max(wide, MakeInt(least)), MakeInt(least + kLow)));
  }
  return FromCode(Bits(BinaryOp::kBitAnd, wide, kLow), type);
}

Parity::Kind Parity::KindOf(const Expr& e) {
  const LinearForm form = Linearize(e);
  bool odd = form.constant % 2 != 0;
  for (const auto& [atom, factor] : form.terms) {
    if (factor % 2 == 0) continue;
    const Kind kind = KindOfAtom(atom);
    if (kind == Kind::kUnknown) return kind;
    odd ^= kind == Kind::kOdd;
  }
  return odd ? Kind::kOdd : Kind::kEven;
}

Parity::Kind Parity::KindOfAtom(const Expr& e) {
  if (e.As<Var>() != nullptr) {
    const auto is = [&](const Expr& v) { return v.same_as(e); };
    if (std::none_of(open_.begin(), open_.end(), is)) return Kind::kUnknown;
    if (std::none_of(assumed_.begin(), assumed_.end(), is)) assumed_.push_back(e);
    return Kind::kEven;
  }
  if (const auto* cast = e.As<Cast>(); cast != nullptr && cast->a.dtype().is_int()) {
    return KindOf(cast->a);
  }
  if (const auto* select = e.As<Select>()) {
    const Kind a = KindOf(select->a);
    return a == KindOf(select->b) ? a : Kind::kUnknown;
  }
  const auto* binary = e.As<Binary>();
  if (binary == nullptr) return Kind::kUnknown;
  const Kind a = KindOf(binary->a), b = KindOf(binary->b);
  switch (binary->op) {
    case BinaryOp::kMul:
    case BinaryOp::kBitAnd:
      if (a == Kind::kEven || b == Kind::kEven) return Kind::kEven;
      return a == Kind::kOdd && b == Kind::kOdd ? Kind::kOdd : Kind::kUnknown;
    case BinaryOp::kMin:
    case BinaryOp::kMax:
      return a == b ? a : Kind::kUnknown;
    case BinaryOp::kFloorMod:  // a - b * n
      return b == Kind::kEven ? a : Kind::kUnknown;
    case BinaryOp::kShl: {
      const auto count = ConstInt(binary->b);
      return count && *count > 0 ? Kind::kEven : Kind::kUnknown;
    }
    default:
      return Kind::kUnknown;
  }
}

bool Parity::IsEven(const Expr& e) { return KindOf(e) == Kind::kEven; }
bool Parity::IsOdd(const Expr& e) { return KindOf(e) == Kind::kOdd; }

Expr Parity::Half(const Expr& e) {
  LinearForm form = Linearize(e);
  LinearForm half;
  Expr rest;  // of the terms that are even for a reason of their own
  if (form.constant % 2 != 0) return FloorHalf(e);
  half.constant = form.constant / 2;
  for (const auto& [atom, factor] : form.terms) {
    if (factor % 2 == 0) {
      half.terms.push_back({atom, factor / 2});
      continue;
    }
    const Expr part = FloorHalf(atom) * MakeInt(factor, e.dtype());
    rest = rest.defined() ? rest + part : part;
  }
  const Expr known = FromLinear(half, e.dtype());
  return rest.defined() ? known + rest : known;
}

Expr Parity::FloorHalf(const Expr& e) { return FloorDiv(e, MakeInt(2, e.dtype())); }

bool Parity::HoldAlike(const Expr& low, const Expr& high) {
  if (Same(low, high)) return true;
  const auto *a = low.As<Binary>(), *b = high.As<Binary>();
  if (a == nullptr || b == nullptr || a->op != b->op) return false;
  if (a->op == BinaryOp::kAnd) return HoldAlike(a->a, b->a) && HoldAlike(a->b, b->b);
  const Expr first = PositiveForm(low), second = PositiveForm(high);
  if (!first.defined() || !second.defined()) return false;
  const LinearForm apart = Linearize(second - first);
  if (!apart.terms.empty()) return false;
  // n > 0 and n - 1 > 0 differ at 1 alone, n > 0 and n + 1 > 0 at 0.
  return apart.constant == 0 || (apart.constant == -1 && IsEven(first)) ||
         (apart.constant == 1 && IsOdd(first));
}

}  // namespace kiln::ir

#include "compiler/ir/linear.h"

#include <algorithm>

#include "compiler/base/status.h"

namespace kiln::ir {
namespace {

bool AddTerm(const Expr& atom, int64_t coefficient, LinearForm* form) {
  for (auto& [known, k] : form->terms) {
    if (!Same(known, atom)) continue;
    const std::optional<int64_t> sum = CheckedAdd(k, coefficient);
    if (!sum) return false;
    k = *sum;
    return true;
  }
  form->terms.emplace_back(atom, coefficient);
  return true;
}

void DropZeros(LinearForm* form) {
  form->terms.erase(std::remove_if(form->terms.begin(), form->terms.end(),
                                   [](const auto& term) { return term.second == 0; }),
                    form->terms.end());
}

bool Accumulate(const Expr& e, int64_t scale, LinearForm* form);

bool AccumulateBinary(const Expr& e, const Binary& x, int64_t scale, LinearForm* form) {
  switch (x.op) {
    case BinaryOp::kAdd:
      return Accumulate(x.a, scale, form) && Accumulate(x.b, scale, form);
    case BinaryOp::kSub: {
      const std::optional<int64_t> minus = CheckedMul(scale, -1);
      return minus && Accumulate(x.a, scale, form) && Accumulate(x.b, *minus, form);
    }
    case BinaryOp::kMul: {
      const Expr& factor = x.b.As<IntImm>() ? x.b : x.a;
      const std::optional<int64_t> constant = ConstInt(factor);
      if (!constant) return AddTerm(e, scale, form);
      const std::optional<int64_t> product = CheckedMul(scale, *constant);
      return product && Accumulate(x.b.As<IntImm>() ? x.a : x.b, *product, form);
    }
    case BinaryOp::kShl: {
      const std::optional<int64_t> bits = ConstInt(x.b);
      if (!bits || *bits < 0 || *bits > 30) return AddTerm(e, scale, form);
      const std::optional<int64_t> product = CheckedMul(scale, int64_t{1} << *bits);
      return product && Accumulate(x.a, *product, form);
    }
    default:
      return AddTerm(e, scale, form);
  }
}

bool Accumulate(const Expr& e, int64_t scale, LinearForm* form) {
  if (const auto* c = e.As<IntImm>()) {
    const std::optional<int64_t> product = CheckedMul(c->value, scale);
    const std::optional<int64_t> sum = product ? CheckedAdd(form->constant, *product) : product;
    if (sum) form->constant = *sum;
    return sum.has_value();
  }
  if (const auto* x = e.As<Binary>()) return AccumulateBinary(e, *x, scale, form);
  if (const auto* x = e.As<Unary>(); x && x->op == UnaryOp::kNeg) {
    const std::optional<int64_t> minus = CheckedMul(scale, -1);
    return minus && Accumulate(x->a, *minus, form);
  }
  const auto* cast = e.As<Cast>();
  if (cast && IsIndex(cast->a.dtype()) && cast->a.dtype().bits <= e.dtype().bits) {
    return Accumulate(cast->a, scale, form);
  }
  return AddTerm(e, scale, form);
}

bool IsDivModPair(const std::pair<Expr, int64_t>& div, const std::pair<Expr, int64_t>& mod) {
  const auto* d = div.first.As<Binary>();
  const auto* m = mod.first.As<Binary>();
  if (!d || !m || d->op != BinaryOp::kFloorDiv || m->op != BinaryOp::kFloorMod) return false;
  const std::optional<int64_t> c = ConstInt(d->b);
  if (!c || !Same(d->b, m->b) || !Same(d->a, m->a)) return false;
  return CheckedMul(mod.second, *c) == div.second;
}

}  // namespace

std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

int64_t FloorDivide(int64_t a, int64_t b) {
  KILN_CHECK(b > 0);
  return a / b - (a % b < 0);
}

bool IsIndex(DType type) {
  return type.code == TypeCode::kInt && (type.bits == 32 || type.bits == 64) && type.is_scalar();
}

bool AddScaled(const LinearForm& form, int64_t scale, LinearForm* into) {
  const std::optional<int64_t> product = CheckedMul(form.constant, scale);
  const std::optional<int64_t> sum = product ? CheckedAdd(into->constant, *product) : product;
  if (!sum) return false;
  into->constant = *sum;
  for (const auto& [atom, k] : form.terms) {
    const std::optional<int64_t> scaled = CheckedMul(k, scale);
    if (!scaled || !AddTerm(atom, *scaled, into)) return false;
  }
  DropZeros(into);
  return true;
}

void JoinDivMod(LinearForm* form) {
  for (size_t i = 0; i < form->terms.size(); ++i) {
    for (size_t j = 0; j < form->terms.size(); ++j) {
      if (!IsDivModPair(form->terms[i], form->terms[j])) continue;
      LinearForm joined = *form;
      const Expr x = form->terms[j].first.As<Binary>()->a;
      const int64_t k = form->terms[j].second;
      joined.terms.erase(joined.terms.begin() + static_cast<int64_t>(std::max(i, j)));
      joined.terms.erase(joined.terms.begin() + static_cast<int64_t>(std::min(i, j)));
      if (!AddScaled(Linearize(x), k, &joined)) return;
      *form = std::move(joined);
      return JoinDivMod(form);
    }
  }
}

int64_t LinearForm::CoefficientOf(const Expr& var) const {
  for (const auto& [atom, k] : terms) {
    if (Same(atom, var)) return k;
  }
  return 0;
}

void LinearForm::Drop(const Expr& var) {
  terms.erase(std::remove_if(terms.begin(), terms.end(),
                             [&](const auto& term) { return Same(term.first, var); }),
              terms.end());
}

Bounds IndexBounds(DType type) {
  KILN_CHECK(IsIndex(type));
  return type.bits == 64 ? Bounds{INT64_MIN, INT64_MAX} : Bounds{INT32_MIN, INT32_MAX};
}

bool Fits(const Bounds& values, DType type) {
  if (type.is_bool()) return values.min >= 0 && values.max <= 1;
  if (type.bits == 64) return type.code == TypeCode::kInt || values.min >= 0;
  if (type.is_uint()) return values.min >= 0 && values.max < (int64_t{1} << type.bits);
  const int64_t end = int64_t{1} << (type.bits - 1);
  return values.min >= -end && values.max < end;
}

LinearForm Linearize(const Expr& e) {
  LinearForm form;
  if (!IsIndex(e.dtype()) || !Accumulate(e, 1, &form)) {
    form = {};
    form.terms.emplace_back(e, 1);
  }
  DropZeros(&form);
  return form;
}

Expr FromLinear(const LinearForm& form, DType type) {
  Expr sum;
  const auto add = [&](const Expr& atom, int64_t k) {
    const Expr scaled = MakeBinary(BinaryOp::kMul, MakeCast(type, atom), MakeInt(k, type));
    sum = sum.defined() ? MakeBinary(BinaryOp::kAdd, sum, scaled) : scaled;
  };
  for (const auto& [atom, k] : form.terms) {
    if (k > 0) add(atom, k);
  }
  for (const auto& [atom, k] : form.terms) {
    if (k >= 0) continue;
    if (!sum.defined() || k == INT64_MIN) {
      add(atom, k);
    } else {
      sum = MakeBinary(BinaryOp::kSub, sum,
                       MakeBinary(BinaryOp::kMul, MakeCast(type, atom), MakeInt(-k, type)));
    }
  }
  if (!sum.defined()) return MakeInt(form.constant, type);
  if (form.constant < 0 && form.constant != INT64_MIN) {
    return MakeBinary(BinaryOp::kSub, sum, MakeInt(-form.constant, type));
  }
  return MakeBinary(BinaryOp::kAdd, sum, MakeInt(form.constant, type));
}

}  // namespace kiln::ir

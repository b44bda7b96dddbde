#include "compiler/lang/turn_cycle.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"

namespace kiln::lang {
namespace {

using ir::BinaryOp;
using ir::Expr;

constexpr int64_t kMost = 1 << 12;  // of a period
constexpr int64_t kFar = 1 << 20;   // of a change, a factor

// The cycle of f(e) where f takes numbers that differ by multiples of `modulus` to the same number.
std::optional<Cycle> Modulo(const Cycle& e, int64_t modulus) {
  const int64_t times = modulus / std::gcd(e.change, modulus);
  if (times > kMost / e.period) return std::nullopt;
  return Cycle{e.period * times, 0};
}

std::optional<Cycle> Divided(const Cycle& e, int64_t divisor) {
  const int64_t times = divisor / std::gcd(e.change, divisor);
  if (times > kMost / e.period) return std::nullopt;
  return Cycle{e.period * times, e.change * times / divisor};
}

std::optional<Cycle> Scaled(const Cycle& e, int64_t factor) {
  if (std::abs(factor) > kFar) return std::nullopt;
  return Cycle{e.period, e.change * factor};
}

bool IsComparison(BinaryOp op) {
  return op == BinaryOp::kEq || op == BinaryOp::kNe || op == BinaryOp::kLt || op == BinaryOp::kLe ||
         op == BinaryOp::kGt || op == BinaryOp::kGe;
}

}  // namespace

std::optional<int64_t> CommonPeriod(int64_t a, int64_t b) {
  const int64_t common = std::lcm(a, b);
  return common > kMost ? std::nullopt : std::optional<int64_t>(common);
}

std::optional<Cycle> CycleFinder::Of(const Expr& e) {
  if (ir::Same(e, x_)) return Cycle{1, 1};
  if (const auto* cast = e.As<ir::Cast>()) {
    if (!cast->a.dtype().is_int() && !cast->a.dtype().is_bool()) return std::nullopt;
    return Of(cast->a);
  }
  if (const auto* unary = e.As<ir::Unary>()) {
    const std::optional<Cycle> a = Of(unary->a);
    if (!a || (unary->op != ir::UnaryOp::kNeg && a->change != 0)) return std::nullopt;
    return Scaled(*a, unary->op == ir::UnaryOp::kNeg ? -1 : 1);
  }
  if (const auto* binary = e.As<ir::Binary>()) return OfBinary(*binary);
  if (const auto* select = e.As<ir::Select>()) {
    Cycle all;
    for (const Expr& part : {select->condition, select->a, select->b}) {
      const std::optional<Cycle> one = Of(part);
      if (!one || one->change != 0) return std::nullopt;
      const std::optional<int64_t> period = CommonPeriod(all.period, one->period);
      if (!period) return std::nullopt;
      all.period = *period;
    }
    return all;
  }
  bool uses = false;
  ir::Walk(e, [&](const Expr& part) {
    uses = uses || ir::Same(part, x_);
    return !uses;
  });
  return uses ? std::nullopt : std::optional<Cycle>(Cycle{});
}

std::optional<Cycle> CycleFinder::OfBinary(const ir::Binary& e) {
  const std::optional<Cycle> a = Of(e.a), b = Of(e.b);
  if (!a || !b) return std::nullopt;
  const std::optional<int64_t> period = CommonPeriod(a->period, b->period);
  if (!period) return std::nullopt;
  const int64_t from_a = a->change * (*period / a->period);
  const int64_t from_b = b->change * (*period / b->period);
  if (std::abs(from_a) > kFar || std::abs(from_b) > kFar) return std::nullopt;
  if (e.op == BinaryOp::kAdd) return Cycle{*period, from_a + from_b};
  if (e.op == BinaryOp::kSub) return Cycle{*period, from_a - from_b};
  if (from_a == 0 && from_b == 0) return Cycle{*period, 0};
  if (IsComparison(e.op)) return OfComparison(e);
  const std::optional<int64_t> right = ir::ConstInt(e.b), left = ir::ConstInt(e.a);
  if (e.op == BinaryOp::kMul) {
    return right ? Scaled(*a, *right) : left ? Scaled(*b, *left) : std::nullopt;
  }
  if (!right || *right < 0) return std::nullopt;
  switch (e.op) {
    case BinaryOp::kFloorDiv:
      return *right == 0 ? std::nullopt : Divided(*a, *right);
    case BinaryOp::kFloorMod:
      return *right == 0 ? std::nullopt : Modulo(*a, *right);
    case BinaryOp::kShr:
      return *right > 20 ? std::nullopt : Divided(*a, int64_t{1} << *right);
    case BinaryOp::kShl:
      return *right > 20 ? std::nullopt : Scaled(*a, int64_t{1} << *right);
    case BinaryOp::kBitAnd: {
      int64_t modulus = 1;
      while (modulus <= *right && modulus < kFar) modulus *= 2;
      return modulus <= *right ? std::nullopt : Modulo(*a, modulus);
    }
    default:
      return std::nullopt;
  }
}

// Of x and the end, or one of them, with factors that make it turn once only.
std::optional<Cycle> CycleFinder::OfComparison(const ir::Binary& e) {
  const ir::LinearForm form = ir::Linearize(e.a - e.b);
  int64_t of_x = 0, of_end = 0;
  for (const auto& [atom, factor] : form.terms) {
    if (ir::Same(atom, x_)) {
      of_x = factor;
    } else if (end_.defined() && ir::Same(atom, end_)) {
      of_end = factor;
    } else {
      return std::nullopt;
    }
  }
  if (of_x == 0 || (of_end != 0 && of_end != -of_x)) return std::nullopt;
  if (std::abs(form.constant) > kMost) return std::nullopt;
  margin_ = std::max(margin_, std::abs(form.constant / of_x) + 1);
  return Cycle{};
}

}  // namespace kiln::lang

#include "tests/property/ir/random_expr.h"

namespace kiln::ir::testing {
namespace {

// Rounds the exact quotient down: truncation differs from it by one when the signs differ.
int64_t Floor(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

std::optional<int64_t> Apply(BinaryOp op, int64_t a, int64_t b) {
  switch (op) {
    case BinaryOp::kAdd:
      return a + b;
    case BinaryOp::kSub:
      return a - b;
    case BinaryOp::kMul:
      return a * b;
    case BinaryOp::kFloorDiv:
      if (b == 0) return std::nullopt;
      return Floor(a, b);
    case BinaryOp::kFloorMod:
      if (b == 0) return std::nullopt;
      return a - b * Floor(a, b);
    case BinaryOp::kMin:
      return a < b ? a : b;
    case BinaryOp::kMax:
      return a > b ? a : b;
    case BinaryOp::kEq:
      return a == b;
    case BinaryOp::kNe:
      return a != b;
    case BinaryOp::kLt:
      return a < b;
    case BinaryOp::kLe:
      return a <= b;
    case BinaryOp::kGt:
      return a > b;
    case BinaryOp::kGe:
      return a >= b;
    case BinaryOp::kAnd:
      return a && b;
    case BinaryOp::kOr:
      return a || b;
    case BinaryOp::kBitAnd:
      return a & b;
    case BinaryOp::kBitOr:
      return a | b;
    case BinaryOp::kBitXor:
      return a ^ b;
    case BinaryOp::kShl:
      if (b < 0 || b > 8) return std::nullopt;
      return a * (int64_t{1} << b);
    case BinaryOp::kShr:
      if (b < 0 || b > 31) return std::nullopt;
      return Floor(a, int64_t{1} << b);
    default:
      return std::nullopt;
  }
}

// Index arithmetic is promised not to overflow; assignments that break the promise are left out.
std::optional<int64_t> InRange(std::optional<int64_t> v) {
  if (v && (*v > INT32_MAX || *v < INT32_MIN)) return std::nullopt;
  return v;
}

std::shared_ptr<Written> Node(BinaryOp op, const Pair& a, const Pair& b) {
  auto w = std::make_shared<Written>();
  w->is_leaf = false;
  w->op = op;
  w->a = a.written;
  w->b = b.written;
  return w;
}

}  // namespace

std::optional<int64_t> Evaluate(const Expr& e, const Assignment& values) {
  if (const auto* x = e.As<IntImm>()) return x->value;
  if (e.As<Var>()) return values.at(e.get());
  if (const auto* x = e.As<Unary>()) {
    const auto a = Evaluate(x->a, values);
    if (!a) return std::nullopt;
    if (x->op == UnaryOp::kNeg) return -*a;
    return x->op == UnaryOp::kNot ? int64_t{!*a} : ~*a;
  }
  if (const auto* x = e.As<Binary>()) {
    const auto a = Evaluate(x->a, values), b = Evaluate(x->b, values);
    return a && b ? Apply(x->op, *a, *b) : std::nullopt;
  }
  if (const auto* x = e.As<Select>()) {
    const auto c = Evaluate(x->condition, values);
    if (!c) return std::nullopt;
    return Evaluate(*c ? x->a : x->b, values);
  }
  if (const auto* x = e.As<Cast>()) return Evaluate(x->a, values);
  return std::nullopt;
}

std::optional<int64_t> Evaluate(const Written& w, const std::vector<int64_t>& values) {
  if (w.is_leaf) return w.leaf >= 0 ? values[w.leaf] : w.constant;
  const auto a = Evaluate(*w.a, values), b = Evaluate(*w.b, values);
  if (w.condition) {
    const auto c = Evaluate(*w.condition, values);
    if (!c || !a || !b) return std::nullopt;
    return *c ? a : b;
  }
  return a && b ? InRange(Apply(w.op, *a, *b)) : std::nullopt;
}

Pair Generator::Integer(int depth) {
  if (depth == 0 || Uniform(0, 5) == 0) {
    auto leaf = std::make_shared<Written>();
    if (Uniform(0, 2) > 0) {
      leaf->leaf = static_cast<int>(Uniform(0, static_cast<int64_t>(vars_.size()) - 1));
      return {vars_[leaf->leaf], leaf};
    }
    static constexpr int64_t kConstants[] = {0, 1, -1, 2, 3, 4, 8, 16, -2, -3, 5, 7, 12};
    leaf->constant = kConstants[Uniform(0, 12)];
    return {MakeInt(leaf->constant), leaf};
  }
  if (Uniform(0, 11) == 0) {
    const Pair c = Condition(depth - 1), a = Integer(depth - 1), b = Integer(depth - 1);
    auto w = Node(BinaryOp::kAdd, a, b);
    w->condition = c.written;
    return {MakeSelect(c.expr, a.expr, b.expr), w};
  }
  static constexpr BinaryOp kOps[] = {BinaryOp::kAdd,      BinaryOp::kAdd,      BinaryOp::kAdd,
                                      BinaryOp::kSub,      BinaryOp::kMul,      BinaryOp::kMul,
                                      BinaryOp::kFloorDiv, BinaryOp::kFloorDiv, BinaryOp::kFloorMod,
                                      BinaryOp::kFloorMod, BinaryOp::kMin,      BinaryOp::kMax,
                                      BinaryOp::kBitAnd,   BinaryOp::kBitOr,    BinaryOp::kBitXor,
                                      BinaryOp::kShl,      BinaryOp::kShr};
  const BinaryOp op = kOps[Uniform(0, std::size(kOps) - 1)];
  const Pair a = Integer(depth - 1), b = Integer(depth - 1);
  return {MakeBinary(op, a.expr, b.expr), Node(op, a, b)};
}

Pair Generator::Condition(int depth) {
  if (depth > 1 && Uniform(0, 3) == 0) {
    const BinaryOp op = Uniform(0, 1) ? BinaryOp::kAnd : BinaryOp::kOr;
    const Pair a = Condition(depth - 1), b = Condition(depth - 1);
    return {MakeBinary(op, a.expr, b.expr), Node(op, a, b)};
  }
  static constexpr BinaryOp kOps[] = {BinaryOp::kEq, BinaryOp::kNe, BinaryOp::kLt,
                                      BinaryOp::kLe, BinaryOp::kGt, BinaryOp::kGe};
  const BinaryOp op = kOps[Uniform(0, 5)];
  const int below = depth > 0 ? depth - 1 : 0;
  const Pair a = Integer(below), b = Integer(below);
  return {MakeBinary(op, a.expr, b.expr), Node(op, a, b)};
}

}  // namespace kiln::ir::testing

#include "compiler/lang/extent.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

namespace kiln::lang {
namespace {

constexpr size_t kMaxTerms = 64;
constexpr size_t kMaxDegree = 8;
constexpr int kMaxDepth = 64;

// Coefficient of each monomial; a monomial is the sorted list of its atoms' numbers.
using Monomial = std::vector<int>;
using Polynomial = std::map<Monomial, int64_t>;

class Expander {
 public:
  explicit Expander(const Bound* bound) : bound_(bound) {}

  std::optional<Polynomial> Expand(const ir::Expr& e, int depth = 0) {
    if (depth > kMaxDepth) return std::nullopt;
    if (const auto constant = ir::ConstInt(e)) {
      Polynomial p;
      if (*constant != 0) p[{}] = *constant;
      return p;
    }
    if (const auto* binary = e.As<ir::Binary>()) {
      const bool add = binary->op == ir::BinaryOp::kAdd, sub = binary->op == ir::BinaryOp::kSub;
      if (add || sub || binary->op == ir::BinaryOp::kMul) {
        auto a = Expand(binary->a, depth + 1);
        if (!a) return std::nullopt;
        auto b = Expand(binary->b, depth + 1);
        if (!b) return std::nullopt;
        return add || sub ? Sum(std::move(*a), *b, sub ? -1 : 1) : Product(*a, *b);
      }
    }
    if (const auto* unary = e.As<ir::Unary>(); unary && unary->op == ir::UnaryOp::kNeg) {
      auto a = Expand(unary->a, depth + 1);
      if (!a) return std::nullopt;
      return Sum({}, *a, -1);
    }
    if (bound_ != nullptr) {
      if (const auto known = bound_->find(e.get()); known != bound_->end()) {
        // Names of names: each is seen through once.
        const auto seen = through_.find(e.get());
        if (seen != through_.end()) return seen->second;
        std::optional<Polynomial> p = Expand(known->second, depth + 1);
        through_.emplace(e.get(), p);
        return p;
      }
    }
    return Polynomial{{{Atom(e)}, 1}};
  }

  std::optional<Polynomial> Sum(Polynomial a, const Polynomial& b, int64_t sign) {
    for (const auto& [monomial, coefficient] : b) {
      int64_t scaled, total;
      if (__builtin_mul_overflow(coefficient, sign, &scaled)) return std::nullopt;
      if (__builtin_add_overflow(a[monomial], scaled, &total)) return std::nullopt;
      if (total == 0) {
        a.erase(monomial);
      } else {
        a[monomial] = total;
      }
    }
    if (a.size() > kMaxTerms) return std::nullopt;
    return a;
  }

  ir::Expr Build(const Polynomial& p, DType type) const {
    ir::Expr sum = ir::MakeInt(0, type);
    // Monomials with atoms first, then the constant, as people write them.
    for (auto it = p.rbegin(); it != p.rend(); ++it) {
      const auto& [monomial, coefficient] = *it;
      ir::Expr term = ir::MakeInt(1, type);
      for (int atom : monomial) term = term * atoms_[atom];
      const bool minus = coefficient < 0 && it != p.rbegin() && coefficient != INT64_MIN;
      term = term * ir::MakeInt(minus ? -coefficient : coefficient, type);
      sum = minus ? sum - term : sum + term;
    }
    return sum;
  }

 private:
  std::optional<Polynomial> Product(const Polynomial& a, const Polynomial& b) {
    Polynomial result;
    if (a.size() * b.size() > kMaxTerms) return std::nullopt;
    for (const auto& [x, p] : a) {
      for (const auto& [y, q] : b) {
        Monomial both = x;
        both.insert(both.end(), y.begin(), y.end());
        if (both.size() > kMaxDegree) return std::nullopt;
        std::sort(both.begin(), both.end());
        int64_t coefficient, total;
        if (__builtin_mul_overflow(p, q, &coefficient)) return std::nullopt;
        if (__builtin_add_overflow(result[both], coefficient, &total)) return std::nullopt;
        result[both] = total;
      }
    }
    std::erase_if(result, [](const auto& entry) { return entry.second == 0; });
    return result;
  }

  int Atom(const ir::Expr& e) {
    for (size_t i = 0; i < atoms_.size(); ++i) {
      if (ir::Same(atoms_[i], e)) return static_cast<int>(i);
    }
    atoms_.push_back(e);
    return static_cast<int>(atoms_.size()) - 1;
  }

  const Bound* bound_;
  absl::flat_hash_map<const ir::ExprNode*, std::optional<Polynomial>> through_;
  std::vector<ir::Expr> atoms_;
};

std::optional<ir::Expr> Collected(const ir::Expr& a, const ir::Expr& b, const Bound* bound) {
  Expander expander(bound);
  const auto x = expander.Expand(a);
  const auto y = x ? expander.Expand(b) : std::nullopt;
  if (!x || !y) return std::nullopt;
  const auto difference = expander.Sum(*x, *y, -1);
  if (!difference) return std::nullopt;
  const bool wide = a.dtype() == kInt64 || b.dtype() == kInt64;
  return expander.Build(*difference, wide ? kInt64 : kInt32);
}

}  // namespace

ir::Expr Difference(const ir::Expr& a, const ir::Expr& b, const Bound& bound) {
  if (ir::IsConst(b, 0)) return a;
  const std::optional<ir::Expr> plain = Collected(a, b, nullptr);
  if (bound.empty() || (plain && ir::ConstInt(*plain))) return plain.value_or(a - b);
  const std::optional<ir::Expr> through = Collected(a, b, &bound);
  if (through && ir::ConstInt(*through)) return *through;
  return plain.value_or(a - b);
}

}  // namespace kiln::lang

// Random integer expressions with an evaluator of their own, as the rival of folding and analysis.
#ifndef KILN_TESTS_PROPERTY_IR_RANDOM_EXPR_H_
#define KILN_TESTS_PROPERTY_IR_RANDOM_EXPR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "compiler/ir/expr.h"

namespace kiln::ir::testing {

using Assignment = std::map<const ExprNode*, int64_t>;

// Evaluates integer and bool expressions with Python's semantics in unbounded (128-bit) integers;
// nullopt for a division by zero or a bad shift, which no property says anything about.
std::optional<int64_t> Evaluate(const Expr& e, const Assignment& values);

// A tree that is evaluated as it was written, beside the expression that the factories made of it.
struct Written {
  BinaryOp op = BinaryOp::kAdd;
  int leaf = -1;         // index into the variables, or -1
  int64_t constant = 0;  // when it is a leaf without a variable
  bool is_leaf = true;
  std::shared_ptr<Written> a, b, condition;  // condition: a select
};
struct Pair {
  Expr expr;
  std::shared_ptr<Written> written;
};
std::optional<int64_t> Evaluate(const Written& w, const std::vector<int64_t>& values);

class Generator {
 public:
  Generator(uint64_t seed, std::vector<Expr> vars) : rng_(seed), vars_(std::move(vars)) {}
  Pair Integer(int depth);
  Pair Condition(int depth);
  int64_t Uniform(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng_);
  }

 private:
  std::mt19937_64 rng_;
  std::vector<Expr> vars_;
};

}  // namespace kiln::ir::testing

#endif  // KILN_TESTS_PROPERTY_IR_RANDOM_EXPR_H_

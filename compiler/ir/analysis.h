// Integer facts about index expressions: bounds, linear forms, divisibility, simplification.
// Sound: an answer is a proof; "unknown" is nullopt or false, never a guess.
#ifndef KILN_COMPILER_IR_ANALYSIS_H_
#define KILN_COMPILER_IR_ANALYSIS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "compiler/ir/stmt.h"

namespace kiln::ir {

struct Bounds {
  int64_t min;
  int64_t max;  // inclusive
};

// What is known of variables in scope. Cheap to copy into nested scopes.
class Facts {
 public:
  void SetBounds(const Expr& var, Bounds bounds);
  // From a loop axis whose min and extent have bounds (else nothing is learnt).
  void AddAxis(const Axis& axis);
  void SetValue(const Expr& var, const Expr& value);  // a Bind

  // Tight for linear forms over independent variables; interval arithmetic otherwise.
  std::optional<Bounds> BoundsOf(const Expr& e) const;
  // True when `condition` (comparisons, &&, ||, !) holds / fails for every assignment.
  bool Proves(const Expr& condition) const;
  bool Refutes(const Expr& condition) const;
  // Largest known power-of-two-free divisor test: e % divisor == 0 always.
  bool Divides(int64_t divisor, const Expr& e) const;
  // Rewrites with the facts: folds proven comparisons, min/max, floordiv/floormod of linear forms.
  Expr Simplify(const Expr& e) const;

 private:
  std::unordered_map<const ExprNode*, Bounds> bounds_;
  std::unordered_map<const ExprNode*, Expr> values_;
};

// e = constant + sum of coefficient * atom, where an atom is a non-linear subexpression or a Var.
struct LinearForm {
  int64_t constant = 0;
  std::vector<std::pair<Expr, int64_t>> terms;  // distinct atoms (by Same), coefficients not 0
  int64_t CoefficientOf(const Expr& var) const;
};
LinearForm Linearize(const Expr& e);
Expr FromLinear(const LinearForm& form, DType type = kInt32);

// True when `var` occurs in e.
bool Uses(const Expr& e, const Expr& var);
bool Uses(const Stmt& s, const Expr& var);
// Buffers read / written by a statement, tile ops included, in order of appearance, each once.
std::vector<Buffer> BuffersRead(const Stmt& s);
std::vector<Buffer> BuffersWritten(const Stmt& s);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_ANALYSIS_H_

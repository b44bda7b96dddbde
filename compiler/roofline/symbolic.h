// IR expressions as tape arithmetic: private to this folder and its tests.
#ifndef KILN_COMPILER_ROOFLINE_SYMBOLIC_H_
#define KILN_COMPILER_ROOFLINE_SYMBOLIC_H_

#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/ir/stmt.h"
#include "compiler/roofline/tape.h"

namespace kiln::roofline {

// constant + sum of coefficient * loop variable.
struct Affine {
  Num constant;
  std::vector<std::pair<const ir::ExprNode*, Num>> terms;

  Num CoefficientOf(const ir::ExprNode* var) const;  // undefined when the variable is absent
};

// What the variables in scope stand for. A variable is a value (a tunable, a run-time dimension), a
// name for an expression (a Bind), or a loop variable with a trip count.
class Symbols {
 public:
  explicit Symbols(Tape* tape) : tape_(tape) {}

  void SetValue(const ir::Expr& var, Num value) { values_[var.get()] = value; }
  void SetBind(const ir::Expr& var, const ir::Expr& value) { binds_[var.get()] = value; }
  void SetLoop(const ir::Expr& var, Num min, Num trip) { loops_[var.get()] = {min, trip}; }

  // The value of `e`; nullopt when it depends on a loop variable, on data, or on a variable that
  // nobody declared.
  std::optional<Num> Value(const ir::Expr& e) const;

  // Mean of `e` over the loop variables it uses: exact where none is used, else the mean of three
  // points spread over each range (at most three variables). `inexact` is set when it sampled.
  std::optional<Num> Mean(const ir::Expr& e, bool* inexact);

  // `e` as an affine form in the loop variables; nullopt when it is not one.
  std::optional<Affine> AffineOf(const ir::Expr& e) const;

  // The loop variables that `e` depends on, binds followed.
  std::vector<const ir::ExprNode*> LoopsIn(const ir::Expr& e) const;

  Num TripOf(const ir::ExprNode* var) const { return loops_.at(var).trip; }
  bool IsLoop(const ir::ExprNode* var) const { return loops_.count(var) > 0; }
  Tape* tape() const { return tape_; }

 private:
  struct Loop {
    Num min, trip;
  };
  std::optional<Num> BinaryValue(const ir::Binary& b) const;
  void CollectLoops(const ir::Expr& e, std::vector<const ir::ExprNode*>& out) const;

  Tape* tape_;
  std::unordered_map<const ir::ExprNode*, Num> values_;
  std::unordered_map<const ir::ExprNode*, ir::Expr> binds_;
  std::unordered_map<const ir::ExprNode*, Loop> loops_;
};

}  // namespace kiln::roofline

#endif  // KILN_COMPILER_ROOFLINE_SYMBOLIC_H_

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
  void SetLoop(const ir::Expr& var, Num min, Num trip) { loops_[var.get()] = {min, trip, {}}; }
  // A loop whose trip count, `trip` in the mean, may depend on loops around it.
  void SetLoop(const ir::Axis& axis, Num min, Num trip) {
    loops_[axis.var.get()] = {min, trip, axis};
  }

  // The value of `e`; nullopt when it depends on a loop variable, on data, or on a variable that
  // nobody declared.
  std::optional<Num> Value(const ir::Expr& e) const;

  // Mean of `e` over the iterations of the loops that it depends on: exact where there are none,
  // else the mean of three points spread over each range (at most three variables). A range that
  // depends on another loop is taken where that one is, as often as it runs there: its first
  // point, its last, and six between them. `inexact` is set when it sampled.
  std::optional<Num> Mean(const ir::Expr& e, bool* inexact);

  // `e` as an affine form in the loop variables; nullopt when it is not one.
  std::optional<Affine> AffineOf(const ir::Expr& e) const;

  // The loop variables that `e` depends on, binds followed.
  std::vector<const ir::ExprNode*> LoopsIn(const ir::Expr& e) const;

  // The loop variables that the start of a loop's range depends on.
  std::vector<const ir::ExprNode*> LoopsOfStart(const ir::ExprNode* var) const;

  Num TripOf(const ir::ExprNode* var) const { return loops_.at(var).trip; }
  bool IsLoop(const ir::ExprNode* var) const { return loops_.count(var) > 0; }
  Tape* tape() const { return tape_; }

 private:
  struct Loop {
    Num min, trip;
    ir::Axis axis;  // where its range is to be looked at again
  };
  // A point of a loop's range, and how many of its iterations it stands for.
  struct Point {
    Num at, weight;
  };
  struct Sampled {
    const ir::ExprNode* var;
    bool depends;  // its range, on other loops
  };
  bool Depends(const ir::ExprNode* var) const;
  std::vector<Sampled> SampledLoops(const ir::Expr& e) const;
  std::vector<Point> PointsOf(const Loop& loop, bool depends) const;
  bool AddSamples(const ir::Expr& e, const std::vector<Sampled>& loops, size_t first, Num weight,
                  Num* sum, Num* weights);
  std::optional<Num> BinaryValue(const ir::Binary& b) const;
  void CollectLoops(const ir::Expr& e, std::vector<const ir::ExprNode*>& out) const;

  Tape* tape_;
  std::unordered_map<const ir::ExprNode*, Num> values_;
  std::unordered_map<const ir::ExprNode*, ir::Expr> binds_;
  std::unordered_map<const ir::ExprNode*, Loop> loops_;
};

}  // namespace kiln::roofline

#endif  // KILN_COMPILER_ROOFLINE_SYMBOLIC_H_

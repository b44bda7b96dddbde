// Integer facts about index expressions: bounds, linear forms, divisibility, simplification.
// Index arithmetic (int32, int64) is taken not to overflow, as everywhere in the compiler.
// Sound: an answer is a proof; "unknown" is nullopt or false, never a guess.
#ifndef KILN_COMPILER_IR_ANALYSIS_H_
#define KILN_COMPILER_IR_ANALYSIS_H_

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "compiler/ir/stmt.h"

namespace kiln::ir {

struct Bounds {
  int64_t min;
  int64_t max;  // inclusive
};

// Atoms and their coefficients. Forms come and go by the thousand, nearly all of a few terms.
using LinearTerms = absl::InlinedVector<std::pair<Expr, int64_t>, 4>;

// e = constant + sum of coefficient * atom, where an atom is a non-linear subexpression or a Var.
struct LinearForm {
  int64_t constant = 0;
  LinearTerms terms;  // distinct atoms (by Same), coefficients not 0
  int64_t CoefficientOf(const Expr& var) const;
  void Drop(const Expr& var);  // its term
};
LinearForm Linearize(const Expr& e);
Expr FromLinear(const LinearForm& form, DType type = kInt32);

// What a comparison of integers by <, <=, > or >= says is positive: of a < b, b - a. Undefined for
// any other expression, vectors among them.
Expr PositiveForm(const Expr& condition);

// What is known of variables in scope. Cheap to copy into nested scopes.
class Facts {
 public:
  void SetBounds(const Expr& var, Bounds bounds);
  // From a loop axis. An extent without bounds still serves proofs: after i in [0, min(8, n-b)),
  // b + i < n is proven. The facts hold inside the body, where the extent is positive.
  void AddAxis(const Axis& axis);
  void SetValue(const Expr& var, const Expr& value);  // a Bind
  // Of a condition that holds: what comparisons of integers joined by && say, of single variables
  // for bounds and proofs, of several for proofs.
  void Assume(const Expr& condition);
  // How often something was learnt; copies go on counting. Facts that were copied and have learnt
  // as often as the copy, others put back in between, know the same.
  int64_t changes() const { return changes_; }

  // Tight for linear forms over independent variables; interval arithmetic otherwise.
  std::optional<Bounds> BoundsOf(const Expr& e) const;
  // True when `condition` (comparisons, &&, ||, !) holds / fails for every assignment.
  bool Proves(const Expr& condition) const;
  bool Refutes(const Expr& condition) const;
  // Linearize with the values of bound variables put in and x//c*c + x%c joined; its bounds.
  LinearForm Expand(const Expr& e) const;
  std::optional<Bounds> BoundsOf(const LinearForm& form) const;
  // e % divisor == 0 always.
  bool Divides(int64_t divisor, const Expr& e) const;
  // Rewrites with the facts: folds proven comparisons, min/max, floordiv/floormod of linear forms.
  Expr Simplify(const Expr& e) const;

 private:
  friend class Simplifier;
  struct SymbolicAxis {
    Expr first, last;  // inclusive
    size_t depth = 0;  // how many were there before it
  };

  std::optional<Bounds> AtomBounds(const Expr& e) const;
  std::optional<Bounds> FindAtomBounds(const Expr& e) const;
  std::optional<Bounds> BinaryBounds(const Binary& e) const;
  std::optional<Bounds> ClampBounds(BinaryOp op, const Expr& inner, Bounds outer) const;
  std::optional<Bounds> FormBounds(const LinearForm& form) const;
  std::optional<Bounds> SumBounds(const LinearForm& form) const;
  std::optional<int64_t> MostByAxes(LinearForm form) const;
  bool ProvesAsAssumed(const LinearForm& form, int64_t bound, int more) const;
  bool ProvesAtMost(const LinearForm& form, int64_t bound, int depth,
                    size_t inside = SIZE_MAX) const;
  bool ProvesComparison(BinaryOp op, const Expr& a, const Expr& b) const;
  // A divisor of every value of e; 0 where that is 0.
  int64_t MultipleOf(const Expr& e) const;
  int64_t FindMultipleOf(const Expr& e) const;
  int64_t AtomMultiple(const Expr& e) const;

  // Bounds, divisors and simpler forms that were asked for, so that what is used twice is looked at
  // once. They hold for these facts alone: a copy, which will learn more, begins without.
  struct Memo {
    Memo() = default;
    Memo(const Memo&) {}
    Memo& operator=(const Memo&) {
      known.clear();
      multiples.clear();
      simpler.clear();
      return *this;
    }
    std::unordered_map<const ExprNode*, std::pair<Expr, std::optional<Bounds>>> known;
    std::unordered_map<const ExprNode*, std::pair<Expr, int64_t>> multiples;
    std::unordered_map<const ExprNode*, std::pair<Expr, Expr>> simpler;  // by one round
  };

  void Learn();

  mutable Memo memo_;
  // What is assumed may speak of the very atom whose bounds are looked for: conditions inside of it
  // are proven without.
  mutable bool inside_atom_ = false;
  mutable bool unfolding_ = false;  // an axis's end that holds a quotient
  int64_t changes_ = 0;
  std::unordered_map<const ExprNode*, Bounds> bounds_;
  std::unordered_map<const ExprNode*, Expr> values_;
  std::unordered_map<const ExprNode*, SymbolicAxis> axes_;
  std::vector<LinearForm> natural_;  // what is assumed to be at least 0
};

// True when `var` occurs in e.
bool Uses(const Expr& e, const Expr& var);
bool Uses(const Stmt& s, const Expr& var);
// True when a load stands in it.
bool ReadsMemory(const Expr& e);
bool ReadsMemory(const Stmt& s);
// Whether a product somewhere in it takes the tile; whether tensor cores may then read it as it
// lies, in panels as wide as a swizzle: all products take elements of 16 bits, or of 8 along k.
bool Multiplies(const Stmt& s, const Buffer& tile);
bool MultipliesPanels(const Stmt& s, const Buffer& tile);
// Whether every operand has a value where the expression has one: not of what chooses.
bool EvaluatesAll(const Expr& e);
// Whether an expression is written down with many nodes (more than 256): as often as it is used,
// once it stands for a name.
bool IsLarge(const Expr& e);
// Buffers read / written by a statement, tile ops included, in order of appearance, each once.
std::vector<Buffer> BuffersRead(const Stmt& s);
std::vector<Buffer> BuffersWritten(const Stmt& s);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_ANALYSIS_H_

// How the values that barriers depend on repeat from turn to turn of a loop. Private to
// compiler/lang.
#ifndef KILN_COMPILER_LANG_TURN_CYCLE_H_
#define KILN_COMPILER_LANG_TURN_CYCLE_H_

#include <cstdint>
#include <optional>

#include "compiler/ir/expr.h"

namespace kiln::lang {

// Of an integer expression in a variable x: e(x + period) = e(x) + change for every x.
struct Cycle {
  int64_t period = 1;
  int64_t change = 0;
};

// The least common period of several; nullopt where it is too long to be of use.
std::optional<int64_t> CommonPeriod(int64_t a, int64_t b);

// Expressions in `x`, everything else in them a constant. Comparisons of x with constants, or with
// a second variable at a constant distance, are cycles but near the number compared with; how near,
// `margin` gathers.
class CycleFinder {
 public:
  CycleFinder(ir::Expr x, ir::Expr end) : x_(std::move(x)), end_(std::move(end)) {}

  // nullopt: none is known.
  std::optional<Cycle> Of(const ir::Expr& e);
  // Comparisons so far are cycles for x, and for end - x, from here on.
  int64_t margin() const { return margin_; }

 private:
  std::optional<Cycle> OfBinary(const ir::Binary& e);
  std::optional<Cycle> OfComparison(const ir::Binary& e);

  const ir::Expr x_, end_;
  int64_t margin_ = 0;
};

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_TURN_CYCLE_H_

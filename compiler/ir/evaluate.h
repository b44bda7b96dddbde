// Integer expressions as functions that are called often: compiled once, evaluated for every point
// of a loop. The values are those of scalar.h.
#ifndef KILN_COMPILER_IR_EVALUATE_H_
#define KILN_COMPILER_IR_EVALUATE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/ir/expr.h"

namespace kiln::ir {

// Immutable once built.
class IntFunction {
 public:
  // `variables` are the arguments, by position. FailedPrecondition, naming it, for anything whose
  // value they do not determine: another variable, a load that is no constant table's, a float.
  static absl::StatusOr<IntFunction> Of(const Expr& e, const std::vector<Expr>& variables);

  // nullopt where an operation has no value (a division by zero, a shift out of range, a table read
  // beside it).
  std::optional<int64_t> operator()(absl::Span<const int64_t> values) const;

  // Its values at all points of a box, row-major: argument i is in [mins[i], mins[i] + extents[i]).
  // nullopt where it has none at one of them.
  std::optional<std::vector<int64_t>> Over(absl::Span<const int64_t> mins,
                                           absl::Span<const int64_t> extents) const;

 private:
  enum class Kind : uint8_t { kConst, kArgument, kUnary, kBinary, kSelect, kCast, kEntry };
  struct Step {  // its operands are the results of earlier steps
    Kind kind;
    uint8_t op = 0;
    DType type;         // of the operands (kCast: of the result)
    int64_t value = 0;  // kConst; kArgument, kEntry: which argument or table
    std::array<int, 3> operands = {};
  };
  class Builder;
  class Columns;
  static int64_t Apply(const Step& unary, int64_t a);
  std::optional<int64_t> EntryOf(const Step& entry, int64_t index) const;

  std::vector<Step> steps_;  // one for each node: what is used twice is computed once
  std::vector<std::shared_ptr<const std::vector<int64_t>>> tables_;
};

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_EVALUATE_H_

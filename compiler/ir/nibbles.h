// Four bits as values: private to compiler/ir.
#ifndef KILN_COMPILER_IR_NIBBLES_H_
#define KILN_COMPILER_IR_NIBBLES_H_

#include <vector>

#include "compiler/ir/expr.h"

namespace kiln::ir {

// The type that holds an element of a packed type in a byte.
DType Unpacked(DType type);
// The four bits (int32, 0 to 15) of a value of Unpacked(type), and back.
Expr CodeOf(const Expr& value, DType type);
Expr FromCode(const Expr& code, DType type);
// A number of any kind as one of Unpacked(type): integers keep their low four bits, floats saturate
// and, of integers, lose their fraction.
Expr ToPacked(const Expr& value, DType type);

// What is even, and halves of it. Open variables are taken to be even, and remembered.
class Parity {
 public:
  explicit Parity(std::vector<Expr> open) : open_(std::move(open)) {}

  // Whether `e` is even, or odd, for every assignment.
  bool IsEven(const Expr& e);
  bool IsOdd(const Expr& e);
  // e / 2 of an even expression.
  static Expr Half(const Expr& e);
  // e // 2 of any.
  static Expr FloorHalf(const Expr& e);
  // Whether a condition holds for the second of two neighbours (`high`) exactly where it holds for
  // the first: comparisons that differ by one at most, and conjunctions of them.
  bool HoldAlike(const Expr& low, const Expr& high);

  const std::vector<Expr>& assumed() const { return assumed_; }

 private:
  enum class Kind : uint8_t { kUnknown, kEven, kOdd };
  Kind KindOf(const Expr& e);
  Kind KindOfAtom(const Expr& e);

  std::vector<Expr> open_, assumed_;
};

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_NIBBLES_H_

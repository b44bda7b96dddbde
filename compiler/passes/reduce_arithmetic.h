// The arithmetic of a reduction, for every target: in which type values are combined, from what a
// running value starts, and what it is after one more element. NaN in an element of a maximum or
// minimum is passed over.
#ifndef KILN_COMPILER_PASSES_REDUCE_ARITHMETIC_H_
#define KILN_COMPILER_PASSES_REDUCE_ARITHMETIC_H_

#include "compiler/ir/stmt.h"

namespace kiln::passes {

class ReduceArithmetic {
 public:
  ReduceArithmetic(ir::ReduceOp op, DType src, DType dst);

  // The type that values are compared and added in: no value of src changes in it but by the
  // wrapping or rounding that the sum in dst's type has anyway.
  DType type() const { return type_; }
  ir::Expr Identity(DType type) const;  // in that type or in lanes of it
  // An element of src as a value to combine.
  ir::Expr Element(const ir::Expr& loaded) const;
  // The running value after `next`.
  ir::Expr Take(const ir::Expr& running, const ir::Expr& next) const;
  // Two values of which either may be NaN.
  ir::Expr Combine(const ir::Expr& a, const ir::Expr& b) const;
  // The lanes of a vector as one value.
  ir::Intrinsic Horizontal() const;

 private:
  const ir::ReduceOp op_;
  const DType type_;
};

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_REDUCE_ARITHMETIC_H_

// Folding rules of the expression factories; private to compiler/ir.
#ifndef KILN_COMPILER_IR_FOLD_H_
#define KILN_COMPILER_IR_FOLD_H_

#include "compiler/ir/expr.h"

namespace kiln::ir {

// Each returns the simpler expression, or an undefined handle when no rule applies. Operands are
// already of one type. `result` is the type of the operation's value.
Expr FoldUnary(UnaryOp op, const Expr& a);
Expr FoldBinary(BinaryOp op, const Expr& a, const Expr& b, DType result);
Expr FoldCast(DType type, const Expr& a);
Expr FoldCall(DType type, Intrinsic op, const std::vector<Expr>& args);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_FOLD_H_

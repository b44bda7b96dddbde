// The value semantics of scalar operations, in one place: constant folding, the interpreter and the
// tests of code generators agree because they all call these. Pure functions.
#ifndef KILN_COMPILER_IR_SCALAR_H_
#define KILN_COMPILER_IR_SCALAR_H_

#include <cstdint>
#include <optional>

#include "compiler/base/dtype.h"
#include "compiler/ir/expr.h"

namespace kiln::ir {

// Keeps the low bits of `value` that `type` (an integer, bool or handle) has, and extends them to
// 64 bits: with sign for signed types, with zeros for unsigned ones; a bool becomes 0 or 1.
int64_t WrapInt(int64_t value, DType type);

// Integers. Arithmetic wraps around in `type`, the operands' type, here; a kernel may count on that
// for unsigned types only, because generated code takes signed arithmetic not to overflow, as C
// does. Comparisons and logical operators give 0 or 1. uint64 values travel as their bit pattern.
// nullopt for a division by zero and for an operator that integers do not have (kDiv). A shift by
// the type's width or more, or by a negative count, is nullopt too: hardware disagrees about it.
std::optional<int64_t> EvalInt(BinaryOp op, int64_t a, int64_t b, DType type);

// Floats, computed in double: round the result with RoundToType for a narrower type (for add, sub,
// mul, div and sqrt of float32 and below that equals rounding once). kFloorDiv is the
// exact quotient's floor, kFloorMod has the divisor's sign, as in Python. kMin and kMax give the
// other operand when one is NaN (IEEE minNum/maxNum). Comparisons give 0 or 1. nullopt for an
// operator that floats do not have.
std::optional<double> EvalFloat(BinaryOp op, double a, double b);

// One-argument floating-point intrinsics (kExp ... kTrunc, kIsNan ... kIsFinite as 0 or 1).
// nullopt for any other.
std::optional<double> EvalUnaryIntrinsic(Intrinsic op, double a);
// kPow, kAtan2, kFmod; nullopt for any other.
std::optional<double> EvalBinaryIntrinsic(Intrinsic op, double a, double b);
// kAbs, kPopCount, kClz of an integer of that type, in its representation; nullopt for any other.
std::optional<int64_t> EvalIntIntrinsic(Intrinsic op, int64_t a, DType type);

// Conversions: integer to float rounds to nearest even, float to integer truncates towards zero
// and saturates: below the type's range gives its least value, above it its greatest, NaN gives 0.
double IntToFloat(int64_t value, DType from, DType to);
int64_t FloatToInt(double value, DType to);

// The same bits read as another type of equal size; both in the representation of LoadElement,
// integers in that of WrapInt.
struct ScalarBits {
  int64_t integer = 0;
  double real = 0;  // set when the type is a float
};
ScalarBits Reinterpret(ScalarBits value, DType from, DType to);

bool IsComparison(BinaryOp op);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_SCALAR_H_

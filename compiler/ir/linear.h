// Arithmetic on linear forms, private to compiler/ir. Every function returns false, or nullopt, and
// leaves the result unspecified when a 64-bit value would overflow.
#ifndef KILN_COMPILER_IR_LINEAR_H_
#define KILN_COMPILER_IR_LINEAR_H_

#include <cstdint>
#include <optional>

#include "compiler/ir/analysis.h"

namespace kiln::ir {

// Signed 32- or 64-bit scalars: the types of index arithmetic.
bool IsIndex(DType type);
Bounds IndexBounds(DType type);  // all its values
bool Fits(const Bounds& values, DType type);

// into += scale * form.
bool AddScaled(const LinearForm& form, int64_t scale, LinearForm* into);

// Joins k*c*(x//c) + k*(x%c) into k*x.
void JoinDivMod(LinearForm* form);

// 64-bit arithmetic that fails instead of overflowing.
std::optional<int64_t> CheckedAdd(int64_t a, int64_t b);
std::optional<int64_t> CheckedMul(int64_t a, int64_t b);
int64_t FloorDivide(int64_t a, int64_t b);  // b > 0

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_LINEAR_H_

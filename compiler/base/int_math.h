// Small arithmetic on integers.
#ifndef KILN_COMPILER_BASE_INT_MATH_H_
#define KILN_COMPILER_BASE_INT_MATH_H_

#include <cstdint>

namespace kiln {

// How many pieces of `unit` hold `value`: value >= 0, unit > 0.
constexpr int64_t CeilDiv(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }

}  // namespace kiln

#endif  // KILN_COMPILER_BASE_INT_MATH_H_

// The lines that ir::Print writes, the same on every target: C's formatted output.
#ifndef KILN_COMPILER_IR_PRINT_FORMAT_H_
#define KILN_COMPILER_IR_PRINT_FORMAT_H_

#include <string>

#include "compiler/ir/stmt.h"

namespace kiln::ir {

// How a value of that type is passed and shown: a float as a double, by as many digits as read back
// as the same value ("%.9g", "%.17g"); a whole number as 64 bits of its sign ("%lld", "%llu"); a
// bool as 0 or 1.
const char* ConversionOf(DType type);

// The format of a line, for C's printf and CUDA's vprintf; it ends the line.
std::string FormatOf(const Print& print);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_PRINT_FORMAT_H_

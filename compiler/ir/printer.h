// The text form of programs: what kilnc prints, what golden tests compare, and (in canonical form)
// what digests are taken of.
#ifndef KILN_COMPILER_IR_PRINTER_H_
#define KILN_COMPILER_IR_PRINTER_H_

#include <string>

#include "compiler/ir/stmt.h"

namespace kiln::ir {

// Deterministic text. Variables and buffers print by name, made unique by a suffix where two share
// a name ("i", "i_1"), in order of first appearance.
std::string ToString(const Program& program);
std::string ToString(const Stmt& stmt);
std::string ToString(const Expr& expr);
std::string ToString(const Region& region);

// SHA-256 of the program's text with every variable and buffer renamed by order of appearance
// (parameter names excepted: they are the interface) and positions left out: the identity of a
// Program (and, with tunables open, of a Kernel), independent of formatting and local names.
std::string ProgramDigest(const Program& program);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_PRINTER_H_

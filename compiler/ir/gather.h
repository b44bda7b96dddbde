// Loops that fill a tile of shared memory with elements of a tensor, each where its own index says.
#ifndef KILN_COMPILER_IR_GATHER_H_
#define KILN_COMPILER_IR_GATHER_H_

#include <vector>

#include "compiler/ir/stmt.h"

namespace kiln::ir {

// A parallel loop that does nothing but fill the whole of a tile of shared memory with elements of
// a tensor, or zeros where a condition fails: its store, whose value is then a load (with the
// condition as its guard). Null for any other, and where the names of the loop stand for too much.
Stmt GatherOf(const Stmt& s);
// The same of what such a loop over these axes does.
Stmt GatherOf(const Stmt& body, const std::vector<Axis>& axes);

// Whether memory says which elements such a store's load reads.
bool LooksUp(const Stmt& gather);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_GATHER_H_

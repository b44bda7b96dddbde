// Where the pipelined loop of a launch stands. Shared by the pass that gives it to parts of the
// block (passes/specialise_warps) and by the recommender before it prices.
#ifndef KILN_COMPILER_IR_PIPELINED_H_
#define KILN_COMPILER_IR_PIPELINED_H_

#include <vector>

#include "compiler/ir/stmt.h"

namespace kiln::ir {

// A row of statements (a body of one is one, too), and the one of them that matters.
struct Row {
  std::vector<Stmt> stmts;
  Stmt at;
};

// The statements of a body, or of a branch of it.
std::vector<Stmt> RowOf(const Stmt& body);

// The rows that lead from the launch's own to the first pipelined loop: `at` is that loop in the
// last row, before that a serial loop or a condition without alternative whose body is the next
// row. Empty where no row has such a loop, or where several ways lead to one.
std::vector<Row> PathToPipelined(const Launch& launch);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_PIPELINED_H_

// Staging: a tile operation works on a copy of an operand that it cannot use where it is.
#ifndef KILN_COMPILER_IR_STAGE_H_
#define KILN_COMPILER_IR_STAGE_H_

#include <vector>

#include "compiler/ir/stmt.h"

namespace kiln::ir {

// The copies around one operation.
class Stage {
 public:
  explicit Stage(SourceLoc loc) : loc_(loc) {}

  // A new tile of `scope` that stands for `region`: filled before the operation where that reads
  // it, brought back after it where that writes it.
  Region Through(const Region& region, Scope scope, bool reads, bool writes);
  // The copies in, `operation`, the copies out.
  Stmt Around(Stmt operation) &&;

 private:
  SourceLoc loc_;
  std::vector<Stmt> before_, after_;
};

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_STAGE_H_

// What a tile operation needs before it can run: copies of operands that it cannot use where they
// are, and values that must not change while it writes.
#ifndef KILN_COMPILER_IR_STAGE_H_
#define KILN_COMPILER_IR_STAGE_H_

#include <functional>
#include <vector>

#include "compiler/ir/stmt.h"

namespace kiln::ir {

// The copies around one operation.
class Stage {
 public:
  explicit Stage(SourceLoc loc) : loc_(loc) {}

  // A new tile of `scope`, called "<name>.tile", that stands for `region`: filled before the
  // operation where that reads it, brought back after it where that writes it.
  Region Through(const Region& region, Scope scope, bool reads, bool writes);
  // The copies in, `operation`, the copies out.
  Stmt Around(Stmt operation) &&;

 private:
  SourceLoc loc_;
  std::vector<Stmt> before_, after_;
};

// What does not change while something is written, bound before it (appended to `before`) where it
// loads what `written` holds for.
using BufferTest = std::function<bool(const Buffer&)>;
Expr Settle(const Expr& e, const BufferTest& written, SourceLoc loc, std::vector<Stmt>* before);
Region Settle(Region region, const BufferTest& written, SourceLoc loc, std::vector<Stmt>* before);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_STAGE_H_

// Tables of tensors: parameters that hold an address for each of several tensors of one shape and
// type (BufferNode::table). In a program such a table is one buffer with a dimension more, so that
// whatever works on programs sees which element of which tensor is meant, and bounds of both.
//
// While a kernel is elaborated, a tensor that was taken out of a table is a buffer of its own.
#ifndef KILN_COMPILER_IR_TABLES_H_
#define KILN_COMPILER_IR_TABLES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/stmt.h"

namespace kiln::ir {

struct TableEntry {
  Buffer tensor;  // as the kernel names it
  Buffer table;   // a parameter: the tensor's dimensions behind one more
  Expr index;     // of the tensor: a constant, or a variable that is visible where `tensor` is used
};

// `body` with what it says of tensors said of their tables. Unimplemented: a reduction or scan of a
// tensor of a table, which goes through a tile.
absl::StatusOr<Stmt> ResolveTables(const Stmt& body, const std::vector<TableEntry>& entries,
                                   const SourceFile& source);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_TABLES_H_

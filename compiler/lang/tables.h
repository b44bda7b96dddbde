// T.ptr parameters and tables of them: T.match_buffer and T.make_tensor give what lies at an
// address a shape. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_TABLES_H_
#define KILN_COMPILER_LANG_TABLES_H_

#include <vector>

#include "compiler/lang/elaborator.h"

namespace kiln::lang {

// T.Tensor([n], T.ptr).
bool IsTable(const TensorTypeObject& type);
// The value of a parameter of this type: a buffer of addresses, whose elements T.make_tensor takes
// and nothing else (CheckNoAddress). It becomes a parameter with the first tensor taken out of it.
absl::StatusOr<Value> DeclareTable(Elaborator& e, const std::string& name,
                                   const TensorTypeObject& type, const std::vector<ir::Expr>& shape,
                                   SourceLoc loc);
// What the pass option kiln.table_alignment promises of all tensors of the program's tables.
void AlignTables(ir::Program* program);
// An error for a table, and for an element of one.
absl::Status CheckNoAddress(Elaborator& e, const ir::Buffer& buffer, SourceLoc loc);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_TABLES_H_

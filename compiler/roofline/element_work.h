// Counts the work of element loops: private to this folder and its tests.
#ifndef KILN_COMPILER_ROOFLINE_ELEMENT_WORK_H_
#define KILN_COMPILER_ROOFLINE_ELEMENT_WORK_H_

#include <functional>
#include <vector>

#include "compiler/ir/stmt.h"
#include "compiler/roofline/access.h"
#include "compiler/roofline/demand.h"
#include "compiler/roofline/symbolic.h"

namespace kiln::roofline {

// One element access found in a loop body.
struct ElementAccess {
  ir::Buffer buffer;
  std::vector<ir::Expr> indices;
  bool write = false;
  bool atomic = false;
  std::vector<InnerAxis> extra;  // serial loops inside the body, as inner axes
};

struct BodyCount {
  ElementWork work;
  std::vector<ElementAccess> accesses;  // each distinct (buffer, indices, direction) once
};

// Counts one iteration of a loop whose vector axis is `vector_var` (null: a scalar statement).
// Inner serial loops multiply by their trip count; `symbols` learns their variables.
BodyCount CountBody(const ir::Stmt& body, const ir::ExprNode* vector_var, Symbols& symbols);

}  // namespace kiln::roofline

#endif  // KILN_COMPILER_ROOFLINE_ELEMENT_WORK_H_

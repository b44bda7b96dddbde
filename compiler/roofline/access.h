// From index expressions to traffic: private to this folder and its tests.
#ifndef KILN_COMPILER_ROOFLINE_ACCESS_H_
#define KILN_COMPILER_ROOFLINE_ACCESS_H_

#include <vector>

#include "compiler/roofline/demand.h"
#include "compiler/roofline/symbolic.h"

namespace kiln::roofline {

// One dimension of an access: the region's first index and its extent. For an element access inside
// a parallel loop the extent is 1 and the loop's axes are inner axes.
struct AccessDim {
  ir::Expr min;
  Num extent;
};

struct InnerAxis {
  const ir::ExprNode* var;
  Num extent;
};

struct AccessSpec {
  ir::Buffer buffer;
  std::vector<AccessDim> dims;
  std::vector<InnerAxis> inner;  // axes of the operation itself
  std::vector<int> loops;        // enclosing loops, outermost first
};

// Fills in elements, run_bytes, footprint and exact. `sizes` are the buffer's extents.
Access MeasureAccess(const AccessSpec& spec, const std::vector<Num>& sizes,
                     const std::vector<LoopLevel>& all_loops, const Symbols& symbols);

// Mean over v in [0, trip) of the part of [offset + v*step, offset + v*step + extent) that lies in
// [0, size). Exact for offset >= 0, step > 0, when no tile lies wholly outside.
Num MeanClipped(Num offset, Num step, Num trip, Num extent, Num size);

}  // namespace kiln::roofline

#endif  // KILN_COMPILER_ROOFLINE_ACCESS_H_

#ifndef KILN_COMPILER_PASSES_VECTORIZE_PARALLEL_H_
#define KILN_COMPILER_PASSES_VECTORIZE_PARALLEL_H_

#include "compiler/passes/pass.h"

namespace kiln::passes {

// Lowers T.Parallel (and T.vectorized) loops: the last axis becomes vectors where the body allows
// it (stores, binds and branches over loads at affine indices; branches become predicates, decided
// once, before what they guard), with a masked tail; lanes that a branch or select leaves out touch
// no memory and divide by one; the other axes become serial loops. A body with anything else
// (atomics, inner loops that depend on the vector axis) stays scalar. Guarantees: no parallel or
// vectorized loop is left.
absl::StatusOr<ir::Program> VectorizeParallel(const ir::Program& program,
                                              const PassContext& context);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_VECTORIZE_PARALLEL_H_

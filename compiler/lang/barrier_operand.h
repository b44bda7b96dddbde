// A barrier as an argument of a builtin. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_BARRIER_OPERAND_H_
#define KILN_COMPILER_LANG_BARRIER_OPERAND_H_

#include "absl/status/statusor.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {

struct Barrier {
  ir::Buffer buffer;
  ir::Expr index;
};
absl::StatusOr<Barrier> ToBarrier(Elaborator& e, const BoundArgs& args, size_t i);

absl::StatusOr<Value> AllocBarrier(Elaborator& e, const BoundArgs& args);

// An arrival (follow_barriers.h) in block `block` of the cluster, `copied` before it if defined.
absl::Status ArriveInBlock(Elaborator& e, SourceLoc loc, const ir::Expr& block, ir::Stmt copied,
                           const Barrier* barrier);
// Argument i as the rank of a block of this launch's cluster.
absl::StatusOr<ir::Expr> ToBlock(Elaborator& e, const BoundArgs& args, size_t i, const char* what);
// Argument i as blocks of the cluster that a copy is for, the first the lowest bit.
absl::StatusOr<int64_t> ToMask(Elaborator& e, const BoundArgs& args, size_t i);
// From argument 0, a tensor, to argument 1, shared memory of each block of `mask`.
absl::StatusOr<Value> CopyToMask(Elaborator& e, const BoundArgs& args, int64_t mask,
                                 size_t eviction_policy);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_BARRIER_OPERAND_H_

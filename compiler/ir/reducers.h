// Reducers: tiles that the iterations of parallel loops accumulate into (T.alloc_reducer), read
// once T.finalize_reducer has brought the contributions together.
//
// They exist only while a kernel is elaborated. ResolveReducers gives every iteration a place of
// its own in a tile of partial results, which one Reduce folds where the reducer is finalised:
//
//   r[i] += f(i, j)         partial[i, j] += f(i, j)
//   finalize r              r += sum of partial over j
#ifndef KILN_COMPILER_IR_REDUCERS_H_
#define KILN_COMPILER_IR_REDUCERS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/stmt.h"

namespace kiln::ir {

struct Reducer {
  Buffer buffer;  // a fragment
  ReduceOp op;    // kSum, kMax, kMin or of bits
  SourceLoc loc;
  std::vector<Stmt> finals;  // statements that stand for "finalize", which do nothing themselves
};

// InvalidArgument (a diagnostic): a store that is no update by the reducer's own operation; an
// update whose place is neither an axis of the loop nor the same for all of its iterations, or in a
// loop whose extent is not known (but for the variables `open`); a reducer that is never finalised;
// a read where the reducer may not be finalised; an update, or another finalise, after that without
// a T.clear or T.fill between; a part of a reducer that is filled.
absl::StatusOr<Stmt> ResolveReducers(const Stmt& body, const std::vector<Reducer>& reducers,
                                     const std::vector<Expr>& open, const SourceFile& source);

// What a reducer starts from, and what an update leaves of an old value.
Expr ReducerIdentity(ReduceOp op, DType type);
Expr ReducerUpdate(ReduceOp op, const Expr& old, const Expr& value);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_REDUCERS_H_

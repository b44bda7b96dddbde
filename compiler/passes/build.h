// Small builders that lowering passes share.
#ifndef KILN_COMPILER_PASSES_BUILD_H_
#define KILN_COMPILER_PASSES_BUILD_H_

#include <functional>
#include <string>
#include <vector>

#include "compiler/ir/access.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/stmt.h"
#include "compiler/ir/visit.h"

namespace kiln::passes {

// A Mutator that knows the ranges of the loops, blocks and binds it is inside of.
class FactsMutator : public ir::Mutator {
 protected:
  ir::Stmt VisitStmt(const ir::Stmt& s) override;
  ir::Facts facts_;

 private:
  ir::Stmt VisitIf(const ir::Stmt& s);
  ir::Stmt VisitScope(const ir::Stmt& s, const std::vector<ir::Axis>& axes);
};

// Accesses whose guards are known to hold.
class DropGuards : public ir::Mutator {
 protected:
  ir::Stmt VisitStmt(const ir::Stmt& s) override;
  ir::Expr VisitExpr(const ir::Expr& e) override;
};

// for var in [0, extent): body(var), serial. A constant extent of one gives body(0) itself.
ir::Stmt SerialLoop(const std::string& name, const ir::Expr& extent, SourceLoc loc,
                    const std::function<ir::Stmt(const ir::Expr&)>& body);

// What the cut to tf32 leaves of it is `x` rounded to the nearest, ties away from zero: half of the
// last bit that stays is added to the bits. NaN stays what it is.
ir::Expr RoundedToTf32(const ir::Expr& x);

// Whether running `s` may change which elements `region` names: it declares a variable that the
// ranges use, or writes (or allocates) a buffer that they read. Without it nothing that names the
// region may move across `s`.
bool MovesRegion(const ir::Stmt& s, const ir::Region& region);

// Whether the place of `region` depends on what `buffer` holds.
bool IndexReads(const ir::Region& region, const ir::Buffer& buffer);

// Element indices of a region: range minima plus `offsets` on `dims`.
std::vector<ir::Expr> RegionIndices(const ir::Region& region, const std::vector<int>& dims,
                                    const std::vector<ir::Expr>& offsets);

// The conjunction of the bounds checks on `indices` that `facts` does not prove; undefined when all
// are proven. Buffers that are not global need none: their tiles are accessed inside by
// construction, and the verifier and interpreter check it.
ir::Expr InsidePredicate(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices,
                         const ir::Facts& facts);
// The same for a buffer of any scope: what a copy clips.
ir::Expr ClipPredicate(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices,
                       const ir::Facts& facts);

// The type that arithmetic on `type` is done in on a CPU: float32 for narrower floats, int32 for
// narrower integers, itself otherwise.
DType ComputeType(DType type);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_BUILD_H_

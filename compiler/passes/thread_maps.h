// Assignments to threads as index arithmetic: which iterations a thread runs, and in which of its
// registers it holds an element. Closed forms where an assignment has some (dealt out in turn; the
// digits of a layout), a table of constants where it has none (a shift modulo 229 over 128
// threads). All are exact.
#ifndef KILN_COMPILER_PASSES_THREAD_MAPS_H_
#define KILN_COMPILER_PASSES_THREAD_MAPS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/ir/stmt.h"
#include "compiler/layout/ownership.h"

namespace kiln::passes {

// The tables that a block looks things up in.
class ConstantTables {
 public:
  // int32 values, row-major; equal tables are one buffer.
  ir::Buffer Add(const std::string& name, const std::vector<int64_t>& shape,
                 std::vector<int64_t> values);
  // Of all of them, for the top of the block.
  std::vector<ir::Stmt> Allocations() const;

 private:
  std::vector<ir::Buffer> tables_;
};

// A loop's iterations as its threads see them: thread t has one at each step s of [0, steps) for
// which exists(t, s, i) holds, namely i = iteration(t, s), in ascending order. Undefined conditions
// always hold. `exists` must be asked before `iteration` is used for anything.
struct ThreadShare {
  int64_t steps = 0;
  std::function<ir::Expr(const ir::Expr& thread, const ir::Expr& step)> iteration;
  std::function<ir::Expr(const ir::Expr& thread, const ir::Expr& step, const ir::Expr& i)> exists;
  // Whether this thread is the one that acts for all who run i: one of them, always the same.
  std::function<ir::Expr(const ir::Expr& thread, const ir::Expr& step)> acts;
};

// KILN_CHECKs that every iteration has an owner among `threads`.
ThreadShare ShareOf(const layout::Ownership& loop, layout::ThreadRange threads,
                    ConstantTables* tables);

// The register that holds an element in all of its owners, from its row-major flat index. Anything
// for elements that nobody holds.
std::function<ir::Expr(const ir::Expr& flat)> SlotsOf(const layout::Ownership& fragment,
                                                      const std::string& name,
                                                      ConstantTables* tables);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_THREAD_MAPS_H_

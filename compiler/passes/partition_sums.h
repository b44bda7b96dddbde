// Sums of products in tensor memory, at thread level: the columns of each buffer, products that one
// thread starts and all wait for, and copies between tensor memory and registers. Part of
// partition-loops; lives for one launch.
#ifndef KILN_COMPILER_PASSES_PARTITION_SUMS_H_
#define KILN_COMPILER_PASSES_PARTITION_SUMS_H_

#include <functional>
#include <utility>
#include <vector>

#include "compiler/passes/thread_level.h"

namespace kiln::passes {

class PartitionSums {
 public:
  // Gives each ir::Scope::kTensor buffer that `launch` declares its columns, in program order.
  PartitionSums(const ir::Launch& launch, ThreadLevel* level);

  // A product whose result is in tensor memory: starts it, and waits until it is over. `uniform`
  // rewrites an expression that is the same for all threads.
  ir::Stmt Multiply(const ir::Stmt& s,
                    const std::function<ir::Expr(const ir::Expr&)>& uniform) const;
  // Operation `operation`, a copy between a fragment and tensor memory.
  ir::Stmt Move(int operation) const;

  // The body of the launch with what it needs before and after it: columns, which are taken and
  // given back, and the barrier that products arrive at.
  ir::Stmt Around(const ir::Stmt& body) const;

 private:
  // Where sums lie, and how the end of a product on them is told.
  struct Place {
    int64_t first = 0;       // column
    ir::Buffer done, phase;  // barrier, parity to wait for
  };

  const Place& PlaceOf(const ir::Buffer& sums) const;
  ir::Expr AddressOf(const ir::Buffer& sums) const;
  ir::Stmt Fence(SourceLoc loc, bool after) const;

  const ir::Launch& launch_;
  ThreadLevel* const level_;
  std::vector<std::pair<ir::Buffer, Place>> places_;  // in program order
  int64_t columns_ = 0;
  ir::Buffer slot_;  // address of the first column
  ir::Expr address_;
};

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_PARTITION_SUMS_H_

// What threads touch of the memory that they share, in a kernel that speaks of threads. Private to
// compiler/ir.
#ifndef KILN_COMPILER_IR_THREAD_MEMORY_H_
#define KILN_COMPILER_IR_THREAD_MEMORY_H_

#include <unordered_set>
#include <vector>

#include "compiler/ir/stmt.h"
#include "compiler/ir/thread_values.h"

namespace kiln::ir {

using BufferSet = std::unordered_set<const BufferNode*>;

// Buffers of shared and global memory of which every element belongs to one thread of the block: no
// two threads touch the same, whatever statements they are at. So it is where an index of all
// accesses, or several of them, says which thread it is: S[tx], S[i * 128 + tx, j] of 128 threads,
// S[8 * tx + k] of a k below 8.
// `threads`: the extents of the block.
BufferSet OwnElements(const Stmt& body, const std::vector<Expr>& indices,
                      const std::vector<int64_t>& threads, const ThreadValues& values);

// What a statement does in shared and global memory, but for buffers that are left out. Updates
// meet other updates without harm.
struct MemoryUse {
  BufferSet reads, writes, updates;
  void Add(const MemoryUse& other);
  // Whether one of the two must be over before the other begins.
  bool Meets(const MemoryUse& other) const;
};
MemoryUse MemoryUseOf(const Stmt& s, const BufferSet& except);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_THREAD_MEMORY_H_

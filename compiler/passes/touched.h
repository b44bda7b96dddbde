// Which buffers a statement reads and writes, of tiles and of threads alike.
#ifndef KILN_COMPILER_PASSES_TOUCHED_H_
#define KILN_COMPILER_PASSES_TOUCHED_H_

#include <set>

#include "compiler/ir/stmt.h"

namespace kiln::passes {

using Buffers = std::set<const ir::BufferNode*>;

struct Touched {
  Buffers reads, writes;
};

bool Meet(const Buffers& a, const Buffers& b);

// Buffers as wholes. An instruction counts as one that reads and writes all its operands; atomics,
// products that add and reductions that combine read what they write.
Touched TouchedBy(const ir::Stmt& s);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_TOUCHED_H_

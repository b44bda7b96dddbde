// Branches that give warps work beside each other, as parts. Private to compiler/ir.
//
//   if tx < 32: ...              on threads [0, 32): ...
//   elif tx < 64: ...      =>    on threads [32, 64): ...
//
// In a part nothing differs between its threads because of the branch any more: a variable that it
// counts its turns by is one for all of them, as under T.ws.
#ifndef KILN_COMPILER_IR_THREAD_PARTS_H_
#define KILN_COMPILER_IR_THREAD_PARTS_H_

#include <vector>

#include "compiler/ir/stmt.h"

namespace kiln::ir {

// `launch` with OnThreads for each branch whose condition says which whole warps do what, and in
// which those wait for a barrier of the kernel's own, or arrive at one together. As it is where a
// part would change a variable that the block, or a thread by itself, looks at, or has a meeting of
// all threads in it.
Stmt PartsOfThreads(const Stmt& launch, const std::vector<Expr>& indices,
                    const std::vector<int64_t>& extents);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_THREAD_PARTS_H_

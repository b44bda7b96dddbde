// Tensor memory that a kernel names, given to the threads that look at it. Private to
// compiler/lang.
//
// While a kernel is elaborated, what T.alloc_tmem makes is a buffer of ir::Scope::kTensor that
// every thread of the block sees: one warp issues products into it, others copy it to their
// registers. In what comes out of this there is none. A tile belongs to the threads that move it,
// as a fragment of theirs, and a product is theirs too, wherever its author had it issued from;
// whether it lies in tensor memory meanwhile is the target's to say (passes/hold_sums.h), and every
// target can multiply into a fragment.
//
//   on threads 32..63:                           for k:
//     for k: a[k] * b[k] -> tmem          =>       on threads 128..255: a[k] * b[k] -> fragment
//   on threads 128..255: tmem -> fragment        on threads 128..255: fragment -> fragment
//
// Why that is right: the parts are in one order by now (barrier_order.h), in which a product is
// over before what follows; a product reads tiles and tensor memory only, and so does the same
// whoever issues it, as long as what its place and conditions are computed from is at hand there:
// variables of the part that issued it are then kept by all threads.
//
//   - C_tmem[i, :, :] of several tiles names one of them. One is enough where all of a loop's turn
//   is
//     about one, and begins with writing all of it; else each is a fragment, and `i` chooses.
//   - Parts of a tile, C_tmem[:, i:i + 32], are constant: a loop that counts a few of them is
//   unrolled.
//   - The left operand of a product whose result others hold, or that takes a part of it that is
//   not
//     constant, lies in shared memory.
#ifndef KILN_COMPILER_LANG_TENSOR_MEMORY_H_
#define KILN_COMPILER_LANG_TENSOR_MEMORY_H_

#include "absl/status/statusor.h"
#include "compiler/ir/stmt.h"

namespace kiln::lang {

// Of a launch's annotations: some is given back before the block ends. Gone when it is given out.
inline constexpr char kTensorMemoryFreed[] = "tensor_memory_freed";

bool HoldsTensorMemory(const ir::Stmt& s);  // allocates some

// `launch`, its parts in order and without its arrivals and waits.
//
// InvalidArgument: more columns than there are. Unimplemented: a tile that several parts move, or
// of which nobody knows at compile time where a product into it stands.
absl::StatusOr<ir::Stmt> GiveTensorMemory(const ir::Program& program, const ir::Stmt& launch);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_TENSOR_MEMORY_H_

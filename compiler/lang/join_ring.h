// Rings of tiles that parts of a block keep, once the parts are in order. Private to compiler/lang.
//
// Where a tile of a ring is filled and used in one turn of a loop, one tile is enough. And a part
// that only fetches such tiles, beside one that works on them, is what a pipelined loop is:
//
//   for k:                                      for pipelined k, num_stages=S:
//     on threads P: A[..k..] -> a[k % S]   =>     A[..k..] -> a
//     on threads C: use a[k % S]                  use a
//
// That is what the author of a ring of S tiles asks for, in the form that targets know how to
// overlap: TMA by warps of their own, cp.async ahead of the work, or nothing on a CPU.
#ifndef KILN_COMPILER_LANG_JOIN_RING_H_
#define KILN_COMPILER_LANG_JOIN_RING_H_

#include "compiler/ir/stmt.h"

namespace kiln::lang {

// `launch`, in order and without its arrivals and waits. A buffer of shared memory becomes one tile
// if in a serial loop around several parts a whole tile of it is copied from a tensor, before
// anything else touches it, to the one place that all of the loop uses in a turn, and nothing
// outside of the loop does. Such a loop becomes a pipelined one, of a block of the threads that
// work, if all parts but one do nothing but copy from tensors to shared memory and that one is
// whole warpgroups, and if nothing speaks of single threads; or if all parts do so, and the
// products are the block's. Every other launch comes back as it is.
ir::Stmt JoinRing(const ir::Stmt& launch);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_JOIN_RING_H_

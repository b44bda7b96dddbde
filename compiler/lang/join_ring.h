// A part that fetches tiles into a ring beside one that works on them, as a pipelined loop. Private
// to compiler/lang.
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

// `launch`, in order and without its arrivals and waits. It becomes one of the threads that work if
// it has two parts, of which one does nothing but copy from tensors to shared memory and the other
// is whole warpgroups; if nothing in it speaks of single threads; and if in a serial loop around
// both a tile of shared memory, whole and before anything else, is copied to one place of a buffer
// that all of the loop, and nothing outside of it, uses there. Every other launch comes back as it
// is.
ir::Stmt JoinRing(const ir::Stmt& launch);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_JOIN_RING_H_

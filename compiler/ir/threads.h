// Kernels that speak of threads: of the index of one (T.get_thread_binding), of values that its
// warp exchanges (T.shfl_sync), of all threads meeting (T.sync_threads).
//
// They do so only while a kernel is elaborated. ResolveThreads gives such a kernel the meaning that
// every other one has, in program order for a block as a whole: what each thread does by itself
// becomes a loop over the threads of the block (ForKind::kThreads), what differs between threads is
// kept in registers, one row a thread (Scope::kRegister), and exchanges between threads stand
// between such loops.
//
//   tx = index                             for thread in threads(128):
//   x = A[tx]                                x[thread, 0] = A[thread]
//   x += shuffle(x, tx ^ 1)                  lane[thread, 0] = thread % 32 ^ 1
//   B[tx] = x                              shuffle y, x, lane
//                                          for thread in threads(128):
//                                            B[thread] = x[thread, 0] + y[thread, 0]
//
// Where a loop over threads ends, all of them meet as far as the meaning goes;
// passes/plant_barriers decides where they must. A loop ends where it has to:
//   - before a statement that is the block's: a tile operation, an exchange between threads, a
//     store that is the same for all threads, which the block does once;
//   - between two statements of which one writes memory that the other touches, unless each thread
//     touches elements of its own there (thread_memory.h): what a statement stored, every thread
//     sees in the next, whether or not the kernel says T.sync_threads in between;
//   - inside of a loop or branch around such a place, if all threads run it alike.
// Statements under a condition that differs between threads belong to the threads for which it
// holds. An exchange there goes on among those; a tile operation there is done by whole warps that
// follow each other, or refused; a barrier there is refused.
//
// Everything else stays the block's, so that sizes, conditions and loops that are the same for all
// threads are known to be. Launches that speak of no thread are left as they are, but for
// T.sync_threads, which says nothing there.
#ifndef KILN_COMPILER_IR_THREADS_H_
#define KILN_COMPILER_IR_THREADS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/stmt.h"

namespace kiln::ir {

// Names for the indices of a thread of the block, x first: variables that nothing binds. Exchanges
// (kShuffle, kBallot, kMatch) are between variables (Scope::kVar) of one element.
//
// InvalidArgument (a diagnostic): a barrier under a condition, or in a loop, that differs between
// threads; a tile operation whose place does, or which only some threads of a warp would do; a
// store to a fragment by single threads; an exchange in a loop that threads run differently often.
absl::StatusOr<Stmt> ResolveThreads(const Stmt& body, const std::vector<Expr>& indices,
                                    const SourceFile& source);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_THREADS_H_

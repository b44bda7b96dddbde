// Barriers that a kernel writes itself (T.alloc_barrier), taken out of an elaborated program.
//
// Parts of a block (T.ws) run here as they stand in the program, one after the other, and the
// compiler orders their memory itself. That is one of the orders that the barriers allow if, run
// so, every wait finds its phase over (PTX 9.7.13.15: a phase is over when as many threads as it
// counts have arrived); a kernel without races then computes the same in all of them. So the
// control flow around the barriers is run once at compile time.
#ifndef KILN_COMPILER_LANG_BARRIER_ORDER_H_
#define KILN_COMPILER_LANG_BARRIER_ORDER_H_

#include "absl/status/status.h"
#include "compiler/ir/stmt.h"

namespace kiln::lang {

// In an elaborated program a barrier is a buffer of Scope::kBarrier whose `values` are the arrivals
// of its phases, an arrival a Store to it, and a wait an Assert of `barrier[i] == parity`.
//
// InvalidArgument: a wait for what comes later, or for a phase that never ends. Unimplemented: what
// the barriers do depends on values that are known only at run time.
absl::Status CheckBarrierOrder(const ir::Program& program);

// The program without barriers, arrivals and waits.
ir::Stmt WithoutBarriers(const ir::Stmt& body);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_BARRIER_ORDER_H_

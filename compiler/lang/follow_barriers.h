// The control flow around the barriers that a kernel writes itself, run once at compile time:
// which arrivals and waits come, in which order. Private to compiler/lang.
//
// In an elaborated program a barrier is a buffer of Scope::kBarrier whose `values` are the arrivals
// of its phases, an arrival a Store to it (of 1: by each thread that comes by; of 0: one for all of
// them), and a wait an Assert of `barrier[i] == parity`.
#ifndef KILN_COMPILER_LANG_FOLLOW_BARRIERS_H_
#define KILN_COMPILER_LANG_FOLLOW_BARRIERS_H_

#include <vector>

#include "absl/status/status.h"
#include "compiler/ir/stmt.h"

namespace kiln::lang {

// Whether `s` itself allocates a barrier, names one, arrives at one or waits for one.
bool IsOfBarrier(const ir::Stmt& s);
bool HoldsBarrier(const ir::Stmt& s);  // `s` or what is in it

// One arrival or wait, at one time that control flow came by.
struct BarrierEvent {
  ir::Stmt stmt;  // the Store, the Assert
  ir::Buffer barrier;
  int64_t which = 0;
  bool is_wait = false;
  int64_t amount = 0;          // an arrival: threads; a wait: the parity, 0 or 1
  std::vector<int64_t> turns;  // of the serial loops around it, outermost first, from 0; in a part:
                               // of those in the part
};

class BarrierListener {
 public:
  virtual ~BarrierListener() = default;
  virtual void BeginBlock() = 0;  // barriers are fresh
  virtual absl::Status On(const BarrierEvent& event) = 0;
  // Statements [first, first + parts.size()) of `seq`, as many OnThreads as stand side by side and
  // have no threads in common, run beside each other: the events of each, in its order. Only where
  // KeepsParts, and where there are several with barriers; others run in order.
  virtual bool KeepsParts() const { return false; }
  virtual absl::Status OnParts(const ir::Seq& seq, size_t first,
                               const std::vector<std::vector<BarrierEvent>>& parts);
};

// Runs the control flow around the barriers of `launch`, for all its blocks at once if they are
// alike, else for one after the other. A listener's error ends it, and is what comes back.
//
// InvalidArgument: a barrier that there is not. Unimplemented: what the barriers do depends on
// values that are known only at run time. ResourceExhausted: too many steps.
absl::Status FollowBarriers(const ir::Program& program, const ir::Launch& launch,
                            BarrierListener* listener);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_FOLLOW_BARRIERS_H_

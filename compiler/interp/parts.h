// Parts of a block that run beside each other (warp specialisation). One runs at a time; it hands
// over where it has to wait. Private to compiler/interp.
#ifndef KILN_COMPILER_INTERP_PARTS_H_
#define KILN_COMPILER_INTERP_PARTS_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "compiler/interp/async.h"
#include "compiler/interp/node.h"

namespace kiln::interp {

class Parts {
 public:
  // Runs all bodies, the first one first, or with Order::kReverse the last. `apart`: what goes on
  // in each of them by itself (Async) is its own, as in blocks of a cluster.
  static Flow Run(Machine& m, const std::vector<ActionPtr>& bodies, bool apart = false);

  // From a body: comes back when `ready` holds, or false when it never will (a deadlock, which
  // fails the machine at `loc`) or another part has failed.
  bool WaitUntil(Machine& m, const std::function<bool()>& ready, SourceLoc loc);

 private:
  Parts(Machine& m, size_t count, bool apart);
  void TakeTurn(Machine& m, size_t own);
  void EndTurn(Machine& m, size_t own);
  void RunOne(Machine& m, size_t own, const Action& body);
  // Lets the next part that has not ended run; comes back when it is this one's turn again.
  void HandOver(Machine& m, size_t own, std::unique_lock<std::mutex>& lock);
  size_t Next(size_t own) const;

  std::mutex mutex_;
  std::condition_variable turn_;
  size_t current_ = 0;
  size_t idle_ = 0;  // parts in a row that found nothing to do
  std::vector<std::vector<Level>> levels_;
  std::vector<std::unique_ptr<Async>> asyncs_;  // of each part, while another runs; or empty
  std::vector<bool> ended_;
};

}  // namespace kiln::interp

#endif  // KILN_COMPILER_INTERP_PARTS_H_

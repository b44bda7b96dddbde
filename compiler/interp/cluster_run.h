// Blocks of a cluster that write each other's shared memory, beside each other (parts.h). Private
// to compiler/interp.
//
// What a block does between two of its releases (arrivals at barriers of others, or of all) is an
// epoch, a number that rises throughout. Of every other block, a block knows the last epoch that
// comes before what it does now, by what it waited for. An access that another block's comes
// neither before nor after is a race, in whatever order the blocks happen to run here; and so may
// one of another block's memory come before that block begins, or after it has ended.
#ifndef KILN_COMPILER_INTERP_CLUSTER_RUN_H_
#define KILN_COMPILER_INTERP_CLUSTER_RUN_H_

#include <map>
#include <vector>

#include "compiler/interp/async.h"
#include "compiler/interp/machine.h"

namespace kiln::interp {

inline constexpr size_t kRankLevel = 1;  // of Machine::levels: the blocks of a cluster

class ClusterRun {
 public:
  ClusterRun(Machine& m, size_t blocks);

  // Of the block that runs: it begins, with a level of its own; it ends. False: a failure.
  void Begin(Machine& m, size_t rank);
  bool End(Machine& m, SourceLoc loc);

  // It touches memory of block `owner`. False (and a failure) where that may not be there.
  bool Reach(Machine& m, int64_t owner, const std::string& what, SourceLoc loc);

  // What it did comes before what others do who wait for this barrier; it has waited for it.
  void Release(Machine& m, const BarrierKey& barrier);
  void Acquire(Machine& m, const BarrierKey& barrier);

  // All blocks meet.
  void Arrive(Machine& m);
  bool AllArrived(const Machine& m) const;
  void GoOn(Machine& m);

  Async& barriers() { return barriers_; }  // that several blocks arrive at

 private:
  using Epochs = std::vector<uint32_t>;  // one a block
  size_t Own(const Machine& m) const { return m.levels[kRankLevel].unit; }
  static void Learn(Epochs* to, const Epochs& more);

  const uint32_t before_;        // any block begins
  std::vector<Epochs> known_;    // by each block
  std::vector<Epochs> reached_;  // of each block's memory: the last epoch of each in which it did
  std::vector<bool> ended_;
  std::map<BarrierKey, Epochs> told_;  // to who waits
  std::vector<int64_t> meetings_;      // arrivals of each block
  std::vector<Epochs> met_;            // what is known after each meeting
  Async barriers_;
};

}  // namespace kiln::interp

#endif  // KILN_COMPILER_INTERP_CLUSTER_RUN_H_

// What goes on in a block while its threads run on: mbarriers, loads by TMA, products by wgmma.
// Private to compiler/interp.
//
// Everything completes as late as the program allows, or with Order::kReverse loads as early; until
// then what it writes counts as unwritten. So a missing wait reads something unwritten, and a tile
// that is filled again too early gives a wrong product.
#ifndef KILN_COMPILER_INTERP_ASYNC_H_
#define KILN_COMPILER_INTERP_ASYNC_H_

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "compiler/interp/machine.h"
#include "compiler/interp/tensor_memory.h"

namespace kiln::interp {

// PTX 9.7.13.15: a phase is over when no arrivals and no bytes are pending.
struct Mbarrier {
  int64_t count = 0;    // arrivals of a phase; 0: not initialised
  int64_t pending = 0;  // of this one
  int64_t bytes = 0;
  int64_t phases = 0;  // that are over
};

struct Async {
  struct Load {
    BarrierKey barrier;
    int64_t bytes;
    std::function<void()> perform;
  };
  struct Product {
    int registers;  // buffer slot of the result
    std::function<void()> perform;
  };

  struct Store {
    std::function<void()> perform;
  };

  // What a thread copies by itself.
  struct Copy {
    uint32_t thread;  // unit of the level of threads
    std::function<void()> perform;
  };

  // What the lanes of a warp store together, as far as they have come by.
  struct Matrices {
    uint32_t lanes = 0;  // one bit each
    std::array<int64_t, 32> rows{};
    std::array<std::vector<double>, 32> values;
  };

  std::map<BarrierKey, Mbarrier> barriers;
  std::vector<Load> loads;
  std::deque<std::vector<Copy>> groups;     // closed ones, and the one that is open
  std::map<int64_t, TensorMemory> tensors;  // by the rank of the block in its cluster

  // By the instruction and the warp, in its turns.
  std::map<std::pair<const void*, uint32_t>, std::vector<Matrices>> matrices;

  // What products of warps left for the next on the same sums: by the sums' slot and the number of
  // the part, what is to be added to which of their places.
  std::map<std::pair<int, int64_t>, std::vector<std::pair<int64_t, double>>> rests;

  // By the number of the part.
  std::map<int64_t, std::deque<Product>> products;
  std::map<int64_t, std::deque<Store>> stores;

  // The barrier, or null (and a failure) when nobody has initialised it.
  Mbarrier* Find(Machine& m, const BarrierKey& key, SourceLoc loc);
  void Arrive(Mbarrier* barrier, int64_t arrivals);
  void Transfer(Mbarrier* barrier, int64_t bytes);
  // Performs what is on its way to a barrier.
  void Land(Machine& m, const BarrierKey& key, SourceLoc loc);

 private:
  void EndProducts(Machine& m, TensorMemory* tensor, const BarrierKey& key, SourceLoc loc);
};

}  // namespace kiln::interp

#endif  // KILN_COMPILER_INTERP_ASYNC_H_

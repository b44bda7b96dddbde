// Which buffers of a block's shared memory are in use at the same time, and places for them where
// those that are not share bytes. Reads programs of tiles and of threads alike, so that what is
// legal is counted the way that the passes place it.
#ifndef KILN_COMPILER_IR_SHARED_USE_H_
#define KILN_COMPILER_IR_SHARED_USE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "compiler/ir/stmt.h"

namespace kiln::ir {

// An annotation of launches: whoever touches a tile that tensor loads fill has waited for all of
// them by the time that it touches it last. Without it such a tile is in use as long as the parts
// of the block that fetch and read it run beside each other.
inline constexpr char kLoadsAwaited[] = "loads_awaited";

// An annotation of launches: as many blocks of a cluster have become one, with the memory of all.
inline constexpr char kJoined[] = "joined";
// On a target with clusters: why they have.
inline constexpr char kJoinedWhy[] = "joined_why";

// An annotation of launches: blocks of a cluster, of which "cluster" says how many follow each
// other along x, write what others of them have: buffers of several `blocks`, which are in use
// throughout.
inline constexpr char kSharesMemory[] = "shares_memory";
inline constexpr char kClusterBlocks[] = "cluster";

// An annotation of copies of tensors to shared memory in such launches, and of tensor loads: a bit
// for each block of the cluster that gets the same tile. All of them come by, or the first of them
// loads for all.
inline constexpr char kMulticast[] = "multicast";
// An annotation of launches: which of these copies each block makes for itself, and why.
inline constexpr char kFetchedApart[] = "fetched_apart";

// A buffer is in use from the first statement that touches it to the last, on every path: across
// the back edge of a loop that it is allocated outside of; until products and stores that go on by
// themselves have read it (a wait for all of them; products in tensor memory: to the end); from the
// start of the launch where tensor loads fill it, which nothing precedes. Parts that wait for each
// other run beside each other. Barriers are in use throughout. What cp.async copies it has copied
// when the loop that waits for it ends (passes/pipeline_copies).
struct SharedUse {
  std::vector<Buffer> buffers;              // of shared memory and barriers, as allocated
  std::vector<std::vector<bool>> meets;     // of two buffers: in use at the same time
  std::vector<std::vector<bool>> together;  // what is in use, statement by statement, once each
};
SharedUse SharedUseOf(const Launch& launch);

// Bytes that a buffer in shared memory begins at a multiple of: what TMA and swizzles ask for
// (PTX 5.5.7).
int64_t SharedAlignment(const BufferNode& buffer);

// Of one block, in buffers of SharedUse. N: a number, or an expression for one.
template <typename N>
struct SharedPlaces {
  std::vector<N> places;  // bytes from the start of shared memory
  N bytes;                // in all
};

// Places such that buffers in use at the same time have no byte in common. Which one comes after
// which does not depend on how large they are: those that meet most others first, each after all
// before it that it meets. align(i, n): the next multiple from n on where buffer i may begin.
template <typename N>
SharedPlaces<N> PlaceShared(const SharedUse& use, const std::vector<N>& bytes, const N& zero,
                            const std::function<N(size_t, N)>& align,
                            const std::function<N(N, N)>& most) {
  const size_t count = use.buffers.size();
  std::vector<int64_t> met(count);
  std::vector<size_t> order(count);
  for (size_t i = 0; i < count; ++i)
    met[i] = std::count(use.meets[i].begin(), use.meets[i].end(), true);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return met[a] > met[b]; });
  SharedPlaces<N> plan{std::vector<N>(count, zero), zero};
  for (size_t k = 0; k < count; ++k) {
    const size_t i = order[k];
    N place = zero;
    for (size_t j = 0; j < k; ++j) {
      const size_t other = order[j];
      if (use.meets[i][other]) place = most(place, plan.places[other] + bytes[other]);
    }
    plan.places[i] = align(i, place);
    plan.bytes = most(plan.bytes, plan.places[i] + bytes[i]);
  }
  return plan;
}

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_SHARED_USE_H_

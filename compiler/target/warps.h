// What the warps of a block do beside each other on GPUs that have TMA, as one decision: whether
// one warpgroup fetches for the others, whether blocks share what they fetch, whether a block takes
// several tiles, and whether warpgroups take turns at them. Asked by the pass that builds it
// (passes/specialise_warps) and by the recommender before it prices, so that the two never
// disagree.
#ifndef KILN_COMPILER_TARGET_WARPS_H_
#define KILN_COMPILER_TARGET_WARPS_H_

#include <cstdint>
#include <vector>

#include "compiler/base/dtype.h"
#include "compiler/target/arch.h"

namespace kiln::target {

inline constexpr int64_t kWarpgroup = 128;      // threads
inline constexpr int64_t kMostBox = 256;        // elements a side of what TMA moves
inline constexpr int64_t kBoxRowBytes = 16;     // rows, and strides of tensors, are multiples of it
inline constexpr int64_t kTileBytes = 128;      // versions of a tile begin at multiples of it
inline constexpr int64_t kClusterBlocks = 2;    // of a cluster that shares tiles
inline constexpr int64_t kMostConsumers = 384;  // threads beside the warpgroup that fetches

// A tile that a step of a loop fills whole from a tensor.
struct TileFetch {
  DType type;
  int64_t rows = 0, columns = 0;
  bool multiplied = false;  // a product takes it
  bool patch = false;       // the pixels under a tap, not a box of a tensor
  // Where it begins does not depend on the grid's second axis.
  bool same_across = false;
  // It lies in panels as wide as a swizzle, as the product reads it: each is a box of its own.
  bool panels = false;
};

// Whether TMA can fill it, given a source that TMA can read.
bool IsFetched(const TileFetch& fetch);

// A block as the decision sees it, for a launch with a pipelined loop whose body copies `fetches`
// (those of them that IsFetched holds for are fetched) and then works.
struct WarpQuery {
  int64_t threads = 0;
  int64_t stages = 0;         // of the loop; 0 = none
  int64_t sums = 0;           // elements of the widest product's result
  bool tensor_sums = false;   // products' results lie in tensor memory
  bool steps_differ = false;  // blocks take different numbers of steps
  // Nothing but fetched tiles is memory that all warpgroups share, and products take no operand
  // from registers by way of it.
  bool shares_fetches_alone = true;
  std::vector<TileFetch> fetches;
  // Bytes of a block's shared memory beside versions of what is fetched and barriers: other tiles,
  // none in the place of another, and what operands go through.
  int64_t other_bytes = 0;
  int64_t blocks = 0;  // of the grid; 0 = known at run time alone
  int64_t grid_axes = 1;
  int64_t across = 1;  // extent of the grid's second axis; 1 where it is not known
  // What the pass options ask for: "kiln.cluster", "kiln.persistent", "kiln.pingpong".
  int64_t cluster = kClusterBlocks;
  bool persistent = true;
  bool pingpong = false;

  bool operator==(const WarpQuery&) const = default;
};

struct WarpPlan {
  bool specialised = false;  // a warpgroup fetches, by TMA; without it the rest is as below
  int64_t cluster = 1;       // blocks, neighbours along the grid's second axis
  bool persistent = false;   // no more blocks than SMs, some of which take several tiles
  int64_t teams = 1;         // of consumers, that take turns at tiles (ping-pong)

  bool operator==(const WarpPlan&) const = default;
};

WarpPlan PlanWarps(const Arch& arch, const WarpQuery& query);

// Whether the blocks of a cluster all take this tile, so that each fetches a part of it for all.
bool IsShared(const TileFetch& fetch);

}  // namespace kiln::target

#endif  // KILN_COMPILER_TARGET_WARPS_H_

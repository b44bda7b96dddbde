#include "compiler/target/warps.h"

#include <algorithm>

#include "compiler/layout/swizzle.h"

namespace kiln::target {
namespace {

constexpr int64_t kMostSums = 96;  // of a thread among kMostConsumers: 128 registers at launch
constexpr int64_t kBarrierBytes = 1024;  // all that a block has take less

bool Fetches(const Arch& arch, const WarpQuery& q) {
  // Beside mma.sync, threads fetch by themselves.
  const bool has_unit = arch.name == "sm_90a" || (arch.name == "sm_100a" && q.tensor_sums);
  if (!has_unit || q.stages <= 0 || q.threads <= 0 || q.threads % kWarpgroup != 0) return false;
  if (q.threads > kMostConsumers) return false;
  if (q.threads == kMostConsumers && q.sums / q.threads > kMostSums) return false;
  return std::any_of(q.fetches.begin(), q.fetches.end(), IsFetched);
}

int64_t FetchedBytes(const WarpQuery& q) {
  int64_t bits = 0;
  for (const TileFetch& f : q.fetches) {
    if (IsFetched(f)) bits += q.stages * f.rows * f.columns * f.type.bits;
  }
  return bits / 8;
}

// A block of several turns has use for all of its tiles throughout.
bool FitsApart(const Arch& arch, const WarpQuery& q) {
  return FetchedBytes(q) + q.other_bytes + kBarrierBytes <= arch.smem_block;
}

// Blocks of a cluster wait for each other, and each for columns of tensor memory: of two clusters
// on the same SMs each could hold what the other waits for. So an SM must not have room for two
// blocks.
bool HasSmAlone(const Arch& arch, const WarpQuery& q) {
  return FetchedBytes(q) >= arch.smem_sm / 2;
}

}  // namespace

bool IsFetched(const TileFetch& f) {
  const int64_t row = f.columns * f.type.bytes();
  if (f.rows < 1 || f.rows > kMostBox || f.columns < 1) return false;
  const bool in_panels = f.panels && !f.patch && f.rows % layout::kAtomRows == 0;
  if (f.columns > kMostBox && !in_panels) return false;
  if (row % kBoxRowBytes != 0 || row * f.rows % kTileBytes != 0) return false;
  // Rows that fill no swizzle lie in an order for products that is no box.
  return !f.multiplied || layout::WidestMode(f.type.bits, f.columns) != layout::SwizzleMode::kNone;
}

bool IsShared(const TileFetch& f) {
  // Shares of a tile are whole atoms of a swizzle.
  return f.rows % (layout::kAtomRows * kClusterBlocks) == 0 && !f.patch && f.same_across;
}

WarpPlan PlanWarps(const Arch& arch, const WarpQuery& q) {
  WarpPlan plan;
  if (!Fetches(arch, q)) return plan;
  plan.specialised = true;
  const bool pairs = q.grid_axes > 1 && q.across % kClusterBlocks == 0 &&
                     arch.cluster >= kClusterBlocks && q.cluster == kClusterBlocks &&
                     (!q.tensor_sums || HasSmAlone(arch, q)) && !q.steps_differ;
  if (pairs && std::any_of(q.fetches.begin(), q.fetches.end(),
                           [](const TileFetch& f) { return IsFetched(f) && IsShared(f); })) {
    plan.cluster = kClusterBlocks;
  }
  // Barriers go on from tile to tile: all blocks take the same steps.
  const int64_t clusters = std::max<int64_t>(1, arch.cores / plan.cluster);
  plan.persistent = q.persistent && !q.steps_differ && FitsApart(arch, q) &&
                    (q.blocks == 0 || q.blocks / plan.cluster > clusters);
  if (q.pingpong && plan.persistent && q.threads == kWarpgroup && !q.tensor_sums &&
      q.shares_fetches_alone) {
    plan.teams = 2;
  }
  return plan;
}

}  // namespace kiln::target

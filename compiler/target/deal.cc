#include "compiler/target/deal.h"

#include <algorithm>
#include <numeric>

#include "compiler/base/int_math.h"

namespace kiln::target {
namespace {

constexpr int64_t kWarp = 32;

}  // namespace

std::optional<RowTeams> TeamsOf(int64_t rows, int64_t columns, int64_t threads, int64_t width) {
  if (rows <= 1 || columns % width != 0) return std::nullopt;
  const int64_t all = rows * columns, groups = columns / width;
  const bool turns = all <= threads * width || all % (threads * width) == 0;
  if (turns && (groups % threads == 0 || threads % groups == 0)) return std::nullopt;
  std::optional<RowTeams> best;
  for (int64_t across = 1; across <= threads && groups % across == 0; across *= 2) {
    int64_t down = std::min(threads / across, rows);
    while (rows % down != 0) --down;
    if (best && across * down < best->across * best->down) continue;
    best = RowTeams{across, down};
  }
  if (!best || best->across * best->down * 2 < threads) return std::nullopt;
  return best;
}

int64_t WidestDeal(int64_t rows, int64_t columns, int64_t threads, int64_t widest) {
  while (widest > 1 && rows * columns % (threads * widest) != 0 &&
         !TeamsOf(rows, columns, threads, widest)) {
    widest /= 2;
  }
  return widest;
}

Dealt DealRows(int64_t rows, int64_t columns, int64_t threads, int64_t widest) {
  if (rows <= 0 || columns <= 0 || threads <= 0) return {};
  const int64_t width = WidestDeal(rows, columns, threads, widest);
  if (const std::optional<RowTeams> teams = TeamsOf(rows, columns, threads, width)) {
    const int64_t turns = CeilDiv(columns / width, teams->across);
    return {turns * width * (rows / teams->down), rows / teams->down, teams->across,
            teams->across * teams->down == threads};
  }
  const int64_t turns = CeilDiv(rows * columns, threads * width);
  return {turns * width, std::min(rows, turns), std::min(threads, CeilDiv(columns, width)),
          rows * columns % (threads * width) == 0};
}

std::optional<SquareDeal> DealSquares(int64_t rows, int64_t columns, int64_t threads) {
  constexpr int64_t kSide = SquareDeal::kSide;
  if (rows <= 0 || columns <= 0 || threads < kWarp) return std::nullopt;
  if (rows % kSide != 0 || columns % kSide != 0) return std::nullopt;
  const int64_t down = rows / kSide, across = columns / kSide, warps = threads / kWarp;
  SquareDeal d;
  int64_t lanes = 0;
  // Four by eight is where words that a warp reads and words that it writes meet least in a bank.
  for (const int64_t low : {4, 8, 2, 16, 1, 32}) {
    const int64_t wide = std::gcd(across, kWarp / low);
    if (down % low != 0 || low * wide <= lanes) continue;
    lanes = low * wide;
    d.low = low;
    d.wide = wide;
  }
  d.beside = std::gcd(across / d.wide, warps);
  d.below = std::gcd(down / d.low, warps / d.beside);
  d.pieces_across = across / d.wide / d.beside;
  d.pieces_down = down / d.low / d.below;
  return d;
}

}  // namespace kiln::target

#include "compiler/passes/gemm_layouts.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"

namespace kiln::passes {
namespace {

using layout::Axis;
using layout::Iter;
using layout::Layout;

constexpr int64_t kAtomRows = 16, kAtomColumns = 8, kAtomDepth = 16;
constexpr int64_t kLanes = 32;

bool Divides(int64_t m, int64_t n, int64_t rows, int64_t columns) {
  return m % (rows * kAtomRows) == 0 && n % (columns * kAtomColumns) == 0;
}

// Rows of an operand: warp, atom, half of the atom, group of four lanes.
std::vector<Iter> Rows(int64_t m, WarpGrid warps, int64_t registers_per_atom_row) {
  return {{warps.rows, kLanes, Axis::kTx},
          {m / warps.rows / kAtomRows, registers_per_atom_row, Axis::kM},
          {2, 2, Axis::kM},
          {8, 4, Axis::kTx}};
}

}  // namespace

absl::StatusOr<WarpGrid> ShareWarps(int64_t m, int64_t n, int64_t warps, ir::GemmPolicy policy) {
  std::optional<WarpGrid> best;
  double best_score = 0;
  for (int64_t rows = warps; rows >= 1; --rows) {
    if (warps % rows != 0 || !Divides(m, n, rows, warps / rows)) continue;
    const WarpGrid grid{rows, warps / rows};
    const double height = static_cast<double>(m) / static_cast<double>(grid.rows);
    const double width = static_cast<double>(n) / static_cast<double>(grid.columns);
    double score = -std::abs(std::log(height / width));
    if (policy == ir::GemmPolicy::kFullRow) score = static_cast<double>(grid.rows);
    if (policy == ir::GemmPolicy::kFullCol) score = static_cast<double>(grid.columns);
    if (best && score <= best_score) continue;
    best = grid;
    best_score = score;
  }
  if (best) return *best;
  return absl::InvalidArgumentError(absl::StrCat(warps, " warps cannot share a result of ", m,
                                                 " x ", n, " in atoms of ", kAtomRows, " x ",
                                                 kAtomColumns));
}

absl::StatusOr<Layout> AccumulatorLayout(int64_t m, int64_t n, WarpGrid warps) {
  if (!Divides(m, n, warps.rows, warps.columns)) {
    return absl::InvalidArgumentError(
        absl::StrCat(warps.rows, " x ", warps.columns, " warps do not divide ", m, " x ", n));
  }
  const int64_t atoms = n / warps.columns / kAtomColumns;
  std::vector<Iter> digits = Rows(m, warps, 4 * atoms);
  for (const Iter& iter : {Iter{warps.columns, kLanes * warps.rows, Axis::kTx},
                           Iter{atoms, 4, Axis::kM}, Iter{4, 1, Axis::kTx}, Iter{2, 1, Axis::kM}}) {
    digits.push_back(iter);
  }
  return Layout::FromIters(std::move(digits));
}

absl::StatusOr<Layout> LeftOperandLayout(int64_t m, int64_t k, WarpGrid warps) {
  if (m % (warps.rows * kAtomRows) != 0 || k % kAtomDepth != 0) {
    return absl::InvalidArgumentError(absl::StrCat("an operand of ", m, " x ", k, " is no whole ",
                                                   "number of atoms of ", kAtomRows, " x ",
                                                   kAtomDepth, " for ", warps.rows, " warps"));
  }
  const int64_t atoms = k / kAtomDepth;
  std::vector<Iter> digits = Rows(m, warps, 8 * atoms);
  for (const Iter& iter : {Iter{atoms, 8, Axis::kM}, Iter{2, 4, Axis::kM}, Iter{4, 1, Axis::kTx},
                           Iter{2, 1, Axis::kM}}) {
    digits.push_back(iter);
  }
  return Layout::FromIters(std::move(digits), {{warps.columns, kLanes * warps.rows, Axis::kTx}});
}

}  // namespace kiln::passes

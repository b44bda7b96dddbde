#include "compiler/passes/gemm_layouts.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/layout/memory_layouts.h"

namespace kiln::passes {
namespace {

using layout::Axis;
using layout::Iter;
using layout::Layout;

constexpr int64_t kAtomColumns = 8, kLanes = 32, kGroupWarps = 4;
constexpr int64_t kGroup = kGroupWarps * kLanes;  // threads
constexpr int64_t kGroupRows = 64;                // of a wgmma

bool IsGroupWide(MatrixUnit unit) {
  return unit == MatrixUnit::kWgmma || unit == MatrixUnit::kTcgen05;
}

int64_t AtomRows(MatrixUnit unit) { return unit == MatrixUnit::kWgmma ? kGroupRows : 16; }

bool Divides(int64_t m, int64_t n, int64_t rows, int64_t columns, int64_t atom_rows) {
  return m % (rows * atom_rows) == 0 && n % (columns * kAtomColumns) == 0;
}

// Rows of an operand of mma.sync or wgmma: part of the grid, atom, warp of the group, half of 16
// rows, group of four lanes.
std::vector<Iter> Rows(int64_t m, WarpGrid grid, MatrixUnit unit, int64_t registers_per_atom_row,
                       int64_t half) {
  const bool wide = unit == MatrixUnit::kWgmma;
  return {{grid.rows, wide ? kGroup : kLanes, Axis::kTx},
          {m / grid.rows / AtomRows(unit), registers_per_atom_row, Axis::kM},
          {wide ? kGroupWarps : 1, kLanes, Axis::kTx},
          {2, half, Axis::kM},
          {8, 4, Axis::kTx}};
}

// Threads from one part of the grid to the one that is next along its columns.
int64_t ColumnStep(WarpGrid grid, MatrixUnit unit) {
  return grid.rows * (IsGroupWide(unit) ? kGroup : kLanes);
}

// Row r lies in lane r of tensor memory, or where 32 or 64 rows leave lanes free, as the datapath
// says; thread t of a warpgroup reads lane t.
absl::StatusOr<Layout> FromTensorMemory(int64_t m, int64_t n, WarpGrid grid) {
  if (grid.rows != 1 || n % grid.columns != 0 || (m != 32 && m != 64 && m % 128 != 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor memory holds accumulators of 32, 64 or a multiple of 128 rows, not ", m));
  }
  const int64_t columns = n / grid.columns, slabs = std::max<int64_t>(1, m / 128);
  const char datapath = m == 32 ? 'G' : m == 64 ? 'F' : 'D';
  KILN_ASSIGN_OR_RETURN(const Layout lanes,
                        layout::TmemDatapathLayout(datapath, m / slabs, columns));
  std::vector<Iter> digits = {{slabs, lanes.Span(Axis::kTCol), Axis::kM}};
  // (row, column) of one slab; the columns of the other warpgroups come between.
  int64_t rows = m / slabs;
  for (const Iter& iter : lanes.shard()) {
    if (rows == 1 && grid.columns > 1) {
      digits.push_back({grid.columns, kGroup, Axis::kTx});
      rows = 0;
    }
    rows /= iter.extent;
    digits.push_back({iter.extent, iter.stride, iter.axis == Axis::kTLane ? Axis::kTx : Axis::kM});
  }
  return Layout::FromIters(std::move(digits));
}

absl::StatusOr<MatrixUnit> UnitOf(const target::GemmChoice& choice) {
  if (choice.unit == "fma") return MatrixUnit::kFma;
  if (choice.unit == "mma") return MatrixUnit::kMma;
  if (choice.unit == "mma.sp") return MatrixUnit::kSparseMma;
  if (choice.unit == "wgmma") return MatrixUnit::kWgmma;
  if (choice.unit == "tcgen05") return MatrixUnit::kTcgen05;
  return absl::InvalidArgumentError(choice.why_not);
}

}  // namespace

const char* NameOf(MatrixUnit unit) {
  switch (unit) {
    case MatrixUnit::kFma:
      return "fma";
    case MatrixUnit::kMma:
      return "mma.sync";
    case MatrixUnit::kSparseMma:
      return "mma.sp";
    case MatrixUnit::kWgmma:
      return "wgmma";
    case MatrixUnit::kTcgen05:
      return "tcgen05";
  }
  return "";
}

absl::StatusOr<Layout> AccumulatorLayout(int64_t m, int64_t n, WarpGrid grid, MatrixUnit unit) {
  if (unit == MatrixUnit::kTcgen05) return FromTensorMemory(m, n, grid);
  if (!Divides(m, n, grid.rows, grid.columns, AtomRows(unit))) {
    return absl::InvalidArgumentError(
        absl::StrCat(grid.rows, " x ", grid.columns, " parts do not divide ", m, " x ", n));
  }
  const int64_t atoms = n / grid.columns / kAtomColumns;
  std::vector<Iter> digits = Rows(m, grid, unit, 4 * atoms, 2);
  for (const Iter& iter : {Iter{grid.columns, ColumnStep(grid, unit), Axis::kTx},
                           Iter{atoms, 4, Axis::kM}, Iter{4, 1, Axis::kTx}, Iter{2, 1, Axis::kM}}) {
    digits.push_back(iter);
  }
  return Layout::FromIters(std::move(digits));
}

absl::StatusOr<Layout> LeftOperandLayout(int64_t m, int64_t k, WarpGrid grid, MatrixUnit unit,
                                         int element_bits) {
  const int64_t depth = 256 / element_bits, packed = 32 / element_bits;  // of an atom, a register
  if (m % (grid.rows * AtomRows(unit)) != 0 || k % depth != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an operand of ", m, " x ", k, " is no whole number of atoms of ", AtomRows(unit), " x ",
        depth, " for ", grid.rows, IsGroupWide(unit) ? " warpgroups" : " warps"));
  }
  const int64_t atoms = k / depth;
  std::vector<Iter> digits = Rows(m, grid, unit, 4 * packed * atoms, packed);
  for (const Iter& iter : {Iter{atoms, 4 * packed, Axis::kM}, Iter{2, 2 * packed, Axis::kM},
                           Iter{4, 1, Axis::kTx}, Iter{packed, 1, Axis::kM}}) {
    digits.push_back(iter);
  }
  return Layout::FromIters(std::move(digits), {{grid.columns, ColumnStep(grid, unit), Axis::kTx}});
}

absl::StatusOr<ProductPlan> PlanProduct(const target::Arch& arch, const target::GemmQuery& query) {
  const target::GemmChoice choice = target::ChooseGemm(arch, query);
  ProductPlan plan;
  KILN_ASSIGN_OR_RETURN(plan.unit, UnitOf(choice));
  plan.why_not = choice.why_not;
  plan.a_swizzle = choice.a_swizzle;
  plan.b_swizzle = choice.b_swizzle;
  const WarpGrid grid = plan.grid = choice.grid;
  KILN_ASSIGN_OR_RETURN(plan.c, AccumulatorLayout(query.m, query.n, grid, plan.unit));
  if (query.a_space == target::OperandSpace::kShared) return plan;
  if (query.trans_a || plan.unit == MatrixUnit::kFma || plan.unit == MatrixUnit::kTcgen05) {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(plan.unit), " takes no ",
                                                   query.trans_a ? "transposed " : "",
                                                   "left operand from registers"));
  }
  const bool in_order = plan.unit == MatrixUnit::kMma || query.a_loaded;
  if (query.a.bits == 32 && (!in_order || grid.columns != 1)) {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(plan.unit), " in ", grid.columns,
                                                   " columns takes no left operand of ",
                                                   query.a.ToString(), " from registers"));
  }
  if (query.a.bits == 32 && plan.unit == MatrixUnit::kMma) {
    KILN_ASSIGN_OR_RETURN(plan.a, AccumulatorLayout(query.m, query.k, grid, plan.unit));
    return plan;
  }
  const int64_t depth = query.sparse ? query.k / 2 : query.k;
  KILN_ASSIGN_OR_RETURN(plan.a, LeftOperandLayout(query.m, depth, grid, plan.unit, query.a.bits));
  return plan;
}

absl::StatusOr<std::optional<Layout>> SharedOperandLayout(MatrixUnit unit, int element_bits,
                                                          const std::vector<int64_t>& shape,
                                                          int64_t most) {
  layout::SwizzleMode mode = layout::WidestMode(element_bits, shape.back());
  if (layout::RowBytes(mode) > most) mode = layout::WidestMode(8, most);
  if (!IsGroupWide(unit) && (unit == MatrixUnit::kFma || mode == layout::SwizzleMode::kNone)) {
    return std::nullopt;
  }
  absl::StatusOr<Layout> atoms = layout::MmaSharedLayout(element_bits, mode, shape);
  if (atoms.ok()) return *std::move(atoms);
  if (!IsGroupWide(unit)) return std::nullopt;
  return atoms.status();
}

bool IsSharedOperandLayout(MatrixUnit unit, int element_bits, const std::vector<int64_t>& shape,
                           const Layout& layout, int64_t most) {
  const std::string lies = layout::Canonical(layout).ToString();
  for (int64_t widest = most; widest >= layout::RowBytes(layout::SwizzleMode::k32B); widest /= 2) {
    const auto wanted = SharedOperandLayout(unit, element_bits, shape, widest);
    if (wanted.ok() && *wanted && layout::Canonical(**wanted).ToString() == lies) return true;
  }
  return false;
}

}  // namespace kiln::passes

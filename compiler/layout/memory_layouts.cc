#include "compiler/layout/memory_layouts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compiler/base/status.h"
#include "compiler/layout/integers.h"
#include "compiler/layout/pack.h"
#include "compiler/layout/scopes.h"
#include "compiler/layout/text.h"
#include "compiler/layout/tile.h"

namespace kiln::layout {
namespace {

constexpr int64_t kLanesOfTmem = 128;
constexpr int64_t kBankElements = 512;
constexpr int64_t kScratchpadBanks = 8;

struct Datapath {
  char letter;
  int64_t rows;
  int64_t halves;  // parts of the columns that sit side by side in lanes
  bool scattered;  // 16-row slabs, 32 lanes apart
};

constexpr Datapath kDatapaths[] = {
    {'A', 128, 1, false}, {'B', 64, 2, false}, {'C', 64, 1, true},  {'D', 128, 1, false},
    {'E', 64, 2, false},  {'F', 64, 1, true},  {'G', 32, 4, false},
};

struct Atom {
  const char* name;
  int64_t columns;  // 32-bit columns of one repeat
  int64_t max_repeat;
  int64_t registers;  // of one repeat and 16 rows a warp
  const char* rows;   // extents and strides of 16 rows
  const char* row_strides;
  const char* cols;  // of one repeat
  const char* col_strides;
};

constexpr Atom kAtoms[] = {
    {"16x64b", 2, 128, 1, "2,8", "1@laneid,4@laneid", "2", "2@laneid"},
    {"16x128b", 4, 64, 2, "2,8", "1,4@laneid", "4", "1@laneid"},
    {"16x256b", 8, 32, 4, "2,8", "2,4@laneid", "4,2", "1@laneid,1"},
};

absl::Status CheckRepeat(absl::string_view name, int64_t columns, int64_t unit, int64_t most) {
  const int64_t repeat = columns / unit;
  if (columns % unit == 0 && IsPowerOfTwo(repeat) && repeat <= most) return absl::OkStatus();
  return BadArgument(absl::StrCat("tcgen05 ", name, ": ", columns, " columns of 32 bits are not ",
                                  unit, " times a power of two up to ", most));
}

absl::StatusOr<Layout> ThirtyTwoByThirtyTwo(int64_t rows, int64_t columns) {
  KILN_RETURN_IF_ERROR(CheckRepeat("32x32b", columns, 128 / rows, 128));
  if (rows == 128) {
    return Layout::FromIters({{128, 1, Axis::kTidInWg}, {columns, 1, Axis::kM}});
  }
  return Layout::FromIters(
      {{64, 1, Axis::kTidInWg}, {2, 64, Axis::kTidInWg}, {columns / 2, 1, Axis::kM}});
}

}  // namespace

absl::StatusOr<Layout> TmemDatapathLayout(char datapath, int64_t rows, int64_t columns,
                                          int sub_slab) {
  for (const Datapath& d : kDatapaths) {
    if (d.letter != datapath) continue;
    if (rows != d.rows || columns < 1 || columns % d.halves != 0) {
      return BadArgument(absl::StrCat("datapath ", std::string(1, datapath), " holds ", d.rows,
                                      " rows and columns in multiples of ", d.halves, ", not ",
                                      rows, " x ", columns));
    }
    if (sub_slab < 0 || sub_slab > 1 || (sub_slab == 1 && !d.scattered)) {
      return BadArgument(
          absl::StrCat("datapath ", std::string(1, datapath), " has no sub-slab ", sub_slab));
    }
    if (d.scattered) {
      return Layout::FromIters(
          {{4, 32, Axis::kTLane}, {16, 1, Axis::kTLane}, {columns, 1, Axis::kTCol}}, {},
          {{Axis::kTLane, 16 * sub_slab}});
    }
    std::vector<Iter> shard = {{rows, 1, Axis::kTLane}};
    if (d.halves > 1) shard.push_back({d.halves, rows, Axis::kTLane});
    shard.push_back({columns / d.halves, 1, Axis::kTCol});
    return Layout::FromIters(std::move(shard));
  }
  return BadArgument(absl::StrCat("datapaths are A to G, not ", std::string(1, datapath)));
}

absl::StatusOr<char> AccumulatorDatapath(int m, int cta_group, bool weight_stationary) {
  if (weight_stationary && (m != 64 || cta_group != 1)) {
    return BadArgument("weight-stationary mma exists for 64 rows on one CTA only");
  }
  if (cta_group == 1 && m == 128) return 'D';
  if (cta_group == 1 && m == 64) return weight_stationary ? 'E' : 'F';
  if (cta_group == 2 && m == 256) return 'A';
  if (cta_group == 2 && m == 128) return 'B';
  return BadArgument(absl::StrCat("no mma of ", m, " rows over ", cta_group, " CTAs"));
}

absl::StatusOr<Layout> GroupedAccumulator(int64_t rows, int64_t stages, int64_t n) {
  if (rows < 1 || rows > 64 || stages < 1 || n < 1 || stages > 512 / n) {
    return BadArgument(absl::StrCat("a grouped accumulator of ", rows, " rows, ", stages,
                                    " stages of ", n, " columns"));
  }
  return Layout::FromIters({{rows, 1, Axis::kTLane},
                            {stages, n, Axis::kTCol},
                            {2, 64, Axis::kTLane},
                            {n, 1, Axis::kTCol}});
}

absl::StatusOr<Layout> TmemOperandA(char datapath, int64_t k) {
  if (k < 1) return BadArgument(absl::StrCat("an operand of ", k, " columns"));
  switch (datapath) {
    case 'A':
    case 'D':
      return TmemDatapathLayout(datapath, 128, k);
    case 'F':
      return TmemDatapathLayout('F', 64, k);
    case 'B':
      return Layout::FromIters({{64, 1, Axis::kTLane}, {k, 1, Axis::kTCol}},
                               {{2, 64, Axis::kTLane}});
    case 'E':
      return Layout::FromIters({{2, 64, Axis::kTLane}, {64, 1, Axis::kTLane}, {k, 1, Axis::kTCol}});
    default:
      return BadArgument(absl::StrCat("no A operand for datapath ", std::string(1, datapath)));
  }
}

absl::StatusOr<Layout> Tcgen05AtomLayout(absl::string_view instruction, int64_t rows,
                                         int64_t columns, int element_bits) {
  const absl::string_view name = absl::StripPrefix(instruction, ".");
  if ((element_bits != 8 && element_bits != 16 && element_bits != 32) || columns < 1 ||
      columns * element_bits % 32 != 0 || (rows != 64 && rows != 128)) {
    return BadArgument(absl::StrCat("tcgen05 ", name, " moves 64 or 128 rows of whole 32-bit ",
                                    "columns of 8, 16 or 32 bit elements, not ", rows, " x ",
                                    columns, " of ", element_bits));
  }
  const int64_t words = columns * element_bits / 32;
  absl::StatusOr<Layout> layout = BadArgument(
      absl::StrCat("no tcgen05 instruction shape ", name, "; 32x32b, 16x64b, 16x128b, 16x256b"));
  if (name == "32x32b") layout = ThirtyTwoByThirtyTwo(rows, words);
  for (const Atom& atom : kAtoms) {
    if (name != atom.name) continue;
    KILN_RETURN_IF_ERROR(CheckRepeat(name, words, atom.columns, atom.max_repeat));
    const int64_t repeat = words / atom.columns;
    const int64_t slab = repeat * atom.registers;  // registers of one slab of 16 rows
    layout = Parse(absl::StrCat("S[(4,", rows / 64, ",", atom.rows, ",", repeat, ",", atom.cols,
                                "):(1@wid_in_wg,", slab, ",", atom.row_strides, ",", atom.registers,
                                ",", atom.col_strides, ")]"));
  }
  if (!layout.ok() || element_bits == 32) return layout;
  return Unpack(*layout, 32 / element_bits);
}

int64_t TmemColumns(const Layout& layout, int element_bits) {
  return (layout.Span(Axis::kTCol) * element_bits + 31) / 32;
}

absl::StatusOr<Layout> MmaAtomLayout(int element_bits, SwizzleMode mode) {
  KILN_ASSIGN_OR_RETURN(const SwizzleLayout swizzle, SwizzleFor(element_bits, mode));
  const int64_t row = kAtomRows * RowBytes(mode) / element_bits;
  return Layout::FromIters({{kAtomRows, row, Axis::kM}, {row, 1, Axis::kM}}, {}, {}, {swizzle});
}

absl::StatusOr<Layout> MmaSharedLayout(int element_bits, SwizzleMode mode,
                                       absl::Span<const int64_t> shape, AtomOrder order) {
  KILN_ASSIGN_OR_RETURN(const Layout atom, MmaAtomLayout(element_bits, mode));
  if (shape.size() < 2) return BadArgument("a shared mma layout has at least two dimensions");
  std::vector<int64_t> atom_shape(shape.size(), 1);
  atom_shape[shape.size() - 2] = kAtomRows;
  atom_shape[shape.size() - 1] = atom.shard()[1].extent;
  std::vector<Iter> outer(shape.size());
  std::vector<int64_t> counts;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] < 1 || shape[d] % atom_shape[d] != 0) {
      return BadArgument(absl::StrCat("dimension ", d, ": ", shape[d],
                                      " is not a multiple of the atom's ", atom_shape[d]));
    }
    counts.push_back(shape[d] / atom_shape[d]);
  }
  if (CheckedProduct(shape) < 0) return BadArgument("the shape passes 2^60 elements");
  const size_t r = shape.size() - 2;
  const bool panels = order == AtomOrder::kPanels;
  outer[r] = {counts[r], panels ? 1 : counts[r + 1], Axis::kM};
  outer[r + 1] = {counts[r + 1], panels ? counts[r] : 1, Axis::kM};
  int64_t stride = counts[r] * counts[r + 1];
  for (size_t d = r; d-- > 0;) {
    outer[d] = {counts[d], stride, Axis::kM};
    stride *= counts[d];
  }
  KILN_ASSIGN_OR_RETURN(const Layout arrangement, Layout::FromIters(std::move(outer)));
  KILN_ASSIGN_OR_RETURN(const Layout tiled, Tile(arrangement, counts, atom, atom_shape));
  return Canonical(tiled);
}

absl::StatusOr<Layout> ScaleFactorTmemLayout(const ScaleFactorShape& shape) {
  const bool per_mma_known = shape.per_mma == 1 || shape.per_mma == 2 || shape.per_mma == 4;
  if (!per_mma_known || shape.rows < 32 || shape.rows % 32 != 0 || shape.factors < 1 ||
      shape.factors % shape.per_mma != 0 || shape.reuse < 1 || shape.depth < 1 ||
      CheckedProduct({shape.rows, shape.factors, shape.reuse, shape.depth}) < 0) {
    return BadArgument(absl::StrCat("scale factors of ", shape.rows, " rows, ", shape.factors,
                                    " along K, ", shape.per_mma, " an mma"));
  }
  const int64_t blocks = shape.rows / 32;
  const int64_t groups = shape.factors / shape.per_mma;
  int64_t pack = 4 / shape.per_mma;
  while (groups % pack != 0) pack /= 2;
  const int64_t along_k = groups / pack;
  std::vector<Iter> shard;
  if (shape.depth > 1) shard.push_back({shape.depth, 4 * blocks * along_k, Axis::kTCol});
  shard.push_back({blocks, 4, Axis::kTCol});
  shard.push_back({32, 1, Axis::kTLane});
  shard.push_back({along_k, 4 * blocks, Axis::kTCol});
  shard.push_back({pack, shape.per_mma, Axis::kTCol});
  shard.push_back({shape.per_mma, 1, Axis::kTCol});
  if (shape.reuse > 1) shard.push_back({shape.reuse, 0, Axis::kTCol});
  return Layout::FromIters(std::move(shard), {{4, 32, Axis::kTLane}});
}

absl::StatusOr<Layout> ScaleFactorSharedLayout(int64_t rows, int64_t factors) {
  if (rows < 128 || rows % 128 != 0 || factors < 4 || factors % 4 != 0 ||
      CheckedProduct({rows, factors}) < 0) {
    return BadArgument(absl::StrCat("scale factors in shared memory come in 128 rows by 4, not ",
                                    rows, " by ", factors));
  }
  const int64_t along_k = factors / 4;
  return Layout::FromIters({{rows / 128, 512 * along_k, Axis::kM},
                            {4, 4, Axis::kM},
                            {32, 16, Axis::kM},
                            {along_k, 512, Axis::kM},
                            {4, 1, Axis::kM}});
}

absl::StatusOr<Layout> ScratchpadLayout(absl::string_view letters,
                                        absl::Span<const int64_t> shape) {
  if (letters.size() != shape.size() || CheckedProduct(shape) < 0 ||
      letters.find_first_not_of("PF") != absl::string_view::npos) {
    return BadArgument(
        absl::StrCat("'", letters, "': one P or F for each of ", shape.size(), " dimensions"));
  }
  int64_t partitions = 1;
  int64_t free = 1;
  std::vector<Iter> fastest_first;
  int64_t high = 1;
  size_t high_at = 0;
  for (size_t d = shape.size(); d-- > 0;) {
    const bool p = letters[d] == 'P';
    int64_t extent = shape[d];
    if (p && extent > kLanesOfTmem && partitions == 1 && extent % kLanesOfTmem == 0 && high == 1) {
      high = extent / kLanesOfTmem;
      extent = kLanesOfTmem;
    }
    int64_t& count = p ? partitions : free;
    fastest_first.push_back({extent, count, p ? Axis::kP : Axis::kF});
    count *= extent;
    if (high > 1 && high_at == 0) {
      fastest_first.push_back({high, 0, Axis::kF});
      high_at = fastest_first.size() - 1;
    }
  }
  if (partitions > kLanesOfTmem) {
    return BadArgument(absl::StrCat(partitions, " partitions; there are 128"));
  }
  if (high > 1) fastest_first[high_at].stride = free;
  return Layout::FromIters({fastest_first.rbegin(), fastest_first.rend()});
}

absl::StatusOr<Layout> ToBanks(const Layout& layout) {
  KILN_ASSIGN_OR_RETURN(const Axis temporary, RegisterAxis("FreeInBank", AxisKind::kMemory));
  KILN_ASSIGN_OR_RETURN(const Layout split,
                        SplitAxis(layout, Axis::kF, kBankElements, Axis::kBank, temporary));
  const auto [low, last] = split.Range(Axis::kBank);
  if (low < 0 || last >= kScratchpadBanks) {
    return Refuse({absl::StrCat("banks ", low, " to ", last, " of 8"), -1, -1,
                   Coord({{Axis::kBank, low}}), Coord({{Axis::kBank, last}})});
  }
  const auto rename = [&](std::vector<Iter> iters) {
    for (Iter& iter : iters) iter.axis = iter.axis == temporary ? Axis::kF : iter.axis;
    return iters;
  };
  Offset offset = split.offset();
  for (auto& term : offset) term.first = term.first == temporary ? Axis::kF : term.first;
  return Layout::FromIters(rename(split.shard()), rename(split.replica()), std::move(offset),
                           split.swizzles());
}

}  // namespace kiln::layout

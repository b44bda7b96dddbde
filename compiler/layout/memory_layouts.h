// Ready-made layouts of memories: tensor memory (tcgen05), shared memory for mma descriptors, scale
// factors of block-scaled mma, and the two-dimensional scratchpad of P and F.
//
// Tensor memory has 128 lanes (TLane) of 512 columns (TCol) of 32 bits. TCol counts columns of 32
// bits for accumulators and bytes for scale factors, as each function says.
#ifndef KILN_COMPILER_LAYOUT_MEMORY_LAYOUTS_H_
#define KILN_COMPILER_LAYOUT_MEMORY_LAYOUTS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/swizzle.h"

namespace kiln::layout {

// Where tcgen05.mma writes a (rows, columns) accumulator; r row, c column, n columns:
//   A, D (128 rows)  TLane = r                          TCol = c
//   B, E (64)        TLane = r + 64 (c div n/2)         TCol = c mod n/2      n even
//   C, F (64)        TLane = 32 (r div 16) + r mod 16   TCol = c              + 16 for sub_slab 1
//   G (32)           TLane = r + 32 (c div n/4)         TCol = c mod n/4      n a multiple of 4
absl::StatusOr<Layout> TmemDatapathLayout(char datapath, int64_t rows, int64_t columns,
                                          int sub_slab = 0);

// The letter for an mma of m rows over cta_group CTAs: one CTA 128 -> D, 64 -> F (E in weight-
// stationary mode, which exists for 64 rows only); two CTAs 256 -> A, 128 -> B.
absl::StatusOr<char> AccumulatorDatapath(int m, int cta_group, bool weight_stationary);

// An accumulator whose columns come in `stages` groups of 2 * n, each group split over both lane
// halves: logical (rows, stages, 2, n), rows at most 64.
absl::StatusOr<Layout> GroupedAccumulator(int64_t rows, int64_t stages, int64_t n);

// The A operand read from tensor memory: (rows, k), or for B (64, k) seen by both lane halves.
absl::StatusOr<Layout> TmemOperandA(char datapath, int64_t k);

// Registers of a warpgroup that tcgen05.ld or .st moves: instruction shape "32x32b", "16x64b",
// "16x128b" or "16x256b" (a leading dot is allowed), 128 or 64 rows, columns of element_bits (8, 16
// or 32). On tid_in_wg, or wid_in_wg and laneid. The repeat that the columns imply must be a power
// of two that the instruction has (128, 128, 64, 32).
absl::StatusOr<Layout> Tcgen05AtomLayout(absl::string_view instruction, int64_t rows,
                                         int64_t columns, int element_bits);

// Columns of 32 bits that an allocation for the layout takes.
int64_t TmemColumns(const Layout& layout, int element_bits);

// One swizzle atom of a shared-memory descriptor: (8, row bytes / element bytes), addresses in
// elements.
absl::StatusOr<Layout> MmaAtomLayout(int element_bits, SwizzleMode mode);
// Which atoms of a tile follow each other: those of a panel (all rows of it), or those of a band of
// eight rows (all panels of it).
enum class AtomOrder : uint8_t { kPanels, kBands };
// The atom tiled over `shape` (rank 2 or more; the last two dimensions in whole atoms), then the
// leading dimensions.
absl::StatusOr<Layout> MmaSharedLayout(int element_bits, SwizzleMode mode,
                                       absl::Span<const int64_t> shape,
                                       AtomOrder order = AtomOrder::kPanels);

// Scale factors in tensor memory, TCol in bytes: logical (rows, factors), groups of 32 rows seen by
// all four lane windows (warpx4). per_mma (1, 2, 4) factors serve one mma. `reuse` > 1 appends a
// stride-0 dimension; `depth` > 1 puts a pipeline stage in front, one whole footprint apart.
struct ScaleFactorShape {
  int64_t rows = 128;   // a multiple of 32
  int64_t factors = 4;  // along K, a multiple of per_mma
  int64_t per_mma = 4;
  int64_t reuse = 1;
  int64_t depth = 1;
};
absl::StatusOr<Layout> ScaleFactorTmemLayout(const ScaleFactorShape& shape);
// The same factors in shared memory, bytes: 512-byte blocks of 128 rows by 4 factors. rows a
// multiple of 128, factors of 4.
absl::StatusOr<Layout> ScaleFactorSharedLayout(int64_t rows, int64_t factors);

// A two-dimensional scratchpad: one letter, P or F, a dimension; row-major within each letter. At
// most 128 partitions; a single P dimension of a multiple of 128 puts its high part outermost in F.
absl::StatusOr<Layout> ScratchpadLayout(absl::string_view letters, absl::Span<const int64_t> shape);
// F split into 8 banks of 512: Bank = F / 512. Refused where a digit straddles a bank or F
// passes 8.
absl::StatusOr<Layout> ToBanks(const Layout& layout);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_MEMORY_LAYOUTS_H_

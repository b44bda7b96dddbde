// Register fragments of the tensor-core instructions, each one row of a table, in the positions
// that the PTX ISA documents ("Matrix fragments", ldmatrix, stmatrix, wgmma register layouts).
//
// Logical tiles are row-major: A is (M, K), B is (K, N), C is (M, N). m counts elements of the
// fragment in the order a0, a1, ... (several share a 32-bit register when they are narrower).
// Layouts sit on laneid, those of a warpgroup on wid_in_wg as well.
#ifndef KILN_COMPILER_LAYOUT_FRAGMENTS_H_
#define KILN_COMPILER_LAYOUT_FRAGMENTS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/layout/layout.h"

namespace kiln::layout {

struct FragmentRow {
  const char* shape;  // "m16n8k16"
  char operand;       // 'A', 'B' or 'C' (the accumulator and the result)
  int element_bits;   // of A and B; a C row serves every width of its shape's list below
  int rows, cols;     // of the logical tile
  const char* text;   // the layout
};

// mma.sync: all rows.
absl::Span<const FragmentRow> FragmentRows();

// The layout of one row. element_bits is that of A and B; for 'C' it is ignored. NotFound with the
// shapes that exist.
absl::StatusOr<Layout> MmaFragment(absl::string_view shape, char operand, int element_bits);

// ldmatrix and stmatrix .m8n8.b16 with 1, 2 or 4 matrices: the (8 * count, 8) stack of 16-bit
// matrices in registers. Transposed: what .trans gives.
absl::StatusOr<Layout> MatrixFragment(int count, bool transposed);
// The rows whose addresses the lanes supply: row r of matrix j comes from lane 8 j + r. (8 *
// count).
absl::StatusOr<Layout> MatrixRowAddresses(int count);
// The same for a 16 x 16 tile as mma A operand with .x4: (16 rows, 2 chunks of 8 columns).
Layout MatrixTileAddresses();

// wgmma: the accumulator (64, n), n a multiple of 8 up to 256, and A from registers: (64, 256 /
// bits) for 8, 16 and 32 bits.
absl::StatusOr<Layout> WgmmaAccumulator(int n);
absl::StatusOr<Layout> WgmmaOperandA(int element_bits);

// One row a thread of the warpgroup: tid_in_wg = row, m = column.
absl::StatusOr<Layout> WgLocalLayout(int64_t columns, int64_t rows = 128);

// A loop of n iterations dealt out to threads in turns of `vector` consecutive ones: iteration f
// runs on tx = f / vector mod threads in slot (f / (vector * threads)) * vector + f mod vector. The
// layout covers the next whole number of turns; iterations from n on are the caller's to guard (f <
// n).
absl::StatusOr<Layout> PlannedLoop(int64_t n, int64_t threads, int64_t vector);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_FRAGMENTS_H_

// Factor: from a table back to digits.
//
// A table whose copies differ from copy 0 by constants, and whose copy 0 is mixed radix under at
// most one XOR an axis, becomes the shortest Layout with that table; any other is proved not to be
// one. The result is checked on every cell: Table::Of(*Factor(t)) == t. This replaces simplifiers:
// an expression, slice or composition is written out and read back.
#ifndef KILN_COMPILER_LAYOUT_FACTOR_H_
#define KILN_COMPILER_LAYOUT_FACTOR_H_

#include "absl/status/statusor.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/table.h"

namespace kiln::layout {

struct FactorOptions {
  // XOR stages to try on an axis that is not mixed radix as it stands: per_element < 6,
  // swizzle_len < 7, atom_len < 11, both forms.
  bool swizzles = true;
};

// O(cells); each XOR candidate stops at its first mismatch. The refusal's witness is an element
// whose place differs from what the digits below it force.
absl::StatusOr<Layout> Factor(const Table& table, const FactorOptions& options = {});

// The same for one column: the shortest (extent, stride) list, fastest digit last, of
// values[i] - values[0].
absl::StatusOr<std::vector<Iter>> FactorColumn(absl::Span<const int64_t> values, Axis axis);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_FACTOR_H_

// Table: a layout written out, element by element. It is what every symbolic answer is tested
// against, the fallback where a function is not mixed radix, and the input of Factor.
#ifndef KILN_COMPILER_LAYOUT_TABLE_H_
#define KILN_COMPILER_LAYOUT_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/layout/layout.h"

namespace kiln::layout {

// size x copies x axes integers, one column for every (axis, copy) in flat order. Immutable once
// built. A table of more than kMaxCells integers is refused (ResourceExhausted): 1 GiB.
class Table {
 public:
  static constexpr int64_t kMaxCells = int64_t{1} << 27;

  static absl::StatusOr<Table> Of(const Layout& layout);
  // `columns[(axis_index * copies + copy) * size + flat]`; axes in increasing order.
  static absl::StatusOr<Table> FromColumns(int64_t size, int64_t copies, std::vector<Axis> axes,
                                           std::vector<int64_t> columns);

  int64_t size() const { return size_; }
  int64_t copies() const { return copies_; }
  const std::vector<Axis>& axes() const { return axes_; }
  absl::Span<const int64_t> column(size_t axis_index, int64_t copy) const {
    return {cells_.data() + (axis_index * copies_ + copy) * size_, static_cast<size_t>(size_)};
  }
  // Column of an axis by name; empty when the table has no such axis (its value is zero).
  absl::Span<const int64_t> column(Axis axis, int64_t copy) const;
  Coord At(int64_t flat, int64_t copy) const;

  // Element i of the result is element access[i] of this one: loop index -> buffer index -> points.
  // InvalidArgument for an index outside [0, size()).
  absl::StatusOr<Table> Pullback(absl::Span<const int64_t> access) const;

  bool operator==(const Table&) const = default;

 private:
  int64_t size_ = 0;
  int64_t copies_ = 0;
  std::vector<Axis> axes_;
  std::vector<int64_t> cells_;
};

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_TABLE_H_

#include "compiler/layout/table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/layout/integers.h"

namespace kiln::layout {
namespace {

absl::Status CheckCells(int64_t size, int64_t copies, size_t axes) {
  const int64_t cells = CheckedProduct({size, copies, std::max<int64_t>(axes, 1)});
  if (cells < 0 || cells > Table::kMaxCells) {
    return absl::ResourceExhaustedError(absl::StrCat("a table of ", size, " elements x ", copies,
                                                     " copies x ", axes,
                                                     " axes passes 2^27 cells"));
  }
  return absl::OkStatus();
}

// Fills column[0, size) with the shard's contribution on `axis`, from the fastest digit outwards:
// what is written is then repeated, shifted by the next digit's stride.
void FillShard(const std::vector<Iter>& shard, Axis axis, int64_t start, int64_t* column) {
  column[0] = start;
  int64_t filled = 1;
  for (size_t k = shard.size(); k-- > 0;) {
    const int64_t stride = shard[k].axis == axis ? shard[k].stride : 0;
    for (int64_t c = 1; c < shard[k].extent; ++c) {
      int64_t* to = column + c * filled;
      for (int64_t i = 0; i < filled; ++i) to[i] = column[i] + c * stride;
    }
    filled *= shard[k].extent;
  }
}

int64_t ReplicaValue(const std::vector<Iter>& replica, Axis axis, int64_t copy) {
  int64_t value = 0;
  for (size_t k = replica.size(); k-- > 0;) {
    if (replica[k].axis == axis) value += copy % replica[k].extent * replica[k].stride;
    copy /= replica[k].extent;
  }
  return value;
}

}  // namespace

absl::StatusOr<Table> Table::Of(const Layout& layout) {
  KILN_RETURN_IF_ERROR(CheckCells(layout.size(), layout.copies(), layout.axes().size()));
  Table table;
  table.size_ = layout.size();
  table.copies_ = layout.copies();
  table.axes_ = layout.axes();
  table.cells_.resize(table.axes_.size() * table.copies_ * table.size_);
  for (size_t a = 0; a < table.axes_.size(); ++a) {
    const Axis axis = table.axes_[a];
    int64_t* first = table.cells_.data() + a * table.copies_ * table.size_;
    FillShard(layout.shard(), axis, layout.offset(axis), first);
    for (int64_t q = 1; q < table.copies_; ++q) {
      const int64_t shift = ReplicaValue(layout.replica(), axis, q);
      int64_t* to = first + q * table.size_;
      for (int64_t i = 0; i < table.size_; ++i) to[i] = first[i] + shift;
    }
    if (const SwizzleLayout* swizzle = layout.swizzle(axis)) {
      const SwizzleLayout s = *swizzle;
      for (int64_t i = 0; i < table.copies_ * table.size_; ++i) first[i] = s(first[i]);
    }
  }
  return table;
}

absl::StatusOr<Table> Table::FromColumns(int64_t size, int64_t copies, std::vector<Axis> axes,
                                         std::vector<int64_t> columns) {
  KILN_RETURN_IF_ERROR(CheckCells(size, copies, axes.size()));
  if (columns.size() != axes.size() * static_cast<size_t>(size * copies)) {
    return BadArgument(absl::StrCat("a table of ", size, " x ", copies, " x ", axes.size(),
                                    " does not have ", columns.size(), " cells"));
  }
  for (size_t a = 1; a < axes.size(); ++a) {
    if (axes[a - 1] >= axes[a]) return BadArgument("a table's axes are in increasing order");
  }
  Table table;
  table.size_ = size;
  table.copies_ = copies;
  table.axes_ = std::move(axes);
  table.cells_ = std::move(columns);
  return table;
}

absl::Span<const int64_t> Table::column(Axis axis, int64_t copy) const {
  const auto it = std::lower_bound(axes_.begin(), axes_.end(), axis);
  if (it == axes_.end() || *it != axis) return {};
  return column(static_cast<size_t>(it - axes_.begin()), copy);
}

Coord Table::At(int64_t flat, int64_t copy) const {
  std::vector<std::pair<Axis, int64_t>> point;
  for (size_t a = 0; a < axes_.size(); ++a) point.emplace_back(axes_[a], column(a, copy)[flat]);
  return Coord(std::move(point));
}

absl::StatusOr<Table> Table::Pullback(absl::Span<const int64_t> access) const {
  if (access.empty()) return BadArgument("a pullback along no access at all");
  for (size_t i = 0; i < access.size(); ++i) {
    if (access[i] < 0 || access[i] >= size_) {
      return BadArgument(absl::StrCat("access ", i, " reads element ", access[i], " of ", size_));
    }
  }
  const int64_t size = static_cast<int64_t>(access.size());
  KILN_RETURN_IF_ERROR(CheckCells(size, copies_, axes_.size()));
  std::vector<int64_t> cells;
  cells.reserve(axes_.size() * copies_ * size);
  for (size_t a = 0; a < axes_.size(); ++a) {
    for (int64_t q = 0; q < copies_; ++q) {
      const absl::Span<const int64_t> from = column(a, q);
      for (const int64_t i : access) cells.push_back(from[i]);
    }
  }
  return FromColumns(size, copies_, axes_, std::move(cells));
}

}  // namespace kiln::layout

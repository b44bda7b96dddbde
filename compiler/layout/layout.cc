#include "compiler/layout/layout.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/status.h"
#include "compiler/layout/integers.h"
#include "compiler/layout/text.h"

namespace kiln::layout {
namespace {

constexpr size_t kMaxIters = 64;

int64_t Product(const std::vector<Iter>& iters) {
  std::vector<int64_t> extents;
  for (const Iter& iter : iters) extents.push_back(iter.extent);
  return CheckedProduct(extents);
}

absl::Status CheckExtents(const std::vector<Iter>& iters) {
  for (const Iter& iter : iters) {
    if (iter.extent < 1) {
      return BadArgument(
          absl::StrCat("extent ", iter.extent, " of an iter; extents are at least 1"));
    }
  }
  if (Product(iters) < 0) return BadArgument("the extents' product passes 2^60");
  return absl::OkStatus();
}

Offset Normalise(Offset offset) {
  std::stable_sort(offset.begin(), offset.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Offset sum;
  for (const auto& [axis, value] : offset) {
    if (!sum.empty() && sum.back().first == axis) {
      sum.back().second += value;
    } else {
      sum.emplace_back(axis, value);
    }
  }
  sum.erase(std::remove_if(sum.begin(), sum.end(), [](const auto& t) { return t.second == 0; }),
            sum.end());
  return sum;
}

// Sum over the iters on `axis` of |stride| * (extent - 1), plus |offset|; -1 when past kMaxReach.
int64_t Reach(const std::vector<Iter>& iters, Axis axis, int64_t start) {
  __int128 reach = start < 0 ? -static_cast<__int128>(start) : start;
  for (const Iter& iter : iters) {
    if (iter.axis != axis) continue;
    const __int128 stride = iter.stride < 0 ? -static_cast<__int128>(iter.stride) : iter.stride;
    reach += stride * (iter.extent - 1);
    if (reach > kMaxReach || stride > kMaxReach) return -1;
  }
  return reach > kMaxReach ? -1 : static_cast<int64_t>(reach);
}

void AddRange(const std::vector<Iter>& iters, Axis axis, int64_t* low, int64_t* high) {
  for (const Iter& iter : iters) {
    if (iter.axis != axis) continue;
    const int64_t reach = iter.stride * (iter.extent - 1);
    (reach < 0 ? *low : *high) += reach;
  }
}

}  // namespace

absl::StatusOr<Layout> Layout::FromIters(std::vector<Iter> shard, std::vector<Iter> replica,
                                         Offset offset, std::vector<SwizzleLayout> swizzles) {
  KILN_RETURN_IF_ERROR(CheckExtents(shard));
  KILN_RETURN_IF_ERROR(CheckExtents(replica));
  if (Product(replica) > kMaxCopies) return BadArgument("more than 2^20 copies");
  if (shard.size() > kMaxIters || replica.size() > kMaxIters) {
    return BadArgument("more than 64 iters");
  }
  __int128 shift = 0;
  for (const auto& [axis, value] : offset) {
    shift += value < 0 ? -static_cast<__int128>(value) : value;
    if (shift > kMaxReach) return BadArgument("the offsets pass 2^60");
  }
  Layout layout;
  layout.size_ = Product(shard);
  layout.copies_ = Product(replica);
  layout.shard_ = std::move(shard);
  layout.replica_ = std::move(replica);
  layout.offset_ = Normalise(std::move(offset));
  for (const SwizzleLayout& s : swizzles) {
    KILN_RETURN_IF_ERROR(
        SwizzleLayout::Make(s.per_element, s.swizzle_len, s.atom_len, s.inner, s.axis).status());
    if (s.swizzle_len > 0) layout.swizzles_.push_back(s);
  }
  std::sort(layout.swizzles_.begin(), layout.swizzles_.end(),
            [](const SwizzleLayout& a, const SwizzleLayout& b) { return a.axis < b.axis; });
  std::vector<Axis>& axes = layout.axes_;
  for (const Iter& iter : layout.shard_) axes.push_back(iter.axis);
  for (const Iter& iter : layout.replica_) axes.push_back(iter.axis);
  for (const auto& term : layout.offset_) axes.push_back(term.first);
  for (const SwizzleLayout& s : layout.swizzles_) axes.push_back(s.axis);
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  for (size_t i = 1; i < layout.swizzles_.size(); ++i) {
    if (layout.swizzles_[i].axis == layout.swizzles_[i - 1].axis) {
      return BadArgument(absl::StrCat("two swizzles on ", NameOf(layout.swizzles_[i].axis)));
    }
  }
  for (const Axis axis : axes) {
    const int64_t both = Reach(layout.shard_, axis, layout.offset(axis));
    if (both < 0 || Reach(layout.replica_, axis, both) < 0) {
      return BadArgument(absl::StrCat("the coordinates on ", NameOf(axis), " pass 2^60"));
    }
  }
  const auto position = [&axes](Axis axis) {
    return static_cast<uint16_t>(std::lower_bound(axes.begin(), axes.end(), axis) - axes.begin());
  };
  for (const Iter& iter : layout.shard_) layout.shard_index_.push_back(position(iter.axis));
  for (const Iter& iter : layout.replica_) layout.replica_index_.push_back(position(iter.axis));
  return layout;
}

int64_t Layout::offset(Axis axis) const {
  for (const auto& [a, value] : offset_) {
    if (a == axis) return value;
  }
  return 0;
}

const SwizzleLayout* Layout::swizzle(Axis axis) const {
  for (const SwizzleLayout& s : swizzles_) {
    if (s.axis == axis) return &s;
  }
  return nullptr;
}

int64_t Layout::size(Axis axis) const {
  int64_t product = 1;
  for (const Iter& iter : shard_) product *= iter.axis == axis ? iter.extent : 1;
  return product;
}

std::pair<int64_t, int64_t> Layout::Range(Axis axis) const {
  int64_t low = offset(axis);
  int64_t high = low;
  AddRange(shard_, axis, &low, &high);
  AddRange(replica_, axis, &low, &high);
  return {low, high};
}

int64_t Layout::Span(Axis axis) const {
  const auto [low, high] = Range(axis);
  return std::max<int64_t>(high, 0) + 1 - std::min<int64_t>(low, 0);
}

int64_t Layout::SpanOverMemory() const {
  int64_t span = 1;
  for (const Axis axis : axes_) span += IsMemory(axis) ? Span(axis) - 1 : 0;
  return span;
}

void Layout::Evaluate(int64_t flat, int64_t copy, int64_t* values) const {
  KILN_CHECK(flat >= 0 && flat < size_ && copy >= 0 && copy < copies_);
  for (size_t a = 0; a < axes_.size(); ++a) values[a] = offset(axes_[a]);
  for (size_t k = shard_.size(); k-- > 0;) {
    values[shard_index_[k]] += flat % shard_[k].extent * shard_[k].stride;
    flat /= shard_[k].extent;
  }
  for (size_t k = replica_.size(); k-- > 0;) {
    values[replica_index_[k]] += copy % replica_[k].extent * replica_[k].stride;
    copy /= replica_[k].extent;
  }
  for (const SwizzleLayout& s : swizzles_) {
    const size_t a = std::lower_bound(axes_.begin(), axes_.end(), s.axis) - axes_.begin();
    values[a] = s(values[a]);
  }
}

std::vector<int64_t> Layout::Column(Axis axis, int64_t copy) const {
  KILN_CHECK(copy >= 0 && copy < copies_);
  int64_t start = offset(axis);
  for (size_t k = replica_.size(); k-- > 0;) {
    if (replica_[k].axis == axis) start += copy % replica_[k].extent * replica_[k].stride;
    copy /= replica_[k].extent;
  }
  // Digit by digit from the innermost: what is there follows itself, a stride further each time.
  std::vector<int64_t> values = {start};
  values.reserve(static_cast<size_t>(size_));
  for (size_t k = shard_.size(); k-- > 0;) {
    const int64_t stride = shard_[k].axis == axis ? shard_[k].stride : 0;
    const size_t period = values.size();
    for (int64_t digit = 1; digit < shard_[k].extent; ++digit) {
      for (size_t x = 0; x < period; ++x) values.push_back(values[x] + digit * stride);
    }
  }
  if (const SwizzleLayout* s = swizzle(axis)) {
    for (int64_t& value : values) value = (*s)(value);
  }
  return values;
}

Coord Layout::Base(int64_t flat) const {
  std::vector<int64_t> values(axes_.size());
  Evaluate(flat, 0, values.data());
  std::vector<std::pair<Axis, int64_t>> point;
  for (size_t a = 0; a < axes_.size(); ++a) point.emplace_back(axes_[a], values[a]);
  return Coord(std::move(point));
}

std::vector<Coord> Layout::Apply(int64_t flat) const {
  std::vector<Coord> points;
  std::vector<int64_t> values(axes_.size());
  for (int64_t q = 0; q < copies_; ++q) {
    Evaluate(flat, q, values.data());
    std::vector<std::pair<Axis, int64_t>> point;
    for (size_t a = 0; a < axes_.size(); ++a) point.emplace_back(axes_[a], values[a]);
    points.emplace_back(std::move(point));
  }
  return points;
}

absl::StatusOr<std::vector<Coord>> Layout::Apply(absl::Span<const int64_t> coord,
                                                 absl::Span<const int64_t> shape) const {
  std::vector<int64_t> extents(shape.begin(), shape.end());
  if (shape.empty()) {
    for (const Iter& iter : shard_) extents.push_back(iter.extent);
  }
  if (CheckedProduct(extents) != size_) {
    return BadArgument(absl::StrCat("shape (", absl::StrJoin(extents, ","), ") does not have the ",
                                    size_, " elements of the layout"));
  }
  KILN_ASSIGN_OR_RETURN(const int64_t flat, Flatten(coord, extents));
  return Apply(flat);
}

std::string Layout::ToString() const { return Print(*this); }

bool Layout::operator==(const Layout& other) const {
  return shard_ == other.shard_ && replica_ == other.replica_ && offset_ == other.offset_ &&
         swizzles_ == other.swizzles_;
}

absl::StatusOr<int64_t> Flatten(absl::Span<const int64_t> coord, absl::Span<const int64_t> shape) {
  if (coord.size() != shape.size()) {
    return BadArgument(
        absl::StrCat("a coordinate of rank ", coord.size(), " in a shape of rank ", shape.size()));
  }
  int64_t flat = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (coord[d] < 0 || coord[d] >= shape[d]) {
      return BadArgument(absl::StrCat("coordinate ", coord[d], " of dimension ", d,
                                      " is outside [0, ", shape[d], ")"));
    }
    flat = flat * shape[d] + coord[d];
  }
  return flat;
}

std::vector<int64_t> Unflatten(int64_t flat, absl::Span<const int64_t> shape) {
  std::vector<int64_t> coord(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    coord[d] = flat % shape[d];
    flat /= shape[d];
  }
  return coord;
}

absl::StatusOr<Layout> ComposeLayout(const SwizzleLayout& swizzle, const Layout& tile) {
  if (tile.swizzle(swizzle.axis) != nullptr) {
    return BadArgument(absl::StrCat("the tile has a swizzle on ", NameOf(swizzle.axis),
                                    " already: ", tile.ToString()));
  }
  std::vector<SwizzleLayout> swizzles = tile.swizzles();
  swizzles.push_back(swizzle);
  return Layout::FromIters(tile.shard(), tile.replica(), tile.offset(), std::move(swizzles));
}

absl::StatusOr<Layout> ComposeLayout(const SwizzleLayout& swizzle) {
  return Layout::FromIters({{swizzle.period(), 1, swizzle.axis}}, {}, {}, {swizzle});
}

Layout TileLayout(const Layout& layout) {
  return *Layout::FromIters(layout.shard(), layout.replica(), layout.offset());
}

absl::StatusOr<Layout> Shift(const Layout& layout, const Offset& offset) {
  Offset sum = layout.offset();
  sum.insert(sum.end(), offset.begin(), offset.end());
  return Layout::FromIters(layout.shard(), layout.replica(), std::move(sum), layout.swizzles());
}

namespace {

bool Mergeable(const Iter& outer, const Iter& inner) {
  if (outer.axis != inner.axis) return false;
  int64_t product = 0;
  return !__builtin_mul_overflow(inner.extent, inner.stride, &product) && outer.stride == product;
}

std::vector<Iter> Merge(const std::vector<Iter>& iters) {
  std::vector<Iter> merged;
  for (Iter iter : iters) {
    if (iter.extent == 1) continue;
    if (iter.stride == 0) iter.axis = Axis::kM;
    if (!merged.empty() && Mergeable(merged.back(), iter)) {
      merged.back().extent *= iter.extent;
      merged.back().stride = iter.stride;
    } else {
      merged.push_back(iter);
    }
  }
  return merged;
}

}  // namespace

Layout Canonical(const Layout& layout) {
  std::vector<Iter> replica = layout.replica();
  for (Iter& iter : replica) {
    if (iter.stride == 0) iter.axis = Axis::kM;
  }
  std::sort(replica.begin(), replica.end(), [](const Iter& a, const Iter& b) {
    if (a.axis != b.axis) return a.axis < b.axis;
    const int64_t x = a.stride < 0 ? -a.stride : a.stride;
    const int64_t y = b.stride < 0 ? -b.stride : b.stride;
    if (x != y) return x > y;
    return a.stride != b.stride ? a.stride > b.stride : a.extent > b.extent;
  });
  std::vector<Iter> shard = Merge(layout.shard());
  if (shard.empty()) shard.push_back({1, 1, Axis::kM});
  return *Layout::FromIters(std::move(shard), Merge(replica), layout.offset(), layout.swizzles());
}

}  // namespace kiln::layout

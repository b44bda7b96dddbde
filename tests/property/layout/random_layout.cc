#include "tests/property/layout/random_layout.h"

#include <algorithm>

#include "compiler/base/status.h"

namespace kiln::layout {
namespace {

Axis AnyAxis(Rng* rng, const RandomOptions& options) {
  return options.axes[rng->Below(options.axes.size())];
}

int64_t AnyStride(Rng* rng, const RandomOptions& options) {
  static constexpr int64_t kStrides[] = {1, 1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 20, 24, 32, 64, 97};
  const uint64_t kind = rng->Below(20);
  if (kind == 0 && options.zero_strides) return 0;
  const int64_t stride = kStrides[rng->Below(std::size(kStrides))];
  return kind == 1 && options.negative_strides ? -stride : stride;
}

std::vector<SwizzleLayout> AnySwizzles(Rng* rng, const RandomOptions& options) {
  if (!options.swizzles || rng->Below(4) != 0) return {};
  const int len = static_cast<int>(Between(rng, 1, 3));
  return {SwizzleLayout{static_cast<int>(rng->Below(4)), len,
                        static_cast<int>(Between(rng, len, 4)), rng->Below(3) != 0,
                        options.axes[0]}};
}

Offset AnyOffset(Rng* rng, const RandomOptions& options) {
  Offset offset;
  while (options.offsets && rng->Below(3) == 0) {
    offset.emplace_back(AnyAxis(rng, options),
                        Between(rng, options.negative_strides ? -20 : 0, 40));
  }
  return offset;
}

std::vector<Iter> AnyReplica(Rng* rng, const RandomOptions& options) {
  std::vector<Iter> replica;
  while (options.replicas && replica.size() < 2 && rng->Below(3) == 0) {
    replica.push_back({Between(rng, 1, 4), AnyStride(rng, options), AnyAxis(rng, options)});
  }
  return replica;
}

std::vector<int64_t> AnyExtents(Rng* rng, int64_t max_size) {
  std::vector<int64_t> extents;
  int64_t size = 1;
  const uint64_t count = 1 + rng->Below(5);
  for (uint64_t k = 0; k < count; ++k) {
    const int64_t extent = Between(rng, 1, 8);
    if (size * extent > max_size) break;
    extents.push_back(extent);
    size *= extent;
  }
  return extents;
}

Layout Made(absl::StatusOr<Layout> layout) {
  KILN_CHECK(layout.ok());
  return *std::move(layout);
}

}  // namespace

int64_t Between(Rng* rng, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(rng->Below(high - low + 1));
}

Layout RandomLayout(Rng* rng, const RandomOptions& options) {
  std::vector<Iter> shard;
  for (const int64_t extent : AnyExtents(rng, options.max_size)) {
    shard.push_back({extent, AnyStride(rng, options), AnyAxis(rng, options)});
  }
  return Made(Layout::FromIters(std::move(shard), AnyReplica(rng, options), AnyOffset(rng, options),
                                AnySwizzles(rng, options)));
}

Layout RandomTidyLayout(Rng* rng, const RandomOptions& options) {
  const std::vector<int64_t> extents = AnyExtents(rng, options.max_size);
  std::vector<size_t> order(extents.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = k;
  rng->Shuffle(&order);
  std::map<Axis, int64_t> filled;
  std::vector<Iter> shard(extents.size());
  std::vector<Iter> replica = AnyReplica(rng, options);
  const auto place = [&](int64_t extent) {
    const Axis axis = AnyAxis(rng, options);
    int64_t& next = filled.try_emplace(axis, 1 + (rng->Below(4) == 0)).first->second;
    Iter iter{extent, next, axis};
    if (options.negative_strides && rng->Below(8) == 0) iter.stride = -iter.stride;
    next *= extent;
    if (rng->Below(5) == 0) next *= Between(rng, 1, 3);
    if (rng->Below(8) == 0) next += 1;
    return iter;
  };
  for (const size_t k : order) shard[k] = place(extents[k]);
  for (Iter& iter : replica) iter = place(iter.extent);
  return Made(Layout::FromIters(std::move(shard), std::move(replica), AnyOffset(rng, options),
                                AnySwizzles(rng, options)));
}

std::vector<int64_t> RandomShape(Rng* rng, int64_t n) {
  std::vector<int64_t> shape;
  const uint64_t rank = 1 + rng->Below(3);
  for (uint64_t d = 0; d < rank; ++d) {
    std::vector<int64_t> divisors;
    for (int64_t k = 1; k <= n; ++k) {
      if (n % k == 0) divisors.push_back(k);
    }
    shape.push_back(divisors[rng->Below(divisors.size())]);
    n /= shape.back();
  }
  shape.push_back(n);
  rng->Shuffle(&shape);
  return shape;
}

std::vector<std::map<Axis, int64_t>> Defined(const Layout& layout, int64_t flat) {
  std::map<Axis, int64_t> base;
  for (const Axis axis : layout.axes()) base[axis] = 0;
  int64_t remaining = layout.size();
  for (const Iter& iter : layout.shard()) {  // most significant digit first
    remaining /= iter.extent;
    base[iter.axis] += flat / remaining * iter.stride;
    flat %= remaining;
  }
  for (const auto& [axis, value] : layout.offset()) base[axis] += value;
  std::vector<std::map<Axis, int64_t>> points = {base};
  for (const Iter& iter : layout.replica()) {
    std::vector<std::map<Axis, int64_t>> more;
    for (const auto& point : points) {
      for (int64_t c = 0; c < iter.extent; ++c) {
        more.push_back(point);
        more.back()[iter.axis] += c * iter.stride;
      }
    }
    points = more;
  }
  for (const SwizzleLayout& s : layout.swizzles()) {
    const int low = s.inner ? s.per_element : s.per_element + s.atom_len;
    const int high = s.inner ? s.per_element + s.atom_len : s.per_element;
    for (auto& point : points) {
      int64_t result = point[s.axis];
      for (int b = 0; b < s.swizzle_len; ++b) {
        if (point[s.axis] >> (high + b) & 1) result ^= int64_t{1} << (low + b);
      }
      point[s.axis] = result;
    }
  }
  return points;
}

std::map<Axis, int64_t> Plain(const Coord& coord, const Layout& like) {
  std::map<Axis, int64_t> point;
  for (const Axis axis : like.axes()) point[axis] = coord[axis];
  return point;
}

}  // namespace kiln::layout

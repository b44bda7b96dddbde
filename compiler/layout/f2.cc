#include "compiler/layout/f2.h"

#include <algorithm>

#include "compiler/base/status.h"
#include "compiler/layout/integers.h"

namespace kiln::layout {
namespace {

constexpr int kMaxBits = 63;

// Bits that the axis's digits occupy, or nullopt when they overlap or are no bits.
std::optional<uint64_t> BitsOf(const Layout& layout, Axis axis) {
  uint64_t used = 0;
  for (const Iter& iter : layout.shard()) {
    if (iter.extent == 1 || iter.axis != axis || iter.stride == 0) continue;
    if (!IsPowerOfTwo(iter.extent) || !IsPowerOfTwo(iter.stride)) return std::nullopt;
    const uint64_t bits = static_cast<uint64_t>(iter.stride * (iter.extent - 1)) &
                          ~static_cast<uint64_t>(iter.stride - 1);
    if ((used & bits) != 0) return std::nullopt;
    used |= bits;
  }
  const int64_t offset = layout.offset(axis);
  if (offset < 0 || (used & static_cast<uint64_t>(offset)) != 0) return std::nullopt;
  return used | static_cast<uint64_t>(offset);
}

}  // namespace

uint64_t F2Map::operator()(uint64_t flat) const {
  uint64_t out = constant;
  for (int i = 0; i < inputs; ++i) out ^= (flat >> i & 1) != 0 ? columns[i] : 0;
  return out;
}

uint64_t F2Map::Pack(const Coord& point) const {
  uint64_t packed = 0;
  for (const Field& f : fields) packed |= static_cast<uint64_t>(point[f.axis]) << f.first_bit;
  return packed;
}

std::optional<F2Map> ToF2(const Layout& layout) {
  if (layout.copies() != 1 || !IsPowerOfTwo(layout.size())) return std::nullopt;
  F2Map map;
  map.inputs = Log2(layout.size());
  for (const Axis axis : layout.axes()) {
    const auto used = BitsOf(layout, axis);
    if (!used.has_value()) return std::nullopt;
    int bits = *used == 0 ? 0 : Log2(static_cast<int64_t>(*used)) + 1;
    if (const SwizzleLayout* s = layout.swizzle(axis); s != nullptr && bits > 0) {
      bits = std::max(bits, s->per_element + s->swizzle_len + s->atom_len);
    }
    map.fields.push_back({axis, map.outputs, bits});
    map.outputs += bits;
    if (map.outputs > kMaxBits) return std::nullopt;
  }
  map.constant = map.Pack(layout.Base(0));
  for (const Iter& iter : layout.shard()) {
    if (!IsPowerOfTwo(iter.extent)) return std::nullopt;
  }
  for (int i = 0; i < map.inputs; ++i) {
    map.columns.push_back(map.Pack(layout.Base(int64_t{1} << i)) ^ map.constant);
  }
  return map;
}

F2Kernel Eliminate(const F2Map& map) {
  // Rows: one an output bit, (inputs it depends on, outputs combined into it).
  std::vector<std::pair<uint64_t, uint64_t>> rows;
  for (int o = 0; o < map.outputs; ++o) {
    uint64_t depends = 0;
    for (int i = 0; i < map.inputs; ++i) depends |= (map.columns[i] >> o & 1) << i;
    rows.emplace_back(depends, uint64_t{1} << o);
  }
  F2Kernel kernel;
  kernel.section.assign(map.inputs, 0);
  size_t next = 0;
  for (int i = 0; i < map.inputs; ++i) {
    size_t pivot = next;
    while (pivot < rows.size() && (rows[pivot].first >> i & 1) == 0) ++pivot;
    if (pivot == rows.size()) continue;
    std::swap(rows[next], rows[pivot]);
    for (size_t r = 0; r < rows.size(); ++r) {
      if (r == next || (rows[r].first >> i & 1) == 0) continue;
      rows[r].first ^= rows[next].first;
      rows[r].second ^= rows[next].second;
    }
    ++next;
    ++kernel.rank;
  }
  for (size_t r = 0; r < next; ++r) {
    kernel.section[__builtin_ctzll(rows[r].first)] = rows[r].second;
  }
  for (size_t r = next; r < rows.size(); ++r) {
    KILN_CHECK(rows[r].first == 0);
    kernel.guards.push_back(rows[r].second);
  }
  return kernel;
}

}  // namespace kiln::layout

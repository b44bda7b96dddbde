#include "compiler/interp/node.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"

namespace kiln::interp {

int64_t Node::Int(Machine&) const { KILN_CHECK(false && "an integer of a node that has none"); }
double Node::Real(Machine&) const { KILN_CHECK(false && "a real of a node that has none"); }
void Node::Ints(Machine& m, int64_t* out) const { out[0] = Int(m); }
void Node::Reals(Machine& m, double* out) const { out[0] = Real(m); }

bool Access::Inside(Machine& m, const BufferState& b, const int64_t* index, int64_t* offset) const {
  int64_t sum = 0;
  for (int d = 0; d < b.rank; ++d) {
    if (index[d] < 0 || index[d] >= b.shape[d]) {
      if (clip) return false;
      m.Fail(absl::StatusCode::kOutOfRange, loc,
             absl::StrCat("access outside '", b.node->name, "': index ", index[d], " of dimension ",
                          d, ", whose extent is ", b.shape[d]),
             "guard the access with an `if`, or make the loop's extent fit the buffer");
      return false;
    }
    sum += index[d] * b.stride[d];
  }
  *offset = sum;
  return true;
}

bool Access::Resolve(Machine& m, int64_t* offset) const {
  if (predicate && !predicate->Int(m)) return false;
  const BufferState& b = m.buffers[slot];
  int64_t index[kMaxRank];
  for (size_t d = 0; d < indices.size(); ++d) index[d] = indices[d]->Int(m);
  if (m.failed()) return false;
  return Inside(m, b, index, offset);
}

void Access::ResolveLanes(Machine& m, int lanes, int64_t* offsets, bool* active) const {
  int64_t enabled[kMaxLanes];
  std::fill_n(enabled, lanes, 1);
  if (predicate) {
    if (predicate->lanes == 1) {
      std::fill_n(enabled, lanes, predicate->Int(m));
    } else {
      predicate->Ints(m, enabled);
    }
  }
  const BufferState& b = m.buffers[slot];
  int64_t index[kMaxRank], by_lane[kMaxRank][kMaxLanes];
  for (size_t d = 0; d < indices.size(); ++d) {
    if (indices[d]->lanes == 1) {
      std::fill_n(by_lane[d], lanes, indices[d]->Int(m));
    } else {
      indices[d]->Ints(m, by_lane[d]);
    }
  }
  for (int lane = 0; lane < lanes; ++lane) {
    for (size_t d = 0; d < indices.size(); ++d) index[d] = by_lane[d][lane];
    active[lane] = enabled[lane] && !m.failed() && Inside(m, b, index, &offsets[lane]);
  }
}

namespace {

bool SameValue(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

template <typename T, typename V>
void Convert(const V* in, int64_t n, T* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(in[i]);
}

bool AllWritten(const BufferState& b, int64_t offset, int64_t n) {
  return std::memchr(b.written.get() + offset, 0, static_cast<size_t>(n)) == nullptr;
}

constexpr int64_t kChunk = 256;

}  // namespace

bool WriteReal(Machine& m, BufferState& b, int64_t offset, double value, bool track,
               SourceLoc loc) {
  if (track && b.depth < m.levels.size()) {
    const double before = b.Real(offset);
    const bool had_value = !b.written || b.written[offset];
    b.SetReal(offset, value);
    const bool changes = !had_value || !SameValue(before, b.Real(offset));
    if (!m.Track(&b, offset, Touch::kWrite, changes, loc)) return false;
  } else {
    b.SetReal(offset, value);
  }
  if (b.written) b.written[offset] = b.wrote;
  return b.beside.empty() || m.Overwrite(b, offset, track, loc);
}

bool WriteInt(Machine& m, BufferState& b, int64_t offset, int64_t value, bool track,
              SourceLoc loc) {
  if (track && b.depth < m.levels.size()) {
    const int64_t before = b.Int(offset);
    const bool had_value = !b.written || b.written[offset];
    b.SetInt(offset, value);
    if (!m.Track(&b, offset, Touch::kWrite, !had_value || before != b.Int(offset), loc)) {
      return false;
    }
  } else {
    b.SetInt(offset, value);
  }
  if (b.written) b.written[offset] = b.wrote;
  return b.beside.empty() || m.Overwrite(b, offset, track, loc);
}

template <typename T>
bool ReadRow(Machine& m, BufferState& b, int64_t offset, int64_t step, int64_t n, bool track,
             SourceLoc loc, T* out) {
  const bool levels = track && b.depth < m.levels.size();
  const bool all_written = !b.written || (step == 1 && AllWritten(b, offset, n));
  const bool shared = b.written && b.wrote == kUnfenced;
  if (levels || !all_written || shared) {
    for (int64_t i = 0; i < n; ++i) {
      if (!CheckRead(m, b, offset + i * step, track, loc)) return false;
    }
  }
  if (b.real == std::is_same_v<T, double>) {
    if constexpr (std::is_same_v<T, double>) {
      b.LoadReals(offset, step, n, out);
    } else {
      b.LoadInts(offset, step, n, out);
    }
    return true;
  }
  for (int64_t i = 0; i < n; i += kChunk) {
    const int64_t count = std::min(kChunk, n - i);
    if constexpr (std::is_same_v<T, double>) {
      int64_t chunk[kChunk];
      b.LoadInts(offset + i * step, step, count, chunk);
      Convert(chunk, count, out + i);
    } else {
      double chunk[kChunk];
      b.LoadReals(offset + i * step, step, count, chunk);
      for (int64_t j = 0; j < count; ++j) out[i + j] = ir::FloatToInt(chunk[j], kInt64);
    }
  }
  return true;
}

template <typename T>
bool WriteRow(Machine& m, BufferState& b, int64_t offset, int64_t step, int64_t n, const T* in,
              bool track, SourceLoc loc) {
  constexpr bool kReal = std::is_same_v<T, double>;
  if (b.real != kReal) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = offset + i * step;
      const bool ok = b.real ? WriteReal(m, b, at, static_cast<double>(in[i]), track, loc)
                             : WriteInt(m, b, at, ir::FloatToInt(in[i], b.dtype), track, loc);
      if (!ok) return false;
    }
    return true;
  }
  if (track && b.depth < m.levels.size()) {
    for (int64_t i = 0; i < n; ++i) {
      bool ok;
      if constexpr (kReal) {
        ok = WriteReal(m, b, offset + i * step, in[i], track, loc);
      } else {
        ok = WriteInt(m, b, offset + i * step, in[i], track, loc);
      }
      if (!ok) return false;
    }
    return true;
  }
  if constexpr (kReal) {
    b.StoreReals(offset, step, n, in);
  } else {
    b.StoreInts(offset, step, n, in);
  }
  for (int64_t i = 0; i < n && !b.beside.empty(); ++i) {
    if (!m.Overwrite(b, offset + i * step, track, loc)) return false;
  }
  if (!b.written) return true;
  if (step == 1) {
    std::memset(b.written.get() + offset, b.wrote, static_cast<size_t>(n));
    return true;
  }
  for (int64_t i = 0; i < n; ++i) b.written[offset + i * step] = b.wrote;
  return true;
}

template bool ReadRow(Machine&, BufferState&, int64_t, int64_t, int64_t, bool, SourceLoc, double*);
template bool ReadRow(Machine&, BufferState&, int64_t, int64_t, int64_t, bool, SourceLoc, int64_t*);
template bool WriteRow(Machine&, BufferState&, int64_t, int64_t, int64_t, const double*, bool,
                       SourceLoc);
template bool WriteRow(Machine&, BufferState&, int64_t, int64_t, int64_t, const int64_t*, bool,
                       SourceLoc);

Place Locate(Machine& m, const Box& box) {
  Place place;
  place.buffer = &m.buffers[box.slot];
  for (size_t d = 0; d < box.mins.size(); ++d) {
    place.min[d] = box.mins[d]->Int(m);
    place.extent[d] = std::max<int64_t>(box.extents[d]->Int(m), 0);
  }
  return place;
}

}  // namespace kiln::interp

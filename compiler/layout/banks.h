// Shared-memory cost: the wavefronts of one warp request, and the swizzle or pitch that needs
// fewest.
//
// A model, not a measurement: 32 banks of 4 bytes; a request of up to 4 bytes a lane is served for
// all 32 lanes together, 8 bytes in two halves, 16 bytes in four quarters; within such a phase each
// bank serves one word a wavefront, to any number of lanes.
#ifndef KILN_COMPILER_LAYOUT_BANKS_H_
#define KILN_COMPILER_LAYOUT_BANKS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/layout/layout.h"

namespace kiln::layout {

inline constexpr int64_t kInactive = INT64_MIN;  // a lane that takes no part

// Wavefronts of one request: byte address of each of up to 32 lanes. bytes_per_lane is 1, 2, 4, 8
// or 16 (KILN_CHECKed).
int Wavefronts(absl::Span<const int64_t> byte_addresses, int bytes_per_lane);

// Largest number of distinct words in one bank within one phase: 1 is free of conflicts.
int ConflictDegree(absl::Span<const int64_t> byte_addresses, int bytes_per_lane);

// One warp request on a logical tile: the flat element at which each lane starts, or kInactive.
struct Request {
  std::vector<int64_t> elements;
  int elements_per_lane = 1;
};

// A way to lay a row-major tile of `columns` columns into shared memory: rows `pitch` apart, then
// XOR.
struct SharedPlan {
  SwizzleLayout swizzle;
  int64_t pitch = 0;
  int64_t store_wavefronts = 0;
  int64_t load_wavefronts = 0;
};

// Wavefronts of all requests under a plan.
int64_t Cost(absl::Span<const Request> requests, int64_t columns, const SharedPlan& plan,
             int element_bytes);

// The plan with the fewest wavefronts in total; ties take the smaller pitch, then the shorter
// swizzle, then the smaller parameters. Candidates: no swizzle, every <M,B,S> with 2^M elements the
// widest access and B <= 5, B <= S <= 7, at the natural pitch; and without a swizzle pitches padded
// by 4 to 16 bytes when `allow_padding`. An access that a padded pitch would misalign rules it out.
SharedPlan BestShared(absl::Span<const Request> stores, absl::Span<const Request> loads,
                      int64_t columns, int element_bytes, bool allow_padding);

// Largest power of two v, at most max_elements, such that every aligned group of v elements lies in
// v consecutive addresses of m from a multiple of v. base_alignment: of address 0, in elements.
int64_t ContiguousWidth(const Layout& memory, int64_t max_elements, int64_t base_alignment);

// The vector width of a loop: `owner` says which (thread, slot on m) runs each element, `memory`
// where it lies (on m). Largest power of two v such that, for every thread, slots [vg, vg + v) run
// elements in v consecutive addresses from a multiple of v, or none. Both have one size and no
// copies in memory. Refused when `owner` is not injective or memory has axes besides m.
absl::StatusOr<int64_t> VectorWidth(const Layout& owner, const Layout& memory, int64_t max_elements,
                                    int64_t base_alignment);

// Registers of one warp exchanged through shared memory: element (register r, lane) is written at
// source(r, lane) and read at target(r, lane), both over (registers, 32) and on m. When at each
// step a lane takes register r ^ (lane >> (5 - k) & (2^k - 1)) instead of r, the smallest k for
// which neither phase has a conflict. registers is a power of two; elements are 4, 8 or 16 bytes
// (narrower ones are packed first). Refused when no k up to log2(registers) is free of conflicts.
absl::StatusOr<int> WarpXorSwizzle(const Layout& source, const Layout& target, int element_bytes);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_BANKS_H_

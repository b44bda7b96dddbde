// Named hardware axes: what the integers of a layout count.
//
// An axis is an interned name. The built-in ones are constants below; others (a pass's own register
// space, a test's axis) come from RegisterAxis. Two axes never compare equal because their integers
// happen to: 1@laneid is not 1@TLane. Thread axes carry a scope pair (what they count inside of
// what), from which fusion and well-formedness follow. The table of names grows under a lock and
// never shrinks; reading is thread-safe.
#ifndef KILN_COMPILER_LAYOUT_AXIS_H_
#define KILN_COMPILER_LAYOUT_AXIS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::layout {

// Index into the table of names. Built-in values are stable within a process only; texts carry
// names.
enum class Axis : uint16_t {
  kM,  // linear memory: addresses in elements, or register slots of one thread
  kBx,
  kBy,
  kBz,  // block in the grid
  kCbx,
  kCby,
  kCbz,      // block in the cluster
  kTx,       // thread in the block
  kWarpid,   // warp in the block
  kWgid,     // warpgroup (128 threads) in the block
  kTidInWg,  // thread in the warpgroup
  kWidInWg,  // warp in the warpgroup
  kLaneid,   // lane in the warp
  kP,
  kF,     // partition and free coordinate of a two-dimensional scratchpad
  kBank,  // bank of such a scratchpad's accumulator (8 banks of 512 elements)
  kTLane,
  kTCol,  // lane (128) and column (512) of tensor memory
  kBuiltinCount,
};

enum class AxisKind : uint8_t { kGrid, kCluster, kThread, kMemory, kOther };

// Widest first; an axis counts `inner`s inside one `outer`.
enum class Scope : uint8_t { kNone, kKernel, kCluster, kCta, kWarpgroup, kWarp, kThread };

struct AxisInfo {
  std::string name;
  AxisKind kind = AxisKind::kOther;
  Scope outer = Scope::kNone;
  Scope inner = Scope::kNone;
  int64_t threads = 0;  // threads that one step of a thread axis moves by; 0 for other axes
};

const AxisInfo& InfoOf(Axis axis);
absl::string_view NameOf(Axis axis);
absl::string_view NameOf(Scope scope);
inline bool IsThread(Axis axis) { return InfoOf(axis).kind == AxisKind::kThread; }
inline bool IsMemory(Axis axis) { return InfoOf(axis).kind == AxisKind::kMemory; }

// The axis of that name. InvalidArgument with the known names when there is none: a misspelt axis
// must not become a new one.
absl::StatusOr<Axis> FindAxis(absl::string_view name);

// Finds or adds an axis without scope. The name must be an identifier; a built-in name with another
// kind, or a table of 65,535 names, is refused.
absl::StatusOr<Axis> RegisterAxis(absl::string_view name, AxisKind kind);

// What a set of thread axes spans together.
struct ScopeSpan {
  Scope outer = Scope::kNone;
  Scope inner = Scope::kNone;
};

// The span of the thread axes among `axes`, which must form one chain without gaps and without two
// axes that count the same thing: {warpid, laneid} is (cta, thread); {wgid, laneid} lacks the warps
// of a warpgroup; {tx, laneid} counts lanes twice. No thread axis gives (none, none). Refusals name
// the axes.
absl::StatusOr<ScopeSpan> SpanOfScopes(const std::vector<Axis>& axes);

// The single thread axis that spans (outer, inner), e.g. (cta, thread) -> tx. NotFound otherwise.
absl::StatusOr<Axis> AxisOfScopes(ScopeSpan span);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_AXIS_H_

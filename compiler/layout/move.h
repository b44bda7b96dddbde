// The cheapest way from one register layout to another: nothing, renaming registers, shuffles
// within each warp, or through shared memory.
#ifndef KILN_COMPILER_LAYOUT_MOVE_H_
#define KILN_COMPILER_LAYOUT_MOVE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/layout/banks.h"
#include "compiler/layout/layout.h"

namespace kiln::layout {

// One register (or one aligned group of elements that share a register) that changes its place.
// Threads are numbered in the block: tx, or warpid * 32 + laneid, and so on.
struct RegisterMove {
  int64_t from_thread = 0, from_slot = 0;
  int64_t to_thread = 0, to_slot = 0;
};

struct MovePlan {
  enum class Kind : uint8_t { kNone, kRegisters, kShuffle, kShared };
  Kind kind = Kind::kNone;
  // Elements that travel together: slots [slot, slot + group), slot a multiple of group; more than
  // one only for elements narrower than 32 bits.
  int group = 1;
  // kRegisters and kShuffle: what moves within a thread (identical places left out).
  std::vector<RegisterMove> local;
  // kShuffle: in each round a thread publishes one slot and receives at most one; all rounds of all
  // warps run side by side. Sources are read before any destination of the plan is written.
  std::vector<std::vector<RegisterMove>> rounds;
  // No plan with these groups has fewer rounds than this. Equal to rounds.size() unless an element
  // is wanted by several lanes.
  int rounds_lower_bound = 0;
  int64_t staying = 0;  // elements (of all copies wanted) already in the thread that wants them
  // kShared: a row-major tile of the given columns, each element stored once, all copies loaded.
  SharedPlan shared;
  int store_elements = 1, load_elements = 1;  // per access
};

// `from` and `to` place the same elements on thread axes and slots (m). `to` wants every one of its
// copies; any copy of `from` may be the source. columns: of the logical tile, for the way through
// shared memory. InvalidArgument for other axes, sizes that differ or element_bits outside {8, 16,
// 32, 64}; refused when a layout is not injective.
absl::StatusOr<MovePlan> PlanMove(const Layout& from, const Layout& to, int element_bits,
                                  int64_t columns);

absl::string_view NameOf(MovePlan::Kind kind);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_MOVE_H_

// Statements of parts, in an order that gives every wait what it needs. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_SCHEDULE_PARTS_H_
#define KILN_COMPILER_LANG_SCHEDULE_PARTS_H_

#include <set>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/stmt.h"

namespace kiln::lang {

// An arrival or wait at certain turns of the loops around it, outermost first.
struct BarrierTurn {
  ir::Stmt stmt;
  std::vector<int64_t> turns;
};
inline bool operator<(const BarrierTurn& a, const BarrierTurn& b) {
  return std::make_tuple(a.stmt.get(), a.turns) < std::make_tuple(b.stmt.get(), b.turns);
}

// `arrival`, of one part, comes before `wait`, of another.
struct PartNeed {
  BarrierTurn arrival, wait;
};

// The statements of `parts` (OnThreads), interleaved as interleave_parts.h says so that all `needs`
// are kept. Unimplemented: they cannot be.
absl::StatusOr<std::vector<ir::Stmt>> ScheduleParts(const ir::Program& program,
                                                    const std::vector<ir::Stmt>& parts,
                                                    const std::vector<PartNeed>& needs);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_SCHEDULE_PARTS_H_

// Whether two iterations of a parallel loop meet in an element of a fragment that one of them
// writes. What of that is certain in any case is refused before (ir/iteration_races.h): here a
// condition that nobody knows holds.
#ifndef KILN_COMPILER_PASSES_FIND_MEETING_H_
#define KILN_COMPILER_PASSES_FIND_MEETING_H_

#include <optional>
#include <string>

#include "compiler/passes/layout_problem.h"

namespace kiln::passes {

struct Meeting {
  int64_t first = 0, second = 0;  // iterations
  SourceLoc loc;                  // of the access of the second
  std::string what;               // "store to", "store to and read"
  std::string where;              // "f(0, 3)"
};

// The first one in program order.
std::optional<Meeting> FindMeeting(const LayoutProblem& problem, const Operation& op);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_FIND_MEETING_H_

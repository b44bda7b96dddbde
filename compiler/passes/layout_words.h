// What layout inference says: its refusals, each with the loop that set a layout, the one that
// disagrees, an element and its owners, and the lines of its story.
#ifndef KILN_COMPILER_PASSES_LAYOUT_WORDS_H_
#define KILN_COMPILER_PASSES_LAYOUT_WORDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/passes/find_meeting.h"
#include "compiler/passes/layout_problem.h"

namespace kiln::passes {

// Who holds what so far, and which operation said so.
struct LayoutsSoFar {
  std::vector<layout::Ownership> fragments;
  std::vector<int> set_by;  // -1: none
};

class LayoutWords {
 public:
  LayoutWords(const ir::Program& program, const LayoutProblem& problem)
      : program_(program), problem_(problem) {}

  // FailedPrecondition, a diagnostic at `loc`.
  absl::Status Error(SourceLoc loc, std::string message, std::string remedy,
                     std::vector<std::string> notes = {}) const;
  // Iteration `iteration` runs on `runs`, which is not where `element` of the use is held.
  absl::Status Disagreement(const Operation& op, int64_t iteration, const layout::ThreadSet& runs,
                            const FragmentUse& use, int64_t element,
                            const LayoutsSoFar& layouts) const;
  // One use needs iteration i on `a` first and on `b` for `element`.
  absl::Status DependsOnSerial(const Operation& op, const FragmentUse& use, int64_t i,
                               int64_t element, const layout::ThreadSet& a,
                               const layout::ThreadSet& b, const LayoutsSoFar& layouts) const;
  absl::Status Race(const Operation& op, const Meeting& meeting) const;
  absl::Status NotHeldByAll(int fragment, int64_t element, const layout::ThreadSet& owners) const;
  absl::Status NothingWrites(const Operation& op) const;

  const std::string& NameOf(int fragment) const;
  // "every thread", or those that write the fragment.
  std::string Everybody(int fragment) const;
  std::string WhoSet(const LayoutsSoFar& layouts, int fragment) const;
  // "loop 2 (i): runs where f[i] is held; decides 'g'"
  std::string Told(const Operation& op, const std::string& why,
                   const std::vector<int>& decided) const;
  std::string WaitsFor(const Operation& op, const LayoutsSoFar& layouts) const;

 private:
  const ir::Program& program_;
  const LayoutProblem& problem_;
};

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_LAYOUT_WORDS_H_

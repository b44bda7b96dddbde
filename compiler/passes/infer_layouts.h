// Layout inference: which thread holds each element of every fragment, and which thread runs each
// iteration of every parallel loop, so that no thread reads a register of another.
//
// Constraints: a loop that reads an element runs where it is held (its threads are among the
// owners); a loop that writes one runs on exactly its owners; a reduction's destination is held by
// everybody who holds a part. Four steps, in this order:
//   floating  fragments that are touched outside of any operation: every thread holds all
//   strict    what is annotated, and what a matrix instruction asks (an operand that is held
//             elsewhere is moved); fragments that an operation touches at constant indices only:
//             every thread holds all
//   common    what is known spreads over the uses, breadth first in program order, from a fragment
//             to the loops that touch it and from a loop to the fragments it touches
//   free      components of what is left: a root loop is planned from its shape, the rest follows;
//             every root and vector width is tried and the cheapest kept; of more than 48
//             operations a few roots, those that access memory most
// Deterministic. Nothing is approximated: elements and threads are compared one by one.
#ifndef KILN_COMPILER_PASSES_INFER_LAYOUTS_H_
#define KILN_COMPILER_PASSES_INFER_LAYOUTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/passes/layout_cost.h"
#include "compiler/passes/layout_problem.h"

namespace kiln::passes {

enum class InferenceStep : uint8_t { kFloating, kStrict, kCommon, kFree, kRevisit };
const char* NameOf(InferenceStep step);

// One line of the story: what a step decided about an operation, and why, or why it could not.
struct LayoutDecision {
  InferenceStep step = InferenceStep::kFloating;
  int operation = -1;          // in LayoutProblem::operations; -1: none
  std::vector<int> fragments;  // decided here
  std::string text;
};

// An operand of a matrix product that is held elsewhere than its instruction wants it, because
// something that came before wanted that: it is moved there for the product, and back if the
// product writes it.
struct LayoutMove {
  int operation = 0;
  int use = 0;       // in Operation::uses
  std::string plan;  // "2 rounds of shuffles", "shared memory, 64 wavefronts"
};

struct LayoutSolution {
  std::vector<layout::Ownership> fragments;  // undecided: elements that nothing touches
  std::vector<layout::Ownership> loops;      // by operation; a reduction's: its source's elements
  std::vector<int> set_by;                   // by fragment: the operation that decided it, or -1
  std::vector<LayoutMove> moves;
  std::vector<LayoutDecision> story;
};

// What a refusal is about, for whoever wants to check it.
struct LayoutConflict {
  int operation = -1;  // that has no place; -1: an annotated fragment is touched outside of loops
  // kLoop: the iteration that no set of threads can run, or, of a race, one of the two that meet.
  // kGemm: the position in the operand.
  int64_t iteration = -1;
  int64_t other_iteration = -1;              // of a race
  std::vector<layout::Ownership> fragments;  // what was decided when it came up; of a race nothing
};

// FailedPrecondition, a diagnostic at the loop that disagrees: no assignment keeps the constraints
// beside what was decided before. It names the loop that decided the layout, an element, its owners
// on both sides, and a remedy; `conflict`, when given, is filled.
absl::StatusOr<LayoutSolution> InferLayouts(const ir::Program& program,
                                            const LayoutProblem& problem,
                                            LayoutCost cost = LayoutCost::kTraffic,
                                            LayoutConflict* conflict = nullptr);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_INFER_LAYOUTS_H_

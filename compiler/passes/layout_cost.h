// What a choice of layouts costs, for comparing the candidates of free mode.
#ifndef KILN_COMPILER_PASSES_LAYOUT_COST_H_
#define KILN_COMPILER_PASSES_LAYOUT_COST_H_

#include <cstdint>
#include <vector>

#include "compiler/passes/layout_problem.h"

namespace kiln::passes {

// What to make small when there is a choice.
enum class LayoutCost : uint8_t {
  kTraffic,    // what memory is asked for, then instructions, then registers
  kRegisters,  // registers alone
};

// In the order in which costs are compared. Warps are 32 threads in a row; a request is what one
// instruction asks for all lanes of a warp.
struct LayoutPrice {
  // 32-bit registers of one thread, for single fragments, beyond what any machine compiles
  // (passes/check_resources): such a choice is none.
  int64_t overflow = 0;
  int64_t segments = 0;    // of 32 bytes of global memory, over all requests
  int64_t wavefronts = 0;  // of shared memory, over all requests
  int64_t rounds = 0;      // of exchanges between threads that reductions take, one after another
  // That access memory, issued by one thread at most, one loop after another.
  int64_t instructions = 0;
  int64_t registers = 0;  // of one thread, for fragments
  auto operator<=>(const LayoutPrice&) const = default;
};

// Prices candidates for the operations `component` and the fragments that they touch. The problem
// must outlive it.
class LayoutPrices {
 public:
  // With kRegisters only registers count.
  LayoutPrices(const LayoutProblem& problem, std::vector<int> component, LayoutCost cost);

  LayoutPrice Of(const std::vector<layout::Ownership>& fragments,
                 const std::vector<layout::Ownership>& loops) const;

 private:
  const LayoutProblem& problem_;
  const std::vector<int> component_;
  const LayoutCost cost_;
  std::vector<std::vector<MemoryTraffic>> traffic_;  // of each operation, where that is known
};

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_LAYOUT_COST_H_

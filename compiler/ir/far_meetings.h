// Iterations of a loop too large to be gone through that meet in an element. Private to
// compiler/ir.
#ifndef KILN_COMPILER_IR_FAR_MEETINGS_H_
#define KILN_COMPILER_IR_FAR_MEETINGS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/loop_accesses.h"

namespace kiln::ir {

// The iterations, as values of the loop's axes.
struct FarMeeting {
  std::vector<int64_t> first, second;
};

// Of a store and another access to the same buffer, both known. Whole for indices and conditions
// that are linear in the axes, their quotients and remainders by constants; what is found is
// evaluated, so that it is certain for any. `threads`: two stores meet where their values differ.
// `*steps` goes down by what it took.
std::optional<FarMeeting> FindFarMeeting(const LoopAccesses& loop, const LoopAccess& store,
                                         const LoopAccess& other, bool threads, int64_t* steps);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_FAR_MEETINGS_H_

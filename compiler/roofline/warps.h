// What a launch offers to warps that work beside each other, read from the program with its
// tunables open: what target::PlanWarps asks of a config, as numbers of the tape. Private to this
// folder.
#ifndef KILN_COMPILER_ROOFLINE_WARPS_H_
#define KILN_COMPILER_ROOFLINE_WARPS_H_

#include <vector>

#include "compiler/ir/stmt.h"
#include "compiler/roofline/symbolic.h"
#include "compiler/roofline/tape.h"
#include "compiler/target/warps.h"

namespace kiln::roofline {

struct FetchDemand {
  const ir::BufferNode* into = nullptr;
  int buffer = -1;  // index of Demand::buffers
  Num rows, columns;
  target::TileFetch tile;  // all but its rows and columns
};

struct WarpDemand {
  bool possible = false;    // a pipelined loop that copies tiles which TMA might fetch
  target::WarpQuery query;  // what does not depend on tunables: options, grid axes, ...
  bool known_blocks = true, known_across = true;  // before the kernel runs
  std::vector<FetchDemand> fetches;
  Num stages;
  std::vector<Num> sums;  // elements of each product's result
};

// `program` around `launch` says the pass options. `symbols` know the names of the launch's body.
// What specialise-warps finds out about addresses (strides that TMA takes, taps of convolutions) is
// taken for granted where it cannot be seen before elaboration.
WarpDemand FindWarps(const ir::Program& program, const ir::Launch& launch, Tape& tape,
                     const Symbols& symbols);

// The pass options that change how the warps of a launch work, in order of name, and the value that
// the passes take where nobody says one.
struct OpenOption {
  const char* name;
  int64_t otherwise;
  std::vector<int64_t> values;  // `otherwise` first
};
const std::vector<OpenOption>& OpenOptions();

}  // namespace kiln::roofline

#endif  // KILN_COMPILER_ROOFLINE_WARPS_H_

// What each tunable does, read from its use in the program, never from its name.
#ifndef KILN_COMPILER_ROOFLINE_ROLES_H_
#define KILN_COMPILER_ROOFLINE_ROLES_H_

#include <map>
#include <string>
#include <vector>

#include "compiler/ir/stmt.h"
#include "compiler/target/arch.h"

namespace kiln::roofline {

enum class Role : uint8_t {
  kTileM,
  kTileN,
  kTileK,       // extents of a gemm tile
  kTileRow,     // extent of a tile over rows, outside gemms
  kTileVector,  // extent of a tile along the contiguous axis, outside gemms
  kThreads,
  kStages,
  kPanel,   // blocks of a swizzle
  kSplit,   // more of it means more blocks: split-K and the like
  kBlocks,  // all blocks of a launch, whatever the size of the problem
  kFlag,    // a bool
  kOption,  // no tunable but a pass option
  kInert,   // no effect on the program
  kOther,
};

const char* RoleName(Role role);  // "tile M", "threads", ...
// The field of a hint that a tunable of this role decides ("block", "rstep", ...); "" = none.
const char* HintField(Role role);

struct Binding {
  Role role = Role::kOther;
  std::vector<double> cuts;  // sizes that this tile extent cuts into blocks or steps, largest first
  DType element{TypeCode::kFloat, 32};  // of what it tiles
  bool in_grid = false;                 // it cuts a grid axis (else a loop inside the block)
  bool multiplies = false;              // kThreads: the program has a product
  double stream_rows = 0;  // kTileN, kTileK: rows of the gemm's matrix where they are known
};

// One binding for each open tunable of `program`. `runtime` as in Analyze.
std::map<std::string, Binding> BindRoles(const ir::Program& program,
                                         const std::map<std::string, ir::Expr>& tunables,
                                         const std::map<std::string, double>& runtime);

// The role of a tunable that elaboration needs as a concrete value, from the programs that two of
// its values give: kInert when they are the same, kPanel when they differ in the swizzle, else
// kOther.
Role RoleByDifference(const ir::Program& a, const ir::Program& b);

// Values worth trying for a tunable that the user left to us: every entry is positive (or 0 for
// "none") and the list is sorted, without duplicates, and contains `fallback` (the kernel's own
// default). At most `limit` entries.
std::vector<int64_t> DeriveValues(const Binding& binding, const target::Arch& arch,
                                  int64_t fallback, int limit);

}  // namespace kiln::roofline

#endif  // KILN_COMPILER_ROOFLINE_ROLES_H_

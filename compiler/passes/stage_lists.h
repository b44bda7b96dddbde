// What the lists of a T.Pipelined loop (order=, stage=, group=) say of the statements of its body.
#ifndef KILN_COMPILER_PASSES_STAGE_LISTS_H_
#define KILN_COMPILER_PASSES_STAGE_LISTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/stmt.h"

namespace kiln::passes {

// Annotations of loops: numbers parted by commas; of "group", lists of them parted by semicolons.
inline constexpr char kOrderList[] = "order";
inline constexpr char kStageList[] = "stage";
inline constexpr char kGroupList[] = "group";

bool HasStageLists(const ir::For& loop);

// A statement of the body: not a name, nor an allocation. Names are written out in the statements
// that use them; those that are read from memory stand before each of them.
struct StagedStmt {
  ir::Stmt stmt;
  SourceLoc loc;
  int64_t stage = 0;   // steps that it runs later than stage 0 does
  int64_t order = 0;   // its place in a step: each has one of its own
  bool apart = false;  // -1 in both lists: left to warps that fetch; has neither
};

// The statements in the order of the kernel. An entry of the lists is of one statement, or of one
// group, whose statements keep their order. Without `stage` all are of stage 0, without `order`
// they stay in the order of the kernel. Errors (kInvalidArgument): lists of another length than
// there are statements or groups, groups that are not the statements in order, stages below 0, two
// entries of one order, -1 in one list alone; a name that is read from memory which a statement
// changes before one that uses the name; variables that are declared with a value.
absl::StatusOr<std::vector<StagedStmt>> ReadStageLists(const ir::Program& program,
                                                       const ir::For& loop);

// "the copy of line 12", for diagnostics.
std::string NameOf(const StagedStmt& s);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_STAGE_LISTS_H_

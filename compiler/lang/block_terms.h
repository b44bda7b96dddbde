// What of a block's number the control flow around barriers looks at. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_BLOCK_TERMS_H_
#define KILN_COMPILER_LANG_BLOCK_TERMS_H_

#include <optional>
#include <vector>

#include "compiler/ir/stmt.h"

namespace kiln::lang {

// Expressions of the grid's variables alone such that blocks for which all of them have the same
// values do the same with barriers: those in extents, conditions, places and parities. nullopt
// where a variable or memory that depends on the block's number is looked at there, too.
std::optional<std::vector<ir::Expr>> BlockTerms(const ir::Launch& launch);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_BLOCK_TERMS_H_

// Which names a piece of syntax takes from around it.
#ifndef KILN_COMPILER_LANG_FREE_NAMES_H_
#define KILN_COMPILER_LANG_FREE_NAMES_H_

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "compiler/lang/ast.h"

namespace kiln::lang {

using NameSet = absl::flat_hash_set<absl::string_view>;

// Names that `function` reads and does not bind itself: its decorators, defaults and annotations
// included. An inner function's own names count as bound only there.
NameSet FreeNames(const ast::Function& function);
// All names that the statement reads, in nested functions those that are free in them.
NameSet NamesRead(ast::StmtPtr stmt);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_FREE_NAMES_H_

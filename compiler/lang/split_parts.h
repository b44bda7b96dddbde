// A launch as its parts see it: what threads of one T.ws do, statement by statement, beside what
// the others do. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_SPLIT_PARTS_H_
#define KILN_COMPILER_LANG_SPLIT_PARTS_H_

#include "compiler/ir/stmt.h"

namespace kiln::lang {

// The same launch for every thread of it, where
//   - parts that nothing of the whole block separates stand side by side, one OnThreads for each
//     span of threads: loops and branches around several of them become one in each, and two of one
//     span become one;
//   - in such parts nothing is bound or allocated beside arrivals and waits: tiles and variables
//     are allocated before the parts, names stand for their values, or are variables where those
//     are loaded;
//   - a variable (Scope::kVar) that several spans use and one of them writes is one for each of
//     them, as it is in the registers of threads.
// Run in its order it may mean something else; side by side it does not.
ir::Stmt SplitParts(const ir::Launch& launch);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_SPLIT_PARTS_H_

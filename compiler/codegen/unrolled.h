// Which loops of a GPU's thread are unrolled. Private to compiler/codegen.
#ifndef KILN_COMPILER_CODEGEN_UNROLLED_H_
#define KILN_COMPILER_CODEGEN_UNROLLED_H_

#include "compiler/ir/stmt.h"

namespace kiln::codegen {

// It indexes registers, which have no addresses, and is not too long for that.
bool UnrollsForRegisters(const ir::For& loop);
// It is short, and holds no other: neighbouring accesses become one, and several are on their way.
bool UnrollsForSpeed(const ir::For& loop);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_UNROLLED_H_

// IR expressions on their way to become values, and what is known of them. Private to
// compiler/lang.
#ifndef KILN_COMPILER_LANG_OPERAND_H_
#define KILN_COMPILER_LANG_OPERAND_H_

#include <cstdint>

#include "compiler/ir/stmt.h"

namespace kiln::lang {

// What is known of an expression without walking it.
struct ExprInfo {
  static constexpr uint8_t kOpen = 1;     // names a tunable that is left open
  static constexpr uint8_t kRuntime = 2;  // names a loop variable, a load, a run-time size
  static constexpr uint8_t kLoads = 4;    // reads memory or divides: not free to evaluate
  uint32_t size = 1;                      // nodes, saturating
  uint16_t depth = 1;
  uint8_t flags = 0;
  bool open_only() const { return (flags & (kOpen | kRuntime)) == kOpen; }
};
ExprInfo Join(const ExprInfo& a, const ExprInfo& b);

// An IR expression on its way to become a Value.
struct Operand {
  ir::Expr e;
  ExprInfo info;
};

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_OPERAND_H_

// Accesses of the iterations of one loop to elements that several of them may touch. Private to
// compiler/ir.
#ifndef KILN_COMPILER_IR_LOOP_ACCESSES_H_
#define KILN_COMPILER_IR_LOOP_ACCESSES_H_

#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compiler/ir/analysis.h"
#include "compiler/ir/stmt.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {

// A variable with a known range.
struct Turns {
  Expr var;
  int64_t min = 0, extent = 0;
};

struct LoopAccess {
  Buffer buffer;
  std::vector<LinearForm> indices;  // names put in
  std::vector<Expr> guards;         // conditions of the loop's variables, all of which hold
  // Conditions that are the same for all iterations, and which way they go: of two accesses with
  // the same ones either both are made or none.
  std::vector<std::pair<const ExprNode*, bool>> same_guards;
  std::vector<Turns> inner;  // the loops between
  Expr value;                // of a store
  bool write = false;
  bool atomic = false;  // a write that may meet others of its kind
  bool known = true;    // what is said above is all there is to say
  SourceLoc loc;
  std::string text;  // "B[i, 0]"
};

struct LoopAccesses {
  std::vector<Turns> axes;
  std::vector<LoopAccess> accesses;  // in program order, of buffers that the loop stores to
  // Whether all iterations see the same value: nothing in it is bound or stored to in the loop.
  bool IsSame(const Expr& e) const;

  std::unordered_set<const ExprNode*> bound;     // variables of the loop's body, and its axes
  std::unordered_set<const BufferNode*> stored;  // in the loop, or allocated there
};

// `binds`: names around the loop, closed. Axes without a known start are not among `axes`; one
// without a known extent has two turns.
LoopAccesses AccessesOf(const For& loop, const VarMap& binds, const Facts& facts);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_LOOP_ACCESSES_H_

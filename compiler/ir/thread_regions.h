// Loops over the threads of a block, from what a kernel says each of them does. Private to
// compiler/ir.
#ifndef KILN_COMPILER_IR_THREAD_REGIONS_H_
#define KILN_COMPILER_IR_THREAD_REGIONS_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/stmt.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {

// Threads [first, first + count) of a block.
struct ThreadSpan {
  int64_t first = 0, count = 0;
};

class ThreadRegions {
 public:
  // `indices` stand for a thread's indices along `extents`, x first.
  ThreadRegions(const std::vector<Expr>& indices, std::vector<int64_t> extents,
                const SourceFile& source);

  const ThreadSpan& span() const { return span_; }
  void SetSpan(ThreadSpan span) { span_ = span; }

  // Registers in the place of a tile or variable that each thread has of its own, for the loops
  // that follow; where it is allocated is the caller's business.
  Buffer Hold(const Buffer& own);
  Buffer RegistersOf(const Buffer& own) const { return held_.at(own.get()); }
  // One element for each thread.
  Buffer NewRegister(const std::string& name, DType type) const;
  // From here on a variable that a loop binds is computed again, or read from a register in which
  // that loop leaves it.
  void Recompute(const Expr& var, const Expr& value) { computed_.push_back({var, value}); }
  void ReadFrom(const Expr& var, const Buffer& registers) { kept_[var.get()] = registers; }
  // Within what Loop gets: the register of the thread that runs.
  Expr OwnElement(const Buffer& registers) const {
    return MakeLoad(registers, {self_, MakeInt(0)});
  }
  Stmt SetOwnElement(SourceLoc loc, const Buffer& registers, const Expr& value) const;

  // for thread in threads(span): stmts, where each has its own of what Hold was told of. Copies and
  // fills of those, and parallel loops, become serial loops of the thread. With `active`, a
  // register (kInt32), of the threads in which that is not zero.
  absl::StatusOr<Stmt> Loop(SourceLoc loc, std::vector<Stmt> stmts, const Buffer& active) const;

 private:
  class Rewrite;
  struct Computed {
    Expr var, value;
  };

  std::vector<Stmt> Needed(const Stmt& body, VarMap* vars) const;

  const SourceFile& source_;
  int64_t threads_ = 1;
  ThreadSpan span_;
  const Expr self_;                 // the thread's number in the block, wherever it runs
  std::vector<Computed> computed_;  // in order: later ones may use earlier ones
  std::unordered_map<const BufferNode*, Buffer> held_;
  std::unordered_map<const ExprNode*, Buffer> kept_;
};

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_THREAD_REGIONS_H_

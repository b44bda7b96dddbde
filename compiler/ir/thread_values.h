// What differs between the threads of a block, in a kernel that speaks of threads: values that
// come from a thread's index or from an exchange between threads, and what they decide. Private to
// compiler/ir.
#ifndef KILN_COMPILER_IR_THREAD_VALUES_H_
#define KILN_COMPILER_IR_THREAD_VALUES_H_

#include <unordered_set>
#include <vector>

#include "compiler/ir/stmt.h"

namespace kiln::ir {

class ThreadValues {
 public:
  // Of the body of a launch, given the variables that stand for a thread's indices. Nothing is
  // missed; what is the same only by arithmetic (tx - tx) may count as different.
  ThreadValues(const Stmt& body, const std::vector<Expr>& indices);

  bool Differs(const Expr& e) const;         // undefined: no
  bool Differs(const Region& region) const;  // its place
  bool Differs(const std::vector<Axis>& axes) const;
  // Of a loop: whether threads run it differently often. Of a branch: whether they disagree.
  bool Diverges(const Stmt& s) const;
  // A variable or a local tile of which each thread has its own.
  bool IsOwn(const Buffer& buffer) const;
  // Whether anything in it differs between threads, or is an exchange between them.
  bool Concerns(const Stmt& s) const;

 private:
  void Visit(const Stmt& s, bool diverged);
  void VisitLeaf(const Stmt& s, bool diverged);
  void Own(const Buffer& buffer);
  void Var(const Expr& var);
  void Jump(bool diverged);

  struct Loop {
    const StmtNode* stmt;
    bool diverged;
  };
  std::vector<Loop> around_;
  bool changed_ = false;
  std::unordered_set<const ExprNode*> vars_;
  std::unordered_set<const BufferNode*> own_;
  std::unordered_set<const StmtNode*> loops_;  // that threads leave at different times
};

// An exchange between threads.
bool IsExchange(const Stmt& s);

// The regions that a tile operation, an atomic update or an instruction names, the one that it
// writes first.
std::vector<const Region*> RegionsOf(const Stmt& s);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_THREAD_VALUES_H_

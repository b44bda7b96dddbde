// Walking and rewriting. A pass derives from Mutator, overrides what it changes, and calls the base
// for the rest; an unchanged tree comes back as the same object, so "did nothing" is same_as().
#ifndef KILN_COMPILER_IR_VISIT_H_
#define KILN_COMPILER_IR_VISIT_H_

#include <functional>
#include <unordered_map>
#include <vector>

#include "compiler/ir/stmt.h"

namespace kiln::ir {

// Pre-order callbacks over a tree. Returning false from a callback skips the node's children.
using ExprCallback = std::function<bool(const Expr&)>;
using StmtCallback = std::function<bool(const Stmt&)>;
void Walk(const Expr& e, const ExprCallback& on_expr);
void Walk(const Stmt& s, const StmtCallback& on_stmt, const ExprCallback& on_expr = {});

// Whether `s` is a break or a continue; whether one stands in it; whether one does that is of a
// loop around it.
bool IsJump(const Stmt& s);
bool HasJump(const Stmt& s);
bool Leaves(const Stmt& s);

class Mutator {
 public:
  virtual ~Mutator() = default;
  // Dispatch on the kind to the virtual functions below.
  Expr Mutate(const Expr& e);
  Stmt Mutate(const Stmt& s);

 protected:
  // The default rebuilds the node from mutated children (through the folding factories).
  virtual Expr VisitExpr(const Expr& e);
  virtual Stmt VisitStmt(const Stmt& s);
  // Called for every buffer a node names; the default returns it.
  virtual Buffer VisitBuffer(const Buffer& b) { return b; }

  Expr RebuildExpr(const Expr& e);
  Stmt RebuildStmt(const Stmt& s);
  Stmt RebuildLeaf(const Stmt& s);  // RebuildStmt of a statement without sub-statements
  virtual Region MutateRegion(const Region& r);
  std::vector<Expr> MutateAll(const std::vector<Expr>& v);
};

// Replaces variables (by node) and buffers (by node).
using VarMap = std::unordered_map<const ExprNode*, Expr>;
using BufferMap = std::unordered_map<const BufferNode*, Buffer>;
Expr Substitute(const Expr& e, const VarMap& vars);
Stmt Substitute(const Stmt& s, const VarMap& vars, const BufferMap& buffers = {});
// A copy with variables and buffers of its own wherever `s` declares one, so that both can stand in
// one program; `copies`: of the buffers.
Stmt FreshCopy(const Stmt& s, BufferMap* copies = nullptr);

// A lambda mutator for short rewrites: the callback returns the replacement, or an undefined handle
// to fall through to the children.
Stmt RewriteStmts(const Stmt& s, const std::function<Stmt(const Stmt&)>& on_stmt);
Stmt RewriteExprs(const Stmt& s, const std::function<Expr(const Expr&)>& on_expr);
// Without the statements for which `goes` holds and all that is inside of them: empty sequences
// stand in their places.
Stmt WithoutStmts(const Stmt& s, const std::function<bool(const Stmt&)>& goes);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_VISIT_H_

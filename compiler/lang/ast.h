// The syntax tree of a kernel file: all of Python's expression and statement forms, each with its
// position. What the language refuses (await, match, bytes, ...) parses to Unsupported, which is
// an error only when something that the kernel reaches evaluates it.
//
// Nodes are owned by the Ast that made them and refer to each other by raw pointer; an Ast is
// immutable after parsing and shared by any number of elaborations.
#ifndef KILN_COMPILER_LANG_AST_H_
#define KILN_COMPILER_LANG_AST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/base/diagnostic.h"
#include "compiler/lang/ast_expr.h"

namespace kiln::lang::ast {

enum class StmtKind : uint8_t {
  kFunction,
  kClass,
  kReturn,
  kAssign,
  kAugAssign,
  kAnnAssign,
  kExpr,
  kIf,
  kFor,
  kWhile,
  kWith,
  kAssert,
  kRaise,
  kImport,
  kTry,
  kPass,
  kBreak,
  kContinue,
  kDelete,
  kUnsupported,
};

struct Stmt {
  StmtKind kind;
  SourceLoc loc;
  Stmt(StmtKind k, SourceLoc l) : kind(k), loc(l) {}
  virtual ~Stmt() = default;
  template <typename T>
  const T* As() const {
    return kind == T::kKind ? static_cast<const T*>(this) : nullptr;
  }
};
using StmtPtr = const Stmt*;
using Block = std::vector<StmtPtr>;

struct Function : Stmt {
  static constexpr StmtKind kKind = StmtKind::kFunction;
  std::string name;
  SourceLoc name_loc;
  std::vector<Param> params;
  std::vector<ExprPtr> decorators;
  Block body;
  bool is_async = false;
  bool is_generator = false;  // holds a yield
  explicit Function(SourceLoc l) : Stmt(kKind, l) {}
};

struct Class : Stmt {
  static constexpr StmtKind kKind = StmtKind::kClass;
  std::string name;
  std::vector<ExprPtr> decorators;
  std::vector<ExprPtr> bases;
  ExprPtr metaclass = nullptr;  // may be null
  Block body;
  explicit Class(SourceLoc l) : Stmt(kKind, l) {}
};

struct Return : Stmt {
  static constexpr StmtKind kKind = StmtKind::kReturn;
  ExprPtr value = nullptr;  // may be null
  explicit Return(SourceLoc l) : Stmt(kKind, l) {}
};

struct Assign : Stmt {  // targets[0] = targets[1] = ... = value
  static constexpr StmtKind kKind = StmtKind::kAssign;
  std::vector<ExprPtr> targets;
  ExprPtr value = nullptr;
  explicit Assign(SourceLoc l) : Stmt(kKind, l) {}
};

struct AugAssign : Stmt {
  static constexpr StmtKind kKind = StmtKind::kAugAssign;
  ExprPtr target = nullptr;
  BinaryOp op = BinaryOp::kAdd;
  ExprPtr value = nullptr;
  explicit AugAssign(SourceLoc l) : Stmt(kKind, l) {}
};

struct AnnAssign : Stmt {
  static constexpr StmtKind kKind = StmtKind::kAnnAssign;
  ExprPtr target = nullptr, annotation = nullptr;
  ExprPtr value = nullptr;  // may be null
  explicit AnnAssign(SourceLoc l) : Stmt(kKind, l) {}
};

struct ExprStmt : Stmt {
  static constexpr StmtKind kKind = StmtKind::kExpr;
  ExprPtr value = nullptr;
  explicit ExprStmt(SourceLoc l) : Stmt(kKind, l) {}
};

struct Branch {
  ExprPtr condition = nullptr;
  Block body;
};

struct If : Stmt {  // if / elif / ... / else
  static constexpr StmtKind kKind = StmtKind::kIf;
  std::vector<Branch> branches;
  Block otherwise;
  explicit If(SourceLoc l) : Stmt(kKind, l) {}
};

struct For : Stmt {
  static constexpr StmtKind kKind = StmtKind::kFor;
  ExprPtr target = nullptr, iterable = nullptr;
  Block body, otherwise;
  SourceLoc else_loc;
  bool is_async = false;
  explicit For(SourceLoc l) : Stmt(kKind, l) {}
};

struct While : Stmt {
  static constexpr StmtKind kKind = StmtKind::kWhile;
  ExprPtr condition = nullptr;
  Block body, otherwise;
  SourceLoc else_loc;
  explicit While(SourceLoc l) : Stmt(kKind, l) {}
};

struct WithItem {
  ExprPtr context = nullptr;
  ExprPtr target = nullptr;  // may be null
};

struct With : Stmt {
  static constexpr StmtKind kKind = StmtKind::kWith;
  std::vector<WithItem> items;
  Block body;
  bool is_async = false;
  explicit With(SourceLoc l) : Stmt(kKind, l) {}
};

struct Assert : Stmt {
  static constexpr StmtKind kKind = StmtKind::kAssert;
  ExprPtr condition = nullptr;
  ExprPtr message = nullptr;  // may be null
  explicit Assert(SourceLoc l) : Stmt(kKind, l) {}
};

struct Raise : Stmt {
  static constexpr StmtKind kKind = StmtKind::kRaise;
  ExprPtr value = nullptr;  // may be null
  explicit Raise(SourceLoc l) : Stmt(kKind, l) {}
};

struct ImportedName {
  std::string path;   // "a.b" of `import a.b`, or the name of `from m import name`; "*" for all
  std::string alias;  // the name that is bound
  bool whole_path = false;  // `import a.b` binds `a`, not a.b
};

struct Import : Stmt {
  static constexpr StmtKind kKind = StmtKind::kImport;
  std::string module;  // of `from module import ...`; empty for `import ...`
  std::vector<ImportedName> names;
  explicit Import(SourceLoc l) : Stmt(kKind, l) {}
};

struct Handler {
  ExprPtr type = nullptr;  // null: any
  std::string name;        // `except E as name`
  Block body;
};

struct Try : Stmt {
  static constexpr StmtKind kKind = StmtKind::kTry;
  Block body, otherwise, finally;
  std::vector<Handler> handlers;
  explicit Try(SourceLoc l) : Stmt(kKind, l) {}
};

struct Pass : Stmt {
  static constexpr StmtKind kKind = StmtKind::kPass;
  explicit Pass(SourceLoc l) : Stmt(kKind, l) {}
};
struct Break : Stmt {
  static constexpr StmtKind kKind = StmtKind::kBreak;
  explicit Break(SourceLoc l) : Stmt(kKind, l) {}
};
struct Continue : Stmt {
  static constexpr StmtKind kKind = StmtKind::kContinue;
  explicit Continue(SourceLoc l) : Stmt(kKind, l) {}
};

struct Delete : Stmt {
  static constexpr StmtKind kKind = StmtKind::kDelete;
  std::vector<ExprPtr> targets;
  explicit Delete(SourceLoc l) : Stmt(kKind, l) {}
};

struct UnsupportedStmt : Stmt {
  static constexpr StmtKind kKind = StmtKind::kUnsupported;
  std::string what, remedy;
  std::vector<std::string> names;  // of `global a, b`
  Block body;  // what a skipped compound statement held (so that its names are known)
  explicit UnsupportedStmt(SourceLoc l) : Stmt(kKind, l) {}
};

// A parsed file and the owner of its nodes.
class Ast {
 public:
  template <typename T, typename... Args>
  T* New(Args&&... args) {
    auto node = std::make_unique<T>(std::forward<Args>(args)...);
    T* raw = node.get();
    if constexpr (std::is_base_of_v<Expr, T>) {
      exprs_.push_back(std::move(node));
    } else {
      stmts_.push_back(std::move(node));
    }
    return raw;
  }
  Block body;

 private:
  std::vector<std::unique_ptr<Expr>> exprs_;
  std::vector<std::unique_ptr<Stmt>> stmts_;
};

}  // namespace kiln::lang::ast

#endif  // KILN_COMPILER_LANG_AST_H_

// What the statements of a file's top level change besides the names that they bind, so that a
// global is read as it is after them. Private to compiler/lang.
//
// An upper bound: names whose values may share parts are one group (whatever stands in one
// assignment, call or loop and is no number, text or thing of another package), and what changes a
// part of one may change all of the group. Functions and methods of the file are followed; those of
// other packages change nothing, but for those of Python's library that do.
#ifndef KILN_COMPILER_LANG_TOUCHES_H_
#define KILN_COMPILER_LANG_TOUCHES_H_

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "compiler/lang/ast.h"
#include "compiler/lang/free_names.h"

namespace kiln::lang {

class Touches {
 public:
  // Of the statements [first, last) of a file, or of a function's body.
  Touches(const ast::Block& body, size_t first, size_t last);
  ~Touches();

  // Names whose values the statement may change: its own roots, those that functions and methods of
  // the file change that it calls, and every other name of the same values.
  NameSet Of(ast::StmtPtr stmt);
  // Names that functions give another meaning (`global x`) which the statement calls.
  NameSet ReboundBy(ast::StmtPtr stmt);
  // Names from which the values of `changed` may be reached, through variables and functions.
  NameSet ReachersOf(const NameSet& changed);
  // The names that the statement binds by `:=`.
  static std::vector<absl::string_view> WalrusNames(ast::StmtPtr stmt);

 private:
  struct Effects {
    NameSet globals, rebound;
    std::set<size_t> params;  // whose values it changes
    NameSet kept;             // globals that what it returns, or keeps in an object, may be part of
    size_t Size() const { return globals.size() + rebound.size() + params.size() + kept.size(); }
  };
  Touches(const ast::Function& function, Touches* outer);
  void Collect(ast::StmtPtr stmt);
  void CollectClass(const ast::Class& type);
  void Prepare(const ast::Block& body, size_t first, size_t last);
  void Bindings(ast::StmtPtr stmt);
  void NoteBinding(ast::ExprPtr target, ast::ExprPtr value);
  void FindFixed();

  // Nothing that statements of the file change by another name: a number, text, what a module has.
  bool IsFixed(ast::ExprPtr expr) const;
  bool IsFixedCall(const ast::Call& call) const;
  bool IsFixedName(absl::string_view name) const;
  bool IsNode(absl::string_view name) const;  // it names data that may change
  bool Binds(absl::string_view name) const;
  const std::string* ModuleOf(absl::string_view name) const;
  const std::vector<const ast::Function*>* FunctionsOf(absl::string_view name) const;
  const std::vector<const ast::Function*>* MethodsOf(absl::string_view name) const;
  const ast::Class* ClassOf(absl::string_view name) const;
  absl::string_view InstancesOf(const ast::Class& type);  // the node of a class's objects
  Touches& Root() { return outer_ == nullptr ? *this : outer_->Root(); }

  void Learn(ast::StmtPtr stmt);
  void LearnClass(const ast::Class& type);
  bool HoldsData(const ast::Class& type, int depth) const;
  void Pair(ast::ExprPtr target, ast::ExprPtr value);
  void Link(const std::vector<absl::string_view>& names);
  void Held(ast::ExprPtr expr, std::vector<absl::string_view>* names);
  absl::string_view Group(absl::string_view name);

  const Effects& Of(const ast::Function& function);
  Effects Analyze(const ast::Function& function);
  void OfTree(ast::StmtPtr stmt, NameSet* names, NameSet* rebound);
  void OfStatement(ast::StmtPtr stmt, NameSet* names, NameSet* rebound);
  void OfTarget(ast::ExprPtr target, NameSet* names);
  void OfPart(ast::ExprPtr part, ast::StmtPtr stmt, NameSet* names, NameSet* rebound);
  void OfCall(const ast::Call& call, NameSet* names, NameSet* rebound);
  void OfMention(const ast::Function& function, const ast::Call* call, size_t skip,
                 absl::string_view name, ast::StmtPtr stmt, NameSet* names, NameSet* rebound);
  void Root(ast::ExprPtr place, NameSet* names);
  void All(ast::StmtPtr stmt, NameSet* names);
  void All(ast::ExprPtr expr, NameSet* names);
  NameSet Close(NameSet names);

  Touches* outer_ = nullptr;
  const ast::Block* body_ = nullptr;
  size_t first_ = 0, last_ = 0;
  absl::flat_hash_map<absl::string_view, std::vector<const ast::Function*>> functions_, methods_;
  absl::flat_hash_map<absl::string_view, const ast::Class*> classes_;
  absl::flat_hash_map<absl::string_view, std::string> modules_;  // name -> what its import brings
  absl::flat_hash_map<absl::string_view, std::vector<ast::ExprPtr>> bound_;  // null: anything
  NameSet fixed_;
  absl::string_view made_;  // the object that an __init__ makes: new attributes change nothing else
  absl::flat_hash_map<absl::string_view, absl::string_view> group_;  // to another of the group
  absl::flat_hash_map<absl::string_view, std::vector<absl::string_view>> members_;  // of groups
  bool linked_ = false;         // members_ is filled
  bool has_operators_ = false;  // a class says what an operator does, and that changes something
  size_t other_names_ = 0;      // that Of() has given so far
  std::deque<std::string> made_names_;
  absl::flat_hash_map<const ast::Class*, absl::string_view> instances_;
  std::map<const ast::Function*, std::unique_ptr<Touches>> inner_;
  std::map<const ast::Function*, Effects> effects_;
  std::set<const ast::Function*> visited_, settled_;
  int depth_ = 0;  // of functions that are followed
  bool grew_ = false;
  std::unique_ptr<absl::flat_hash_map<absl::string_view, NameSet>> readers_;
};

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_TOUCHES_H_

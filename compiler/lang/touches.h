// What the statements of a file's top level change besides the names that they bind, so that a
// global is read as it is after them. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_TOUCHES_H_
#define KILN_COMPILER_LANG_TOUCHES_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "compiler/lang/ast.h"
#include "compiler/lang/free_names.h"

namespace kiln::lang {

// The names at the root of what the statement itself changes, blocks inside of it excluded: `x` of
// x.append(...), x[0].a = ..., x += ..., del x["a"], setattr(x, ...).
std::vector<absl::string_view> ChangedRoots(ast::StmtPtr stmt);

class Touches {
 public:
  // Of the statements [first, last) of a file.
  Touches(const ast::Block& body, size_t first, size_t last);

  // Names whose values the statement may change: its own roots, those that functions and methods of
  // the file change that it calls, and every other name of the same values.
  NameSet Of(ast::StmtPtr stmt);

 private:
  struct Effects {
    NameSet globals;
    std::set<size_t> params;  // whose values it changes
  };
  void Learn(ast::StmtPtr stmt);
  // Names of data that the value of `expr` may be, or hold.
  void Held(ast::ExprPtr expr, int depth, std::vector<absl::string_view>* names) const;
  const Effects& Of(const ast::Function& function);
  const ast::Function* MethodOf(absl::string_view type, absl::string_view name, int depth) const;
  const ast::Function* MethodCalled(const ast::Attribute& place) const;
  const ast::Function* AnyMethod(absl::string_view name) const;
  // What a call that the statement is, or assigns, changes.
  void OfCall(ast::StmtPtr stmt, NameSet* names);
  void OfStatement(ast::StmtPtr stmt, bool top, NameSet* names);  // `top`: of the file's top level
  absl::string_view Group(absl::string_view name);
  bool IsFixed(ast::ExprPtr value) const;
  bool MakesData(const ast::Call& call) const;
  bool MayBeShared(absl::string_view name) const;  // it names data that may change

  absl::flat_hash_map<absl::string_view, const ast::Function*> functions_;
  absl::flat_hash_map<absl::string_view, const ast::Class*> classes_;
  absl::flat_hash_map<absl::string_view, absl::string_view> instances_;  // name -> its class
  absl::flat_hash_map<absl::string_view, absl::string_view> group_;      // to another of the group
  absl::flat_hash_map<absl::string_view, std::vector<absl::string_view>> members_;  // of groups
  int depth_ = 0;                     // of calls that are followed
  size_t other_names_ = 0;            // that Of() has given so far
  NameSet imports_, fixed_, others_;  // of modules, of what does not change, of anything else
  std::map<const ast::Function*, Effects> effects_;
};

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_TOUCHES_H_

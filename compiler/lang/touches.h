// What the statements of a file's top level change besides the names that they bind, so that a
// global is read as it is after them. Private to compiler/lang.
//
// An upper bound: names whose values may share parts are one group (whatever stands in one
// assignment, call or loop and is no number, text or thing of another package), and what changes a
// part of one may change all of the group. Functions and methods of the user's files are followed;
// those of other packages change nothing, but for those of Python's library that do.
//
// A name of another of the user's files is a node "module:name" ("helpers:TABLE"; of the kernel
// file ":TABLE"), in one group with the names that imports give it here and with its group there.
#ifndef KILN_COMPILER_LANG_TOUCHES_H_
#define KILN_COMPILER_LANG_TOUCHES_H_

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "compiler/lang/ast.h"
#include "compiler/lang/free_names.h"

namespace kiln::lang {

struct ParsedModule;
struct SourceSection;
class FileTouches;

class Touches {
 public:
  // Of the body of a function that stands in `outer`: a file, or another such function.
  Touches(const ast::Function& function, Touches* outer);
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
  friend class FileTouches;
  // A name of a file's top level.
  struct Place {
    Touches* file = nullptr;
    absl::string_view name;
  };
  // What an import gives a name: a module, or a name of one.
  struct Imported {
    std::string module, name;
  };
  struct Effects {
    NameSet globals, rebound;
    std::set<size_t> params;  // whose values it changes
    NameSet kept;             // globals that what it returns, or keeps in an object, may be part of
    size_t Size() const { return globals.size() + rebound.size() + params.size() + kept.size(); }
  };
  // Of the statements of a file; FileTouches goes on with it.
  Touches(FileTouches* files, const SourceSection& section, const ast::Block& body);
  // Of the body of a function that is analysed; `made`: as an __init__ that makes an object.
  Touches(const ast::Function& function, Touches* outer, bool made);
  void CollectAll();
  void LearnAll();
  void Collect(ast::StmtPtr stmt);
  void CollectImport(const ast::Import& import);
  void CollectClass(const ast::Class& type);
  void Bindings(ast::StmtPtr stmt);
  void NoteBinding(ast::ExprPtr target, ast::ExprPtr value);
  bool FindFixed();  // false: nothing that was taken for fixed is not

  // Of other files of the user's (touches_files.cc): what an expression stands for there, and its
  // node here. nullopt: nothing of theirs.
  std::optional<Place> PlaceOf(absl::string_view name, int depth = 0) const;
  std::optional<Place> PlaceOf(ast::ExprPtr expr) const;
  std::optional<Place> Follow(const Imported& imported, int depth) const;
  std::optional<std::string> ModuleAt(ast::ExprPtr expr) const;
  std::optional<std::string> ModuleOfName(absl::string_view name, int depth) const;
  std::optional<std::string> ModuleIn(absl::string_view module, absl::string_view name,
                                      int depth) const;
  const Imported* ImportedAs(absl::string_view name) const;
  absl::string_view NodeOf(const Place& place) const;
  absl::string_view NodeOfRoot(ast::ExprPtr expr) const;
  void NodesOfModule(absl::string_view module, std::vector<absl::string_view>* names) const;
  Effects EffectsOf(const ast::Function& function);
  absl::string_view Translate(Touches* from, absl::string_view name) const;
  std::vector<absl::string_view> AllNames(int depth) const;
  void AddModules(NameSet* names) const;

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
  const std::vector<const ast::Function*>* FunctionsAt(ast::ExprPtr callee) const;
  const ast::Class* ClassAt(ast::ExprPtr callee) const;
  absl::string_view InstancesOf(const ast::Class& type) const;  // the node of a class's objects
  Touches& Root() { return outer_ == nullptr ? *this : outer_->Root(); }
  const Touches& Root() const { return outer_ == nullptr ? *this : outer_->Root(); }

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
  void OfTarget(ast::ExprPtr target, NameSet* names, NameSet* rebound);
  void OfPart(ast::ExprPtr part, ast::StmtPtr stmt, NameSet* names, NameSet* rebound);
  void OfCall(const ast::Call& call, NameSet* names, NameSet* rebound);
  void OfMention(const ast::Function& function, const ast::Call* call, size_t skip,
                 absl::string_view name, ast::StmtPtr stmt, NameSet* names, NameSet* rebound);
  void Root(ast::ExprPtr place, NameSet* names);
  void All(ast::StmtPtr stmt, NameSet* names);
  void All(ast::ExprPtr expr, NameSet* names);
  NameSet Close(NameSet names);

  Touches* outer_ = nullptr;
  FileTouches* files_ = nullptr;
  const SourceSection* section_ = nullptr;  // null: a function's body
  const ast::Block* body_ = nullptr;
  size_t first_ = 0, last_ = 0;
  absl::flat_hash_map<absl::string_view, std::vector<const ast::Function*>> functions_, methods_;
  absl::flat_hash_map<absl::string_view, const ast::Class*> classes_;
  absl::flat_hash_map<absl::string_view, std::string> modules_;  // name -> what its import brings
  absl::flat_hash_map<absl::string_view, Imported> imported_;    // of the user's files
  std::vector<std::string> stars_;                               // likewise, with all their names
  absl::flat_hash_map<absl::string_view, std::vector<ast::ExprPtr>> bound_;  // null: anything
  NameSet fixed_;
  absl::string_view made_;  // the object that an __init__ makes: new attributes change nothing else
  absl::flat_hash_map<absl::string_view, absl::string_view> group_;  // to another of the group
  absl::flat_hash_map<absl::string_view, std::vector<absl::string_view>> members_;  // of groups
  bool linked_ = false;  // members_ is filled
  std::unique_ptr<absl::flat_hash_map<absl::string_view, NameSet>> readers_;
};

// Of all files of a kernel.
class FileTouches {
 public:
  explicit FileTouches(const ParsedModule& module);
  FileTouches(const FileTouches&) = delete;
  FileTouches& operator=(const FileTouches&) = delete;
  Touches& At(size_t section) { return *files_[section]; }
  // Statements change more names together than memory is given for: not all of them are known.
  bool gave_up() const { return given_ > kMostNames; }
  // The file's section and the name that a node "module:name" stands for; false: it is no node.
  bool Split(absl::string_view node, size_t* section, absl::string_view* name) const;

 private:
  friend class Touches;
  static constexpr size_t kMostNames = 1'000'000;
  size_t GroupOf(size_t node);
  size_t IndexOf(const Touches::Place& place);
  Touches::Place PlaceFor(Touches* file, absl::string_view name) const;
  void LinkAll();
  NameSet Close(Touches* file, NameSet names);
  Touches* Find(absl::string_view module) const;  // null: there is no such file
  bool Holds(absl::string_view module) const;     // it is one, or a package of one

  std::vector<std::unique_ptr<Touches>> files_;
  absl::flat_hash_map<std::string, Touches*> by_module_;
  std::set<std::string> packages_;
  absl::flat_hash_map<absl::string_view, std::vector<const ast::Function*>> methods_;
  absl::flat_hash_map<const ast::Function*, Touches*> owners_;
  absl::flat_hash_map<const ast::Class*, Touches*> class_owners_;
  bool has_operators_ = false;     // a class says what an operator does, and that changes something
  std::deque<std::string> texts_;  // of nodes
  absl::flat_hash_map<absl::string_view, Touches::Place> places_;
  absl::flat_hash_map<std::string, absl::string_view> interned_;
  absl::flat_hash_map<std::pair<Touches*, absl::string_view>, size_t> indices_;
  std::vector<Touches::Place> nodes_;
  std::vector<size_t> parents_;  // of nodes: towards the one that names the group
  absl::flat_hash_map<size_t, std::vector<size_t>> members_;
  size_t given_ = 0;  // names that Close has given so far
  std::map<const ast::Function*, Touches::Effects> effects_;
  std::set<const ast::Function*> visited_, settled_;
  int depth_ = 0;  // of functions that are followed
  bool grew_ = false;
};

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_TOUCHES_H_

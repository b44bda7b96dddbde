// What one elaboration knows so far: the elaborator's data. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_ELABORATOR_STATE_H_
#define KILN_COMPILER_LANG_ELABORATOR_STATE_H_

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "compiler/ir/reducers.h"
#include "compiler/ir/tables.h"
#include "compiler/ir/views.h"
#include "compiler/lang/extent.h"
#include "compiler/lang/interface.h"
#include "compiler/lang/kernel.h"
#include "compiler/lang/launch_state.h"
#include "compiler/lang/module.h"
#include "compiler/lang/scope.h"
#include "compiler/lang/state.h"
#include "compiler/lang/target_facts.h"
#include "compiler/lang/value.h"

namespace kiln::lang {

class Reads;  // lazy.h

struct ElaboratorState {
  ElaboratorState(const ParsedModule& module, const Limits& limits, const TargetFacts& target)
      : module_(module),
        limits_(limits),
        target_(target),
        module_state_(module.tree->body.size(), 0),
        module_scopes_(module.tree->body.size(), nullptr) {}

  const SourceFile& file() const { return *module_.file; }
  Arena& arena() { return arena_; }
  const TargetFacts& target() const { return target_; }
  int64_t changes() const { return changes_; }  // of lists, dicts, objects and names, so far
  const Limits& limits() const { return limits_; }
  Interface& interface() { return interface_; }
  const std::optional<NeedsConcrete>& needs() const { return needs_; }
  const std::map<std::string, ir::Expr>& tunables() const { return tunables_; }
  const std::vector<ir::Expr>& constraints() const { return constraints_; }
  LaunchState& launch() { return launch_; }
  std::vector<ir::Reducer>& reducers() { return reducers_; }
  const std::vector<ir::Axis>& grid() const { return launch_.grid; }
  // The buffer that a view is of, or the table that a tensor is taken out of; else itself.
  ir::Buffer MemoryOf(const ir::Buffer& name) const;  // tables.cc
  bool IsAlive(int region) const { return region_alive_[region]; }
  std::optional<RandomState>& random() { return random_; }
  const IrRegion& region() const { return regions_.back(); }  // the innermost
  int CurrentRegion() const { return regions_.empty() ? 0 : regions_.back().id; }
  // Statements of kernels and macros become IR, and so do stores of an __init__ in a kernel.
  bool MayStore() const {
    return frame_->traced || (frame_->function != nullptr && !regions_.empty());
  }

  // The expression at hand is an argument whose items the function takes all at once.
  bool IsTakenWhole() const { return taken_whole_ != nullptr && taken_whole_ == current_; }
  // Where values came from (value_chain.cc). `update`: "+" of target += made.
  void NoteMade(ast::ExprPtr target, ast::ExprPtr made, const char* update = "");
  // Compile-time data changes: what was computed before Python computes it may be out of date, and
  // a generator, whose items are all computed at once, must not change what others see.
  void NoteChange(const Object& object) {
    ++changes_;
    ++object.changes;
    if (generator_ == 0) return;
    oldest_change_ = std::min(oldest_change_, object.number);
    for (const auto& [first, last] : made_by_file_) {
      if (first < object.number && object.number <= last) oldest_change_ = 0;
    }
  }
  // Null: none that has a value. `before`: the statement that reads it, then the one that bound it.
  const Binding* GlobalBinding(const SourceSection& section, absl::string_view name,
                               size_t* before) const;

  const ParsedModule& module_;
  const Limits& limits_;
  const TargetFacts target_;
  Arena arena_;
  int64_t steps_ = 0;
  int64_t changes_ = 0;    // of lists, dicts, objects and names
  int64_t generator_ = 0;  // how many objects there were when the generator began; 0: none runs
  int64_t oldest_change_ = INT64_MAX;   // of what it changes, the number of the oldest object
  Reads* reads_ = nullptr;              // what it reads
  ast::ExprPtr taken_whole_ = nullptr;  // an argument whose items the function takes all at once
  std::vector<std::pair<int64_t, int64_t>> made_by_file_;  // numbers of objects: (first, last]
  int64_t nodes_ = 0;
  int depth_ = 0, calls_ = 0;
  int pure_ = 0;      // > 0: inside an operand that may not be evaluated at run time
  int shielded_ = 0;  // > 0: inside what a run-time condition may leave out
  int telling_ = 0;   // > 0: inside of text that people alone read
  Frame* frame_ = nullptr;
  absl::Status handled_;            // the error whose handler runs
  ast::ExprPtr current_ = nullptr;  // the innermost expression, names and constants aside
  SourceLoc stored_;                // of the value that an assignment stores
  absl::flat_hash_map<const ast::Block*, absl::flat_hash_set<absl::string_view>> locals_;
  // Per top-level statement: 0 not run, 1 running, 2 done, 3 failed (why: failed_),
  // 4 what comes before it is running.
  std::vector<int8_t> module_state_;
  absl::flat_hash_map<size_t, absl::Status> failed_;
  absl::flat_hash_map<const ClassObject*, absl::Status> unready_;  // of functions: why they are not
  std::vector<const Scope*> module_scopes_;  // what each has bound; null: not run
  absl::flat_hash_map<std::pair<absl::string_view, size_t>, Value> global_values_;

  std::vector<IrRegion> regions_;
  std::vector<bool> region_alive_;
  LaunchState launch_;
  std::optional<RandomState> random_;
  std::vector<ir::View> views_;
  std::vector<ir::TableEntry> entries_;  // of tables of tensors
  std::vector<ir::Reducer> reducers_;
  absl::string_view name_hint_;
  absl::flat_hash_map<std::string, int> buffer_names_;

  // Inputs.
  const Arguments* arguments_ = nullptr;
  const Config* config_ = nullptr;
  ast::Ast argument_tree_;  // syntax of parsed argument texts
  std::vector<std::unique_ptr<SourceFile>> argument_files_;
  std::vector<std::string> open_;
  std::map<std::string, ir::Expr> tunables_;
  std::vector<ir::Expr> constraints_;
  std::optional<NeedsConcrete> needs_;

  Interface interface_;

  // Outputs.
  JitOptions annotated_;      // what the body says of its own options
  Scope* around_ = nullptr;   // names of the functions around the entry
  Value owner_;               // the object that the entry is a method of
  Scope* bundled_ = nullptr;  // names of the classes that come with the language
  Bound bound_;               // what Vars stand for, free of loads
  const ast::Function* kernel_def_ = nullptr;
  std::vector<std::optional<ir::Param>> slots_;  // one a parameter of the signature
  std::vector<Value> handles_;                   // T.ptr parameters awaiting T.match_buffer
  std::vector<ir::Param> outputs_;               // T.empty, in order
  std::map<std::string, ir::Expr> dims_;
  std::vector<ir::Expr> dim_order_;
  std::map<std::string, std::string> left_open_;  // run-time dimension -> the argument that is it
  std::vector<ir::Stmt> checks_;  // of run-time sizes, from before the kernel's body
};

// Guards: each undoes on destruction what it did.
class FrameGuard {
 public:
  FrameGuard(ElaboratorState* e, Frame* frame) : e_(e), current_(e->current_), stored_(e->stored_) {
    frame->parent = e->frame_;
    frame->region_base = e->regions_.size();
    e->frame_ = frame;
    e->current_ = nullptr;
    e->stored_ = {};
  }
  ~FrameGuard() {
    e_->frame_ = e_->frame_->parent;
    e_->current_ = current_;
    e_->stored_ = stored_;
  }
  FrameGuard(const FrameGuard&) = delete;

 private:
  ElaboratorState* e_;
  ast::ExprPtr current_;
  SourceLoc stored_;
};
class ScopeGuard {
 public:
  ScopeGuard(Frame* frame, Scope* scope) : frame_(frame), saved_(frame->scope) {
    frame->scope = scope;
  }
  ~ScopeGuard() { frame_->scope = saved_; }
  ScopeGuard(const ScopeGuard&) = delete;

 private:
  Frame* frame_;
  Scope* saved_;
};

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_ELABORATOR_STATE_H_

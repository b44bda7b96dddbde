// The partial evaluator: runs the Python of an entry function on compile-time values and records
// what is left as IR. One Elaborator elaborates one kernel once. Private to compiler/lang.
//
// Two modes of execution. Inside a kernel body or a macro (traced) statements become IR: every
// `for` is an IR loop, an `if` on a run-time value an IR branch, a name bound to a run-time value a
// Bind. In factories, helpers and config functions (host) statements run as Python.
#ifndef KILN_COMPILER_LANG_ELABORATOR_H_
#define KILN_COMPILER_LANG_ELABORATOR_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/base/status.h"
#include "compiler/lang/builtin.h"
#include "compiler/lang/elaborator_state.h"
#include "compiler/lang/kernel.h"
#include "compiler/lang/module.h"
#include "compiler/lang/state.h"
#include "compiler/lang/value.h"

namespace kiln::lang {

class Elaborator : private ElaboratorState {
 public:
  Elaborator(const ParsedModule& module, const Limits& limits, const TargetFacts& target);

  // Entry points (entry.cc). `open` names the tunables that become Vars.
  absl::StatusOr<ir::Program> Run(const Kernel& kernel, const Arguments& arguments,
                                  const Config& config, const std::vector<std::string>& open);
  absl::StatusOr<std::vector<Config>> Configs(const Kernel& kernel, const Arguments& arguments);
  absl::StatusOr<std::vector<Arguments>> Listed(absl::string_view name);
  // A parameter's default as an argument's text; nullopt where constants do not say it.
  std::optional<std::string> DefaultText(ast::ExprPtr value);
  using ElaboratorState::interface, ElaboratorState::needs;
  using ElaboratorState::tunables, ElaboratorState::constraints;

  // --- For builtins ---
  using ElaboratorState::changes, ElaboratorState::limits;
  using ElaboratorState::file, ElaboratorState::arena, ElaboratorState::target;

  // Errors. Every one carries position, remedy and the chain of calls that led here.
  absl::Status Error(SourceLoc loc, std::string message, std::string remedy,
                     absl::StatusCode code = absl::StatusCode::kInvalidArgument);
  absl::Status Unimplemented(SourceLoc loc, std::string message, std::string remedy);
  std::string At(SourceLoc loc) const;  // "k.py:3:7"
  absl::Status Exhausted(SourceLoc loc, std::string message);
  // Of an import without a value (Type::kUnknown): says why it has none (imports.cc).
  absl::Status UnknownValue(const Value& v, SourceLoc loc, std::string message, std::string remedy);
  absl::Status NoValue(const Value& v, SourceLoc loc);
  // Open elaboration: the value of `e`'s tunables is needed here. Returned as an error.
  absl::Status NeedConcrete(SourceLoc loc, const ir::Expr& e, std::string why);

  // Counts work; fails beyond the limits.
  absl::Status Step(SourceLoc loc, int64_t count = 1);
  absl::Status ChargeBytes(SourceLoc loc, int64_t bytes);

  // Making values.
  Value NewStr(std::string text, Value shown = {});  // StrObject::shown
  Value NewTuple(std::vector<Value> items) { return NewSeq(Type::kTuple, std::move(items)); }
  Value NewList(std::vector<Value> items) { return NewSeq(Type::kList, std::move(items)); }
  Value NewSeq(Type type, std::vector<Value> items);
  Value NewBuffer(ir::Buffer buffer);
  // Folds immediates: int32 and bool constants become Python values.
  absl::StatusOr<Value> NewExpr(Operand operand, SourceLoc loc);
  absl::StatusOr<Value> NewExpr(ir::Expr e, ExprInfo info, SourceLoc loc);

  // Reading values. `what` names the thing in the message ("the extent of T.serial").
  bool IsRuntime(const Value& v) const;  // has an IR expression: kExpr, element, alloc_var
  absl::StatusOr<Operand> ToOperand(const Value& v, SourceLoc loc, absl::string_view what);
  absl::StatusOr<Operand> ToIndex(const Value& v, SourceLoc loc, absl::string_view what);
  // Converted to `type` (Python numbers become constants of it).
  absl::StatusOr<Operand> ToType(const Value& v, DType type, SourceLoc loc, absl::string_view what);
  absl::StatusOr<int64_t> ToInt(const Value& v, SourceLoc loc, absl::string_view what);
  absl::StatusOr<bool> ToBool(const Value& v, SourceLoc loc, absl::string_view what);
  absl::StatusOr<std::string> ToStr(const Value& v, SourceLoc loc, absl::string_view what);
  // str(v): Repr in full, or an error when that is too long.
  absl::StatusOr<std::string> TextOf(const Value& v, SourceLoc loc);
  absl::StatusOr<DType> ToDType(const Value& v, SourceLoc loc);
  absl::StatusOr<std::vector<Value>> ToItems(const Value& v, SourceLoc loc, absl::string_view what);
  absl::Status CheckKey(const Value& v, SourceLoc loc);  // of a dict: no list, no dict
  // A shape: an integer or a sequence of them.
  absl::StatusOr<std::vector<Operand>> ToShape(const Value& v, SourceLoc loc,
                                               absl::string_view what);
  absl::StatusOr<Condition> Decide(const Value& v, SourceLoc loc);
  // Decide (and Equality, as Equal) for a place that cannot wait: a run-time value is an error.
  absl::StatusOr<bool> DecideNow(const Value& v, SourceLoc loc, absl::string_view what);
  // An element or alloc_var as the value that it holds now; anything else unchanged.
  absl::StatusOr<Value> Decay(const Value& v, SourceLoc loc);

  // Operators (arith.cc).
  absl::StatusOr<Value> BinaryOp(ast::BinaryOp op, const Value& a, const Value& b, SourceLoc loc);
  absl::StatusOr<Value> UnaryOp(ast::UnaryOp op, const Value& a, SourceLoc loc);
  // Python's == (equality.cc): a bool, or a condition where numbers of run time decide.
  absl::StatusOr<Value> Equality(const Value& a, const Value& b, SourceLoc loc);
  // Of what a container holds: the same object is equal, whatever its class says.
  absl::StatusOr<Value> SameItem(const Value& a, const Value& b, SourceLoc loc);
  absl::StatusOr<bool> Equal(const Value& a, const Value& b, SourceLoc loc);
  // The item of the dict with this key; its place, or nullopt for none.
  absl::StatusOr<std::optional<size_t>> FindKey(const DictObject& dict, const Value& key,
                                                SourceLoc loc);
  absl::Status SetItem(DictObject* dict, const Value& key, const Value& value, SourceLoc loc);
  absl::StatusOr<Value> CompareOp(ast::CompareOp op, const Value& a, const Value& b, SourceLoc loc);
  absl::StatusOr<Value> MinMax(bool is_max, const Value& a, const Value& b, SourceLoc loc);
  absl::StatusOr<Value> CeilDiv(const Value& a, const Value& b, SourceLoc loc);
  absl::StatusOr<Value> SelectValue(const Value& condition, const Value& a, const Value& b,
                                    SourceLoc loc);
  // Both operands in their common type; a Python number takes the other's kind.
  absl::StatusOr<std::pair<Operand, Operand>> Match(const Value& a, const Value& b, SourceLoc loc);

  absl::StatusOr<Value> Call(const Value& callee, const CallArgs& args);
  absl::StatusOr<Value> Call(const Value& callee, std::vector<Value> positional, SourceLoc loc);
  absl::StatusOr<Value> GetAttribute(const Value& self, const std::string& attr, SourceLoc loc);
  absl::StatusOr<Value> SubscriptSequence(const Value& base, const Value& index, SourceLoc loc);
  class Classes;     // classes.h
  class Deferred;    // lazy.h
  class Effects;     // lazy.h
  class Decorators;  // decorators.h
  // Items of any iterable, evaluated now.
  absl::StatusOr<std::vector<Value>> Iterate(const Value& v, SourceLoc loc);

  absl::Status Emit(SourceLoc loc, ir::Stmt stmt);
  template <typename T, typename... Args>
  absl::Status EmitNew(SourceLoc loc, Args&&... args) {
    loc = Known(loc);
    return Emit(loc, ir::MakeStmt<T>(loc, std::forward<Args>(args)...));
  }
  // `loc`, or where the user's text calls what has no position.
  SourceLoc Known(SourceLoc loc) const;
  bool InLaunch() const;
  // Inside of T.Parallel or T.vectorized.
  bool InElementLoop() const { return OutermostElementLoop() < regions_.size(); }
  // The axes of the outermost such loop and of all loops inside of it that are around this place;
  // an error under a while loop.
  absl::StatusOr<std::vector<ir::Axis>> ElementAxes(SourceLoc loc);
  // Has `stmt`, if it is defined, follow the outermost such loop. The number of its region.
  int EmitAfterElementLoop(ir::Stmt stmt);
  using ElaboratorState::grid, ElaboratorState::IsAlive, ElaboratorState::random;
  using ElaboratorState::region, ElaboratorState::CurrentRegion;
  // Before compile-time data is changed: false where that would be lost at run time.
  template <typename T>
  bool MayMutate(const T& x) {
    return NoteChange(x), !InRuntimeRegion() || CurrentRegion() == x.region;
  }
  absl::Status RequireLaunch(SourceLoc loc, absl::string_view what);
  // Binds a run-time value to a fresh Var so that later stores do not change it.
  absl::StatusOr<Value> Freeze(const Value& v, absl::string_view name, SourceLoc loc);
  // `value`, items of lists and dicts too, so that later stores do not change what it loads; not of
  // variables. kRepeated: a scalar that a kernel uses several times, which is frozen in any case.
  enum class Use : uint8_t { kHeld, kRepeated };
  absl::StatusOr<Value> Keep(Value value, absl::string_view name, SourceLoc loc,
                             Use use = Use::kHeld);
  // The same for the loads that a list, tuple or dict holds; its items change in place.
  absl::Status FreezeItems(const Value& v, absl::string_view name, SourceLoc loc);
  absl::Status StoreElement(const ir::Buffer& buffer, std::vector<ir::Expr> indices,
                            const Value& value, SourceLoc loc);
  // A buffer named after the assignment in progress, unique in the program.
  absl::StatusOr<ir::Buffer> NewNamedBuffer(DType dtype, std::vector<ir::Expr> shape,
                                            ir::Scope scope, SourceLoc loc,
                                            std::vector<ir::Expr> strides = {},
                                            absl::string_view fallback = "buffer");
  absl::Status CountNodes(SourceLoc loc, const ir::Stmt& stmt);
  absl::Status EmitAtRoot(SourceLoc loc, ir::Stmt stmt);
  bool IsOfSizes(const ir::Expr& condition) const;
  using ElaboratorState::launch, ElaboratorState::reducers, ElaboratorState::MemoryOf;
  void AddView(const ir::Buffer& view, const ir::Buffer& base, SourceLoc loc);  // of base's memory
  // A check on compile-time values: true passes, false is `error`, an open one is a constraint.
  absl::Status Require(const ir::Expr& condition, ExprInfo info, absl::Status error);

  absl::StatusOr<Tile> ToTile(const Value& v, SourceLoc loc, absl::string_view what);
  absl::Status RequireSameExtent(const ir::Expr& a, const ir::Expr& b, SourceLoc loc,
                                 const std::string& message, const std::string& remedy);

  // T.annotate_pass_configs, T.annotate_compile_flags: those of the decorator go over them.
  absl::Status Annotate(const Value& v, bool flags, SourceLoc loc);

  // Sizes and outputs (entry.cc).
  absl::StatusOr<Value> ConstSize(absl::string_view name, SourceLoc loc);
  absl::StatusOr<Value> DynamicSize(absl::string_view name, DType type, SourceLoc loc);
  // An error where `e` would have to be known at compile time: says which arguments leave it to run
  // time and what may depend on them, else `remedy`.
  absl::Status NeedsValue(SourceLoc loc, std::string message, const ir::Expr& e,
                          std::string remedy);
  // Checks before any launch what is true of run-time sizes alone (IsOfSizes).
  absl::Status EmitCheck(SourceLoc loc, const ir::Expr& condition, std::string message);
  absl::StatusOr<Value> NewOutput(std::vector<ir::Expr> shape, DType dtype, SourceLoc loc);
  absl::StatusOr<Value> MatchBuffer(const Value& handle, AddressedTensor type, SourceLoc loc);
  ExprInfo InfoOf(const ir::Expr& e) const;  // flags by walking; for values rebuilt from IR

 private:
  absl::Status CheckDepth(SourceLoc loc);
  absl::StatusOr<Value> IsIn(const Value& a, const Value& b, SourceLoc loc);
  class Comparison;
  absl::Status CheckTexts(const Value& a, const Value& b, SourceLoc loc);
  ir::Expr VarNamed(absl::string_view name, DType type);

  // Names (names.cc).
  absl::StatusOr<Value> ReadName(const ast::Name& name, bool keep_variable);
  absl::StatusOr<Value> ReadBinding(absl::string_view name, Binding* binding, SourceLoc loc);
  absl::StatusOr<Value> ReadGlobal(absl::string_view name, SourceLoc loc, size_t before);
  absl::StatusOr<Value> ReadGlobalOf(const SourceSection& section, absl::string_view name,
                                     SourceLoc loc, size_t before);
  absl::Status RunChangesElsewhere(const SourceSection& in, absl::string_view name, SourceLoc loc);
  // The file whose names the statement brings; null: it is no such import.
  const SourceSection* StarAt(const SourceSection& section, size_t statement) const;
  absl::Status RunGlobal(size_t statement), RunNow(size_t statement), RunEarlier(size_t statement);
  absl::Status PrepareClasses(size_t statement), UnknownName(absl::string_view name, SourceLoc loc);
  absl::Status Bind(absl::string_view name, Value value, SourceLoc loc, bool fresh = false);
  absl::Status CheckRebinding(absl::string_view name, const Binding& old, SourceLoc loc);
  // The body, of a function or class, binds the name somewhere.
  bool IsLocal(const ast::Block& body, absl::string_view name);
  std::vector<std::string> VisibleNames() const;

  Moment Now() const;
  // An error where `read` reads memory that was changed since `then`, when it was evaluated.
  absl::Status CheckStillHolds(const Value& read, const Moment& then, SourceLoc loc);

  // Expressions (eval.cc, subscript.cc, call.cc).
  absl::StatusOr<Value> Eval(ast::ExprPtr expr);
  absl::StatusOr<Value> EvalNode(ast::ExprPtr expr);
  absl::StatusOr<Value> EvalKeepingVariable(ast::ExprPtr expr);
  absl::StatusOr<Value> EvalConstant(const ast::Constant& node);
  // What `if` makes of the expression: it asks each operand of `and`, `or` and `not` once.
  absl::StatusOr<Condition> EvalCondition(ast::ExprPtr expr);
  // EvalCondition for a place that cannot wait, as DecideNow.
  absl::StatusOr<bool> EvalConditionNow(ast::ExprPtr expr, absl::string_view what);
  // `by_if`: the value is of no concern, but for whether it is true.
  absl::StatusOr<Tested> EvalTested(ast::ExprPtr expr, bool by_if);
  absl::StatusOr<Tested> EvalBool(const ast::Bool& node, bool by_if);
  absl::StatusOr<Condition> DecideTested(const ast::Bool& node, size_t operand, bool by_if,
                                         Tested* tested);
  absl::StatusOr<Value> EvalRuntimeBool(const ast::Bool& node, size_t operand, const Operand& left);
  absl::StatusOr<Value> EvalCompare(const ast::Compare& node);
  absl::StatusOr<Value> EvalConditional(const ast::Conditional& node);
  absl::StatusOr<Value> EvalRuntimeConditional(const ast::Conditional& node, const Condition& c);
  absl::StatusOr<Value> EvalItems(const std::vector<ast::ExprPtr>& nodes, Type type, SourceLoc loc);
  absl::StatusOr<Value> EvalDict(const ast::Dict& node);
  absl::StatusOr<Value> EvalComprehension(const ast::Comprehension& node);
  absl::Status RunClause(const ast::Comprehension& node, size_t clause, std::vector<Value>* items,
                         DictObject* dict, Deferred* deferred);
  absl::StatusOr<Value> EvalFString(const ast::FString& node);
  absl::Status AppendParts(const std::vector<ast::FStringPart>& parts, SourceLoc loc,
                           std::string* out, Value* shown);
  absl::StatusOr<Value> EvalLambda(const ast::Lambda& node);
  absl::StatusOr<Value> EvalNamed(const ast::Named& node);
  absl::StatusOr<Value> EvalYield(const ast::Yield& node);
  absl::StatusOr<Value> EvalAttribute(const ast::Attribute& node);
  absl::StatusOr<Value> GetMember(const Module& module, const std::string& attr, SourceLoc loc);
  absl::StatusOr<Value> BufferAttribute(const Value& self, const std::string& attr, SourceLoc loc);
  absl::StatusOr<Value> EvalSubscript(const ast::Subscript& node);
  absl::StatusOr<Value> EvalIndex(ast::ExprPtr index);
  absl::StatusOr<Value> EvalKey(const ast::Subscript& place);  // of a dict: several make a tuple
  absl::StatusOr<Value> SubscriptBuffer(const ir::Buffer& buffer, const std::vector<Value>& indices,
                                        SourceLoc loc, const std::vector<SourceLoc>& locs);
  absl::StatusOr<AccessIndex> BufferIndex(const ir::Buffer& buffer, size_t dim, const Value& index,
                                          SourceLoc loc, ExprInfo* info);
  absl::StatusOr<Value> EvalCall(const ast::Call& node);
  absl::Status EvalArgs(const ast::Call& node, const Value& callee, CallArgs* args);
  absl::StatusOr<Value> CallBuiltin(const Builtin& builtin, const Value* self,
                                    const CallArgs& args);
  absl::StatusOr<Value> CallGenerator(const ast::Function& def, Frame* frame, bool at_once,
                                      SourceLoc loc);
  absl::StatusOr<Value> CallFunction(const Value& callee, const CallArgs& args,
                                     const Value* self = nullptr);
  absl::StatusOr<Value> CallCached(const Value& callee, const CallArgs& args, const Value* self);
  absl::StatusOr<Value> CallAnew(const Value& callee, const CallArgs& args, const Value* self);
  absl::StatusOr<Value> CallType(const Value& callee, const CallArgs& args);
  absl::Status BindParams(const FunctionObject& function, const CallArgs& args, Scope* scope,
                          bool traced);
  absl::Status BindParam(const FunctionObject& function, const ast::Param& param, Value value,
                         SourceLoc loc, Scope* scope, bool traced);
  absl::StatusOr<Value> MakeFunction(const ast::Function& def);

  // Classes and their instances (objects.cc).
  absl::StatusOr<Value> MakeClass(const ast::Class& def);
  absl::Status Prepare(ClassObject* type, SourceLoc loc);
  absl::Status PrepareBases(ClassObject* type, SourceLoc loc);
  // The member of the class or the nearest base that has it; null where none does.
  absl::StatusOr<const Value*> FindInClass(const Value& type, absl::string_view name,
                                           SourceLoc loc);
  absl::StatusOr<Value> ReadMember(const Value& member, const Value& self, SourceLoc loc);
  absl::StatusOr<Value> ClassAttribute(const Value& type, const Value& self,
                                       const std::string& attr, SourceLoc loc);
  absl::StatusOr<Value> InstanceAttribute(const Value& self, const std::string& attr,
                                          SourceLoc loc);
  absl::StatusOr<Value> Construct(const Value& type, const CallArgs& args);
  absl::Status SetAttribute(const Value& self, const std::string& attr, Value value, SourceLoc loc);
  absl::StatusOr<Value> Super(const CallArgs& args);
  absl::StatusOr<Value> BundledClass(absl::string_view name, SourceLoc loc);

  // Statements (exec.cc, assign.cc, loop.cc).
  absl::StatusOr<Flow> ExecBlock(const ast::Block& block);
  absl::StatusOr<Flow> Exec(ast::StmtPtr stmt);
  absl::StatusOr<Flow> ExecIf(const ast::If& node, size_t branch);
  absl::StatusOr<Flow> ExecRuntimeIf(const ast::If& node, size_t branch, const Operand& condition);
  absl::StatusOr<Flow> ExecFor(const ast::For& node);
  absl::StatusOr<Flow> ExecHostFor(const ast::For& node, const Value& iterable);
  absl::Status ExecIrLoop(const ast::For& node, LoopObject& loop);
  absl::Status ExecPersistent(const ast::For& node, const LoopObject& loop);
  absl::Status ExecIrAxis(const ast::For& node, LoopObject& loop, size_t axis,
                          std::vector<Value>* values);
  absl::Status ExecLoopBody(const ast::For& node, LoopObject& loop, std::vector<Value> values);
  absl::StatusOr<Flow> ExecWhile(const ast::While& node);
  absl::StatusOr<Flow> ExecWith(const ast::With& node, size_t item);
  absl::StatusOr<Flow> ExecLaunch(const ast::With& node, size_t item, LaunchObject& launch);
  absl::Status EmitLaunch(const LaunchObject& launch, std::vector<ir::Stmt> stmts, SourceLoc loc);
  absl::Status SettleCluster(ir::Stmt* body, std::map<std::string, std::string>* notes);
  class Uses;  // launch.cc
  absl::StatusOr<std::vector<std::vector<ir::Stmt>>> SplitAtGridMeetings(
      std::vector<ir::Stmt> stmts);
  absl::Status MoveAlloc(const ir::Stmt& s, size_t own, std::vector<Uses>& uses,
                         std::vector<std::vector<ir::Stmt>>* parts);
  absl::Status CheckComputedAgain(const ir::Expr& value, absl::string_view name, SourceLoc loc);
  absl::StatusOr<Flow> ExecOnThreads(const ast::With& node, size_t item, ThreadsObject& threads);
  absl::StatusOr<Flow> ExecReturn(const ast::Return& node);
  absl::StatusOr<Flow> ExecLoopExit(bool is_break, SourceLoc loc);
  absl::Status ExecAssert(const ast::Assert& node);
  absl::Status ExecRaise(const ast::Raise& node);
  absl::Status ExecDelete(const ast::Delete& node);
  absl::StatusOr<Flow> ExecTry(const ast::Try& node);
  absl::StatusOr<Flow> ExecHandled(const ast::Try& node);  // all but its finally
  absl::StatusOr<Flow> ExecHandler(const ast::Handler& handler, absl::Status error, SourceLoc loc);
  absl::Status ExecImport(const ast::Import& node);
  absl::Status BrokenFile(const std::string& module, SourceLoc loc) const;
  absl::StatusOr<absl::string_view> HintOf(ast::ExprPtr target);
  absl::Status ExecAssign(const ast::Assign& node);
  absl::Status ExecAugAssign(const ast::AugAssign& node);
  absl::Status ExecAnnAssign(const ast::AnnAssign& node);
  absl::Status AssignTo(ast::ExprPtr target, const Value& value, bool fresh = false);
  absl::Status AssignSubscript(const ast::Subscript& target, const Value& value);
  absl::Status AssignItem(const Value& base, const Value& index, const Value& value, SourceLoc loc);
  absl::Status Unpack(const std::vector<ast::ExprPtr>& targets, const Value& value, SourceLoc loc,
                      bool fresh);
  absl::Status AssertionFailed(const ast::Assert& node);
  std::vector<std::string> ValueChain(ast::ExprPtr expr);
  size_t OutermostElementLoop() const;  // a region's number, or their count
  bool InRuntimeRegion() const;         // inside a branch or loop of the IR, since the kernel began
  // Regions.
  void PushRegion(RegionKind kind, SourceLoc loc, ir::ForKind loop = ir::ForKind::kSerial);
  std::vector<ir::Stmt> PopRegion();

  // The kernel's interface (entry.cc).
  absl::StatusOr<ir::Program> RunEager(const Kernel& kernel);
  absl::StatusOr<ir::Program> RunFactory(const Kernel& kernel);
  absl::Status SetKernel(const ast::Function* def);
  absl::StatusOr<ir::Program> RunPrimFunc(const Value& prim_func, const std::string& name,
                                          const JitOptions& options);
  absl::Status BindArguments(const Kernel& kernel, const ast::Function& function, Scope* scope,
                             const absl::flat_hash_set<absl::string_view>* only);
  // Runs what of the functions around the entry its closure reaches.
  absl::Status RunAround(const Kernel& kernel);
  // `origin` says who gave it, as Binding::origin.
  absl::StatusOr<Value> ParseArgument(absl::string_view name, const std::string& text,
                                      const char* origin = nullptr);
  absl::StatusOr<Value> LeaveToRunTime(absl::string_view name, const std::string& dimension,
                                       const char* origin);
  absl::Status CheckNames(const Kernel& kernel);
  absl::StatusOr<std::string> ConfigText(const Value& v, SourceLoc loc);
  void GiveNothing();  // no arguments, no config
  absl::StatusOr<std::string> ArgumentText(const Value& v, SourceLoc loc);  // and on: interface.cc
  absl::Status ReadPlaceholders(const Kernel& kernel);
  std::optional<DType> AnnotatedType(const Kernel& kernel, const std::string& tensor);
  void CountElements(const Kernel& kernel, const std::string& name, Placeholder* tensor);
  absl::Status ReadComputedShapes(const Kernel& kernel);
  absl::Status NoteSize(const std::string& name, std::string text, const std::string& tensor);
  absl::StatusOr<Placeholder> ToPlaceholder(const std::string& name, const Value& value);
  ir::Expr OverSizes(ir::Expr size) const;
  absl::Status CheckShapes(const ir::Program& program);
  absl::Status CheckDimensionNames(const ir::Program& program);
  absl::Status CheckPlaceholder(const ast::Param& param, const ir::Buffer& buffer, bool own_dtype,
                                SourceLoc loc);
  absl::Status CheckDimension(const std::string& what, const ir::Expr& size, int64_t given,
                              SourceLoc loc);
  ParamSignature* Seen(size_t slot);  // in the signature that is being read; null: none is
  void Record(size_t slot, const ir::Buffer& buffer, bool own_dtype);
  absl::Status DeclareParam(size_t slot, const ast::Param& param, const Value& annotation,
                            SourceLoc loc, Scope* scope);
  absl::Status MarkOutputs(const JitOptions& options, SourceLoc loc);
  absl::Status CheckReturn(const Frame& frame);
  absl::StatusOr<ir::Program> Finish(const std::string& name, const JitOptions& options);
  absl::StatusOr<Value> EagerAnnotation(ast::ExprPtr annotation);
  absl::StatusOr<Value> TakeFromTable(const AccessObject& element, size_t slot,
                                      AddressedTensor type, SourceLoc loc);
  using Sizes = std::vector<ir::Expr>;
  absl::StatusOr<Sizes> TensorShape(const TensorTypeObject& type, const std::vector<Value>& items,
                                    const ast::Param& param, const char* part, SourceLoc loc);

  Deferred* deferred_ = nullptr;  // the innermost
};

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_ELABORATOR_H_

// Statements: control flow, with what is left to run time as IR.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compiler/lang/imports.h"
#include "compiler/lang/raised.h"
#include "compiler/lang/slice.h"

namespace kiln::lang {

absl::StatusOr<Flow> Elaborator::ExecBlock(const ast::Block& block) {
  for (ast::StmtPtr stmt : block) {
    KILN_ASSIGN_OR_RETURN(const Flow flow, Exec(stmt));
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

absl::StatusOr<Flow> Elaborator::Exec(ast::StmtPtr stmt) {
  KILN_RETURN_IF_ERROR(Step(stmt->loc));
  CountGuard depth(&depth_);
  KILN_RETURN_IF_ERROR(CheckDepth(stmt->loc));
  auto done = [](absl::Status status) -> absl::StatusOr<Flow> {
    if (!status.ok()) return status;
    return Flow::kNormal;
  };
  switch (stmt->kind) {
    case ast::StmtKind::kPass:
      return Flow::kNormal;
    case ast::StmtKind::kExpr:
      return done(Eval(stmt->As<ast::ExprStmt>()->value).status());
    case ast::StmtKind::kAssign:
      return done(ExecAssign(*stmt->As<ast::Assign>()));
    case ast::StmtKind::kAugAssign:
      return done(ExecAugAssign(*stmt->As<ast::AugAssign>()));
    case ast::StmtKind::kAnnAssign:
      return done(ExecAnnAssign(*stmt->As<ast::AnnAssign>()));
    case ast::StmtKind::kIf:
      return ExecIf(*stmt->As<ast::If>(), 0);
    case ast::StmtKind::kFor:
      return ExecFor(*stmt->As<ast::For>());
    case ast::StmtKind::kWhile:
      return ExecWhile(*stmt->As<ast::While>());
    case ast::StmtKind::kWith:
      return ExecWith(*stmt->As<ast::With>(), 0);
    case ast::StmtKind::kReturn:
      return ExecReturn(*stmt->As<ast::Return>());
    case ast::StmtKind::kBreak:
      return ExecLoopExit(true, stmt->loc);
    case ast::StmtKind::kContinue:
      return ExecLoopExit(false, stmt->loc);
    case ast::StmtKind::kAssert:
      return done(ExecAssert(*stmt->As<ast::Assert>()));
    case ast::StmtKind::kRaise:
      return done(ExecRaise(*stmt->As<ast::Raise>()));
    case ast::StmtKind::kImport:
      if (frame_->trying > 0 && !IsPresent(module_, *stmt->As<ast::Import>())) {
        return Flow::kAbsent;
      }
      return done(ExecImport(*stmt->As<ast::Import>()));
    case ast::StmtKind::kFunction: {
      const auto& def = *stmt->As<ast::Function>();
      KILN_ASSIGN_OR_RETURN(const Value function, MakeFunction(def));
      return done(Bind(def.name, function, def.name_loc));
    }
    case ast::StmtKind::kTry:
      return ExecTry(*stmt->As<ast::Try>());
    case ast::StmtKind::kClass: {
      const auto& node = *stmt->As<ast::Class>();
      KILN_ASSIGN_OR_RETURN(const Value type, MakeClass(node));
      if (frame_->module_index == SIZE_MAX) {  // what its body reads is as it is now
        const absl::Status ready = Prepare(&type.type_object(), node.loc);
        if (!ready.ok() && !absl::IsUnimplemented(ready)) return ready;
        if (!ready.ok()) unready_.emplace(&type.type_object(), ready);  // said where it is used
      }
      return done(Bind(node.name, type, node.loc));
    }
    case ast::StmtKind::kDelete:
      return done(ExecDelete(*stmt->As<ast::Delete>()));
    case ast::StmtKind::kUnsupported: {
      const auto& node = *stmt->As<ast::UnsupportedStmt>();
      return Unimplemented(node.loc, absl::StrCat(node.what, " is not in the kernel language"),
                           node.remedy);
    }
  }
  return Flow::kNormal;
}

absl::StatusOr<Flow> Elaborator::ExecIf(const ast::If& node, size_t branch) {
  // Compile-time branches are passed in a loop: a long elif chain costs no depth.
  for (; branch < node.branches.size(); ++branch) {
    const ast::Branch& b = node.branches[branch];
    KILN_ASSIGN_OR_RETURN(const Condition c, EvalCondition(b.condition));
    if (!c.known) {
      if (c.expr.info.open_only()) {
        return NeedConcrete(b.condition->loc, c.expr.e, "an if statement depends on it");
      }
      if (!frame_->traced) {
        return NeedsValue(b.condition->loc,
                          frame_->name.empty() ? std::string("this if depends on a run-time value")
                                               : absl::StrCat("the plain function '", frame_->name,
                                                              "' branches on a run-time value"),
                          c.expr.e,
                          "make the function a @T.macro, or choose a value with T.if_then_else");
      }
      return ExecRuntimeIf(node, branch, c.expr);
    }
    if (c.value) return ExecBlock(b.body);
  }
  return ExecBlock(node.otherwise);
}

absl::StatusOr<Flow> Elaborator::ExecRuntimeIf(const ast::If& node, size_t branch,
                                               const Operand& condition) {
  const SourceLoc loc = node.branches[branch].condition->loc;
  if (!InLaunch() && regions_.size() <= 1) {
    return NeedsValue(loc, "a run-time branch outside a T.Kernel block", condition.e,
                      "move it under `with T.Kernel(...) as ...:`");
  }
  CountGuard depth(&depth_), shielded(&shielded_);
  KILN_RETURN_IF_ERROR(CheckDepth(loc));
  PushRegion(RegionKind::kBranch, loc);
  KILN_RETURN_IF_ERROR(ExecBlock(node.branches[branch].body).status());
  ir::Stmt then_case = ir::MakeSeq(PopRegion(), loc);
  ir::Stmt else_case;
  const bool more = branch + 1 < node.branches.size() || !node.otherwise.empty();
  if (more) {
    PushRegion(RegionKind::kBranch, loc);
    KILN_RETURN_IF_ERROR(ExecIf(node, branch + 1).status());
    std::vector<ir::Stmt> stmts = PopRegion();
    if (!stmts.empty()) else_case = ir::MakeSeq(std::move(stmts), loc);
  }
  KILN_RETURN_IF_ERROR(
      EmitNew<ir::If>(loc, condition.e, std::move(then_case), std::move(else_case)));
  return Flow::kNormal;
}

absl::StatusOr<Flow> Elaborator::ExecReturn(const ast::Return& node) {
  if (frame_->traced) {
    for (size_t i = frame_->region_base; i < regions_.size(); ++i) {
      const RegionKind kind = regions_[i].kind;
      if (kind == RegionKind::kRoot) continue;
      if (frame_->is_entry) {
        return Error(node.loc, "a kernel returns only at its end, outside the T.Kernel block",
                     "guard the statements that follow with if instead");
      }
      if (kind == RegionKind::kLaunch) continue;
      return Error(node.loc, "a macro cannot return from inside a run-time branch or loop",
                   "store the result to a T.alloc_var and return it at the end");
    }
  }
  frame_->result_loc = node.loc;
  frame_->returned = true;
  if (node.value != nullptr) {
    KILN_ASSIGN_OR_RETURN(frame_->result, Eval(node.value));
    if (frame_->traced && !frame_->is_entry && IsRuntime(frame_->result)) {
      KILN_ASSIGN_OR_RETURN(frame_->result, Freeze(frame_->result, "result", node.loc));
    }
  }
  return Flow::kReturn;
}

absl::StatusOr<Flow> Elaborator::ExecLoopExit(bool is_break, SourceLoc loc) {
  if (!frame_->traced) return is_break ? Flow::kBreak : Flow::kContinue;
  const char* word = is_break ? "break" : "continue";
  for (size_t i = regions_.size(); i-- > frame_->region_base;) {
    const IrRegion& region = regions_[i];
    if (region.kind == RegionKind::kBranch) continue;
    const bool serial = region.kind == RegionKind::kWhile ||
                        (region.kind == RegionKind::kLoop && region.loop == ir::ForKind::kSerial);
    if (serial) {
      KILN_RETURN_IF_ERROR(is_break ? EmitNew<ir::Break>(loc) : EmitNew<ir::Continue>(loc));
      return is_break ? Flow::kBreak : Flow::kContinue;
    }
    if (region.kind == RegionKind::kThreads) {
      return Error(loc, absl::StrCat("'", word, "' out of a T.ws block"),
                   "end the loop for all threads, outside of T.ws");
    }
    if (region.kind == RegionKind::kLoop) {
      return Error(loc, absl::StrCat("'", word, "' in a loop that is not serial"),
                   "use T.serial or while for a loop that ends early");
    }
    break;
  }
  return Error(loc, absl::StrCat("'", word, "' outside a loop"), "put it inside a for or while");
}

absl::Status Elaborator::AssertionFailed(const ast::Assert& node) {
  CountGuard telling(&telling_);
  std::string message = "assertion failed", type = "AssertionError";
  if (node.message != nullptr) {
    const absl::StatusOr<Value> text = Eval(node.message);
    if (text.ok()) {
      absl::StrAppend(&message, ": ",
                      text->Is(Type::kStr) ? text->str().substr(0, 500) : Repr(*text));
    } else {
      const std::optional<Diagnostic> why = DiagnosticOf(text.status());
      if (why.has_value()) absl::StrAppend(&message, ", and its message fails too: ", why->message);
      type = ExceptionOf(text.status());  // in Python the message's error takes its place
    }
  }
  // A class that comes with the language speaks of its own arguments.
  absl::string_view shown = message;
  if (!node.condition->loc.known()) absl::ConsumePrefix(&shown, "assertion failed: ");
  const absl::Status error =
      Error(node.condition->loc, std::string(shown), "choose arguments that satisfy the condition");
  std::optional<Diagnostic> d = DiagnosticOf(error);
  if (node.condition->loc.known()) {
    const std::vector<std::string> chain = ValueChain(node.condition);
    const auto own = std::find_if(d->notes.begin(), d->notes.end(), [](absl::string_view note) {
      return absl::StartsWith(note, "in ");
    });
    d->notes.erase(d->notes.begin(), own);
    d->notes.insert(d->notes.begin(), chain.begin(), chain.end());
  }
  return Raised(DiagnosticStatus(*d), type);
}

absl::Status Elaborator::ExecAssert(const ast::Assert& node) {
  KILN_ASSIGN_OR_RETURN(const Condition c, EvalCondition(node.condition));
  if (c.known) {
    if (c.value) return absl::OkStatus();
    return AssertionFailed(node);
  }
  if (c.expr.info.open_only()) {
    constraints_.push_back(c.expr.e);
    return absl::OkStatus();
  }
  const bool of_sizes = IsOfSizes(c.expr.e);
  if (!frame_->traced && !of_sizes) {
    return NeedsValue(node.condition->loc, "a plain function asserts on a run-time value", c.expr.e,
                      "make the function a @T.macro");
  }
  std::string message = "assertion failed";
  // With tunables open nothing runs, and the text may name one of them.
  const bool untold = !frame_->traced && !tunables_.empty();
  if (node.message != nullptr && !untold) {
    KILN_ASSIGN_OR_RETURN(const Value text, Eval(node.message));
    KILN_ASSIGN_OR_RETURN(message, ToStr(text, node.message->loc, "the message of an assert"));
  }
  if (!frame_->traced) return EmitCheck(node.loc, c.expr.e, std::move(message));
  return EmitNew<ir::Assert>(node.loc, c.expr.e, std::move(message));
}

absl::Status Elaborator::ExecDelete(const ast::Delete& node) {
  if (frame_->traced) {
    return Unimplemented(node.loc, "del is not in the kernel language",
                         "let the name go out of scope");
  }
  for (ast::ExprPtr target : node.targets) {
    if (const auto* name = target->As<ast::Name>()) {
      KILN_RETURN_IF_ERROR(ReadName(*name, /*keep_variable=*/true).status());
      frame_->scope->names.erase(name->id);
      continue;
    }
    const auto* place = target->As<ast::Subscript>();
    if (place == nullptr) {
      return Unimplemented(target->loc, "del of an attribute", "make another object without it");
    }
    KILN_ASSIGN_OR_RETURN(const Value base, EvalKeepingVariable(place->value));
    const Builtin* pop =
        base.Is(Type::kDict) || base.Is(Type::kList) ? FindMethod(base, "pop") : nullptr;
    const bool slice = place->indices[0]->kind == ast::ExprKind::kSlice;
    if (slice && base.Is(Type::kList)) {
      KILN_ASSIGN_OR_RETURN(const Value part, EvalIndex(place->indices[0]));
      KILN_RETURN_IF_ERROR(DeleteSlice(*this, base, part.slice(), target->loc));
      continue;
    }
    if (pop == nullptr || slice) {
      return Unimplemented(target->loc, absl::StrCat("del of a part of ", Describe(base)),
                           "delete an item of a list or dict by its index or key");
    }
    CallArgs args;
    args.loc = target->loc;
    KILN_ASSIGN_OR_RETURN(const Value index, EvalKey(*place));
    args.positional = {index};
    args.locs = {place->indices[0]->loc};
    KILN_RETURN_IF_ERROR(CallBuiltin(*pop, &base, args).status());
  }
  return absl::OkStatus();
}

absl::Status Elaborator::ExecRaise(const ast::Raise& node) {
  CountGuard telling(&telling_);
  std::string message = "an exception", type;
  if (node.value != nullptr) {
    const auto* call = node.value->As<ast::Call>();
    const ast::ExprPtr raised = call != nullptr ? call->callee : node.value;
    if (const auto* name = raised->As<ast::Name>()) type = name->id;
    if (const auto* attribute = raised->As<ast::Attribute>()) type = attribute->attr;
    for (size_t i = 0; call != nullptr && i < call->args.size(); ++i) {
      const absl::StatusOr<Value> text = Eval(call->args[i]);
      if (!text.ok()) {
        type = ExceptionOf(text.status());  // which takes its place
        break;
      }
      if (text->Is(Type::kStr) && call->args.size() == 1) message = text->str().substr(0, 500);
    }
  } else if (!handled_.ok()) {
    return handled_;
  }
  return Raised(Error(node.loc, absl::StrCat("the kernel raised: ", message),
                      "choose arguments that it accepts"),
                type);
}

}  // namespace kiln::lang

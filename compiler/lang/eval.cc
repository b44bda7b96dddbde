// Expressions.
#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "compiler/lang/elaborator.h"
#include "compiler/lang/format_value.h"
#include "compiler/lang/iteration.h"
#include "compiler/lang/lazy.h"
#include "compiler/lang/suggest.h"

namespace kiln::lang {

absl::StatusOr<Value> Elaborator::EvalConstant(const ast::Constant& node) {
  KILN_RETURN_IF_ERROR(Step(node.loc));
  switch (node.type) {
    case ast::ConstantType::kNone:
      return Value::None();
    case ast::ConstantType::kBool:
      return Value::Bool(node.int_value != 0);
    case ast::ConstantType::kInt:
      return Value::Int(node.int_value);
    case ast::ConstantType::kFloat:
      return Value::Float(node.float_value);
    case ast::ConstantType::kStr:
      KILN_RETURN_IF_ERROR(ChargeBytes(node.loc, static_cast<int64_t>(node.text.size())));
      return NewStr(node.text);
    case ast::ConstantType::kEllipsis:
      return Value::Ellipsis();
  }
  return Value::None();
}

absl::StatusOr<Value> Elaborator::EvalKeepingVariable(ast::ExprPtr expr) {
  if (const auto* name = expr->As<ast::Name>()) return ReadName(*name, /*keep_variable=*/true);
  if (const auto* attribute = expr->As<ast::Attribute>()) {
    CountGuard depth(&depth_);
    KILN_RETURN_IF_ERROR(CheckDepth(expr->loc));
    return EvalAttribute(*attribute);
  }
  return Eval(expr);
}

absl::StatusOr<Value> Elaborator::Eval(ast::ExprPtr expr) {
  if (const auto* name = expr->As<ast::Name>()) return ReadName(*name, /*keep_variable=*/false);
  if (const auto* constant = expr->As<ast::Constant>()) return EvalConstant(*constant);
  CountGuard depth(&depth_);
  KILN_RETURN_IF_ERROR(CheckDepth(expr->loc));
  const ast::ExprPtr outer = std::exchange(current_, expr);
  absl::StatusOr<Value> value = EvalNode(expr);
  current_ = outer;
  if (reads_ != nullptr && value.ok()) reads_->Note(*value);
  return value;
}

absl::StatusOr<Value> Elaborator::EvalNode(ast::ExprPtr expr) {
  switch (expr->kind) {
    case ast::ExprKind::kAttribute: {  // a variable that an object holds is its value here
      KILN_ASSIGN_OR_RETURN(const Value v, EvalAttribute(*expr->As<ast::Attribute>()));
      return v.Is(Type::kBuffer) ? Decay(v, expr->loc) : v;
    }
    case ast::ExprKind::kSubscript:
      return EvalSubscript(*expr->As<ast::Subscript>());
    case ast::ExprKind::kSlice:
      return EvalIndex(expr);
    case ast::ExprKind::kCall:
      return EvalCall(*expr->As<ast::Call>());
    case ast::ExprKind::kBinary: {
      const auto& node = *expr->As<ast::Binary>();
      KILN_ASSIGN_OR_RETURN(const Value a, Eval(node.left));
      const Moment then = Now();
      KILN_ASSIGN_OR_RETURN(const Value b, Eval(node.right));
      KILN_RETURN_IF_ERROR(CheckStillHolds(a, then, node.left->loc));
      return BinaryOp(node.op, a, b, node.loc);
    }
    case ast::ExprKind::kUnary: {
      const auto& node = *expr->As<ast::Unary>();
      KILN_ASSIGN_OR_RETURN(const Value a, Eval(node.operand));
      return UnaryOp(node.op, a, node.loc);
    }
    case ast::ExprKind::kBool: {
      KILN_ASSIGN_OR_RETURN(const Tested tested, EvalBool(*expr->As<ast::Bool>(), /*by_if=*/false));
      return tested.value;
    }
    case ast::ExprKind::kCompare:
      return EvalCompare(*expr->As<ast::Compare>());
    case ast::ExprKind::kConditional:
      return EvalConditional(*expr->As<ast::Conditional>());
    case ast::ExprKind::kLambda:
      return EvalLambda(*expr->As<ast::Lambda>());
    case ast::ExprKind::kTuple:
      return EvalItems(expr->As<ast::Tuple>()->items, Type::kTuple, expr->loc);
    case ast::ExprKind::kList:
      return EvalItems(expr->As<ast::List>()->items, Type::kList, expr->loc);
    case ast::ExprKind::kDict:
      return EvalDict(*expr->As<ast::Dict>());
    case ast::ExprKind::kComprehension:
      return EvalComprehension(*expr->As<ast::Comprehension>());
    case ast::ExprKind::kFString:
      return EvalFString(*expr->As<ast::FString>());
    case ast::ExprKind::kSet:
      return EvalItems(expr->As<ast::Set>()->items, Type::kSet, expr->loc);
    case ast::ExprKind::kStarred:
      return Error(expr->loc, "a starred expression here", "use it in a tuple, list or call");
    case ast::ExprKind::kNamed:
      return EvalNamed(*expr->As<ast::Named>());
    case ast::ExprKind::kYield:
      return EvalYield(*expr->As<ast::Yield>());
    case ast::ExprKind::kUnsupported: {
      const auto& node = *expr->As<ast::Unsupported>();
      return Unimplemented(node.loc, absl::StrCat(node.what, " is not in the kernel language"),
                           node.remedy);
    }
    default:
      break;
  }
  return Error(expr->loc, "this expression cannot be evaluated", "simplify it");
}

absl::StatusOr<Condition> Elaborator::EvalCondition(ast::ExprPtr expr) {
  const auto* unary = expr->As<ast::Unary>();
  if (unary != nullptr && unary->op == ast::UnaryOp::kNot) {
    CountGuard depth(&depth_);
    KILN_RETURN_IF_ERROR(CheckDepth(expr->loc));
    KILN_ASSIGN_OR_RETURN(Condition c, EvalCondition(unary->operand));
    if (c.known) {
      c.value = !c.value;
      return c;
    }
    KILN_ASSIGN_OR_RETURN(const Value condition, NewExpr(c.expr, expr->loc));
    KILN_ASSIGN_OR_RETURN(const Value inverse, UnaryOp(unary->op, condition, expr->loc));
    return Decide(inverse, expr->loc);
  }
  KILN_ASSIGN_OR_RETURN(const Tested tested, EvalTested(expr, /*by_if=*/true));
  if (!tested.truth.has_value()) return Decide(tested.value, expr->loc);
  Condition c;
  c.known = true;
  c.value = *tested.truth;
  return c;
}

absl::StatusOr<bool> Elaborator::EvalConditionNow(ast::ExprPtr expr, absl::string_view what) {
  KILN_ASSIGN_OR_RETURN(const Condition c, EvalCondition(expr));
  if (c.known) return c.value;
  KILN_ASSIGN_OR_RETURN(const Value condition, NewExpr(c.expr, expr->loc));
  return DecideNow(condition, expr->loc, what);
}

absl::StatusOr<Tested> Elaborator::EvalTested(ast::ExprPtr expr, bool by_if) {
  Tested tested;
  const auto* unary = expr->As<ast::Unary>();
  if (const auto* node = expr->As<ast::Bool>()) {
    CountGuard depth(&depth_);
    KILN_RETURN_IF_ERROR(CheckDepth(expr->loc));
    const ast::ExprPtr outer = std::exchange(current_, expr);
    absl::StatusOr<Tested> value = EvalBool(*node, by_if);
    current_ = outer;
    if (reads_ != nullptr && value.ok()) reads_->Note(value->value);
    return value;
  }
  if (by_if && unary != nullptr && unary->op == ast::UnaryOp::kNot) {
    KILN_ASSIGN_OR_RETURN(const Condition c, EvalCondition(expr));
    if (c.known) {
      tested.truth = c.value;
      tested.value = Value::Bool(c.value);
      return tested;
    }
    KILN_ASSIGN_OR_RETURN(tested.value, NewExpr(c.expr, expr->loc));
    return tested;
  }
  const auto* choice = by_if ? expr->As<ast::Conditional>() : nullptr;
  if (choice != nullptr) {
    CountGuard depth(&depth_);
    KILN_RETURN_IF_ERROR(CheckDepth(expr->loc));
    KILN_ASSIGN_OR_RETURN(const Condition c, EvalCondition(choice->condition));
    if (c.known) return EvalTested(c.value ? choice->then : choice->otherwise, by_if);
    KILN_ASSIGN_OR_RETURN(tested.value, EvalRuntimeConditional(*choice, c));
    return tested;
  }
  KILN_ASSIGN_OR_RETURN(tested.value, Eval(expr));
  return tested;
}

// Whether operand `operand` of the node, which has this value, is true.
absl::StatusOr<Condition> Elaborator::DecideTested(const ast::Bool& node, size_t operand,
                                                   bool by_if, Tested* tested) {
  const SourceLoc loc = node.operands[operand]->loc;
  if (tested->truth.has_value()) {
    if (tested->acted && !by_if) {
      return Unimplemented(loc,
                           "whether this is true was asked already, which changed something, and "
                           "versions of Python differ in whether they ask again",
                           "give the inner 'and' or 'or' a name of its own");
    }
    Condition c;
    c.known = true;
    c.value = *tested->truth;
    return c;
  }
  Effects effects(this);
  KILN_ASSIGN_OR_RETURN(const Condition c, Decide(tested->value, loc));
  if (c.known) tested->truth = c.value;
  tested->acted = effects.Seen();
  return c;
}

absl::StatusOr<Tested> Elaborator::EvalBool(const ast::Bool& node, bool by_if) {
  KILN_ASSIGN_OR_RETURN(Tested result, EvalTested(node.operands[0], by_if));
  for (size_t i = 1; i < node.operands.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(const Condition left, DecideTested(node, i - 1, by_if, &result));
    if (left.known) {
      if (left.value != node.is_and) return result;  // short circuit
      KILN_ASSIGN_OR_RETURN(result, EvalTested(node.operands[i], by_if));
      continue;
    }
    result = {};
    KILN_ASSIGN_OR_RETURN(result.value, EvalRuntimeBool(node, i, left.expr));
  }
  return result;
}

// `left` and operand `operand` of the node: run time decides.
absl::StatusOr<Value> Elaborator::EvalRuntimeBool(const ast::Bool& node, size_t operand,
                                                  const Operand& left) {
  const ast::ExprPtr expr = node.operands[operand];
  CountGuard pure(&pure_), shielded(&shielded_);
  KILN_ASSIGN_OR_RETURN(const Value value, Eval(expr));
  KILN_ASSIGN_OR_RETURN(const Condition right, Decide(value, expr->loc));
  if (left.info.open_only() && !value.Is(Type::kBool) && !value.Is(Type::kExpr)) {
    return NeedConcrete(node.loc, left.e, "'and'/'or' returns one of its operands");
  }
  const ir::Expr b = right.known ? ir::MakeBool(right.value) : right.expr.e;
  const ExprInfo info = Join(left.info, right.known ? ExprInfo() : right.expr.info);
  // A right side that reads memory is evaluated only when Python would.
  const bool guard = (right.expr.info.flags & ExprInfo::kLoads) != 0;
  ir::Expr combined;
  if (guard) {
    combined = node.is_and ? ir::MakeSelect(left.e, b, ir::MakeBool(false))
                           : ir::MakeSelect(left.e, ir::MakeBool(true), b);
  } else {
    combined = ir::MakeBinary(node.is_and ? ir::BinaryOp::kAnd : ir::BinaryOp::kOr, left.e, b);
  }
  return NewExpr(combined, info, node.loc);
}

absl::StatusOr<Value> Elaborator::EvalCompare(const ast::Compare& node) {
  KILN_ASSIGN_OR_RETURN(Value left, EvalKeepingVariable(node.first));
  const bool identity = node.ops[0] == ast::CompareOp::kIs || node.ops[0] == ast::CompareOp::kIsNot;
  if (!identity) {
    KILN_ASSIGN_OR_RETURN(left, Decay(left, node.first->loc));
  }
  std::optional<Value> open;  // whether all so far hold, where run time decides
  for (size_t i = 0;; ++i) {
    const Moment then = Now();
    KILN_ASSIGN_OR_RETURN(const Value right, Eval(node.rest[i]));
    KILN_RETURN_IF_ERROR(
        CheckStillHolds(left, then, i == 0 ? node.first->loc : node.rest[i - 1]->loc));
    KILN_ASSIGN_OR_RETURN(Value one, CompareOp(node.ops[i], left, right, node.loc));
    const bool last = i + 1 == node.ops.size();
    if (last && !open.has_value()) return one;
    if (!IsRuntime(one)) {
      Effects effects(this);
      KILN_ASSIGN_OR_RETURN(const Condition c, Decide(one, node.loc));
      if (effects.Seen()) {
        return Unimplemented(node.loc, "whether a comparison in a chain is true changes something",
                             "compare two values at a time");
      }
      if (!open.has_value() && c.known && !c.value) return one;
      if (c.known) one = Value::Bool(c.value);
    }
    if (!open.has_value()) {
      if (IsRuntime(one)) open = one;
    } else {
      KILN_ASSIGN_OR_RETURN(open, BinaryOp(ast::BinaryOp::kBitAnd, *open, one, node.loc));
    }
    if (last || (open.has_value() && open->Is(Type::kBool) && !open->bool_value())) return *open;
    left = right;
  }
}

absl::StatusOr<Value> Elaborator::EvalConditional(const ast::Conditional& node) {
  KILN_ASSIGN_OR_RETURN(const Condition c, EvalCondition(node.condition));
  if (c.known) return Eval(c.value ? node.then : node.otherwise);
  return EvalRuntimeConditional(node, c);
}

absl::StatusOr<Value> Elaborator::EvalRuntimeConditional(const ast::Conditional& node,
                                                         const Condition& c) {
  CountGuard pure(&pure_), shielded(&shielded_);
  const absl::StatusOr<Value> a = Eval(node.then);
  const absl::StatusOr<Value> b = a.ok() ? Eval(node.otherwise) : a;
  if (c.expr.info.open_only()) {
    auto scalar = [&](const Value& v) {
      return v.is_integer() || (v.Is(Type::kExpr) && v.expr().info.open_only());
    };
    if (needs_.has_value()) return a.ok() ? b.status() : a.status();
    if (!a.ok() || !b.ok() || !scalar(*a) || !scalar(*b)) {
      return NeedConcrete(node.condition->loc, c.expr.e, "a conditional expression depends on it");
    }
  }
  KILN_RETURN_IF_ERROR(a.status());
  KILN_RETURN_IF_ERROR(b.status());
  for (const auto& [value, expr] : {std::pair(&*a, node.then), std::pair(&*b, node.otherwise)}) {
    if (IsRuntime(*value) || value->is_number()) continue;
    return NeedsValue(expr->loc,
                      absl::StrCat("a run-time condition chooses ", Describe(*value),
                                   ", which has no run-time form"),
                      c.expr.e, "choose between numbers, or decide at compile time");
  }
  KILN_ASSIGN_OR_RETURN(const Value test, NewExpr(c.expr, node.condition->loc));
  return SelectValue(test, *a, *b, node.loc);
}

absl::StatusOr<Value> Elaborator::EvalItems(const std::vector<ast::ExprPtr>& nodes, Type type,
                                            SourceLoc loc) {
  std::vector<Value> items;
  items.reserve(nodes.size());
  std::vector<std::tuple<Value, Moment, SourceLoc>> read;
  for (ast::ExprPtr node : nodes) {
    if (const auto* starred = node->As<ast::Starred>()) {
      KILN_ASSIGN_OR_RETURN(const Value spread, Eval(starred->value));
      KILN_ASSIGN_OR_RETURN(const std::vector<Value> more, Iterate(spread, node->loc));
      KILN_RETURN_IF_ERROR(ChargeBytes(loc, static_cast<int64_t>(more.size()) * 16));
      items.insert(items.end(), more.begin(), more.end());
      continue;
    }
    KILN_ASSIGN_OR_RETURN(const Value item, Eval(node));
    items.push_back(item);
    read.emplace_back(item, Now(), node->loc);
  }
  for (const auto& [item, then, at] : read) {
    KILN_RETURN_IF_ERROR(CheckStillHolds(item, then, at));
  }
  KILN_RETURN_IF_ERROR(ChargeBytes(loc, 0));
  if (type == Type::kSet) return NewSet(*this, items, loc);
  return NewSeq(type, std::move(items));
}

absl::StatusOr<Value> Elaborator::EvalDict(const ast::Dict& node) {
  auto* dict = arena_.New<DictObject>();
  dict->region = regions_.empty() ? 0 : regions_.back().id;
  std::vector<std::pair<Value, Moment>> read;
  for (size_t i = 0; i < node.values.size(); ++i) {
    if (node.keys[i] == nullptr) {
      KILN_ASSIGN_OR_RETURN(const Value value, Eval(node.values[i]));
      if (!value.Is(Type::kDict)) {
        return Error(node.values[i]->loc, absl::StrCat("** spreads a dict, not ", Describe(value)),
                     "pass a dict");
      }
      for (const auto& [key, item] : value.dict().items) {
        KILN_RETURN_IF_ERROR(SetItem(dict, key, item, node.values[i]->loc));
      }
      continue;
    }
    KILN_ASSIGN_OR_RETURN(const Value key, Eval(node.keys[i]));
    KILN_ASSIGN_OR_RETURN(const Value value, Eval(node.values[i]));
    read.emplace_back(value, Now());
    if (key.Is(Type::kExpr) && key.expr().info.open_only()) {
      return NeedConcrete(node.keys[i]->loc, key.expr().expr, "it is the key of a dict");
    }
    KILN_RETURN_IF_ERROR(CheckKey(key, node.keys[i]->loc));
    KILN_RETURN_IF_ERROR(Step(node.loc, static_cast<int64_t>(dict->items.size())));
    KILN_RETURN_IF_ERROR(ChargeBytes(node.loc, 32));
    KILN_RETURN_IF_ERROR(SetItem(dict, key, value, node.keys[i]->loc));
  }
  for (const auto& [value, then] : read) {
    KILN_RETURN_IF_ERROR(CheckStillHolds(value, then, node.loc));
  }
  return Value::Of(Type::kDict, dict);
}

absl::StatusOr<Value> Elaborator::EvalComprehension(const ast::Comprehension& node) {
  std::optional<Deferred> deferred;
  if (node.result == ast::Comprehension::kGenerator) deferred.emplace(this);
  Scope* scope = arena_.New<Scope>();
  scope->parent = frame_->scope;
  scope->of_comprehension = true;
  ScopeGuard guard(frame_, scope);
  std::vector<Value> items;
  DictObject* dict = nullptr;
  if (node.result == ast::Comprehension::kDictResult) {
    dict = arena_.New<DictObject>();
    dict->region = regions_.empty() ? 0 : regions_.back().id;
  }
  if (absl::Status run =
          RunClause(node, 0, &items, dict, deferred.has_value() ? &*deferred : nullptr);
      !run.ok()) {
    return deferred.has_value() ? deferred->Failed(std::move(run)) : run;
  }
  if (dict != nullptr) return Value::Of(Type::kDict, dict);
  if (node.result == ast::Comprehension::kSetResult) return NewSet(*this, items, node.loc);
  if (deferred.has_value()) {
    return deferred->Finish(std::move(items), {}, false, "a generator expression", node.loc);
  }
  return NewList(std::move(items));
}

absl::Status Elaborator::RunClause(const ast::Comprehension& node, size_t index,
                                   std::vector<Value>* items, DictObject* dict,
                                   Deferred* deferred) {
  CountGuard depth(&depth_);
  KILN_RETURN_IF_ERROR(CheckDepth(node.loc));
  if (index == node.clauses.size()) {
    Value key;
    if (dict != nullptr) {
      KILN_ASSIGN_OR_RETURN(key, Eval(node.key));
    }
    KILN_ASSIGN_OR_RETURN(const Value element, Eval(node.element));
    KILN_RETURN_IF_ERROR(ChargeBytes(node.loc, 32));
    if (dict == nullptr) {
      items->push_back(element);
      return deferred == nullptr ? absl::OkStatus() : deferred->Give(element, node.loc);
    }
    KILN_RETURN_IF_ERROR(Step(node.loc, static_cast<int64_t>(dict->items.size())));
    KILN_RETURN_IF_ERROR(CheckKey(key, node.loc));
    return SetItem(dict, key, element, node.loc);
  }
  const ast::ForClause& clause = node.clauses[index];
  if (clause.is_async) {
    return Unimplemented(node.loc, "async is not in the kernel language", "use a plain for");
  }
  KILN_ASSIGN_OR_RETURN(const Value iterable, Eval(clause.iterable));
  if (index == 0)
    frame_->scope->parent = PastClasses(frame_->scope->parent);  // by all but the first
  auto body = [&](const Value& item) -> absl::Status {
    KILN_RETURN_IF_ERROR(Step(node.loc));
    KILN_RETURN_IF_ERROR(AssignTo(clause.target, item, /*fresh=*/true));
    for (ast::ExprPtr condition : clause.conditions) {
      KILN_ASSIGN_OR_RETURN(const bool keep,
                            EvalConditionNow(condition, "the filter of a comprehension"));
      if (!keep) return absl::OkStatus();
    }
    return RunClause(node, index + 1, items, dict, deferred);
  };
  if (iterable.Is(Type::kRange)) {  // without a list of its items: it may be long
    const RangeObject& range = iterable.range();
    const int64_t count = range.Count();
    for (int64_t i = 0; i < count; ++i) {
      KILN_RETURN_IF_ERROR(body(Value::Int(range.start + i * range.step)));
    }
    return absl::OkStatus();
  }
  KILN_ASSIGN_OR_RETURN(Iteration values, Iteration::Begin(*this, iterable, clause.iterable->loc));
  for (size_t i = 0; i < values.size(); ++i) {
    KILN_RETURN_IF_ERROR(body(values.At(i)));
    KILN_RETURN_IF_ERROR(values.CheckUnchanged(*this, i));
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Elaborator::EvalFString(const ast::FString& node) {
  std::string text;
  Value shown;
  KILN_RETURN_IF_ERROR(AppendParts(node.parts, node.loc, &text, &shown));
  return NewStr(std::move(text), shown);
}

absl::Status Elaborator::AppendParts(const std::vector<ast::FStringPart>& parts, SourceLoc loc,
                                     std::string* out, Value* shown) {
  for (const ast::FStringPart& part : parts) {
    out->append(part.literal);
    if (part.value == nullptr) continue;
    KILN_ASSIGN_OR_RETURN(const Value value, Eval(part.value));
    if (shown->is_none()) *shown = ShownIn(value);
    if (reads_ != nullptr) {
      KILN_RETURN_IF_ERROR(Step(loc, reads_->NoteAll(value, changes_) / 4));
    }
    out->append(part.echo);
    std::string spec;
    KILN_RETURN_IF_ERROR(AppendParts(part.format, loc, &spec, shown));
    const bool echoed = !part.echo.empty() && part.conversion == 0 && part.format.empty();
    KILN_ASSIGN_OR_RETURN(
        const std::string text,
        FormattedText(*this, value, echoed ? 'r' : static_cast<char>(part.conversion), spec,
                      part.value->loc));
    KILN_RETURN_IF_ERROR(ChargeBytes(loc, static_cast<int64_t>(text.size())));
    out->append(text);
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Elaborator::EvalLambda(const ast::Lambda& node) {
  auto* function = arena_.New<FunctionObject>();
  function->lambda = &node;
  function->closure = PastClasses(frame_->scope);
  function->traced = frame_->traced;
  for (const ast::Param& param : node.params) {
    Value value;
    if (param.default_value != nullptr) {
      KILN_ASSIGN_OR_RETURN(value, Eval(param.default_value));
    }
    KILN_ASSIGN_OR_RETURN(value, Keep(std::move(value), param.name, param.loc));
    function->defaults.push_back(value);
  }
  return Value::Of(Type::kFunction, function);
}

absl::StatusOr<Value> Elaborator::EvalNamed(const ast::Named& node) {
  if (frame_->traced) {
    return Unimplemented(node.loc, "an assignment expression (:=) in a kernel",
                         "assign in a statement of its own");
  }
  KILN_ASSIGN_OR_RETURN(const Value value, Eval(node.value));
  Scope* scope = frame_->scope;
  while (scope->of_comprehension) scope = scope->parent;
  ScopeGuard guard(frame_, scope);
  KILN_RETURN_IF_ERROR(Bind(node.target->As<ast::Name>()->id, value, node.target->loc));
  return value;
}

absl::StatusOr<Value> Elaborator::EvalYield(const ast::Yield& node) {
  if (frame_->yielded == nullptr) {
    return Unimplemented(node.loc, "yield in a kernel", "return the values of a plain function");
  }
  Value value;
  if (node.value != nullptr) {
    KILN_ASSIGN_OR_RETURN(value, Eval(node.value));
  }
  std::vector<Value> items = {value};
  if (node.from) {
    KILN_ASSIGN_OR_RETURN(items, Iterate(value, node.value->loc));
  }
  KILN_RETURN_IF_ERROR(ChargeBytes(node.loc, 16 * static_cast<int64_t>(items.size())));
  for (const Value& item : items) KILN_RETURN_IF_ERROR(deferred_->Give(item, node.loc));
  frame_->yielded->insert(frame_->yielded->end(), items.begin(), items.end());
  return node.from && IsIterator(value) ? LazyOf(value).returned : Value::None();
}

absl::StatusOr<Value> Elaborator::EvalAttribute(const ast::Attribute& node) {
  KILN_ASSIGN_OR_RETURN(const Value self, EvalKeepingVariable(node.value));
  KILN_RETURN_IF_ERROR(Step(node.loc));
  KILN_ASSIGN_OR_RETURN(const Value value, GetAttribute(self, node.attr, node.attr_loc));
  if (reads_ != nullptr) reads_->Note(value);
  return value;
}

}  // namespace kiln::lang

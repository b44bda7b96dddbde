// The parts of expressions, and the expressions of a statement. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_EXPR_WALK_H_
#define KILN_COMPILER_LANG_EXPR_WALK_H_

#include "compiler/lang/ast.h"

namespace kiln::lang {

template <typename F>
void ForPartsOfText(const std::vector<ast::FStringPart>& parts, const F& visit) {
  for (const ast::FStringPart& part : parts) {
    if (part.value != nullptr) visit(part.value);
    ForPartsOfText(part.format, visit);
  }
}

// Calls `visit` on each expression directly below `expr`; a lambda's defaults and body are among
// them, annotations are not.
template <typename F>
void ForChildren(ast::ExprPtr expr, const F& visit) {
  const auto one = [&](ast::ExprPtr part) {
    if (part != nullptr) visit(part);
  };
  const auto all = [&](const std::vector<ast::ExprPtr>& parts) {
    for (ast::ExprPtr part : parts) one(part);
  };
  switch (expr->kind) {
    case ast::ExprKind::kAttribute:
      return one(expr->As<ast::Attribute>()->value);
    case ast::ExprKind::kSubscript:
      one(expr->As<ast::Subscript>()->value);
      return all(expr->As<ast::Subscript>()->indices);
    case ast::ExprKind::kSlice: {
      const auto& slice = *expr->As<ast::Slice>();
      return all({slice.start, slice.stop, slice.step});
    }
    case ast::ExprKind::kCall:
      one(expr->As<ast::Call>()->callee);
      all(expr->As<ast::Call>()->args);
      for (const ast::Keyword& keyword : expr->As<ast::Call>()->keywords) one(keyword.value);
      return;
    case ast::ExprKind::kBinary:
      return all({expr->As<ast::Binary>()->left, expr->As<ast::Binary>()->right});
    case ast::ExprKind::kUnary:
      return one(expr->As<ast::Unary>()->operand);
    case ast::ExprKind::kBool:
      return all(expr->As<ast::Bool>()->operands);
    case ast::ExprKind::kCompare:
      one(expr->As<ast::Compare>()->first);
      return all(expr->As<ast::Compare>()->rest);
    case ast::ExprKind::kConditional: {
      const auto& choice = *expr->As<ast::Conditional>();
      return all({choice.condition, choice.then, choice.otherwise});
    }
    case ast::ExprKind::kLambda:
      for (const ast::Param& param : expr->As<ast::Lambda>()->params) one(param.default_value);
      return one(expr->As<ast::Lambda>()->body);
    case ast::ExprKind::kTuple:
      return all(expr->As<ast::Tuple>()->items);
    case ast::ExprKind::kList:
      return all(expr->As<ast::List>()->items);
    case ast::ExprKind::kSet:
      return all(expr->As<ast::Set>()->items);
    case ast::ExprKind::kDict:
      all(expr->As<ast::Dict>()->keys);
      return all(expr->As<ast::Dict>()->values);
    case ast::ExprKind::kComprehension: {
      const auto& loop = *expr->As<ast::Comprehension>();
      for (const ast::ForClause& clause : loop.clauses) {
        one(clause.target);
        one(clause.iterable);
        all(clause.conditions);
      }
      return all({loop.key, loop.element});
    }
    case ast::ExprKind::kFString:
      return ForPartsOfText(expr->As<ast::FString>()->parts, visit);
    case ast::ExprKind::kStarred:
      return one(expr->As<ast::Starred>()->value);
    case ast::ExprKind::kNamed:
      return all({expr->As<ast::Named>()->target, expr->As<ast::Named>()->value});
    case ast::ExprKind::kYield:
      return one(expr->As<ast::Yield>()->value);
    case ast::ExprKind::kConstant:
    case ast::ExprKind::kName:
    case ast::ExprKind::kUnsupported:
      return;
  }
}

// Calls `visit` on the expression and on all below it, from the outside in.
template <typename F>
void WalkExpr(ast::ExprPtr expr, const F& visit) {
  visit(expr);
  ForChildren(expr, [&](ast::ExprPtr part) { WalkExpr(part, visit); });
}

// Calls `visit` on the expressions that the statement itself evaluates: not those of the statements
// in its blocks, nor of a function's or class's body; annotations are left out.
template <typename F>
void ForExprs(ast::StmtPtr stmt, const F& visit) {
  const auto one = [&](ast::ExprPtr part) {
    if (part != nullptr) visit(part);
  };
  const auto all = [&](const std::vector<ast::ExprPtr>& parts) {
    for (ast::ExprPtr part : parts) one(part);
  };
  switch (stmt->kind) {
    case ast::StmtKind::kFunction:
      all(stmt->As<ast::Function>()->decorators);
      for (const ast::Param& param : stmt->As<ast::Function>()->params) one(param.default_value);
      return;
    case ast::StmtKind::kClass:
      all(stmt->As<ast::Class>()->decorators);
      return all(stmt->As<ast::Class>()->bases);
    case ast::StmtKind::kReturn:
      return one(stmt->As<ast::Return>()->value);
    case ast::StmtKind::kAssign:
      all(stmt->As<ast::Assign>()->targets);
      return one(stmt->As<ast::Assign>()->value);
    case ast::StmtKind::kAugAssign:
      one(stmt->As<ast::AugAssign>()->target);
      return one(stmt->As<ast::AugAssign>()->value);
    case ast::StmtKind::kAnnAssign:
      one(stmt->As<ast::AnnAssign>()->target);
      return one(stmt->As<ast::AnnAssign>()->value);
    case ast::StmtKind::kExpr:
      return one(stmt->As<ast::ExprStmt>()->value);
    case ast::StmtKind::kIf:
      for (const ast::Branch& branch : stmt->As<ast::If>()->branches) one(branch.condition);
      return;
    case ast::StmtKind::kFor:
      one(stmt->As<ast::For>()->target);
      return one(stmt->As<ast::For>()->iterable);
    case ast::StmtKind::kWhile:
      return one(stmt->As<ast::While>()->condition);
    case ast::StmtKind::kWith:
      for (const ast::WithItem& item : stmt->As<ast::With>()->items) {
        one(item.context);
        one(item.target);
      }
      return;
    case ast::StmtKind::kAssert:
      return all({stmt->As<ast::Assert>()->condition, stmt->As<ast::Assert>()->message});
    case ast::StmtKind::kRaise:
      return one(stmt->As<ast::Raise>()->value);
    case ast::StmtKind::kDelete:
      return all(stmt->As<ast::Delete>()->targets);
    default:
      return;
  }
}

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_EXPR_WALK_H_

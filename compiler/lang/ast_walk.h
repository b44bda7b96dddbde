// A statement and those inside of it. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_AST_WALK_H_
#define KILN_COMPILER_LANG_AST_WALK_H_

#include "compiler/lang/ast.h"

namespace kiln::lang {

constexpr int kMaxWalk = 400;  // nesting that the walks follow

// Calls `visit` on the statement and all that its blocks hold (functions and classes excluded).
template <typename F>
void Walk(ast::StmtPtr stmt, const F& visit, int depth = 0) {
  if (depth > kMaxWalk) return;
  visit(stmt);
  auto block = [&](const ast::Block& body) {
    for (ast::StmtPtr inner : body) Walk(inner, visit, depth + 1);
  };
  switch (stmt->kind) {
    case ast::StmtKind::kIf:
      for (const ast::Branch& branch : stmt->As<ast::If>()->branches) block(branch.body);
      block(stmt->As<ast::If>()->otherwise);
      break;
    case ast::StmtKind::kFor:
      block(stmt->As<ast::For>()->body);
      block(stmt->As<ast::For>()->otherwise);
      break;
    case ast::StmtKind::kWhile:
      block(stmt->As<ast::While>()->body);
      block(stmt->As<ast::While>()->otherwise);
      break;
    case ast::StmtKind::kWith:
      block(stmt->As<ast::With>()->body);
      break;
    case ast::StmtKind::kTry: {
      const auto& node = *stmt->As<ast::Try>();
      block(node.body);
      block(node.otherwise);
      block(node.finally);
      for (const ast::Handler& handler : node.handlers) block(handler.body);
      break;
    }
    default:
      break;
  }
}

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_AST_WALK_H_

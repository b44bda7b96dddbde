#include "compiler/lang/free_names.h"

#include <vector>

#include "compiler/lang/module.h"

namespace kiln::lang {
namespace {

using ast::ExprPtr;
using ast::StmtPtr;

class Reader {
 public:
  explicit Reader(NameSet* out) : out_(out) {}

  void Block(const ast::Block& block) {
    for (StmtPtr stmt : block) Stmt(stmt);
  }

  void Stmt(StmtPtr stmt) {
    switch (stmt->kind) {
      case ast::StmtKind::kFunction: {
        const NameSet free = FreeNames(*stmt->As<ast::Function>());
        out_->insert(free.begin(), free.end());
        break;
      }
      case ast::StmtKind::kClass: {
        const auto& node = *stmt->As<ast::Class>();
        List(node.decorators);
        List(node.bases);
        if (node.metaclass != nullptr) Expr(node.metaclass);
        Block(node.body);
        break;
      }
      case ast::StmtKind::kReturn:
        Expr(stmt->As<ast::Return>()->value);
        break;
      case ast::StmtKind::kAssign:
        List(stmt->As<ast::Assign>()->targets);
        Expr(stmt->As<ast::Assign>()->value);
        break;
      case ast::StmtKind::kAugAssign:
        Expr(stmt->As<ast::AugAssign>()->target);
        Expr(stmt->As<ast::AugAssign>()->value);
        break;
      case ast::StmtKind::kAnnAssign: {
        const auto& node = *stmt->As<ast::AnnAssign>();
        Expr(node.target);
        Expr(node.annotation);
        Expr(node.value);
        break;
      }
      case ast::StmtKind::kExpr:
        Expr(stmt->As<ast::ExprStmt>()->value);
        break;
      case ast::StmtKind::kAssert:
        Expr(stmt->As<ast::Assert>()->condition);
        Expr(stmt->As<ast::Assert>()->message);
        break;
      case ast::StmtKind::kDelete:
        List(stmt->As<ast::Delete>()->targets);
        break;
      case ast::StmtKind::kRaise:
        Expr(stmt->As<ast::Raise>()->value);
        break;
      default:
        Compound(stmt);
        break;
    }
  }

 private:
  void Compound(StmtPtr stmt) {
    if (const auto* node = stmt->As<ast::If>()) {
      for (const ast::Branch& branch : node->branches) {
        Expr(branch.condition);
        Block(branch.body);
      }
      Block(node->otherwise);
    } else if (const auto* loop = stmt->As<ast::For>()) {
      Expr(loop->iterable);
      Block(loop->body);
      Block(loop->otherwise);
    } else if (const auto* loop = stmt->As<ast::While>()) {
      Expr(loop->condition);
      Block(loop->body);
      Block(loop->otherwise);
    } else if (const auto* with = stmt->As<ast::With>()) {
      for (const ast::WithItem& item : with->items) Expr(item.context);
      Block(with->body);
    } else if (const auto* attempt = stmt->As<ast::Try>()) {
      Block(attempt->body);
      Block(attempt->otherwise);
      Block(attempt->finally);
      for (const ast::Handler& handler : attempt->handlers) Block(handler.body);
    }
  }

  void List(const std::vector<ExprPtr>& exprs) {
    for (ExprPtr expr : exprs) Expr(expr);
  }

  void Params(const std::vector<ast::Param>& params) {
    for (const ast::Param& param : params) Expr(param.default_value);
  }

  void Parts(const std::vector<ast::FStringPart>& parts) {
    for (const ast::FStringPart& part : parts) {
      Expr(part.value);
      Parts(part.format);
    }
  }

  void Expr(ExprPtr expr) {
    if (expr == nullptr) return;
    if (const auto* name = expr->As<ast::Name>()) {
      out_->insert(name->id);
    } else if (const auto* attribute = expr->As<ast::Attribute>()) {
      Expr(attribute->value);
    } else if (const auto* subscript = expr->As<ast::Subscript>()) {
      Expr(subscript->value);
      List(subscript->indices);
    } else if (const auto* slice = expr->As<ast::Slice>()) {
      List({slice->start, slice->stop, slice->step});
    } else if (const auto* call = expr->As<ast::Call>()) {
      Expr(call->callee);
      List(call->args);
      for (const ast::Keyword& keyword : call->keywords) Expr(keyword.value);
    } else if (const auto* binary = expr->As<ast::Binary>()) {
      List({binary->left, binary->right});
    } else if (const auto* unary = expr->As<ast::Unary>()) {
      Expr(unary->operand);
    } else if (const auto* boolean = expr->As<ast::Bool>()) {
      List(boolean->operands);
    } else if (const auto* compare = expr->As<ast::Compare>()) {
      Expr(compare->first);
      List(compare->rest);
    } else if (const auto* conditional = expr->As<ast::Conditional>()) {
      List({conditional->condition, conditional->then, conditional->otherwise});
    } else {
      Collection(expr);
    }
  }

  void Collection(ExprPtr expr) {
    if (const auto* lambda = expr->As<ast::Lambda>()) {
      Params(lambda->params);
      Expr(lambda->body);  // its parameters count as read: more than needed, never less
    } else if (const auto* tuple = expr->As<ast::Tuple>()) {
      List(tuple->items);
    } else if (const auto* list = expr->As<ast::List>()) {
      List(list->items);
    } else if (const auto* set = expr->As<ast::Set>()) {
      List(set->items);
    } else if (const auto* dict = expr->As<ast::Dict>()) {
      List(dict->keys);
      List(dict->values);
    } else if (const auto* comprehension = expr->As<ast::Comprehension>()) {
      List({comprehension->key, comprehension->element});
      for (const ast::ForClause& clause : comprehension->clauses) {
        Expr(clause.iterable);
        List(clause.conditions);
      }
    } else if (const auto* text = expr->As<ast::FString>()) {
      Parts(text->parts);
    } else if (const auto* starred = expr->As<ast::Starred>()) {
      Expr(starred->value);
    } else if (const auto* named = expr->As<ast::Named>()) {
      List({named->target, named->value});
    } else if (const auto* yield = expr->As<ast::Yield>()) {
      Expr(yield->value);
    }
  }

  NameSet* out_;
};

}  // namespace

NameSet NamesRead(StmtPtr stmt) {
  NameSet names;
  Reader(&names).Stmt(stmt);
  return names;
}

NameSet FreeNames(const ast::Function& function) {
  NameSet names;
  Reader(&names).Block(function.body);
  std::vector<absl::string_view> own;
  for (StmtPtr stmt : function.body) CollectBindings(stmt, &own);
  for (const ast::Param& param : function.params) own.push_back(param.name);
  for (absl::string_view name : own) names.erase(name);
  // What the definition itself reads stands outside of it.
  ast::ExprStmt outside({});
  for (const ast::Param& param : function.params) {
    for (ExprPtr expr : {param.annotation, param.default_value}) {
      if (expr == nullptr) continue;
      outside.value = expr;
      Reader(&names).Stmt(&outside);
    }
  }
  for (ExprPtr decorator : function.decorators) {
    outside.value = decorator;
    Reader(&names).Stmt(&outside);
  }
  return names;
}

}  // namespace kiln::lang

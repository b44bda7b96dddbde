// The parser's state, shared by its two halves (parser.cc: statements; parser_expr.cc:
// expressions). Private to those files.
#ifndef KILN_COMPILER_LANG_PARSER_IMPL_H_
#define KILN_COMPILER_LANG_PARSER_IMPL_H_

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/lang/ast.h"
#include "compiler/lang/kernel.h"
#include "compiler/lang/lexer.h"
#include "compiler/lang/parser.h"

namespace kiln::lang {

class Parser {
 public:
  Parser(const SourceFile& file, std::vector<Token> tokens, const Limits& limits, ast::Ast* ast)
      : file_(file), tokens_(std::move(tokens)), limits_(limits), ast_(ast) {}

  absl::StatusOr<ast::Block> ParseFile();
  absl::StatusOr<ast::ExprPtr> ParseWholeExpression();

 private:
  // Counts nesting; Enter() fails beyond the limit.
  class Nest {
   public:
    explicit Nest(Parser* p) : parser_(p) { ++parser_->depth_; }
    ~Nest() { --parser_->depth_; }

   private:
    Parser* parser_;
  };
  absl::Status CheckDepth() const;

  // Tokens.
  const Token& Now() const { return tokens_[pos_]; }
  const Token& Ahead(size_t n = 1) const { return tokens_[std::min(pos_ + n, tokens_.size() - 1)]; }
  bool IsOp(absl::string_view op) const { return Now().Is(op); }
  bool IsWord(absl::string_view word) const { return Now().IsWord(word); }
  bool TakeOp(absl::string_view op);
  bool TakeWord(absl::string_view word);
  absl::Status Expect(absl::string_view op, absl::string_view where);
  absl::StatusOr<Token> ExpectName(absl::string_view what);
  bool AtStatementEnd() const;
  absl::Status Error(const SourceLoc& loc, std::string message, std::string remedy) const;
  absl::Status Unexpected(absl::string_view wanted) const;
  std::string Instead(absl::string_view wanted) const;
  // From the start of `begin` to the end of the token before the current one.
  SourceLoc Span(SourceLoc begin) const;

  // Finishes a node: sets position and height.
  template <typename T>
  absl::StatusOr<ast::ExprPtr> Finish(T* node, SourceLoc begin,
                                      std::initializer_list<ast::ExprPtr> children) {
    for (ast::ExprPtr child : children) Raise(node, child);
    return Close(node, begin);
  }
  static void Raise(ast::Expr* node, ast::ExprPtr child) {
    if (child != nullptr && child->depth >= node->depth) node->depth = child->depth + 1;
  }
  absl::StatusOr<ast::ExprPtr> Close(ast::Expr* node, SourceLoc begin) const;

  // Expressions (parser_expr.cc).
  absl::StatusOr<ast::ExprPtr> ParseExpressionList(bool allow_starred);  // a, b, ...
  absl::StatusOr<ast::ExprPtr> ParseNamedTest();                         // a test, or name := test
  absl::StatusOr<ast::ExprPtr> ParseTest();
  absl::StatusOr<ast::ExprPtr> ParseOperators(int min_precedence);
  absl::StatusOr<ast::ExprPtr> ParseComparison(ast::ExprPtr first);
  bool IsLeastInteger() const;
  absl::StatusOr<ast::ExprPtr> ParseUnary();
  absl::StatusOr<ast::ExprPtr> ParsePower();
  absl::StatusOr<ast::ExprPtr> ParsePostfix(ast::ExprPtr base);
  absl::StatusOr<ast::ExprPtr> ParseAtom();
  absl::StatusOr<ast::ExprPtr> ParseLambda();
  absl::StatusOr<ast::ExprPtr> ParseYield();
  absl::StatusOr<ast::ExprPtr> ParseParenthesised();
  absl::StatusOr<ast::ExprPtr> ParseListDisplay();
  absl::StatusOr<ast::ExprPtr> ParseBraces();
  absl::StatusOr<ast::ExprPtr> ParseStrings();
  absl::Status ParsePieces(const std::vector<FPiece>& pieces, std::vector<ast::FStringPart>* parts,
                           ast::Expr* owner);
  absl::StatusOr<ast::ExprPtr> ParseStarredOrNamed();
  absl::StatusOr<ast::ExprPtr> ParseCall(ast::ExprPtr callee);
  absl::StatusOr<ast::ExprPtr> ParseSubscript(ast::ExprPtr base);
  absl::StatusOr<ast::ExprPtr> ParseSliceItem();
  bool AtComprehension() const;
  absl::Status ParseClauses(ast::Comprehension* node);
  absl::StatusOr<std::vector<ast::Param>> ParseParams(absl::string_view close, bool annotations);
  absl::StatusOr<ast::ExprPtr> ParseTargetList();
  absl::StatusOr<ast::ExprPtr> MakeUnsupported(SourceLoc begin, std::string what,
                                               std::string remedy, int depth);

  // Statements (parser.cc).
  absl::Status ParseStatement(ast::Block* out);
  absl::Status ParseSimpleLine(ast::Block* out);
  absl::StatusOr<ast::StmtPtr> ParseSimple();
  absl::StatusOr<ast::StmtPtr> ParseExpressionStatement();
  absl::StatusOr<ast::StmtPtr> ParseImport();
  absl::StatusOr<ast::StmtPtr> ParseFromImport();
  absl::StatusOr<std::string> ParseDottedName();
  absl::StatusOr<ast::Block> ParseBlock(absl::string_view after);
  absl::StatusOr<ast::StmtPtr> ParseCompound();
  absl::StatusOr<ast::StmtPtr> ParseIf();
  absl::StatusOr<ast::StmtPtr> ParseFor(bool is_async);
  absl::StatusOr<ast::StmtPtr> ParseWhile();
  absl::StatusOr<ast::StmtPtr> ParseWith(bool is_async);
  absl::StatusOr<ast::StmtPtr> ParseTry();
  absl::StatusOr<ast::StmtPtr> ParseDecorated();
  absl::Status SkipTypeParams();
  absl::StatusOr<ast::StmtPtr> ParseFunction(std::vector<ast::ExprPtr> decorators, bool is_async);
  absl::StatusOr<ast::StmtPtr> ParseClass(std::vector<ast::ExprPtr> decorators);
  absl::StatusOr<ast::StmtPtr> ParseMatch();
  bool AtMatch() const;
  absl::StatusOr<ast::StmtPtr> SkipSimple(std::string what, std::string remedy);
  absl::Status CheckTarget(ast::ExprPtr target) const;
  std::string NameOf(const Token& token) const { return PrivateName(class_, token.text); }

  const SourceFile& file_;
  std::vector<Token> tokens_;
  const Limits& limits_;
  ast::Ast* ast_;
  size_t pos_ = 0;
  int depth_ = 0;
  bool saw_yield_ = false;
  std::string class_;  // the innermost, whose name is part of those that begin with "__"
};

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_PARSER_IMPL_H_

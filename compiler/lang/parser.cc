#include "compiler/lang/parser.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/lang/parser_impl.h"

namespace kiln::lang {
namespace ast {

const char* Spelling(BinaryOp op) {
  static constexpr const char* kNames[] = {"+",  "-",  "*", "/", "//", "%", "**",
                                           "<<", ">>", "&", "|", "^",  "@"};
  return kNames[static_cast<int>(op)];
}

const char* Spelling(CompareOp op) {
  static constexpr const char* kNames[] = {"==", "!=", "<",      "<=", ">",
                                           ">=", "is", "is not", "in", "not in"};
  return kNames[static_cast<int>(op)];
}

}  // namespace ast

namespace {

using ast::Block;
using ast::ExprPtr;
using ast::StmtPtr;

// The height of one expression tree; long chains such as a + b + c + ... count one level a term.
constexpr int kMaxExprHeight = 800;

struct AugmentedOperator {
  absl::string_view text;
  ast::BinaryOp op;
};
constexpr AugmentedOperator kAugmented[] = {
    {"+=", ast::BinaryOp::kAdd},       {"-=", ast::BinaryOp::kSub},
    {"*=", ast::BinaryOp::kMul},       {"/=", ast::BinaryOp::kDiv},
    {"//=", ast::BinaryOp::kFloorDiv}, {"%=", ast::BinaryOp::kMod},
    {"**=", ast::BinaryOp::kPow},      {"<<=", ast::BinaryOp::kShl},
    {">>=", ast::BinaryOp::kShr},      {"&=", ast::BinaryOp::kBitAnd},
    {"|=", ast::BinaryOp::kBitOr},     {"^=", ast::BinaryOp::kBitXor},
    {"@=", ast::BinaryOp::kMatMul},
};

}  // namespace

bool Parser::TakeOp(absl::string_view op) {
  if (!IsOp(op)) return false;
  ++pos_;
  return true;
}

bool Parser::TakeWord(absl::string_view word) {
  if (!IsWord(word)) return false;
  ++pos_;
  return true;
}

absl::Status Parser::Error(const SourceLoc& loc, std::string message, std::string remedy) const {
  return ErrorAt(file_, loc, std::move(message), std::move(remedy));
}

// What Python has in place of what other languages write here.
std::string Parser::Instead(absl::string_view wanted) const {
  const bool after = pos_ > 0;
  const Token& token = Now();
  auto doubled = [&](absl::string_view op) {
    return after && token.Is(op) && tokens_[pos_ - 1].Is(op);
  };
  if (doubled("&")) return "Python's 'and' joins conditions: a and b";
  if (doubled("|")) return "Python's 'or' joins conditions: a or b";
  const bool ends = AtStatementEnd();
  if (ends && after && pos_ > 1) {
    const Token &last = tokens_[pos_ - 1], &before = tokens_[pos_ - 2];
    if (last.Is("+") && before.Is("+")) return "Python has no '++': write x += 1";
    if (last.Is("-") && before.Is("-")) return "Python has no '--': write x -= 1";
  }
  if (token.Is("=") && absl::StartsWith(wanted, "':'")) {
    return "'==' compares; '=' gives a name its value";
  }
  if (token.Is("{") && absl::StartsWith(wanted, "':'")) {
    return "a block begins with ':' and is indented";
  }
  return "check the line for a missing operator, bracket or colon";
}

absl::Status Parser::Unexpected(absl::string_view wanted) const {
  const Token& token = Now();
  std::string found;
  switch (token.kind) {
    case TokenKind::kNewline:
      found = "the end of the line";
      break;
    case TokenKind::kEnd:
      found = "the end of the file";
      break;
    case TokenKind::kIndent:
      found = "an indented line";
      break;
    case TokenKind::kDedent:
      found = "the end of the block";
      break;
    case TokenKind::kString:
    case TokenKind::kFString:
    case TokenKind::kBytes:
      found = "a string";
      break;
    default:
      found = absl::StrCat("'", token.text.substr(0, 40), "'");
      break;
  }
  return Error(token.loc, absl::StrCat("expected ", wanted, ", found ", found), Instead(wanted));
}

absl::Status Parser::Expect(absl::string_view op, absl::string_view where) {
  if (TakeOp(op)) return absl::OkStatus();
  return Unexpected(absl::StrCat("'", op, "' ", where));
}

absl::StatusOr<Token> Parser::ExpectName(absl::string_view what) {
  if (Now().kind != TokenKind::kName) return Unexpected(what);
  return tokens_[pos_++];
}

bool Parser::AtStatementEnd() const {
  const TokenKind kind = Now().kind;
  return kind == TokenKind::kNewline || kind == TokenKind::kEnd || kind == TokenKind::kDedent ||
         IsOp(";");
}

absl::Status Parser::CheckDepth() const {
  // One level of source nesting takes up to three counts (test, operators, unary).
  if (depth_ <= 3 * limits_.depth) return absl::OkStatus();
  return ErrorAt(file_, Now().loc,
                 absl::StrCat("the source is nested more than ", limits_.depth, " levels deep"),
                 "name the inner parts", absl::StatusCode::kResourceExhausted);
}

SourceLoc Parser::Span(SourceLoc begin) const {
  const SourceLoc& last = tokens_[pos_ == 0 ? 0 : pos_ - 1].loc;
  if (last.line == begin.line) begin.end_column = std::max(begin.end_column, last.end_column);
  return begin;
}

absl::StatusOr<ExprPtr> Parser::Close(ast::Expr* node, SourceLoc begin) const {
  node->loc = Span(begin);
  if (node->depth <= kMaxExprHeight) return node;
  return ErrorAt(file_, node->loc,
                 absl::StrCat("an expression more than ", kMaxExprHeight, " operations deep"),
                 "name the inner parts", absl::StatusCode::kResourceExhausted);
}

absl::Status Parser::CheckTarget(ExprPtr target) const {
  switch (target->kind) {
    case ast::ExprKind::kName:
    case ast::ExprKind::kAttribute:
    case ast::ExprKind::kSubscript:
      return absl::OkStatus();
    case ast::ExprKind::kStarred:
      return CheckTarget(target->As<ast::Starred>()->value);
    case ast::ExprKind::kTuple:
      for (ExprPtr item : target->As<ast::Tuple>()->items) KILN_RETURN_IF_ERROR(CheckTarget(item));
      return absl::OkStatus();
    case ast::ExprKind::kList:
      for (ExprPtr item : target->As<ast::List>()->items) KILN_RETURN_IF_ERROR(CheckTarget(item));
      return absl::OkStatus();
    default:
      return Error(target->loc, "this cannot be assigned to",
                   "assign to a name, an element or an attribute");
  }
}

absl::StatusOr<Block> Parser::ParseFile() {
  Block body;
  while (Now().kind != TokenKind::kEnd) KILN_RETURN_IF_ERROR(ParseStatement(&body));
  return body;
}

absl::Status Parser::ParseStatement(Block* out) {
  Nest nest(this);
  KILN_RETURN_IF_ERROR(CheckDepth());
  if (Now().kind == TokenKind::kNewline) {
    ++pos_;
    return absl::OkStatus();
  }
  if (Now().kind == TokenKind::kIndent) {
    return Error(Now().loc, "this line is indented for no reason",
                 "align it with the lines before it");
  }
  KILN_ASSIGN_OR_RETURN(StmtPtr compound, ParseCompound());
  if (compound != nullptr) {
    out->push_back(compound);
    return absl::OkStatus();
  }
  return ParseSimpleLine(out);
}

absl::Status Parser::ParseSimpleLine(Block* out) {
  while (true) {
    KILN_ASSIGN_OR_RETURN(StmtPtr stmt, ParseSimple());
    out->push_back(stmt);
    if (!TakeOp(";")) break;
    if (AtStatementEnd()) break;
  }
  if (Now().kind == TokenKind::kNewline) {
    ++pos_;
    return absl::OkStatus();
  }
  if (Now().kind == TokenKind::kEnd) return absl::OkStatus();
  return Unexpected("the end of the statement");
}

absl::StatusOr<StmtPtr> Parser::SkipSimple(std::string what, std::string remedy) {
  auto* node = ast_->New<ast::UnsupportedStmt>(Now().loc);
  node->what = std::move(what);
  node->remedy = std::move(remedy);
  for (; !AtStatementEnd(); ++pos_) {
    if (node->what == "global") node->names.emplace_back(Now().text);
  }
  node->loc = Span(node->loc);
  return node;
}

absl::StatusOr<StmtPtr> Parser::ParseSimple() {
  const SourceLoc begin = Now().loc;
  if (TakeWord("pass")) return ast_->New<ast::Pass>(begin);
  if (TakeWord("break")) return ast_->New<ast::Break>(begin);
  if (TakeWord("continue")) return ast_->New<ast::Continue>(begin);
  if (IsWord("import")) return ParseImport();
  if (IsWord("from")) return ParseFromImport();
  if (TakeWord("del")) {
    auto* node = ast_->New<ast::Delete>(begin);
    do {
      KILN_ASSIGN_OR_RETURN(ExprPtr target, ParseStarredOrNamed());
      KILN_RETURN_IF_ERROR(CheckTarget(target));
      node->targets.push_back(target);
    } while (TakeOp(",") && !AtStatementEnd());
    node->loc = Span(begin);
    return node;
  }
  if (IsWord("global")) return SkipSimple("global", "pass the value as a parameter");
  if (IsWord("nonlocal")) return SkipSimple("nonlocal", "return the new value");
  if (IsWord("type") && Ahead().kind == TokenKind::kName && Ahead(2).Is("=")) {
    return SkipSimple("a type alias", "assign the type to a name");
  }
  if (TakeWord("return")) {
    auto* node = ast_->New<ast::Return>(begin);
    if (!AtStatementEnd()) {
      KILN_ASSIGN_OR_RETURN(node->value, ParseExpressionList(true));
    }
    node->loc = Span(begin);
    return node;
  }
  if (TakeWord("assert")) {
    auto* node = ast_->New<ast::Assert>(begin);
    KILN_ASSIGN_OR_RETURN(node->condition, ParseTest());
    if (TakeOp(",")) {
      KILN_ASSIGN_OR_RETURN(node->message, ParseTest());
    }
    node->loc = Span(begin);
    return node;
  }
  if (TakeWord("raise")) {
    auto* node = ast_->New<ast::Raise>(begin);
    if (!AtStatementEnd()) {
      KILN_ASSIGN_OR_RETURN(node->value, ParseTest());
      if (TakeWord("from")) KILN_RETURN_IF_ERROR(ParseTest().status());
    }
    node->loc = Span(begin);
    return node;
  }
  return ParseExpressionStatement();
}

absl::StatusOr<StmtPtr> Parser::ParseExpressionStatement() {
  const SourceLoc begin = Now().loc;
  KILN_ASSIGN_OR_RETURN(ExprPtr first, ParseExpressionList(true));
  if (TakeOp(":")) {
    auto* node = ast_->New<ast::AnnAssign>(begin);
    node->target = first;
    KILN_RETURN_IF_ERROR(CheckTarget(first));
    KILN_ASSIGN_OR_RETURN(node->annotation, ParseTest());
    if (TakeOp("=")) {
      KILN_ASSIGN_OR_RETURN(node->value, ParseExpressionList(true));
    }
    node->loc = Span(begin);
    return node;
  }
  for (const AugmentedOperator& op : kAugmented) {
    if (!IsOp(op.text)) continue;
    ++pos_;
    auto* node = ast_->New<ast::AugAssign>(begin);
    node->target = first;
    node->op = op.op;
    if (first->kind == ast::ExprKind::kTuple || first->kind == ast::ExprKind::kList) {
      return Error(first->loc, "a tuple cannot be updated in place", "update its parts one by one");
    }
    KILN_RETURN_IF_ERROR(CheckTarget(first));
    KILN_ASSIGN_OR_RETURN(node->value, ParseExpressionList(true));
    node->loc = Span(begin);
    return node;
  }
  if (!IsOp("=")) {
    auto* node = ast_->New<ast::ExprStmt>(begin);
    node->value = first;
    node->loc = Span(begin);
    return node;
  }
  auto* node = ast_->New<ast::Assign>(begin);
  ExprPtr value = first;
  while (TakeOp("=")) {
    KILN_RETURN_IF_ERROR(CheckTarget(value));
    node->targets.push_back(value);
    KILN_ASSIGN_OR_RETURN(value, ParseExpressionList(true));
  }
  node->value = value;
  node->loc = Span(begin);
  return node;
}

absl::StatusOr<std::string> Parser::ParseDottedName() {
  KILN_ASSIGN_OR_RETURN(const Token first, ExpectName("a module name"));
  std::string path(first.text);
  while (TakeOp(".")) {
    KILN_ASSIGN_OR_RETURN(const Token part, ExpectName("a module name after '.'"));
    absl::StrAppend(&path, ".", part.text);
  }
  return path;
}

absl::StatusOr<StmtPtr> Parser::ParseImport() {
  auto* node = ast_->New<ast::Import>(Now().loc);
  ++pos_;
  do {
    ast::ImportedName name;
    KILN_ASSIGN_OR_RETURN(name.path, ParseDottedName());
    if (TakeWord("as")) {
      KILN_ASSIGN_OR_RETURN(const Token alias, ExpectName("a name after 'as'"));
      name.alias = std::string(alias.text);
    } else {
      name.alias = name.path.substr(0, name.path.find('.'));
      name.whole_path = true;
    }
    node->names.push_back(std::move(name));
  } while (TakeOp(","));
  node->loc = Span(node->loc);
  return node;
}

absl::StatusOr<StmtPtr> Parser::ParseFromImport() {
  auto* node = ast_->New<ast::Import>(Now().loc);
  ++pos_;
  while (IsOp(".") || IsOp("...")) {
    node->module += std::string(Now().text);
    ++pos_;
  }
  if (!IsWord("import")) {
    KILN_ASSIGN_OR_RETURN(const std::string path, ParseDottedName());
    node->module += path;
  }
  if (!TakeWord("import")) return Unexpected("'import'");
  const bool parenthesised = TakeOp("(");
  if (TakeOp("*")) {
    node->names.push_back({"*", "*", false});
  } else {
    do {
      if (parenthesised && IsOp(")")) break;
      KILN_ASSIGN_OR_RETURN(const Token name, ExpectName("a name to import"));
      ast::ImportedName imported{std::string(name.text), std::string(name.text), false};
      if (TakeWord("as")) {
        KILN_ASSIGN_OR_RETURN(const Token alias, ExpectName("a name after 'as'"));
        imported.alias = std::string(alias.text);
      }
      node->names.push_back(std::move(imported));
    } while (TakeOp(","));
  }
  if (parenthesised) KILN_RETURN_IF_ERROR(Expect(")", "to end the import list"));
  node->loc = Span(node->loc);
  return node;
}

absl::StatusOr<Block> Parser::ParseBlock(absl::string_view after) {
  if (!TakeOp(":")) return Unexpected(absl::StrCat("':' after ", after));
  Block body;
  if (Now().kind != TokenKind::kNewline) {
    KILN_RETURN_IF_ERROR(ParseSimpleLine(&body));
    return body;
  }
  ++pos_;
  if (Now().kind != TokenKind::kIndent) {
    return Error(Now().loc, absl::StrCat("expected an indented block after ", after),
                 "indent its body, or write pass");
  }
  ++pos_;
  while (Now().kind != TokenKind::kDedent && Now().kind != TokenKind::kEnd) {
    KILN_RETURN_IF_ERROR(ParseStatement(&body));
  }
  if (Now().kind == TokenKind::kDedent) ++pos_;
  return body;
}

absl::StatusOr<StmtPtr> Parser::ParseCompound() {
  if (IsOp("@")) return ParseDecorated();
  if (Now().kind != TokenKind::kName) return nullptr;
  if (IsWord("if")) return ParseIf();
  if (IsWord("for")) return ParseFor(false);
  if (IsWord("while")) return ParseWhile();
  if (IsWord("with")) return ParseWith(false);
  if (IsWord("def")) return ParseFunction({}, false);
  if (IsWord("class")) return ParseClass({});
  if (IsWord("try")) return ParseTry();
  if (IsWord("async")) {
    ++pos_;
    if (IsWord("def")) return ParseFunction({}, true);
    if (IsWord("for")) return ParseFor(true);
    if (IsWord("with")) return ParseWith(true);
    return Unexpected("'def', 'for' or 'with' after 'async'");
  }
  if (IsWord("match") && AtMatch()) return ParseMatch();
  return nullptr;
}

absl::StatusOr<StmtPtr> Parser::ParseIf() {
  auto* node = ast_->New<ast::If>(Now().loc);
  do {
    ++pos_;
    ast::Branch branch;
    KILN_ASSIGN_OR_RETURN(branch.condition, ParseNamedTest());
    KILN_ASSIGN_OR_RETURN(branch.body, ParseBlock("the condition"));
    node->branches.push_back(std::move(branch));
  } while (IsWord("elif"));
  if (TakeWord("else")) {
    KILN_ASSIGN_OR_RETURN(node->otherwise, ParseBlock("'else'"));
  }
  return node;
}

absl::StatusOr<StmtPtr> Parser::ParseFor(bool is_async) {
  auto* node = ast_->New<ast::For>(Now().loc);
  node->is_async = is_async;
  ++pos_;
  KILN_ASSIGN_OR_RETURN(node->target, ParseTargetList());
  if (!TakeWord("in")) return Unexpected("'in'");
  KILN_ASSIGN_OR_RETURN(node->iterable, ParseExpressionList(true));
  node->loc = Span(node->loc);
  KILN_ASSIGN_OR_RETURN(node->body, ParseBlock("the loop's header"));
  if (IsWord("else")) {
    node->else_loc = Now().loc;
    ++pos_;
    KILN_ASSIGN_OR_RETURN(node->otherwise, ParseBlock("'else'"));
  }
  return node;
}

absl::StatusOr<StmtPtr> Parser::ParseWhile() {
  auto* node = ast_->New<ast::While>(Now().loc);
  ++pos_;
  KILN_ASSIGN_OR_RETURN(node->condition, ParseNamedTest());
  node->loc = Span(node->loc);
  KILN_ASSIGN_OR_RETURN(node->body, ParseBlock("the condition"));
  if (IsWord("else")) {
    node->else_loc = Now().loc;
    ++pos_;
    KILN_ASSIGN_OR_RETURN(node->otherwise, ParseBlock("'else'"));
  }
  return node;
}

absl::StatusOr<StmtPtr> Parser::ParseWith(bool is_async) {
  auto* node = ast_->New<ast::With>(Now().loc);
  node->is_async = is_async;
  ++pos_;
  // `with (a as b, c as d):` needs look-ahead: it is a list of items when an `as` stands at the
  // top level of the parentheses and ':' follows them.
  bool parenthesised = false;
  if (IsOp("(")) {
    int nesting = 0;
    size_t i = pos_;
    for (; i < tokens_.size() && tokens_[i].kind != TokenKind::kNewline; ++i) {
      if (tokens_[i].Is("(") || tokens_[i].Is("[") || tokens_[i].Is("{")) ++nesting;
      if (tokens_[i].Is(")") || tokens_[i].Is("]") || tokens_[i].Is("}")) --nesting;
      if (nesting == 1 && tokens_[i].IsWord("as")) parenthesised = true;
      if (nesting == 0) break;
    }
    if (i + 1 >= tokens_.size() || !tokens_[i + 1].Is(":")) parenthesised = false;
  }
  if (parenthesised) ++pos_;
  do {
    if (parenthesised && IsOp(")")) break;
    ast::WithItem item;
    KILN_ASSIGN_OR_RETURN(item.context, ParseTest());
    if (TakeWord("as")) {
      KILN_ASSIGN_OR_RETURN(item.target, ParseOperators(5));
      KILN_RETURN_IF_ERROR(CheckTarget(item.target));
    }
    node->items.push_back(std::move(item));
  } while (TakeOp(","));
  if (parenthesised) KILN_RETURN_IF_ERROR(Expect(")", "to end the with items"));
  node->loc = Span(node->loc);
  KILN_ASSIGN_OR_RETURN(node->body, ParseBlock("the with items"));
  return node;
}

absl::StatusOr<StmtPtr> Parser::ParseTry() {
  auto* node = ast_->New<ast::Try>(Now().loc);
  ++pos_;
  KILN_ASSIGN_OR_RETURN(node->body, ParseBlock("'try'"));
  while (TakeWord("except")) {
    ast::Handler handler;
    TakeOp("*");
    if (!IsOp(":")) {
      KILN_ASSIGN_OR_RETURN(handler.type, ParseExpressionList(false));
      if (TakeWord("as")) {
        KILN_ASSIGN_OR_RETURN(const Token name, ExpectName("a name after 'as'"));
        handler.name = NameOf(name);
      }
    }
    KILN_ASSIGN_OR_RETURN(handler.body, ParseBlock("'except'"));
    node->handlers.push_back(std::move(handler));
  }
  if (TakeWord("else")) {
    KILN_ASSIGN_OR_RETURN(node->otherwise, ParseBlock("'else'"));
  }
  if (TakeWord("finally")) {
    KILN_ASSIGN_OR_RETURN(node->finally, ParseBlock("'finally'"));
  }
  if (node->handlers.empty() && node->finally.empty()) {
    return Unexpected("'except' or 'finally' after the try block");
  }
  return node;
}

absl::StatusOr<StmtPtr> Parser::ParseDecorated() {
  std::vector<ExprPtr> decorators;
  while (TakeOp("@")) {
    KILN_ASSIGN_OR_RETURN(ExprPtr decorator, ParseNamedTest());
    decorators.push_back(decorator);
    if (Now().kind != TokenKind::kNewline) return Unexpected("the end of the decorator's line");
    ++pos_;
  }
  if (IsWord("def")) return ParseFunction(std::move(decorators), false);
  if (IsWord("class")) return ParseClass(std::move(decorators));
  if (TakeWord("async") && IsWord("def")) return ParseFunction(std::move(decorators), true);
  return Unexpected("'def' or 'class' after the decorator");
}

// The type parameters of `def f[T](...)` and `class C[T]`: annotations may name them.
absl::Status Parser::SkipTypeParams() {
  if (!TakeOp("[")) return absl::OkStatus();
  for (int nesting = 1; nesting > 0; ++pos_) {
    if (Now().kind == TokenKind::kEnd) return Unexpected("']' to end the type parameters");
    if (IsOp("[")) ++nesting;
    if (IsOp("]")) --nesting;
  }
  return absl::OkStatus();
}

absl::StatusOr<StmtPtr> Parser::ParseFunction(std::vector<ExprPtr> decorators, bool is_async) {
  auto* node = ast_->New<ast::Function>(Now().loc);
  ++pos_;
  KILN_ASSIGN_OR_RETURN(const Token name, ExpectName("a function name"));
  node->name = NameOf(name);
  node->name_loc = name.loc;
  node->decorators = std::move(decorators);
  node->is_async = is_async;
  KILN_RETURN_IF_ERROR(SkipTypeParams());
  KILN_RETURN_IF_ERROR(Expect("(", "after the function's name"));
  KILN_ASSIGN_OR_RETURN(node->params, ParseParams(")", /*annotations=*/true));
  KILN_RETURN_IF_ERROR(Expect(")", "to end the parameters"));
  if (TakeOp("->")) KILN_RETURN_IF_ERROR(ParseExpressionList(false).status());
  node->loc = Span(node->loc);
  const bool outer = saw_yield_;
  saw_yield_ = false;
  KILN_ASSIGN_OR_RETURN(node->body, ParseBlock("the function's header"));
  node->is_generator = saw_yield_;
  saw_yield_ = outer;
  return node;
}

absl::StatusOr<StmtPtr> Parser::ParseClass(std::vector<ExprPtr> decorators) {
  auto* node = ast_->New<ast::Class>(Now().loc);
  ++pos_;
  KILN_ASSIGN_OR_RETURN(const Token name, ExpectName("a class name"));
  node->name = NameOf(name);
  node->decorators = std::move(decorators);
  KILN_RETURN_IF_ERROR(SkipTypeParams());
  if (IsOp("(")) {
    auto* callee = ast_->New<ast::Name>(name.loc, node->name);
    KILN_ASSIGN_OR_RETURN(ExprPtr call, ParseCall(callee));
    node->bases = call->As<ast::Call>()->args;
    for (const ast::Keyword& keyword : call->As<ast::Call>()->keywords) {
      if (keyword.name == "metaclass") node->metaclass = keyword.value;
    }
  }
  node->loc = Span(node->loc);
  const std::string outer = std::exchange(class_, std::string(name.text));
  KILN_ASSIGN_OR_RETURN(node->body, ParseBlock("the class's header"));
  class_ = outer;
  return node;
}

// `match` is a soft keyword: it starts a statement when a subject and ':' at the end of the line
// follow it.
bool Parser::AtMatch() const {
  const Token& next = Ahead();
  if (next.kind == TokenKind::kOperator && !next.Is("(") && !next.Is("[") && !next.Is("{") &&
      !next.Is("-") && !next.Is("*")) {
    return false;
  }
  size_t i = pos_ + 1;
  while (tokens_[i].kind != TokenKind::kNewline && tokens_[i].kind != TokenKind::kEnd) ++i;
  return i > pos_ + 2 && tokens_[i - 1].Is(":") && i + 1 < tokens_.size() &&
         tokens_[i + 1].kind == TokenKind::kIndent;
}

absl::StatusOr<StmtPtr> Parser::ParseMatch() {
  KILN_ASSIGN_OR_RETURN(StmtPtr stmt, SkipSimple("match", "use if and elif"));
  ++pos_;
  int levels = 0;
  do {
    if (Now().kind == TokenKind::kIndent) ++levels;
    if (Now().kind == TokenKind::kDedent) --levels;
    ++pos_;
  } while (levels > 0 && Now().kind != TokenKind::kEnd);
  return stmt;
}

std::string PrivateName(absl::string_view type, absl::string_view name) {
  const bool is_private = absl::StartsWith(name, "__") && !absl::EndsWith(name, "__");
  const size_t first = std::min(type.find_first_not_of('_'), type.size());
  if (!is_private || first == type.size()) return std::string(name);
  return absl::StrCat("_", type.substr(first), name);
}

absl::StatusOr<std::unique_ptr<const ast::Ast>> ParseSource(const SourceFile& file,
                                                            const Limits& limits, bool positions) {
  if (static_cast<int64_t>(file.text.size()) > limits.source_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(file.path, ": error: the kernel file has ", file.text.size(),
                     " bytes, more than the limit of ", limits.source_bytes,
                     "\n  help: keep kernels apart from data and host code"));
  }
  KILN_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(file, limits.depth));
  if (!positions) {
    for (Token& token : tokens) token.loc = {};
  }
  auto tree = std::make_unique<ast::Ast>();
  Parser parser(file, std::move(tokens), limits, tree.get());
  KILN_ASSIGN_OR_RETURN(tree->body, parser.ParseFile());
  return std::unique_ptr<const ast::Ast>(std::move(tree));
}

absl::StatusOr<ast::ExprPtr> ParseExpression(const SourceFile& file, const Limits& limits,
                                             ast::Ast* ast) {
  KILN_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(file, limits.depth));
  Parser parser(file, std::move(tokens), limits, ast);
  return parser.ParseWholeExpression();
}

}  // namespace kiln::lang

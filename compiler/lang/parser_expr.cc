#include <map>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/lang/parser_impl.h"

namespace kiln::lang {
namespace {

using ast::ExprPtr;

// Precedences of binary operators, tightest last; `not` is 3 and comparisons are 4.
constexpr int kOr = 1, kAnd = 2, kNot = 3, kComparison = 4;

struct OperatorInfo {
  absl::string_view text;
  int precedence;
  ast::BinaryOp op;
};
constexpr OperatorInfo kBinaryOperators[] = {
    {"|", 5, ast::BinaryOp::kBitOr},  {"^", 6, ast::BinaryOp::kBitXor},
    {"&", 7, ast::BinaryOp::kBitAnd}, {"<<", 8, ast::BinaryOp::kShl},
    {">>", 8, ast::BinaryOp::kShr},   {"+", 9, ast::BinaryOp::kAdd},
    {"-", 9, ast::BinaryOp::kSub},    {"*", 10, ast::BinaryOp::kMul},
    {"/", 10, ast::BinaryOp::kDiv},   {"//", 10, ast::BinaryOp::kFloorDiv},
    {"%", 10, ast::BinaryOp::kMod},   {"@", 10, ast::BinaryOp::kMatMul},
};

const OperatorInfo* FindBinary(const Token& token) {
  if (token.kind != TokenKind::kOperator) return nullptr;
  for (const OperatorInfo& info : kBinaryOperators) {
    if (token.text == info.text) return &info;
  }
  return nullptr;
}

constexpr absl::string_view kKeywords[] = {
    "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
    "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
    "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
    "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};

bool IsKeyword(absl::string_view word) {
  for (absl::string_view keyword : kKeywords) {
    if (word == keyword) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<ExprPtr> Parser::MakeUnsupported(SourceLoc begin, std::string what,
                                                std::string remedy, int depth) {
  auto* node = ast_->New<ast::Unsupported>(begin);
  node->what = std::move(what);
  node->remedy = std::move(remedy);
  node->depth = depth + 1;
  return Close(node, begin);
}

absl::StatusOr<ExprPtr> Parser::ParseExpressionList(bool allow_starred) {
  const SourceLoc begin = Now().loc;
  auto one = [&]() { return allow_starred ? ParseStarredOrNamed() : ParseTest(); };
  KILN_ASSIGN_OR_RETURN(ExprPtr first, one());
  if (!IsOp(",")) return first;
  auto* tuple = ast_->New<ast::Tuple>(begin);
  tuple->items.push_back(first);
  Raise(tuple, first);
  while (TakeOp(",")) {
    if (AtStatementEnd() || IsOp("=") || IsOp(":") || IsOp(")") || IsOp("]") || IsOp("}")) break;
    KILN_ASSIGN_OR_RETURN(ExprPtr item, one());
    tuple->items.push_back(item);
    Raise(tuple, item);
  }
  return Close(tuple, begin);
}

absl::StatusOr<ExprPtr> Parser::ParseNamedTest() {
  const SourceLoc begin = Now().loc;
  KILN_ASSIGN_OR_RETURN(ExprPtr value, ParseTest());
  if (!IsOp(":=")) return value;
  ++pos_;
  if (value->kind != ast::ExprKind::kName) {
    return Error(value->loc, "':=' gives a value to a name alone",
                 "name it, or assign in a statement of its own");
  }
  auto* node = ast_->New<ast::Named>(begin);
  node->target = value;
  KILN_ASSIGN_OR_RETURN(node->value, ParseTest());
  return Finish(node, begin, {node->value});
}

absl::StatusOr<ExprPtr> Parser::ParseStarredOrNamed() {
  if (!IsOp("*")) return ParseNamedTest();
  const SourceLoc begin = Now().loc;
  ++pos_;
  auto* node = ast_->New<ast::Starred>(begin);
  KILN_ASSIGN_OR_RETURN(node->value, ParseOperators(kComparison + 1));
  return Finish(node, begin, {node->value});
}

absl::StatusOr<ExprPtr> Parser::ParseTest() {
  Nest nest(this);
  KILN_RETURN_IF_ERROR(CheckDepth());
  if (IsWord("lambda")) return ParseLambda();
  if (IsWord("yield")) return ParseYield();
  const SourceLoc begin = Now().loc;
  KILN_ASSIGN_OR_RETURN(ExprPtr value, ParseOperators(kOr));
  if (!IsWord("if")) return value;
  ++pos_;
  auto* node = ast_->New<ast::Conditional>(begin);
  node->then = value;
  KILN_ASSIGN_OR_RETURN(node->condition, ParseOperators(kOr));
  if (!TakeWord("else")) return Unexpected("'else' of the conditional expression");
  KILN_ASSIGN_OR_RETURN(node->otherwise, ParseTest());
  return Finish(node, begin, {node->then, node->condition, node->otherwise});
}

absl::StatusOr<ExprPtr> Parser::ParseOperators(int min_precedence) {
  Nest nest(this);
  KILN_RETURN_IF_ERROR(CheckDepth());
  const SourceLoc begin = Now().loc;
  ExprPtr left = nullptr;
  if (IsWord("not") && min_precedence <= kNot) {
    ++pos_;
    auto* node = ast_->New<ast::Unary>(begin);
    node->op = ast::UnaryOp::kNot;
    KILN_ASSIGN_OR_RETURN(node->operand, ParseOperators(kNot));
    KILN_ASSIGN_OR_RETURN(left, Finish(node, begin, {node->operand}));
  } else {
    KILN_ASSIGN_OR_RETURN(left, ParseUnary());
  }
  while (true) {
    if (const OperatorInfo* info = FindBinary(Now())) {
      if (info->precedence < min_precedence) return left;
      ++pos_;
      auto* node = ast_->New<ast::Binary>(begin);
      node->op = info->op;
      node->left = left;
      KILN_ASSIGN_OR_RETURN(node->right, ParseOperators(info->precedence + 1));
      KILN_ASSIGN_OR_RETURN(left, Finish(node, begin, {node->left, node->right}));
      continue;
    }
    const bool is_and = IsWord("and");
    if (is_and || IsWord("or")) {
      const int precedence = is_and ? kAnd : kOr;
      if (precedence < min_precedence) return left;
      auto* node = ast_->New<ast::Bool>(begin);
      node->is_and = is_and;
      node->operands.push_back(left);
      Raise(node, left);
      while (TakeWord(is_and ? "and" : "or")) {
        KILN_ASSIGN_OR_RETURN(ExprPtr operand, ParseOperators(precedence + 1));
        node->operands.push_back(operand);
        Raise(node, operand);
      }
      KILN_ASSIGN_OR_RETURN(left, Close(node, begin));
      continue;
    }
    if (min_precedence > kComparison) return left;
    KILN_ASSIGN_OR_RETURN(ExprPtr compared, ParseComparison(left));
    if (compared == left) return left;
    left = compared;
  }
}

absl::StatusOr<ExprPtr> Parser::ParseComparison(ExprPtr first) {
  ast::Compare* node = nullptr;
  while (true) {
    ast::CompareOp op;
    size_t width = 1;
    if (IsOp("=="))
      op = ast::CompareOp::kEq;
    else if (IsOp("!="))
      op = ast::CompareOp::kNe;
    else if (IsOp("<"))
      op = ast::CompareOp::kLt;
    else if (IsOp("<="))
      op = ast::CompareOp::kLe;
    else if (IsOp(">"))
      op = ast::CompareOp::kGt;
    else if (IsOp(">="))
      op = ast::CompareOp::kGe;
    else if (IsWord("in"))
      op = ast::CompareOp::kIn;
    else if (IsWord("not") && Ahead().IsWord("in"))
      op = ast::CompareOp::kNotIn, width = 2;
    else if (IsWord("is") && Ahead().IsWord("not"))
      op = ast::CompareOp::kIsNot, width = 2;
    else if (IsWord("is"))
      op = ast::CompareOp::kIs;
    else
      break;
    pos_ += width;
    if (node == nullptr) {
      node = ast_->New<ast::Compare>(first->loc);
      node->first = first;
      Raise(node, first);
    }
    KILN_ASSIGN_OR_RETURN(ExprPtr right, ParseOperators(kComparison + 1));
    node->ops.push_back(op);
    node->rest.push_back(right);
    Raise(node, right);
  }
  if (node == nullptr) return first;
  return Close(node, first->loc);
}

// -9223372036854775808, whose digits alone are no integer of 64 bits.
bool Parser::IsLeastInteger() const {
  if (!IsOp("-")) return false;
  const Token& digits = Ahead();
  const bool least = digits.kind == TokenKind::kInt && digits.too_big && !digits.beyond &&
                     digits.int_value == INT64_MIN;
  return least && !Ahead(2).Is("**");
}

absl::StatusOr<ExprPtr> Parser::ParseUnary() {
  const bool sign = IsOp("-") || IsOp("+") || IsOp("~");
  if (!sign) return ParsePower();
  Nest nest(this);
  KILN_RETURN_IF_ERROR(CheckDepth());
  const SourceLoc begin = Now().loc;
  if (IsLeastInteger()) {
    auto* least = ast_->New<ast::Constant>(begin);
    least->type = ast::ConstantType::kInt;
    least->int_value = INT64_MIN;
    pos_ += 2;
    return Close(least, begin);
  }
  auto* node = ast_->New<ast::Unary>(begin);
  node->op = IsOp("-")   ? ast::UnaryOp::kNeg
             : IsOp("+") ? ast::UnaryOp::kPos
                         : ast::UnaryOp::kInvert;
  ++pos_;
  KILN_ASSIGN_OR_RETURN(node->operand, ParseUnary());
  return Finish(node, begin, {node->operand});
}

absl::StatusOr<ExprPtr> Parser::ParsePower() {
  const SourceLoc begin = Now().loc;
  if (IsWord("await")) {
    Nest nest(this);
    KILN_RETURN_IF_ERROR(CheckDepth());
    ++pos_;
    KILN_ASSIGN_OR_RETURN(ExprPtr value, ParseUnary());
    return MakeUnsupported(begin, "await", "kernels and their factories are plain functions",
                           value->depth);
  }
  KILN_ASSIGN_OR_RETURN(ExprPtr base, ParseAtom());
  KILN_ASSIGN_OR_RETURN(base, ParsePostfix(base));
  if (!TakeOp("**")) return base;
  auto* node = ast_->New<ast::Binary>(begin);
  node->op = ast::BinaryOp::kPow;
  node->left = base;
  Nest nest(this);
  KILN_RETURN_IF_ERROR(CheckDepth());
  KILN_ASSIGN_OR_RETURN(node->right, ParseUnary());
  return Finish(node, begin, {node->left, node->right});
}

absl::StatusOr<ExprPtr> Parser::ParsePostfix(ExprPtr base) {
  while (true) {
    if (IsOp("(")) {
      KILN_ASSIGN_OR_RETURN(base, ParseCall(base));
    } else if (IsOp("[")) {
      KILN_ASSIGN_OR_RETURN(base, ParseSubscript(base));
    } else if (TakeOp(".")) {
      auto* node = ast_->New<ast::Attribute>(base->loc);
      node->value = base;
      KILN_ASSIGN_OR_RETURN(const Token name, ExpectName("an attribute name after '.'"));
      node->attr = NameOf(name);
      node->attr_loc = name.loc;
      KILN_ASSIGN_OR_RETURN(base, Finish(node, base->loc, {base}));
    } else {
      return base;
    }
  }
}

absl::StatusOr<ExprPtr> Parser::ParseCall(ExprPtr callee) {
  auto* node = ast_->New<ast::Call>(callee->loc);
  node->callee = callee;
  Raise(node, callee);
  ++pos_;
  while (!IsOp(")")) {
    const SourceLoc begin = Now().loc;
    if (TakeOp("**")) {
      ast::Keyword keyword;
      keyword.loc = begin;
      KILN_ASSIGN_OR_RETURN(keyword.value, ParseTest());
      Raise(node, keyword.value);
      node->keywords.push_back(std::move(keyword));
    } else if (Now().kind == TokenKind::kName && Ahead().Is("=") && !IsKeyword(Now().text)) {
      ast::Keyword keyword;
      keyword.loc = begin;
      keyword.name = NameOf(Now());
      pos_ += 2;
      KILN_ASSIGN_OR_RETURN(keyword.value, ParseTest());
      Raise(node, keyword.value);
      node->keywords.push_back(std::move(keyword));
    } else {
      KILN_ASSIGN_OR_RETURN(ExprPtr argument, ParseStarredOrNamed());
      if (AtComprehension()) {
        auto* generator = ast_->New<ast::Comprehension>(begin);
        generator->result = ast::Comprehension::kGenerator;
        generator->element = argument;
        Raise(generator, argument);
        KILN_RETURN_IF_ERROR(ParseClauses(generator));
        KILN_ASSIGN_OR_RETURN(argument, Close(generator, begin));
      }
      node->args.push_back(argument);
      Raise(node, argument);
    }
    if (!TakeOp(",")) break;
  }
  KILN_RETURN_IF_ERROR(Expect(")", "to end the call"));
  return Close(node, callee->loc);
}

absl::StatusOr<ExprPtr> Parser::ParseSliceItem() {
  const SourceLoc begin = Now().loc;
  ExprPtr first = nullptr;
  if (!IsOp(":")) {
    KILN_ASSIGN_OR_RETURN(first, ParseStarredOrNamed());
    if (!IsOp(":")) return first;
  }
  auto* node = ast_->New<ast::Slice>(begin);
  node->start = first;
  ++pos_;
  auto at_end = [&]() { return IsOp(":") || IsOp(",") || IsOp("]"); };
  if (!at_end()) {
    KILN_ASSIGN_OR_RETURN(node->stop, ParseTest());
  }
  if (TakeOp(":") && !at_end()) {
    KILN_ASSIGN_OR_RETURN(node->step, ParseTest());
  }
  return Finish(node, begin, {node->start, node->stop, node->step});
}

absl::StatusOr<ExprPtr> Parser::ParseSubscript(ExprPtr base) {
  auto* node = ast_->New<ast::Subscript>(base->loc);
  node->value = base;
  Raise(node, base);
  ++pos_;
  if (IsOp("]")) return Unexpected("an index");
  while (!IsOp("]")) {
    KILN_ASSIGN_OR_RETURN(ExprPtr item, ParseSliceItem());
    node->indices.push_back(item);
    Raise(node, item);
    if (!TakeOp(",")) break;
    node->is_tuple = true;
  }
  KILN_RETURN_IF_ERROR(Expect("]", "to end the subscript"));
  return Close(node, base->loc);
}

absl::StatusOr<ExprPtr> Parser::ParseAtom() {
  const Token& token = Now();
  const SourceLoc begin = token.loc;
  auto constant = [&](ast::ConstantType type) {
    auto* node = ast_->New<ast::Constant>(begin);
    node->type = type;
    ++pos_;
    return node;
  };
  switch (token.kind) {
    case TokenKind::kInt: {
      if (token.too_big) {
        ++pos_;
        if (token.beyond) {
          return MakeUnsupported(
              begin, "an integer literal above 64 bits",
              "kernel integers are 64-bit and signed; write the value as a float or split it", 0);
        }
        auto* literal = ast_->New<ast::Unsupported>(begin);
        literal->what = "an integer literal above 2^63 - 1";
        literal->remedy = absl::StrCat("kernel integers are 64-bit and signed; write T.uint64(",
                                       token.text, ") for all of 64 bits");
        literal->bits = static_cast<uint64_t>(token.int_value);
        literal->depth = 1;
        return Close(literal, begin);
      }
      auto* node = constant(ast::ConstantType::kInt);
      node->int_value = token.int_value;
      return node;
    }
    case TokenKind::kFloat: {
      auto* node = constant(ast::ConstantType::kFloat);
      node->float_value = token.float_value;
      return node;
    }
    case TokenKind::kImaginary:
      ++pos_;
      return MakeUnsupported(begin, "a complex number", "keep real and imaginary parts apart", 0);
    case TokenKind::kBytes:
      while (Now().kind == TokenKind::kBytes) ++pos_;
      return MakeUnsupported(begin, "a bytes literal", "use a string", 0);
    case TokenKind::kString:
    case TokenKind::kFString:
      return ParseStrings();
    case TokenKind::kName:
      break;
    default:
      if (token.Is("(")) return ParseParenthesised();
      if (token.Is("[")) return ParseListDisplay();
      if (token.Is("{")) return ParseBraces();
      if (token.Is("...")) return constant(ast::ConstantType::kEllipsis);
      return Unexpected("an expression");
  }
  if (token.text == "None") return constant(ast::ConstantType::kNone);
  if (token.text == "True" || token.text == "False") {
    auto* node = constant(ast::ConstantType::kBool);
    node->int_value = token.text == "True";
    return node;
  }
  if (IsKeyword(token.text)) return Unexpected("an expression");
  ++pos_;
  return ast_->New<ast::Name>(begin, NameOf(token));
}

absl::StatusOr<ExprPtr> Parser::ParseLambda() {
  const SourceLoc begin = Now().loc;
  ++pos_;
  auto* node = ast_->New<ast::Lambda>(begin);
  KILN_ASSIGN_OR_RETURN(node->params, ParseParams(":", /*annotations=*/false));
  KILN_RETURN_IF_ERROR(Expect(":", "before the body of the lambda"));
  KILN_ASSIGN_OR_RETURN(node->body, ParseTest());
  return Finish(node, begin, {node->body});
}

absl::StatusOr<ExprPtr> Parser::ParseYield() {
  const SourceLoc begin = Now().loc;
  ++pos_;
  saw_yield_ = true;
  auto* node = ast_->New<ast::Yield>(begin);
  node->from = TakeWord("from");
  if (AtStatementEnd() || IsOp(")") || IsOp("]") || IsOp("}") || IsOp("=")) {
    return Close(node, begin);
  }
  KILN_ASSIGN_OR_RETURN(node->value, ParseExpressionList(true));
  return Finish(node, begin, {node->value});
}

absl::StatusOr<ExprPtr> Parser::ParseParenthesised() {
  const SourceLoc begin = Now().loc;
  ++pos_;
  if (TakeOp(")")) return Close(ast_->New<ast::Tuple>(begin), begin);
  KILN_ASSIGN_OR_RETURN(ExprPtr first, ParseStarredOrNamed());
  if (AtComprehension()) {
    auto* node = ast_->New<ast::Comprehension>(begin);
    node->result = ast::Comprehension::kGenerator;
    node->element = first;
    Raise(node, first);
    KILN_RETURN_IF_ERROR(ParseClauses(node));
    KILN_RETURN_IF_ERROR(Expect(")", "to end the generator"));
    return Close(node, begin);
  }
  if (!IsOp(",")) {
    KILN_RETURN_IF_ERROR(Expect(")", "to close the parenthesis"));
    if (first->kind == ast::ExprKind::kStarred) {
      return Error(first->loc, "a starred expression outside a tuple or call", "write (*x,)");
    }
    return first;
  }
  auto* tuple = ast_->New<ast::Tuple>(begin);
  tuple->items.push_back(first);
  Raise(tuple, first);
  while (TakeOp(",") && !IsOp(")")) {
    KILN_ASSIGN_OR_RETURN(ExprPtr item, ParseStarredOrNamed());
    tuple->items.push_back(item);
    Raise(tuple, item);
  }
  KILN_RETURN_IF_ERROR(Expect(")", "to end the tuple"));
  return Close(tuple, begin);
}

absl::StatusOr<ExprPtr> Parser::ParseListDisplay() {
  const SourceLoc begin = Now().loc;
  ++pos_;
  auto* list = ast_->New<ast::List>(begin);
  while (!IsOp("]")) {
    KILN_ASSIGN_OR_RETURN(ExprPtr item, ParseStarredOrNamed());
    if (list->items.empty() && AtComprehension()) {
      auto* node = ast_->New<ast::Comprehension>(begin);
      node->element = item;
      Raise(node, item);
      KILN_RETURN_IF_ERROR(ParseClauses(node));
      KILN_RETURN_IF_ERROR(Expect("]", "to end the comprehension"));
      return Close(node, begin);
    }
    list->items.push_back(item);
    Raise(list, item);
    if (!TakeOp(",")) break;
  }
  KILN_RETURN_IF_ERROR(Expect("]", "to end the list"));
  return Close(list, begin);
}

absl::StatusOr<ExprPtr> Parser::ParseBraces() {
  const SourceLoc begin = Now().loc;
  ++pos_;
  auto* dict = ast_->New<ast::Dict>(begin);
  auto* set = ast_->New<ast::Set>(begin);
  while (!IsOp("}")) {
    ExprPtr key = nullptr, value = nullptr;
    bool pair = true;
    if (TakeOp("**")) {
      KILN_ASSIGN_OR_RETURN(value, ParseOperators(kComparison + 1));
    } else {
      KILN_ASSIGN_OR_RETURN(key, ParseStarredOrNamed());
      pair = TakeOp(":");
      if (pair) {
        KILN_ASSIGN_OR_RETURN(value, ParseTest());
      }
    }
    if (dict->values.empty() && set->items.empty() && AtComprehension()) {
      auto* node = ast_->New<ast::Comprehension>(begin);
      node->result = pair ? ast::Comprehension::kDictResult : ast::Comprehension::kSetResult;
      node->key = pair ? key : nullptr;
      node->element = pair ? value : key;
      Raise(node, node->key);
      Raise(node, node->element);
      KILN_RETURN_IF_ERROR(ParseClauses(node));
      KILN_RETURN_IF_ERROR(Expect("}", "to end the comprehension"));
      return Close(node, begin);
    }
    if (pair ? !set->items.empty() : !dict->values.empty()) {
      return Error(begin, "a set and a dict in one display", "give every element a value, or none");
    }
    if (pair) {
      dict->keys.push_back(key);
      dict->values.push_back(value);
      Raise(dict, key);
      Raise(dict, value);
    } else {
      set->items.push_back(key);
      Raise(set, key);
    }
    if (!TakeOp(",")) break;
  }
  KILN_RETURN_IF_ERROR(Expect("}", "to end the display"));
  if (!set->items.empty()) return Close(set, begin);
  return Close(dict, begin);
}

bool Parser::AtComprehension() const {
  return IsWord("for") || (IsWord("async") && Ahead().IsWord("for"));
}

absl::Status Parser::ParseClauses(ast::Comprehension* node) {
  while (AtComprehension()) {
    ast::ForClause clause;
    clause.is_async = TakeWord("async");
    ++pos_;
    KILN_ASSIGN_OR_RETURN(clause.target, ParseTargetList());
    if (!TakeWord("in")) return Unexpected("'in'");
    KILN_ASSIGN_OR_RETURN(clause.iterable, ParseOperators(kOr));
    Raise(node, clause.iterable);
    while (TakeWord("if")) {
      KILN_ASSIGN_OR_RETURN(ExprPtr condition, ParseOperators(kOr));
      clause.conditions.push_back(condition);
      Raise(node, condition);
    }
    node->clauses.push_back(std::move(clause));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExprPtr> Parser::ParseTargetList() {
  const SourceLoc begin = Now().loc;
  auto one = [&]() -> absl::StatusOr<ExprPtr> {
    if (IsOp("*")) return ParseStarredOrNamed();
    return ParseOperators(kComparison + 1);
  };
  KILN_ASSIGN_OR_RETURN(ExprPtr first, one());
  if (IsOp(",")) {
    auto* tuple = ast_->New<ast::Tuple>(begin);
    tuple->items.push_back(first);
    while (TakeOp(",") && !IsWord("in") && !IsOp("=")) {
      KILN_ASSIGN_OR_RETURN(ExprPtr item, one());
      tuple->items.push_back(item);
      Raise(tuple, item);
    }
    KILN_ASSIGN_OR_RETURN(first, Close(tuple, begin));
  }
  KILN_RETURN_IF_ERROR(CheckTarget(first));
  return first;
}

absl::StatusOr<ExprPtr> Parser::ParseStrings() {
  const SourceLoc begin = Now().loc;
  std::string text;
  ast::FString* format = nullptr;
  while (Now().kind == TokenKind::kString || Now().kind == TokenKind::kFString) {
    if (Now().kind == TokenKind::kString) {
      text += Now().value;
      ++pos_;
      continue;
    }
    if (format == nullptr) format = ast_->New<ast::FString>(begin);
    ast::FStringPart lead;
    lead.literal = std::move(text);
    text.clear();
    format->parts.push_back(std::move(lead));
    KILN_RETURN_IF_ERROR(ParsePieces(Now().pieces, &format->parts, format));
    ++pos_;
  }
  if (format != nullptr) {
    ast::FStringPart tail;
    tail.literal = std::move(text);
    format->parts.push_back(std::move(tail));
    return Close(format, begin);
  }
  auto* node = ast_->New<ast::Constant>(begin);
  node->type = ast::ConstantType::kStr;
  node->text = std::move(text);
  return Close(node, begin);
}

absl::Status Parser::ParsePieces(const std::vector<FPiece>& pieces,
                                 std::vector<ast::FStringPart>* parts, ast::Expr* owner) {
  Nest nest(this);
  KILN_RETURN_IF_ERROR(CheckDepth());
  for (const FPiece& piece : pieces) {
    ast::FStringPart part;
    part.literal = piece.literal;
    part.conversion = piece.conversion;
    if (piece.has_value) {
      KILN_ASSIGN_OR_RETURN(std::vector<Token> tokens,
                            TokenizeRange(file_, piece.begin, piece.end, piece.loc, limits_.depth));
      Parser inner(file_, std::move(tokens), limits_, ast_);
      inner.depth_ = depth_;
      inner.class_ = class_;
      KILN_ASSIGN_OR_RETURN(part.value, inner.ParseWholeExpression());
      Raise(owner, part.value);
      if (piece.echo_end > 0) {
        part.echo = file_.text.substr(piece.begin, piece.echo_end - piece.begin);
      }
      KILN_RETURN_IF_ERROR(ParsePieces(piece.format, &part.format, owner));
    }
    parts->push_back(std::move(part));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ast::Param>> Parser::ParseParams(absl::string_view close,
                                                            bool annotations) {
  std::vector<ast::Param> params;
  bool keyword_only = false;
  while (!IsOp(close)) {
    ast::Param param;
    param.loc = Now().loc;
    if (TakeOp("/")) {
      for (ast::Param& earlier : params) earlier.kind = ast::ParamKind::kPositionalOnly;
      if (!TakeOp(",")) break;
      continue;
    }
    if (TakeOp("**")) {
      param.kind = ast::ParamKind::kVarKeywords;
    } else if (TakeOp("*")) {
      keyword_only = true;
      if (TakeOp(",")) continue;
      param.kind = ast::ParamKind::kVarArgs;
    } else if (keyword_only) {
      param.kind = ast::ParamKind::kKeywordOnly;
    }
    KILN_ASSIGN_OR_RETURN(const Token name, ExpectName("a parameter name"));
    param.name = NameOf(name);
    param.loc = name.loc;
    for (const ast::Param& earlier : params) {
      if (earlier.name == param.name) {
        return Error(name.loc, absl::StrCat("parameter '", param.name, "' appears twice"),
                     "rename one of them");
      }
    }
    if (annotations && TakeOp(":")) {
      KILN_ASSIGN_OR_RETURN(param.annotation, ParseStarredOrNamed());
    }
    if (TakeOp("=")) {
      KILN_ASSIGN_OR_RETURN(param.default_value, ParseTest());
    }
    params.push_back(std::move(param));
    if (!TakeOp(",")) break;
  }
  return params;
}

absl::StatusOr<ExprPtr> Parser::ParseWholeExpression() {
  KILN_ASSIGN_OR_RETURN(ExprPtr value, ParseExpressionList(true));
  if (Now().kind == TokenKind::kNewline) ++pos_;
  if (Now().kind != TokenKind::kEnd) return Unexpected("the end of the expression");
  return value;
}

}  // namespace kiln::lang
